#include "tests/unit/advisor/support/keeper.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

#define MAP_BYTES   (UINT64_C(256) << 20)
#define INDEX_BYTES (UINT64_C(64) << 20)

static void
write_begin(struct keeper *keeper, struct advisor_txn *txn)
{
    assert_int_equal(advisor_store_write(keeper->store, txn, NULL), KVT_OK);
}

/* Numbers of the index are not those of the store. */
static void
name_others(struct keeper *keeper)
{
    const struct index_holder holder = {.name = "other", .tier = KVT_TIER_G2};
    uint32_t number;

    assert_int_equal(index_holder(keeper->index, &holder, &number), KVT_OK);
    assert_int_equal(index_namespace(keeper->index, "other", &number), KVT_OK);
}

static void
name_all(struct keeper *keeper)
{
    struct index_holder holder = {.tier = KVT_TIER_G2};
    uint32_t number;
    char name[16];

    for (uint32_t i = 0; i < LOG_MODEL_NAMESPACES; i++) {
        (void)snprintf(name, sizeof(name), "ns%u", i);
        assert_int_equal(advisor_name_table_namespace(keeper->names, name, 0, &number), KVT_OK);
        assert_int_equal(number, i);
    }
    for (uint32_t i = 0; i <= KEEPER_BUCKET; i++) {
        if (i == KEEPER_BUCKET)
            holder.tier = KVT_TIER_G4;
        (void)snprintf(holder.name, sizeof(holder.name),
                       holder.tier == KVT_TIER_G4 ? "cold@bucket%u" : "worker%u", i);
        assert_int_equal(advisor_name_table_holder(keeper->names, &holder, &number), KVT_OK);
        assert_int_equal(number, i);
    }
}

void
keeper_open(struct keeper *keeper)
{
    const struct advisor_store_options options = {.path = keeper->folder,
                                                  .map_bytes = keeper->map_bytes};
    struct kvt_error err = {.text = ""};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_open(&keeper->store, &options, &err), KVT_OK);
    assert_int_equal(index_new(&keeper->index, INDEX_BYTES), KVT_OK);
    name_others(keeper);
    assert_int_equal(advisor_name_table_new(&keeper->names, keeper->index, INDEX_HOLDERS_MAX),
                     KVT_OK);
    keeper->memory =
        (struct advisor_ram_index){.index = keeper->index, .names = keeper->names, .loading = true};
    assert_int_equal(advisor_change_group_new(&keeper->group), KVT_OK);
    assert_int_equal(advisor_ram_snapshot_new(&keeper->snapshot, &keeper->memory), KVT_OK);
    assert_int_equal(advisor_store_read(keeper->store, &txn, &err), KVT_OK);
    assert_int_equal(advisor_name_table_load(keeper->names, &txn), KVT_OK);
    assert_int_equal(advisor_store_log_get(&txn, &keeper->log), KVT_OK);
    assert_int_equal(advisor_index_load(&keeper->memory, &txn, NULL, &err), KVT_OK);
    advisor_store_end(&txn);
    atomic_store(&keeper->memory.loading, false);
    name_all(keeper);
    *keeper->next = *keeper->saved;
}

void
keeper_crash(struct keeper *keeper)
{
    advisor_ram_snapshot_free(keeper->snapshot);
    advisor_change_group_free(keeper->group);
    advisor_ram_index_release(&keeper->memory);
    advisor_name_table_free(keeper->names);
    index_free(keeper->index);
    advisor_store_close(keeper->store);
}

void
keeper_begin(struct keeper *keeper)
{
    memset(keeper, 0, sizeof(*keeper));
    (void)test_folder_make(keeper->folder, sizeof(keeper->folder));
    keeper->map_bytes = MAP_BYTES;
    keeper->saved = kvt_calloc(1, sizeof(*keeper->saved));
    keeper->next = kvt_calloc(1, sizeof(*keeper->next));
    assert_true(keeper->saved != NULL && keeper->next != NULL);
    keeper_open(keeper);
}

void
keeper_end(struct keeper *keeper)
{
    keeper_crash(keeper);
    kvt_free(keeper->saved);
    kvt_free(keeper->next);
    test_folder_remove(keeper->folder);
}

/* ---- changes ---- */

/* A block has one size, whoever stores it. */
static uint64_t
size_of(uint32_t block)
{
    return UINT64_C(4096) << (block / LOG_MODEL_LENGTH % 3);
}

void
keeper_change(struct keeper *keeper, struct log_step *step, uint64_t *random)
{
    log_step_next(step, random, false);
    if (step->op.kind == ADVISOR_EVENT_LOG_STORE)
        step->op.place.size = size_of(step->first);
    assert_int_equal(log_step_put(step, advisor_change_group_log(keeper->group)), KVT_OK);
    log_set_apply(&keeper->next->workers, &step->op);
}

