/* The initiator: a peer as a place that blocks come from. */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "engine/leader/session_internal.h"

/* What is asked of one peer or several, until one is chosen; it lives until its last call has
 * ended. */
struct engine_session {
    struct engine_session *next;
    struct engine_sessions *sessions;
    struct engine_match *match; /* NULL: let go of */
    uint64_t number, puller;
    struct engine_peer *peer; /* the one with the most; NULL: none, or lost */
    uint32_t base;            /* the match's block that is the first of it */
    uint32_t found, ready;
    uint32_t *blocks; /* numbers in the peer's G2: `ready` of them */
    unsigned opens;   /* that were not answered */
    unsigned calls;   /* under way, opens too */
    bool staged;      /* it was told to make all ready */
    bool looking;
};

struct call {
    struct engine_message message;
    struct engine_session *session;
    struct engine_peer *peer; /* looked up again before it is used: it may be gone */
    uint32_t method;
    enum kvt_err status;
    uint8_t *bytes;
    size_t size;
};

static void answered(struct engine_leader *leader, struct engine_message *message);

/* ---- calls ---- */

static void
done(void *arg, const struct engine_rpc_reply *reply)
{
    struct call *call = arg;

    call->status = reply->status;
    if (reply->status == KVT_OK && reply->size > 0) {
        call->bytes = kvt_calloc(reply->size, 1);
        call->size = reply->size;
        if (call->bytes == NULL)
            call->status = KVT_NOMEM;
        else
            memcpy(call->bytes, reply->bytes, reply->size);
    }
    engine_leader_post(call->session->sessions->leader, &call->message);
}

/* False: no memory, and it did not begin. */
static bool
start(struct engine_session *session, struct engine_peer *peer, uint32_t method,
      const uint64_t *words, size_t count, uint64_t wait_ms)
{
    struct call *call = kvt_calloc(1, sizeof(*call));
    struct kvt_buffer out;
    enum kvt_err rc = KVT_NOMEM;

    if (call == NULL)
        return false;
    call->message.run = answered;
    call->session = session;
    call->peer = peer;
    call->method = method;
    kvt_buffer_init(&out, ENGINE_RPC_PAYLOAD_MAX);
    engine_session_words_put(&out, words, count);
    if (kvt_buffer_ok(&out))
        rc = engine_rpc_start(peer->client,
                              &(struct engine_rpc_request){
                                  .method = method,
                                  .bytes = out.data,
                                  .size = out.size,
                                  .wait_ms = wait_ms,
                                  .done = done,
                                  .arg = call,
                              },
                              NULL);
    kvt_buffer_release(&out);
    session->calls++;
    if (rc != KVT_OK) {
        call->status = rc;
        engine_leader_post(session->sessions->leader, &call->message);
    }
    return true;
}

static void
say_close(struct engine_session *session, struct engine_peer *peer)
{
    const uint64_t words[] = {session->number, session->puller};

    (void)start(session, peer, ENGINE_SESSION_CLOSE, words, 2, ENGINE_SESSION_CALL_MS);
}

/* ---- its end ---- */

static void
bury(struct engine_session *session)
{
    struct engine_session **link = &session->sessions->asking;

    if (session->match != NULL || session->calls > 0)
        return;
    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    kvt_free(session->blocks);
    kvt_free(session);
}

static void
detach(struct engine_session *session)
{
    session->match->session = NULL;
    session->match = NULL;
    if (session->peer != NULL && !session->sessions->closing)
        say_close(session, session->peer);
    session->peer = NULL;
}

static void
let_go(struct engine_match *match, uint32_t from)
{
    struct engine_session *session = match->session;

    if (session == NULL || (from > session->base && from != 0))
        return;
    detach(session);
    bury(session);
}

/* The peer says no more, or that there is less: what is not on its way does not come. */
static void
cut(struct engine_session *session, uint32_t left, enum kvt_err why)
{
    struct engine_match *match = session->match;
    uint32_t end = session->base + left;

    while (end < match->end &&
           (match->g2[end].generation != 0 || (match->mode == ENGINE_FULL && end < match->at)))
        end++;
    engine_match_cut(match, end, why, "the peer has it no more");
    engine_match_publish(match, match->state);
    engine_match_pump(match);
}

static void
lose(struct engine_session *session, enum kvt_err why)
{
    session->peer = NULL;
    if (session->opens > 0)
        session->found = 0; /* any other has more */
    else if (session->match != NULL)
        cut(session, 0, why);
}

/* ---- looking ---- */

