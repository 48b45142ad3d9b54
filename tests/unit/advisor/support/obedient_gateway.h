/*
 * tests/unit/advisor/support/obedient_gateway.h -- a gateway that does at once what it is told, in
 * RAM.
 *
 * Why: what the planner decides over a long time is tested in a moment, by a clock of the test's.
 * Ownership: the test's.
 * Threads:   one.
 * Limits:    OBEDIENT_BLOCKS blocks of OBEDIENT_SIZE bytes in OBEDIENT_OWNERS namespaces at most
 *            (all in the first, unless the test says otherwise before it stores them); one hot
 *            volume ("hot@gw0") and one bucket ("cold@b"), or with `tiers` a second of each
 *            ("warm@gw0", "cold@far").  Time stays behind the program's clock.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_OBEDIENT_GATEWAY_H
#define TESTS_UNIT_ADVISOR_SUPPORT_OBEDIENT_GATEWAY_H

#include "tests/unit/advisor/support/rig.h"

enum { OBEDIENT_BLOCKS = 8192, OBEDIENT_SIZE = 1000 };
enum { OBEDIENT_HOT, OBEDIENT_COLD, OBEDIENT_TIERS, OBEDIENT_WARM = OBEDIENT_TIERS };
enum { OBEDIENT_FAR = OBEDIENT_WARM + 1, OBEDIENT_TIERS_MAX };
enum { OBEDIENT_OWNERS = 3 };

extern const char *const obedient_owners[OBEDIENT_OWNERS];

struct obedient {
    struct test_rig rig;
    char folder[256];
    uint64_t now_ms;
    uint64_t event_seq[OBEDIENT_OWNERS];
    uint8_t owner[OBEDIENT_BLOCKS]; /* of obedient_owners */
    bool has_policy;
    uint64_t stream_seq;
    uint64_t report_seq;
    uint64_t pin_round;
    int tiers;                             /* that it has: OBEDIENT_TIERS unless set */
    uint64_t capacity[OBEDIENT_TIERS_MAX]; /* bytes */
    bool held[OBEDIENT_TIERS_MAX][OBEDIENT_BLOCKS];
    bool pinned[OBEDIENT_BLOCKS];     /* is not let go */
    uint32_t parent[OBEDIENT_BLOCKS]; /* number + 1; 0: none */
    uint32_t depth[OBEDIENT_BLOCKS];
    uint64_t orders;                                        /* that were obeyed */
    uint64_t moved[16];                                     /* blocks by verb */
    uint64_t edges[OBEDIENT_TIERS_MAX][OBEDIENT_TIERS_MAX]; /* blocks that went between them */
    uint64_t copied; /* blocks of orders to keep what lies above */
    uint64_t refused;
    bool twice; /* each order is done twice, the second time without being looked at */
    bool terse; /* its events name no parents, as a gateway's do that knows a part of them only */
    uint64_t worker_seq; /* of the worker's last event */
    struct kvt_event events[OBEDIENT_BLOCKS];
    struct kvt_report_access accesses[KVT_REPORT_ACCESSES_MAX];
    uint64_t compacted[OBEDIENT_OWNERS]; /* orders to pack, by namespace */
    /* Called for each item before it is done; NULL: nobody. */
    void (*look)(void *arg, const struct kvt_order *order, size_t block);
    void *arg;
};

/** `policy`: its text, NULL: the usual watermarks.  Chains of `chain` blocks. */
struct obedient *obedient_new(const char *policy, const struct kvt_ordering *ordering,
                              uint32_t chain);
struct obedient *obedient_new_with(const char *policy, const struct kvt_ordering *ordering,
                                   uint64_t promote_after, uint32_t chain);
/** A full hot volume of `blocks` blocks, all of them in the bucket too. */
struct obedient *obedient_full(uint32_t chain, uint32_t blocks, const char *policy);
void obedient_free(struct obedient *gateway);
/** The advisor ends and comes back with what is on disk. */
void obedient_restart(struct obedient *gateway);
/** Another policy is in force. */
void obedient_install(struct obedient *gateway, const char *policy);

/** Blocks came to a tier or went from it. */
void obedient_publish(struct obedient *gateway, int tier, const uint32_t *blocks, size_t count,
                      bool store);
void obedient_store(struct obedient *gateway, int tier, uint32_t from, uint32_t to);
/** A worker has them, all of one owner, in its memory; it knows their parents. */
void obedient_hold(struct obedient *gateway, const uint32_t *blocks, size_t count);
/** They, all of one owner, were read from there. */
void obedient_read(struct obedient *gateway, int tier, const uint32_t *blocks, size_t count);

/** The gateway tells its pins, in reports of `page` rows; `lost`: the report with that number is
 *  (UINT32_MAX: none). */
void obedient_tell_pins(struct obedient *gateway, uint32_t page, uint32_t lost);

uint64_t obedient_used_by(const struct obedient *gateway, int tier, uint8_t owner);
/** Where an order moves from and to; false: it deletes, or pins. */
bool obedient_ends(const struct kvt_order *order, int *from, int *to);

uint64_t obedient_used(const struct obedient *gateway, int tier);

/** Time passes; the gateway reports, the planner looks, and what it orders is done.  How many
 *  blocks were meant. */
size_t obedient_step(struct obedient *gateway, uint64_t ms);
/** So many steps. */
void obedient_run(struct obedient *gateway, int steps, uint64_t ms);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_OBEDIENT_GATEWAY_H */
