#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/workload/generator.h"
#include "cli/workload/recorded_workload.h"
#include "cli/workload/simulate_policy.h"
#include "cli/workload/simulate_print.h"
#include "cli/workload/study.h"
#include "cli/workload/workload_commands.h"
#include "wire/message/trace.h"

#include "policy/ordering/ordering_table.h"
#include "policy/ordering/plugin.h"

enum { WORD_MAX = 64, BAD_LINES_SHOWN = 5 };

struct job {
    struct policy_workload *workload;
    struct policy_plugin *plugin;
    struct cli_study_options options;
    uint64_t bad_lines;
    struct kvt_error bad[BAD_LINES_SHOWN]; /* the first of them */
    uint64_t bad_messages;
};

/* ---- flags that mean something together ---- */

/* Which flags change nothing, and what does instead. */
static const struct {
    size_t option;
    bool with_file; /* in front of a FILE; else beside --policy */
    const char *instead;
} idle_flags[] = {
    {CLI_SIMULATE_SIZES, false, "--sizes: not with --policy: --capacity says its tiers' sizes"},
    {CLI_SIMULATE_PROMOTION, false, "--promotion: not with --policy: its rules say promote_by"},
    {CLI_SIMULATE_SECOND, false, "--second-requests: not with --policy"},
    {CLI_SIMULATE_IDLE, false, "--idle-requests: not with --policy"},
    {CLI_SIMULATE_PRICE_PUT, false, "--price-put: not with --policy: its tiers have prices"},
    {CLI_SIMULATE_PRICE_GET, false, "--price-get: not with --policy: its tiers have prices"},
    {CLI_SIMULATE_PRICE_HOT, false, "--price-hot: not with --policy: its tiers have prices"},
    {CLI_SIMULATE_PRICE_COLD, false, "--price-cold: not with --policy: its tiers have prices"},
    {CLI_SIMULATE_PRICE_TRANSFER, false,
     "--price-transfer: not with --policy: its tiers have prices"},
    {CLI_SIMULATE_REPORT, false, "--report: not with --policy"},
    {CLI_SIMULATE_SEED, true, "--seed: of a generated workload, which FILE is not"},
    {CLI_SIMULATE_REQUESTS, true, "--requests: of a generated workload, which FILE is not"},
};

static bool
is_given(const struct cli_context *context, size_t option)
{
    return kvt_config_origin(context->options, option) != KVT_ORIGIN_DEFAULT;
}

/* Whoever gives a flag believes that it changes the answer. */
static enum cli_exit
check_flags(const struct cli_context *context)
{
    const bool policy = is_given(context, CLI_SIMULATE_POLICY);

    for (size_t i = 0; i < sizeof(idle_flags) / sizeof(idle_flags[0]); i++)
        if ((idle_flags[i].with_file ? context->argument_count > 0 : policy) &&
            is_given(context, idle_flags[i].option))
            return cli_context_usage(context, "%s", idle_flags[i].instead);
    if (!policy && is_given(context, CLI_SIMULATE_CAPACITY))
        return cli_context_usage(context, "--capacity: of the tiers of a --policy; see --sizes");
    return CLI_EXIT_DONE;
}

/* ---- the workload ---- */

static enum kvt_err
take(struct job *job, const struct wire_trace_request *request, struct kvt_error *err)
{
    uint32_t tenant = 0;
    enum kvt_err rc = KVT_OK;

    if (request->namespace_ != NULL && request->namespace_[0] != '\0')
        rc = policy_workload_name(job->workload, request->namespace_, &tenant);
    if (rc == KVT_OK)
        rc = policy_workload_add_of(job->workload, tenant, request->timestamp_ms, request->hash_ids,
                                    request->hash_count);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "workload: %s", kvt_err_text(rc));
}

