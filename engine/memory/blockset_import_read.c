#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/deadline.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/transfer/queue_ticket.h"

#include "engine/memory/blockset_import_internal.h"

enum {
    FLIGHT = 8, /* blocks that are on their way from afar */
    AROUND = 2  /* parts of a get beside the runs: the entry before and behind */
};

/* A block that is being read. */
struct slot {
    struct engine_import_read *read;
    struct engine_import_run whole; /* its one run, where the caller gave none */
    const struct engine_import_run *runs;
    size_t count;
    struct engine_blockset_entry before;
    struct engine_blockset_entry *entry; /* behind the data, with its grains */
    uint32_t *sums;                      /* of the grains that were read, run by run */
    struct engine_fabric_part *parts;
    struct kvt_ticket *ticket;
};

struct reading {
    struct engine_import *import;
    const struct engine_import_request *request;
    struct kvt_error *err;
    uint64_t deadline; /* monotonic ms */
    enum kvt_err result;
    void *memory;
    struct slot slots[FLIGHT];
};

/* What was read, and what it is worth ------------------------------------------------------- */

static enum kvt_err
check_runs(const struct engine_blockset_shape *shape, const struct slot *slot,
           struct kvt_error *err)
{
    const size_t size = shape->layout.block_size;
    size_t sum = 0;

    if (slot->read->ref.block >= shape->blocks)
        return kvt_error_set(err, KVT_RANGE, "block %" PRIu32 ": the set has %" PRIu32,
                             slot->read->ref.block, shape->blocks);
    for (size_t i = 0; i < slot->count; i++) {
        const struct engine_import_run *run = &slot->runs[i];

        if (run->offset > size || run->size > size - run->offset || run->size > size - sum)
            return kvt_error_set(err, KVT_RANGE, "block %" PRIu32 ": more than all of it",
                                 slot->read->ref.block);
        sum += run->size;
        if (run->size == 0 || run->host == NULL || run->offset % shape->grain != 0 ||
            run->size % shape->grain != 0)
            return kvt_error_set(err, KVT_INVALID,
                                 "block %" PRIu32 ": a run that is not of whole grains of %zu",
                                 slot->read->ref.block, shape->grain);
    }
    return KVT_OK;
}

static enum kvt_err
stale(const struct slot *slot, const struct engine_blockset_entry *entry, uint64_t nonce,
      struct kvt_error *err)
{
    if (entry->nonce != nonce)
        return kvt_error_set(err, KVT_NOTFOUND, "block %" PRIu32 ": its owner dropped the set",
                             slot->read->ref.block);
    return kvt_error_set(err, KVT_NOTFOUND,
                         "block %" PRIu32 ": its owner has put something else there, or nothing",
                         slot->read->ref.block);
}

static bool
is_shown_as(const struct engine_blockset_entry *entry, uint64_t nonce, uint64_t generation,
            uint64_t hash)
{
    return entry->nonce == nonce && entry->generation == generation && generation % 2 == 1 &&
           entry->hash == hash;
}

/* The entry was read behind the data: is it the one that was meant, and are these its bytes? */
static enum kvt_err
judge(const struct engine_import *import, const struct slot *slot, struct kvt_error *err)
{
    const struct engine_blockset_shape *shape = &import->shape;
    const struct engine_block_ref *ref = &slot->read->ref;
    const struct engine_blockset_entry *entry = slot->entry;
    const uint32_t *sums = engine_blockset_grains(slot->entry);
    const uint64_t generation = ref->generation != 0 ? ref->generation : slot->before.generation;
    const uint32_t sum = ref->generation != 0 ? ref->sum : entry->sum;
    const uint32_t *found = slot->sums;

    if (!is_shown_as(entry, import->nonce, generation, ref->hash))
        return stale(slot, entry, import->nonce, err);
    if (entry->sum != sum || kvbm_crc32c(0, sums, shape->grains * sizeof(uint32_t)) != sum)
        return kvt_error_set(err, KVT_CORRUPT, "block %" PRIu32 ": its checksums are damaged",
                             ref->block);
    for (size_t i = 0; i < slot->count; i++) {
        const size_t grains = slot->runs[i].size / shape->grain;

        if (memcmp(found, &sums[slot->runs[i].offset / shape->grain], grains * sizeof(uint32_t)) !=
            0)
            return kvt_error_set(err, KVT_CORRUPT,
                                 "block %" PRIu32 ": its bytes are not those its owner wrote",
                                 ref->block);
        found += grains;
    }
    return KVT_OK;
}

static void
settle(struct reading *reading, struct slot *slot, enum kvt_err status)
{
    slot->read->status = status;
    if (status != KVT_OK)
        for (size_t i = 0; i < slot->count && status != KVT_INVALID && status != KVT_RANGE; i++)
            memset(slot->runs[i].host, 0, slot->runs[i].size);
    if (reading->result == KVT_OK)
        reading->result = status;
    slot->read = NULL;
}

/* Only the first failure is told in words. */
static struct kvt_error *
words(const struct reading *reading)
{
    return reading->result == KVT_OK ? reading->err : NULL;
}

