/*
 * advisor/admin/advisor_admin.h -- the advisor's admin interface (docs/api.md, "Advisor").
 *
 * Why: people, the CLI and routers ask over HTTP; each answer is one page of JSON.
 * Ownership: borrows the daemon's parts.
 * Threads:   handlers run on the HTTP server's threads; they read what is safe to read.
 * Limits:    WIRE_QUERY_HASHES_MAX hashes in a question, ADVISOR_HTTP_ROWS_MAX rows in a page.
 */
#ifndef ADVISOR_ADMIN_ADVISOR_ADMIN_H
#define ADVISOR_ADMIN_ADVISOR_ADMIN_H

#include <stdatomic.h>

#include "advisor/answer/finder.h"
#include "advisor/index/advisor_counters.h"
#include "advisor/job/jobs.h"
#include "advisor/order/planner.h"
#include "advisor/order/traffic.h"
#include "advisor/round/round.h"
#include "advisor/route/presence.h"
#include "advisor/route/router.h"
#include "advisor/rule/rulebook.h"
#include "advisor/source/sources.h"
#include "base/http/http.h"

#define ADVISOR_HTTP_ROWS_MAX 10000
/* Handlers that wait for the engine at once; the others answer meanwhile. */
#define ADVISOR_HTTP_WAIT_MAX (KVT_HTTP_THREADS - 2)

struct advisor_responder;

struct advisor_http {
    struct advisor_engine *engine;
    struct advisor_planner *planner;
    struct advisor_rulebook *rulebook;
    struct advisor_presence *presence;         /* NULL with `router` */
    struct advisor_router *router;             /* NULL: requests are not routed */
    const struct advisor_responder *responder; /* NULL: nobody asks over NATS */
    struct advisor_jobs *jobs;
    struct advisor_source *events;   /* our own; NULL: not among the sources */
    struct advisor_sources *sources; /* /v1/sources */
    struct advisor_store *store;
    struct advisor_finder finder;
    struct wire_bus *bus;
    const struct advisor_counters *counters;
    struct advisor_tally *tally;
    struct kvt_http_stream *stream; /* of the overview */
    const char *nats_url;
    uint64_t started_ms; /* monotonic */
    uint64_t silent_after_ms;
    uint64_t index_max;
    atomic_bool stopping; /* who waits for the engine gives up */
    atomic_uint waiting;  /* handlers that wait for the engine */
};

/** The routes; handlers take a struct advisor_http. */
extern const struct kvt_http_route advisor_http_routes[];
extern const size_t advisor_http_route_count;

/** For kvt_http_options.ready. */
bool advisor_http_ready(void *arg, struct kvt_buffer *why);

/** Append a line for all that is not as it should be; false: not ready either. */
bool advisor_http_reasons(struct advisor_http *http, struct kvt_buffer *why);
/** For kvt_http_stream_options.render: the document of GET /v1/overview. */
void advisor_http_render_overview(void *arg, struct kvt_buffer *out);

/** Quotas that /metrics shows, so that a policy of many tenants makes no more series than that. */
#define ADVISOR_METRIC_QUOTAS_MAX 64

/** For kvt_http_options.more_metrics: the quotas of the policy in force. */
void advisor_http_more_metrics(void *arg, struct kvt_buffer *out);
/** Append what is used of each quota, its soft and its hard size, in bytes; of more than
 *  ADVISOR_METRIC_QUOTAS_MAX those beyond hard, then those beyond soft, then the first. */
void advisor_http_format_quotas(const struct advisor_quota_view *views, size_t count,
                                struct kvt_buffer *out);

