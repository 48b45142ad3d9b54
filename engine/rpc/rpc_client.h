/*
 * engine/rpc/rpc_client.h -- what is behind the client's names in engine/rpc/rpc.h.
 *
 * Why: rpc_client.c has threads and the life of a client, rpc_book.c its link and calls: what a
 * message or the clock does to them.
 *
 * Who watches the socket: a thread that waits in engine_rpc_run() does so itself (it *drives*), so
 * that an answer wakes whom it is for and nobody else; when it leaves, the next that waits drives,
 * or the client's own thread.  That one sleeps elsewhere (it is *parked*) while others drive, and
 * PARK_MS after, since the next call is likely to come soon.
 *
 * Ownership: a call is in its slot until it ends, and then on one of the lists of ended ones until
 *            it was told; a sync call is its caller's.
 * Threads:   everything in `shared` behind its lock.  Nothing of the caller's runs under it.
 * Limits:    as engine/rpc/rpc.h.
 */
#ifndef ENGINE_RPC_RPC_CLIENT_H
#define ENGINE_RPC_RPC_CLIENT_H

#include <pthread.h>

#include "kvbm/transfer/queue_ticket.h"

#include "engine/rpc/rpc_port.h"
#include "engine/rpc/rpc_wire.h"

struct engine_rpc_asked {
    struct kvt_ticket head; /* unused where it is sync */
    struct engine_rpc_client *client;
    struct engine_rpc_asked *next; /* of a list */
    engine_rpc_done_fn *done;
    void *arg;
    uint64_t number; /* 0: in no slot */
    uint64_t deadline_ms;
    uint64_t ask_ms; /* when to ask what became of it */
    uint64_t ask_wait_ms;
    uint32_t method;
    bool sync;
    bool detached; /* nobody has its ticket */
    bool ended;
    bool answered;
    bool has_message;
    enum kvt_err status;
    pthread_cond_t turn;  /* sync: it has ended, or drives from now on */
    zmq_msg_t message;    /* the answer */
    const uint8_t *bytes; /* within it */
    size_t size;
    size_t payload_size;
    uint8_t frame[]; /* room for a head, then the payload */
};

struct engine_rpc_slot {
    uint64_t sequence; /* of its last call */
    struct engine_rpc_asked *call;
};

/* First in, first out. */
struct engine_rpc_list {
    struct engine_rpc_asked *first;
    struct engine_rpc_asked **end;
};

enum engine_rpc_client_state {
    ENGINE_RPC_GREETING, /* asked for a link, not for long */
    ENGINE_RPC_LINKED,
    ENGINE_RPC_AWAY, /* asks for a link, for too long to let calls wait for it */
};

struct engine_rpc_client_book {
    pthread_mutex_t lock;  /* guards this struct */
    pthread_cond_t linked; /* there is a link */
    struct engine_rpc_port port;
    struct engine_rpc_client_stats stats;
    struct engine_rpc_slot slots[ENGINE_RPC_CALLS_MAX];
    uint16_t free[ENGINE_RPC_CALLS_MAX]; /* slots; the last one used is the next */
    uint32_t free_count;
    size_t bytes;    /* of questions that wait */
    uint32_t async;  /* calls among `waiting` that are not sync */
    uint64_t due_ms; /* nothing is to be done before */

    enum engine_rpc_client_state state;
    uint64_t link;
    uint64_t old_link;
    uint64_t nonce;
    uint64_t since_ms; /* of GREETING; of AWAY: the connection was made */
    uint64_t hello_ms; /* when to greet next */
    uint64_t heard_ms;
    uint64_t said_ms;
    uint64_t ping_ms; /* between pings at most */
    uint64_t cut_ms;  /* since when there is no connection; 0: there is one */

    struct engine_rpc_list quiet; /* ended: those without, and with a `done` */
    struct engine_rpc_list loud;

    struct engine_rpc_asked *driver;
    struct engine_rpc_list followers; /* sync calls whose thread sleeps */
    uint64_t drives;                  /* so far */
    bool parked;
    bool deep; /* parked for as long as this driver drives */
    bool closing;
};

struct engine_rpc_client {
    struct engine_rpc_client_options options; /* `endpoint` is not kept */
    int wake_fd;                              /* the thread sleeps on it */
    int drive_fd;                             /* the driver does */
    pthread_t thread;
    struct engine_rpc_client_book shared;
};

void engine_rpc_list_put(struct engine_rpc_list *list, struct engine_rpc_asked *call);

/* All under the lock. */

/** Ask for a first link. */
void engine_rpc_book_open(struct engine_rpc_client *client, uint64_t now_ms);

/** Give a call a slot, and send it.  KVT_OK, KVT_AGAIN or KVT_UNAVAILABLE. */
KVT_NODISCARD enum kvt_err engine_rpc_book_begin(struct engine_rpc_client *client,
                                                 struct engine_rpc_asked *call, uint64_t now_ms);

/** Take a call back.  False: it had ended. */
bool engine_rpc_book_cancel(struct engine_rpc_client *client, struct engine_rpc_asked *call);

/** Take what came, until `until` (NULL: nothing) has ended, and do what is due.  `woken`: the
 *  socket's `fd` said that something changed.  True: there is more. */
bool engine_rpc_book_pump(struct engine_rpc_client *client, const struct engine_rpc_asked *until,
                          bool woken, uint64_t now_ms);

/** End every call. */
void engine_rpc_book_close(struct engine_rpc_client *client);

#endif /* ENGINE_RPC_RPC_CLIENT_H */
