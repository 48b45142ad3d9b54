/*
 * engine/rpc/rpc.h -- calls between processes: answered once, run at most once, each with a
 * deadline.
 *
 * Why: leaders ask workers, and leaders of other instances.  What is asked moves blocks and holds
 * them, so it must never be done twice, whatever the network loses, doubles or delays; and who asks
 * must hear how it ended, also when the other process is gone.
 *
 * What a call's end says about whether it was run:
 *   a handler's answer     `answered`: it ran, once
 *   AGAIN, UNSUPPORTED     not run: the server is full; it has no such method
 *   UNAVAILABLE            unknown: the server is silent, gone, or another one since; or it ran and
 *                          its answer was lost for good
 *   TIMEOUT, CANCELLED     unknown: it is not begun any more once the server knows
 *
 * A client and a server agree on a *link*.  It ends when either is restarted or closed, when the
 * connection is cut for ENGINE_RPC_CUT_MS, or when nothing was heard for `silence_ms`; calls of a
 * link end with it, and are never repeated on another.  A link that is another one than before
 * means that the server may have forgotten everything.
 *
 * Whoever wants to watch something calls, and the handler answers when there is news, or a little
 * before the call's deadline: there are no messages from a server that nobody asked for.
 *
 * Ownership: see each call.  Payloads are copied by the sender; the receiver's are borrowed.
 * Threads:   any.  Handlers run on the server's thread, or on one of its `threads` where they are
 *            `slow`; `done` and `changed` on the client's thread, `gone` on the server's.  None of
 *            these may wait for a call, and a handler that is not slow should take microseconds:
 *            everything else waits behind it.  All may start calls and answer any.
 * Limits:    the names below.  Full is KVT_AGAIN, on either side.
 */
#ifndef ENGINE_RPC_RPC_H
#define ENGINE_RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"
#include "kvtier/ticket.h"

#define ENGINE_RPC_PAYLOAD_MAX  (4u << 20)  /* bytes of a question or an answer */
#define ENGINE_RPC_CALLS_MAX    1024        /* of one client, or under way at one server */
#define ENGINE_RPC_BYTES_MAX    (64u << 20) /* of the questions of these */
#define ENGINE_RPC_KEPT_MAX     (32u << 20) /* bytes of answers a server keeps, all together */
#define ENGINE_RPC_LINKS_MAX    256         /* clients of a server */
#define ENGINE_RPC_METHODS_MAX  64
#define ENGINE_RPC_THREADS_MAX  16
#define ENGINE_RPC_WAIT_MAX     86400000u /* ms; a longer deadline is this one */
#define ENGINE_RPC_CUT_MS       500       /* a connection may be away before its calls fail */
#define ENGINE_RPC_SILENCE_MS   2000      /* default of silence_ms */
#define ENGINE_RPC_CLOSE_MS     30000     /* a server that is closed has every answer by then */
#define ENGINE_RPC_ENDPOINT_MAX 256       /* text, with the final NUL */

/* ---- client ---- */

struct engine_rpc_client;

struct engine_rpc_client_options {
    const char *endpoint; /* "ipc:///path" or "tcp://host:port" */
    uint64_t silence_ms;  /* without a word of the server until it counts as gone; 0: default */
    /** There is another link, or (0) none any more; behind the `done` of its last call.  Not told
     *  of the client's own end.  May be NULL. */
    void (*changed)(void *arg, uint64_t link);
    void *arg;
};

struct engine_rpc_client_stats {
    uint64_t calls;
    uint64_t answered;
    uint64_t failed;    /* ended otherwise */
    uint64_t asked;     /* times it was asked again for an answer that did not come */
    uint64_t repeated;  /* questions that were sent again */
    uint64_t late;      /* answers to calls that had ended */
    uint64_t malformed; /* messages that are none */
    uint64_t links;     /* so far */
    uint32_t waiting;   /* calls that have not ended */
};

struct engine_rpc_reply {
    enum kvt_err status;
    bool answered;        /* a handler said so */
    const uint8_t *bytes; /* NULL where there are none */
    size_t size;
};

/** Runs once, on the client's thread; on the canceller's for a call that was taken back. */
typedef void engine_rpc_done_fn(void *arg, const struct engine_rpc_reply *reply);

struct engine_rpc_request {
    uint32_t method;
    const void *bytes; /* copied; may be NULL where size is 0 */
    size_t size;
    uint64_t wait_ms;         /* from now; not 0 */
    engine_rpc_done_fn *done; /* may be NULL where a ticket is asked for */
    void *arg;
};

/**
 * Begin to connect.  Calls may be made at once: they wait for a server that is being started, for
 * as long as silence_ms says.
 *
 * @return KVT_OK, KVT_INVALID (no such kind of endpoint), KVT_NOMEM, or the system's
 */
KVT_NODISCARD enum kvt_err engine_rpc_client_open(struct engine_rpc_client **out,
                                                  const struct engine_rpc_client_options *options,
                                                  struct kvt_error *err);

/** Calls that go on end as KVT_CANCELLED, each with its `done`; nobody is in a call of this client
 *  any more.  NULL is allowed. */
void engine_rpc_client_close(struct engine_rpc_client *client);

/** Wait for a link, also while the server counts as gone.  KVT_OK or KVT_UNAVAILABLE. */
KVT_NODISCARD enum kvt_err engine_rpc_client_wait(struct engine_rpc_client *client,
                                                  uint64_t wait_ms);

