/*
 * kvtier/report.h -- what a gateway tells the advisor besides events.
 *
 * Why: events say what is where; a policy also needs to know what was read, from which tier, and
 * how full the tiers are.  The byte format is wire/message/report_codec.h and docs/formats.md.
 *
 * Ownership: plain values; a report borrows its arrays.
 * Threads:   no shared state.
 * Limits:    KVT_REPORT_ACCESSES_MAX, KVT_REPORT_RESULTS_MAX and KVT_REPORT_PINS_MAX rows in one
 *            report.
 */
#ifndef KVTIER_REPORT_H
#define KVTIER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/order.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_REPORT_ACCESSES_MAX 4096
#define KVT_REPORT_RESULTS_MAX  256
#define KVT_REPORT_TIERS_MAX    8
#define KVT_REPORT_PINS_MAX     4096

struct kvt_report_access {
    uint64_t hash;
    uint64_t bytes;
    uint32_t count;
    uint8_t tier_index; /* row of `tiers` that served it */
};

#define KVT_READ_RESULTS 3 /* hot, cold, miss */

struct kvt_report_tier {
    char name[KVT_NAME_MAX]; /* the holder's name: "hot@<gateway>", "cold@<bucket>" */
    uint64_t used_bytes;
    uint64_t capacity_bytes; /* 0: no cap */
    uint64_t blocks;
};

struct kvt_report_pin {
    uint64_t hash;
    uint64_t until_ms; /* Unix; 0: until it is taken off */
};

/* All pins of a gateway are told together, in any number of reports, after its start, after a
 * change and now and then.  When the last one came and none is missing, there are no others. */
struct kvt_report_pins {
    uint64_t round; /* increasing with `incarnation`; 0: the report is not about pins */
    uint64_t told;  /* rows of the round, those of this report included */
    bool last;
    struct kvt_report_pin *rows;
    uint32_t count;
};

struct kvt_report {
    char gateway[KVT_NAME_MAX];
    char namespace_[KVT_NAMESPACE_MAX]; /* of accesses and pins; a report speaks of one */
    uint64_t seq;                       /* increasing per gateway and incarnation */
    uint64_t incarnation;
    uint64_t time_ms;
    bool healthy; /* the gateway's cold store answered its last probe */
    struct kvt_report_tier tiers[KVT_REPORT_TIERS_MAX];
    uint32_t tier_count;
    struct kvt_report_access *accesses;
    uint32_t access_count;
    struct kvt_order_result *results;
    uint32_t result_count;
    /* Of all namespaces since `incarnation`, by where they were answered.  A gateway of a former
     * version does not say: all 0. */
    uint64_t reads[KVT_READ_RESULTS];
    struct kvt_report_pins pins; /* the same */
};

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_REPORT_H */
