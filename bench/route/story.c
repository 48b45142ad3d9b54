#include "bench/route/story.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "router/cost.h"
#include "router/pick.h"

/* The candidates of one line: those who are allowed. */
struct line {
    char *at;
    bool bad;
    struct router_weights weights;
    struct router_load load;
    size_t count;
    uint64_t ids[STORY_WORKERS_MAX];
    uint64_t active_prefill_tokens[STORY_WORKERS_MAX];
    uint64_t decode_blocks[STORY_WORKERS_MAX];
    uint32_t active_requests[STORY_WORKERS_MAX];
    uint32_t cached[ROUTER_TIERS][STORY_WORKERS_MAX];
    double costs[STORY_WORKERS_MAX];
};

static uint64_t
number(struct line *line)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(line->at, &end, 10);
    line->bad |= end == line->at || errno != 0;
    line->at = end;
    return value;
}

static double
weight(struct line *line)
{
    char *end;
    double value = strtod(line->at, &end);

    line->bad |= end == line->at;
    line->at = end;
    return value;
}

/* What G4 has beyond the worker's own blocks, which are in G1 alone where G4 has any. */
static uint32_t
beyond(uint64_t shared, uint64_t own)
{
    return shared > own ? (uint32_t)(shared - own) : 0;
}

static void
candidate(struct line *line, uint64_t shared)
{
    size_t at = line->count;
    uint64_t own = 0;
    bool allowed;

    line->ids[at] = number(line);
    allowed = number(line) != 0;
    line->active_prefill_tokens[at] = number(line);
    line->decode_blocks[at] = number(line);
    line->decode_blocks[at] += number(line);
    line->active_requests[at] = (uint32_t)number(line);
    for (int tier = 0; tier < 3; tier++) {
        line->cached[tier][at] = (uint32_t)number(line);
        own += line->cached[tier][at];
    }
    line->cached[3][at] = beyond(shared, own);
    line->count += allowed;
}

static bool
parse(struct line *line)
{
    uint64_t shared;
    uint64_t workers;

    line->bad = false;
    line->count = 0;
    line->load.isl_tokens = number(line);
    line->load.block_tokens = (uint32_t)number(line);
    shared = number(line);
    line->weights.overlap_score_weight = weight(line);
    for (int tier = 0; tier < ROUTER_TIERS; tier++)
        line->weights.tier[tier] = weight(line);
    line->weights.active_request_weight = weight(line);
    (void)number(line); /* whether they come as overrides: that is nothing here */
    workers = number(line);
    if (workers > STORY_WORKERS_MAX)
        return false;
    for (uint64_t i = 0; i < workers; i++)
        candidate(line, shared);
    return !line->bad && line->count > 0 && line->at[strspn(line->at, " \n")] == '\0';
}

static uint64_t
bits(double value)
{
    uint64_t found;

    memcpy(&found, &value, sizeof found);
    return found;
}

static void
choose(struct line *line, uint64_t draw, FILE *answers)
{
    const struct router_candidates candidates = {
        .count = line->count,
        .active_prefill_tokens = line->active_prefill_tokens,
        .decode_blocks = line->decode_blocks,
        .active_requests = line->active_requests,
        .cached = {line->cached[0], line->cached[1], line->cached[2], line->cached[3]},
    };
    size_t chosen;

    router_cost(&line->weights, &line->load, &candidates, line->costs);
    chosen = router_pick(line->costs, line->decode_blocks, line->count, 0, draw, NULL);
    (void)fprintf(answers, "%" PRIu64 " %016" PRIx64, line->ids[chosen], bits(line->costs[chosen]));
    for (size_t i = 0; i < line->count; i++)
        (void)fprintf(answers, " %" PRIu64 "=%016" PRIx64, line->ids[i], bits(line->costs[i]));
    (void)fprintf(answers, "\n");
}

enum kvt_err
story_tell(const char *path, const char *answers, uint64_t seed, size_t *choices,
           struct kvt_error *err)
{
    struct line *line = kvt_calloc(1, sizeof *line);
    FILE *in = fopen(path, "re");
    FILE *out = fopen(answers, "we");
    enum kvt_err rc = KVT_OK;
    char *text = NULL;
    size_t size = 0;

    *choices = 0;
    if (line == NULL || in == NULL || out == NULL)
        rc = kvt_error_set(err, KVT_IO, "%s, %s: cannot be opened", path, answers);
    while (rc == KVT_OK && getline(&text, &size, in) > 0) {
        line->at = text;
        if (!parse(line))
            rc = kvt_error_set(err, KVT_INVALID, "%s: line %zu is no request", path, *choices + 1);
        else
            choose(line, kvt_random_next(&seed), out);
        *choices += rc == KVT_OK;
    }
    if (out != NULL && fclose(out) != 0 && rc == KVT_OK)
        rc = kvt_error_set(err, KVT_IO, "%s: cannot be written", answers);
    if (in != NULL)
        (void)fclose(in);
    free(text);
    kvt_free(line);
    return rc;
}
