/*
 * gateway/bus/pin_report.h -- all pins, told to the advisor a report at a time.
 *
 * Why: only a gateway knows what is pinned, and rules are not to choose it.  A report may be lost,
 * so pins are told all together: after the start, after a change, and now and then.
 *
 * Ownership: the caller owns it (zeroed); the catalog is borrowed.
 * Threads:   the reporter's.
 * Limits:    KVT_REPORT_PINS_MAX rows a report; a round begins GATEWAY_PINS_GAP_MS after the last
 *            one began at the earliest, and later the more pins that one had.
 */
#ifndef GATEWAY_BUS_PIN_REPORT_H
#define GATEWAY_BUS_PIN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/catalog/catalog.h"
#include "kvtier/report.h"

#define GATEWAY_PINS_GAP_MS   500
#define GATEWAY_PINS_EVERY_MS 60000 /* also when nothing changed */

struct gateway_pin_report {
    uint64_t round;   /* the last that was begun; 0: none */
    uint64_t changes; /* that were seen when it was */
    uint64_t told;    /* of it */
    uint64_t began_ms;
    bool open; /* it is not told to its end */
    char after[KVT_KEY_MAX];
    char namespace_[KVT_NAMESPACE_MAX]; /* of the rows that are told next */
    struct kvt_report_pin rows[KVT_REPORT_PINS_MAX];
    uint32_t count;
    bool full; /* there are more */
    char next[KVT_KEY_MAX];
};

/** The next report of a round, if one is due or goes on: fills `pins` (which borrows the rows) and
 *  the namespace.  `mono_ms` says when rounds are due, `now_ms` (Unix) which pins ended.  False:
 *  nothing is to be told. */
bool gateway_pin_report_next(struct gateway_pin_report *state, struct gateway_catalog *catalog,
                             uint64_t mono_ms, uint64_t now_ms, struct kvt_report *report);
/** It was sent, or not: then the round begins again. */
void gateway_pin_report_sent(struct gateway_pin_report *state, bool sent);

#endif /* GATEWAY_BUS_PIN_REPORT_H */
