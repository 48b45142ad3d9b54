/*
 * bench/index/main.c -- our index, measured: commands on standard input, one JSON object a line on
 * standard output.  bench/peers/src/main.rs takes the same commands for the published indexes;
 * bench/README.md lists them.  A wrong answer of the index ends the program with an error.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/text/parse.h"

#include "bench/index/measure.h"

enum { WORDS_MAX = 8, LINE_MAX_BYTES = 8192 };

struct session {
    struct subject *subject;
    struct corpus corpus;
    struct trace trace;
    size_t memberships; /* when everything is stored */
    struct measure_writer *writer;
    bool writing;
    double capacity;
    struct measure_floor *floor;
    size_t rss_before;
    char line[LINE_MAX_BYTES];
    char *words[WORDS_MAX];
    size_t word_count;
};

static size_t
rss(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t pages = 0;

    if (file != NULL && fscanf(file, "%*s %zu", &pages) != 1)
        pages = 0;
    if (file != NULL)
        (void)fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static enum kvt_err
number(const struct session *session, size_t at, uint64_t max, uint64_t *value,
       struct kvt_error *err)
{
    if (at >= session->word_count || kvt_parse_u64(session->words[at], value) != KVT_OK ||
        *value > max)
        return kvt_error_set(err, KVT_INVALID, "argument %zu is missing or no such number", at);
    return KVT_OK;
}

/* ---- answers ---- */

static void
print_took(struct session *session, const struct measure_took *took)
{
    const size_t now = rss();
    struct index_stats stats;

    index_stats(session->subject->index, &stats);
    (void)printf("\"blocks\":%zu,\"events\":%zu,\"wall_s\":%.6f,\"cpu_s\":%.6f,\"rate\":%.0f,"
                 "\"memberships\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"rss\":%zu",
                 took->blocks, took->events, took->wall_s, took->cpu_s,
                 (double)took->blocks / took->wall_s, subject_memberships(session->subject),
                 stats.bytes, now > session->rss_before ? now - session->rss_before : 0);
}

static size_t
percentile_at(size_t count, unsigned percent)
{
    return ((count - 1) * percent + 50) / 100;
}

static void
print_times(const uint64_t *times, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += times[i];
    (void)printf("\"queries\":%zu,\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"mean_ns\":%.1f",
                 count, times[percentile_at(count, 50)], times[percentile_at(count, 99)],
                 (double)sum / (double)count);
}

static void
print_corpus(struct session *session, size_t chains, uint64_t sum)
{
    session->rss_before = rss();
    (void)printf("\"chains\":%zu,\"memberships\":%zu,\"checksum\":\"%016" PRIx64 "\"", chains,
                 session->memberships, sum);
}

static enum kvt_err
expect_memberships(const struct session *session, size_t wanted, struct kvt_error *err)
{
    const uint64_t found = subject_memberships(session->subject);

    if (found != wanted)
        return kvt_error_set(err, KVT_CORRUPT, "%" PRIu64 " memberships, not %zu", found, wanted);
    return KVT_OK;
}

/* ---- commands ---- */

/* A new corpus or trace needs an empty index. */
static enum kvt_err
start_over(struct session *session, struct kvt_error *err)
{
    enum kvt_err rc;

    if (session->writing)
        return kvt_error_set(err, KVT_INVALID, "the writer still runs");
    measure_writer_free(session->writer);
    session->writer = NULL;
    session->capacity = 0;
    corpus_release(&session->corpus);
    trace_release(&session->trace);
    session->memberships = 0;
    subject_free(session->subject);
    rc = subject_new(&session->subject);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "cannot make an index");
}

static enum kvt_err
do_new(struct session *session, struct kvt_error *err)
{
    const enum kvt_err rc = start_over(session, err);

    if (rc == KVT_OK)
        (void)printf("\"new\":true");
    return rc;
}

static enum kvt_err
finish_corpus(struct session *session, enum kvt_err rc, struct kvt_error *err)
{
    uint64_t sum;

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "no such corpus");
    corpus_checksum(&session->corpus, &session->memberships, &sum);
    print_corpus(session, session->corpus.chains, sum);
    return KVT_OK;
}

static enum kvt_err
do_load(struct session *session, struct kvt_error *err)
{
    uint64_t memberships;
    uint64_t seed;
    enum kvt_err rc = number(session, 2, UINT32_MAX, &memberships, err);

    if (rc == KVT_OK)
        rc = number(session, 3, UINT64_MAX, &seed, err);
    if (rc != KVT_OK)
        return rc;
    corpus_release(&session->corpus);
    rc = corpus_load(&session->corpus, session->words[1], memberships, seed);
    return finish_corpus(session, rc, err);
}

