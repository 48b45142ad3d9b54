#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "advisor/answer/finder.h"
#include "advisor/archive/verify.h"
#include "advisor/index/index_image.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/number_map.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/text/json.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/index/index_commands.h"
#include "cli/index/index_from_log.h"
#include "cli/index/offline_index.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"
#include "cli/remote/listener.h"

/* ROUNDS, PAUSE_MS: what differs while events are applied must differ again a moment later. */
enum {
    PAGE = 4096,
    ROUNDS = 4,
    PAUSE_MS = 300,
    SUSPECTS_MAX = 10000,
    TEXT_MAX = 256,
    SHOWN_MAX = 100, /* problems beyond are counted and not shown */
};

struct check {
    const struct cli_context *context;
    struct advisor_store *store;
    struct advisor_index_image *image; /* all it says, as of the last look */
    struct json_object *problems;      /* shown ones */
    uint64_t problem_count;
    uint64_t blocks; /* of the image */
    uint64_t places;
    uint64_t unwritten; /* not 0: the store has no places of workers */
    bool stopped;
    /* memory against the store */
    uint64_t *counts; /* places in memory, by the image's numbers of holders */
    size_t capacity;
    struct index_place *row_places; /* of one block in the image */
    size_t row_capacity;
    struct advisor_number_map *before; /* suspects of the round before */
    struct advisor_number_map *now;
    uint64_t rows;
    uint64_t log_messages; /* of --log */
    uint64_t differences;  /* of this round that were there in the one before */
    enum kvt_err failed;
};

static bool
add_problem(void *arg, const char *text)
{
    struct check *check = arg;

    check->problem_count++;
    if (check->problem_count <= SHOWN_MAX)
        (void)json_object_array_add(check->problems, json_object_new_string(text));
    check->stopped = check->stopped || cli_interrupt_wait(0);
    return !check->stopped;
}

static struct index *
store_index(const struct check *check)
{
    return advisor_index_image_memory(check->image)->index;
}

/* All the store says at this moment. */
static enum kvt_err
look(struct check *check, struct kvt_error *err)
{
    struct index_stats stats;
    struct advisor_txn txn;
    enum kvt_err rc;

    advisor_index_image_free(check->image);
    check->image = NULL;
    rc = advisor_store_read(check->store, &txn, err);
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_number(&txn, ADVISOR_META_VOLATILE, &check->unwritten);
    if (rc == KVT_OK)
        rc = advisor_index_image_new(&check->image, &txn, err);
    advisor_store_end(&txn);
    if (rc != KVT_OK)
        return rc;
    index_stats(store_index(check), &stats);
    check->blocks = stats.blocks;
    check->places = stats.places;
    return KVT_OK;
}

static void
normalize(struct index_holder *to, const char *name, uint32_t dp_rank, enum kvt_tier tier)
{
    memset(to, 0, sizeof(*to)); /* it is a key: no byte may differ */
    (void)snprintf(to->name, sizeof(to->name), "%s", name);
    to->dp_rank = dp_rank;
    to->tier = tier;
}

/* ---- memory against the store ---- */

/* The same place and the same difference as in the round before? */
static void
suspect(struct check *check, const char *text, bool show)
{
    uint32_t unused;

    if (advisor_number_map_get(check->now, text, strlen(text), &unused))
        return;
    if (advisor_number_map_count(check->now) < SUSPECTS_MAX &&
        advisor_number_map_put(check->now, text, strlen(text), 1) != KVT_OK)
        check->failed = KVT_NOMEM;
    if (check->before == NULL ||
        advisor_number_map_get(check->before, text, strlen(text), &unused)) {
        check->differences++;
        if (show)
            (void)add_problem(check, text);
    }
}

struct round {
    struct check *check;
    bool show; /* the last one: what still differs is a problem */
};

/* A parent of 0 behind the first position is one that nobody said: memory may still know it from
 * holders that are gone, and the store does not. */
