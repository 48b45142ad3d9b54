/*
 * bench/index/measure.h -- what is timed, and how every answer is checked.
 *
 * Why: bench/peers/ measures the published indexes in the same ways.  Batches are built untimed,
 * then handed over; of lookups only the call is timed.
 *
 * Ownership: subjects, corpora and batches are borrowed for the call.
 * Threads:   one, unless said otherwise.
 * Limits:    those of corpus.h and trace.h.
 */
#ifndef BENCH_INDEX_MEASURE_H
#define BENCH_INDEX_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "bench/index/corpus.h"
#include "bench/index/subject.h"
#include "bench/index/trace.h"

struct measure_took {
    size_t blocks;
    size_t events;
    double wall_s;
    double cpu_s; /* of the writing thread */
};

/** Hand all of the batch over, timed, and empty it. */
KVT_NODISCARD enum kvt_err measure_hand_over(struct subject *subject, struct subject_batch *batch,
                                             struct measure_took *took, struct kvt_error *err);

/** Store every chain in its order of arrival. */
KVT_NODISCARD enum kvt_err measure_fill(struct subject *subject, const struct corpus *corpus,
                                        struct measure_took *took, struct kvt_error *err);
/** Remove every chain in another order, each from its leaf. */
KVT_NODISCARD enum kvt_err measure_remove(struct subject *subject, const struct corpus *corpus,
                                          struct measure_took *took, struct kvt_error *err);
/** Look chains up and compare every holder's score with what the generator says. */
KVT_NODISCARD enum kvt_err measure_check(struct subject *subject, const struct corpus *corpus,
                                         struct kvt_error *err);

/* ---- lookups ---- */

struct measure_lookups {
    uint64_t first; /* number of the first query */
    size_t count;
    uint32_t best; /* best holders taken out of the answer, with their lengths; 0: all */
    enum index_key key;
};

/** Time lookups; the nanoseconds of each, sorted, are in `times` (room for `count`). */
KVT_NODISCARD enum kvt_err measure_find(struct subject *subject, const struct corpus *corpus,
                                        const struct measure_lookups *lookups, uint64_t *times,
                                        struct kvt_error *err);
void measure_sort(uint64_t *times, size_t count);

/* Chains of other workers that come and go, on a thread of their own. */
struct measure_writer;

/** Blocks a second of a writer that does nothing else are in `capacity`. */
KVT_NODISCARD enum kvt_err measure_writer_new(struct measure_writer **out, struct subject *subject,
                                              uint64_t seed, double *capacity,
                                              struct kvt_error *err);
KVT_NODISCARD enum kvt_err measure_writer_start(struct measure_writer *writer, double rate,
                                                struct kvt_error *err);
/** Blocks a second it really wrote are in `rate`. */
KVT_NODISCARD enum kvt_err measure_writer_stop(struct measure_writer *writer, double *rate,
                                               struct kvt_error *err);
/** Of one that does not run; NULL is allowed. */
void measure_writer_free(struct measure_writer *writer);

/* ---- a recorded trace ---- */

/** Run the trace; times of its lookups are in `times` (room for all requests), sorted. */
KVT_NODISCARD enum kvt_err measure_replay(struct subject *subject, const struct trace *trace,
                                          struct measure_took *took, uint64_t *times, size_t *asked,
                                          struct kvt_error *err);
/** Remove all that the trace stored. */
KVT_NODISCARD enum kvt_err measure_forget(struct subject *subject, const struct trace *trace,
                                          struct measure_took *took, struct kvt_error *err);

/* ---- a story ---- */

/** Apply the stores and removes of the file at `path` and write what each find in it found to the
 *  file `answers`, a line each: "<worker>=<blocks>" of every worker, the worker in hexadecimal.
 *  `finds`: how many.  Lines of a story, numbers in hexadecimal, blocks root side first:
 *      store WORKER PARENT POSITION {SEQUENCE-HASH TOKENS-HASH}...
 *      remove WORKER SEQUENCE-HASH...
 *      find TOKENS-HASH... */
KVT_NODISCARD enum kvt_err measure_story(struct subject *subject, const char *path,
                                         const char *answers, size_t *finds, struct kvt_error *err);

/* ---- the floor ---- */

struct measure_floor;

/** A table for `entries` at half its size, touched. */
KVT_NODISCARD enum kvt_err measure_floor_new(struct measure_floor **out, size_t entries);
void measure_floor_free(struct measure_floor *floor);
/** One prefetched random insert of 16 bytes a block of the corpus. */
KVT_NODISCARD enum kvt_err measure_floor_run(struct measure_floor *floor,
                                             const struct corpus *corpus, struct measure_took *took,
                                             struct kvt_error *err);

/** CPU seconds of the calling thread. */
double measure_cpu_s(void);

#endif /* BENCH_INDEX_MEASURE_H */
