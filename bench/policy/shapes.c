#include "bench/policy/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/random.h"
#include "cli/workload/generator.h"
#include "wire/message/trace.h"

enum { SCAN_BLOCKS = 64, SCAN_PERCENT = 8, REQUESTS = 20000 };

/* Ids of different sources never meet. */
enum { LANE_BITS = 8 };

static const struct shape shapes[] = {
    {"recorded", "the trace", true},
    {"mix", "the trace and agents at once, in the order of time", true},
    {"scan", "the trace and 8 % requests of 64 blocks nobody reads again", true},
    {"chat", "the generator's defaults: chats, shared prompts and documents", false},
    {"single", "questions of one turn: three quarters of the blocks are read once", false},
    {"agents", "long conversations of many quick turns", false},
    {"fine", "agents with blocks of 16 tokens", false},
    {"documents", "few documents that nearly everybody reads", false},
    {"pauses", "chats that go on after long pauses", false},
    {"flat", "many prompts and documents, all about as popular", false},
    {"drift", "single, then agents, then documents: nothing stays as it was", false},
};

const struct shape *
shapes_all(size_t *count)
{
    *count = sizeof(shapes) / sizeof(shapes[0]);
    return shapes;
}

static void
stop(const char *what)
{
    (void)fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static const struct cli_generator_options usual = {
    .request_count = REQUESTS,
    .duration_ms = 3600000,
    .session_count = 200,
    .mean_turns = 3,
    .prompt_count = 20,
    .prompt_tokens = 2048,
    .document_count = 200,
    .document_share_ppm = 300000,
    .document_tokens = 6144,
    .zipf = 1.0,
    .first_tokens = 6000,
    .input_tokens = 600,
    .output_tokens = 350,
    .context_tokens = 131072,
    .block_tokens = 512,
    .idle_share_ppm = 50000,
    .idle_factor = 20,
};

static struct cli_generator_options
options_of(const char *name)
{
    struct cli_generator_options options = usual;

    if (strcmp(name, "single") == 0) {
        options.mean_turns = 1;
        options.session_count = 600;
    } else if (strcmp(name, "agents") == 0 || strcmp(name, "fine") == 0) {
        options.mean_turns = 20;
        options.session_count = 60;
        options.document_count = 0;
        options.prompt_tokens = 6144;
        options.input_tokens = 900;
        options.idle_factor = 50;
        if (strcmp(name, "fine") == 0) {
            options.block_tokens = 16;
            options.request_count = REQUESTS / 10;
            options.first_tokens = 1500;
            options.context_tokens = 16384;
            options.prompt_tokens = 3000;
        }
    } else if (strcmp(name, "documents") == 0) {
        options.document_count = 40;
        options.document_share_ppm = 900000;
        options.document_tokens = 20000;
        options.first_tokens = 300;
        options.zipf = 1.3;
    } else if (strcmp(name, "pauses") == 0) {
        options.session_count = 1500;
        options.idle_share_ppm = 200000;
        options.idle_factor = 50;
    } else if (strcmp(name, "flat") == 0) {
        options.prompt_count = 400;
        options.document_count = 2000;
        options.zipf = 0.2;
        options.document_share_ppm = 600000;
    }
    return options;
}

static void
add(struct policy_workload *workload, const struct wire_trace_request *request, uint64_t after_ms,
    uint64_t lane)
{
    static uint64_t ids[WIRE_TRACE_HASHES_MAX];

    for (uint32_t i = 0; i < request->hash_count; i++)
        ids[i] = request->hash_ids[i] << LANE_BITS | lane;
    if (policy_workload_add(workload, after_ms + request->timestamp_ms, ids, request->hash_count) !=
        KVT_OK)
        stop("no memory for a workload");
}

/* One generator's requests; the time they end at. */
static uint64_t
generate(struct policy_workload *workload, const char *name, uint64_t seed, uint64_t after_ms,
         uint64_t lane)
{
    struct cli_generator_options options = options_of(name);
    struct cli_generator *generator;
    struct wire_trace_request request;
    uint64_t last_ms = 0;

    options.seed = seed;
    if (cli_generator_new(&generator, &options, NULL) != KVT_OK)
        stop("the generator refused its options");
    while (cli_generator_next(generator, &request) == KVT_OK) {
        last_ms = after_ms + request.timestamp_ms;
        add(workload, &request, after_ms, lane);
    }
    cli_generator_free(generator);
    return last_ms;
}

static void
add_scan(struct policy_workload *workload, uint64_t time_ms, uint64_t *next_id)
{
    uint64_t ids[SCAN_BLOCKS];
    const struct wire_trace_request request = {
        .timestamp_ms = time_ms, .hash_ids = ids, .hash_count = SCAN_BLOCKS};

    for (uint32_t i = 0; i < SCAN_BLOCKS; i++)
        ids[i] = (*next_id)++;
    add(workload, &request, 0, 1);
}

/* The trace, with `agents` merged in by time, or scans put between. */
static void
replay(struct policy_workload *workload, const char *name, const char *path, uint64_t seed)
{
    const bool mixed = strcmp(name, "mix") == 0;
    const bool scanned = strcmp(name, "scan") == 0;
    struct cli_generator_options options = options_of("agents");
    struct wire_trace_request other = {.timestamp_ms = UINT64_MAX};
    struct wire_trace_request request;
    struct cli_generator *generator;
    struct wire_trace *trace;
    uint64_t next_id = 0;
    uint64_t random = seed;

    options.seed = seed;
    options.request_count = REQUESTS / 4;
    if (wire_trace_open(&trace, path, NULL) != KVT_OK)
        stop("the trace cannot be opened");
    if (cli_generator_new(&generator, &options, NULL) != KVT_OK)
        stop("the generator refused its options");
    if (mixed && cli_generator_next(generator, &other) != KVT_OK)
        stop("the generator made nothing");
    while (wire_trace_next(trace, &request, NULL) == KVT_OK) {
        while (other.timestamp_ms <= request.timestamp_ms) {
            add(workload, &other, 0, 2);
            if (cli_generator_next(generator, &other) != KVT_OK)
                other.timestamp_ms = UINT64_MAX;
        }
        add(workload, &request, 0, 0);
        if (scanned && kvt_random_below(&random, 100) < SCAN_PERCENT)
            add_scan(workload, request.timestamp_ms, &next_id);
    }
    cli_generator_free(generator);
    wire_trace_close(trace);
}

struct policy_workload *
shapes_make(const char *name, const char *trace, uint64_t seed)
{
    static const char *const drift[] = {"single", "agents", "documents"};
    struct policy_workload *workload;
    uint64_t time_ms = 0;

    if (policy_workload_new(&workload) != KVT_OK)
        stop("no memory for a workload");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (strcmp(shapes[i].name, name) != 0)
            continue;
        if (shapes[i].traced)
            replay(workload, name, trace, seed);
        else if (strcmp(name, "drift") != 0)
            (void)generate(workload, name, seed, 0, 0);
        else
            for (uint64_t k = 0; k < sizeof(drift) / sizeof(drift[0]); k++)
                time_ms = generate(workload, drift[k], seed, time_ms, k);
        return workload;
    }
    stop("there is no workload of this name");
    return NULL;
}
