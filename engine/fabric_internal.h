/*
 * engine/fabric_internal.h -- what is behind the names of engine/fabric.h.
 *
 * Why: fabric.c has the thread and the gets, fabric_memory.c regions and windows.
 * Ownership: as engine/fabric.h.
 * Threads:   `rails`, `active`, `flights` are the fabric's thread's; `shared` is behind its lock, a
 *            leaf.
 * Limits:    as engine/fabric.h.
 */
#ifndef ENGINE_FABRIC_INTERNAL_H
#define ENGINE_FABRIC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/fabric.h"
#include "engine/rail.h"

enum { ENGINE_NEAR, ENGINE_FAR, ENGINE_RAILS };

struct engine_get;

/* A part that UCX has. */
struct engine_flight {
    struct engine_fabric *fabric;
    struct engine_get *get; /* NULL: free */
    size_t part;
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
    struct engine_get *active; /* in the order they came */
    struct engine_get **active_end;
    struct engine_flight flights[ENGINE_FABRIC_FLIGHT];
    size_t flying;
    struct engine_place *places; /* the thread's */
    _Atomic size_t regions;
    _Atomic size_t places_taken;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t called;
        struct engine_call *calls;
        struct engine_get *incoming;
        struct engine_get **incoming_end;
        size_t waiting; /* gets that are not finished */
        size_t windows;
        bool stopping;
    } shared;
};

struct engine_region {
    struct engine_fabric *fabric;
    void *address;
    size_t size;
    bool own; /* memory of our own, where there is no near rail; else UCX's */
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
    _Atomic size_t gets; /* not finished */
};

/** Run `run` on the fabric's thread, and come back when it has. */
void engine_fabric_call(struct engine_fabric *fabric,
                        void (*run)(struct engine_fabric *fabric, void *arg), void *arg);

/** Give back where regions were. */
void engine_fabric_leave_places(struct engine_fabric *fabric);

#endif /* ENGINE_FABRIC_INTERNAL_H */
