#include "advisor/index/index_image.h"

#include <unistd.h>

#include "advisor/index/evicted.h"
#include "advisor/index/index_load.h"
#include "base/core/alloc.h"

enum { PAGE = 65536 };

struct advisor_index_image {
    struct advisor_name_table *names;
    struct advisor_ram_index memory;
};

/* What the machine has: beyond it nothing could be done with an image anyway. */
static uint64_t
machine_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_C(1) << 32;
}

static enum kvt_err
add_block(void *arg, const struct advisor_store_block *block)
{
    struct advisor_ram_index *memory = arg;

    if (block->ns >= advisor_name_table_namespace_count(memory->names))
        return KVT_CORRUPT;
    for (uint32_t i = 0; i < block->place_count; i++) {
        if (block->places[i].holder >= advisor_name_table_holder_count(memory->names))
            return KVT_CORRUPT;
        advisor_ram_index_place(memory, block, &block->places[i]);
    }
    return KVT_OK;
}

/* What the advisor has evicted from its own: here is room. */
static enum kvt_err
add_cold(struct advisor_ram_index *memory, const struct advisor_txn *txn)
{
    uint64_t cursor = 0;
    enum kvt_err rc;

    do
        rc = advisor_evicted_blocks(txn, cursor, PAGE, &cursor, add_block, memory);
    while (rc == KVT_OK && cursor != 0);
    advisor_ram_index_flush(memory);
    return rc;
}

enum kvt_err
advisor_index_image_new(struct advisor_index_image **out, const struct advisor_txn *txn,
                        struct kvt_error *err)
{
    struct advisor_index_image *image = kvt_calloc(1, sizeof(*image));
    struct kvt_error cause = {.text = ""};
    enum kvt_err rc = KVT_NOMEM;

    *out = NULL;
    if (image == NULL)
        return kvt_error_set(err, rc, "index: out of memory");
    rc = index_new(&image->memory.index, machine_bytes());
    if (rc == KVT_OK)
        rc = advisor_name_table_new(&image->names, image->memory.index, INDEX_HOLDERS_MAX);
    image->memory.names = image->names;
    image->memory.quiet = true;
    if (rc == KVT_OK)
        rc = advisor_name_table_load(image->names, txn);
    if (rc == KVT_OK)
        rc = advisor_index_load(&image->memory, txn, NULL, &cause);
    if (rc == KVT_OK)
        rc = add_cold(&image->memory, txn);
    if (rc == KVT_FULL || (rc == KVT_OK && !advisor_ram_index_whole(&image->memory)))
        rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        rc = kvt_error_set(err, rc, "index: %.200s",
                           cause.text[0] != '\0' ? cause.text : kvt_err_text(rc));
        goto fail;
    }
    advisor_ram_index_release(&image->memory);
    *out = image;
    return KVT_OK;

fail:
    advisor_index_image_free(image);
    return rc;
}

void
advisor_index_image_free(struct advisor_index_image *image)
{
    if (image == NULL)
        return;
    advisor_ram_index_release(&image->memory);
    advisor_name_table_free(image->names);
    index_free(image->memory.index);
    kvt_free(image);
}

struct advisor_ram_index *
advisor_index_image_memory(struct advisor_index_image *image)
{
    return &image->memory;
}
