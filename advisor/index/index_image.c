#include "advisor/index/index_image.h"

#include <unistd.h>

#include "advisor/index/evicted.h"
#include "advisor/index/index_load.h"
#include "base/core/alloc.h"

enum { PAGE = 65536 };

struct advisor_image {
    struct advisor_names *names;
    struct advisor_memory memory;
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
    struct advisor_memory *memory = arg;

    if (block->ns >= advisor_names_namespace_count(memory->names))
        return KVT_CORRUPT;
    for (uint32_t i = 0; i < block->place_count; i++) {
        if (block->places[i].holder >= advisor_names_holder_count(memory->names))
            return KVT_CORRUPT;
        advisor_memory_place(memory, block, &block->places[i]);
    }
    return KVT_OK;
}

/* What the advisor has evicted from its own: here is room. */
static enum kvt_err
add_cold(struct advisor_memory *memory, const struct advisor_txn *txn)
{
    uint64_t cursor = 0;
    enum kvt_err rc;

    do
        rc = advisor_cold_blocks(txn, cursor, PAGE, &cursor, add_block, memory);
    while (rc == KVT_OK && cursor != 0);
    advisor_memory_flush(memory);
    return rc;
}

enum kvt_err
advisor_image_new(struct advisor_image **out, const struct advisor_txn *txn, struct kvt_error *err)
{
    struct advisor_image *image = kvt_calloc(1, sizeof(*image));
    struct kvt_error cause = {.text = ""};
    enum kvt_err rc = KVT_NOMEM;

    *out = NULL;
    if (image == NULL)
        return kvt_error_set(err, rc, "index: out of memory");
    rc = index_new(&image->memory.index, machine_bytes());
    if (rc == KVT_OK)
        rc = advisor_names_new(&image->names, image->memory.index, INDEX_HOLDERS_MAX);
    image->memory.names = image->names;
    image->memory.quiet = true;
    if (rc == KVT_OK)
        rc = advisor_names_load(image->names, txn);
    if (rc == KVT_OK)
        rc = advisor_load(&image->memory, txn, NULL, &cause);
    if (rc == KVT_OK)
        rc = add_cold(&image->memory, txn);
    if (rc == KVT_FULL || (rc == KVT_OK && !advisor_memory_whole(&image->memory)))
        rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        rc = kvt_error_set(err, rc, "index: %.200s",
                           cause.text[0] != '\0' ? cause.text : kvt_err_text(rc));
        goto fail;
    }
    advisor_memory_release(&image->memory);
    *out = image;
    return KVT_OK;

fail:
    advisor_image_free(image);
    return rc;
}

void
advisor_image_free(struct advisor_image *image)
{
    if (image == NULL)
        return;
    advisor_memory_release(&image->memory);
    advisor_names_free(image->names);
    index_free(image->memory.index);
    kvt_free(image);
}

struct advisor_memory *
advisor_image_memory(struct advisor_image *image)
{
    return &image->memory;
}