static bool
same_chain(const struct index_block *block, uint64_t parent, uint32_t position)
{
    return block->id.position == position &&
           (block->id.parent == parent || (position > 0 && (block->id.parent == 0 || parent == 0)));
}

/* One more place of a holder, by its number. */
static enum kvt_err
count_place(struct check *check, uint32_t holder)
{
    if (holder >= check->capacity) {
        const size_t capacity = ((size_t)holder + 1) * 2;
        uint64_t *more = kvt_realloc(check->counts, capacity, sizeof(*more));

        if (more == NULL)
            return KVT_NOMEM;
        for (size_t i = check->capacity; i < capacity; i++)
            more[i] = 0;
        check->counts = more;
        check->capacity = capacity;
    }
    check->counts[holder]++;
    return KVT_OK;
}

/* Shards of the block at the holder, as the store says; 0: it is not there. */
static uint32_t
store_ranks(struct check *check, uint32_t ns, uint64_t hash, uint32_t holder)
{
    size_t count;

    while ((count = index_places(store_index(check), ns, hash, check->row_places,
                                 check->row_capacity)) > check->row_capacity) {
        void *more = kvt_realloc(check->row_places, count, sizeof(*check->row_places));

        if (more == NULL) {
            check->failed = KVT_NOMEM;
            return 0;
        }
        check->row_places = more;
        check->row_capacity = count;
    }
    for (size_t i = 0; i < count; i++)
        if (check->row_places[i].holder == holder)
            return check->row_places[i].ranks;
    return 0;
}

/* What is wrong with a place in memory; NULL: nothing. */
static const char *
difference(struct check *check, struct json_object *row, uint32_t holder)
{
    const char *namespace_ = cli_json_text(row, "namespace");
    struct index_view view;
    uint64_t parent = 0;
    uint64_t hash = 0;
    uint32_t ranks;
    uint32_t ns;

    (void)kvt_json_hash(row, "hash", &hash);
    (void)kvt_json_hash(row, "parent", &parent);
    if (index_namespace_find(store_index(check), namespace_, &ns) != KVT_OK ||
        index_get(store_index(check), ns, hash, &view) != KVT_OK)
        return "the store does not have the block";
    ranks = store_ranks(check, ns, hash, holder);
    if (ranks == 0)
        return "the store does not have this place";
    if (ranks != (uint32_t)cli_json_u64(row, "ranks"))
        return "the store has other shards";
    if (!same_chain(&view.block, parent, (uint32_t)cli_json_u64(row, "position")))
        return "the store has another parent or position";
    if (view.block.size != cli_json_u64(row, "size"))
        return "the store has another size";
    return NULL;
}

static void
compare_row(struct round *round, struct json_object *row)
{
    struct check *check = round->check;
    char text[ADVISOR_NUMBER_MAP_KEY_MAX];
    struct index_holder key;
    enum kvt_tier tier;
    const char *what;
    uint32_t holder;
    enum kvt_err rc;

    if (!kvt_tier_parse(cli_json_text(row, "tier"), &tier)) {
        check->failed = KVT_INVALID;
        return;
    }
    if (check->unwritten != 0 && tier != KVT_TIER_G4)
        return;
    check->rows++;
    normalize(&key, cli_json_text(row, "holder"), (uint32_t)cli_json_u64(row, "dp_rank"), tier);
    /* One that the store lacks gets a number too. */
    rc = index_holder(store_index(check), &key, &holder);
    if (rc == KVT_OK)
        rc = count_place(check, holder);
    if (rc != KVT_OK) {
        check->failed = rc;
        return;
    }
    what = difference(check, row, holder);
    if (what == NULL)
        return;
    (void)snprintf(text, sizeof(text), "%s at %s %s/%s of \"%.60s\" in memory: %s",
                   cli_json_text(row, "hash"), cli_json_text(row, "tier"), key.name,
                   cli_json_text(row, "dp_rank"), cli_json_text(row, "namespace"), what);
    suspect(check, text, round->show);
}

