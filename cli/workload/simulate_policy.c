#include "cli/workload/simulate_policy.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/parse.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/policy/cmd_policy_file.h"

#include "policy/file/policy_parse.h"
#include "policy/ordering/ordering_table.h"
#include "policy/simulate/policy_simulation.h"

/* As the advisor's: its ticks, the default of policy.promote_after. */
enum { TICK_MS = 100, COLD_READS = 2, MONEY_DIGITS = 4 };

#define ROSTER_BYTES (UINT64_C(1) << 40) /* as much as there is */

struct run {
    const struct cli_simulate_policy *job;
    struct policy *policy;
    struct policy_simulation *ladder;
    struct policy_simulation_options options;
    struct policy_simulation_result result;
};

/* ---- what is asked for ---- */

static int32_t
find_tier(const struct policy *policy, const char *name, size_t size)
{
    for (size_t i = 0; i < policy->tiers.count; i++)
        if (strlen(policy_tier_at(policy, i)->name) == size &&
            strncmp(policy_tier_at(policy, i)->name, name, size) == 0)
            return (int32_t)i;
    return -1;
}

static enum kvt_err
read_capacities(struct run *run, struct kvt_error *err)
{
    const char *at = run->job->capacity;

    for (size_t i = 0; i < run->policy->tiers.count && i < POLICY_SIMULATION_TIERS_MAX; i++)
        run->options.capacity[i] = policy_tier_at(run->policy, i)->capacity;
    while (*at != '\0') {
        const size_t size = strcspn(at, ",");
        const size_t name = strcspn(at, "=");
        const int32_t tier = name < size ? find_tier(run->policy, at, name) : -1;
        char text[64];

        (void)snprintf(text, sizeof(text), "%.*s", name < size ? (int)(size - name - 1) : 0,
                       at + name + (name < size));
        if (tier < 0 || tier >= POLICY_SIMULATION_TIERS_MAX ||
            kvt_parse_size(text, &run->options.capacity[tier]) != KVT_OK)
            return kvt_error_set(err, KVT_INVALID,
                                 "--capacity: \"%.*s\" is no tier of the policy with a size, as "
                                 "%s=200GiB",
                                 (int)size, at, policy_tier_at(run->policy, 0)->name);
        at += size + (at[size] == ',');
    }
    return KVT_OK;
}

static const struct kvt_ordering *
ordering_of(const struct run *run)
{
    const char *name = run->policy->defaults.order_by.text;

    if (run->job->ordering != NULL)
        return run->job->ordering;
    return policy_ordering_find(name[0] == '\0' ? POLICY_ORDERING_DEFAULT : name);
}

static enum kvt_err
prepare(struct run *run, struct kvt_error *err)
{
    enum kvt_err rc;

    run->options =
        (struct policy_simulation_options){.policy = run->policy,
                                           .workload = run->job->workload,
                                           .ordering = ordering_of(run),
                                           .ordering_options = run->job->ordering_options,
                                           .block_bytes = run->job->block_bytes,
                                           .tick_ms = TICK_MS,
                                           .cold_reads = COLD_READS,
                                           .roster_bytes = ROSTER_BYTES};
    if (run->options.ordering == NULL)
        return kvt_error_set(err, KVT_INVALID,
                             "there is no ordering \"%s\" to simulate: name one with --orderings",
                             run->policy->defaults.order_by.text);
    if (run->job->block_bytes > UINT32_MAX)
        return kvt_error_set(err, KVT_INVALID, "--block-size: below 4GiB with a policy");
    rc = read_capacities(run, err);
    if (rc != KVT_OK)
        return rc;
    rc = policy_simulation_new(&run->ladder, &run->options);
    if (rc == KVT_INVALID)
        return kvt_error_set(err, rc,
                             "%.200s: a simulation needs a volume or a bucket, and up to %d "
                             "tiers",
                             run->job->path, POLICY_SIMULATION_TIERS_MAX);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "out of memory");
}

