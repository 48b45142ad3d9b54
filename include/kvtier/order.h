/*
 * kvtier/order.h -- what the advisor tells a gateway to do, and what comes back.
 *
 * Why: deciding and moving are two programs, so the decision must survive a crash of either: an
 * order is a message on a work queue, idempotent, addressed to one gateway, signed, and expiring.
 * The byte format is wire/message/signed_order.h and docs/formats.md.
 *
 * Ownership: plain values; an order borrows its item array.
 * Threads:   no shared state.
 * Limits:    KVT_ORDER_ITEMS_MAX blocks in one order.
 *
 * A DELETE also carries its cause, which the gateway checks against its own catalog before it
 * removes anything (gateway/bus/delete_guard.h).
 */
#ifndef KVTIER_ORDER_H
#define KVTIER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_ORDER_ITEMS_MAX 1024

/* X(name, text): a verb a gateway can execute on its objects.  Demotions, promotions and WARM move
 * the copy that lies in `from` to `to`; without names that is between hot volume and bucket. */
#define KVT_ORDER_VERBS(X)                                                                         \
    X(DEMOTE, "demote")   /* down: verify or make the lower copy, then drop the upper one */       \
    X(PROMOTE, "promote") /* up: copy, verify; from a bucket to a volume the lower one stays */    \
    X(DELETE, "delete")   /* two-phase removal from hot and cold */                                \
    X(COMPACT, "compact") /* pack the namespace's small blocks; without items */                   \
    X(PIN, "pin")         /* no order demotes or deletes it, until `until_ms` or an unpin */       \
    X(UNPIN, "unpin")     /* take the pin off */                                                   \
    X(WARM, "warm")       /* promote ahead of use, where there is room */

#define KVT_ORDER_VERB_LAST KVT_ORDER_WARM

enum kvt_order_verb {
    KVT_ORDER_NONE = 0,
#define X(name, text) KVT_ORDER_##name,
    KVT_ORDER_VERBS(X)
#undef X
};

/* X(name, text): why a block is to be deleted. */
#define KVT_DELETE_CAUSES(X)                                                                       \
    X(OTHER, "other")   /* not stated, as by an advisor of a release before it was */              \
    X(ROOM, "room")     /* a rule drains a tier that is above its stop mark */                     \
    X(QUOTA, "quota")   /* a tenant has more than its quota */                                     \
    X(EXPIRE, "expire") /* a rule without watermarks */                                            \
    X(JOB, "job")       /* a person asked for it */

enum kvt_delete_cause_kind {
#define X(name, text) KVT_DELETE_##name,
    KVT_DELETE_CAUSES(X)
#undef X
        KVT_DELETE_CAUSE_COUNT
};

/* Members that its kind does not need are 0 or "". */
struct kvt_delete_cause {
    enum kvt_delete_cause_kind kind;
    uint64_t policy_version; /* ROOM, QUOTA, EXPIRE */
    char rule[KVT_NAME_MAX]; /* of that version */
    uint64_t job;            /* JOB */
    char tier[KVT_NAME_MAX]; /* ROOM: a holder of the gateway's reports, as "cold@near" */
    uint32_t stop_ppm;       /* ROOM: the rule's stop mark, in millionths of the tier's capacity */
    uint64_t capacity;       /* ROOM: the policy's capacity of the tier, in bytes; 0: it has none */
};

struct kvt_order_item {
    struct kvt_block_id block;
    uint32_t ranks; /* bitmap of the shards meant */
};

struct kvt_order {
    char gateway[KVT_NAME_MAX];
    char namespace_[KVT_NAMESPACE_MAX];
    uint64_t epoch;     /* of the issuer; a gateway refuses one below the highest it has seen */
    uint64_t id;        /* unique in the epoch, increasing */
    uint64_t issued_ms; /* Unix milliseconds */
    uint64_t expires_ms;
    enum kvt_order_verb verb;
    char reason[KVT_NAME_MAX];     /* the rule that asked, for people */
    uint64_t until_ms;             /* PIN only: Unix milliseconds when it ends; 0: with an unpin */
    struct kvt_delete_cause cause; /* DELETE only */
    /* Moves only: two holders of that gateway's reports, as "hot@g1" and "warm@g1".  Both "": the
     * hot volume and the bucket, in the direction of the verb. */
    char from[KVT_NAME_MAX];
    char to[KVT_NAME_MAX];
    bool keep; /* what lies in `from`, which is named, stays: a copy made ahead of a demotion */
    struct kvt_order_item *items;
    uint32_t item_count;
};

struct kvt_order_result {
    uint64_t epoch;
    uint64_t id;
    enum kvt_order_verb verb;
    enum kvt_err code; /* KVT_OK: finished, though single items may have failed */
    uint32_t done;     /* items whose effect holds now, already or newly */
    uint32_t failed;
    uint64_t bytes_moved;
    char text[128]; /* first failure, for people */
};

/** Does it move copies from a tier to another, so that `from` and `to` mean something? */
static inline bool
kvt_order_verb_moves(enum kvt_order_verb verb)
{
    return verb == KVT_ORDER_DEMOTE || verb == KVT_ORDER_PROMOTE || verb == KVT_ORDER_WARM;
}

/** The text of its row above, as "demote"; "none" otherwise. */
const char *kvt_order_verb_name(enum kvt_order_verb verb);

/** The text of its row above, as "room"; "other" otherwise. */
const char *kvt_delete_cause_name(enum kvt_delete_cause_kind kind);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_ORDER_H */
