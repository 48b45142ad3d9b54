/*
 * advisor/transport/discovery_record.h -- one record of Dynamo's discovery, as a pure function of
 * its bytes.
 *
 * Why: what is in the folder was written by others, in the words of their release; it is read in
 * one place and can be fuzzed there.
 * Limits:    as advisor/transport/discovery.h.
 */
#ifndef ADVISOR_TRANSPORT_DISCOVERY_RECORD_H
#define ADVISOR_TRANSPORT_DISCOVERY_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/transport/zmq.h"
#include "kvtier/error.h"

#define ADVISOR_DISCOVERY_ENDPOINTS_MAX 8   /* of one record: brokers */
#define ADVISOR_DISCOVERY_TEXT_MAX      512 /* an address with its path, with the final NUL */

/* How a worker is asked. */
struct advisor_discovery_target {
    char tcp[ADVISOR_DISCOVERY_TEXT_MAX];  /* "host:port/path" of its request plane, or "" */
    char nats[ADVISOR_DISCOVERY_TEXT_MAX]; /* subject, or "" */
    bool json;                             /* bodies are JSON, not msgpack */
};

enum advisor_discovery_bucket {
    ADVISOR_DISCOVERY_CHANNELS,  /* v1/event_channels: where events are sent from */
    ADVISOR_DISCOVERY_SOURCES,   /* v1/event_sources: whose they are, and who can be asked */
    ADVISOR_DISCOVERY_INSTANCES, /* v1/instances: endpoints of processes */
    ADVISOR_DISCOVERY_BUCKETS,
};

extern const char *const advisor_discovery_folders[ADVISOR_DISCOVERY_BUCKETS]; /* below v1 */

struct advisor_discovery_record {
    enum advisor_discovery_bucket bucket;
    char endpoints[ADVISOR_DISCOVERY_ENDPOINTS_MAX][ADVISOR_ZMQ_ENDPOINT_MAX]; /* CHANNELS */
    size_t endpoint_count;
    char scope[ADVISOR_DISCOVERY_TEXT_MAX]; /* CHANNELS: "namespace.N.component.C..." */
    char name[128];                         /* INSTANCES: of the endpoint */
    uint64_t worker;                        /* SOURCES, INSTANCES; CHANNELS: or its publisher's */
    uint32_t dp_rank;                       /* SOURCES */
    struct advisor_discovery_target target; /* SOURCES, INSTANCES */
};

/** KVT_OK, KVT_NOTFOUND (a record of something else than KV events) or KVT_INVALID. */
KVT_NODISCARD enum kvt_err advisor_discovery_read(struct advisor_discovery_record *record,
                                                  enum advisor_discovery_bucket bucket,
                                                  const char *text, size_t size,
                                                  struct kvt_error *err);

#endif /* ADVISOR_TRANSPORT_DISCOVERY_RECORD_H */
