/*
 * tests/unit/router/support/replica_bed.h -- routers of a group on a simulated bus, in simulated
 * time.
 *
 * Why: loss, duplication, delay, partitions and deaths must come from a seed, thousands of messages
 * a millisecond of real time.
 * Ownership: the bed owns all; bed_free().
 * Limits:    the names below.
 */
#ifndef TESTS_UNIT_ROUTER_SUPPORT_REPLICA_BED_H
#define TESTS_UNIT_ROUTER_SUPPORT_REPLICA_BED_H

#include "wire/message/route_sync.h"

#include "router/replica.h"
#include "tests/support/seed.h"

enum {
    BED_ROUTERS_MAX = 4,
    BED_WORKERS = 6,
    BED_BEAT_MS = 100,
    BED_TICK_MS = 25,
    BED_JOIN_MS = 1000,
    BED_GONE_MS = 1500,
};

struct bed_network {
    unsigned loss_percent;
    unsigned twice_percent;
    uint64_t delay_ms; /* at most */
    /* False: the message is lost; NULL: none is, but by chance. */
    bool (*pass)(void *arg, const struct wire_route_sync *message, int from, int to);
    void *arg;
};

struct bed_message {
    struct bed_message *next;
    uint64_t at_ms;
    int to;
    size_t size;
    uint8_t bytes[];
};

struct group_bed;

struct bed_router {
    struct group_bed *bed;
    int number;
    bool up;
    uint64_t clock_ms; /* its clock is so far from the bed's */
    uint64_t incarnation;
    struct router_request_table *slots;
    struct router_replica *replica;
};

struct group_bed {
    uint64_t random;
    uint64_t now_ms;
    uint64_t expiry_ms;
    uint64_t messages; /* that were sent to somebody */
    struct bed_network network;
    struct bed_message *under_way; /* by when they come */
    int count;
    bool apart[BED_ROUTERS_MAX][BED_ROUTERS_MAX]; /* they do not hear each other */
    struct bed_router routers[BED_ROUTERS_MAX];
};

struct group_bed *bed_new(uint64_t seed, int count, uint64_t expiry_ms);
void bed_free(struct group_bed *bed);

void bed_start(struct group_bed *bed, int number);
/** Another replica on a router's table, on this bus: `options` less its send. */
void bed_adopt(struct group_bed *bed, int number, struct router_replica_options *options);
/** kill -9: all it knew is gone; what it sent is under way. */
void bed_kill(struct group_bed *bed, int number);
/** Let time pass: messages come, and each router ticks. */
void bed_run(struct group_bed *bed, uint64_t ms);
/** Until all that are up say that they agree and have one digest, for at most `ms`. */
bool bed_settle(struct group_bed *bed, uint64_t ms);

/** A request of a number, with a prompt and a worker that follow from it. */
void bed_request(struct router_request *request, uint64_t *hashes, uint64_t number);
enum { BED_HASHES_MAX = 24 };

/* Steps of a request that a router is told of. */
void bed_add(struct group_bed *bed, int number, uint64_t request);
void bed_prefilled(struct group_bed *bed, int number, uint64_t request);
void bed_end(struct group_bed *bed, int number, uint64_t request);

/** The router sees that a worker, of BED_WORKERS, lives anew. */
void bed_left(struct group_bed *bed, int number, int worker);

uint64_t bed_live(const struct group_bed *bed, int number);
struct router_replica_stats bed_stats(const struct group_bed *bed, int number);
/** The columns of two routers are the same. */
void bed_check_same_load(struct group_bed *bed, int a, int b);

#endif /* TESTS_UNIT_ROUTER_SUPPORT_REPLICA_BED_H */
