/*
 * engine/memory/fabric_internal.h -- what is behind the names of engine/memory/fabric.h.
 *
 * Why: fabric.c has the thread and the moves, fabric_far.c those that are messages, fabric_memory.c
 *      regions and windows.
 * Ownership: as engine/memory/fabric.h.
 * Threads:   `rails`, `active`, `flights` are the fabric's thread's; `shared` is behind its lock, a
 *            leaf, and so is a region's.
 * Limits:    as engine/memory/fabric.h.
 */
#ifndef ENGINE_MEMORY_FABRIC_INTERNAL_H
#define ENGINE_MEMORY_FABRIC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/memory/fabric.h"
#include "engine/memory/rail.h"

enum { ENGINE_NEAR, ENGINE_FAR, ENGINE_RAILS };

struct engine_move;

/* What is said to somebody far away (fabric_far.c), little-endian as it lies here. */
struct engine_far_ask {
    uint64_t number; /* of the flight, and never again */
    uint64_t address;
    uint64_t size;
    uint64_t flags; /* 1: a put, of the bytes that come with it */
};

struct engine_far_answer {
    uint64_t number;
    uint64_t status; /* enum kvt_err; bytes come with KVT_OK of a read */
};

/* A part that UCX has. */
struct engine_flight {
    struct engine_fabric *fabric;
    struct engine_move *move; /* NULL: free */
    struct engine_peer *peer;
    size_t part;
    bool asks; /* by messages, and then: */
    bool sending;
    bool answered; /* ... or never will be */
    enum kvt_err status;
    struct engine_far_ask ask;
    void *host; /* where a read goes */
};

/* Something another thread wants done by the fabric's, and waits for. */
struct engine_call {
    void (*run)(struct engine_fabric *fabric, void *arg);
    void *arg;
    bool done;
    struct engine_call *next;
};

/* Where a region was. */
struct engine_place {
    void *address;
    size_t size;
    struct engine_place *next;
};

struct engine_fabric {
    struct engine_rail rails[ENGINE_RAILS];
    pthread_t thread;
    int wake_fd;
    uint64_t wait_max_ms;
    struct engine_move *active; /* in the order they came */
    struct engine_move **active_end;
    struct engine_flight flights[ENGINE_FABRIC_FLIGHT];
    size_t flying;
    uint64_t asked;
    unsigned vain;               /* times in a row that a rail woke the thread for nothing */
    struct engine_region *open;  /* the thread's */
    struct engine_place *places; /* the thread's */
    _Atomic size_t regions;
    _Atomic size_t places_taken;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t called;
        struct engine_call *calls;
        struct engine_move *incoming;
        struct engine_move **incoming_end;
        size_t waiting; /* moves that are not finished */
        size_t windows;
        bool stopping;
    } shared;
};

struct engine_region {
    struct engine_fabric *fabric;
    struct engine_region *next; /* that is open */
    void *address;
    size_t size;
    bool own;             /* memory of our own, where there is no near rail; else UCX's */
    bool landing;         /* others may put into it */
    pthread_mutex_t lock; /* guards a landing's bytes against who is far away; a leaf */
    struct engine_place *place;
    ucp_mem_h memory[ENGINE_RAILS];
    void *keys[ENGINE_RAILS];
    size_t key_sizes[ENGINE_RAILS];
};

struct engine_window {
    struct engine_fabric *fabric;
    struct engine_peer *peer;
    ucp_rkey_h key;
    uint64_t address;   /* in its owner */
    const void *memory; /* here; may be NULL */
    size_t size;
    bool landing;
    _Atomic size_t moves; /* not finished */
};

/** Run `run` on the fabric's thread, and come back when it has. */
void engine_fabric_call(struct engine_fabric *fabric,
                        void (*run)(struct engine_fabric *fabric, void *arg), void *arg);

/** That part has ended, and the flight is free. */
void engine_flight_land(struct engine_flight *flight, enum kvt_err status);

/* ---- fabric_far.c: on the fabric's thread ---- */

/** Answer those who ask, and hear answers; before there is a thread. */
bool engine_far_listen(struct engine_fabric *fabric);
/** Ask for a part; the flight is landed, perhaps before this returns. */
void engine_far_ask(struct engine_flight *flight, ucp_ep_h endpoint,
                    const struct engine_fabric_part *part, uint64_t address, bool put);
/** Nobody who has failed answers any more. */
void engine_far_give_up(struct engine_fabric *fabric);

/** Give back where regions were. */
void engine_fabric_leave_places(struct engine_fabric *fabric);

#endif /* ENGINE_MEMORY_FABRIC_INTERNAL_H */
