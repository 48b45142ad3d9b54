/*
 * advisor/route/coverage.h -- how much of a request each worker would not have to compute.
 *
 * Why: a router weighs a block by where it is.  Each block of the request is counted once a worker,
 * in the nearest tier that has it: the worker's own G1 from the root, its own G2 from there on, its
 * G3 from there on, and last what G4 has from there on, which is there for every worker.  A hole
 * ends a tier; the next one may go on behind it.
 *
 * How: the finder is asked from the root, and again from each different depth at which somebody's
 * nearer tiers ended and a lower one goes on, which in the usual case is none: what a lower tier
 * has from the root on says what it has behind a nearer one that is no longer.  What no tier has is
 * known beforehand from one look at every block.  Where RAM is all there is, holders are told
 * apart by their numbers, and one is asked whether it has a block before all are.  Each answer is
 * of an instant of its own.
 *
 * Ownership: the coverage owns its columns; it is kept from question to question.
 * Threads:   one at a time.
 * Limits:    WIRE_QUERY_HASHES_MAX blocks, ROUTER_WORKERS_MAX workers, INDEX_HOLDERS_MAX holders.
 */
#ifndef ADVISOR_ROUTE_COVERAGE_H
#define ADVISOR_ROUTE_COVERAGE_H

#include "advisor/answer/finder.h"
#include "advisor/route/worker_set.h"

#include "router/cost.h"

struct advisor_coverage_work;

struct advisor_coverage {
    uint32_t *cached[ROUTER_TIERS]; /* blocks by row of the set */
    bool *uncertain;                /* events of it are missing: it may hold more or less */
    bool cold_uncertain;            /* the same of a volume or bucket that was met */
    bool by_name;                   /* tests: as if RAM were never all there is */
    struct advisor_coverage_work *work;
};

/** KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_coverage_new(struct advisor_coverage **out);
void advisor_coverage_free(struct advisor_coverage *coverage);

/**
 * Fill the columns.
 *
 * @param hashes  sequence hashes of the request's blocks, root first; only read
 * @return KVT_OK, KVT_NOMEM, KVT_RANGE (too many blocks), or as advisor_finder_matches()
 */
KVT_NODISCARD enum kvt_err advisor_coverage_look(struct advisor_coverage *coverage,
                                                 const struct advisor_finder *finder,
                                                 struct advisor_worker_set *set,
                                                 const char *namespace_, uint64_t *hashes,
                                                 size_t count);

/** Times the finder was asked for holders in the last look. */
size_t advisor_coverage_asked(const struct advisor_coverage *coverage);

#endif /* ADVISOR_ROUTE_COVERAGE_H */
