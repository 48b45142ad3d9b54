/*
 * index/block/state.h -- inside of an index, for index/ alone.
 *
 * Why: storing, removing, finding and walking are files of their own over one state.  What blocks,
 * pages and runs are is index/DESIGN.md; here is how they lie in memory.
 *
 *   number   a block, as long as it is there; 0 is none.  seq[number] is its sequence hash,
 *            tok[number] its token hash.
 *   page     INDEX_PAGE_BLOCKS numbers, cut into runs of one capacity
 *   run      consecutive numbers from a first one on; the first `length` are blocks
 *
 * Reading beside the writer: enter the epoch; index_state_find() gives a number, or none;
 * index_state_run() the run and the block's offset in it, or NULL; then
 *
 *   version = index_run_read(run);   odd: being changed, try again
 *   ... `length`, `ns`, `seq[]`, `holders` ...
 *   index_run_unchanged(run, version)
 *
 * and only what was read between the two, with true from the second, was ever so.  A number may be
 * stale: offset < length, the run's namespace and seq[number] == hash decide, read in between.
 *
 * Ownership: the index owns everything.
 * Threads:   `lock` for all that changes, but for names (`names_lock`, taken inside of `lock`).
 *            Fields marked "shared" are read without it, as relaxed atomics.
 * Limits:    as index/index.h, and the names below.
 */
#ifndef INDEX_BLOCK_STATE_H
#define INDEX_BLOCK_STATE_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "index/block/run.h"
#include "index/holder/shards.h"
#include "index/index.h"
#include "index/memory/epoch.h"
#include "index/memory/memory.h"
#include "index/memory/record_pool.h"
#include "index/table/hash_map.h"
#include "index/table/table.h"

#define INDEX_PAGE_SHIFT      10
#define INDEX_PAGE_BLOCKS     (1u << INDEX_PAGE_SHIFT)
#define INDEX_NUMBERS_MAX     (UINT32_MAX - INDEX_PAGE_BLOCKS)
#define INDEX_CLASSES         24 /* capacities of runs */
#define INDEX_ORPHANS_MAX     (1u << 24)
#define INDEX_BLOCK_SIZES_MAX 65536 /* different sizes of blocks */
#define INDEX_RECENT_BITS     14    /* sequences that grow at the same time */
#define INDEX_READ_RETRIES                                                                         \
    1000 /* a run that changed under a reader this often: it takes the lock */

_Static_assert(INDEX_RUN_BLOCKS_MAX <= INDEX_PAGE_BLOCKS, "a run fits a page");

/* What the writer knows about a page. */
struct index_page {
    uint32_t prev;    /* pages of its class that have room */
    uint32_t next;    /* of those, or of empty pages */
    uint16_t used;    /* runs */
    uint16_t fresh;   /* runs from here on were never used */
    uint16_t free;    /* a free run below `fresh`, plus 1; 0: none */
    uint8_t class_;   /* plus 1; 0: an empty page */
    bool listed;      /* in a list of pages with room */
    bool seq_counted; /* its memory in seq[] is in use, and counted */
    bool tok_counted;
    bool tokens; /* for runs that came with token hashes */
};

/* Hits and last read of a block; shared. */
struct index_block_hits {
    _Atomic uint32_t hits;
    _Atomic uint32_t used_s;
};

/* A capacity of runs. */
struct index_class {
    uint16_t capacity;
    uint16_t runs;       /* of a page */
    uint32_t reciprocal; /* offset in the page * this >> 20 is the run */
};

extern const struct index_class index_classes[INDEX_CLASSES];

/* Numbers of blocks, and where what belongs to them lies. */
struct index_run_allocator {
    _Atomic uint64_t *seq;   /* shared */
    _Atomic uint64_t *tok;   /* shared; 0: not known */
    _Atomic uintptr_t *runs; /* shared: of each page, its first run | class plus 1; 0: no page */
    _Atomic(struct index_block_hits *) *uses; /* shared: of each page, or NULL: nothing was read */
    struct index_page *pages;
    uint16_t *chunk_used;            /* pages in use of each chunk */
    _Atomic uint32_t end;            /* shared: pages ever used are below this */
    uint32_t max;                    /* pages there is address space for */
    uint32_t open;                   /* pages below this are readable and writable */
    uint32_t empty;                  /* list of empty pages; 0: none */
    uint32_t empty_counted;          /* pages in it whose memory is counted */
    uint32_t room[2][INDEX_CLASSES]; /* pages with room, without and with token hashes; 0: none */
};

struct index_namespace {
    struct index_table table;
    uint32_t orphans;
    char name[KVT_NAMESPACE_MAX];
};

struct index_holder_record {
    struct index_holder key;
    _Atomic uint8_t tier; /* shared */
    _Atomic uint64_t blocks;
    _Atomic uint64_t bytes;
    uint32_t usage; /* the last one asked for, plus 1; 0: none (index/block/holder_usage.h) */
};

#define INDEX_HOLDERS_CHUNK    64
#define INDEX_NAMESPACES_CHUNK 16

/* One of the newest changes; `hash` of a block of namespace `ns`. */
struct index_past_record {
    uint32_t hash[2]; /* as it lies in memory; 0 is nobody's */
    uint32_t time_s;
    uint16_t holder;
    uint16_t ns;
    uint32_t removed; /* 1: it went */
};

struct index_history_ring {
    struct index_past_record *records;
    uint32_t capacity; /* a power of two */
    uint64_t count;    /* ever written */
};

/* Different sizes of blocks; a code is a place in `sizes`. */
struct index_block_sizes {
    _Atomic(_Atomic uint64_t *) sizes; /* shared */
    uint32_t count;
    uint32_t capacity;
    struct index_hash_map codes;
};

