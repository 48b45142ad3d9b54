#include "cli/index_verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "advisor/find.h"
#include "advisor/map.h"
#include "advisor/store.h"
#include "advisor/verify.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/index_log.h"
#include "cli/json.h"
#include "cli/listener.h"
#include "cli/offline.h"
#include "cli/options.h"
#include "cli/server.h"
#include "cli/watch.h"

/* ROUNDS, PAUSE_MS: what differs while events are applied must differ again a moment later. */
enum { PAGE = 4096, ROUNDS = 4, PAUSE_MS = 300, SUSPECTS_MAX = 10000, TEXT_MAX = 256 };

struct holder_count {
    struct index_holder key;
    uint64_t memory;
    uint64_t store;
};

struct check {
    const struct cli_context *context;
    struct advisor_store *store;
    struct json_object *problems; /* shown ones */
    uint64_t problem_count;
    bool stopped;
    /* memory against the store */
    struct advisor_txn txn;
    struct advisor_store_block block;
    struct advisor_map *namespaces; /* of the store */
    struct advisor_map *holders;    /* of the store and of memory: slots in `counts` */
    struct holder_count *counts;
    uint32_t *numbers; /* slot of each of the store's holder numbers */
    size_t count;
    size_t capacity;
    uint32_t number_count;
    struct advisor_map *before; /* suspects of the round before */
    struct advisor_map *now;
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
    if (check->problem_count <= CLI_INDEX_VERIFY_SHOWN)
        (void)json_object_array_add(check->problems, json_object_new_string(text));
    check->stopped = check->stopped || cli_watch_wait(0);
    return !check->stopped;
}

/* ---- holders, by what they are called ---- */

static enum kvt_err
slot_of(struct check *check, const struct index_holder *key, uint32_t *slot)
{
    struct holder_count *more;

    if (advisor_map_get(check->holders, key, sizeof(*key), slot))
        return KVT_OK;
    if (check->count == check->capacity) {
        const size_t capacity = check->capacity == 0 ? 64 : check->capacity * 2;

        more = kvt_realloc(check->counts, capacity, sizeof(*more));
        if (more == NULL)
            return KVT_NOMEM;
        check->counts = more;
        check->capacity = capacity;
    }
    *slot = (uint32_t)check->count;
    check->counts[check->count] = (struct holder_count){.key = *key};
    if (advisor_map_put(check->holders, key, sizeof(*key), *slot) != KVT_OK)
        return KVT_NOMEM;
    check->count++;
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

static enum kvt_err
see_holder(void *arg, uint32_t number, const struct index_holder *row)
{
    struct check *check = arg;
    struct index_holder key;
    uint32_t *more = kvt_realloc(check->numbers, (size_t)number + 1, sizeof(*more));

    if (more == NULL)
        return KVT_NOMEM;
    check->numbers = more;
    check->number_count = number + 1;
    normalize(&key, row->name, row->dp_rank, row->tier);
    return slot_of(check, &key, &check->numbers[number]);
}

static enum kvt_err
see_namespace(void *arg, uint32_t number, const char *name)
{
    struct check *check = arg;

    return advisor_map_put(check->namespaces, name, strlen(name) + 1, number);
}

static enum kvt_err
see_block(void *arg, const struct advisor_store_block *block)
{
    struct check *check = arg;

    for (uint32_t i = 0; i < block->place_count; i++)
        if (block->places[i].holder < check->number_count)
            check->counts[check->numbers[block->places[i].holder]].store++;
    return KVT_OK;
}

/* The store's names and how much each of its holders has, as of now. */
static enum kvt_err
count_store(struct check *check)
{
    uint64_t cursor = 0;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < check->count; i++)
        check->counts[i].store = check->counts[i].memory = 0;
    do {
        struct advisor_txn txn;

        rc = advisor_store_read(check->store, &txn, NULL);
        if (rc == KVT_OK && cursor == 0) {
            rc = advisor_store_holders(&txn, see_holder, check);
            if (rc == KVT_OK)
                rc = advisor_store_namespaces(&txn, see_namespace, check);
        }
        if (rc == KVT_OK)
            rc = advisor_store_blocks(&txn, cursor, PAGE, &cursor, see_block, check);
        advisor_store_end(&txn);
        check->stopped = check->stopped || cli_watch_wait(0);
    } while (rc == KVT_OK && cursor != 0 && !check->stopped);
    return rc;
}