static void
look(struct engine_session *session)
{
    const uint64_t hold_ms = session->sessions->leader->options.hold_ms;
    const uint64_t wait_ms =
        hold_ms / 3 < ENGINE_SESSION_LOOK_MS ? hold_ms / 3 : ENGINE_SESSION_LOOK_MS;
    const uint64_t words[] = {session->number, session->puller, session->ready, wait_ms};

    if (session->looking || session->match == NULL || session->peer == NULL)
        return;
    session->looking = start(session, session->peer, ENGINE_SESSION_LOOK, words, 4,
                             wait_ms + ENGINE_SESSION_CALL_MS);
    if (!session->looking)
        lose(session, KVT_NOMEM);
}

static bool
take_look(struct engine_session *session, const struct call *call)
{
    struct engine_session_words words;
    uint32_t found;
    uint32_t ready;

    engine_session_words_read(&words, call->bytes, call->size);
    if (engine_session_words_next(&words, ENGINE_FAILED) == ENGINE_FAILED)
        return false;
    found = (uint32_t)engine_session_words_next(&words, session->found);
    ready = (uint32_t)engine_session_words_next(&words, found);
    if (words.in.bad || ready < session->ready || words.left != ready - session->ready)
        return false;
    for (uint32_t i = session->ready; i < ready; i++)
        session->blocks[i] = (uint32_t)engine_session_words_next(&words, UINT32_MAX);
    if (!engine_session_words_end(&words))
        return false;
    session->ready = ready;
    session->found = found;
    return true;
}

static void
on_look(struct engine_session *session, const struct call *call)
{
    const uint32_t before = session->found;

    session->looking = false;
    if (session->match == NULL || session->peer == NULL)
        return;
    if (call->status != KVT_OK || !take_look(session, call)) {
        lose(session, call->status != KVT_OK ? call->status : KVT_CORRUPT);
        return;
    }
    if (session->found < before)
        cut(session, session->found, KVT_NOTFOUND);
    else
        engine_match_pump(session->match);
    look(session);
}

/* ---- searching ---- */

static void
choose(struct engine_session *session)
{
    struct engine_match *match = session->match;
    const uint32_t count = session->found;

    if (match == NULL) {
        if (session->peer != NULL && !session->sessions->closing)
            say_close(session, session->peer);
        session->peer = NULL;
        return;
    }
    session->blocks = kvt_calloc(count == 0 ? 1 : count, sizeof(*session->blocks));
    if (session->peer == NULL || session->blocks == NULL) {
        detach(session);
        engine_match_found(match, 0, session->blocks == NULL ? KVT_NOMEM : KVT_OK, NULL);
        return;
    }
    (void)pthread_mutex_lock(&match->leader->shared.lock);
    match->shared.view.peer = session->peer->instance;
    (void)pthread_mutex_unlock(&match->leader->shared.lock);
    look(session);
    engine_match_found(match, count, KVT_OK, NULL);
}

/* The peer with the most is it; the others need not hold anything. */
static void
on_open(struct engine_session *session, const struct call *call, struct engine_peer *peer)
{
    struct engine_session_words words;
    uint32_t found = 0;

    session->opens--;
    if (call->status == KVT_OK && peer != NULL) {
        const uint32_t most = session->match == NULL ? 0 : session->match->count - session->base;

        engine_session_words_read(&words, call->bytes, call->size);
        (void)engine_session_words_next(&words, ENGINE_FAILED);
        found = (uint32_t)engine_session_words_next(&words, most);
        (void)engine_session_words_next(&words, found);
        if (!engine_session_words_end(&words))
            found = 0;
        if (found > session->found) {
            struct engine_peer *less = session->peer;

            session->peer = peer;
            session->found = found;
            peer = less;
        }
    }
    /* Where no answer came in time it may be held all the same. */
    if (peer != NULL && !session->sessions->closing &&
        (call->status == KVT_OK || call->status == KVT_TIMEOUT))
        say_close(session, peer);
    if (session->opens == 0)
        choose(session);
}