static enum kvt_err
no_answer(const struct reading *reading, const struct slot *slot, enum kvt_err why)
{
    return kvt_error_set(words(reading), why, "block %" PRIu32 ": it cannot be read: %s",
                         slot->read->ref.block, kvt_err_text(why));
}

static void
take(struct slot *slot, struct engine_import_read *read, size_t block_size)
{
    slot->read = read;
    slot->whole = (struct engine_import_run){0, block_size, read->host};
    slot->runs = read->count == 0 ? &slot->whole : read->runs;
    slot->count = read->count == 0 ? 1 : read->count;
}

/* KVT_OK while there is time and nobody wants it stopped. */
static enum kvt_err
may_begin(const struct reading *reading)
{
    if (reading->request->stop != NULL && atomic_load(reading->request->stop))
        return KVT_CANCELLED;
    return kvt_deadline_left(reading->deadline) == 0 ? KVT_TIMEOUT : KVT_OK;
}

/* Near -------------------------------------------------------------------------------------- */

static void
look(struct engine_blockset_entry *to, const struct engine_blockset_entry *from, size_t size)
{
    const uint64_t generation = atomic_load_explicit(&from->generation, memory_order_acquire);

    memcpy((void *)to, (const void *)from, size);
    atomic_store_explicit(&to->generation, generation, memory_order_relaxed);
    /* Its parts are one entry's only if nothing happened meanwhile. */
    engine_blockset_fence(memory_order_acquire);
    if (atomic_load_explicit(&from->generation, memory_order_relaxed) != generation)
        atomic_store_explicit(&to->generation, 0, memory_order_relaxed);
}

static enum kvt_err
read_near(const struct engine_import *import, struct slot *slot, struct kvt_error *err)
{
    const struct engine_blockset_shape *shape = &import->shape;
    const struct engine_block_ref *ref = &slot->read->ref;
    const struct engine_blockset_entry *theirs =
        (const struct engine_blockset_entry *)(import->memory +
                                               engine_blockset_entry_at(shape, ref->block));
    const uint8_t *block = import->memory + engine_blockset_data_at(shape, ref->block);
    uint32_t *sums = slot->sums;

    /* Bytes may change while they are copied; which they were is found out behind. */
    look(&slot->before, theirs, sizeof(slot->before));
    if (!is_shown_as(&slot->before, import->nonce,
                     ref->generation != 0 ? ref->generation : slot->before.generation, ref->hash))
        return stale(slot, &slot->before, import->nonce, err);
    for (size_t i = 0; i < slot->count; i++) {
        const struct engine_import_run *run = &slot->runs[i];
        const size_t grains = run->size / shape->grain;

        kvbm_crc32c_copy(sums, run->host, block + run->offset, shape->grain, grains);
        sums += grains;
    }
    engine_blockset_fence(memory_order_acquire);
    look(slot->entry, theirs, shape->entry_size);
    return judge(import, slot, err);
}

static void
run_near(struct reading *reading)
{
    const struct engine_import_request *request = reading->request;
    struct slot *slot = &reading->slots[0];

    for (size_t i = 0; i < request->count; i++) {
        enum kvt_err rc;

        take(slot, &request->reads[i], reading->import->shape.layout.block_size);
        rc = check_runs(&reading->import->shape, slot, words(reading));
        if (rc == KVT_OK) {
            rc = may_begin(reading);
            rc = rc == KVT_OK ? read_near(reading->import, slot, words(reading))
                              : no_answer(reading, slot, rc);
        }
        settle(reading, slot, rc);
    }
}

/* Far --------------------------------------------------------------------------------------- */

/* The entry before, where the reference does not say what is there; the data; the entry behind. */
static enum kvt_err
begin_far(const struct reading *reading, struct slot *slot)
{
    const struct engine_import *import = reading->import;
    const struct engine_blockset_shape *shape = &import->shape;
    const struct engine_block_ref *ref = &slot->read->ref;
    const uint64_t entry = engine_blockset_entry_at(shape, ref->block);
    const uint64_t data = engine_blockset_data_at(shape, ref->block);
    struct engine_fabric_move get = {.window = import->window,
                                     .parts = slot->parts,
                                     .wait_ms = kvt_deadline_left(reading->deadline)};

    if (ref->generation == 0)
        slot->parts[get.count++] = (struct engine_fabric_part){
            .host = &slot->before, .offset = entry, .size = sizeof(slot->before)};
    for (size_t i = 0; i < slot->count; i++)
        slot->parts[get.count++] =
            (struct engine_fabric_part){.host = slot->runs[i].host,
                                        .offset = data + slot->runs[i].offset,
                                        .size = slot->runs[i].size,
                                        .after = i == 0 && ref->generation == 0};
    slot->parts[get.count++] = (struct engine_fabric_part){
        .host = slot->entry, .offset = entry, .size = shape->entry_size, .after = true};
    return engine_fabric_start(import->fabric, &get, &slot->ticket);
}

