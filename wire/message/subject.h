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

/* Subjects with one name at their end. */
enum wire_subject {
    WIRE_SUBJECT_ORDERS,     /* "kvtier.v1.orders.<gateway>" */
    WIRE_SUBJECT_REPORTS,    /* "kvtier.v1.reports.<gateway>" */
    WIRE_SUBJECT_DUMP,       /* "kvtier.v1.query.dump.<publisher>": answered by that publisher */
    WIRE_SUBJECT_RANGE,      /* "kvtier.v1.query.range.<publisher>": the same */
    WIRE_SUBJECT_ROUTE_SYNC, /* "kvtier.v1.route.sync.<group>": between the routers of a group */
};

/** "kvtier.v1.events.<namespace>.<partition>.<worker>". */
KVT_NODISCARD enum kvt_err wire_subject_events(char *out, size_t size, const char *namespace_,
                                               uint32_t partition, const char *worker);
/** KVT_OK, KVT_RANGE, or KVT_INVALID: the name is empty. */
KVT_NODISCARD enum kvt_err wire_subject_named(enum wire_subject kind, char *out, size_t size,
                                              const char *name);

/** The same for a partner that does not encode its name.  KVT_INVALID, and "": the name has nothing
 *  to encode, or is no part of a subject as it is. */
KVT_NODISCARD enum kvt_err wire_subject_bare(enum wire_subject kind, char *out, size_t size,
                                             const char *name);

#endif /* WIRE_MESSAGE_SUBJECT_H */
