/*
 * A cache of four blocks of four tokens: look a prompt up, compute what is missing, keep it.
 *
 *     cc -o blocks blocks.c $(pkg-config --cflags --libs libkvbm)
 */
#include <stdio.h>
#include <stdlib.h>

#include "kvtier/kvbm.h"
#include "kvtier/token.h"

enum { BLOCKS = 4, TOKENS = 4 };

static float memory[BLOCKS][1024]; /* what an engine keeps for a block; the pool never touches it */

static void
need(enum kvt_err rc, const struct kvt_error *err)
{
    if (rc == KVT_OK || rc == KVT_EXISTS)
        return;
    (void)fprintf(stderr, "blocks: %s: %s\n", kvt_err_name(rc), err->text);
    exit(1);
}

/* Hold the blocks of a prompt, the missing ones computed; says how many were there. */
static void
serve(struct kvt_pool *pool, const uint32_t *tokens, size_t count)
{
    struct kvt_error err = {.text = "no room"};
    struct kvt_sequence *sequence;
    struct kvt_shared held[BLOCKS];
    const uint64_t *hashes;
    size_t blocks;
    size_t found;

    need(kvt_sequence_new(&sequence, TOKENS, KVT_TOKEN_SEED, &err), &err);
    need(kvt_sequence_append(sequence, tokens, count, &err), &err);
    hashes = kvt_sequence_hashes(sequence, &blocks);
    found = kvt_pool_match(pool, hashes, blocks, held);
    for (size_t i = found; i < blocks; i++) {
        struct kvt_block_info info = {.size = sizeof(info)};
        struct kvt_unique fresh;

        need(kvt_pool_allocate(pool, 1, &fresh, 0), &err);
        need(kvt_unique_begin(pool, fresh, &err), &err);
        memory[fresh.handle.block][0] = (float)tokens[i * TOKENS]; /* prefill goes here */
        need(kvt_sequence_block(sequence, i, &info.id, &info.tokens_hash), &err);
        need(kvt_unique_complete(pool, fresh, &info, &err), &err);
        need(kvt_unique_register(pool, fresh, &held[i], &err), &err);
    }
    (void)printf("%zu of %zu blocks were there\n", found, blocks);
    kvt_shared_drop(pool, held, blocks);
    kvt_sequence_free(sequence);
}

int
main(void)
{
    const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    const struct kvt_pool_options options = {
        .size = sizeof(options), .block_count = BLOCKS, .order = KVT_POOL_ORDER_LINEAGE};
    struct kvt_error err;
    struct kvt_pool *pool;

    need(kvt_pool_new(&pool, &options, &err), &err);
    serve(pool, tokens, 9);
    serve(pool, tokens, 13);
    kvt_pool_free(pool);
    return 0;
}
