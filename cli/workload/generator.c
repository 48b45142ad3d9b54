#include "cli/workload/generator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "cli/frame/options.h"
#include "cli/workload/zipf.h"

enum { PPM = 1000000, UNASSIGNED = 0 };

/* A shared beginning: a prompt alone, or a document behind a prompt.  Its block ids are given when
 * it is first used, so that ids count up in order of appearance. */
struct shared {
    uint32_t blocks;
    uint64_t first_id; /* of `blocks` consecutive ids; UNASSIGNED before its first use */
};

struct session {
    uint64_t time_us; /* of its next request */
    uint64_t tokens;  /* of its history, system prompt and document included */
    uint32_t shared_count;
    const struct shared *shared[2];
    uint64_t *ids; /* of its own full blocks, behind the shared ones */
    uint32_t id_count;
    uint32_t id_capacity;
    bool begun; /* had its first turn */
};

struct cli_generator {
    struct cli_generator_options options;
    uint64_t random;
    uint64_t next_id;
    uint64_t made;
    double mean_gap_us;
    struct cli_zipf *prompt_rank;
    struct cli_zipf *document_rank;
    uint32_t *document_blocks; /* by rank */
    struct shared *prompts;    /* by rank */
    struct shared *documents;  /* by prompt rank x document rank: a chain begins with its prompt */
    struct session *sessions;
    uint32_t *heap; /* session numbers, the earliest first */
    uint64_t *ids;  /* of the request given out */
};

/* ---- draws ---- */

static double
draw_exponential(struct cli_generator *generator, double mean)
{
    return -mean * log(1.0 - kvt_random_unit(&generator->random));
}

static bool
draw_share(struct cli_generator *generator, uint32_t ppm)
{
    return kvt_random_below(&generator->random, PPM) < ppm;
}

/* Whole blocks, from half to one and a half of the mean. */
static uint32_t
draw_blocks(struct cli_generator *generator, uint32_t mean_tokens)
{
    const uint64_t tokens =
        mean_tokens / 2 + kvt_random_below(&generator->random, (uint64_t)mean_tokens + 1);

    return (uint32_t)((tokens + generator->options.block_tokens / 2) /
                      generator->options.block_tokens);
}

static uint64_t
draw_tokens(struct cli_generator *generator, uint32_t mean)
{
    return 1 + (uint64_t)draw_exponential(generator, (double)mean);
}

static uint64_t
draw_gap_us(struct cli_generator *generator)
{
    double mean = generator->mean_gap_us;

    if (draw_share(generator, generator->options.idle_share_ppm))
        mean *= generator->options.idle_factor;
    return (uint64_t)draw_exponential(generator, mean);
}

/* ---- the earliest session first ---- */

static bool
earlier(const struct cli_generator *generator, uint32_t a, uint32_t b)
{
    const struct session *one = &generator->sessions[a];
    const struct session *other = &generator->sessions[b];

    /* Equal times go by number, or the order would depend on the heap's history. */
    return one->time_us != other->time_us ? one->time_us < other->time_us : a < b;
}

