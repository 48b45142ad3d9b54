/*
 * bench/durable/ingest.c -- events made durable, against LMDB itself.
 *
 *   bench_lmdb_ingest [--quick]
 *
 * Ours: events of one block each are collected, written in one transaction with snapshots as they
 * fall due, committed, followed in RAM, and synced as the engine does.  Anchors, with the same
 * flags, transactions and syncs:
 *
 *   rows    the same events as rows of 16 B key and 16 B value, sorted by key in each transaction;
 *           the sorting is not timed
 *   append  as many bytes as ours wrote, as rows at the end of a table
 *
 * Prints "rows <ours> <anchor> <ours> <anchor>" and "append ..." likewise, a pair each: events a
 * second, and events a second of the thread's CPU.
 */
#include <endian.h>
#include <inttypes.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/store/lmdb.h"

#include "bench/durable/rounds.h"
#include "tests/support/seed.h"

enum {
    PAIRS = 7,
    PAIRS_QUICK = 3,
    SEED = 42,
};

#define EVENTS       4000000u
#define EVENTS_QUICK 500000u

struct row {
    uint64_t key[2]; /* big-endian */
    uint64_t value[2];
};

/* Events a second; all 0: it failed. */
struct figure {
    double rate;
    double cpu_rate; /* of the thread's CPU */
};

struct bench {
    struct stream stream;
    struct row *rows; /* of a transaction */
    uint64_t events;
    uint64_t groups; /* of the last run of ours */
    uint64_t bytes;
};

static uint64_t
cpu_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static struct figure
figure_of(const struct bench *bench, uint64_t start_ns, uint64_t start_cpu_ns)
{
    return (struct figure){
        .rate = (double)bench->events * 1e9 / (double)(kvt_clock_mono_ns() - start_ns),
        .cpu_rate = (double)bench->events * 1e9 / (double)(cpu_ns() - start_cpu_ns),
    };
}

/* ---- ours ---- */

static struct figure
run_ours(struct bench *bench)
{
    struct stream_event event;
    struct rounds rounds;
    uint64_t start_cpu_ns;
    uint64_t start_ns;
    struct figure figure = {.rate = 0};
    bool good = rounds_open(&rounds, true);

    bench->groups = 0;
    stream_rewind(&bench->stream);
    start_ns = kvt_clock_mono_ns();
    start_cpu_ns = cpu_ns();
    while (good && stream_next(&bench->stream, &event)) {
        good = rounds_add(&rounds, &event);
        if (good && rounds_is_full(&rounds)) {
            good = rounds_commit(&rounds);
            bench->groups++;
        }
    }
    if (good && rounds_commit(&rounds) && rounds_sync(&rounds))
        figure = figure_of(bench, start_ns, start_cpu_ns);
    bench->bytes = rounds.bytes;
    rounds_close(&rounds);
    return figure;
}

/* ---- LMDB itself ---- */

struct bare {
    char folder[256];
    MDB_env *env;
    MDB_dbi table;
    MDB_txn *txn;
    MDB_cursor *cursor;
    uint64_t synced_ms;
};

static bool
bare_open(struct bare *bare)
{
    struct kvt_lmdb_options options = {.map_bytes = ROUNDS_MAP_BYTES, .databases_max = 1};
    struct kvt_error err = {.text = ""};
    MDB_txn *txn;

    *bare = (struct bare){.env = NULL};
    options.path = test_folder_make(bare->folder, sizeof(bare->folder));
    if (kvt_lmdb_open(&bare->env, &options, &err) != KVT_OK ||
        mdb_txn_begin(bare->env, NULL, 0, &txn) != 0)
        return false;
    bare->synced_ms = kvt_clock_mono_ms();
    return mdb_dbi_open(txn, "rows", MDB_CREATE, &bare->table) == 0 && mdb_txn_commit(txn) == 0;
}

static void
bare_close(struct bare *bare)
{
    if (bare->env != NULL)
        mdb_env_close(bare->env);
    test_folder_remove(bare->folder);
}

static bool
bare_begin(struct bare *bare)
{
    if (mdb_txn_begin(bare->env, NULL, 0, &bare->txn) != 0)
        return false;
    if (mdb_cursor_open(bare->txn, bare->table, &bare->cursor) == 0)
        return true;
    mdb_txn_abort(bare->txn);
    return false;
}

/* `rc`: of the last put. */
static bool
bare_commit(struct bare *bare, int rc, bool last)
{
    mdb_cursor_close(bare->cursor);
    if (rc != 0) {
        mdb_txn_abort(bare->txn);
        return false;
    }
    if (mdb_txn_commit(bare->txn) != 0)
        return false;
    if (!last && kvt_clock_mono_ms() - bare->synced_ms < ROUNDS_SYNC_MS)
        return true;
    bare->synced_ms = kvt_clock_mono_ms();
    return kvt_lmdb_sync(bare->env, NULL) == KVT_OK;
}

static int
compare_rows(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(((const struct row *)left)->key));
}

