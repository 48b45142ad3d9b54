/*
 * advisor/admin/advisor_admin.h -- the advisor's admin interface (docs/api.md, "Advisor").
 *
 * Why: people, the CLI and routers ask over HTTP; each answer is one page of JSON.
 * Ownership: borrows the daemon's parts.
 * Threads:   handlers run on the HTTP server's threads; they read what is safe to read.
 * Limits:    WIRE_QUERY_HASHES_MAX hashes in a question, ADVISOR_ADMIN_ROWS_MAX rows in a page.
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

#define ADVISOR_ADMIN_ROWS_MAX 10000
/* Handlers that wait for the writer at once; the others answer meanwhile. */
#define ADVISOR_ADMIN_WAIT_MAX (KVT_HTTP_THREADS - 2)

struct advisor_nats_responder;
struct kvt_conditions;

struct advisor_admin {
    struct advisor_round *round;
    struct advisor_planner *planner;
    struct advisor_rulebook *rulebook;
    struct advisor_presence *presence;              /* NULL with `router` */
    struct advisor_router *router;                  /* NULL: requests are not routed */
    const struct advisor_nats_responder *responder; /* NULL: nobody asks over NATS */
    struct advisor_jobs *jobs;
    struct advisor_source *events;   /* our own; NULL: not among the sources */
    struct advisor_sources *sources; /* /v1/sources */
    struct advisor_store *store;
    struct advisor_finder finder;
    struct wire_bus *bus;
    const struct advisor_counters *counters;
    struct kvt_conditions *conditions;
    struct advisor_traffic *tally;
    struct kvt_http_stream *stream; /* of the overview */
    const char *nats_url;
    uint64_t started_ms; /* monotonic */
    uint64_t silent_after_ms;
    uint64_t index_max;
    atomic_bool stopping; /* who waits for the writer gives up */
    atomic_uint waiting;  /* handlers that wait for the writer */
};

/** The routes; handlers take a struct advisor_admin. */
extern const struct kvt_http_route advisor_admin_routes[];
extern const size_t advisor_admin_route_count;

/** For kvt_http_options.ready. */
bool advisor_admin_ready(void *arg, struct kvt_buffer *why);

/** Append a line for all that is not as it should be; false: not ready either. */
bool advisor_admin_reasons(struct advisor_admin *http, struct kvt_buffer *why);
/** For kvt_http_stream_options.render: the document of GET /v1/overview. */
void advisor_admin_render_overview(void *arg, struct kvt_buffer *out);

/** Quotas that /metrics shows, so that a policy of many tenants makes no more series than that. */
#define ADVISOR_METRIC_QUOTAS_MAX 64

/** For kvt_http_options.more_metrics: the quotas of the policy in force. */
void advisor_admin_more_metrics(void *arg, struct kvt_buffer *out);
/** Append what is used of each quota, its soft and its hard size, in bytes; of more than
 *  ADVISOR_METRIC_QUOTAS_MAX those beyond hard, then those beyond soft, then the first. */
void advisor_admin_format_quotas(const struct advisor_quota_view *views, size_t count,
                                 struct kvt_buffer *out);