static void
sift_down(struct cli_generator *generator, size_t at)
{
    uint32_t *heap = generator->heap;
    const size_t count = generator->options.session_count;

    for (;;) {
        size_t least = at;

        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (earlier(generator, heap[child], heap[least]))
                least = child;
        if (least == at)
            return;
        const uint32_t moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

/* ---- conversations ---- */

static void
assign(struct cli_generator *generator, struct shared *shared)
{
    if (shared->first_id != UNASSIGNED)
        return;
    shared->first_id = generator->next_id;
    generator->next_id += shared->blocks;
}

/* Forget the old conversation in this slot and begin another; its time is the caller's. */
static void
session_begin(struct cli_generator *generator, struct session *session)
{
    const struct cli_generator_options *options = &generator->options;
    const size_t prompt = cli_zipf_draw(generator->prompt_rank, &generator->random);
    struct shared *shared = &generator->prompts[prompt];

    assign(generator, shared);
    session->shared[0] = shared;
    session->shared_count = 1;
    session->tokens = (uint64_t)shared->blocks * options->block_tokens;
    session->id_count = 0;
    session->begun = false;
    if (options->document_count > 0 && draw_share(generator, options->document_share_ppm)) {
        const size_t document = cli_zipf_draw(generator->document_rank, &generator->random);

        shared = &generator->documents[prompt * options->document_count + document];
        shared->blocks = generator->document_blocks[document];
        assign(generator, shared);
        session->shared[session->shared_count++] = shared;
        session->tokens += (uint64_t)shared->blocks * options->block_tokens;
    }
}

static uint32_t
shared_blocks(const struct session *session)
{
    uint32_t blocks = 0;

    for (uint32_t i = 0; i < session->shared_count; i++)
        blocks += session->shared[i]->blocks;
    return blocks;
}

/* Give ids to the blocks that the history has filled since. */
static enum kvt_err
session_fill(struct cli_generator *generator, struct session *session)
{
    const uint32_t own =
        (uint32_t)(session->tokens / generator->options.block_tokens) - shared_blocks(session);

    if (own > session->id_capacity) {
        const uint32_t capacity = own + own / 2 + 8;
        uint64_t *ids = kvt_realloc(session->ids, capacity, sizeof(*ids));

        if (ids == NULL)
            return KVT_NOMEM;
        session->ids = ids;
        session->id_capacity = capacity;
    }
    while (session->id_count < own)
        session->ids[session->id_count++] = generator->next_id++;
    return KVT_OK;
}

/* The prompt's ids, root first; a last block that is not full has an id of its own, never seen
 * again. */
static uint32_t
session_ids(struct cli_generator *generator, const struct session *session)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < session->shared_count; i++)
        for (uint32_t k = 0; k < session->shared[i]->blocks; k++)
            generator->ids[count++] = session->shared[i]->first_id + k - 1;
    for (uint32_t i = 0; i < session->id_count; i++)
        generator->ids[count++] = session->ids[i] - 1;
    if (session->tokens % generator->options.block_tokens != 0)
        generator->ids[count++] = generator->next_id++ - 1;
    return count;
}

enum kvt_err
cli_generator_next(struct cli_generator *generator, struct wire_trace_request *request)
{
    const struct cli_generator_options *options = &generator->options;
    struct session *session = &generator->sessions[generator->heap[0]];
    uint64_t input;
    enum kvt_err rc;

    *request = (struct wire_trace_request){0};
    if (generator->made == options->request_count)
        return KVT_NOTFOUND;
    input = draw_tokens(generator, session->begun ? options->input_tokens : options->first_tokens);
    if (session->tokens + input > options->context_tokens) {
        session_begin(generator, session);
        if (session->tokens + input > options->context_tokens)
            input = options->context_tokens - session->tokens;
    }
    session->tokens += input;
    session->begun = true;
    rc = session_fill(generator, session);
    if (rc != KVT_OK)
        return rc;
    request->timestamp_ms = session->time_us / 1000;
    request->input_length = session->tokens;
    request->output_length = draw_tokens(generator, options->output_tokens);
    request->hash_ids = generator->ids;
    request->hash_count = session_ids(generator, session);
    generator->made++;
    session->tokens += request->output_length;
    if (kvt_random_below(&generator->random, options->mean_turns) == 0)
        session_begin(generator, session);
    session->time_us += draw_gap_us(generator);
    sift_down(generator, 0);
    return KVT_OK;
}

/* ---- making ---- */