static enum kvt_err
simulate(struct run *run, struct kvt_error *err)
{
    const struct policy_workload *workload = run->job->workload;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; rc == KVT_OK && i < policy_workload_requests(workload); i++) {
        const struct policy_workload_request request = policy_workload_request(workload, i);

        rc = policy_simulation_request(run->ladder, &request);
    }
    run->result = policy_simulation_result(run->ladder);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "out of memory");
}

/* ---- figures ---- */

static const char *
name_of(const struct run *run, size_t tier)
{
    return policy_tier_at(run->policy, tier)->name;
}

static double
share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100 * (double)part / (double)whole;
}

static double
money_of(const struct run *run)
{
    double money = 0;

    for (uint32_t i = 0; i < run->result.tier_count; i++)
        money += policy_simulation_money(&run->result, &run->options, i);
    return money;
}

/* What the quota counts at the end. */
static uint64_t
used_of(const struct run *run, const struct policy_quota *quota)
{
    const struct policy_workload *workload = run->job->workload;
    uint64_t used = 0;

    for (uint32_t tenant = 0; tenant < policy_workload_tenants(workload); tenant++)
        for (uint32_t tier = 0; tier < run->result.tier_count; tier++)
            if (strcmp(policy_workload_tenant(workload, tenant)->tenant, quota->tenant) == 0 &&
                (quota->tier.index < 0 || quota->tier.index == (int32_t)tier))
                used += policy_simulation_used_by(run->ladder, tenant, tier);
    return used;
}

static const char *
quota_tier(const struct policy_quota *quota)
{
    return quota->tier.index < 0 ? "all" : quota->tier.text;
}

/* ---- tables ---- */

static void
add_size(struct cli_table *table, uint64_t bytes)
{
    char text[KVT_SIZE_TEXT_MAX];

    kvt_size_format(bytes, text);
    cli_table_add(table, "%s", text);
}

