/*
 * kvbm/cuda/cuda_stream.h -- one direction of a device's memory: a stream, and whose turn it is on
 * it.
 *
 * Why: what goes in, what comes out and what stays within have a stream each, so that they overlap.
 * A batch of pieces is put on the stream by whatever is fastest for it here (one kernel for many
 * small pieces, one batched call, one call a piece) and waited for once.
 *
 * Ownership: the driver outlives the stream.  Memory of the pieces is borrowed for the call: when
 *            it returns nothing is in flight, or, where the device could not be waited for twice
 *            over, the stream is dead and nothing is ever put on it again.
 * Threads:   any; one batch at a time.
 * Limits:    KVBM_CUDA_LIST_MAX pieces a call (asserted).
 */
#ifndef KVBM_CUDA_CUDA_STREAM_H
#define KVBM_CUDA_CUDA_STREAM_H

#include <pthread.h>
#include <stdbool.h>

#include "kvbm/cuda/copy_kernel.h"
#include "kvbm/cuda/cuda_driver.h"

#define KVBM_CUDA_LIST_MAX 2048

enum kvbm_cuda_direction { KVBM_CUDA_IN, KVBM_CUDA_OUT, KVBM_CUDA_WITHIN };

struct kvbm_cuda_piece {
    uint64_t target; /* a host address when OUT */
    uint64_t source; /* a host address when IN */
    size_t size;
    enum kvt_err status; /* out */
};

struct kvbm_cuda_stream {
    pthread_mutex_t turn; /* held while a batch is on the stream */
    struct kvbm_cuda *cuda;
    struct CUstream_st *handle;
    struct kvbm_cuda_fragment *list; /* pinned; NULL where there are no kernels */
    enum kvbm_cuda_direction direction;
    bool made;
    bool dead;
};

/** False: the driver refused, or no memory. */
bool kvbm_cuda_stream_make(struct kvbm_cuda_stream *stream, struct kvbm_cuda *cuda,
                           enum kvbm_cuda_direction direction);
void kvbm_cuda_stream_free(struct kvbm_cuda_stream *stream);

/** Take the turn, for who puts something of his own on the stream: its context is current on this
 *  thread.  False: it is lost, and nothing was taken. */
bool kvbm_cuda_stream_begin(struct kvbm_cuda_stream *stream);

/** Wait for all that is on the stream, and give the turn back.  False: nothing of it can be
 *  trusted. */
bool kvbm_cuda_stream_end(struct kvbm_cuda_stream *stream);

/** Copy all pieces; each gets its status. */
void kvbm_cuda_stream_run(struct kvbm_cuda_stream *stream, struct kvbm_cuda_piece *pieces,
                          size_t count);

#endif /* KVBM_CUDA_CUDA_STREAM_H */