/** The link there is now; 0: none. */
uint64_t engine_rpc_client_link(struct engine_rpc_client *client);

struct engine_rpc_client_stats engine_rpc_client_stats(struct engine_rpc_client *client);

/**
 * Begin a call.
 *
 * The ticket's status is the reply's.  It can be cancelled at any time before its end: KVT_OK then
 * says that nobody waits for it any more, not that it was not run.
 *
 * @param[out] ticket  may be NULL where there is a `done`; else it is NULL on failure
 * @return KVT_OK; KVT_AGAIN (as many calls or bytes wait as may); KVT_RANGE (too large);
 *         KVT_INVALID; KVT_UNAVAILABLE (the server counts as gone, or the client is being closed);
 *         KVT_NOMEM.  `done` is only called after KVT_OK.
 */
KVT_NODISCARD enum kvt_err engine_rpc_start(struct engine_rpc_client *client,
                                            const struct engine_rpc_request *request,
                                            struct kvt_ticket **ticket);

/** How a call that has ended did; its bytes live until the ticket is released. */
void engine_rpc_reply(struct kvt_ticket *ticket, struct engine_rpc_reply *reply);

/**
 * Call and wait: the reply's status, or why the call did not begin.  `done` is not used.
 *
 * @param answer    what was answered is appended to it; NULL: it is dropped.  KVT_RANGE when it
 *                  does not fit
 * @param answered  did a handler say the status?  May be NULL
 */
enum kvt_err engine_rpc_run(struct engine_rpc_client *client,
                            const struct engine_rpc_request *request, struct kvt_buffer *answer,
                            bool *answered);

/* ---- server ---- */

struct engine_rpc_server;

/* A call that came in.  It is the handler's, and whoever's he gives it to, until it is answered. */
struct engine_rpc_call;

typedef void engine_rpc_handler_fn(void *arg, struct engine_rpc_call *call);

struct engine_rpc_method {
    uint32_t number; /* below ENGINE_RPC_METHODS_MAX */
    const char *name;
    engine_rpc_handler_fn *run;
    bool slow; /* on one of the server's `threads` */
};

/* `gone` is told of every link that has ended, also of those that the server's end ends: nothing
 * more comes by it, and is_over() is true for what is under way. */
struct engine_rpc_server_options {
    const char *endpoint; /* "ipc:///path" or "tcp://address:port"; port 0: a free one */
    const struct engine_rpc_method *methods; /* copied */
    size_t method_count;
    void *arg;                              /* of handlers and `gone` */
    void (*gone)(void *arg, uint64_t link); /* once each; may be NULL */
    uint32_t threads;                       /* for slow handlers; 0: there are none */
    uint32_t calls;                         /* under way at once; 0: ENGINE_RPC_CALLS_MAX */
    uint64_t silence_ms; /* without a word of a client until its link ends; 0: three times the
                            default of clients, so that they know first */
};

struct engine_rpc_server_stats {
    uint64_t calls;     /* given to handlers */
    uint64_t refused;   /* not run: full, too late, no such method */
    uint64_t repeated;  /* came again, and were not run again */
    uint64_t stale;     /* came after their client had given them up, or by a link that is over */
    uint64_t malformed; /* messages that are none */
    uint64_t forgotten; /* answers that were asked for again and not kept */
    uint32_t links;
    uint32_t under_way;
    size_t kept_bytes;
};

/** KVT_OK, KVT_INVALID (endpoint, methods), KVT_BUSY (the address is taken), KVT_NOMEM, or the
 *  system's.  A socket's file that nobody listens at any more is replaced. */
KVT_NODISCARD enum kvt_err engine_rpc_server_open(struct engine_rpc_server **out,
                                                  const struct engine_rpc_server_options *options,
                                                  struct kvt_error *err);

/** Where it listens, with the port it has. */
const char *engine_rpc_server_endpoint(const struct engine_rpc_server *server);

/** Run no more calls: what comes is KVT_UNAVAILABLE, and engine_rpc_call_is_over() is true for all
 *  that is under way. */
void engine_rpc_server_stop(struct engine_rpc_server *server);

/** Stop, wait for the answers to all that is under way (they must come in ENGINE_RPC_CLOSE_MS,
 *  asserted), and tell clients that their links are over.  NULL is allowed. */
void engine_rpc_server_close(struct engine_rpc_server *server);

struct engine_rpc_server_stats engine_rpc_server_stats(struct engine_rpc_server *server);

/** Answer a call: exactly once (asserted), from any thread; it is gone then.  `bytes` (at most
 *  ENGINE_RPC_PAYLOAD_MAX, asserted) are copied; without memory for them the client is told
 *  KVT_NOMEM. */
void engine_rpc_answer(struct engine_rpc_call *call, enum kvt_err status, const void *bytes,
                       size_t size);

/** Its payload; lives as long as the call. */
const uint8_t *engine_rpc_call_bytes(const struct engine_rpc_call *call, size_t *size);

uint32_t engine_rpc_call_method(const struct engine_rpc_call *call);

/** Whose call it is. */
uint64_t engine_rpc_call_link(const struct engine_rpc_call *call);

/** Milliseconds until nobody waits for the answer; 0: nobody does. */
uint64_t engine_rpc_call_wait_ms(const struct engine_rpc_call *call);

/** Nobody waits for the answer: late, cancelled, its client gone, or the server stops.  It must be
 *  answered all the same. */
bool engine_rpc_call_is_over(const struct engine_rpc_call *call);

#endif /* ENGINE_RPC_RPC_H */