static bool
compare_line(void *arg, struct json_object *line)
{
    struct round *round = arg;
    struct check *check = round->check;

    compare_row(round, line);
    check->stopped = check->stopped || (check->rows % PAGE == 0 && cli_interrupt_wait(0));
    return check->failed == KVT_OK && !check->stopped;
}

static void
compare_counts(struct round *round)
{
    struct check *check = round->check;
    const uint32_t count = index_holder_count(store_index(check));

    for (uint32_t i = 0; i < count; i++) {
        const uint64_t memory = i < check->capacity ? check->counts[i] : 0;
        char text[ADVISOR_NUMBER_MAP_KEY_MAX];
        struct index_holder key;
        uint64_t store;

        index_holder_info(store_index(check), i, &key, &store, NULL);
        if (memory == store)
            continue;
        (void)snprintf(text, sizeof(text),
                       "%s %s/%" PRIu32 ": %" PRIu64 " places in memory, %" PRIu64 " in the store",
                       kvt_tier_name(key.tier), key.name, key.dp_rank, memory, store);
        suspect(check, text, round->show);
    }
}

static enum kvt_err
one_round(struct check *check, bool show, struct kvt_error *err)
{
    struct round round = {.check = check, .show = show};
    char path[64];
    enum kvt_err rc;

    advisor_number_map_free(check->before);
    check->before = check->now;
    check->now = NULL;
    check->rows = 0;
    check->differences = 0;
    for (size_t i = 0; i < check->capacity; i++)
        check->counts[i] = 0;
    rc = advisor_number_map_new(&check->now);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "out of memory");
    rc = look(check, err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(path, sizeof(path), "/v1/index/dump?limit=%d", PAGE);
    rc = cli_admin_walk(check->context, CLI_ADMIN_ADVISOR, path, compare_line, &round, err);
    if (rc == KVT_OK && check->failed != KVT_OK)
        rc = kvt_error_set(err, check->failed, "index: %s", kvt_err_text(check->failed));
    if (rc == KVT_OK && !check->stopped)
        compare_counts(&round);
    return rc;
}

/* Rounds until one finds nothing that the one before had found too. */
static enum kvt_err
compare(struct check *check, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    for (unsigned i = 0; i < ROUNDS && rc == KVT_OK && !check->stopped; i++) {
        if (i > 0)
            check->stopped = cli_interrupt_wait(PAUSE_MS);
        rc = one_round(check, i == ROUNDS - 1, err);
        if (rc == KVT_OK && check->differences == 0)
            break;
    }
    return rc;
}

/* ---- the store against the log ---- */

struct replay {
    struct check *check;
    struct cli_index_from_log *log;
    uint64_t places; /* of the store */
    enum kvt_err failed;
};

static bool
take_message(void *arg, const struct wire_recording *message)
{
    struct replay *replay = arg;

    replay->failed = cli_index_from_log_take(replay->log, message);
    return replay->failed == KVT_OK;
}

static void
compare_place(void *arg, const struct advisor_finder_row *row)
{
    struct replay *replay = arg;
    struct index_holder key;
    char text[TEXT_MAX];
    uint32_t ranks;

    normalize(&key, row->holder.name, row->holder.dp_rank, row->holder.tier);
    replay->places++;
    ranks = cli_index_from_log_ranks(replay->log, row->namespace_, &key, row->block.id.hash);
    if (ranks == row->block.ranks)
        return;
    (void)snprintf(text, sizeof(text),
                   "%016" PRIx64 " at %s %s/%" PRIu32 " in the store: the log says %s",
                   row->block.id.hash, kvt_tier_name(key.tier), key.name, key.dp_rank,
                   ranks == 0 ? "it is not there" : "other shards");
    (void)add_problem(replay->check, text);
}