/* Handlers, in the files http*.c. */
void advisor_http_page(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response);
void advisor_http_overview(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);
void advisor_http_stream(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_http_status(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_http_publishers(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response);
void advisor_http_block(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_http_explain(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_http_find(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response);
void advisor_http_match(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_http_stats(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_http_dump(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response);
void advisor_http_export(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_http_subtree(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_http_candidates(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response);
void advisor_http_history(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_http_usage(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_http_quotas(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_http_sources(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_http_source(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_http_orders(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_http_policy(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_http_install(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_http_policies(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);
void advisor_http_rollback(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);
void advisor_http_set_mode(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);

/* http_jobs.c */
void advisor_http_jobs(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response);
void advisor_http_job(void *arg, const struct kvt_http_request *request,
                      struct kvt_http_response *response);
void advisor_http_submit(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
/** POST /v1/jobs/ID/pause, resume and cancel. */
void advisor_http_job_command(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response);
void advisor_http_pause_all(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response);
void advisor_http_resume_all(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response);

/* http_route.c, http_router.c */
void advisor_http_route(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
/** POST /v1/route/requests and /v1/route/requests/ID/prefilled and /free. */
void advisor_http_route_add(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response);
void advisor_http_route_step(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response);
void advisor_http_route_workers(void *arg, const struct kvt_http_request *request,
                                struct kvt_http_response *response);
void advisor_http_route_requests(void *arg, const struct kvt_http_request *request,
                                 struct kvt_http_response *response);
/** Is there a router?  False: `response` says that there is none. */
bool advisor_http_routed(const struct advisor_http *http, struct kvt_http_response *response);
/** Append "route": {...} of the status, or nothing without a router. */
void advisor_http_add_route(const struct advisor_http *http, struct kvt_buffer *out);

/* http_plan.c */
void advisor_http_plan(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response);
void advisor_http_plan_check(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response);

/** Append the batches of a job of which something failed, up to some (http_failures.c). */
KVT_NODISCARD enum kvt_err advisor_http_failures(struct kvt_buffer *out,
                                                 const struct advisor_txn *txn,
                                                 const struct advisor_job_row *job);

/** Answer with a job that was taken, or why it was not. */
void advisor_http_taken(struct kvt_http_response *response, enum kvt_err rc,
                        const struct advisor_job_row *job, const struct kvt_error *err);

struct json_object;
/** "dry_run", false where it is missing; KVT_INVALID: it is something else. */
KVT_NODISCARD enum kvt_err advisor_http_dry(struct json_object *json, bool *dry,
                                            struct kvt_error *err);
/** Answer a request for a job that names a prefix: {verb, hash, namespace, to, until_ms,
 *  dry_run}. */
void advisor_http_select(const struct advisor_http *http, struct json_object *json,
                         struct kvt_http_response *response);

/** The gateways that reported, to be freed by the caller; NULL, and none: no memory. */
struct advisor_gateway_view *advisor_http_gateways(const struct advisor_http *http, size_t *count);

/** Append "gateways": [...] and "tiers": [...]; not `timed`: without the times of reports, which
 *  change when nothing else does. */
void advisor_http_add_gateways(const struct advisor_http *http, bool timed, struct kvt_buffer *out);
void advisor_http_add_tiers(const struct advisor_http *http, bool timed, struct kvt_buffer *out);

/** Has the index been read into memory?  False, and answered 503 with how far it is: not yet. */
bool advisor_http_loaded(const struct advisor_http *http, struct kvt_http_response *response);

/** Before and after a handler waits for the engine's thread; false (and answered 503): so many wait
 *  already that others would not be answered either. */
bool advisor_http_enter(struct advisor_http *http, struct kvt_http_response *response);
void advisor_http_leave(struct advisor_http *http);

/* Which ordering decides, of a tier that is to get another one if there is any. */
struct advisor_http_ordering {
    const char *now;
    const char *next; /* "": none is to get another */
    uint32_t waiting; /* tiers that are to */
    bool reranking;   /* that one's order is being made: */
    uint64_t ranked;  /* rows of the store that were read for it */
    uint64_t to_rank; /* that there are */
};

void advisor_http_find_ordering(const struct advisor_http *http, const struct advisor_rules *rules,
                                struct advisor_http_ordering *ordering);
/** What a policy asks for of a tier that has the orders `now`; false, and none: these. */
bool advisor_http_next_orders(const struct advisor_http *http, const struct advisor_rules *rules,
                              const char *holder, const struct advisor_orders *now,
                              struct advisor_orders *next);
/** Members of a tier's object, each followed by a comma. */
void advisor_http_tier_order(const struct advisor_http *http, const struct advisor_rules *rules,
                             const struct advisor_tier_view *tier, struct kvt_buffer *out);

/** Query argument `name` as a number from 0 to `max`; false (and answered 400) when it is none. */
bool advisor_http_number(const struct kvt_http_request *request, struct kvt_http_response *response,
                         const char *name, uint64_t fallback, uint64_t max, uint64_t *value);

/** Open an answer: its version, and how far the index is read while that is not done. */
void advisor_http_begin(const struct advisor_http *http, struct kvt_buffer *out);
/** Is everything in memory, and nothing evicted from it? */
bool advisor_http_whole(const struct advisor_http *http);

/** Append "key": "text", with what must be escaped. */
void advisor_http_text(struct kvt_buffer *out, const char *key, const char *text);
void advisor_http_hash(struct kvt_buffer *out, const char *key, uint64_t hash);

#endif /* ADVISOR_ADMIN_ADVISOR_ADMIN_H */
