/*
 * kvbm/attach/attach_protocol.h -- what an engine and a worker say to each other (docs/formats.md,
 * "Attached engines").
 *
 * Why: the two are built at different times; sizes and version are said before anything else, and
 * every record has its size.
 *
 * Over the socket (SOCK_SEQPACKET, one message each): greeting from the worker, hello with the
 * engine's memory, answer with the rings' memory.  After that a byte over it, either way, wakes
 * whoever sleeps, and its end is the end of the attachment.  Over the rings: requests and
 * completions, one for each request, in the order of the requests.
 *
 * Both run on one machine: numbers are the machine's.
 *
 * Threads:   no shared state.
 * Limits:    the names below.
 */
#ifndef KVBM_ATTACH_ATTACH_PROTOCOL_H
#define KVBM_ATTACH_ATTACH_PROTOCOL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kvbm/attach/ring.h"
#include "kvbm/layout/block_layout.h"
#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/kvbm.h"

#define KVBM_ATTACH_MAGIC   "KVTATTA\n" /* 8 bytes */
#define KVBM_ATTACH_VERSION 1

#define KVBM_ATTACH_RING        (UINT64_C(1) << 17) /* bytes of each ring */
#define KVBM_ATTACH_CONTROL     4096                /* bytes before them */
#define KVBM_ATTACH_MEMORY      (KVBM_ATTACH_CONTROL + 2 * KVBM_ATTACH_RING)
#define KVBM_ATTACH_REQUEST_MAX 512 /* blocks in one request */

enum kvbm_attach_kind { KVBM_ATTACH_GREETING = 1, KVBM_ATTACH_HELLO = 2, KVBM_ATTACH_ANSWER = 3 };

/* How each of the three messages begins. */
struct kvbm_attach_head {
    char magic[8];
    uint32_t version;
    uint32_t kind; /* enum kvbm_attach_kind */
    uint32_t size; /* of the whole message */
    uint32_t zero;
};

struct kvbm_attach_greeting {
    struct kvbm_attach_head head;
    uint64_t memory;     /* bytes of the rings' memory */
    uint64_t ring;       /* bytes of each */
    uint32_t blocks_max; /* an engine may have */
    uint32_t request_max;
    uint8_t layout[KVBM_LAYOUT_BYTES]; /* the worker's descriptor */
};

struct kvbm_attach_hello {
    struct kvbm_attach_head head;
    uint32_t block_count;
    uint32_t zero;
    uint8_t layout[KVBM_LAYOUT_BYTES]; /* the engine's */
};

struct kvbm_attach_answer {
    struct kvbm_attach_head head;
    uint32_t status; /* enum kvt_err; the rings come with KVT_OK only */
    uint32_t slot;   /* which of the worker's engines this is */
    char text[KVT_ERROR_TEXT_MAX];
};

static inline struct kvbm_attach_head
kvbm_attach_head(enum kvbm_attach_kind kind, size_t size)
{
    struct kvbm_attach_head head = {
        .version = KVBM_ATTACH_VERSION,
        .kind = (uint32_t)kind,
        .size = (uint32_t)size,
    };

    memcpy(head.magic, KVBM_ATTACH_MAGIC, sizeof(head.magic));
    return head;
}

/** KVT_OK, KVT_INVALID (not that message) or KVT_UNSUPPORTED (of another version). */
static inline enum kvt_err
kvbm_attach_head_check(const struct kvbm_attach_head *head, enum kvbm_attach_kind kind,
                       size_t expected, size_t size)
{
    if (size < sizeof(*head) || memcmp(head->magic, KVBM_ATTACH_MAGIC, sizeof(head->magic)) != 0)
        return KVT_INVALID;
    if (head->version != KVBM_ATTACH_VERSION)
        return KVT_UNSUPPORTED;
    return head->kind == (uint32_t)kind && head->size == size && size == expected ? KVT_OK
                                                                                  : KVT_INVALID;
}