/* What the last Store was coded as. */
struct index_codes {
    uint64_t size;
    uint32_t ranks;
    uint32_t shards; /* 0: there was none */
    uint32_t count;  /* of them */
    uint16_t size_code;
};

struct index {
    pthread_mutex_t lock;
    pthread_mutex_t names_lock;
    struct index_memory memory;
    struct index_arena arena;
    struct index_epoch epoch;
    struct index_shards *shards;
    struct index_run_allocator allocator;
    struct index_block_sizes sizes;
    struct index_codes last_codes;
    uint32_t recent[1u << INDEX_RECENT_BITS]; /* last blocks of what was stored, by their hashes */
    struct index_hash_map orphans; /* (namespace, parent's hash) -> first block of the first run */
    struct index_hash_map odd_sizes; /* runs with sizes of their own -> their number in odd_pool */
    struct index_record_pool odd_pool;
    struct index_hash_map usages; /* (holder, namespace) -> its number in usage_pool */
    struct index_record_pool usage_pool;
    struct index_history_ring history;
    uint64_t seed[2];
    uint64_t blocks;
    uint64_t places;
    uint64_t collisions;
    uint32_t orphan_count;

    _Atomic uint32_t namespace_count;
    _Atomic uint32_t holder_count;
    _Atomic uint64_t holder_renames;
    _Atomic(struct index_namespace *) namespaces[INDEX_NAMESPACES_MAX / INDEX_NAMESPACES_CHUNK];
    _Atomic(struct index_holder_record *) holders[INDEX_HOLDERS_MAX / INDEX_HOLDERS_CHUNK];
    struct index_hash_map namespace_names;
    struct index_hash_map holder_names;
};

/* ---- any thread ---- */

static inline uint64_t
index_state_seq(const struct index *index, uint32_t number)
{
    return atomic_load_explicit(&index->allocator.seq[number], memory_order_relaxed);
}

/** 0: not known. */
static inline uint64_t
index_state_tok(const struct index *index, uint32_t number)
{
    return atomic_load_explicit(&index->allocator.tok[number], memory_order_relaxed);
}

static inline struct index_namespace *
index_state_namespace(const struct index *index, uint32_t ns)
{
    struct index_namespace *chunk =
        atomic_load_explicit(&index->namespaces[ns / INDEX_NAMESPACES_CHUNK], memory_order_acquire);

    return &chunk[ns % INDEX_NAMESPACES_CHUNK];
}

static inline struct index_holder_record *
index_state_holder(const struct index *index, uint32_t holder)
{
    struct index_holder_record *chunk =
        atomic_load_explicit(&index->holders[holder / INDEX_HOLDERS_CHUNK], memory_order_acquire);

    return &chunk[holder % INDEX_HOLDERS_CHUNK];
}

/** A hash, mixed with the index's seed: where a table looks for it. */
static inline uint64_t
index_state_mix(const struct index *index, uint64_t hash)
{
    return index_table_mix(index->seed, hash);
}

/**
 * The number of a block, or 0; seq[] was compared.  Inside of an epoch, or under the lock.  Ghosts
 * are found too.  Asserts that `ns` exists.
 */
static inline uint32_t
index_state_find(const struct index *index, uint32_t ns, uint64_t hash)
{
    return index_table_find(&index_state_namespace(index, ns)->table, index->allocator.seq, hash,
                            index_state_mix(index, hash));
}

/** A number that may be the block's, from one line of memory; or 0. */
static inline uint32_t
index_state_guess(const struct index *index, uint32_t ns, uint64_t hash)
{
    return index_table_guess(&index_state_namespace(index, ns)->table,
                             index_state_mix(index, hash));
}

/** Start loading what index_state_find() will need. */
static inline void
index_state_find_prefetch(const struct index *index, uint32_t ns, uint64_t hash)
{
    index_table_prefetch(&index_state_namespace(index, ns)->table, index_state_mix(index, hash));
}

/**
 * The run a block lies in, its first number and the block's offset in it; NULL: its page is gone.
 */
static inline struct index_run *
index_state_run(const struct index *index, uint32_t number, uint32_t *offset)
{
    const uintptr_t entry = atomic_load_explicit(&index->allocator.runs[number >> INDEX_PAGE_SHIFT],
                                                 memory_order_acquire);
    const uint32_t in_page = number & (INDEX_PAGE_BLOCKS - 1);
    const struct index_class *class_;
    uint32_t at;

    *offset = 0;
    if (entry == 0)
        return NULL;
    class_ = &index_classes[(entry & 63) - 1];
    at = in_page * class_->reciprocal >> 20;
    *offset = in_page - at * class_->capacity;
    if (at >= class_->runs)
        return NULL;
    return (struct index_run *)(entry & ~(uintptr_t)63) + at;
}

/* ---- under the lock ---- */

/** The run of a number that is in use, and the offset in it. */
static inline struct index_run *
index_state_at(const struct index *index, uint32_t number, uint32_t *offset)
{
    struct index_run *run = index_state_run(index, number, offset);

    assert(run != NULL);
    return run;
}

/** The same, and the first number of the run. */
static inline struct index_run *
index_state_run_of(const struct index *index, uint32_t number, uint32_t *first)
{
    uint32_t offset;
    struct index_run *run = index_state_at(index, number, &offset);

    *first = number - offset;
    return run;
}

static inline bool
index_state_held(const struct index *index, uint32_t number)
{
    uint32_t offset;
    const struct index_run *run = index_state_at(index, number, &offset);

    return index_run_held(run, offset);
}

static inline struct index_run_holders_context
index_state_holders(struct index *index)
{
    return (struct index_run_holders_context){
        .memory = &index->memory, .epoch = &index->epoch, .shards = index->shards};
}

#endif /* INDEX_BLOCK_STATE_H */