static void
print_tiers(FILE *out, const struct run *run)
{
    static const struct cli_column columns[] = {{"TIER", false}, {"CAPACITY", true}, {"MOST", true},
                                                {"READS", true}, {"OF KNOWN", true}, {"GETS", true},
                                                {"PUTS", true},  {"MONEY", true}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t i = 0; i < run->result.tier_count; i++) {
        const struct policy_simulation_tier *tier = &run->result.tiers[i];

        cli_table_add(&table, "%s", name_of(run, i));
        if (run->options.capacity[i] == 0)
            cli_table_add(&table, "-");
        else
            add_size(&table, run->options.capacity[i]);
        add_size(&table, tier->most * run->options.block_bytes);
        cli_table_add(&table, "%" PRIu64, tier->reads);
        cli_table_add(&table, "%.2f%%", share(tier->reads, run->result.known_reads));
        cli_table_add(&table, "%" PRIu64, tier->gets);
        cli_table_add(&table, "%" PRIu64, tier->puts);
        cli_table_add(&table, "%.*f", MONEY_DIGITS,
                      policy_simulation_money(&run->result, &run->options, i));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_edges(FILE *out, const struct run *run)
{
    static const struct cli_column columns[] = {
        {"FROM", false}, {"TO", false}, {"BLOCKS", true}, {"COPIED", true}, {"BYTES", true}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t from = 0; from < run->result.tier_count; from++)
        for (uint32_t to = 0; to < run->result.tier_count; to++) {
            const struct policy_simulation_edge *edge = &run->result.edges[from][to];

            if (edge->blocks == 0)
                continue;
            cli_table_add(&table, "%s", name_of(run, from));
            cli_table_add(&table, "%s", name_of(run, to));
            cli_table_add(&table, "%" PRIu64, edge->blocks);
            cli_table_add(&table, "%" PRIu64, edge->copied);
            add_size(&table, edge->copied * run->options.block_bytes);
        }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static void
print_quotas(FILE *out, const struct run *run)
{
    static const struct cli_column columns[] = {
        {"TENANT", false}, {"TIER", false}, {"SOFT", true}, {"HARD", true}, {"USED", true}};
    struct cli_table table;

    if (run->policy->quotas.count == 0)
        return;
    (void)fputc('\n', out);
    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < run->policy->quotas.count; i++) {
        const struct policy_quota *quota = policy_quota_at(run->policy, i);

        cli_table_add(&table, "%s", quota->tenant);
        cli_table_add(&table, "%s", quota_tier(quota));
        if (quota->soft == 0)
            cli_table_add(&table, "-");
        else
            add_size(&table, quota->soft);
        add_size(&table, quota->hard);
        add_size(&table, used_of(run, quota));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
}

/* Does a rule take blocks out of the tier? */
static bool
is_drained(const struct run *run, uint32_t tier)
{
    for (size_t i = 0; i < run->policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(run->policy, i);

        if ((rule->verb == POLICY_DEMOTE || rule->verb == POLICY_EXPIRE) &&
            policy_rule_tier(rule) == (int32_t)tier && !policy_simulation_leaves_out(rule))
            return true;
    }
    return false;
}

/* New blocks come to the last tier and to the first bucket whether there is room or not, so that it
 * is seen how much of it a policy would need. */
static void
print_overfull(FILE *out, const struct run *run)
{
    char text[KVT_SIZE_TEXT_MAX];

    for (uint32_t i = 0; i < run->result.tier_count; i++) {
        const uint64_t most = run->result.tiers[i].most * run->options.block_bytes;

        if (run->options.capacity[i] == 0 || most <= run->options.capacity[i])
            continue;
        kvt_size_format(most, text);
        (void)fprintf(out,
                      "%s would need %s, which is more than it may hold: %s; a gateway at its cap "
                      "refuses new blocks\n",
                      name_of(run, i), text,
                      is_drained(run, i) ? "its rules let too little go"
                                         : "no rule demotes or expires what it has");
    }
}

/* ---- what limits kept back ---- */

static const struct {
    enum policy_simulation_stop why;
    const char *key;  /* of the policy */
    const char *name; /* in JSON */
} stops[] = {
    {POLICY_SIMULATION_RATE, "limits.rate", "rate"},
    {POLICY_SIMULATION_PER_RUN, "limits.per_run", "per_run"},
    {POLICY_SIMULATION_MAX_DELETE, "modes.max_delete", "max_delete"},
};

static void
print_stops(FILE *out, const char *rule, const struct policy_simulation_figures *figures)
{
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        const uint64_t waited_ms = figures->waited_ms[stops[i].why];
        const uint64_t ended = figures->stops[stops[i].why];

        if (waited_ms == 0 && ended == 0)
            continue;
        (void)fprintf(out, "rule %s: %s", rule, stops[i].key);
        if (ended > 0)
            (void)fprintf(out, " ended %" PRIu64 " run%s%s", ended, ended == 1 ? "" : "s",
                          waited_ms > 0 ? "," : "");
        if (waited_ms > 0)
            (void)fprintf(out, " kept it back for %.1f s", (double)waited_ms / 1000);
        (void)fputc('\n', out);
    }
    if (figures->dropped > 0)
        (void)fprintf(out, "rule %s: its limits left %" PRIu64 " promotions undone\n", rule,
                      figures->dropped);
}

static void
print_limits(FILE *out, const struct run *run)
{
    for (size_t i = 0; i < run->policy->rules.count; i++) {
        const struct policy_simulation_figures figures = policy_simulation_figures(run->ladder, i);

        print_stops(out, policy_rule_at(run->policy, i)->id, &figures);
    }
    if (run->result.observed > 0)
        (void)fprintf(out, "modes.canary kept rules from moving a block %" PRIu64 " time%s\n",
                      run->result.observed, run->result.observed == 1 ? "" : "s");
    if (run->result.staged > 0)
        (void)fprintf(out, "%" PRIu64 " copies were made ahead (trigger.prestage)\n",
                      run->result.staged);
}

static void
print(FILE *out, const struct run *run)
{
    const struct policy_simulation_result *result = &run->result;
    char text[KVT_SIZE_TEXT_MAX];

    kvt_size_format(run->options.block_bytes, text);
    (void)fprintf(out,
                  "%" PRIu64 " requests over %.1f s read %" PRIu64 " blocks, %" PRIu64
                  " different ones of %s, under %s\n\n",
                  result->requests, (double)result->span_ms / 1000, result->reads, result->blocks,
                  text, run->options.ordering->name);
    print_tiers(out, run);
    (void)fputc('\n', out);
    print_edges(out, run);
    print_quotas(out, run);
    (void)fprintf(out,
                  "\n%.1f%% prefix hits in %s; a known block is read in %.1f ms; money for this "
                  "time: %.*f\n",
                  share(result->prefix_hits, result->reads), name_of(run, result->entry),
                  policy_simulation_latency_ms(result, run->policy), MONEY_DIGITS, money_of(run));
    print_overfull(out, run);
    print_limits(out, run);
    if (result->expired > 0)
        (void)fprintf(out, "%" PRIu64 " blocks expired, %" PRIu64 " were read again after that\n",
                      result->expired, result->lost_reads);
    if (result->refused > 0)
        (void)fprintf(out, "%" PRIu64 " promotions were beyond a quota\n", result->refused);
    for (size_t i = 0; i < run->policy->rules.count; i++)
        if (policy_simulation_leaves_out(policy_rule_at(run->policy, i)))
            (void)fprintf(out, "not simulated: rule %s\n", policy_rule_at(run->policy, i)->id);
}

/* ---- JSON ---- */

static struct json_object *
tiers_json(const struct run *run)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < run->result.tier_count; i++) {
        const struct policy_simulation_tier *tier = &run->result.tiers[i];
        struct json_object *object = json_object_new_object();

        cli_json_add_text(object, "name", name_of(run, i));
        cli_json_add(object, "capacity_bytes", run->options.capacity[i]);
        cli_json_add(object, "reads", tier->reads);
        cli_json_add_number(object, "reads_percent", share(tier->reads, run->result.known_reads),
                            MONEY_DIGITS);
        cli_json_add(object, "gets", tier->gets);
        cli_json_add(object, "puts", tier->puts);
        cli_json_add(object, "blocks", tier->blocks);
        cli_json_add(object, "most_blocks", tier->most);
        cli_json_add_number(object, "money",
                            policy_simulation_money(&run->result, &run->options, i), MONEY_DIGITS);
        (void)json_object_array_add(list, object);
    }
    return list;
}

