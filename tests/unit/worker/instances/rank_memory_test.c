/*
 * What is tested: worker/instances/rank_memory.h: what a rank's model writes to G1 is there, and
 * nowhere else, whether G1 is host memory or a device's (a driver of our own, fake_cuda.c); every
 * wrong byte of a layer is seen; a device that fails is lost, and no byte of it is called right or
 * wrong.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/cuda/cuda_memory.h"

#include "tests/support/seed.h"
#include "worker/instances/rank_memory.h"

enum { BLOCKS = 4, BLOCK = 128 << 10 };

static struct worker_shard
make_shard(void)
{
    struct worker_shard shard;

    assert_int_equal(worker_shard_make(&shard, BLOCK, 2, 1, NULL), KVT_OK);
    return shard;
}

/* As worker_rank_memory_open() makes them. */
static struct worker_rank_memory
make_pages(const struct worker_shard *shard, bool device)
{
    const size_t size = shard->layout.block_size;
    struct worker_rank_memory memory = {.cuda = NULL};

    if (!device) {
        assert_int_equal(
            kvbm_storage_open_memory(&memory.g1, KVBM_STORAGE_DEVICE, BLOCKS, size, NULL), KVT_OK);
        return memory;
    }
    assert_int_equal(kvbm_cuda_open(&memory.cuda, KVBM_FAKE_CUDA, 0, NULL), KVT_OK);
    assert_int_equal(kvbm_cuda_open_device(&memory.g1, memory.cuda, BLOCKS, size, NULL), KVT_OK);
    assert_int_equal(kvbm_cuda_open_pinned(&memory.page, memory.cuda, 1, size, NULL), KVT_OK);
    return memory;
}

static void
flip(struct worker_rank_memory *memory, uint32_t block, size_t offset)
{
    uint8_t byte;
    struct kvbm_storage_io io = {.host = &byte, .block = block, .offset = offset, .size = 1};

    kvbm_storage_read(memory->g1, &io, 1);
    assert_int_equal(io.status, KVT_OK);
    byte ^= 1;
    kvbm_storage_write(memory->g1, &io, 1);
    assert_int_equal(io.status, KVT_OK);
}

static void
layers_are_where_they_were_written(void **state)
{
    const struct worker_shard shard = make_shard();

    (void)state;
    for (int device = 0; device < 2; device++) {
        struct worker_rank_memory memory = make_pages(&shard, device != 0);

        for (uint32_t block = 0; block < BLOCKS; block++)
            for (uint32_t layer = 0; layer < WORKER_SHARD_LAYERS; layer++)
                worker_rank_memory_fill(&memory, &shard, block, 70 + block, layer);
        for (uint32_t layer = 0; layer < WORKER_SHARD_LAYERS; layer++) {
            for (uint32_t block = 0; block < BLOCKS; block++)
                assert_int_equal(
                    worker_rank_memory_check(&memory, &shard, block, 70 + block, layer), 0);
            assert_true(worker_rank_memory_check(&memory, &shard, 1, 70, layer) > 0);
        }
        for (uint32_t head = 0; head < shard.heads; head++)
            flip(&memory, 2, worker_shard_offset(&shard, head, 3) + head);
        assert_int_equal(worker_rank_memory_check(&memory, &shard, 2, 72, 3), shard.heads);
        assert_int_equal(worker_rank_memory_check(&memory, &shard, 2, 72, 2), 0);
        worker_rank_memory_fill(&memory, &shard, 2, 72, 3);
        assert_int_equal(worker_rank_memory_check(&memory, &shard, 2, 72, 3), 0);
        assert_false(memory.lost);
        worker_rank_memory_close(&memory);
        assert_int_equal(kvt_alloc_live(), 0);
    }
}

static void
a_device_that_fails_is_lost(void **state)
{
    const struct worker_shard shard = make_shard();

    (void)state;
    for (int writing = 0; writing < 2; writing++) {
        struct worker_rank_memory memory = make_pages(&shard, true);

        worker_rank_memory_fill(&memory, &shard, 0, 70, 0);
        (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuStreamSynchronize", 1);
        if (writing != 0)
            worker_rank_memory_fill(&memory, &shard, 0, 71, 0);
        else
            assert_int_equal(worker_rank_memory_check(&memory, &shard, 0, 71, 0), 0);
        assert_true(memory.lost);
        (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
        assert_int_equal(worker_rank_memory_check(&memory, &shard, 0, 71, 0), 0);
        assert_true(memory.lost);
        worker_rank_memory_close(&memory);
    }
    assert_int_equal(kvt_alloc_live(), 0);
}

/* G2 stays what it is; what cannot be pinned is no failure. */
static void
host_memory_is_pinned_while_it_is_lent(void **state)
{
    const struct worker_shard shard = make_shard();
    const size_t size = shard.layout.block_size;
    struct worker_rank_memory memory = make_pages(&shard, true);
    struct kvbm_storage *g2;
    void *first;

    (void)state;
    assert_int_equal(kvbm_storage_open_memory(&g2, KVBM_STORAGE_SYSTEM, BLOCKS, size, NULL),
                     KVT_OK);
    first = kvbm_storage_address(g2, 0);
    worker_rank_memory_pin(&memory, g2);
    assert_true(kvbm_cuda_is_pinned(memory.cuda, first, BLOCKS * size));
    worker_rank_memory_unpin(&memory);
    worker_rank_memory_unpin(&memory);
    assert_false(kvbm_cuda_is_pinned(memory.cuda, first, 1));
    (void)setenv("KVBM_FAKE_CUDA_FAIL", "cuMemHostRegister_v2", 1);
    worker_rank_memory_pin(&memory, g2);
    (void)unsetenv("KVBM_FAKE_CUDA_FAIL");
    assert_null(memory.pinned);
    worker_rank_memory_pin(&memory, g2); /* and unpinned by the end */
    worker_rank_memory_close(&memory);
    kvbm_storage_close(g2);
    memory = make_pages(&shard, false);
    worker_rank_memory_pin(&memory, memory.g1); /* nothing to pin it for */
    assert_null(memory.pinned);
    worker_rank_memory_close(&memory);
    assert_int_equal(kvt_alloc_live(), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_where_they_were_written),
        cmocka_unit_test(a_device_that_fails_is_lost),
        cmocka_unit_test(host_memory_is_pinned_while_it_is_lent),
    };

    return cmocka_run_group_tests_name("kvbm/pages", tests, NULL, NULL);
}
