/* A cache of four blocks: look a prompt up, compute what is missing, keep it for the next one.
 *     cc -o blocks blocks.c $(pkg-config --cflags --libs libkvbm) */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "kvtier/kvbm.h"
#include "kvtier/token.h"

enum { BLOCKS = 4, TOKENS = 4, SIZE = 4096 };

static struct kvt_error why = {.text = "no room"};
static uint8_t cache[BLOCKS][SIZE]; /* block n of the pool lies at cache[n] */

static void
need(enum kvt_err rc)
{
    if (rc != KVT_OK && rc != KVT_EXISTS) /* EXISTS: it came meanwhile, and is held instead */
        errx(1, "%s: %s", kvt_err_name(rc), why.text);
}

static void
serve(struct kvt_pool *pool, const uint32_t *tokens, size_t count)
{
    struct kvt_shared held[BLOCKS];
    struct kvt_sequence *prompt;
    size_t blocks, found;

    need(kvt_sequence_new(&prompt, TOKENS, KVT_TOKEN_SEED, &why));
    need(kvt_sequence_append(prompt, tokens, count, &why));
    found = kvt_pool_match(pool, kvt_sequence_hashes(prompt, &blocks), blocks, held);
    for (size_t i = found; i < blocks; i++) {
        struct kvt_block_info info = {.size = sizeof(info)};
        struct kvt_unique fresh;

        need(kvt_pool_allocate(pool, 1, &fresh, 0)); /* what rested longest goes */
        need(kvt_unique_begin(pool, fresh, &why));
        memset(cache[fresh.handle.block], (int)tokens[i * TOKENS], SIZE); /* the model runs */
        need(kvt_sequence_block(prompt, i, &info.id, &info.tokens_hash));
        need(kvt_unique_complete(pool, fresh, &info, &why));
        need(kvt_unique_register(pool, fresh, &held[i], &why)); /* from here on it is found */
    }
    (void)printf("%zu of %zu blocks were there\n", found, blocks);
    kvt_shared_drop(pool, held, blocks); /* they rest until room is needed */
    kvt_sequence_free(prompt);
}

int
main(void)
{
    const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    const struct kvt_pool_options options = {.size = sizeof(options), .block_count = BLOCKS};
    struct kvt_pool *pool;

    need(kvt_pool_new(&pool, &options, &why));
    serve(pool, tokens, 9);
    serve(pool, tokens, 13);
    kvt_pool_free(pool);
    return 0;
}
