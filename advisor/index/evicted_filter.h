/*
 * advisor/index/evicted_filter.h -- a set of fingerprints: may this block be there?
 *
 * Why: a question about what is not there must not touch the disk.  A fingerprint is 32 bits of a
 * mixed hash, its place in the table its highest ones, so the table doubles by itself, and what was
 * added once is taken away once.  A strange block is taken for one of `n` with a probability of
 * n / 2^32.
 *
 * Ownership: owns its table.
 * Threads:   advisor_evicted_filter_has() on any thread, the rest on one.
 * Limits:    `bytes_max`, when it grows half as much again; when it is full, it is blind: it may
 *            have everything, until it is made anew.
 */
#ifndef ADVISOR_INDEX_EVICTED_FILTER_H
#define ADVISOR_INDEX_EVICTED_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

struct advisor_evicted_filter;

KVT_NODISCARD enum kvt_err advisor_evicted_filter_new(struct advisor_evicted_filter **out,
                                                      uint64_t bytes_max);
void advisor_evicted_filter_free(struct advisor_evicted_filter *filter);

uint32_t advisor_evicted_filter_print(const struct advisor_evicted_filter *filter, uint32_t ns,
                                      uint64_t hash);
void advisor_evicted_filter_add(struct advisor_evicted_filter *filter, const uint32_t *prints,
                                size_t count);
/** Each of them was added (asserted), and counts once less. */
void advisor_evicted_filter_remove(struct advisor_evicted_filter *filter, const uint32_t *prints,
                                   size_t count);
/** `has[i]` of each, and whether any is true. */
bool advisor_evicted_filter_has(struct advisor_evicted_filter *filter, uint32_t ns,
                                const uint64_t *hashes, size_t count, bool *has);
bool advisor_evicted_filter_blind(struct advisor_evicted_filter *filter);

#endif /* ADVISOR_INDEX_EVICTED_FILTER_H */
