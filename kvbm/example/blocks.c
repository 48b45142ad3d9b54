/*
 * A cache of four blocks of four tokens: look a prompt up, compute what is missing, keep it; write
 * it to a file and read it back.
 *
 *     cc -o blocks blocks.c $(pkg-config --cflags --libs libkvbm)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvtier/kvbm.h"
#include "kvtier/token.h"
#include "kvtier/transfer.h"

enum { BLOCKS = 4, TOKENS = 4, SIZE = KVT_STORAGE_ALIGN };

static struct kvt_error err = {.text = "no room"};
static struct kvt_pool *pool;
static struct kvt_storage *memory; /* block n of the pool is block n of these */
static struct kvt_storage *disk;
static struct kvt_transfer *transfer;

static void
need(enum kvt_err rc)
{
    if (rc == KVT_OK || rc == KVT_EXISTS)
        return;
    (void)fprintf(stderr, "blocks: %s: %s\n", kvt_err_name(rc), err.text);
    exit(1);
}

/* Hold the blocks of a prompt, the missing ones computed; how many there are. */
static size_t
serve(const uint32_t *tokens, size_t count, struct kvt_shared held[BLOCKS])
{
    struct kvt_sequence *sequence;
    const uint64_t *hashes;
    size_t blocks;
    size_t found;

    need(kvt_sequence_new(&sequence, TOKENS, KVT_TOKEN_SEED, &err));
    need(kvt_sequence_append(sequence, tokens, count, &err));
    hashes = kvt_sequence_hashes(sequence, &blocks);
    found = kvt_pool_match(pool, hashes, blocks, held);
    for (size_t i = found; i < blocks; i++) {
        struct kvt_block_info info = {.size = sizeof(info)};
        struct kvt_unique fresh;

        need(kvt_pool_allocate(pool, 1, &fresh, 0));
        need(kvt_unique_begin(pool, fresh, &err));
        memset(kvt_storage_address(memory, fresh.handle.block), (int)tokens[i * TOKENS], SIZE);
        need(kvt_sequence_block(sequence, i, &info.id, &info.tokens_hash));
        need(kvt_unique_complete(pool, fresh, &info, &err));
        need(kvt_unique_register(pool, fresh, &held[i], &err));
    }
    (void)printf("%zu of %zu blocks were there\n", found, blocks);
    kvt_sequence_free(sequence);
    return blocks;
}

/* The first block to the disk and back, into memory that was wiped; is it what it was? */
static bool
round_trip(struct kvt_shared held)
{
    struct kvt_copy copy = {.source = held.handle.block, .target = held.handle.block};
    uint8_t *bytes = kvt_storage_address(memory, held.handle.block);
    uint8_t before[SIZE];

    memcpy(before, bytes, SIZE);
    need(kvt_copy_blocks(transfer, memory, disk, &copy, 1, &err));
    memset(bytes, 0, SIZE);
    need(kvt_copy_blocks(transfer, disk, memory, &copy, 1, &err));
    return memcmp(before, bytes, SIZE) == 0;
}

int
main(void)
{
    const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    const struct kvt_pool_options blocks = {
        .size = sizeof(blocks), .block_count = BLOCKS, .order = KVT_POOL_ORDER_LINEAGE};
    const struct kvt_memory_options host = {.size = sizeof(host),
                                            .kind = KVT_STORAGE_SYSTEM,
                                            .block_count = BLOCKS,
                                            .block_size = SIZE};
    const struct kvt_disk_options file = {
        .size = sizeof(file), .path = "blocks.kv", .block_count = BLOCKS, .block_size = SIZE};
    const struct kvt_transfer_options paths = {.size = sizeof(paths)};
    struct kvt_shared held[BLOCKS];

    need(kvt_pool_new(&pool, &blocks, &err));
    need(kvt_storage_open_memory(&memory, &host, &err));
    need(kvt_storage_open_disk(&disk, &file, &err));
    need(kvt_transfer_new(&transfer, &paths, &err));
    kvt_shared_drop(pool, held, serve(tokens, 9, held));
    kvt_shared_drop(pool, held, serve(tokens, 13, held));
    (void)serve(tokens, 5, held);
    (void)printf("from disk: %s\n", round_trip(held[0]) ? "the same bytes" : "other bytes");
    kvt_shared_drop(pool, held, 1);
    kvt_transfer_free(transfer);
    kvt_storage_close(disk);
    kvt_storage_close(memory);
    kvt_pool_free(pool);
    return 0;
}