static struct json_object *
edges_json(const struct run *run)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t from = 0; from < run->result.tier_count; from++)
        for (uint32_t to = 0; to < run->result.tier_count; to++) {
            const struct policy_simulation_edge *edge = &run->result.edges[from][to];
            struct json_object *object;

            if (edge->blocks == 0)
                continue;
            object = json_object_new_object();
            cli_json_add_text(object, "from", name_of(run, from));
            cli_json_add_text(object, "to", name_of(run, to));
            cli_json_add(object, "blocks", edge->blocks);
            cli_json_add(object, "copied", edge->copied);
            cli_json_add(object, "bytes", edge->copied * run->options.block_bytes);
            (void)json_object_array_add(list, object);
        }
    return list;
}

static struct json_object *
quotas_json(const struct run *run)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < run->policy->quotas.count; i++) {
        const struct policy_quota *quota = policy_quota_at(run->policy, i);
        struct json_object *object = json_object_new_object();

        cli_json_add_text(object, "tenant", quota->tenant);
        cli_json_add_text(object, "tier", quota_tier(quota));
        cli_json_add(object, "soft", quota->soft);
        cli_json_add(object, "hard", quota->hard);
        cli_json_add(object, "used", used_of(run, quota));
        (void)json_object_array_add(list, object);
    }
    return list;
}

