#include "tests/unit/kvbm/support/gate.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"

struct gate {
    struct kvbm_storage head;
    struct kvbm_storage *memory;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shut;
    unsigned visitors;
    uint32_t fail_block;
    enum kvt_err fail_status;
    bool fail_writes;
};

static void
pass(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->visitors++;
    (void)pthread_cond_broadcast(&gate->changed);
    while (gate->shut)
        (void)pthread_cond_wait(&gate->changed, &gate->lock);
    gate->visitors--;
    (void)pthread_mutex_unlock(&gate->lock);
}

static void
spoil(struct gate *gate, struct kvbm_storage_io *ios, size_t count, bool writes)
{
    (void)pthread_mutex_lock(&gate->lock);
    for (size_t i = 0; i < count; i++)
        if (gate->fail_status != KVT_OK && ios[i].block == gate->fail_block &&
            (gate->fail_writes || !writes))
            ios[i].status = gate->fail_status;
    (void)pthread_mutex_unlock(&gate->lock);
}

static void
gate_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    struct gate *gate = (struct gate *)storage;

    pass(gate);
    kvbm_storage_read(gate->memory, ios, count);
    spoil(gate, ios, count, false);
}

static void
gate_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    struct gate *gate = (struct gate *)storage;

    pass(gate);
    kvbm_storage_write(gate->memory, ios, count);
    spoil(gate, ios, count, true);
}

static void *
gate_address(struct kvbm_storage *storage, uint32_t block)
{
    (void)storage;
    (void)block;
    return NULL;
}

static void
gate_close(struct kvbm_storage *storage)
{
    struct gate *gate = (struct gate *)storage;

    kvbm_storage_close(gate->memory);
    (void)pthread_cond_destroy(&gate->changed);
    (void)pthread_mutex_destroy(&gate->lock);
    kvt_free(gate);
}

static const struct kvbm_storage_ops gate_ops = {
    .read = gate_read,
    .write = gate_write,
    .address = gate_address,
    .close = gate_close,
};

struct kvbm_storage *
gate_open(uint32_t block_count, size_t block_size)
{
    struct gate *gate = kvt_calloc(1, sizeof(*gate));
    struct kvt_error err;
    enum kvt_err rc;

    assert(gate != NULL);
    gate->head = (struct kvbm_storage){&gate_ops, KVBM_STORAGE_DEVICE, block_count, block_size};
    (void)pthread_mutex_init(&gate->lock, NULL);
    (void)pthread_cond_init(&gate->changed, NULL);
    rc =
        kvbm_storage_open_memory(&gate->memory, KVBM_STORAGE_SYSTEM, block_count, block_size, &err);
    assert(rc == KVT_OK);
    return &gate->head;
}

void
gate_shut(struct kvbm_storage *storage, bool shut)
{
    struct gate *gate = (struct gate *)storage;

    (void)pthread_mutex_lock(&gate->lock);
    gate->shut = shut;
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->lock);
}

void
gate_wait_for_visitor(struct kvbm_storage *storage)
{
    struct gate *gate = (struct gate *)storage;

    (void)pthread_mutex_lock(&gate->lock);
    while (gate->visitors == 0)
        (void)pthread_cond_wait(&gate->changed, &gate->lock);
    (void)pthread_mutex_unlock(&gate->lock);
}

void
gate_fail(struct kvbm_storage *storage, uint32_t block, enum kvt_err status, bool writes)
{
    struct gate *gate = (struct gate *)storage;

    (void)pthread_mutex_lock(&gate->lock);
    gate->fail_block = block;
    gate->fail_status = status;
    gate->fail_writes = writes;
    (void)pthread_mutex_unlock(&gate->lock);
}
