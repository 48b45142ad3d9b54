/*
 * kvtier/ordering.h -- which block leaves a tier first: the contract of an ordering plugin.
 *
 * Why: orderings come and go, what asks them stays: the advisor that plans moves, the simulator
 * that shows what an ordering would do, and `explain`.  An ordering may be one of KVTier's own or a
 * shared object that somebody wrote without KVTier's sources; this header is all it needs.
 *
 * The host numbers the blocks it knows from 0 and keeps who they are; an ordering keeps a few bytes
 * for each number, in arrays, and nothing else: KVTier's own stay within KVT_ORDERING_BLOCK_BYTES.
 * A number is *known* from its first touch() to its forget(), and meanwhile it is *in the tier*
 * from enter() to leave(), or *cold*.  The host tells uses of cold blocks as well, so that what an
 * ordering learns is not what it let in.
 *
 *     reserve(n)                     numbers below n may now occur; the only call that allocates
 *     touch(use)                     somebody read the block (or it was stored: its first use)
 *     enter(use)                     it is in the tier now; after the touch that brought it, if any
 *     victim() -> give_back()        the lowest is taken out, and then stays after all, ...
 *              -> leave()            ... or leaves
 *     leave()                        it left, taken out or not: moved away, deleted, lost
 *     forget()                       nothing may be remembered: the number may return as another's
 *
 * Time is counted in ticks, one a request; all blocks of a request have the same.  The host touches
 * a request's blocks from the last to the first, so that a block is never older than what needs it
 * and, among equals, the end of a chain goes first.
 *
 * A shared object exports its table under KVT_ORDERING_SYMBOL:
 *
 *     const struct kvt_ordering kvt_ordering_plugin = {KVT_ORDERING_HEAD, .name = "mine", ...};
 *
 * KVT_ORDERING_HEAD writes down what the object was compiled against.  KVT_ORDERING_ABI changes
 * when a structure or the meaning of a call does; an object of another number or of other sizes is
 * refused and not called.
 *
 * Ownership: init() makes a state and free() ends it; structures are the caller's and copied.
 * Threads:   one state, one thread; several states, several threads: an ordering has no globals.
 * Limits:    KVT_ORDERING_BLOCKS_MAX numbers.  A tick is remembered in 32 bits: a block that nobody
 *            used for 2^32 requests may pass as a young one.
 */
#ifndef KVTIER_ORDERING_H
#define KVTIER_ORDERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_ORDERING_ABI         1
#define KVT_ORDERING_SYMBOL      "kvt_ordering_plugin"
#define KVT_ORDERING_BLOCKS_MAX  (UINT32_C(1) << 31)
#define KVT_ORDERING_BLOCK_BYTES 32 /* of an ordering's memory, for a known block */
#define KVT_ORDERING_NAME_MAX    32

enum kvt_ordering_flag {
    KVT_ORDERING_HOT = 1 << 0,  /* it was in the tier when it was used */
    KVT_ORDERING_LAST = 1 << 1, /* its request ended with it; never set where nobody knows */
    KVT_ORDERING_RESTORED =
        1 << 2,                  /* no use: what was known before a restart, `now` its last use */
    KVT_ORDERING_AGAIN = 1 << 3, /* no use: the last one goes on, `now` being how far; `uses` and
                                    what was learned of it stay, and LAST is as known by now */
};

/** One use of one block. */
struct kvt_ordering_use {
    uint32_t block;
    uint32_t uses;     /* of it so far, this one included: 1 = new */
    uint32_t position; /* blocks before it in its chain */
    uint32_t flags;    /* enum kvt_ordering_flag */
    uint64_t bytes;    /* of all its parts */
    uint64_t now;      /* tick; never goes back */
};

/** What things cost, in any one unit: only their relations count. */
struct kvt_ordering_prices {
    double hot_read;
    double cold_read;
    double move; /* one block from a tier to another */
};

struct kvt_ordering_options {
    struct kvt_ordering_prices prices;
    uint64_t idle_ticks; /* what `idle` calls idle; others need not look */
};

/** All calls are made with a state of init(), and numbers below what reserve() was told. */
struct kvt_ordering {
    uint32_t abi;          /* KVT_ORDERING_ABI */
    uint32_t size;         /* of this structure */
    uint32_t use_size;     /* of struct kvt_ordering_use */
    uint32_t options_size; /* of struct kvt_ordering_options */
    const char *name;      /* as in policies: a-z, 0-9, -; below KVT_ORDERING_NAME_MAX */
    const char *text;      /* one line for people */

    /** KVT_OK, or KVT_NOMEM or KVT_INVALID with *state NULL. */
    enum kvt_err (*init)(void **state, const struct kvt_ordering_options *options);
    /** KVT_OK, or KVT_NOMEM with everything as it was.  `count` never falls. */
    enum kvt_err (*reserve)(void *state, uint32_t count);
    void (*touch)(void *state, const struct kvt_ordering_use *use);
    void (*enter)(void *state, const struct kvt_ordering_use *use); /* of a cold block */
    /** Take out the block that should leave first; false = none is left that was not taken out. */
    bool (*victim)(void *state, uint64_t now, uint32_t *block);
    /** As victim(), for a block that should leave although there is room.  NULL: never. */
    bool (*due)(void *state, uint64_t now, uint32_t *block);
    void (*give_back)(void *state, uint32_t block); /* of one that was taken out */
    void (*leave)(void *state, uint32_t block);     /* of one in the tier, taken out or not */
    void (*forget)(void *state, uint32_t block);    /* of one that is cold, or unknown */
    /** What victim() compares: the lowest leaves first.  Of any known block, as if it were in the
     *  tier. */
    double (*value)(const void *state, uint32_t block, uint64_t now);
    /** How likely the block is used within the next `window` ticks, 0 to 1.  NULL: unknown. */
    double (*chance)(const void *state, uint32_t block, uint64_t now, uint64_t window);
    /** Write what was learned, for the next life; returns how many bytes it takes, and writes
     *  nothing when there is no room for them.  NULL: it learns nothing. */
    size_t (*save)(const void *state, void *bytes, size_t room);
    /** Before the first touch.  KVT_OK, or KVT_CORRUPT with nothing taken over.  NULL as save. */
    enum kvt_err (*load)(void *state, const void *bytes, size_t size);
    size_t (*memory)(const void *state); /* bytes it holds */
    void (*free)(void *state);           /* NULL is allowed */
};

#define KVT_ORDERING_HEAD                                                                          \
    .abi = KVT_ORDERING_ABI, .size = sizeof(struct kvt_ordering),                                  \
    .use_size = sizeof(struct kvt_ordering_use),                                                   \
    .options_size = sizeof(struct kvt_ordering_options)

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_ORDERING_H */