/* ---- memory against the store ---- */

/* The same place and the same difference as in the round before? */
static void
suspect(struct check *check, const char *text, bool show)
{
    uint32_t unused;

    if (advisor_map_get(check->now, text, strlen(text), &unused))
        return;
    if (advisor_map_count(check->now) < SUSPECTS_MAX &&
        advisor_map_put(check->now, text, strlen(text), 1) != KVT_OK)
        check->failed = KVT_NOMEM;
    if (check->before == NULL || advisor_map_get(check->before, text, strlen(text), &unused)) {
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
same_chain(const struct advisor_store_block *block, uint64_t parent, uint32_t position)
{
    return block->position == position &&
           (block->parent == parent || (position > 0 && (block->parent == 0 || parent == 0)));
}

static void
compare_row(struct round *round, struct json_object *row)
{
    struct check *check = round->check;
    const char *namespace_ = cli_json_text(row, "namespace");
    struct index_holder key;
    char text[ADVISOR_MAP_KEY_MAX];
    enum kvt_tier tier;
    const char *what = NULL;
    uint64_t hash = 0;
    uint64_t parent = 0;
    uint32_t slot = 0;
    uint32_t ns = 0;
    uint32_t ranks = 0;

    (void)kvt_tier_parse(cli_json_text(row, "tier"), &tier);
    normalize(&key, cli_json_text(row, "holder"), (uint32_t)cli_json_u64(row, "dp_rank"), tier);
    (void)kvt_json_hash(row, "hash", &hash);
    (void)kvt_json_hash(row, "parent", &parent);
    if (slot_of(check, &key, &slot) != KVT_OK) {
        check->failed = KVT_NOMEM;
        return;
    }
    check->counts[slot].memory++;
    check->rows++;
    if (!advisor_map_get(check->namespaces, namespace_, strlen(namespace_) + 1, &ns) ||
        advisor_store_get_block(&check->txn, ns, hash, &check->block) != KVT_OK) {
        what = "the store does not have the block";
    } else {
        for (uint32_t i = 0; i < check->block.place_count; i++)
            if (check->block.places[i].holder < check->number_count &&
                check->numbers[check->block.places[i].holder] == slot)
                ranks = check->block.places[i].ranks;
        if (ranks == 0)
            what = "the store does not have this place";
        else if (ranks != (uint32_t)cli_json_u64(row, "ranks"))
            what = "the store has other shards";
        else if (!same_chain(&check->block, parent, (uint32_t)cli_json_u64(row, "position")))
            what = "the store has another parent or position";
        else if (check->block.size != cli_json_u64(row, "size"))
            what = "the store has another size";
    }
    if (what == NULL)
        return;
    (void)snprintf(text, sizeof(text), "%s at %s %s/%s of \"%.60s\" in memory: %s",
                   cli_json_text(row, "hash"), cli_json_text(row, "tier"), key.name,
                   cli_json_text(row, "dp_rank"), namespace_, what);
    suspect(check, text, round->show);
}

static bool
compare_line(void *arg, struct json_object *line)
{
    struct round *round = arg;
    struct check *check = round->check;

    if (check->txn.handle == NULL &&
        advisor_store_read(check->store, &check->txn, NULL) != KVT_OK) {
        check->failed = KVT_AGAIN;
        return false;
    }
    compare_row(round, line);
    /* A page of the advisor's at a time: a read transaction must not last. */
    if (check->rows % PAGE == 0)
        advisor_store_end(&check->txn);
    check->stopped = check->stopped || (check->rows % PAGE == 0 && cli_watch_wait(0));
    return check->failed == KVT_OK && !check->stopped;
}

static void
compare_counts(struct round *round)
{
    struct check *check = round->check;

    for (size_t i = 0; i < check->count; i++) {
        const struct holder_count *count = &check->counts[i];
        char text[ADVISOR_MAP_KEY_MAX];

        if (count->memory == count->store)
            continue;
        (void)snprintf(text, sizeof(text),
                       "%s %s/%" PRIu32 ": %" PRIu64 " places in memory, %" PRIu64 " in the store",
                       kvt_tier_name(count->key.tier), count->key.name, count->key.dp_rank,
                       count->memory, count->store);
        suspect(check, text, round->show);
    }
}

static enum kvt_err
one_round(struct check *check, bool show, struct kvt_error *err)
{
    struct round round = {.check = check, .show = show};
    char path[64];
    enum kvt_err rc;

    advisor_map_free(check->before);
    check->before = check->now;
    check->now = NULL;
    check->rows = 0;
    check->differences = 0;
    rc = advisor_map_new(&check->now);
    if (rc == KVT_OK)
        rc = count_store(check);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
    (void)snprintf(path, sizeof(path), "/v1/index/dump?limit=%d", PAGE);
    rc = cli_server_walk(check->context, CLI_SERVER_ADVISOR, path, compare_line, &round, err);
    advisor_store_end(&check->txn);
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
    enum kvt_err rc = advisor_map_new(&check->namespaces);

    if (rc == KVT_OK)
        rc = advisor_map_new(&check->holders);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "out of memory");
    for (unsigned i = 0; i < ROUNDS && rc == KVT_OK && !check->stopped; i++) {
        if (i > 0)
            check->stopped = cli_watch_wait(PAUSE_MS);
        rc = one_round(check, i == ROUNDS - 1, err);
        if (rc == KVT_OK && check->differences == 0)
            break;
    }
    return rc;
}

/* ---- the store against the log ---- */

struct replay {
    struct check *check;
    struct cli_index_log *log;
    const struct advisor_txn *txn;
    uint64_t places; /* of the store */
    enum kvt_err failed;
};

static bool
take_message(void *arg, const struct wire_record *message)
{
    struct replay *replay = arg;

    replay->failed = cli_index_log_take(replay->log, message);
    return replay->failed == KVT_OK;
}

static enum kvt_err
compare_block(void *arg, const struct advisor_store_block *block)
{
    struct replay *replay = arg;
    char namespace_[KVT_NAMESPACE_MAX];
    enum kvt_err rc = advisor_store_namespace(replay->txn, block->ns, namespace_);

    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++) {
        struct index_holder holder;
        struct index_holder key;
        char text[TEXT_MAX];
        uint32_t ranks;

        rc = advisor_store_holder(replay->txn, block->places[i].holder, &holder);
        if (rc != KVT_OK)
            break;
        normalize(&key, holder.name, holder.dp_rank, holder.tier);
        replay->places++;
        ranks = cli_index_log_ranks(replay->log, namespace_, &key, block->hash);
        if (ranks == block->places[i].ranks)
            continue;
        (void)snprintf(text, sizeof(text),
                       "%016" PRIx64 " at %s %s/%" PRIu32 " in the store: the log says %s",
                       block->hash, kvt_tier_name(key.tier), key.name, key.dp_rank,
                       ranks == 0 ? "it is not there" : "other shards");
        if (!add_problem(replay->check, text))
            rc = KVT_CANCELLED;
    }
    return rc;
}