static enum kvt_err
check(const struct cli_generator_options *options, struct kvt_error *err)
{
    /* The largest beginning must leave room for a first question. */
    const uint64_t beginning =
        (uint64_t)options->prompt_tokens * 3 / 2 +
        (options->document_count == 0 ? 0 : (uint64_t)options->document_tokens * 3 / 2) +
        2 * (uint64_t)options->block_tokens;

    if (options->request_count == 0 || options->session_count == 0 || options->mean_turns == 0 ||
        options->prompt_count == 0 || options->block_tokens == 0 || options->input_tokens == 0 ||
        options->first_tokens == 0 || options->output_tokens == 0 || options->idle_factor == 0 ||
        options->duration_ms == 0)
        return kvt_error_set(err, KVT_INVALID, "a workload needs at least one of everything");
    if (beginning >= options->context_tokens)
        return kvt_error_set(err, KVT_INVALID,
                             "prompt and document can take %llu tokens, the context only has %u",
                             (unsigned long long)beginning, options->context_tokens);
    if (options->context_tokens / options->block_tokens + 1 > WIRE_TRACE_HASHES_MAX)
        return kvt_error_set(err, KVT_INVALID, "more than %d blocks in one request",
                             WIRE_TRACE_HASHES_MAX);
    if ((uint64_t)options->prompt_count * options->document_count > UINT64_C(100000000))
        return kvt_error_set(err, KVT_INVALID, "too many prompts times documents");
    return KVT_OK;
}

/* Mean gap such that `request_count` requests of all sessions together take the duration. */
static double
mean_gap_us(const struct cli_generator_options *options)
{
    const double idle = (double)options->idle_share_ppm / PPM;
    const double stretch = 1.0 + idle * ((double)options->idle_factor - 1.0);

    return (double)options->duration_ms * 1000.0 * options->session_count /
           (double)options->request_count / stretch;
}

static enum kvt_err
allocate(struct cli_generator *generator)
{
    const struct cli_generator_options *options = &generator->options;
    const size_t documents = options->document_count;

    generator->prompts = kvt_calloc(options->prompt_count, sizeof(*generator->prompts));
    generator->sessions = kvt_calloc(options->session_count, sizeof(*generator->sessions));
    generator->heap = kvt_calloc(options->session_count, sizeof(*generator->heap));
    generator->ids =
        kvt_calloc(options->context_tokens / options->block_tokens + 2, sizeof(*generator->ids));
    if (generator->prompts == NULL || generator->sessions == NULL || generator->heap == NULL ||
        generator->ids == NULL)
        return KVT_NOMEM;
    if (documents == 0)
        return KVT_OK;
    generator->document_blocks = kvt_calloc(documents, sizeof(*generator->document_blocks));
    generator->documents =
        kvt_calloc(options->prompt_count * documents, sizeof(*generator->documents));
    if (generator->document_blocks == NULL || generator->documents == NULL)
        return KVT_NOMEM;
    return cli_zipf_new(&generator->document_rank, documents, options->zipf);
}

static void
populate(struct cli_generator *generator)
{
    const struct cli_generator_options *options = &generator->options;

    for (uint32_t i = 0; i < options->prompt_count; i++)
        generator->prompts[i].blocks = draw_blocks(generator, options->prompt_tokens);
    for (uint32_t i = 0; i < options->document_count; i++)
        generator->document_blocks[i] = draw_blocks(generator, options->document_tokens);
    for (uint32_t i = 0; i < options->session_count; i++) {
        generator->heap[i] = i;
        session_begin(generator, &generator->sessions[i]);
        /* Long pauses are part of the steady state, so the first request may come late as well. */
        generator->sessions[i].time_us = draw_gap_us(generator);
    }
    for (size_t i = options->session_count / 2; i-- > 0;)
        sift_down(generator, i);
}