/* Untimed: the clocks go on where they were. */
static void
sort_rows(struct row *rows, size_t count, uint64_t *start_ns, uint64_t *start_cpu_ns)
{
    const uint64_t now_ns = kvt_clock_mono_ns();
    const uint64_t now_cpu_ns = cpu_ns();

    qsort(rows, count, sizeof(*rows), compare_rows);
    *start_ns += kvt_clock_mono_ns() - now_ns;
    *start_cpu_ns += cpu_ns() - now_cpu_ns;
}

static bool
put_rows(struct bare *bare, struct row *rows, size_t count, bool last)
{
    int rc = 0;

    if (!bare_begin(bare))
        return false;
    for (size_t i = 0; i < count && rc == 0; i++) {
        MDB_val key = {.mv_size = sizeof(rows[i].key), .mv_data = rows[i].key};
        MDB_val value = {.mv_size = sizeof(rows[i].value), .mv_data = rows[i].value};

        rc = mdb_cursor_put(bare->cursor, &key, &value, 0);
    }
    return bare_commit(bare, rc, last);
}

static struct figure
run_rows(struct bench *bench)
{
    struct stream_event event;
    struct bare bare;
    uint64_t start_cpu_ns;
    uint64_t start_ns;
    size_t count = 0;
    struct figure figure = {.rate = 0};
    bool good = bare_open(&bare);

    stream_rewind(&bench->stream);
    start_ns = kvt_clock_mono_ns();
    start_cpu_ns = cpu_ns();
    while (good && stream_next(&bench->stream, &event)) {
        bench->rows[count++] = (struct row){
            .key = {htobe64(event.hashes[0]), htobe64((uint64_t)event.worker << 32 | event.ns)},
            .value = {event.parent, event.tokens[0]},
        };
        if (count == ROUNDS_GROUP_BLOCKS) {
            sort_rows(bench->rows, count, &start_ns, &start_cpu_ns);
            good = put_rows(&bare, bench->rows, count, false);
            count = 0;
        }
    }
    sort_rows(bench->rows, count, &start_ns, &start_cpu_ns);
    if (good && put_rows(&bare, bench->rows, count, true))
        figure = figure_of(bench, start_ns, start_cpu_ns);
    bare_close(&bare);
    return figure;
}

static bool
append_bytes(struct bare *bare, uint64_t *number, uint64_t bytes, bool last)
{
    uint8_t row[ADVISOR_EVENT_LOG_ROW_MAX];
    int rc = 0;

    memset(row, 0x5a, sizeof(row));
    if (!bare_begin(bare))
        return false;
    for (uint64_t done = 0; done < bytes && rc == 0; done += sizeof(row)) {
        uint64_t id = htobe64((*number)++);
        MDB_val key = {.mv_size = sizeof(id), .mv_data = &id};
        MDB_val value = {.mv_size = sizeof(row), .mv_data = row};

        rc = mdb_cursor_put(bare->cursor, &key, &value, MDB_APPEND);
    }
    return bare_commit(bare, rc, last);
}

static struct figure
run_append(struct bench *bench)
{
    struct bare bare;
    uint64_t number = 0;
    uint64_t start_cpu_ns;
    uint64_t start_ns;
    struct figure figure = {.rate = 0};
    bool good = bare_open(&bare);

    start_ns = kvt_clock_mono_ns();
    start_cpu_ns = cpu_ns();
    for (uint64_t i = 0; i <= bench->groups && good; i++)
        good = append_bytes(&bare, &number, bench->bytes / (bench->groups + 1), i == bench->groups);
    if (good)
        figure = figure_of(bench, start_ns, start_cpu_ns);
    bare_close(&bare);
    return figure;
}

static void
say(const char *what, const struct figure *ours, const struct figure *anchor)
{
    (void)printf("%s %.0f %.0f %.0f %.0f\n", what, ours->rate, anchor->rate, ours->cpu_rate,
                 anchor->cpu_rate);
}

int
main(int argc, char **argv)
{
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    struct bench bench = {.rows = NULL};
    uint64_t checksum;
    bool good = stream_open(&bench.stream, "C", quick ? EVENTS_QUICK : EVENTS, SEED) == KVT_OK;

    bench.rows = kvt_calloc(ROUNDS_GROUP_BLOCKS, sizeof(*bench.rows));
    good = good && bench.rows != NULL;
    if (good)
        corpus_checksum(&bench.stream.corpus, &bench.events, &checksum);
    for (int i = 0; good && i < (quick ? PAIRS_QUICK : PAIRS); i++) {
        const struct figure ours = run_ours(&bench);
        const struct figure rows = run_rows(&bench);
        const struct figure append = run_append(&bench);

        good = ours.rate > 0 && rows.rate > 0 && append.rate > 0;
        say("rows", &ours, &rows);
        say("append", &ours, &append);
        (void)fflush(stdout);
    }
    if (!good)
        (void)fprintf(stderr, "bench_lmdb_ingest: a run did not end\n");
    stream_close(&bench.stream);
    kvt_free(bench.rows);
    return good ? 0 : 1;
}
