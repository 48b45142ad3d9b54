/*
 * engine/connector/connector_internal.h -- requests and transfers; only connector*.c include this.
 *
 * Why: connector.c has the life of requests, connector_build.c what is ordered, connector_report.c
 * what comes of it.
 *
 * A *transfer* is what one request loads or saves in one iteration.  It holds its blocks of G2 from
 * the order until every rank has said how it ended.
 *
 * Blocks of G1 that are being loaded, or whose load has failed, are marked (`loading`): what is
 * computed on top of them depends on how that ends.  A mark goes when the load has ended well, or
 * somebody computes the block.
 *
 * Ownership: the connector owns all of it.
 * Threads:   as engine/connector/connector.h.
 * Limits:    ENGINE_META_TRANSFERS_MAX transfers; TRANSFER_DEPENDS_MAX loads that one save rests
 *            on.
 */
#ifndef ENGINE_CONNECTOR_CONNECTOR_INTERNAL_H
#define ENGINE_CONNECTOR_CONNECTOR_INTERNAL_H

#include "kvbm/pool/block_map.h"

#include "engine/connector/connector.h"

enum {
    REQUEST_BUCKETS = 8192, /* a power of two */
    TRANSFER_DEPENDS_MAX = 8,
};

#define LOADING_FAILED UINT64_MAX /* a mark */

struct engine_request {
    char id[ENGINE_REQUEST_ID_MAX];
    struct engine_request *next; /* of its bucket */
    struct kvt_sequence *sequence;
    struct engine_match *match; /* NULL: none, or not any more */
    bool known;                 /* what it found */
    uint32_t from, found;       /* ... which is blocks [from, from + found) */
    size_t computed;            /* tokens, when it was asked about last */
    uint32_t *table;            /* its blocks of G1, by position */
    size_t table_count, table_capacity;
    uint32_t saved;         /* positions below this one need not be looked at again */
    struct kvt_handle *due; /* of G2: to be loaded to positions [due_from, ...) */
    uint32_t due_from, due_count;
    struct engine_request *due_next;
    bool due_listed;
    uint64_t iteration;     /* it was scheduled in last */
    uint32_t transfers;     /* under way */
    bool fetching;          /* ordered between iterations, and not told of */
    bool over;              /* request_finished() */
    bool forgotten;         /* its tokens or blocks are not all known: nothing is saved any more */
    bool loaded, loaded_ok; /* to be said by finished() */
    bool ok;                /* ... of one that is over: all its transfers were well */
    bool told_listed;
    struct engine_request *told_next;
};

struct transfer {
    uint64_t id;
    uint64_t iteration;
    enum engine_transfer kind;
    struct engine_request *request;
    uint32_t waiting; /* ranks that have not said how it ended */
    uint32_t count;
    uint32_t *g1;
    struct kvt_handle *g2;
    struct kvbm_label *labels;              /* of a save */
    enum kvt_err *status;                   /* the first of any rank that was not well */
    uint64_t depends[TRANSFER_DEPENDS_MAX]; /* loads */
    uint32_t depend_count;
    bool spoilt; /* computed on what was not loaded */
    bool fenced; /* ranks must have ended it before the next iteration */
};

struct engine_connector {
    struct engine_connector_options options;
    uint64_t iteration;
    uint64_t next_id;
    struct engine_request *buckets[REQUEST_BUCKETS];
    struct engine_request *due, **due_last;                /* in the order they got their blocks */
    struct engine_request *told, **told_last;              /* finished() names them */
    struct transfer *transfers[ENGINE_META_TRANSFERS_MAX]; /* by id */
    uint64_t *loading;      /* by block of G1: its load, LOADING_FAILED, 0 */
    uint32_t loading_count; /* marks */
    uint32_t *invalid;      /* room for all that is marked */
    size_t invalid_count, invalid_capacity;
    struct kvbm_block_map saving; /* names on their way to G2 */
    uint32_t due_blocks;
    uint32_t fenced;
    struct engine_connector_stats stats;
};

/* connector.c */
struct engine_request *engine_request_find(struct engine_connector *connector, const char *id);
/** Put it where finished() sees it. */
void engine_request_tell(struct engine_connector *connector, struct engine_request *request);
/** Let go of the blocks of G2 that wait for their order. */
void engine_request_drop_due(struct engine_connector *connector, struct engine_request *request);
KVT_NODISCARD enum kvt_err engine_request_label(const struct engine_connector *connector,
                                                const struct engine_request *request,
                                                uint32_t position, struct kvbm_label *label);

/** Take note of what it has since: blocks, tokens. */
void engine_request_schedule(struct engine_connector *connector, struct engine_request *request,
                             const struct engine_scheduled *scheduled);

/* connector_report.c */
/** Its place under a new id; KVT_FULL or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_transfer_new(struct engine_connector *connector,
                                               enum engine_transfer kind,
                                               struct engine_request *request, uint32_t count,
                                               struct transfer **out);
/** One block did not go well at some rank. */
void engine_transfer_fail(struct engine_connector *connector, struct transfer *transfer,
                          uint32_t at, enum kvt_err why);
/** Ranks end it before they begin the next iteration. */
void engine_transfer_fence(struct engine_connector *connector, struct transfer *transfer);
/** No rank has it under way: register what was saved, let go of the rest. */
void engine_transfer_end(struct engine_connector *connector, struct transfer *transfer);

void engine_mark(struct engine_connector *connector, uint32_t block, uint64_t mark);

#endif /* ENGINE_CONNECTOR_CONNECTOR_INTERNAL_H */