static enum kvt_err
walk_store(struct replay *replay)
{
    uint64_t cursor = 0;
    enum kvt_err rc;

    do {
        struct advisor_txn txn;

        replay->txn = &txn;
        rc = advisor_store_read(replay->check->store, &txn, NULL);
        if (rc == KVT_OK)
            rc = advisor_store_blocks(&txn, cursor, PAGE, &cursor, compare_block, replay);
        advisor_store_end(&txn);
    } while (rc == KVT_OK && cursor != 0);
    return rc;
}

static enum kvt_err
compare_log(struct check *check, const char *path, struct kvt_error *err)
{
    struct replay replay = {.check = check};
    struct cli_listener listener = {
        .context = check->context, .each = take_message, .arg = &replay};
    struct cli_index_log_counts counts;
    char text[TEXT_MAX];
    enum kvt_err rc = cli_index_log_new(&replay.log);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "out of memory");
    rc = cli_listener_recording(&listener, path, false, err);
    if (rc == KVT_OK && replay.failed != KVT_OK)
        rc = kvt_error_set(err, replay.failed, "log: %s", kvt_err_text(replay.failed));
    if (rc == KVT_OK) {
        (void)cli_listener_complain(&listener);
        rc = walk_store(&replay);
        if (rc != KVT_OK && rc != KVT_CANCELLED)
            (void)kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
    }
    if (rc == KVT_OK) {
        cli_index_log_count(replay.log, &counts);
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
    cli_index_log_free(replay.log);
    return rc == KVT_CANCELLED ? KVT_OK : rc;
}

