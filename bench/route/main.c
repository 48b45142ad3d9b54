/*
 * bench/route/main.c -- our choice of a worker: commands on standard input, one JSON object a line
 * on standard output.  bench/peers/src/select.rs takes the same commands for the published
 * selector; bench/README.md lists them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/text/parse.h"

#include "bench/route/busy.h"
#include "bench/route/ready.h"
#include "bench/route/story.h"
#include "router/pick.h"

enum { WORDS_MAX = 8, LINE_MAX_BYTES = 8192 };

struct session {
    struct ready ready;
    struct busy *busy;
    uint64_t ready_seed;
    uint64_t seed;
    char line[LINE_MAX_BYTES];
    char *words[WORDS_MAX];
    size_t word_count;
};

static enum kvt_err
number(const struct session *session, size_t at, uint64_t max, uint64_t *value,
       struct kvt_error *err)
{
    if (at >= session->word_count || kvt_parse_u64(session->words[at], value) != KVT_OK ||
        *value > max)
        return kvt_error_set(err, KVT_INVALID, "argument %zu is missing or no such number", at);
    return KVT_OK;
}

/* choose FILE ANSWERS */
static enum kvt_err
do_choose(struct session *session, struct kvt_error *err)
{
    size_t choices;
    enum kvt_err rc;

    if (session->word_count < 3)
        return kvt_error_set(err, KVT_INVALID, "from where, to where?");
    rc = story_tell(session->words[1], session->words[2], session->seed, &choices, err);
    if (rc == KVT_OK)
        (void)printf("\"choices\":%zu", choices);
    return rc;
}

/* ready WORKERS REQUESTS SEED */
static enum kvt_err
do_ready(struct session *session, struct kvt_error *err)
{
    uint64_t workers;
    uint64_t requests;
    uint64_t seed;
    enum kvt_err rc = number(session, 1, ROUTER_WORKERS_MAX, &workers, err);

    if (rc == KVT_OK)
        rc = number(session, 2, READY_REQUESTS_MAX, &requests, err);
    if (rc == KVT_OK)
        rc = number(session, 3, UINT64_MAX, &seed, err);
    if (rc != KVT_OK)
        return rc;
    busy_free(session->busy);
    session->busy = NULL;
    session->ready_seed = seed;
    ready_release(&session->ready);
    rc = ready_new(&session->ready, (uint32_t)workers, (uint32_t)requests, seed);
    if (rc == KVT_OK)
        (void)printf("\"workers\":%" PRIu64 ",\"checksum\":\"%016" PRIx64 "\"", workers,
                     session->ready.sum);
    return rc;
}

/* busy RUNNING: so many requests on each worker */
static enum kvt_err
do_busy(struct session *session, struct kvt_error *err)
{
    uint64_t running;
    enum kvt_err rc = number(session, 1, 1024, &running, err);

    if (rc == KVT_OK && session->ready.requests == 0)
        rc = kvt_error_set(err, KVT_INVALID, "nothing is ready");
    if (rc != KVT_OK)
        return rc;
    busy_free(session->busy);
    rc = busy_new(&session->busy, &session->ready, session->ready_seed, (uint32_t)running);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "the table does not take them");
    (void)printf("\"checksum\":\"%016" PRIx64 "\"", busy_sum(session->busy));
    return KVT_OK;
}

/* Time this thread was at work: what others do on the machine is not in it. */
static uint64_t
cpu_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What decisions write to. */
struct room {
    double *costs;
    double *scratch;
    uint64_t *times;
    size_t chosen[READY_REQUESTS_MAX]; /* the first of each request */
};

/* `busy`: with what the workers do now; NULL: with what is ready. */
static size_t
decide(struct session *session, struct busy *busy, uint32_t request, double temperature,
       struct room *room)
{
    const struct router_load load = {READY_ISL_TOKENS, READY_BLOCK_TOKENS};
    const struct router_candidates candidates =
        busy == NULL ? ready_candidates(&session->ready, request) : busy_candidates(busy, request);
    struct router_weights weights = router_weights_default();

    router_cost(&weights, &load, &candidates, room->costs);
    return router_pick(room->costs, candidates.decode_blocks, candidates.count, temperature,
                       kvt_random_next(&session->seed), room->scratch);
}

static int
compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static uint64_t
percentile(const uint64_t *sorted, size_t count, unsigned percent)
{
    return sorted[((count - 1) * percent + 50) / 100];
}

