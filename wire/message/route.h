/*
 * wire/message/route.h -- "which worker should take this request?", its answer, and a request's
 * steps (docs/formats.md, "Routing").
 *
 * Why: HTTP and the bus ask the same question; frontends say over the bus what became of a request.
 *
 * Ownership: decoders copy into the caller's arrays; an answer owns its rows.
 * Limits:    the names below; a message of at most WIRE_ROUTE_MAX bytes.
 */
#ifndef WIRE_MESSAGE_ROUTE_H
#define WIRE_MESSAGE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/block.h"
#include "kvtier/error.h"

#define WIRE_ROUTE_VALUES_MAX  (1u << 20)          /* tokens, or hashes, of a request */
#define WIRE_ROUTE_BLOCKS_MAX  65536               /* blocks of a request */
#define WIRE_ROUTE_BLOCK_MAX   65536               /* tokens of a block */
#define WIRE_ROUTE_TOKENS_MAX  (UINT64_C(1) << 32) /* of a prompt, that many blocks */
#define WIRE_ROUTE_WORKERS_MAX 4096                /* names a question allows */
#define WIRE_ROUTE_ROWS_MAX    4096                /* of an explanation */
#define WIRE_ROUTE_ID_MAX      128                 /* bytes with the final NUL */
#define WIRE_ROUTE_TEXT_MAX    256                 /* of an adapter's name and a salt, the same */
#define WIRE_ROUTE_MAX         (900u << 10)
#define WIRE_ROUTE_TIERS       4 /* G1 .. G4 */

/* What a request is made of. */
enum wire_route_kind {
    WIRE_ROUTE_HASHES,       /* sequence hashes of its blocks */
    WIRE_ROUTE_TOKEN_HASHES, /* local token hashes of its blocks (kvtier/token.h) */
    WIRE_ROUTE_TOKENS        /* its tokens */
};

/* What a question may ask otherwise than the settings do: bits 1 << of these. */
enum wire_route_weight {
    WIRE_ROUTE_OVERLAP,
    WIRE_ROUTE_TEMPERATURE,
    WIRE_ROUTE_G1,
    WIRE_ROUTE_G2,
    WIRE_ROUTE_G3,
    WIRE_ROUTE_G4,
    WIRE_ROUTE_ACTIVE_REQUEST,
    WIRE_ROUTE_WEIGHTS
};

struct wire_route_question {
    char namespace_[KVT_NAMESPACE_MAX];
    enum wire_route_kind kind;
    uint64_t *values; /* root first */
    uint32_t value_count;
    uint32_t block_tokens;             /* 0: as the settings say */
    uint64_t isl_tokens;               /* 0: as many as the values make */
    char id[WIRE_ROUTE_ID_MAX];        /* "": it is only asked; else it is booked */
    char adapter[WIRE_ROUTE_TEXT_MAX]; /* of tokens */
    char salt[WIRE_ROUTE_TEXT_MAX];
    uint32_t weighted; /* bits of what `weights` says */
    double weights[WIRE_ROUTE_WEIGHTS];
    char (*workers)[KVT_NAME_MAX]; /* those that are allowed */
    uint32_t worker_count;         /* 0: all */
    bool explain;
};

/* Why a worker was chosen. */
enum wire_route_why {
    WIRE_ROUTE_LOWEST = 1, /* its cost is the lowest */
    WIRE_ROUTE_BY_LOAD,    /* of equal ones it has least to do */
    WIRE_ROUTE_BY_CHANCE,  /* of equal ones, drawn */
    WIRE_ROUTE_SOFTMAX,    /* drawn by its probability */
    WIRE_ROUTE_WHYS
};

/** "lowest", "load", "chance", "softmax"; "?". */
const char *wire_route_why_name(enum wire_route_why why);

struct wire_route_row {
    char worker[KVT_NAME_MAX];
    uint32_t dp_rank;
    uint32_t cached[WIRE_ROUTE_TIERS]; /* blocks of the request, each counted in one tier */
    uint32_t active_requests;
    double prefill_blocks; /* with what it has yet to compute of others */
    double decode_blocks;
    double cost;
    double probability; /* of being chosen */
    bool uncertain;     /* events of it are missing: it may hold more or less */
};

struct wire_route_answer {
    struct wire_route_row chosen;
    enum wire_route_why why;
    uint32_t blocks;     /* of the request */
    uint32_t candidates; /* workers that were compared */
    bool booked;
    bool loading;                /* the advisor still reads its index */
    struct wire_route_row *rows; /* lowest cost first; NULL: not asked for */
    uint32_t row_count;          /* at most WIRE_ROUTE_ROWS_MAX of the candidates */
};

/** NULL is allowed. */
void wire_route_answer_release(struct wire_route_answer *answer);

KVT_NODISCARD enum kvt_err wire_route_encode_question(const struct wire_route_question *question,
                                                      struct kvt_buffer *out);
/** Fill `question`, whose arrays have room for `value_capacity` and `worker_capacity`. */
KVT_NODISCARD enum kvt_err wire_route_decode_question(const void *bytes, size_t size,
                                                      struct wire_route_question *question,
                                                      size_t value_capacity, size_t worker_capacity,
                                                      struct kvt_error *err);

/* A failure is answered with wire_query_encode_failure(). */
KVT_NODISCARD enum kvt_err wire_route_encode_answer(const struct wire_route_answer *answer,
                                                    struct kvt_buffer *out);
/** wire_route_answer_release() what is there, also behind a failure; a failure that was answered is
 *  the result. */
KVT_NODISCARD enum kvt_err wire_route_decode_answer(const void *bytes, size_t size,
                                                    struct wire_route_answer *answer,
                                                    struct kvt_error *err);

/* What becomes of a request. */
enum wire_route_step_kind { WIRE_ROUTE_ADD = 1, WIRE_ROUTE_PREFILLED, WIRE_ROUTE_FREE };

struct wire_route_step {
    enum wire_route_step_kind kind;
    char id[WIRE_ROUTE_ID_MAX];
    /* Of ADD alone: */
    char namespace_[KVT_NAMESPACE_MAX]; /* of its blocks; "": of none, they are like no other's */
    char worker[KVT_NAME_MAX];
    uint32_t dp_rank;
    uint32_t blocks;         /* of the prompt, hashed or not */
    uint64_t prefill_tokens; /* to be computed there */
    uint64_t *hashes;        /* sequence hashes of its blocks, root first */
    uint32_t hash_count;
};

KVT_NODISCARD enum kvt_err wire_route_encode_step(const struct wire_route_step *step,
                                                  struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_route_decode_step(const void *bytes, size_t size,
                                                  struct wire_route_step *step, size_t capacity,
                                                  struct kvt_error *err);
/** What a step is answered with: did it change the table? */
KVT_NODISCARD enum kvt_err wire_route_encode_done(bool changed, struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_route_decode_done(const void *bytes, size_t size, bool *changed,
                                                  struct kvt_error *err);

#endif /* WIRE_MESSAGE_ROUTE_H */
