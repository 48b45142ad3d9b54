#include "bench/durable/rounds.h"

#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"

#include "tests/support/seed.h"

enum { BLOCK_SIZE = 4096 };

/* What must not fail in a bench, said once. */
static bool
is_ok(enum kvt_err rc, const char *what)
{
    if (rc != KVT_OK)
        (void)fprintf(stderr, "bench: %s: %s\n", what, kvt_err_text(rc));
    return rc == KVT_OK;
}

static bool
name_all(struct rounds *rounds)
{
    struct index_holder holder = {.tier = KVT_TIER_G2};
    enum kvt_err rc = KVT_OK;
    uint32_t number;
    char name[16];

    for (uint32_t i = 0; i < STREAM_NAMESPACES && rc == KVT_OK; i++) {
        (void)snprintf(name, sizeof(name), "model%u", i);
        rc = advisor_name_table_namespace(rounds->names, name, 0, &number);
    }
    for (uint32_t i = 0; i < ROUNDS_WORKERS && rc == KVT_OK; i++) {
        (void)snprintf(holder.name, sizeof(holder.name), "worker%u", i);
        rc = advisor_name_table_holder(rounds->names, &holder, &number);
    }
    return is_ok(rc, "names");
}

bool
rounds_open(struct rounds *rounds, bool store)
{
    struct advisor_store_options options = {.map_bytes = ROUNDS_MAP_BYTES};
    struct kvt_error err = {.text = ""};

    memset(rounds, 0, sizeof(*rounds));
    if (store) {
        options.path = test_folder_make(rounds->folder, sizeof(rounds->folder));
        if (!is_ok(advisor_store_open(&rounds->store, &options, &err), "store"))
            return false;
    }
    if (!is_ok(index_new(&rounds->index, ROUNDS_INDEX_BYTES), "index") ||
        !is_ok(advisor_name_table_new(&rounds->names, rounds->index, INDEX_HOLDERS_MAX), "names") ||
        !is_ok(advisor_change_group_new(&rounds->group), "group") || !name_all(rounds))
        return false;
    rounds->memory = (struct advisor_ram_index){.index = rounds->index, .names = rounds->names};
    rounds->synced_ms = kvt_clock_mono_ms();
    return is_ok(advisor_ram_snapshot_new(&rounds->snapshot, &rounds->memory), "snapshot");
}

void
rounds_close(struct rounds *rounds)
{
    advisor_ram_snapshot_free(rounds->snapshot);
    advisor_change_group_free(rounds->group);
    advisor_ram_index_release(&rounds->memory);
    advisor_name_table_free(rounds->names);
    index_free(rounds->index);
    advisor_store_close(rounds->store);
    if (rounds->folder[0] != '\0')
        test_folder_remove(rounds->folder);
    memset(rounds, 0, sizeof(*rounds));
}

bool
rounds_add(struct rounds *rounds, const struct stream_event *event)
{
    const struct advisor_event_log_place place = {.size = BLOCK_SIZE,
                                                  .holder = event->worker,
                                                  .ns = event->ns,
                                                  .ranks = 1,
                                                  .time_s = 1700000000};

    return is_ok(advisor_change_group_store(rounds->group, &place, event->parent, event->position,
                                            event->hashes, event->tokens, event->count),
                 "store");
}

bool
rounds_is_full(const struct rounds *rounds)
{
    return advisor_change_group_count(rounds->group) >= ROUNDS_GROUP_BLOCKS;
}

static bool
no_volume(void *arg, uint32_t reporter, uint32_t holder)
{
    (void)arg;
    (void)reporter;
    (void)holder;
    return false;
}

static enum kvt_err
write_group(struct rounds *rounds, const struct advisor_txn *txn, struct advisor_store_log *log)
{
    enum kvt_err rc = advisor_name_table_save(rounds->names, txn);

    if (rc == KVT_OK)
        rc = advisor_change_group_write(rounds->group, txn, log, no_volume, NULL);
    if (rc == KVT_OK)
        rc = advisor_ram_snapshot_write(rounds->snapshot, txn, log);
    if (rc == KVT_OK)
        rc = advisor_store_log_trim(txn, log);
    return rc;
}

static bool
write_store(struct rounds *rounds)
{
    const struct advisor_store_log before = rounds->log;
    struct advisor_store_log log = before;
    struct kvt_error err = {.text = ""};
    struct advisor_txn txn;

    if (!is_ok(advisor_store_write(rounds->store, &txn, &err), "transaction") ||
        !is_ok(write_group(rounds, &txn, &log), "write") ||
        !is_ok(advisor_store_commit(&txn, &err), "commit"))
        return false;
    rounds->bytes += advisor_event_log_bytes(advisor_change_group_log(rounds->group));
    if (log.building != 0 && log.building == before.building)
        rounds->bytes += log.building_bytes - before.building_bytes;
    if (log.from != before.from) {
        rounds->bytes += log.runs_bytes - before.building_bytes;
        rounds->snapshots++;
    }
    rounds->log = log;
    advisor_name_table_saved(rounds->names);
    advisor_ram_snapshot_saved(rounds->snapshot);
    return true;
}

bool
rounds_commit(struct rounds *rounds)
{
    if (rounds->store != NULL && !write_store(rounds))
        return false;
    advisor_ram_index_apply(&rounds->memory, advisor_change_group_log(rounds->group), NULL, 0);
    advisor_change_group_clear(rounds->group);
    if (!advisor_ram_index_whole(&rounds->memory))
        return is_ok(KVT_FULL, "index");
    if (rounds->store == NULL || kvt_clock_mono_ms() - rounds->synced_ms < ROUNDS_SYNC_MS)
        return true;
    return rounds_sync(rounds);
}

bool
rounds_sync(struct rounds *rounds)
{
    struct kvt_error err = {.text = ""};

    rounds->synced_ms = kvt_clock_mono_ms();
    return is_ok(advisor_store_sync(rounds->store, &err), "sync");
}
