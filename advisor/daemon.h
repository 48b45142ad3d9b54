/*
 * advisor/daemon.h -- the advisor as a whole: its parts wired together, started and stopped.
 *
 * Why: main() only knows settings; tests start the same daemon with settings of their own.
 * Ownership: the daemon owns every part; strings in the settings must live until it is closed.
 * Threads:   open and close on one thread; own threads: the writer, the outbox, the responder, the
 *            router, the bucket of workers, snapshots, the sources' readers and the HTTP server's.
 * Limits:    as its parts.
 */
#ifndef ADVISOR_DAEMON_H
#define ADVISOR_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/order/planner.h"
#include "kvtier/error.h"
#include "wire/message/key_ring.h"
#include "wire/nats/bus.h"

#include "router/cost.h"

struct advisor_daemon;

struct advisor_settings {
    const char *state_dir;
    uint64_t db_max;
    uint64_t index_max;
    uint64_t commit_max_wait_ms;
    bool volatile_places; /* workers' places are not written: after a start they are asked for */
    bool core;            /* events as plain messages instead of from the stream */
    bool durable;         /* a durable consumer, and snapshots of the index in NATS */
    const char *consumer; /* "": named after host and folder */
    const char *snapshot_bucket;
    uint64_t snapshot_events;
    uint64_t snapshot_every_ms;
    const char *sources_file; /* "": only our own events */
    uint64_t silent_after_ms;
    uint64_t gone_after_ms;
    uint64_t give_up_after_ms; /* foreign publishers; 0: at once */
    enum advisor_mode mode;
    const char *ordering;
    uint64_t idle_after_ms;
    uint32_t hot_start_ppm;
    uint32_t hot_stop_ppm;
    uint32_t cold_start_ppm;
    uint32_t cold_stop_ppm;
    uint64_t promote_after;
    const char *policy_file; /* NULL or "": none */
    uint64_t plan_interval_ms;
    uint64_t order_expiry_ms;
    struct wire_key_ring order_keys; /* count 0: none */
    bool observes_unsigned;          /* reports without a signature are shown */
    struct advisor_route_settings {
        const char *workers; /* "name[:ranks],..." */
        const char *bucket;  /* "": none */
        struct router_weights weights;
        uint32_t block_tokens; /* 0: no router */
        uint64_t expiry_ms;
        uint32_t requests_max;
        const char *group; /* "": alone */
        uint64_t router_id;
    } route;
    const char *admin_bind;
    uint16_t admin_port;
    const char *admin_token;
    const char *ports_file; /* "": none */
    struct wire_bus_options bus;
};

/** Start everything.  NATS may be away; the state folder and the admin port may not. */
KVT_NODISCARD enum kvt_err advisor_daemon_open(struct advisor_daemon **out,
                                               const struct advisor_settings *settings,
                                               struct kvt_error *err);

/** Stop taking, write what was taken, stop.  NULL is allowed. */
void advisor_daemon_close(struct advisor_daemon *daemon);

/** KVT_OK, or why it cannot go on: stop it.  Any thread. */
KVT_NODISCARD enum kvt_err advisor_daemon_failed(struct advisor_daemon *daemon,
                                                 struct kvt_error *err);

/** Read the policy's file again, if there is one (SIGHUP). */
void advisor_daemon_reload(struct advisor_daemon *daemon);

uint16_t advisor_daemon_port(const struct advisor_daemon *daemon);

#endif /* ADVISOR_DAEMON_H */