static enum kvt_err
read_trace(const struct cli_context *context, struct job *job, struct kvt_error *err)
{
    struct wire_trace *trace;
    struct wire_trace_request request;
    enum kvt_err rc = wire_trace_open(&trace, context->arguments[0], err);

    if (rc != KVT_OK)
        return rc;
    for (;;) {
        rc = wire_trace_next(trace, &request, err);
        if (rc == KVT_INVALID) {
            if (job->bad_lines < BAD_LINES_SHOWN)
                job->bad[job->bad_lines] = *err;
            job->bad_lines++;
            continue;
        }
        if (rc == KVT_OK)
            rc = take(job, &request, err);
        if (rc != KVT_OK)
            break;
    }
    wire_trace_close(trace);
    if (rc == KVT_NOTFOUND && job->bad_lines > 0 && policy_workload_requests(job->workload) == 0)
        return kvt_error_set(err, KVT_INVALID,
                             "%.60s: no trace and no recording; a policy is tested with kvtier "
                             "policy plan and kvtier policy test",
                             context->arguments[0]);
    for (size_t i = 0; i < job->bad_lines && i < BAD_LINES_SHOWN; i++)
        (void)fprintf(context->err, "kvtier: %s\n", job->bad[i].text);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* Whose requests they are is said, for they are not the same. */
static enum kvt_err
read_recording(const struct cli_context *context, struct job *job, struct kvt_error *err)
{
    struct policy_workload *workload;
    struct cli_recorded_workload_counts counts;
    const enum kvt_err rc =
        cli_recorded_workload_read(&workload, context->arguments[0], &counts, err);

    if (rc != KVT_OK)
        return rc;
    policy_workload_free(job->workload);
    job->workload = workload;
    job->bad_messages = counts.bad;
    (void)fprintf(context->err, "kvtier: %zu requests out of %" PRIu64 " messages, %s\n",
                  policy_workload_requests(workload), counts.messages,
                  counts.of_gateways ? "as gateways reported reads" : "as workers stored blocks");
    return KVT_OK;
}

/* What `workload generate` writes without flags, but for the seed and the number of requests. */
static enum kvt_err
generate(const struct cli_context *context, struct job *job, struct kvt_error *err)
{
    struct cli_generator_options options;
    struct cli_generator *generator;
    struct wire_trace_request request;
    enum kvt_err rc;

    rc = cli_generator_options_default(&options, err);
    if (rc != KVT_OK)
        return rc;
    options.seed = kvt_config_u64(context->options, CLI_SIMULATE_SEED);
    options.request_count = kvt_config_u64(context->options, CLI_SIMULATE_REQUESTS);
    rc = cli_generator_new(&generator, &options, err);
    if (rc != KVT_OK)
        return rc;
    while ((rc = cli_generator_next(generator, &request)) == KVT_OK)
        if ((rc = take(job, &request, err)) != KVT_OK)
            break;
    cli_generator_free(generator);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* ---- lists ---- */

/* The next word of "a,b,c" into `word`; false at the end, and empty when it is too long. */
static bool
next_word(const char **list, char word[WORD_MAX])
{
    const size_t size = strcspn(*list, ",");

    word[0] = '\0';
    if (**list == '\0')
        return false;
    if (size < WORD_MAX)
        (void)snprintf(word, WORD_MAX, "%.*s", (int)size, *list);
    *list += size + ((*list)[size] == ',');
    return true;
}

static enum kvt_err
add_ordering(struct cli_study_options *options, const struct kvt_ordering *ordering,
             struct kvt_error *err)
{
    for (size_t i = 0; i < options->ordering_count; i++)
        if (options->orderings[i] == ordering)
            return KVT_OK;
    if (options->ordering_count == CLI_STUDY_ORDERINGS_MAX)
        return kvt_error_set(err, KVT_INVALID, "at most %d orderings", CLI_STUDY_ORDERINGS_MAX);
    options->orderings[options->ordering_count++] = ordering;
    return KVT_OK;
}

static enum kvt_err
read_orderings(const struct cli_context *context, struct job *job, struct kvt_error *err)
{
    const char *list = kvt_config_string(context->options, CLI_SIMULATE_ORDERINGS);
    const char *object = kvt_config_string(context->options, CLI_SIMULATE_PLUGIN);
    size_t count;
    const struct kvt_ordering *const *all = policy_ordering_all(&count);
    char word[WORD_MAX];
    enum kvt_err rc = KVT_OK;

    if (strcmp(list, "all") == 0)
        for (size_t i = 0; rc == KVT_OK && i < count; i++)
            rc = add_ordering(&job->options, all[i], err);
    else
        while (rc == KVT_OK && next_word(&list, word)) {
            const struct kvt_ordering *ordering = policy_ordering_find(word);

            if (ordering == NULL)
                return kvt_error_set(err, KVT_INVALID,
                                     "--orderings: there is no ordering \"%s\"; all names them",
                                     word);
            rc = add_ordering(&job->options, ordering, err);
        }
    if (rc != KVT_OK || object[0] == '\0')
        return rc;
    rc = policy_plugin_open(&job->plugin, object, err);
    if (rc != KVT_OK)
        return rc;
    return add_ordering(&job->options, policy_plugin_ordering(job->plugin), err);
}

/* "5%" of the different blocks, "200GiB", or a number of blocks; ascending and once each. */
static enum kvt_err
add_size(struct job *job, const char *word, struct kvt_error *err)
{
    struct cli_study_options *options = &job->options;
    const size_t length = strlen(word);
    uint64_t blocks = 0;
    uint64_t bytes = 0;
    uint32_t ppm = 0;
    size_t at;

    if (length > 0 && word[length - 1] == '%' && kvt_parse_ratio(word, &ppm) == KVT_OK)
        blocks = (uint64_t)((double)policy_workload_blocks(job->workload) * ppm / 1e6);
    else if (kvt_parse_u64(word, &blocks) != KVT_OK && kvt_parse_size(word, &bytes) == KVT_OK)
        blocks = bytes / options->block_bytes;
    if (ppm == 0 && blocks == 0)
        return kvt_error_set(err, KVT_INVALID,
                             "--sizes: \"%s\" is no share (5%%), no size of a block or more (2TiB) "
                             "and no number of blocks",
                             word);
    if (options->size_count == CLI_STUDY_SIZES_MAX)
        return kvt_error_set(err, KVT_INVALID, "at most %d sizes", CLI_STUDY_SIZES_MAX);
    for (at = 0; at < options->size_count && options->sizes[at] < blocks; at++)
        ;
    if (at < options->size_count && options->sizes[at] == blocks)
        return KVT_OK;
    memmove(&options->sizes[at + 1], &options->sizes[at],
            (options->size_count - at) * sizeof(options->sizes[0]));
    options->sizes[at] = blocks;
    options->size_count++;
    return KVT_OK;
}

static enum kvt_err
read_number(const struct cli_context *context, size_t option, const char *name, double *out,
            struct kvt_error *err)
{
    const char *text = kvt_config_string(context->options, option);
    char *end;

    *out = strtod(text, &end);
    if (text[0] == '\0' || *end != '\0' || !isfinite(*out) || *out < 0)
        return kvt_error_set(err, KVT_INVALID, "--%s: \"%s\" is no number from 0 on", name, text);
    return KVT_OK;
}

static enum kvt_err
read_prices(const struct cli_context *context, struct job *job, struct kvt_error *err)
{
    struct cli_study_prices *prices = &job->options.prices;
    struct kvt_ordering_prices *costs = &job->options.ordering_options.prices;
    const struct {
        size_t option;
        const char *name;
        double *out;
    } numbers[] = {
        {CLI_SIMULATE_COLD_COST, "cold-read-cost", &costs->cold_read},
        {CLI_SIMULATE_MOVE_COST, "move-cost", &costs->move},
        {CLI_SIMULATE_PRICE_PUT, "price-put", &prices->put_1000},
        {CLI_SIMULATE_PRICE_GET, "price-get", &prices->get_1000},
        {CLI_SIMULATE_PRICE_HOT, "price-hot", &prices->hot_gib_month},
        {CLI_SIMULATE_PRICE_COLD, "price-cold", &prices->cold_gib_month},
        {CLI_SIMULATE_PRICE_TRANSFER, "price-transfer", &prices->transfer_gib},
    };

    costs->hot_read = 1;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const enum kvt_err rc =
            read_number(context, numbers[i].option, numbers[i].name, numbers[i].out, err);

        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

static enum kvt_err
read_options(const struct cli_context *context, struct job *job, struct kvt_error *err)
{
    struct cli_study_options *options = &job->options;
    const char *sizes = kvt_config_string(context->options, CLI_SIMULATE_SIZES);
    char word[WORD_MAX];
    enum kvt_err rc;

    options->workload = job->workload;
    options->block_bytes = kvt_config_u64(context->options, CLI_SIMULATE_BLOCK_SIZE);
    options->second_ticks = kvt_config_u64(context->options, CLI_SIMULATE_SECOND);
    options->ordering_options.idle_ticks = kvt_config_u64(context->options, CLI_SIMULATE_IDLE);
    options->promotion =
        (enum policy_promotion)kvt_config_enum(context->options, CLI_SIMULATE_PROMOTION);
    rc = read_prices(context, job, err);
    if (rc == KVT_OK)
        rc = read_orderings(context, job, err);
    while (rc == KVT_OK && next_word(&sizes, word))
        rc = add_size(job, word, err);
    return rc;
}

/* ---- running ---- */

static void
show_progress(void *arg, size_t done, size_t all)
{
    const struct cli_context *context = arg;

    if (!cli_context_interactive(context))
        return;
    if (done == all)
        (void)fprintf(context->err, "\r%*s\r", 40, "");
    else
        (void)fprintf(context->err, "\rsimulating: %zu of %zu", done + 1, all);
    (void)fflush(context->err);
}

static bool
wants_chart(const struct cli_context *context)
{
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");

    return isatty(fileno(context->raw)) == 1 && (no_color == NULL || no_color[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

static enum kvt_err
answer(const struct cli_context *context, struct job *job, struct kvt_error *err)
{
    const char *report = kvt_config_string(context->options, CLI_SIMULATE_REPORT);
    struct cli_study *study = kvt_calloc(1, sizeof(*study));
    enum kvt_err rc;

    if (study == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    rc = cli_study_run(study, &job->options, show_progress, (void *)(uintptr_t)context, err);
    if (rc == KVT_OK && report[0] != '\0')
        rc = cli_simulate_report(study, report, err);
    if (rc == KVT_OK && context->json)
        cli_simulate_print_json(context->out, study);
    else if (rc == KVT_OK)
        cli_simulate_print(context->out, study, wants_chart(context));
    kvt_free(study);
    return rc;
}

/* One ordering may be named; else it is the policy's. */
static enum cli_exit
answer_policy(const struct cli_context *context, const struct job *job)
{
    const bool named =
        strcmp(kvt_config_string(context->options, CLI_SIMULATE_ORDERINGS), "all") != 0 ||
        job->plugin != NULL;
    const struct cli_simulate_policy asked = {
        .workload = job->workload,
        .ordering = named ? job->options.orderings[job->options.ordering_count - 1] : NULL,
        .ordering_options = job->options.ordering_options,
        .block_bytes = job->options.block_bytes,
        .path = kvt_config_string(context->options, CLI_SIMULATE_POLICY),
        .capacity = kvt_config_string(context->options, CLI_SIMULATE_CAPACITY)};

    if (strcmp(kvt_config_string(context->options, CLI_SIMULATE_ORDERINGS), "all") != 0 &&
        job->options.ordering_count > 1)
        return cli_context_usage(context, "--orderings: one, with a policy");
    return cli_simulate_policy(context, &asked);
}

enum cli_exit
cli_policy_simulate(const struct cli_context *context)
{
    struct job job = {.workload = NULL};
    struct kvt_error err = {0};
    enum cli_exit exit = check_flags(context);
    bool usage = false;
    enum kvt_err rc;

    if (exit != CLI_EXIT_DONE)
        return exit;
    rc = policy_workload_new(&job.workload);
    if (rc != KVT_OK)
        (void)kvt_error_set(&err, rc, "out of memory");
    if (rc == KVT_OK && context->argument_count > 0)
        rc = cli_recorded_workload_is(context->arguments[0]) ? read_recording(context, &job, &err)
                                                             : read_trace(context, &job, &err);
    else if (rc == KVT_OK)
        rc = generate(context, &job, &err);
    if (rc == KVT_OK) {
        rc = read_options(context, &job, &err);
        usage = rc == KVT_INVALID;
    }
    if (rc == KVT_OK && kvt_config_string(context->options, CLI_SIMULATE_POLICY)[0] != '\0')
        exit = answer_policy(context, &job);
    else if (rc == KVT_OK)
        rc = answer(context, &job, &err);
    policy_plugin_close(job.plugin);
    policy_workload_free(job.workload);
    if (usage)
        return cli_context_usage(context, "%s", err.text);
    if (rc != KVT_OK)
        return cli_context_fail(context, &err);
    if (exit != CLI_EXIT_DONE || (job.bad_lines == 0 && job.bad_messages == 0))
        return exit;
    if (job.bad_messages > 0)
        (void)fprintf(context->err, "kvtier: %" PRIu64 " messages could not be read\n",
                      job.bad_messages);
    else
        (void)fprintf(context->err, "kvtier: %" PRIu64 " lines were no requests\n", job.bad_lines);
    return CLI_EXIT_PARTIAL;
}
