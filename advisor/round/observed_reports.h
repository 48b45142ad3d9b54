/*
 * advisor/round/observed_reports.h -- how full tiers are by reports that are not verified.
 *
 * Why: during an upgrade gateways of former versions do not sign.  What they report is shown to
 * people.  It is kept apart from the planner's tables, so no order can follow from it.
 * Ownership: the round owns the table (init/release).
 * Threads:   the writer's thread takes; any thread copies.
 * Limits:    ADVISOR_OBSERVED_MAX gateways; the one that reported longest ago makes room.
 */
#ifndef ADVISOR_ROUND_OBSERVED_REPORTS_H
#define ADVISOR_ROUND_OBSERVED_REPORTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/report.h"

#define ADVISOR_OBSERVED_MAX 32

struct advisor_observed_report {
    char gateway[KVT_NAME_MAX];
    uint64_t last_report_ms; /* our clock */
    struct kvt_report_tier tiers[KVT_REPORT_TIERS_MAX];
    uint32_t tier_count;
};

struct advisor_observed_reports {
    pthread_mutex_t lock; /* guards the members below */
    struct advisor_observed_report rows[ADVISOR_OBSERVED_MAX];
    size_t count;
};

void advisor_observed_reports_init(struct advisor_observed_reports *observed);
void advisor_observed_reports_release(struct advisor_observed_reports *observed);

void advisor_observed_reports_take(struct advisor_observed_reports *observed,
                                   const struct kvt_report *report, uint64_t now_ms);
/** Its reports are verified now. */
void advisor_observed_reports_forget(struct advisor_observed_reports *observed,
                                     const char *gateway);
/** Copy them to `rows`, which has room for ADVISOR_OBSERVED_MAX. */
size_t advisor_observed_reports_list(struct advisor_observed_reports *observed,
                                     struct advisor_observed_report *rows);

#endif /* ADVISOR_ROUND_OBSERVED_REPORTS_H */
