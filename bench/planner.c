/*
 * bench/planner.c -- an advisor's planner over very many known blocks.
 *
 *   bench_planner BLOCKS [BYTES_MAX]
 *
 * A store is filled with rows of blocks in chains of 64: all of them in a bucket, one in five in a
 * hot volume as well, used last at times that spread over a month.  Then a planner reads them as an
 * advisor does at its start, hears that both tiers are full, and orders what has to go until they
 * are at their stop watermarks; the gateway obeys at once.  Then a policy with another ordering
 * comes into force, and it looks on while both tiers are put into that.  BYTES_MAX bounds each
 * tier's roster.  Prints "NAME VALUE" lines, and ends with 1 when what was ordered is not what had
 * to go.
 */
#include "advisor/order/planner.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "advisor/rule/rulebook.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/text/parse.h"

#include "policy/ordering/ordering_table.h"
#include "tests/support/seed.h"

enum {
    CHAIN = 64,
    SIZE = 1 << 16,
    HOT_EVERY = 5,
    ROWS_A_TXN = 200000,
    HOLDERS = 16,
    ROUND_MS = 5000, /* between two looks: what was ordered has settled */
    ROUNDS_MAX = 100000,
    LOOK_EVERY_MS = 20,
    START_PPM = 850000,
    STOP_PPM = 700000,
    PPM = 1000000,
};

#define MONTH_MS  (UINT64_C(30) * 24 * 3600 * 1000)
#define STORE_MAX (UINT64_C(64) << 30)

enum tier { HOT, COLD, TIERS };

static const char *const tier_names[TIERS] = {"hot@gw0", "cold@bucket"};

struct bench {
    uint64_t blocks;
    uint64_t bytes_max;
    uint64_t now_ms;
    struct advisor_store *store;
    struct index *index;
    struct advisor_name_table *names;
    struct advisor_rulebook *rulebook;
    struct advisor_planner *planner;
    struct advisor_counters counters;
    struct kvt_metrics *metrics;
    uint32_t ns;
    uint32_t holders[TIERS];
    uint64_t used[TIERS]; /* bytes */
    uint64_t capacity[TIERS];
    uint64_t reports;
    uint64_t ordered[TIERS]; /* blocks */
};

static void
need(enum kvt_err rc, const char *what)
{
    if (rc == KVT_OK)
        return;
    (void)fprintf(stderr, "bench_planner: %s: %s\n", what, kvt_err_text(rc));
    exit(1);
}

static double
seconds_since(uint64_t start_ns)
{
    return (double)(kvt_clock_mono_ns() - start_ns) / 1e9;
}

/* Without the pages of the store's file, which go when others need the memory. */
static uint64_t
anonymous_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    unsigned long long kib = 0;
    char line[256];

    while (file != NULL && kib == 0 && fgets(line, sizeof(line), file) != NULL)
        (void)sscanf(line, "RssAnon: %llu kB", &kib);
    if (file != NULL)
        (void)fclose(file);
    return kib << 10;
}

static uint64_t
stop_of(const struct bench *bench, enum tier tier)
{
    return bench->capacity[tier] * STOP_PPM / PPM;
}

/* ---- the store ---- */

/* Numbers of blocks spread over all hashes, in their order: rows are put as LMDB keeps them.  The
 * blocks of a chain are far from each other there, as hashes are. */
static uint64_t
hash_of(const struct bench *bench, uint64_t position, uint64_t chain)
{
    const uint64_t chains = bench->blocks / CHAIN;

    return 1 + (position * chains + chain) * (UINT64_MAX / (bench->blocks + 1));
}

/* When a chain was used, in no order: a month's end is now. */
static uint64_t
used_ms(const struct bench *bench, uint64_t chain)
{
    return bench->now_ms - (chain * UINT64_C(0x9e3779b97f4a7c15) >> 20) % MONTH_MS;
}

static void
put_block(struct bench *bench, const struct advisor_txn *txn, uint64_t number)
{
    const uint64_t chains = bench->blocks / CHAIN;
    const uint64_t position = number / chains;
    const uint64_t chain = number % chains;
    const bool hot = chain % HOT_EVERY == 0;
    struct advisor_store_place places[TIERS] = {{bench->holders[COLD], 1},
                                                {bench->holders[HOT], 1}};
    const struct advisor_store_block block = {
        .hash = hash_of(bench, position, chain),
        .parent = position == 0 ? 0 : hash_of(bench, position - 1, chain),
        .size = SIZE,
        .touched_ms = used_ms(bench, chain),
        .ns = bench->ns,
        .position = (uint32_t)position,
        .hits = (uint32_t)(chain % 7),
        .place_count = hot ? 2 : 1,
        .places = places,
    };

    need(advisor_store_put_block(txn, &block), "put a row");
    bench->used[COLD] += SIZE;
    bench->used[HOT] += hot ? SIZE : 0;
}

