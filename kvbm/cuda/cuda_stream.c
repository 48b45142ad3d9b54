#include "kvbm/cuda/cuda_stream.h"

#include <assert.h>

enum {
    SMALL_BYTES = 28 << 10, /* pieces below this are copied faster by a kernel ... */
    SMALL_COUNT = 16,       /* ... when there are so many */
    GRID = 64,              /* few blocks: a device has more to do than this */
    THREADS = 256,
    STREAM_ORDER = 1, /* CU_MEMCPY_SRC_ACCESS_ORDER_STREAM */
    BATCH_MAX = 256,
};

bool
kvbm_cuda_stream_make(struct kvbm_cuda_stream *stream, struct kvbm_cuda *cuda,
                      enum kvbm_cuda_direction direction)
{
    void *list = NULL;

    *stream = (struct kvbm_cuda_stream){.cuda = cuda, .direction = direction};
    if (pthread_mutex_init(&stream->turn, NULL) != 0)
        return false;
    if (cuda->stream_new(&stream->handle, KVBM_CUDA_STREAM_NON_BLOCKING) != 0) {
        (void)pthread_mutex_destroy(&stream->turn);
        return false;
    }
    /* Without a list the stream works, only slower. */
    if (cuda->copy_fragments != NULL &&
        cuda->host_new(&list, KVBM_CUDA_LIST_MAX * sizeof(*stream->list),
                       KVBM_CUDA_HOST_PORTABLE) == 0)
        stream->list = list;
    stream->made = true;
    return true;
}

void
kvbm_cuda_stream_free(struct kvbm_cuda_stream *stream)
{
    if (!stream->made)
        return;
    (void)stream->cuda->stream_free(stream->handle);
    if (stream->list != NULL)
        (void)stream->cuda->host_free(stream->list);
    (void)pthread_mutex_destroy(&stream->turn);
    stream->made = false;
}

/* Once more when the first wait failed: memory that a copy may still write to must not be handed
 * back.  A device that cannot be waited for is lost, and with it what was in flight. */
static bool
wait_for(struct kvbm_cuda_stream *stream)
{
    const struct kvbm_cuda *cuda = stream->cuda;

    if (cuda->stream_wait(stream->handle) == 0)
        return true;
    stream->dead = cuda->stream_wait(stream->handle) != 0;
    return false; /* an asynchronous failure names no copy: none of them can be trusted */
}

static int
copy_one(const struct kvbm_cuda_stream *stream, const struct kvbm_cuda_piece *piece)
{
    const struct kvbm_cuda *cuda = stream->cuda;

    switch (stream->direction) {
    case KVBM_CUDA_IN:
        return cuda->copy_in(piece->target, (const void *)(uintptr_t)piece->source, piece->size,
                             stream->handle);
    case KVBM_CUDA_OUT:
        return cuda->copy_out((void *)(uintptr_t)piece->target, piece->source, piece->size,
                              stream->handle);
    case KVBM_CUDA_WITHIN:
        return cuda->copy_within(piece->target, piece->source, piece->size, stream->handle);
    }
    return 1;
}

/* Can the device read and write all of it by itself?  Only what we pinned is known to be so. */
static bool
reachable(const struct kvbm_cuda_stream *stream, const struct kvbm_cuda_piece *pieces, size_t count)
{
    for (size_t i = 0; stream->direction != KVBM_CUDA_WITHIN && i < count; i++) {
        const uint64_t host =
            stream->direction == KVBM_CUDA_IN ? pieces[i].source : pieces[i].target;

        if (!kvbm_cuda_is_pinned(stream->cuda, (const void *)(uintptr_t)host, pieces[i].size))
            return false;
    }
    return true;
}

static bool
worth_a_kernel(const struct kvbm_cuda_stream *stream, const struct kvbm_cuda_piece *pieces,
               size_t count)
{
    if (stream->list == NULL || count < SMALL_COUNT)
        return false;
    for (size_t i = 0; i < count; i++)
        if (pieces[i].size >= SMALL_BYTES)
            return false;
    return reachable(stream, pieces, count);
}

