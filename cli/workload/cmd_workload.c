#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/workload/generator.h"
#include "cli/workload/reuse.h"
#include "cli/workload/workload_commands.h"
#include "wire/message/trace.h"

enum { BAD_LINES_SHOWN = 5 };

/* ---- generate ---- */

static enum kvt_err
write_all(struct cli_generator *generator, FILE *out, struct kvt_error *err)
{
    struct wire_trace_request request;
    enum kvt_err rc;

    while ((rc = cli_generator_next(generator, &request)) == KVT_OK) {
        rc = wire_trace_write(out, &request);
        if (rc != KVT_OK)
            return kvt_error_sys(err, errno, "write");
    }
    if (rc != KVT_NOTFOUND)
        return kvt_error_set(err, rc, "workload");
    return fflush(out) == 0 ? KVT_OK : kvt_error_sys(err, errno, "write");
}

enum cli_exit
cli_workload_generate(const struct cli_context *context)
{
    const char *path = kvt_config_string(context->options, CLI_GENERATE_OUT);
    const bool standard = strcmp(path, "-") == 0;
    struct cli_generator_options options;
    struct cli_generator *generator = NULL;
    struct kvt_error err = {0};
    FILE *out = context->raw;
    enum kvt_err rc;

    if (!cli_generator_options_read(&options, context->options))
        return cli_context_usage(context, "--zipf wants a number from 0 to 4");
    rc = cli_generator_new(&generator, &options, &err);
    if (rc != KVT_OK)
        goto done;
    if (!standard)
        out = fopen(path, "we");
    if (out == NULL) {
        rc = kvt_error_sys(&err, errno, "%s", path);
        goto done;
    }
    rc = write_all(generator, out, &err);
    if (!standard && fclose(out) != 0 && rc == KVT_OK)
        rc = kvt_error_sys(&err, errno, "%s", path);
done:
    cli_generator_free(generator);
    return rc == KVT_OK ? CLI_EXIT_DONE : cli_context_fail(context, &err);
}

/* ---- stats ---- */

struct measured {
    uint64_t requests;
    uint64_t bad_lines;
    uint64_t first_ms;
    uint64_t last_ms;
    uint64_t input_tokens;
    uint64_t output_tokens;
    uint64_t blocks_most; /* in one request */
    uint64_t prefix_hits; /* accesses up to the first block never seen before */
    struct cli_reuse_stats reuse;
};

static enum kvt_err
measure_request(struct measured *measured, struct cli_reuse *reuse,
                const struct wire_trace_request *request)
{
    bool prefix = true;

    if (measured->requests == 0)
        measured->first_ms = request->timestamp_ms;
    measured->last_ms = request->timestamp_ms;
    measured->requests++;
    measured->input_tokens += request->input_length;
    measured->output_tokens += request->output_length;
    if (request->hash_count > measured->blocks_most)
        measured->blocks_most = request->hash_count;
    for (uint32_t i = 0; i < request->hash_count; i++) {
        bool seen;

        if (cli_reuse_add(reuse, request->hash_ids[i], request->timestamp_ms,
                          i + 1 == request->hash_count, &seen) != KVT_OK)
            return KVT_NOMEM;
        prefix = prefix && seen;
        measured->prefix_hits += prefix;
    }
    return KVT_OK;
}

static enum kvt_err
measure(const struct cli_context *context, struct measured *measured, struct kvt_error *err)
{
    struct cli_reuse *reuse = NULL;
    struct wire_trace *trace = NULL;
    struct wire_trace_request request;
    enum kvt_err rc;

    *measured = (struct measured){0};
    rc = cli_reuse_new(&reuse);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "out of memory");
    rc = wire_trace_open(&trace, context->arguments[0], err);
    while (rc == KVT_OK) {
        rc = wire_trace_next(trace, &request, err);
        if (rc == KVT_INVALID) {
            if (measured->bad_lines++ < BAD_LINES_SHOWN)
                (void)fprintf(context->err, "kvtier: %s\n", err->text);
            rc = KVT_OK;
            continue;
        }
        if (rc == KVT_OK && measure_request(measured, reuse, &request) != KVT_OK)
            rc = kvt_error_set(err, KVT_NOMEM, "out of memory");
    }
    if (rc == KVT_NOTFOUND && trace != NULL) { /* the end of the trace */
        cli_reuse_stats(reuse, &measured->reuse);
        rc = KVT_OK;
    }
    wire_trace_close(trace);
    cli_reuse_free(reuse);
    return rc;
}

static double
share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0.0 : (double)part / (double)whole;
}

static double
percent(struct cli_reuse_share reused)
{
    return 100.0 * share(reused.part, reused.whole);
}

