/*
 * advisor/source/source_discovery.h -- telling the engine of workers that left Dynamo's discovery.
 *
 * Why: a worker that dies says nothing; its record in the discovery folder goes.  Whatever plane a
 * source hears events over, it looks there the same way.
 * Ownership: a watch owns its thread and its records.
 * Threads:   start and stop on the engine's thread; advisor_source_discovery_look() on the one that
 *            owns the discovery.
 * Limits:    as advisor/transport/discovery.h; a look every ADVISOR_SOURCE_DISCOVERY_EVERY_MS.
 */
#ifndef ADVISOR_SOURCE_SOURCE_DISCOVERY_H
#define ADVISOR_SOURCE_SOURCE_DISCOVERY_H

#include "advisor/source/source_private.h"
#include "advisor/transport/discovery.h"

#define ADVISOR_SOURCE_DISCOVERY_EVERY_MS 1000

/** Scan, and hand over an ADVISOR_INBOX_ITEM_GONE for each worker that went.  As
 *  advisor_discovery_scan(); also KVT_CANCELLED: the source is stopping. */
KVT_NODISCARD enum kvt_err advisor_source_discovery_look(struct advisor_source *source,
                                                         struct advisor_discovery *discovery,
                                                         struct kvt_error *err);

struct advisor_source_watch;

/** A thread that does so for a source whose events come another way.  Where the source has no
 *  `discovery` there is nothing to watch: KVT_OK and NULL. */
KVT_NODISCARD enum kvt_err advisor_source_watch_start(struct advisor_source_watch **out,
                                                      struct advisor_source *source);

/** Stop it; the source must be stopping, or room be made in its queue.  NULL is allowed. */
void advisor_source_watch_stop(struct advisor_source_watch *watch);

#endif /* ADVISOR_SOURCE_SOURCE_DISCOVERY_H */
