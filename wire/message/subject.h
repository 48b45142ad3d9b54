/*
 * wire/message/subject.h -- names on the bus: subjects and streams.
 *
 * Why: every program must build and read the same names, and a namespace may hold bytes a subject
 * may not ('.', '*', '>', blanks).  Such bytes are percent-encoded; the empty namespace is "_".
 * Ownership: the caller gives the buffer.
 * Limits:    WIRE_SUBJECT_MAX bytes with the NUL; longer is KVT_RANGE.
 */
#ifndef WIRE_MESSAGE_SUBJECT_H
#define WIRE_MESSAGE_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define WIRE_SUBJECT_MAX 512

#define WIRE_STREAM_EVENTS  "KVTIER_EVENTS"  /* limits: 2 GiB, 24 h, discard old */
#define WIRE_STREAM_ORDERS  "KVTIER_ORDERS"  /* work queue: 256 MiB, 24 h */
#define WIRE_STREAM_REPORTS "KVTIER_REPORTS" /* limits: 256 MiB, 24 h, discard old */

#define WIRE_SUBJECT_EVENTS_ALL  "kvtier.v1.events.>"
#define WIRE_SUBJECT_ORDERS_ALL  "kvtier.v1.orders.>"
#define WIRE_SUBJECT_REPORTS_ALL "kvtier.v1.reports.>"
#define WIRE_SUBJECT_FIND        "kvtier.v1.query.find"  /* answered by the advisor */
#define WIRE_SUBJECT_MATCH       "kvtier.v1.query.match" /* answered by the advisor */
#define WIRE_SUBJECT_ROUTE       "kvtier.v1.query.route" /* answered by an advisor of a group */
#define WIRE_SUBJECT_STEP        "kvtier.v1.route.step"  /* read by every advisor */

/** "kvtier.v1.events.<namespace>.<partition>.<worker>". */
KVT_NODISCARD enum kvt_err wire_subject_events(char *out, size_t size, const char *namespace_,
                                               uint32_t partition, const char *worker);
/** "kvtier.v1.orders.<gateway>". */
KVT_NODISCARD enum kvt_err wire_subject_orders(char *out, size_t size, const char *gateway);
/** "kvtier.v1.reports.<gateway>". */
KVT_NODISCARD enum kvt_err wire_subject_reports(char *out, size_t size, const char *gateway);
/** "kvtier.v1.query.dump.<publisher>": answered by that publisher. */
KVT_NODISCARD enum kvt_err wire_subject_dump(char *out, size_t size, const char *worker);
/** "kvtier.v1.query.range.<publisher>": answered by that publisher. */
KVT_NODISCARD enum kvt_err wire_subject_range(char *out, size_t size, const char *worker);

/* The same two for a partner that does not encode its name.  KVT_INVALID, and "": the name has
 * nothing to encode, or is no part of a subject as it is. */
KVT_NODISCARD enum kvt_err wire_subject_bare_dump(char *out, size_t size, const char *worker);
KVT_NODISCARD enum kvt_err wire_subject_bare_range(char *out, size_t size, const char *worker);

/** "kvtier.v1.route.sync.<group>": what routers of a group tell each other. */
KVT_NODISCARD enum kvt_err wire_subject_route_sync(char *out, size_t size, const char *group);

#endif /* WIRE_MESSAGE_SUBJECT_H */