/* ---- the command ---- */

enum ram { RAM_COMPARED, RAM_AWAY, RAM_PARTIAL, RAM_LEFT_OUT };

static void
print(const struct check *check, const struct advisor_verify_counts *counts, enum ram ram)
{
    static const char *const rams[] = {"compared", "away", "not whole", "left out"};
    static const char *const why[] = {"", "no advisor answers",
                                      "not all of the index is in the advisor's memory",
                                      "--store-only"};
    FILE *out = check->context->out;

    if (check->context->json) {
        struct json_object *answer = json_object_new_object();

        (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
        (void)json_object_object_add(answer, "blocks", json_object_new_uint64(counts->blocks));
        (void)json_object_object_add(answer, "places", json_object_new_uint64(counts->places));
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
    if (check->problem_count > CLI_INDEX_VERIFY_SHOWN)
        (void)fprintf(out, "and %" PRIu64 " more\n", check->problem_count - CLI_INDEX_VERIFY_SHOWN);
    (void)fprintf(out, "store   %" PRIu64 " blocks in %" PRIu64 " places, %" PRIu64 " publishers\n",
                  counts->blocks, counts->places, counts->publishers);
    if (ram == RAM_COMPARED)
        (void)fprintf(out, "memory  %" PRIu64 " places, compared with the store\n", check->rows);
    else
        (void)fprintf(out, "memory  not compared: %s\n", why[ram]);
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
    if (!check->stopped && kvt_config_is_set(check->context->options, CLI_INDEX_VERIFY_LOG)) {
        rc = compare_log(check, kvt_config_string(check->context->options, CLI_INDEX_VERIFY_LOG),
                         err);
        if (rc != KVT_OK)
            return rc;
    }
    if (kvt_config_bool(check->context->options, CLI_INDEX_VERIFY_STORE_ONLY))
        *ram = RAM_LEFT_OUT;
    if (check->stopped || *ram == RAM_LEFT_OUT)
        return KVT_OK;
    rc = cli_server_ask(check->context, CLI_SERVER_ADVISOR, "/v1/index/stats", NULL, false, &stats,
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
    cli_watch_begin();
    check.problems = json_object_new_array();
    rc = advisor_store_open(&check.store, &options, &err);
    if (rc == KVT_OK)
        rc = run(&check, &counts, &ram, &err);
    if (rc == KVT_OK && check.stopped)
        rc = kvt_error_set(&err, KVT_CANCELLED, "stopped before the end");
    if (rc == KVT_OK)
        print(&check, &counts, ram);
    advisor_store_end(&check.txn);
    advisor_store_close(check.store);
    advisor_store_block_release(&check.block);
    advisor_map_free(check.namespaces);
    advisor_map_free(check.holders);
    advisor_map_free(check.before);
    advisor_map_free(check.now);
    kvt_free(check.counts);
    kvt_free(check.numbers);
    (void)json_object_put(check.problems);
    if (rc != KVT_OK)
        return cli_offline_fail(context, &err);
    return check.problem_count == 0 ? CLI_EXIT_DONE : CLI_EXIT_FAILED;
}