static void
search(struct engine_match *match)
{
    struct engine_sessions *sessions = match->leader->sessions;
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint64_t left_ms = match->until_ms > now_ms ? match->until_ms - now_ms : 1;
    const uint32_t count = match->count - match->found;
    struct engine_session *session = kvt_calloc(1, sizeof(*session));
    uint64_t *words = kvt_calloc(
        ENGINE_SESSION_OPEN_WORDS + (size_t)count * ENGINE_SESSION_LABEL_WORDS, sizeof(*words));

    if (session == NULL || words == NULL || sessions->peers == NULL || sessions->closing) {
        const enum kvt_err rc = session == NULL || words == NULL ? KVT_NOMEM : KVT_OK;

        kvt_free(session);
        kvt_free(words);
        engine_match_found(match, 0, rc, NULL);
        return;
    }
    session->sessions = sessions;
    session->match = match;
    session->base = match->found;
    session->staged = match->mode != ENGINE_HOLD;
    kvt_random_system(&session->number, sizeof(session->number));
    session->puller = match->leader->options.instance;
    session->next = sessions->asking;
    sessions->asking = session;
    match->session = session;
    words[0] = ENGINE_SESSION_VERSION;
    words[2] = session->number;
    words[3] = session->puller;
    words[4] = match->mode == ENGINE_HOLD ? ENGINE_HOLD : ENGINE_FULL;
    words[5] = match->leader->options.hold_ms;
    for (uint32_t i = 0; i < count; i++)
        engine_session_words_of_label(words + ENGINE_SESSION_OPEN_WORDS +
                                          (size_t)i * ENGINE_SESSION_LABEL_WORDS,
                                      &match->labels[match->found + i]);
    for (struct engine_peer *peer = sessions->peers; peer != NULL; peer = peer->next) {
        words[1] = peer->instance;
        session->opens +=
            start(session, peer, ENGINE_SESSION_OPEN, words,
                  ENGINE_SESSION_OPEN_WORDS + (size_t)count * ENGINE_SESSION_LABEL_WORDS,
                  left_ms < ENGINE_SESSION_CALL_MS ? left_ms : ENGINE_SESSION_CALL_MS);
    }
    kvt_free(words);
    if (session->opens > 0)
        return;
    detach(session);
    bury(session);
    engine_match_found(match, 0, KVT_NOMEM, NULL);
}

static struct engine_peer *
still_there(const struct engine_sessions *sessions, const struct engine_peer *wanted)
{
    for (struct engine_peer *peer = sessions->peers; peer != NULL; peer = peer->next)
        if (peer == wanted)
            return peer;
    return NULL;
}

static void
answered(struct engine_leader *leader, struct engine_message *message)
{
    struct call *call = (struct call *)message;
    struct engine_session *session = call->session;

    switch (call->method) {
    case ENGINE_SESSION_OPEN:
        on_open(session, call, still_there(leader->sessions, call->peer));
        break;
    case ENGINE_SESSION_LOOK: on_look(session, call); break;
    case ENGINE_SESSION_STAGE:
        if (call->status != KVT_OK && session->match != NULL)
            lose(session, call->status);
        break;
    default: break; /* closed: if it was not heard there, its hold ends by itself */
    }
    session->calls--;
    kvt_free(call->bytes);
    kvt_free(call);
    bury(session);
}

void
engine_session_lose(struct engine_sessions *sessions, const struct engine_peer *peer)
{
    struct engine_session *next;

    for (struct engine_session *session = sessions->asking; session != NULL; session = next) {
        next = session->next;
        if (session->peer == peer) {
            session->calls++; /* stays until it was seen to */
            lose(session, KVT_UNAVAILABLE);
            next = session->next;
            session->calls--;
            bury(session);
        }
    }
}

/* ---- bringing ---- */

static void
stage(struct engine_match *match)
{
    struct engine_session *session = match->session;

    if (session == NULL || session->peer == NULL || session->staged)
        return;
    {
        const uint64_t words[] = {session->number, session->puller, ENGINE_FULL};

        session->staged =
            start(session, session->peer, ENGINE_SESSION_STAGE, words, 3, ENGINE_SESSION_CALL_MS);
    }
}

static uint32_t
ready(struct engine_match *match, uint32_t first, uint32_t count)
{
    const struct engine_session *session = match->session;
    uint32_t there;

    if (session == NULL || session->peer == NULL || first - session->base >= session->ready)
        return 0;
    there = session->ready - (first - session->base);
    return count < there ? count : there;
}

static bool
prepared(struct engine_match *match)
{
    const struct engine_session *session = match->session;

    return session == NULL || session->peer == NULL || session->ready >= session->found;
}

static void
fill(struct engine_match *match, uint32_t first, struct engine_job *job)
{
    const struct engine_session *session = match->session;

    job->verb = ENGINE_PULL;
    job->peer = session->peer->instance;
    for (size_t i = 0; i < job->count; i++)
        job->items[i].source = session->blocks[first - session->base + i];
}

const struct engine_origin engine_origin_peer = {
    .search = search,
    .stage = stage,
    .ready = ready,
    .prepared = prepared,
    .fill = fill,
    .let_go = let_go,
};