static enum kvt_err
do_points(struct session *session, struct kvt_error *err)
{
    uint64_t values[6] = {0};
    const size_t which[] = {1, 2, 4, 5};
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < sizeof(which) / sizeof(which[0]) && rc == KVT_OK; i++)
        rc = number(session, which[i], which[i] < 3 ? SUBJECT_HOLDERS_MAX / 2 : UINT32_MAX,
                    &values[which[i]], err);
    if (rc != KVT_OK)
        return rc;
    corpus_release(&session->corpus);
    rc = corpus_points(&session->corpus, (uint32_t)values[1], (uint32_t)values[2],
                       session->words[3], values[4], values[5]);
    return finish_corpus(session, rc, err);
}

static enum kvt_err
do_trace(struct session *session, struct kvt_error *err)
{
    uint64_t values[5] = {0};
    uint64_t sum;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 1; i < 5 && rc == KVT_OK; i++)
        rc = number(session, i, UINT32_MAX, &values[i], err);
    if (rc == KVT_OK && session->word_count < 6)
        rc = kvt_error_set(err, KVT_INVALID, "which file?");
    if (rc != KVT_OK)
        return rc;
    trace_release(&session->trace);
    rc = trace_read(&session->trace,
                    &(struct trace_options){.path = session->words[5],
                                            .length = (uint32_t)values[1],
                                            .copies = (uint32_t)values[2],
                                            .workers = (uint32_t)values[3],
                                            .seed = values[4]},
                    err);
    if (rc == KVT_OK)
        rc = trace_checksum(&session->trace, &session->memberships, &sum);
    if (rc == KVT_OK)
        print_corpus(session, session->trace.count, sum);
    return rc;
}

static enum kvt_err
do_fill(struct session *session, struct kvt_error *err)
{
    struct measure_took took;
    enum kvt_err rc = measure_fill(session->subject, &session->corpus, &took, err);

    if (rc == KVT_OK)
        rc = expect_memberships(session, session->memberships, err);
    if (rc != KVT_OK)
        return rc;
    print_took(session, &took);
    /* Lookups are checked by their own command. */
    if (session->corpus.shape == CORPUS_CHAINS)
        rc = measure_check(session->subject, &session->corpus, err);
    return rc;
}

static enum kvt_err
do_remove(struct session *session, struct kvt_error *err)
{
    struct measure_took took;
    enum kvt_err rc = measure_remove(session->subject, &session->corpus, &took, err);

    if (rc == KVT_OK)
        rc = expect_memberships(session, 0, err);
    if (rc == KVT_OK)
        print_took(session, &took);
    return rc;
}

static enum kvt_err
do_replay(struct session *session, struct kvt_error *err)
{
    uint64_t *times = kvt_calloc(session->trace.count + 1, sizeof(*times));
    struct measure_took took;
    size_t asked;
    enum kvt_err rc =
        times == NULL || session->trace.count == 0
            ? kvt_error_set(err, KVT_INVALID, "no trace yet")
            : measure_replay(session->subject, &session->trace, &took, times, &asked, err);

    if (rc == KVT_OK)
        rc = expect_memberships(session, session->memberships, err);
    if (rc == KVT_OK) {
        print_took(session, &took);
        (void)printf(",");
        print_times(times, session->trace.count);
        (void)printf(",\"asked\":%zu", asked);
    }
    kvt_free(times);
    return rc;
}

static enum kvt_err
do_forget(struct session *session, struct kvt_error *err)
{
    struct measure_took took;
    enum kvt_err rc = measure_forget(session->subject, &session->trace, &took, err);

    if (rc == KVT_OK)
        rc = expect_memberships(session, 0, err);
    if (rc == KVT_OK)
        print_took(session, &took);
    return rc;
}

/* find FIRST COUNT [BEST] [sequence] */
static enum kvt_err
do_find(struct session *session, struct kvt_error *err)
{
    struct measure_lookups lookups = {.key = INDEX_BY_TOKENS};
    uint64_t count;
    uint64_t best = 0;
    uint64_t *times;
    enum kvt_err rc = number(session, 1, UINT64_MAX, &lookups.first, err);

    if (rc == KVT_OK)
        rc = number(session, 2, UINT32_MAX, &count, err);
    if (rc == KVT_OK && session->word_count > 3)
        rc = number(session, 3, INDEX_HOLDERS_MAX, &best, err);
    if (rc == KVT_OK && (session->corpus.chains == 0 || session->corpus.shape == CORPUS_CHAINS))
        rc = kvt_error_set(err, KVT_INVALID, "no points yet");
    if (rc != KVT_OK)
        return rc;
    if (session->word_count > 4 && strcmp(session->words[4], "sequence") == 0)
        lookups.key = INDEX_BY_SEQUENCE;
    lookups.count = count;
    lookups.best = (uint32_t)best;
    times = kvt_calloc(count + 1, sizeof(*times));
    rc = times == NULL ? KVT_NOMEM
                       : measure_find(session->subject, &session->corpus, &lookups, times, err);
    if (rc == KVT_OK)
        print_times(times, count);
    kvt_free(times);
    return rc;
}