static void
fill(struct bench *bench)
{
    const uint64_t count = bench->blocks / CHAIN * CHAIN;
    struct advisor_txn txn;

    for (uint64_t i = 0; i < count;) {
        need(advisor_store_write(bench->store, &txn, NULL), "write");
        for (uint64_t end = i + ROWS_A_TXN; i < end && i < count; i++)
            put_block(bench, &txn, i);
        need(advisor_store_commit(&txn, NULL), "commit");
    }
}

/* ---- the planner ---- */

static void
open_planner(struct bench *bench)
{
    const struct advisor_rulebook_options book = {.store = bench->store,
                                                  .settings = {.ordering = POLICY_ORDERING_DEFAULT,
                                                               .hot_start_ppm = START_PPM,
                                                               .hot_stop_ppm = STOP_PPM,
                                                               .cold_start_ppm = START_PPM,
                                                               .cold_stop_ppm = STOP_PPM}};
    struct advisor_planner_options planner = {.ordering =
                                                  policy_ordering_find(POLICY_ORDERING_DEFAULT),
                                              .counters = &bench->counters,
                                              .index = bench->index,
                                              .mode = ADVISOR_MODE_ENFORCE,
                                              .can_enforce = true,
                                              .expiry_ms = 60000,
                                              .bytes_max = bench->bytes_max};
    struct kvt_error err;

    need(advisor_rulebook_open(&bench->rulebook, &book, &err), "policy");
    planner.rulebook = bench->rulebook;
    need(advisor_planner_new(&bench->planner, &planner), "planner");
}

static void
open_all(struct bench *bench, const char *folder)
{
    const struct advisor_store_options store = {.path = folder, .map_bytes = STORE_MAX};
    struct index_holder key = {.tier = KVT_TIER_G4};
    struct kvt_error err;

    need(kvt_metrics_new(&bench->metrics), "metrics");
    advisor_counters_register(&bench->counters, bench->metrics);
    need(advisor_store_open(&bench->store, &store, &err), "store");
    need(index_new(&bench->index, 64u << 20), "index");
    need(advisor_name_table_new(&bench->names, bench->index, HOLDERS), "names");
    need(advisor_name_table_namespace(bench->names, "tenant/model", 0, &bench->ns), "namespace");
    for (int i = 0; i < TIERS; i++) {
        (void)snprintf(key.name, sizeof(key.name), "%s", tier_names[i]);
        need(advisor_name_table_holder(bench->names, &key, &bench->holders[i]), "holder");
    }
    open_planner(bench);
}

static void
close_all(struct bench *bench)
{
    advisor_planner_free(bench->planner);
    advisor_rulebook_free(bench->rulebook);
    advisor_name_table_free(bench->names);
    index_free(bench->index);
    advisor_store_close(bench->store);
    kvt_metrics_free(bench->metrics);
}

static void
load(struct bench *bench)
{
    static const _Atomic bool go_on = false;
    struct advisor_txn txn;

    need(advisor_store_read(bench->store, &txn, NULL), "read");
    need(advisor_planner_load(bench->planner, &txn, bench->names, bench->now_ms), "load");
    need(advisor_planner_load_blocks(bench->planner, &txn, &go_on), "load blocks");
    advisor_store_end(&txn);
}

static void
report(struct bench *bench, const struct kvt_order_result *result)
{
    struct kvt_report report = {.gateway = "gw0",
                                .incarnation = 1,
                                .seq = ++bench->reports,
                                .time_ms = bench->now_ms,
                                .healthy = true,
                                .tier_count = TIERS};

    for (int i = 0; i < TIERS; i++) {
        (void)snprintf(report.tiers[i].name, sizeof(report.tiers[i].name), "%s", tier_names[i]);
        report.tiers[i].used_bytes = bench->used[i];
        report.tiers[i].capacity_bytes = bench->capacity[i];
    }
    if (result != NULL) {
        report.results = (struct kvt_order_result *)(uintptr_t)result;
        report.result_count = 1;
    }
    (void)advisor_planner_report(bench->planner, &report, bench->now_ms);
}

/* The gateway did what it was told. */
static void
obey(struct bench *bench, const struct kvt_order *order)
{
    const enum tier tier = order->verb == KVT_ORDER_DEMOTE ? HOT : COLD;
    const struct kvt_order_result result = {
        .epoch = order->epoch, .id = order->id, .verb = order->verb, .done = order->item_count};

    for (uint32_t i = 0; i < order->item_count; i++) {
        const struct advisor_effect effect = {.op = {.hash = order->items[i].block.hash,
                                                     .time_ms = bench->now_ms,
                                                     .ns = bench->ns,
                                                     .holder = bench->holders[tier],
                                                     .kind = ADVISOR_OP_REMOVE,
                                                     .hot = tier == HOT,
                                                     .cold = tier == COLD}};

        advisor_planner_apply(bench->planner, &effect, 1);
    }
    bench->used[tier] -= (uint64_t)order->item_count * SIZE;
    bench->ordered[tier] += order->item_count;
    report(bench, &result);
}

