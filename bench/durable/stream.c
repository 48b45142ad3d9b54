#include "bench/durable/stream.h"

#include "base/core/alloc.h"

enum kvt_err
stream_open(struct stream *stream, const char *load, size_t blocks, uint64_t seed)
{
    enum kvt_err rc;
    size_t room;

    *stream = (struct stream){.chain = 0};
    rc = corpus_load(&stream->corpus, load, blocks, seed);
    if (rc != KVT_OK)
        return rc;
    room = stream->corpus.open > 0 ? (size_t)stream->corpus.open * stream->corpus.length
                                   : CORPUS_CHAIN_MAX;
    stream->hashes = kvt_calloc(room, sizeof(*stream->hashes));
    stream->tokens = kvt_calloc(room, sizeof(*stream->tokens));
    if (stream->hashes != NULL && stream->tokens != NULL)
        return KVT_OK;
    stream_close(stream);
    return KVT_NOMEM;
}

void
stream_close(struct stream *stream)
{
    corpus_release(&stream->corpus);
    kvt_free(stream->hashes);
    kvt_free(stream->tokens);
    *stream = (struct stream){.chain = 0};
}

void
stream_rewind(struct stream *stream)
{
    stream->chain = 0;
    stream->open = 0;
}

/* The hashes of a chain, and its token hashes. */
static uint32_t
fill(const struct stream *stream, uint32_t chain, uint64_t *hashes, uint64_t *tokens)
{
    uint64_t locals[CORPUS_CHAIN_MAX];
    const uint32_t count = corpus_locals(&stream->corpus, stream->corpus.order[chain], locals);

    for (uint32_t i = 0; i < count; i++)
        tokens[i] = locals[i];
    corpus_sequence(locals, count, hashes);
    return count;
}

static void
say_whose(const struct stream *stream, uint32_t chain, struct stream_event *event)
{
    const uint32_t number = stream->corpus.order[chain];

    event->worker = corpus_worker(&stream->corpus, number);
    event->ns = number / stream->corpus.workers % STREAM_NAMESPACES;
}

/* So many chains are open at once, and grow by one block each in turn. */
static void
open_chains(struct stream *stream)
{
    const uint32_t left = stream->corpus.chains - stream->chain;

    stream->open = left < stream->corpus.open ? left : stream->corpus.open;
    stream->at = 0;
    stream->position = 0;
    for (uint32_t i = 0; i < stream->open; i++) {
        const size_t first = (size_t)i * stream->corpus.length;

        (void)fill(stream, stream->chain + i, stream->hashes + first, stream->tokens + first);
    }
}

static bool
next_block(struct stream *stream, struct stream_event *event)
{
    size_t block;

    if (stream->open > 0 && stream->at == stream->open) {
        stream->at = 0;
        stream->position++;
    }
    if (stream->open > 0 && stream->position == stream->corpus.length) {
        stream->chain += stream->open;
        stream->open = 0;
    }
    if (stream->chain == stream->corpus.chains)
        return false;
    if (stream->open == 0)
        open_chains(stream);
    block = (size_t)stream->at * stream->corpus.length + stream->position;
    *event = (struct stream_event){
        .hashes = &stream->hashes[block],
        .tokens = &stream->tokens[block],
        .parent = stream->position == 0 ? 0 : stream->hashes[block - 1],
        .position = stream->position,
        .count = 1,
    };
    say_whose(stream, stream->chain + stream->at, event);
    stream->at++;
    return true;
}

bool
stream_next(struct stream *stream, struct stream_event *event)
{
    if (stream->corpus.open > 0)
        return next_block(stream, event);
    if (stream->chain == stream->corpus.chains)
        return false;
    *event = (struct stream_event){.hashes = stream->hashes, .tokens = stream->tokens};
    event->count = fill(stream, stream->chain, stream->hashes, stream->tokens);
    say_whose(stream, stream->chain, event);
    stream->chain++;
    return true;
}