/* writer PERCENT: of its capacity; a second one stops it. */
static enum kvt_err
do_writer(struct session *session, struct kvt_error *err)
{
    uint64_t percent;
    double rate;
    enum kvt_err rc = number(session, 1, 100, &percent, err);

    if (rc == KVT_OK && session->writing) {
        session->writing = false;
        rc = measure_writer_stop(session->writer, &rate, err);
        if (rc == KVT_OK)
            (void)printf("\"rate\":%.0f", rate);
        return rc;
    }
    if (rc == KVT_OK && session->writer == NULL)
        rc = measure_writer_new(&session->writer, session->subject, session->corpus.seed,
                                &session->capacity, err);
    if (rc == KVT_OK)
        rc = measure_writer_start(session->writer, session->capacity * (double)percent / 100, err);
    if (rc != KVT_OK)
        return rc;
    session->writing = true;
    (void)printf("\"capacity\":%.0f", session->capacity);
    return KVT_OK;
}

static enum kvt_err
do_floor(struct session *session, struct kvt_error *err)
{
    struct measure_took took;
    enum kvt_err rc = KVT_OK;

    if (session->floor == NULL)
        rc = measure_floor_new(&session->floor, session->memberships);
    if (rc == KVT_OK)
        rc = measure_floor_run(session->floor, &session->corpus, &took, err);
    if (rc == KVT_OK)
        (void)printf("\"blocks\":%zu,\"wall_s\":%.6f,\"cpu_s\":%.6f,\"rate\":%.0f", took.blocks,
                     took.wall_s, took.cpu_s, (double)took.blocks / took.wall_s);
    return rc;
}

static enum kvt_err
do_story(struct session *session, struct kvt_error *err)
{
    size_t finds;
    const enum kvt_err rc =
        measure_story(session->subject, session->words[1], session->words[2], &finds, err);

    if (rc == KVT_OK)
        (void)printf("\"finds\":%zu,\"memberships\":%" PRIu64, finds,
                     subject_memberships(session->subject));
    return rc;
}

static const struct {
    const char *name;
    enum kvt_err (*run)(struct session *session, struct kvt_error *err);
    size_t words; /* with its name */
} commands[] = {
    {"new", do_new, 1},       {"load", do_load, 4},     {"points", do_points, 6},
    {"trace", do_trace, 6},   {"fill", do_fill, 1},     {"remove", do_remove, 1},
    {"replay", do_replay, 1}, {"find", do_find, 3},     {"writer", do_writer, 2},
    {"floor", do_floor, 1},   {"forget", do_forget, 1}, {"story", do_story, 3},
};

/* The last word of `trace` is a path: all that is left of the line. */
static void
split(struct session *session)
{
    char *at = session->line;

    at[strcspn(at, "\n")] = '\0';
    session->word_count = 0;
    while (session->word_count < WORDS_MAX) {
        at += strspn(at, " ");
        if (*at == '\0')
            break;
        session->words[session->word_count++] = at;
        if (session->word_count == 6 && strcmp(session->words[0], "trace") == 0)
            break;
        at += strcspn(at, " ");
        if (*at != '\0')
            *at++ = '\0';
    }
}

static enum kvt_err
run_command(struct session *session, struct kvt_error *err)
{
    enum kvt_err rc;

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, session->words[0]) != 0)
            continue;
        if (session->word_count < commands[i].words)
            return kvt_error_set(err, KVT_INVALID, "too few arguments");
        (void)printf("{");
        rc = commands[i].run(session, err);
        (void)printf("}\n");
        (void)fflush(stdout);
        return rc;
    }
    return kvt_error_set(err, KVT_INVALID, "no such command");
}

int
main(void)
{
    struct session *session = kvt_calloc(1, sizeof(*session));
    struct kvt_error error = {.code = KVT_OK};
    enum kvt_err rc = session == NULL ? KVT_NOMEM : subject_new(&session->subject);

    while (rc == KVT_OK && fgets(session->line, sizeof(session->line), stdin) != NULL) {
        split(session);
        if (session->word_count > 0)
            rc = run_command(session, &error);
        if (rc != KVT_OK)
            (void)fprintf(stderr, "bench_index: %s: %s\n", session->words[0],
                          error.code != KVT_OK ? error.text : kvt_err_name(rc));
    }
    if (session != NULL) {
        double rate;

        if (session->writing && measure_writer_stop(session->writer, &rate, NULL) != KVT_OK)
            rc = KVT_CORRUPT;
        measure_writer_free(session->writer);
        measure_floor_free(session->floor);
        corpus_release(&session->corpus);
        trace_release(&session->trace);
        subject_free(session->subject);
    }
    kvt_free(session);
    return rc == KVT_OK ? 0 : 1;
}
