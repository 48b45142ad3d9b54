#include "engine/memory/blockset.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/layout/checksum.h"

#include "engine/memory/blockset_shape.h"
#include "engine/memory/blockset_wire.h"

struct engine_blockset {
    struct kvbm_storage head;
    struct engine_blockset_shape shape;
    struct engine_region *region;
    uint8_t *bytes; /* the region's */
    uint64_t nonce;
};

static struct engine_blockset_entry *
entry_of(const struct engine_blockset *set, uint32_t block)
{
    return (struct engine_blockset_entry *)(set->bytes +
                                            engine_blockset_entry_at(&set->shape, block));
}

static uint8_t *
data_of(const struct engine_blockset *set, uint32_t block)
{
    return set->bytes + engine_blockset_data_at(&set->shape, block);
}

/* As a storage ----------------------------------------------------------------------------- */

static struct engine_blockset *
set_of(struct kvbm_storage *storage)
{
    return (struct engine_blockset *)storage;
}

static void *
storage_address(struct kvbm_storage *storage, uint32_t block)
{
    return data_of(set_of(storage), block);
}

static void
storage_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t i = 0; i < count; i++)
        engine_blockset_hide(set_of(storage), ios[i].block);
    kvbm_storage_host_write(storage, ios, count);
}

static void
storage_bind(struct kvbm_storage *storage, const struct kvbm_storage_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        engine_blockset_hide(set_of(storage), names[i].block);
}

static enum kvt_err
storage_commit(struct kvbm_storage *storage, struct kvbm_storage_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        engine_blockset_show(set_of(storage), names[i].block, names[i].id.hash, NULL);
        names[i].status = KVT_OK;
    }
    return KVT_OK;
}

static enum kvt_err
storage_forget(struct kvbm_storage *storage, const uint32_t *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        engine_blockset_hide(set_of(storage), blocks[i]);
    return KVT_OK;
}

static void
storage_close(struct kvbm_storage *storage)
{
    engine_blockset_close(set_of(storage));
}

static const struct kvbm_storage_ops ops = {
    .read = kvbm_storage_host_read,
    .write = storage_write,
    .address = storage_address,
    .close = storage_close,
    .bind = storage_bind,
    .commit = storage_commit,
    .forget = storage_forget,
};

struct kvbm_storage *
engine_blockset_storage(struct engine_blockset *set)
{
    return &set->head;
}

/* Its life --------------------------------------------------------------------------------- */

/* Generations begin anywhere, so that those of two sets in one place do not meet either. */
static void
write_table(struct engine_blockset *set)
{
    struct engine_blockset_head *head = (struct engine_blockset_head *)set->bytes;
    uint64_t first;

    do
        kvt_random_system(&set->nonce, sizeof(set->nonce));
    while (set->nonce == 0);
    kvt_random_system(&first, sizeof(first));
    first = (first >> 2) << 1; /* even, and never at its end */
    for (uint32_t i = 0; i < set->shape.blocks; i++) {
        struct engine_blockset_entry *entry = entry_of(set, i);

        atomic_store_explicit(&entry->generation, first + 2, memory_order_relaxed);
        atomic_store_explicit(&entry->nonce, set->nonce, memory_order_relaxed);
    }
    atomic_store(&head->nonce, set->nonce);
}

enum kvt_err
engine_blockset_open(struct engine_blockset **out, struct engine_fabric *fabric,
                     const struct kvbm_layout *layout, uint32_t blocks, struct kvt_error *err)
{
    struct engine_blockset *set = kvt_calloc(1, sizeof(*set));
    enum kvt_err rc;

    *out = NULL;
    if (set == NULL)
        return kvt_error_set(err, KVT_NOMEM, "block set: out of memory");
    rc = engine_blockset_shape(&set->shape, layout, blocks, err);
    if (rc == KVT_OK)
        rc = engine_region_open(&set->region, fabric, set->shape.size, err);
    if (rc != KVT_OK) {
        kvt_free(set);
        return rc;
    }
    set->head = (struct kvbm_storage){&ops, KVBM_STORAGE_SYSTEM, blocks, set->shape.block_size};
    set->bytes = engine_region_address(set->region);
    write_table(set);
    *out = set;
    return KVT_OK;
}

/* Who is near may keep the memory when we are gone, and is told. */
void
engine_blockset_close(struct engine_blockset *set)
{
    if (set == NULL)
        return;
    atomic_store(&((struct engine_blockset_head *)set->bytes)->nonce, 0);
    for (uint32_t i = 0; i < set->shape.blocks; i++) {
        engine_blockset_hide(set, i);
        atomic_store(&entry_of(set, i)->nonce, 0);
    }
    engine_region_close(set->region);
    kvt_free(set);
}

uint64_t
engine_blockset_nonce(const struct engine_blockset *set)
{
    return set->nonce;
}

const struct kvbm_layout *
engine_blockset_layout(const struct engine_blockset *set)
{
    return &set->shape.layout;
}

/* Blocks ----------------------------------------------------------------------------------- */

/* Whoever sees a byte that is written after this sees the new generation too, if it looks at it
 * behind the byte. */
void
engine_blockset_hide(struct engine_blockset *set, uint32_t block)
{
    struct engine_blockset_entry *entry = entry_of(set, block);
    const uint64_t generation = atomic_load_explicit(&entry->generation, memory_order_relaxed);

    if (generation % 2 == 0)
        return;
    atomic_store_explicit(&entry->generation, generation + 1, memory_order_relaxed);
    engine_blockset_fence(memory_order_seq_cst);
}

uint32_t
engine_blockset_sum(struct engine_blockset *set, uint32_t block)
{
    struct engine_blockset_entry *entry = entry_of(set, block);

    engine_blockset_hide(set, block);
    entry->sum =
        engine_blockset_sums(&set->shape, data_of(set, block), engine_blockset_grains(entry));
    return entry->sum;
}

void
engine_blockset_show_summed(struct engine_blockset *set, uint32_t block, uint64_t hash,
                            struct engine_block_ref *ref)
{
    struct engine_blockset_entry *entry = entry_of(set, block);
    const uint64_t generation = atomic_load_explicit(&entry->generation, memory_order_relaxed) + 1;

    assert(generation % 2 == 1);
    entry->hash = hash;
    atomic_store_explicit(&entry->generation, generation, memory_order_release);
    if (ref != NULL)
        *ref = (struct engine_block_ref){block, entry->sum, generation, hash};
}

void
engine_blockset_show(struct engine_blockset *set, uint32_t block, uint64_t hash,
                     struct engine_block_ref *ref)
{
    (void)engine_blockset_sum(set, block);
    engine_blockset_show_summed(set, block, hash, ref);
}

void
engine_blockset_describe(const struct engine_blockset *set,
                         uint8_t out[ENGINE_BLOCKSET_DESCRIPTION_MAX], size_t *size)
{
    uint8_t region[ENGINE_FABRIC_DESCRIPTION_MAX];
    struct engine_blockset_facts facts = {
        .layout = set->shape.layout, .blocks = set->shape.blocks, .nonce = set->nonce};

    engine_region_describe(set->region, region, &facts.region_size);
    facts.region = region;
    *size = engine_blockset_pack(out, &facts);
}