static void
print_stats(FILE *out, const struct measured *m)
{
    (void)fprintf(out, "requests        %" PRIu64 " over %.1f s\n", m->requests,
                  (double)(m->last_ms - m->first_ms) / 1000.0);
    (void)fprintf(out,
                  "input           %.0f tokens a request\noutput          %.0f tokens a request\n",
                  share(m->input_tokens, m->requests), share(m->output_tokens, m->requests));
    (void)fprintf(out,
                  "blocks          %" PRIu64 " accesses to %" PRIu64
                  " blocks; %.1f a request, at most %" PRIu64 "\n",
                  m->reuse.accesses, m->reuse.blocks, share(m->reuse.accesses, m->requests),
                  m->blocks_most);
    (void)fprintf(
        out, "reuse           %.1f%% of accesses are a known prefix (an endless cache's hits)\n",
        100.0 * share(m->prefix_hits, m->reuse.accesses));
    (void)fprintf(out, "used once       %.1f%% of blocks; the busiest is used %" PRIu64 " times\n",
                  100.0 * share(m->reuse.used_once, m->reuse.blocks), m->reuse.used_most);
    (void)fprintf(out, "used again      after the first use %.1f%%, then",
                  percent(m->reuse.again[0]));
    for (size_t i = 1; i < CLI_REUSE_AGAIN; i++)
        (void)fprintf(out, " %.1f%%%s", percent(m->reuse.again[i]),
                      i + 1 < CLI_REUSE_AGAIN ? "," : " and more\n");
    (void)fprintf(out, "ends            %.1f%% of last blocks are used again, %.1f%% of others\n",
                  percent(m->reuse.again_last), percent(m->reuse.again_other));
    (void)fprintf(
        out,
        "time to reuse   25%% within %.1f s, half within %.1f s, 75%% within %.1f s, 90%% "
        "within %.1f s, 95%% within %.1f s, 99%% within %.1f s\n",
        (double)m->reuse.gap_p25_ms / 1000.0, (double)m->reuse.gap_p50_ms / 1000.0,
        (double)m->reuse.gap_p75_ms / 1000.0, (double)m->reuse.gap_p90_ms / 1000.0,
        (double)m->reuse.gap_p95_ms / 1000.0, (double)m->reuse.gap_p99_ms / 1000.0);
}

static struct json_object *
share_json(struct cli_reuse_share reused)
{
    struct json_object *object = json_object_new_object();

    cli_json_add(object, "part", reused.part);
    cli_json_add(object, "of", reused.whole);
    return object;
}

static void
print_stats_json(FILE *out, const struct measured *m)
{
    struct json_object *object = json_object_new_object();
    struct json_object *again = json_object_new_array();

    cli_json_add(object, "schema_version", 1);
    cli_json_add(object, "requests", m->requests);
    cli_json_add(object, "bad_lines", m->bad_lines);
    cli_json_add(object, "span_ms", m->last_ms - m->first_ms);
    cli_json_add(object, "input_tokens", m->input_tokens);
    cli_json_add(object, "output_tokens", m->output_tokens);
    cli_json_add(object, "block_accesses", m->reuse.accesses);
    cli_json_add(object, "blocks", m->reuse.blocks);
    cli_json_add(object, "blocks_used_once", m->reuse.used_once);
    cli_json_add(object, "blocks_in_request_max", m->blocks_most);
    cli_json_add(object, "prefix_hits", m->prefix_hits);
    cli_json_add(object, "uses_of_one_block_max", m->reuse.used_most);
    for (size_t i = 0; i < CLI_REUSE_AGAIN; i++)
        (void)json_object_array_add(again, share_json(m->reuse.again[i]));
    (void)json_object_object_add(object, "used_again", again);
    (void)json_object_object_add(object, "used_again_last", share_json(m->reuse.again_last));
    (void)json_object_object_add(object, "used_again_other", share_json(m->reuse.again_other));
    cli_json_add(object, "reuse_gap_p25_ms", m->reuse.gap_p25_ms);
    cli_json_add(object, "reuse_gap_p50_ms", m->reuse.gap_p50_ms);
    cli_json_add(object, "reuse_gap_p75_ms", m->reuse.gap_p75_ms);
    cli_json_add(object, "reuse_gap_p90_ms", m->reuse.gap_p90_ms);
    cli_json_add(object, "reuse_gap_p95_ms", m->reuse.gap_p95_ms);
    cli_json_add(object, "reuse_gap_p99_ms", m->reuse.gap_p99_ms);
    cli_json_print(out, object);
    (void)json_object_put(object);
}

enum cli_exit
cli_workload_stats(const struct cli_context *context)
{
    struct measured measured;
    struct kvt_error err = {0};

    if (measure(context, &measured, &err) != KVT_OK)
        return cli_context_fail(context, &err);
    if (context->json)
        print_stats_json(context->out, &measured);
    else
        print_stats(context->out, &measured);
    if (measured.bad_lines == 0)
        return CLI_EXIT_DONE;
    (void)fprintf(context->err, "kvtier: %" PRIu64 " lines were no requests\n", measured.bad_lines);
    return CLI_EXIT_PARTIAL;
}