static enum kvt_err
walk_store(struct replay *replay)
{
    const struct advisor_finder finder = {.memory =
                                              advisor_index_image_memory(replay->check->image)};
    uint64_t cursor = 0;
    enum kvt_err rc;

    do
        rc = advisor_finder_rows(&finder, cursor, PAGE, &cursor, compare_place, replay);
    while (rc == KVT_OK && cursor != 0 && !replay->check->stopped);
    return rc;
}

static enum kvt_err
compare_log(struct check *check, const char *path, struct kvt_error *err)
{
    struct replay replay = {.check = check};
    struct cli_listener listener = {
        .context = check->context, .each = take_message, .arg = &replay};
    struct cli_index_from_log_counts counts;
    char text[TEXT_MAX];
    enum kvt_err rc = cli_index_from_log_new(&replay.log);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "out of memory");
    rc = cli_listener_recording(&listener, path, false, err);
    if (rc == KVT_OK && replay.failed != KVT_OK)
        rc = kvt_error_set(err, replay.failed, "log: %s", kvt_err_text(replay.failed));
    if (rc == KVT_OK) {
        (void)cli_listener_complain(&listener);
        rc = walk_store(&replay);
        if (rc != KVT_OK)
            (void)kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
    }
    if (rc == KVT_OK && !check->stopped) {
        cli_index_from_log_count(replay.log, &counts);
        check->log_messages = counts.messages;
        if (counts.gaps > 0)
            (void)fprintf(check->context->err,
                          "kvtier: the log misses events in %" PRIu64
                          " places: a difference need not be a fault\n",
                          counts.gaps);
        if (counts.places != replay.places) {
            (void)snprintf(text, sizeof(text),
                           "%" PRIu64 " places in the store, %" PRIu64 " by the log", replay.places,
                           counts.places);
            (void)add_problem(check, text);
        }
    }
    cli_index_from_log_free(replay.log);
    return rc;
}

/* ---- the command ---- */

enum ram { RAM_COMPARED, RAM_AWAY, RAM_PARTIAL, RAM_LEFT_OUT, RAM_DAMAGED };