static void
run(struct session *session, struct busy *busy, size_t count, double temperature, struct room *room)
{
    uint32_t requests = session->ready.requests;
    uint64_t began = kvt_clock_mono_ns();
    uint64_t cpu = cpu_ns();
    double wall_s;

    for (size_t i = 0; i < count; i++) {
        uint64_t start = cpu_ns();
        size_t chosen = decide(session, busy, (uint32_t)(i % requests), temperature, room);

        room->times[i] = cpu_ns() - start;
        if (i < requests)
            room->chosen[i] = chosen;
    }
    wall_s = (double)(kvt_clock_mono_ns() - began) / 1e9;
    cpu = cpu_ns() - cpu;
    qsort(room->times, count, sizeof(*room->times), compare);
    (void)printf("\"decisions\":%zu,\"rate\":%.1f,\"cpu_rate\":%.1f,\"p50_ns\":%" PRIu64
                 ",\"p99_ns\":%" PRIu64 ",\"chosen\":[",
                 count, (double)count / wall_s, 1e9 * (double)count / (double)cpu,
                 percentile(room->times, count, 50), percentile(room->times, count, 99));
    for (uint32_t i = 0; i < requests && i < count; i++)
        (void)printf("%s%zu", i == 0 ? "" : ", ", room->chosen[i]);
    (void)printf("]");
}

static enum kvt_err
measure(struct session *session, struct busy *busy, struct kvt_error *err)
{
    struct room room = {0};
    double temperature = session->word_count > 2 ? strtod(session->words[2], NULL) : -1;
    uint64_t count;
    enum kvt_err rc = number(session, 1, UINT32_MAX, &count, err);

    if (rc == KVT_OK && (session->ready.workers == 0 || session->ready.requests == 0))
        rc = kvt_error_set(err, KVT_INVALID, "nothing is ready");
    if (rc == KVT_OK && (count == 0 || !(temperature >= 0)))
        rc = kvt_error_set(err, KVT_INVALID, "how many, at which temperature?");
    if (rc != KVT_OK)
        return rc;
    room.costs = kvt_calloc(session->ready.workers, sizeof(*room.costs));
    room.scratch = kvt_calloc(session->ready.workers, sizeof(*room.scratch));
    room.times = kvt_calloc(count, sizeof(*room.times));
    if (room.costs == NULL || room.scratch == NULL || room.times == NULL)
        rc = kvt_error_set(err, KVT_NOMEM, "no memory");
    else
        run(session, busy, count, temperature, &room);
    kvt_free(room.costs);
    kvt_free(room.scratch);
    kvt_free(room.times);
    return rc;
}

/* select COUNT TEMPERATURE */
static enum kvt_err
do_select(struct session *session, struct kvt_error *err)
{
    return measure(session, NULL, err);
}

/* decide COUNT TEMPERATURE */
static enum kvt_err
do_decide(struct session *session, struct kvt_error *err)
{
    if (session->busy == NULL)
        return kvt_error_set(err, KVT_INVALID, "nobody is busy");
    return measure(session, session->busy, err);
}

static const struct {
    const char *name;
    enum kvt_err (*run)(struct session *session, struct kvt_error *err);
} commands[] = {{"choose", do_choose},
                {"ready", do_ready},
                {"busy", do_busy},
                {"select", do_select},
                {"decide", do_decide}};

static enum kvt_err
obey(struct session *session, struct kvt_error *err)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(session->words[0], commands[i].name) == 0)
            return commands[i].run(session, err);
    return kvt_error_set(err, KVT_INVALID, "no such command");
}

int
main(void)
{
    static struct session session = {.seed = 42};
    struct kvt_error err = {0};
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && fgets(session.line, sizeof session.line, stdin) != NULL) {
        char *rest = session.line;

        session.word_count = 0;
        for (char *word;
             session.word_count < WORDS_MAX && (word = strtok_r(rest, " \n", &rest)) != NULL;)
            session.words[session.word_count++] = word;
        if (session.word_count == 0)
            continue;
        (void)printf("{");
        rc = obey(&session, &err);
        (void)printf("}\n");
        (void)fflush(stdout);
    }
    if (rc != KVT_OK)
        (void)fprintf(stderr, "bench: %s: %s\n", session.words[0], err.text);
    busy_free(session.busy);
    ready_release(&session.ready);
    return rc == KVT_OK ? 0 : 1;
}