/* Until nothing has to go any more; the longest look. */
static double
drain(struct bench *bench, unsigned *rounds)
{
    double longest = 0;
    struct kvt_order order;

    for (*rounds = 0; *rounds < ROUNDS_MAX; ++*rounds) {
        uint64_t start_ns;
        double took;
        bool any = false;

        bench->now_ms += ROUND_MS;
        report(bench, NULL);
        start_ns = kvt_clock_mono_ns();
        advisor_planner_tick(bench->planner, bench->now_ms);
        took = seconds_since(start_ns);
        longest = took > longest ? took : longest;
        advisor_planner_saved(bench->planner);
        while (advisor_planner_next(bench->planner, &order, bench->now_ms)) {
            any = true;
            obey(bench, &order);
        }
        advisor_planner_saved(bench->planner);
        if (!any && bench->used[HOT] <= stop_of(bench, HOT) &&
            bench->used[COLD] <= stop_of(bench, COLD))
            break;
    }
    return longest;
}

/* Until both tiers are in another order; the longest look. */
static double
rerank(struct bench *bench)
{
    static const char text[] = "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
                               "defaults: {order_by: lru}\n";
    const struct advisor_rulebook_change change = {
        .text = text, .size = strlen(text), .source = "bench"};
    struct policy_problems problems;
    struct kvt_error err;
    uint64_t version;
    double longest = 0;

    need(advisor_rulebook_install(bench->rulebook, NULL, &change, &problems, &version, &err),
         "another policy");
    do {
        const uint64_t start_ns = kvt_clock_mono_ns();
        double took;

        advisor_planner_tick(bench->planner, bench->now_ms);
        took = seconds_since(start_ns);
        longest = took > longest ? took : longest;
        advisor_planner_saved(bench->planner);
        kvt_clock_sleep_ms(LOOK_EVERY_MS);
    } while (kvt_metric_get(bench->counters.reranking) > 0);
    return longest;
}

static bool
is_drained(const struct bench *bench, enum tier tier)
{
    const uint64_t stop = stop_of(bench, tier);
    const uint64_t low = stop - (uint64_t)KVT_ORDER_ITEMS_MAX * SIZE;

    (void)printf("%s_ordered %" PRIu64 "\n", tier == HOT ? "hot" : "cold", bench->ordered[tier]);
    return bench->used[tier] <= stop && bench->used[tier] >= low;
}

int
main(int argc, char **argv)
{
    struct bench bench = {.bytes_max = UINT64_C(1) << 40, .now_ms = kvt_clock_unix_ms()};
    uint64_t before_bytes;
    uint64_t start_ns;
    unsigned rounds;
    char folder[256];
    double longest;
    bool good;

    if (argc < 2 || argc > 3 || kvt_parse_u64(argv[1], &bench.blocks) != KVT_OK ||
        bench.blocks < 100 * CHAIN ||
        (argc == 3 && kvt_parse_size(argv[2], &bench.bytes_max) != KVT_OK)) {
        (void)fprintf(stderr, "usage: bench_planner BLOCKS [BYTES_MAX]\n");
        return 2;
    }
    kvt_log_setup("bench_planner", KVT_LOG_WARN, KVT_LOG_TEXT);
    open_all(&bench, test_folder_make(folder, sizeof(folder)));
    fill(&bench);
    before_bytes = anonymous_bytes();
    start_ns = kvt_clock_mono_ns();
    load(&bench);
    (void)printf("blocks %" PRIu64 "\nload_s %.3f\n", bench.blocks, seconds_since(start_ns));
    for (int i = 0; i < TIERS; i++)
        bench.capacity[i] = bench.used[i]; /* full to the brim */
    start_ns = kvt_clock_mono_ns();
    longest = drain(&bench, &rounds);
    (void)printf("plan_s %.3f\nlongest_look_s %.4f\nlooks %u\n", seconds_since(start_ns), longest,
                 rounds);
    (void)printf("memory_bytes %" PRIu64 "\n", anonymous_bytes() - before_bytes);
    good = is_drained(&bench, HOT);
    good = is_drained(&bench, COLD) && good;
    start_ns = kvt_clock_mono_ns();
    longest = rerank(&bench);
    (void)printf("rerank_s %.3f\nrerank_longest_look_s %.4f\n", seconds_since(start_ns), longest);
    close_all(&bench);
    test_folder_remove(folder);
    return good ? 0 : 1;
}
