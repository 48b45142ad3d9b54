#include "bench/kvbm/link.h"

#include <time.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

struct link {
    struct kvbm_storage head;
    struct kvbm_storage *memory;
    double ns_per_byte;
    uint64_t free_ns; /* when what was sent so far is through */
};

static struct link *
link_of(struct kvbm_storage *storage)
{
    return (struct link *)storage;
}

/* Bytes that were sent while the link was busy queue up behind each other. */
static void
carry(struct link *link, const struct kvbm_storage_io *ios, size_t count)
{
    const uint64_t now_ns = kvt_clock_mono_ns();
    struct timespec until;
    double bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += (double)kvbm_storage_io_size(&link->head, &ios[i]);
    if (link->free_ns < now_ns)
        link->free_ns = now_ns;
    link->free_ns += (uint64_t)(bytes * link->ns_per_byte);
    until =
        (struct timespec){(time_t)(link->free_ns / 1000000000), (long)(link->free_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        continue;
}

static void
link_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    kvbm_storage_read(link_of(storage)->memory, ios, count);
    carry(link_of(storage), ios, count);
}

static void
link_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    kvbm_storage_write(link_of(storage)->memory, ios, count);
    carry(link_of(storage), ios, count);
}

static void *
no_address(struct kvbm_storage *storage, uint32_t block)
{
    (void)storage;
    (void)block;
    return NULL;
}

static void
link_close(struct kvbm_storage *storage)
{
    kvbm_storage_close(link_of(storage)->memory);
    kvt_free(storage);
}

static const struct kvbm_storage_ops link_ops = {
    .read = link_read, .write = link_write, .address = no_address, .close = link_close};

enum kvt_err
link_open(struct kvbm_storage **out, uint32_t block_count, size_t block_size, struct kvt_error *err)
{
    struct link *link = kvt_calloc(1, sizeof(*link));
    enum kvt_err rc;

    *out = NULL;
    if (link == NULL)
        return kvt_error_set(err, KVT_NOMEM, "link");
    link->head = (struct kvbm_storage){&link_ops, KVBM_STORAGE_DEVICE, block_count, block_size};
    rc = kvbm_storage_open_memory(&link->memory, KVBM_STORAGE_SYSTEM, block_count, block_size, err);
    if (rc != KVT_OK) {
        kvt_free(link);
        return rc;
    }
    *out = &link->head;
    return KVT_OK;
}

void
link_set_rate(struct kvbm_storage *storage, double bytes_per_second)
{
    link_of(storage)->ns_per_byte = bytes_per_second > 0 ? 1e9 / bytes_per_second : 0;
}

uint8_t *
link_bytes(struct kvbm_storage *storage, uint32_t block)
{
    return kvbm_storage_address(link_of(storage)->memory, block);
}