/* What is at the beginning of the rings' memory. */
struct kvbm_attach_control {
    struct kvbm_ring_shared requests;
    struct kvbm_ring_shared completions;
};
static_assert(sizeof(struct kvbm_attach_control) <= KVBM_ATTACH_CONTROL, "control is one page");

enum kvbm_attach_op {
    KVBM_ATTACH_ALLOCATE = 1, /* value: how many -> handles */
    KVBM_ATTACH_REGISTER = 2, /* entries; value: 1 = offload -> results */
    KVBM_ATTACH_DROP = 3,     /* handles -> value: how many went */
    KVBM_ATTACH_MATCH = 4,    /* hashes -> handles; value: blocks found in any local tier */
    KVBM_ATTACH_ONBOARD = 5,  /* names; value: ms -> handles */
    KVBM_ATTACH_PREFETCH = 6, /* names -> */
    KVBM_ATTACH_STEP = 7,     /* -> value: blocks that wait for their way down */
    KVBM_ATTACH_DRAIN = 8,    /* value: ms -> value: blocks that still wait */
    KVBM_ATTACH_CLEAR = 9,    /* -> value: blocks that went */
    KVBM_ATTACH_STATS = 10,   /* -> numbers */
    KVBM_ATTACH_OP_END
};

/* A request and, with `status`, a completion; items follow. */
struct kvbm_attach_record {
    uint64_t id; /* the request's; its completion has it too */
    uint32_t op;
    uint32_t status; /* enum kvt_err; 0 in a request */
    uint32_t count;  /* items */
    uint32_t zero;
    uint64_t value;
};

struct kvbm_attach_name {
    uint64_t hash;
    uint64_t parent;
    uint64_t prefix_hash;
    uint64_t tokens_hash;
    uint32_t position;
    uint32_t zero;
};

struct kvbm_attach_entry {
    struct kvt_handle handle;
    struct kvbm_attach_name name;
};

struct kvbm_attach_result {
    struct kvt_handle handle; /* none where the status is neither OK nor EXISTS */
    uint32_t status;
    uint32_t zero;
};

/* A record with its items, as either side keeps it to itself. */
struct kvbm_attach_message {
    struct kvbm_attach_record head;
    union {
        struct kvt_handle handles[KVBM_ATTACH_REQUEST_MAX];
        struct kvbm_attach_entry entries[KVBM_ATTACH_REQUEST_MAX];
        struct kvbm_attach_name names[KVBM_ATTACH_REQUEST_MAX];
        struct kvbm_attach_result results[KVBM_ATTACH_REQUEST_MAX];
        uint64_t numbers[KVBM_ATTACH_REQUEST_MAX];
    };
};
static_assert(sizeof(struct kvbm_attach_message) <= KVBM_ATTACH_RING / 4 - 8, "a record fits");

/* In the order of their numbers; more may follow. */
#define KVBM_ATTACH_STATS_MAP(X)                                                                   \
    X(blocks)                                                                                      \
    X(free)                                                                                        \
    X(active)                                                                                      \
    X(inactive)                                                                                    \
    X(registered)                                                                                  \
    X(waiting)   /* blocks on their way down */                                                    \
    X(offloaded) /* blocks copied down */                                                          \
    X(present)   /* ... that were there already */                                                 \
    X(failed)    /* ... that could not be */                                                       \
    X(onboarded) /* blocks copied up, as needed */                                                 \
    X(prefetched)                                                                                  \
    X(refused) /* requests that were no good */

enum {
#define X(name) KVBM_ATTACH_STAT_##name,
    KVBM_ATTACH_STATS_MAP(X)
#undef X
        KVBM_ATTACH_STATS_COUNT
};

static_assert(sizeof(struct kvbm_attach_record) == 32, "said in docs/formats.md");
static_assert(sizeof(struct kvbm_attach_entry) == 48, "said in docs/formats.md");
static_assert(sizeof(struct kvbm_attach_result) == 16, "said in docs/formats.md");

#endif /* KVBM_ATTACH_ATTACH_PROTOCOL_H */