static struct json_object *
left_out_json(const struct run *run)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < run->policy->rules.count; i++)
        if (policy_simulation_leaves_out(policy_rule_at(run->policy, i)))
            (void)json_object_array_add(list,
                                        json_object_new_string(policy_rule_at(run->policy, i)->id));
    return list;
}

static struct json_object *
rules_json(const struct run *run)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < run->policy->rules.count; i++) {
        const struct policy_simulation_figures figures = policy_simulation_figures(run->ladder, i);
        struct json_object *object = json_object_new_object();
        char name[64];

        cli_json_add_text(object, "id", policy_rule_at(run->policy, i)->id);
        cli_json_add(object, "blocks", figures.blocks);
        cli_json_add(object, "dropped", figures.dropped);
        for (size_t k = 0; k < sizeof(stops) / sizeof(stops[0]); k++) {
            (void)snprintf(name, sizeof(name), "%s_stops", stops[k].name);
            cli_json_add(object, name, figures.stops[stops[k].why]);
            (void)snprintf(name, sizeof(name), "%s_waited_ms", stops[k].name);
            cli_json_add(object, name, figures.waited_ms[stops[k].why]);
        }
        (void)json_object_array_add(list, object);
    }
    return list;
}

static void
print_json(FILE *out, const struct run *run)
{
    const struct policy_simulation_result *result = &run->result;
    struct json_object *object = json_object_new_object();

    cli_json_add(object, "schema_version", 1);
    cli_json_add_text(object, "ordering", run->options.ordering->name);
    cli_json_add(object, "requests", result->requests);
    cli_json_add(object, "span_ms", result->span_ms);
    cli_json_add(object, "reads", result->reads);
    cli_json_add(object, "known_reads", result->known_reads);
    cli_json_add(object, "lost_reads", result->lost_reads);
    cli_json_add(object, "prefix_hits", result->prefix_hits);
    cli_json_add(object, "blocks", result->blocks);
    cli_json_add(object, "block_bytes", run->options.block_bytes);
    cli_json_add(object, "expired", result->expired);
    cli_json_add(object, "refused", result->refused);
    cli_json_add(object, "staged", result->staged);
    cli_json_add(object, "observed", result->observed);
    cli_json_add_number(object, "latency_ms", policy_simulation_latency_ms(result, run->policy),
                        MONEY_DIGITS);
    cli_json_add_number(object, "money", money_of(run), MONEY_DIGITS);
    (void)json_object_object_add(object, "tiers", tiers_json(run));
    (void)json_object_object_add(object, "edges", edges_json(run));
    (void)json_object_object_add(object, "quotas", quotas_json(run));
    (void)json_object_object_add(object, "rules", rules_json(run));
    (void)json_object_object_add(object, "left_out", left_out_json(run));
    cli_json_print(out, object);
    (void)json_object_put(object);
}

enum cli_exit
cli_simulate_policy(const struct cli_context *context, const struct cli_simulate_policy *job)
{
    struct run run = {.job = job};
    struct kvt_error err = {0};
    const enum cli_exit exit = cli_policy_file_load(context, job->path, &run.policy);
    bool usage;
    enum kvt_err rc;

    if (run.policy == NULL)
        return exit;
    rc = prepare(&run, &err);
    usage = rc == KVT_INVALID;
    if (rc == KVT_OK)
        rc = simulate(&run, &err);
    if (rc == KVT_OK && context->json)
        print_json(context->out, &run);
    else if (rc == KVT_OK)
        print(context->out, &run);
    policy_simulation_free(run.ladder);
    policy_free(run.policy);
    if (usage)
        return cli_context_usage(context, "%s", err.text);
    return rc == KVT_OK ? CLI_EXIT_DONE : cli_context_fail(context, &err);
}