/* Handlers, in the files http*.c. */
void advisor_admin_page(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_admin_overview(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response);
void advisor_admin_stream(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_admin_status(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_admin_publishers(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response);
void advisor_admin_block(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_admin_explain(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);
void advisor_admin_find(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_admin_match(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_admin_stats(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_admin_dump(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_admin_export(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_admin_subtree(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);
void advisor_admin_candidates(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response);
void advisor_admin_history(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);
void advisor_admin_usage(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
void advisor_admin_quotas(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_admin_sources(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);
void advisor_admin_source(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_admin_orders(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_admin_policy(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
void advisor_admin_install(void *arg, const struct kvt_http_request *request,
                           struct kvt_http_response *response);
void advisor_admin_policies(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response);
void advisor_admin_rollback(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response);
void advisor_admin_set_mode(void *arg, const struct kvt_http_request *request,
                            struct kvt_http_response *response);

/* http_jobs.c */
void advisor_admin_jobs(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_admin_job(void *arg, const struct kvt_http_request *request,
                       struct kvt_http_response *response);
void advisor_admin_submit(void *arg, const struct kvt_http_request *request,
                          struct kvt_http_response *response);
/** POST /v1/jobs/ID/pause, resume and cancel. */
void advisor_admin_job_command(void *arg, const struct kvt_http_request *request,
                               struct kvt_http_response *response);
void advisor_admin_pause_all(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response);
void advisor_admin_resume_all(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response);

/* http_route.c, http_router.c */
void advisor_admin_route(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response);
/** POST /v1/route/requests and /v1/route/requests/ID/prefilled and /free. */
void advisor_admin_route_add(void *arg, const struct kvt_http_request *request,
                             struct kvt_http_response *response);
void advisor_admin_route_step(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response);
void advisor_admin_route_workers(void *arg, const struct kvt_http_request *request,
                                 struct kvt_http_response *response);
void advisor_admin_route_requests(void *arg, const struct kvt_http_request *request,
                                  struct kvt_http_response *response);
/** Is there a router?  False: `response` says that there is none. */
bool advisor_admin_routed(const struct advisor_admin *http, struct kvt_http_response *response);
/** Append "route": {...} of the status, or nothing without a router. */
void advisor_admin_add_route(const struct advisor_admin *http, struct kvt_buffer *out);

/* http_plan.c */
void advisor_admin_plan(void *arg, const struct kvt_http_request *request,
                        struct kvt_http_response *response);
void advisor_admin_plan_check(void *arg, const struct kvt_http_request *request,
                              struct kvt_http_response *response);

/** Append the batches of a job of which something failed, up to some (http_failures.c). */
KVT_NODISCARD enum kvt_err advisor_admin_failures(struct kvt_buffer *out,
                                                  const struct advisor_txn *txn,
                                                  const struct advisor_job_row *job);

/** Answer with a job that was taken, or why it was not. */
void advisor_admin_taken(struct kvt_http_response *response, enum kvt_err rc,
                         const struct advisor_job_row *job, const struct kvt_error *err);

struct json_object;
/** "dry_run", false where it is missing; KVT_INVALID: it is something else. */
KVT_NODISCARD enum kvt_err advisor_admin_dry(struct json_object *json, bool *dry,
                                             struct kvt_error *err);
/** Answer a request for a job that names a prefix: {verb, hash, namespace, to, until_ms,
 *  dry_run}. */
void advisor_admin_select(const struct advisor_admin *http, struct json_object *json,
                          struct kvt_http_response *response);

/** The gateways that reported, to be freed by the caller; NULL, and none: no memory. */
struct advisor_gateway_view *advisor_admin_gateways(const struct advisor_admin *http,
                                                    size_t *count);

/** Append "gateways": [...] and "tiers": [...]; not `timed`: without the times of reports, which
 *  change when nothing else does. */
void advisor_admin_add_gateways(const struct advisor_admin *http, bool timed,
                                struct kvt_buffer *out);
void advisor_admin_add_tiers(const struct advisor_admin *http, bool timed, struct kvt_buffer *out);

/** Has the index been read into memory?  False, and answered 503 with how far it is: not yet. */
bool advisor_admin_loaded(const struct advisor_admin *http, struct kvt_http_response *response);

/* Which ordering decides, of a tier that is to get another one if there is any. */
struct advisor_admin_ordering {
    const char *now;
    const char *next; /* "": none is to get another */
    uint32_t waiting; /* tiers that are to */
    bool reranking;   /* that one's order is being made: */
    uint64_t ranked;  /* rows of the store that were read for it */
    uint64_t to_rank; /* that there are */
};

void advisor_admin_find_ordering(const struct advisor_admin *http,
                                 const struct advisor_rules *rules,
                                 struct advisor_admin_ordering *ordering);
/** What a policy asks for of a tier that has the orders `now`; false, and none: these. */
bool advisor_admin_next_orders(const struct advisor_admin *http, const struct advisor_rules *rules,
                               const char *holder, const struct advisor_orders *now,
                               struct advisor_orders *next);
/** Members of a tier's object, each followed by a comma. */
void advisor_admin_tier_order(const struct advisor_admin *http, const struct advisor_rules *rules,
                              const struct advisor_tier_view *tier, struct kvt_buffer *out);

/** Query argument `name` as a number from 0 to `max`; false (and answered 400) when it is none. */
bool advisor_admin_number(const struct kvt_http_request *request,
                          struct kvt_http_response *response, const char *name, uint64_t fallback,
                          uint64_t max, uint64_t *value);

/** Open an answer: its version, and how far the index is read while that is not done. */
void advisor_admin_begin(const struct advisor_admin *http, struct kvt_buffer *out);
/** Is everything in memory, and nothing evicted from it? */
bool advisor_admin_whole(const struct advisor_admin *http);

/** Append "key": "text", with what must be escaped. */
void advisor_admin_text(struct kvt_buffer *out, const char *key, const char *text);
void advisor_admin_hash(struct kvt_buffer *out, const char *key, uint64_t hash);

#endif /* ADVISOR_ADMIN_ADVISOR_ADMIN_H */