void
keeper_put(struct keeper *keeper, enum advisor_event_log_kind kind, uint32_t holder, uint32_t first,
           uint32_t count)
{
    const struct advisor_event_log_place place = {
        .size = size_of(first), .holder = holder, .ranks = 1, .time_s = 1};
    struct advisor_event_log *log = advisor_change_group_log(keeper->group);
    uint64_t hashes[LOG_MODEL_LENGTH];
    const struct advisor_event_log_op op = {
        .kind = kind, .count = count, .hashes = hashes, .place = place};

    for (uint32_t i = 0; i < count; i++)
        hashes[i] = log_model_hash(first + i);
    assert_int_equal(kind == ADVISOR_EVENT_LOG_STORE
                         ? advisor_event_log_store(log, &place, log_model_parent(first),
                                                   log_model_position(first), hashes, NULL, count)
                         : advisor_event_log_remove(log, &place, hashes, count),
                     KVT_OK);
    log_set_apply(&keeper->next->workers, &op);
}

void
keeper_bucket(struct keeper *keeper, uint32_t ns, uint32_t block, bool store)
{
    const struct advisor_op op = {
        .hash = log_model_hash(block),
        .parent = log_model_parent(block),
        .position = log_model_position(block),
        .size = size_of(block),
        .ns = ns,
        .holder = KEEPER_BUCKET,
        .ranks = 1,
        .kind = store ? ADVISOR_OP_STORE : ADVISOR_OP_REMOVE,
        .cold = true,
    };

    assert_int_equal(advisor_change_group_add(keeper->group, &op), KVT_OK);
    keeper->next->bucket[ns][block] = store ? 1 : 0;
}

/* ---- commits ---- */

static bool
no_volume(void *arg, uint32_t reporter, uint32_t holder)
{
    (void)arg;
    (void)reporter;
    (void)holder;
    return false;
}

static void
write_group(struct keeper *keeper, const struct advisor_txn *txn, struct advisor_store_log *log)
{
    assert_int_equal(advisor_name_table_save(keeper->names, txn), KVT_OK);
    assert_int_equal(advisor_change_group_write(keeper->group, txn, log, no_volume, NULL), KVT_OK);
    assert_int_equal(advisor_ram_snapshot_write(keeper->snapshot, txn, log), KVT_OK);
    assert_int_equal(advisor_store_log_trim(txn, log), KVT_OK);
}

void
keeper_commit(struct keeper *keeper, unsigned aborts)
{
    struct advisor_store_log log = keeper->log;
    const struct advisor_effect *effects;
    struct advisor_txn txn;
    size_t count;

    for (unsigned i = 0; i < aborts; i++, log = keeper->log) {
        write_begin(keeper, &txn);
        write_group(keeper, &txn, &log);
        advisor_store_end(&txn);
    }
    write_begin(keeper, &txn);
    write_group(keeper, &txn, &log);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    keeper->log = log;
    advisor_name_table_saved(keeper->names);
    advisor_ram_snapshot_saved(keeper->snapshot);
    effects = advisor_change_group_effects(keeper->group, &count);
    advisor_ram_index_apply(&keeper->memory, advisor_change_group_log(keeper->group), effects,
                            count);
    assert_false(atomic_load(&keeper->memory.spilled));
    advisor_change_group_clear(keeper->group);
    *keeper->saved = *keeper->next;
}

/* ---- what must be ---- */

static uint32_t
ranks_of(const struct keeper_truth *truth, uint32_t ns, uint32_t block, uint32_t holder)
{
    return holder == KEEPER_BUCKET ? truth->bucket[ns][block]
                                   : truth->workers.ranks[ns][block][holder];
}

static void
check_block(struct keeper *keeper, uint32_t ns, uint32_t block)
{
    const uint32_t ns_number = advisor_name_table_index_namespace(keeper->names, ns);
    const uint64_t hash = log_model_hash(block);
    struct index_place places[KEEPER_BUCKET + 2];
    struct index_view view;
    size_t count = 0;
    size_t found = index_places(keeper->index, ns_number, hash, places, KEEPER_BUCKET + 2);

    for (uint32_t holder = 0; holder <= KEEPER_BUCKET; holder++) {
        const uint32_t ranks = ranks_of(keeper->saved, ns, block, holder);
        const uint32_t number = advisor_name_table_index_holder(keeper->names, holder);

        if (ranks == 0)
            continue;
        count++;
        for (size_t i = 0; i < found; i++)
            if (places[i].holder == number && places[i].ranks == ranks)
                places[i].ranks = 0; /* seen */
    }
    assert_int_equal(found, count);
    for (size_t i = 0; i < found; i++)
        assert_int_equal(places[i].ranks, 0);
    assert_int_equal(index_get(keeper->index, ns_number, hash, &view),
                     count > 0 ? KVT_OK : KVT_NOTFOUND);
    if (count == 0)
        return;
    assert_int_equal(view.block.id.position, log_model_position(block));
    assert_true(view.block.id.parent == log_model_parent(block));
    assert_int_equal(view.block.size, size_of(block));
}

void
keeper_check(struct keeper *keeper)
{
    for (uint32_t ns = 0; ns < LOG_MODEL_NAMESPACES; ns++)
        for (uint32_t block = 0; block < LOG_MODEL_BLOCKS; block++)
            check_block(keeper, ns, block);
}

uint64_t
keeper_used(struct keeper *keeper)
{
    uint64_t used;
    uint64_t max;

    advisor_store_size(keeper->store, &used, &max);
    return used;
}
