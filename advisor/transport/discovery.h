/*
 * advisor/transport/discovery.h -- Dynamo's discovery where it is a folder: who is there, and
 * where.
 *
 * Why: workers come and go, each publishes its events at an address of its own, and each answers
 * questions about them at another.  With the file store all of that is files: a folder a bucket, a
 * name that is a percent-encoded key, a JSON record inside, and a time of change that its owner
 * renews while it lives.
 *
 * What is true of a record: it is there from when it is first read, and gone when its file is
 * missing from two scans in turn or has not been renewed for ADVISOR_DISCOVERY_STALE_MS.  One that
 * cannot be read stays what it was; a folder that cannot be read takes nothing away.
 *
 * Ownership: the watch owns its records; what it hands out lives until the next scan.
 * Threads:   one at a time; advisor_discovery_find() on any.
 * Limits:    the names below; records above them are passed over and counted.
 */
#ifndef ADVISOR_TRANSPORT_DISCOVERY_H
#define ADVISOR_TRANSPORT_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/transport/discovery_record.h"
#include "kvtier/error.h"

#define ADVISOR_DISCOVERY_RECORDS_MAX 65536
#define ADVISOR_DISCOVERY_RECORD_MAX  (64u << 10) /* bytes of one */
#define ADVISOR_DISCOVERY_STALE_MS    60000

struct advisor_discovery;

/** `folder` is the one that holds v1.  `scope` is a prefix of the subjects whose publishers are
 *  looked for ("namespace.prod.component.backend"), "" = all.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_discovery_new(struct advisor_discovery **out, const char *folder,
                                                 const char *scope);
/** NULL is allowed. */
void advisor_discovery_free(struct advisor_discovery *discovery);

/** Read what is there now.  KVT_OK, or KVT_IO, KVT_NOTFOUND, KVT_NOMEM: what was known stays. */
KVT_NODISCARD enum kvt_err advisor_discovery_scan(struct advisor_discovery *discovery,
                                                  uint64_t now_ms, struct kvt_error *err);

/** Where publishers and brokers send from, each address once, sorted. */
const char *const *advisor_discovery_endpoints(const struct advisor_discovery *discovery,
                                               size_t *count);

/** Workers that the last scan found to be gone, each once. */
const uint64_t *advisor_discovery_gone(const struct advisor_discovery *discovery, size_t *count);

/** Workers that are there. */
size_t advisor_discovery_workers(const struct advisor_discovery *discovery);

/** Records that were passed over in the last scan. */
size_t advisor_discovery_odd(const struct advisor_discovery *discovery);

/** Where the events of a worker's rank can be asked for.  KVT_OK, KVT_NOTFOUND, KVT_IO, or
 *  KVT_AGAIN: nothing says how to ask that rank, but another record says that the worker is there,
 *  of another rank or endpoint or of the channel it sends through as `publisher` (0: not known). */
KVT_NODISCARD enum kvt_err advisor_discovery_find(const char *folder, uint64_t worker,
                                                  uint32_t dp_rank, uint64_t publisher,
                                                  struct advisor_discovery_target *target,
                                                  struct kvt_error *err);

#endif /* ADVISOR_TRANSPORT_DISCOVERY_H */