static void
print(const struct check *check, const struct advisor_verify_counts *counts, enum ram ram)
{
    static const char *const rams[] = {"compared", "away", "not whole", "left out", "damaged"};
    static const char *const why[] = {"", "no advisor answers",
                                      "not all of the index is in the advisor's memory",
                                      "--store-only", "the store is damaged"};
    FILE *out = check->context->out;

    if (check->context->json) {
        struct json_object *answer = json_object_new_object();

        (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
        (void)json_object_object_add(answer, "blocks", json_object_new_uint64(check->blocks));
        (void)json_object_object_add(answer, "places", json_object_new_uint64(check->places));
        (void)json_object_object_add(answer, "publishers",
                                     json_object_new_uint64(counts->publishers));
        (void)json_object_object_add(answer, "memory", json_object_new_string(rams[ram]));
        (void)json_object_object_add(answer, "memory_places", json_object_new_uint64(check->rows));
        (void)json_object_object_add(answer, "log_messages",
                                     json_object_new_uint64(check->log_messages));
        (void)json_object_object_add(answer, "problem_count",
                                     json_object_new_uint64(check->problem_count));
        (void)json_object_object_add(answer, "problems", json_object_get(check->problems));
        cli_json_print(out, answer);
        (void)json_object_put(answer);
        return;
    }
    for (size_t i = 0; i < json_object_array_length(check->problems); i++)
        (void)fprintf(out, "%s\n",
                      json_object_get_string(json_object_array_get_idx(check->problems, i)));
    if (check->problem_count > SHOWN_MAX)
        (void)fprintf(out, "and %" PRIu64 " more\n", check->problem_count - SHOWN_MAX);
    (void)fprintf(out, "store   %" PRIu64 " blocks in %" PRIu64 " places, %" PRIu64 " publishers\n",
                  check->blocks, check->places, counts->publishers);
    if (ram == RAM_COMPARED)
        (void)fprintf(out, "memory  %" PRIu64 " places, compared with the store\n", check->rows);
    else
        (void)fprintf(out, "memory  not compared: %s\n", why[ram]);
    if (check->unwritten != 0)
        (void)fprintf(out, "places of workers are not written (index.durable): not compared\n");
    if (kvt_config_is_set(check->context->options, CLI_INDEX_VERIFY_LOG))
        (void)fprintf(out, "log     %" PRIu64 " messages, compared with the store\n",
                      check->log_messages);
    (void)fprintf(out, "%s\n", check->problem_count == 0 ? "no problem found" : "PROBLEMS FOUND");
}

static enum kvt_err
run(struct check *check, struct advisor_verify_counts *counts, enum ram *ram, struct kvt_error *err)
{
    struct json_object *stats = NULL;
    enum kvt_err rc;

    *ram = RAM_AWAY;
    rc = advisor_verify(check->store, add_problem, check, counts);
    if (rc != KVT_OK && rc != KVT_CANCELLED)
        return kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
    /* What is damaged may not be readable as a whole: then that is what there is to say. */
    rc = look(check, err);
    if (rc == KVT_CORRUPT && check->problem_count > 0) {
        *ram = RAM_DAMAGED;
        return KVT_OK;
    }
    if (rc != KVT_OK)
        return rc;
    if (!check->stopped && check->unwritten == 0 &&
        kvt_config_is_set(check->context->options, CLI_INDEX_VERIFY_LOG)) {
        rc = compare_log(check, kvt_config_string(check->context->options, CLI_INDEX_VERIFY_LOG),
                         err);
        if (rc != KVT_OK)
            return rc;
    }
    if (kvt_config_bool(check->context->options, CLI_INDEX_VERIFY_STORE_ONLY))
        *ram = RAM_LEFT_OUT;
    if (check->stopped || *ram == RAM_LEFT_OUT)
        return KVT_OK;
    rc = cli_admin_ask(check->context, CLI_ADMIN_ADVISOR, "/v1/index/stats", NULL, false, &stats,
                       err);
    if (rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT)
        return KVT_OK;
    if (rc != KVT_OK)
        return rc;
    *ram = cli_json_bool(stats, "whole_in_memory") ? RAM_COMPARED : RAM_PARTIAL;
    (void)json_object_put(stats);
    return *ram == RAM_COMPARED ? compare(check, err) : KVT_OK;
}

enum cli_exit
cli_index_verify(const struct cli_context *context)
{
    const struct advisor_store_options options = {
        .path = kvt_config_string(context->options, CLI_INDEX_VERIFY_OFFLINE), .read_only = true};
    struct check check = {.context = context};
    struct advisor_verify_counts counts = {0};
    struct kvt_error err = {0};
    enum ram ram = RAM_AWAY;
    enum kvt_err rc;

    if (!kvt_config_is_set(context->options, CLI_INDEX_VERIFY_OFFLINE))
        return cli_context_usage(context, "index verify wants --offline DIR, the advisor's "
                                          "state.dir; the advisor may be running");
    cli_interrupt_begin();
    check.problems = json_object_new_array();
    rc = advisor_store_open(&check.store, &options, &err);
    if (rc == KVT_OK)
        rc = run(&check, &counts, &ram, &err);
    if (rc == KVT_OK && check.stopped)
        rc = kvt_error_set(&err, KVT_CANCELLED, "stopped before the end");
    if (rc == KVT_OK)
        print(&check, &counts, ram);
    advisor_index_image_free(check.image);
    advisor_store_close(check.store);
    advisor_number_map_free(check.before);
    advisor_number_map_free(check.now);
    kvt_free(check.counts);
    kvt_free(check.row_places);
    (void)json_object_put(check.problems);
    if (rc != KVT_OK)
        return cli_offline_index_fail(context, &err);
    return check.problem_count == 0 ? CLI_EXIT_DONE : CLI_EXIT_FAILED;
}