static void
start_far(struct reading *reading, struct slot *slot, struct engine_import_read *read)
{
    enum kvt_err rc;

    take(slot, read, reading->import->shape.layout.block_size);
    slot->ticket = NULL;
    rc = check_runs(&reading->import->shape, slot, words(reading));
    if (rc != KVT_OK) {
        settle(reading, slot, rc);
        return;
    }
    rc = may_begin(reading);
    if (rc == KVT_OK)
        rc = begin_far(reading, slot);
    if (rc != KVT_OK)
        settle(reading, slot, no_answer(reading, slot, rc));
}

/* An entry does not come from afar in one piece: what looks like damage may be an entry that
 * changed while it was read. */
static enum kvt_err
look_again(const struct reading *reading, struct slot *slot)
{
    const struct engine_import *import = reading->import;
    const struct engine_block_ref *ref = &slot->read->ref;
    const uint64_t generation = slot->entry->generation;
    struct engine_fabric_part part = {.host = slot->entry,
                                      .offset =
                                          engine_blockset_entry_at(&import->shape, ref->block),
                                      .size = sizeof(*slot->entry)};
    const struct engine_fabric_move get = {.window = import->window,
                                           .parts = &part,
                                           .count = 1,
                                           .wait_ms = kvt_deadline_left(reading->deadline)};
    const enum kvt_err rc = engine_fabric_run(import->fabric, &get);

    if (rc != KVT_OK)
        return no_answer(reading, slot, rc);
    if (!is_shown_as(slot->entry, import->nonce, generation, ref->hash))
        return stale(slot, slot->entry, import->nonce, words(reading));
    return KVT_CORRUPT;
}

static void
end_far(struct reading *reading, struct slot *slot)
{
    const size_t grain = reading->import->shape.grain;
    uint32_t *sums = slot->sums;
    enum kvt_err rc;

    if (slot->read == NULL)
        return;
    rc = kvbm_ticket_end(slot->ticket);
    if (rc != KVT_OK) {
        settle(reading, slot, no_answer(reading, slot, rc));
        return;
    }
    for (size_t i = 0; i < slot->count; i++)
        for (size_t at = 0; at < slot->runs[i].size; at += grain)
            *sums++ = kvbm_crc32c(0, (const uint8_t *)slot->runs[i].host + at, grain);
    rc = judge(reading->import, slot, words(reading));
    settle(reading, slot, rc == KVT_CORRUPT ? look_again(reading, slot) : rc);
}

static void
run_far(struct reading *reading)
{
    const struct engine_import_request *request = reading->request;
    size_t begun = 0;

    for (size_t ended = 0; ended < request->count; ended++) {
        for (; begun < request->count && begun < ended + FLIGHT; begun++)
            start_far(reading, &reading->slots[begun % FLIGHT], &request->reads[begun]);
        end_far(reading, &reading->slots[ended % FLIGHT]);
    }
}

/* All --------------------------------------------------------------------------------------- */

static size_t
most_runs(const struct engine_import_request *request)
{
    size_t most = 1;

    for (size_t i = 0; i < request->count; i++)
        most = request->reads[i].count > most ? request->reads[i].count : most;
    return most;
}

static enum kvt_err
make_slots(struct reading *reading, size_t slots)
{
    const size_t entry = reading->import->shape.entry_size;
    const size_t runs = most_runs(reading->request) + AROUND;
    uint8_t *memory;

    if (runs - AROUND > ENGINE_IMPORT_RUNS_MAX)
        return kvt_error_set(reading->err, KVT_INVALID, "read: more than %d runs",
                             ENGINE_IMPORT_RUNS_MAX);
    memory = kvt_calloc(slots, 2 * entry + runs * sizeof(struct engine_fabric_part));
    reading->memory = memory;
    if (memory == NULL)
        return kvt_error_set(reading->err, KVT_NOMEM, "read: out of memory");
    for (size_t i = 0; i < slots; i++) {
        reading->slots[i].entry = (struct engine_blockset_entry *)(memory + 2 * i * entry);
        reading->slots[i].sums = (uint32_t *)(memory + (2 * i + 1) * entry);
        reading->slots[i].parts =
            (struct engine_fabric_part *)(memory + 2 * slots * entry) + i * runs;
    }
    return KVT_OK;
}

enum kvt_err
engine_import_run(struct engine_import *import, const struct engine_import_request *request,
                  struct kvt_error *err)
{
    const bool near = import->memory != NULL;
    struct reading reading = {.import = import,
                              .request = request,
                              .err = err,
                              .deadline = kvt_deadline_in(request->wait_ms),
                              .result = KVT_OK};
    const enum kvt_err rc = make_slots(&reading, near ? 1 : FLIGHT);

    for (size_t i = 0; i < request->count && rc != KVT_OK; i++)
        request->reads[i].status = rc;
    if (rc == KVT_OK && near)
        run_near(&reading);
    else if (rc == KVT_OK)
        run_far(&reading);
    kvt_free(reading.memory);
    return rc != KVT_OK ? rc : reading.result;
}
