/*
 * An engine of 64 blocks in its own process: have a prompt's blocks brought from a worker's tiers,
 * compute what no tier has, and send it down.
 *
 *     cc -o attached attached.c $(pkg-config --cflags --libs libkvbm)
 *     ./attached SOCKET SALT BLOCKS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvtier/attach.h"
#include "kvtier/token.h"

enum { BLOCKS = 64, TOKENS = 4, WAIT = 30000 };

static void
need(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "%s\n", what);
    exit(1);
}

/* What a model would make of a block's tokens: words that say which block it is. */
static bool
content(uint64_t *words, size_t bytes, uint64_t hash, bool write)
{
    for (size_t i = 0; i < bytes / sizeof(*words); i++) {
        if (write)
            words[i] = hash + i;
        else if (words[i] != hash + i)
            return false;
    }
    return true;
}

/* The names of a prompt's blocks. */
static size_t
name_blocks(struct kvt_block_info *infos, const char *salt, size_t count)
{
    uint32_t tokens[BLOCKS * TOKENS];
    struct kvt_sequence *prompt;

    for (uint32_t i = 0; i < count * TOKENS; i++)
        tokens[i] = i;
    need(kvt_sequence_new(&prompt, TOKENS, kvt_token_seed("", 0, salt, strlen(salt)), NULL) ==
                 KVT_OK &&
             kvt_sequence_append(prompt, tokens, count * TOKENS, NULL) == KVT_OK,
         "no memory");
    for (size_t i = 0; i < count; i++) {
        infos[i] = (struct kvt_block_info){.size = sizeof(infos[i])};
        need(kvt_sequence_block(prompt, i, &infos[i].id, &infos[i].tokens_hash) == KVT_OK, "name");
        infos[i].prefix_hash = infos[i < 8 ? i : 7].id.hash;
    }
    kvt_sequence_free(prompt);
    return count;
}

int
main(int argc, char **argv)
{
    struct kvt_block_info infos[BLOCKS];
    struct kvt_unique fresh[BLOCKS];
    struct kvt_shared held[BLOCKS];
    enum kvt_err results[BLOCKS];
    struct kvt_attach *engine;
    struct kvt_error err;
    enum kvt_err rc;
    size_t count;
    size_t there;
    size_t bytes;

    need(argc == 4, "usage: attached SOCKET SALT BLOCKS");
    count = (size_t)strtoul(argv[3], NULL, 10);
    need(count > 0 && count <= BLOCKS && name_blocks(infos, argv[2], count) == count, "BLOCKS");
    need(kvt_attach_open(&engine,
                         &(struct kvt_attach_options){
                             .size = sizeof(struct kvt_attach_options),
                             .socket = argv[1],
                             .block_count = BLOCKS,
                         },
                         &err) == KVT_OK,
         err.text);
    bytes = kvt_attach_block_bytes(engine);

    rc = kvt_attach_onboard(engine, infos, count, WAIT, held, &there);
    need(rc == KVT_OK || rc == KVT_NOTFOUND, kvt_err_text(rc));
    for (size_t i = 0; i < there; i++)
        need(
            content(kvt_attach_block(engine, held[i].handle.block), bytes, infos[i].id.hash, false),
            "wrong bytes");

    need(kvt_attach_allocate(engine, count - there, fresh) == KVT_OK, "no room");
    for (size_t i = there; i < count; i++)
        (void)content(kvt_attach_block(engine, fresh[i - there].handle.block), bytes,
                      infos[i].id.hash, true);
    need(kvt_attach_register(engine, fresh, infos + there, count - there, true, held + there,
                             results) == KVT_OK &&
             kvt_attach_step(engine, NULL) == KVT_OK && kvt_attach_drain(engine, WAIT) == KVT_OK,
         "the worker is gone");
    for (size_t i = 0; i < count - there; i++)
        need(results[i] == KVT_OK, "refused");

    (void)printf("%zu of %zu blocks were there\n", there, count);
    (void)fflush(stdout);
    (void)getchar(); /* everything stays held until somebody says so */
    need(kvt_attach_drop(engine, held, count) == KVT_OK, "the worker is gone");
    kvt_attach_close(engine);
    return 0;
}
