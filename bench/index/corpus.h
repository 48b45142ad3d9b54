/*
 * bench/index/corpus.h -- workloads that follow from a seed alone.
 *
 * Why: our index and the published one must be asked the same questions.  bench/peers/src/corpus.rs
 * makes the same chains; the sum of every chain's last sequence hash shows that they are.
 *
 * Ownership: a corpus owns its order of arrival.
 * Threads:   reading one is free to all.
 * Limits:    chains of CORPUS_CHAIN_MAX blocks; 2^32 - 1 chains.
 */
#ifndef BENCH_INDEX_CORPUS_H
#define BENCH_INDEX_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define CORPUS_CHAIN_MAX 4096
#define CORPUS_BRANCH    16 /* blocks by which a holder goes on alone in CORPUS_BRANCHED */

enum corpus_shape {
    CORPUS_CHAINS,   /* writes: chains of one length, some beginnings common to all workers */
    CORPUS_FULL,     /* lookups: every holder has the whole sequence */
    CORPUS_CUTOFF,   /* ... a beginning of it, of any length */
    CORPUS_BRANCHED, /* ... a beginning of it, then goes another way */
};

struct corpus {
    uint64_t seed;
    enum corpus_shape shape;
    uint32_t workers;
    uint32_t first_worker;
    uint32_t length;     /* of a chain, or of a sequence that is looked up */
    uint32_t per_worker; /* CORPUS_CHAINS: chains of each; else: sequences */
    uint32_t shared;     /* CORPUS_CHAINS: so many of them begin like everybody's */
    uint32_t open;       /* one block an event, this many chains at once; 0: a chain an event */
    uint32_t *order;     /* chain numbers as they arrive */
    uint32_t chains;
};

uint64_t corpus_mix(uint64_t x);
uint64_t corpus_local(uint64_t seed, uint64_t stream, uint64_t position);
uint64_t corpus_worker_id(uint32_t worker);
void corpus_shuffle(uint32_t *items, uint32_t count, uint64_t seed);
/** Sequence hashes of a chain that begins at position 0. */
void corpus_sequence(const uint64_t *locals, uint32_t count, uint64_t *hashes);

/** The loads "A", "B", "C" and "D".  KVT_OK, KVT_INVALID (no such load) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err corpus_load(struct corpus *corpus, const char *load, size_t memberships,
                                       uint64_t seed);
/** What a writer writes while lookups are measured.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err corpus_churn(struct corpus *corpus, uint64_t seed);
/** Sequences of `depth` blocks with `holders` each.  KVT_OK, KVT_INVALID or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err corpus_points(struct corpus *corpus, uint32_t depth, uint32_t holders,
                                         const char *shape, size_t memberships, uint64_t seed);
void corpus_release(struct corpus *corpus);

uint32_t corpus_worker(const struct corpus *corpus, uint32_t chain);
/** Local hashes of one chain; returns how many. */
uint32_t corpus_locals(const struct corpus *corpus, uint32_t chain,
                       uint64_t locals[CORPUS_CHAIN_MAX]);
/** How far holder `holder` goes along with sequence `sequence`. */
uint32_t corpus_depth(const struct corpus *corpus, uint32_t sequence, uint32_t holder);
/** The sequence that all its holders have a beginning of. */
void corpus_query(const struct corpus *corpus, uint32_t sequence, uint64_t *locals);
/** Memberships, and the sum of every chain's last sequence hash. */
void corpus_checksum(const struct corpus *corpus, size_t *memberships, uint64_t *sum);

#endif /* BENCH_INDEX_CORPUS_H */
