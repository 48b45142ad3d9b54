/*
 * bench/flood.h -- another process that publishes event batches as fast as they are taken.
 *
 * Why: what is measured must share the machine with a publisher, as in life, and not its process.
 * Messages are encoded before the clock starts.  Core NATS drops what nobody takes in time, so the
 * flood stays at most FLOOD_WINDOW messages ahead of what was consumed, for ours and for the floor
 * alike.
 *
 * Ownership: flood_stop() ends the process and frees the rest.
 * Threads:   flood_start() before the program has any; `consumed` may be written by any.
 * Limits:    FLOOD_BYTES_MAX of encoded messages.
 */
#ifndef BENCH_FLOOD_H
#define BENCH_FLOOD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FLOOD_WINDOW       196608 /* messages, and */
#define FLOOD_WINDOW_BYTES (UINT64_C(24) << 20)
#define FLOOD_PUBLISHERS   8
#define FLOOD_CHAIN        32
#define FLOOD_BYTES_MAX    (UINT64_C(1) << 30)
#define FLOOD_NAMESPACE    "bench"

/* Shared with the other process. */
struct flood_board {
    _Atomic uint64_t consumed; /* messages; written by the measuring side */
    _Atomic uint64_t sent;
};

struct flood {
    struct flood_board *board;
    pid_t pid;
    int commands;
    int answers;
};

/* One run: `messages` of `events` each, every event the Store of a new block. */
struct flood_run {
    uint64_t number; /* of the run: its blocks and publishers are like no other run's */
    uint64_t messages;
    uint64_t events;
};

/** False: no process, no server. */
bool flood_start(struct flood *flood, const char *url);
void flood_stop(struct flood *flood);

/** Encode; the answer is the size of one message, 0: it failed. */
uint64_t flood_prepare(struct flood *flood, const struct flood_run *run);
/** Begin to publish what was prepared. */
bool flood_go(struct flood *flood);
/** All was published: true with the CPU seconds it took. */
bool flood_done(struct flood *flood);

#endif /* BENCH_FLOOD_H */