/* The list is in use until the stream was waited for; the caller does. */
static bool
by_kernel(struct kvbm_cuda_stream *stream, const struct kvbm_cuda_piece *pieces, size_t count)
{
    const void *list = stream->list;
    unsigned number = (unsigned)count;
    void *arguments[] = {&list, &number};

    assert(count <= KVBM_CUDA_LIST_MAX);
    for (size_t i = 0; i < count; i++)
        stream->list[i] =
            (struct kvbm_cuda_fragment){pieces[i].target, pieces[i].source, pieces[i].size};
    return stream->cuda->launch(stream->cuda->copy_fragments, count < GRID ? number : GRID, 1, 1,
                                THREADS, 1, 1, 0, stream->handle, arguments, NULL) == 0;
}

/* False: the driver has no such call or refuses it; what it may have begun is harmless, since the
 * same bytes go to the same place again. */
static bool
by_batch(struct kvbm_cuda_stream *stream, const struct kvbm_cuda_piece *pieces, size_t count)
{
    const struct kvbm_cuda *cuda = stream->cuda;
    struct kvbm_cuda_copy_attributes attributes = {.source_order = STREAM_ORDER};
    uint64_t targets[BATCH_MAX];
    uint64_t sources[BATCH_MAX];
    size_t sizes[BATCH_MAX];
    size_t starts[1] = {0};
    size_t failed = 0;

    if ((cuda->copy_batch == NULL && cuda->copy_batch_v2 == NULL) ||
        !reachable(stream, pieces, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        targets[i] = pieces[i].target;
        sources[i] = pieces[i].source;
        sizes[i] = pieces[i].size;
    }
    if (cuda->copy_batch_v2 != NULL)
        return cuda->copy_batch_v2(targets, sources, sizes, count, &attributes, starts, 1,
                                   stream->handle) == 0;
    return cuda->copy_batch(targets, sources, sizes, count, &attributes, starts, 1, &failed,
                            stream->handle) == 0;
}

static void
one_by_one(struct kvbm_cuda_stream *stream, struct kvbm_cuda_piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pieces[i].status = copy_one(stream, &pieces[i]) == 0 ? KVT_OK : KVT_IO;
}

/* Put pieces on the stream; how many, and they have a status. */
static size_t
put(struct kvbm_cuda_stream *stream, struct kvbm_cuda_piece *pieces, size_t left)
{
    const size_t count = left < BATCH_MAX ? left : BATCH_MAX;

    if (worth_a_kernel(stream, pieces, left) && by_kernel(stream, pieces, left)) {
        for (size_t i = 0; i < left; i++)
            pieces[i].status = KVT_OK;
        return left;
    }
    if (count == 1 || !by_batch(stream, pieces, count)) {
        one_by_one(stream, pieces, count);
    } else {
        for (size_t i = 0; i < count; i++)
            pieces[i].status = KVT_OK;
    }
    return count;
}

bool
kvbm_cuda_stream_begin(struct kvbm_cuda_stream *stream)
{
    (void)pthread_mutex_lock(&stream->turn);
    if (!stream->dead && kvbm_cuda_enter(stream->cuda) == KVT_OK)
        return true;
    (void)pthread_mutex_unlock(&stream->turn);
    return false;
}

bool
kvbm_cuda_stream_end(struct kvbm_cuda_stream *stream)
{
    bool good = false;

    /* Whoever has several streams has made another context current meanwhile. */
    if (kvbm_cuda_enter(stream->cuda) == KVT_OK)
        good = wait_for(stream);
    else
        stream->dead = true;
    (void)pthread_mutex_unlock(&stream->turn);
    return good;
}

void
kvbm_cuda_stream_run(struct kvbm_cuda_stream *stream, struct kvbm_cuda_piece *pieces, size_t count)
{
    bool good;
    size_t done = 0;

    assert(count <= KVBM_CUDA_LIST_MAX);
    good = kvbm_cuda_stream_begin(stream);
    if (good) {
        /* Whoever takes to a kernel gives it all that is left: its list is filled once a call. */
        while (done < count)
            done += put(stream, pieces + done, count - done);
        good = wait_for(stream);
        (void)pthread_mutex_unlock(&stream->turn);
    }
    for (size_t i = 0; !good && i < count; i++)
        pieces[i].status = KVT_IO;
}