bool
cli_generator_options_read(struct cli_generator_options *out, const struct kvt_config *options)
{
    const char *zipf = kvt_config_string(options, CLI_GENERATE_ZIPF);
    char *end;

    *out = (struct cli_generator_options){
        .seed = kvt_config_u64(options, CLI_GENERATE_SEED),
        .request_count = kvt_config_u64(options, CLI_GENERATE_REQUESTS),
        .duration_ms = kvt_config_u64(options, CLI_GENERATE_DURATION),
        .session_count = (uint32_t)kvt_config_u64(options, CLI_GENERATE_SESSIONS),
        .mean_turns = (uint32_t)kvt_config_u64(options, CLI_GENERATE_MEAN_TURNS),
        .prompt_count = (uint32_t)kvt_config_u64(options, CLI_GENERATE_PROMPTS),
        .prompt_tokens = (uint32_t)kvt_config_u64(options, CLI_GENERATE_PROMPT_TOKENS),
        .document_count = (uint32_t)kvt_config_u64(options, CLI_GENERATE_DOCUMENTS),
        .document_share_ppm = kvt_config_ppm(options, CLI_GENERATE_DOCUMENT_SHARE),
        .document_tokens = (uint32_t)kvt_config_u64(options, CLI_GENERATE_DOCUMENT_TOKENS),
        .zipf = strtod(zipf, &end),
        .first_tokens = (uint32_t)kvt_config_u64(options, CLI_GENERATE_FIRST_TOKENS),
        .input_tokens = (uint32_t)kvt_config_u64(options, CLI_GENERATE_INPUT_TOKENS),
        .output_tokens = (uint32_t)kvt_config_u64(options, CLI_GENERATE_OUTPUT_TOKENS),
        .context_tokens = (uint32_t)kvt_config_u64(options, CLI_GENERATE_CONTEXT_TOKENS),
        .block_tokens = (uint32_t)kvt_config_u64(options, CLI_GENERATE_BLOCK_TOKENS),
        .idle_share_ppm = kvt_config_ppm(options, CLI_GENERATE_IDLE_SHARE),
        .idle_factor = (uint32_t)kvt_config_u64(options, CLI_GENERATE_IDLE_FACTOR),
    };
    return zipf[0] != '\0' && *end == '\0';
}

enum kvt_err
cli_generator_options_default(struct cli_generator_options *out, struct kvt_error *err)
{
    static const struct kvt_param rows[] = {CLI_OPTIONS_GENERATE(KVT_PARAM_ROW)};
    struct kvt_config *config;
    const enum kvt_err rc = kvt_config_new(&config, rows, sizeof(rows) / sizeof(rows[0]), err);

    *out = (struct cli_generator_options){0};
    if (rc == KVT_OK)
        (void)cli_generator_options_read(out, config);
    kvt_config_free(config);
    return rc;
}

enum kvt_err
cli_generator_new(struct cli_generator **out, const struct cli_generator_options *options,
                  struct kvt_error *err)
{
    struct cli_generator *generator;
    enum kvt_err rc;

    *out = NULL;
    rc = check(options, err);
    if (rc != KVT_OK)
        return rc;
    generator = kvt_calloc(1, sizeof(*generator));
    if (generator == NULL)
        return kvt_error_set(err, KVT_NOMEM, "workload");
    generator->options = *options;
    generator->random = options->seed;
    generator->next_id = 1; /* ids in the file are one less, so that 0 can mean "none yet" here */
    generator->mean_gap_us = mean_gap_us(options);
    rc = allocate(generator);
    if (rc == KVT_OK)
        rc = cli_zipf_new(&generator->prompt_rank, options->prompt_count, options->zipf);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc,
                            rc == KVT_INVALID ? "zipf exponent outside 0 to 4" : "workload");
        goto fail;
    }
    populate(generator);
    *out = generator;
    return KVT_OK;

fail:
    cli_generator_free(generator);
    return rc;
}

void
cli_generator_free(struct cli_generator *generator)
{
    if (generator == NULL)
        return;
    for (uint32_t i = 0; generator->sessions != NULL && i < generator->options.session_count; i++)
        kvt_free(generator->sessions[i].ids);
    cli_zipf_free(generator->prompt_rank);
    cli_zipf_free(generator->document_rank);
    kvt_free(generator->document_blocks);
    kvt_free(generator->prompts);
    kvt_free(generator->documents);
    kvt_free(generator->sessions);
    kvt_free(generator->heap);
    kvt_free(generator->ids);
    kvt_free(generator);
}
