/* The responder: what is held here for other instances, and what they are told of it. */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "engine/leader/session_internal.h"

struct puller {
    struct engine_responder *responder;
    uint64_t number;              /* 0: none */
    uint64_t link;                /* its last word came by */
    struct engine_rpc_call *look; /* that waits for news */
    uint32_t seen;
    bool told_end;
    struct engine_timer late; /* the look is answered without */
};

/* One session. */
struct engine_responder {
    struct engine_responder *next;
    struct engine_sessions *sessions;
    uint64_t number;
    struct engine_match *match;
    uint64_t hold_ms;
    struct engine_timer hold;
    uint32_t shown; /* blocks that can be read, without a hole */
    bool cut;       /* the next one could not be shown: there are no more */
    struct puller pullers[ENGINE_PULLERS_MAX];
};

/* A call on its way to the leader's thread; NULL: a link that has ended. */
struct question {
    struct engine_message message;
    struct engine_sessions *sessions;
    struct engine_rpc_call *call;
    uint64_t link;
};

/* ---- answers ---- */

static void
renew(struct engine_responder *responder)
{
    engine_leader_at(responder->sessions->leader, &responder->hold,
                     kvt_clock_mono_ms() + responder->hold_ms);
}

static void
answer(struct engine_rpc_call *call, const uint64_t *words, size_t count)
{
    struct kvt_buffer out;

    kvt_buffer_init(&out, ENGINE_RPC_PAYLOAD_MAX);
    engine_session_words_put(&out, words, count);
    engine_rpc_answer(call, kvt_buffer_ok(&out) ? KVT_OK : KVT_NOMEM,
                      kvt_buffer_ok(&out) ? out.data : NULL, kvt_buffer_ok(&out) ? out.size : 0);
    kvt_buffer_release(&out);
}

static void
refuse(struct engine_rpc_call *call, enum kvt_err why)
{
    engine_rpc_answer(call, why, NULL, 0);
}

static uint32_t
found(const struct engine_responder *responder)
{
    return responder->cut ? responder->shown : responder->match->end;
}

/* No more will be ready than is. */
static bool
is_at_end(const struct engine_responder *responder)
{
    return responder->match->state == ENGINE_FAILED || responder->shown == found(responder);
}

static void
answer_state(const struct engine_responder *responder, struct engine_rpc_call *call)
{
    const uint64_t words[] = {(uint64_t)responder->match->state, found(responder),
                              responder->shown};

    answer(call, words, 3);
}

/* [state, found, ready, numbers of blocks `seen` to `ready`] */
static void
answer_look(struct puller *puller)
{
    struct engine_responder *responder = puller->responder;
    struct engine_rpc_call *call = puller->look;
    const size_t count = responder->shown > puller->seen ? responder->shown - puller->seen : 0;
    uint64_t *words = kvt_calloc(3 + count, sizeof(*words));

    engine_leader_not_at(&puller->late);
    puller->look = NULL;
    renew(responder); /* the next look cannot come before this answer */
    if (words == NULL) {
        refuse(call, KVT_NOMEM);
        return;
    }
    words[0] = (uint64_t)responder->match->state;
    words[1] = found(responder);
    words[2] = responder->shown;
    for (size_t i = 0; i < count; i++)
        words[3 + i] = responder->match->g2[puller->seen + i].block;
    puller->told_end = is_at_end(responder);
    answer(call, words, 3 + count);
    kvt_free(words);
}

/* ---- what is held ---- */

static void
drop_puller(struct puller *puller, enum kvt_err why)
{
    engine_leader_not_at(&puller->late);
    if (puller->look != NULL)
        refuse(puller->look, why);
    puller->look = NULL;
    puller->number = 0;
}

static void
close_responder(struct engine_responder *responder)
{
    struct engine_sessions *sessions = responder->sessions;
    struct engine_responder **link = &sessions->responder;

    while (*link != responder)
        link = &(*link)->next;
    *link = responder->next;
    engine_leader_not_at(&responder->hold);
    for (size_t i = 0; i < ENGINE_PULLERS_MAX; i++)
        drop_puller(&responder->pullers[i], KVT_NOTFOUND);
    responder->match->watch = NULL;
    engine_match_release(responder->match);
    kvt_free(responder);
    (void)pthread_mutex_lock(&sessions->leader->shared.lock);
    sessions->leader->shared.stats.peer_sessions--;
    (void)pthread_mutex_unlock(&sessions->leader->shared.lock);
}

/* A session ends with its last puller. */
static void
close_unwanted(struct engine_responder *responder)
{
    for (size_t i = 0; i < ENGINE_PULLERS_MAX; i++)
        if (responder->pullers[i].number != 0)
            return;
    close_responder(responder);
}

void
engine_responder_clear(struct engine_sessions *sessions)
{
    while (sessions->responder != NULL)
        close_responder(sessions->responder);
}

/* Nothing was heard of its pullers: they may be gone, and blocks are wanted here. */
static void
expire(struct engine_leader *leader, struct engine_timer *timer)
{
    engine_leader_count(leader, &leader->shared.stats.peer_expired, 1);
    close_responder(
        (struct engine_responder *)((char *)timer - offsetof(struct engine_responder, hold)));
}

/* Whoever spoke over this link says no more: nothing is held for him. */
static void
end_link(struct engine_sessions *sessions, uint64_t link)
{
    struct engine_leader *leader = sessions->leader;
    struct engine_responder *next;

    for (struct engine_responder *responder = sessions->responder; responder != NULL;
         responder = next) {
        bool left = false;

        next = responder->next;
        for (size_t i = 0; i < ENGINE_PULLERS_MAX; i++) {
            if (responder->pullers[i].number == 0 || responder->pullers[i].link != link)
                continue;
            drop_puller(&responder->pullers[i], KVT_UNAVAILABLE);
            left = true;
        }
        if (left) {
            engine_leader_count(leader, &leader->shared.stats.peer_expired, 1);
            close_unwanted(responder);
        }
    }
}

/* Show what is ready, and tell who waits for that. */
static void
advance(struct engine_responder *responder)
{
    struct engine_leader *leader = responder->sessions->leader;
    const struct engine_match *match = responder->match;

    while (!responder->cut && responder->shown < match->ready) {
        const struct kvt_handle handle = match->g2[responder->shown];
        const enum engine_shown shown = engine_arrival_shown(leader, handle);

        if (shown == ENGINE_SHOWN_NOT)
            engine_leader_tell(leader, match->g2 + responder->shown,
                               match->ready - responder->shown, false);
        responder->cut = shown == ENGINE_SHOWN_FAILED;
        if (shown != ENGINE_SHOWN_WELL)
            break;
        responder->shown++;
    }
    for (size_t i = 0; i < ENGINE_PULLERS_MAX; i++) {
        struct puller *puller = &responder->pullers[i];

        if (puller->look != NULL &&
            (responder->shown > puller->seen || (is_at_end(responder) && !puller->told_end)))
            answer_look(puller);
    }
}

void
engine_responder_shown(struct engine_leader *leader)
{
    if (leader->sessions == NULL)
        return;
    for (struct engine_responder *responder = leader->sessions->responder; responder != NULL;
         responder = responder->next)
        advance(responder);
}

static void
watch(struct engine_match *match)
{
    advance(match->responder);
}

static struct engine_responder *
find_responder(struct engine_sessions *sessions, uint64_t number)
{
    struct engine_responder *responder = sessions->responder;

    while (responder != NULL && responder->number != number)
        responder = responder->next;
    return responder;
}

static struct puller *
find_puller(struct engine_responder *responder, uint64_t number)
{
    for (size_t i = 0; i < ENGINE_PULLERS_MAX; i++)
        if (responder->pullers[i].number == number)
            return &responder->pullers[i];
    return NULL;
}

static void
look_late(struct engine_leader *leader, struct engine_timer *timer)
{
    struct puller *puller = (struct puller *)((char *)timer - offsetof(struct puller, late));

    (void)leader;
    advance(puller->responder); /* a ring that was full is not any more */
    if (puller->look != NULL)
        answer_look(puller);
}

/* ---- questions ---- */

static struct engine_match *
open_match(struct engine_sessions *sessions, struct engine_session_words *words,
           enum engine_mode mode, enum kvt_err *rc)
{
    const size_t count = words->left / ENGINE_SESSION_LABEL_WORDS;
    struct engine_find find = {
        .count = count,
        .mode = mode == ENGINE_HOLD ? ENGINE_HOLD : ENGINE_FULL,
        .wait_ms = ENGINE_HOLD_MAX_MS,
    };
    struct engine_match *match = NULL;
    struct kvbm_label *labels;

    *rc = KVT_CORRUPT;
    if (words->in.bad || count == 0 || count > ENGINE_FIND_MAX)
        return NULL;
    labels = kvt_calloc(count, sizeof(*labels));
    for (size_t i = 0; labels != NULL && i < count; i++)
        engine_session_words_label(words, &labels[i]);
    find.labels = labels;
    if (labels == NULL)
        *rc = KVT_NOMEM;
    else if (engine_session_words_end(words))
        *rc = engine_leader_find(sessions->leader, &find, &match);
    kvt_free(labels);
    return match;
}

static struct engine_responder *
open_responder(struct engine_sessions *sessions, uint64_t number, struct engine_match *match,
               uint64_t hold_ms)
{
    struct engine_responder *responder = kvt_calloc(1, sizeof(*responder));

    if (responder == NULL)
        return NULL;
    responder->sessions = sessions;
    responder->number = number;
    responder->match = match;
    responder->hold_ms = hold_ms;
    responder->hold.run = expire;
    responder->next = sessions->responder;
    sessions->responder = responder;
    for (size_t i = 0; i < ENGINE_PULLERS_MAX; i++) {
        responder->pullers[i].responder = responder;
        responder->pullers[i].late.run = look_late;
    }
    match->responder = responder;
    match->watch = watch;
    (void)pthread_mutex_lock(&sessions->leader->shared.lock);
    sessions->leader->shared.stats.peer_sessions++;
    (void)pthread_mutex_unlock(&sessions->leader->shared.lock);
    return responder;
}

static uint64_t
hold_of(const struct engine_sessions *sessions, uint64_t asked_ms)
{
    uint64_t hold_ms = sessions->leader->options.hold_ms;

    if (asked_ms < hold_ms && asked_ms > 0)
        hold_ms = asked_ms;
    return hold_ms < ENGINE_HOLD_MAX_MS ? hold_ms : ENGINE_HOLD_MAX_MS;
}

static void
on_open(struct engine_sessions *sessions, struct engine_rpc_call *call,
        struct engine_session_words *words)
{
    const bool ours = engine_session_words_next(words, UINT64_MAX) == ENGINE_SESSION_VERSION;
    const uint64_t instance = engine_session_words_next(words, UINT64_MAX);
    const uint64_t number = engine_session_words_next(words, UINT64_MAX);
    const uint64_t puller = engine_session_words_next(words, UINT64_MAX);
    const enum engine_mode mode = (enum engine_mode)engine_session_words_next(words, ENGINE_FULL);
    const uint64_t hold_ms = hold_of(sessions, engine_session_words_next(words, UINT64_MAX));
    struct engine_responder *responder = find_responder(sessions, number);
    struct puller *place;

    if (!ours || puller == 0) {
        refuse(call, ours ? KVT_INVALID : KVT_UNSUPPORTED);
        return;
    }
    if (instance != sessions->leader->options.instance) { /* it would look in another memory */
        refuse(call, KVT_PRECONDITION);
        return;
    }
    if (responder == NULL) {
        static const uint64_t nothing[] = {ENGINE_READY, 0, 0};
        enum kvt_err rc = KVT_FULL;
        struct engine_match *match = NULL;

        if (sessions->leader->shared.stats.peer_sessions < ENGINE_SESSIONS_MAX)
            match = open_match(sessions, words, mode, &rc);
        if (match != NULL && match->found > 0)
            responder = open_responder(sessions, number, match, hold_ms);
        if (responder == NULL) {
            if (match == NULL)
                refuse(call, rc);
            else if (match->found == 0)
                answer(call, nothing, 3); /* and nothing is held */
            else
                refuse(call, KVT_NOMEM);
            engine_match_release(match);
            return;
        }
    }
    place = find_puller(responder, puller);
    if (place == NULL)
        place = find_puller(responder, 0);
    if (place == NULL) {
        refuse(call, KVT_FULL);
        return;
    }
    if (place->number != puller)
        place->told_end = false; /* somebody else's */
    place->number = puller;
    place->link = engine_rpc_call_link(call);
    renew(responder);
    advance(responder);
    answer_state(responder, call);
}

/* The session and the puller that a call names; NULL: refused. */
static struct puller *
puller_of(struct engine_sessions *sessions, struct engine_rpc_call *call,
          struct engine_session_words *words)
{
    struct engine_responder *responder =
        find_responder(sessions, engine_session_words_next(words, UINT64_MAX));
    const uint64_t number = engine_session_words_next(words, UINT64_MAX);
    struct puller *puller =
        responder == NULL || number == 0 ? NULL : find_puller(responder, number);

    if (words->in.bad || puller == NULL) {
        refuse(call, words->in.bad ? KVT_CORRUPT : KVT_NOTFOUND);
        return NULL;
    }
    puller->link = engine_rpc_call_link(call);
    renew(responder);
    return puller;
}

static void
on_look(struct engine_sessions *sessions, struct engine_rpc_call *call,
        struct engine_session_words *words)
{
    struct puller *puller = puller_of(sessions, call, words);
    uint64_t seen;
    uint64_t wait_ms;

    if (puller == NULL)
        return;
    seen = engine_session_words_next(words, ENGINE_FIND_MAX);
    wait_ms = engine_session_words_next(words, UINT64_MAX);
    if (!engine_session_words_end(words) || seen > puller->responder->shown) {
        refuse(call, KVT_CORRUPT);
        return;
    }
    if (puller->look != NULL)
        refuse(puller->look, KVT_CANCELLED); /* it asks anew */
    if (wait_ms > puller->responder->hold_ms / 2)
        wait_ms = puller->responder->hold_ms / 2;
    puller->look = call;
    puller->seen = (uint32_t)seen;
    engine_leader_at(sessions->leader, &puller->late, kvt_clock_mono_ms() + wait_ms);
    advance(puller->responder);
}

static void
on_stage(struct engine_sessions *sessions, struct engine_rpc_call *call,
         struct engine_session_words *words)
{
    struct puller *puller = puller_of(sessions, call, words);
    const struct engine_responder *responder;
    enum kvt_err rc = KVT_OK;

    if (puller == NULL)
        return;
    responder = puller->responder;
    if (engine_session_words_next(words, ENGINE_FULL) != ENGINE_HOLD &&
        responder->match->state == ENGINE_HOLDING)
        rc = engine_match_stage(responder->match, ENGINE_FULL, ENGINE_HOLD_MAX_MS);
    if (rc != KVT_OK)
        refuse(call, rc);
    else
        answer_state(responder, call);
}

static void
on_close(struct engine_sessions *sessions, struct engine_rpc_call *call,
         struct engine_session_words *words)
{
    static const uint64_t complete[] = {ENGINE_COMPLETE};
    struct puller *puller = puller_of(sessions, call, words);

    if (puller == NULL)
        return;
    drop_puller(puller, KVT_CANCELLED);
    close_unwanted(puller->responder);
    answer(call, complete, 1);
}

static void
run_question(struct engine_leader *leader, struct engine_message *message)
{
    struct question *question = (struct question *)message;
    struct engine_sessions *sessions = question->sessions;
    struct engine_rpc_call *call = question->call;
    struct engine_session_words words;
    const uint64_t link = question->link;
    const uint8_t *bytes;
    size_t size;

    (void)leader;
    kvt_free(question);
    if (call == NULL) {
        end_link(sessions, link);
        return;
    }
    bytes = engine_rpc_call_bytes(call, &size);
    engine_session_words_read(&words, bytes, size);
    if (sessions->closing)
        refuse(call, KVT_UNAVAILABLE);
    else if (engine_rpc_call_method(call) == ENGINE_SESSION_OPEN)
        on_open(sessions, call, &words);
    else if (engine_rpc_call_method(call) == ENGINE_SESSION_LOOK)
        on_look(sessions, call, &words);
    else if (engine_rpc_call_method(call) == ENGINE_SESSION_STAGE)
        on_stage(sessions, call, &words);
    else
        on_close(sessions, call, &words);
}

/* ---- on rpc's threads ---- */

static void
hand_over(void *arg, struct engine_rpc_call *call)
{
    struct engine_sessions *sessions = arg;
    struct question *question = kvt_calloc(1, sizeof(*question));

    if (question == NULL) {
        refuse(call, KVT_NOMEM);
        return;
    }
    question->message.run = run_question;
    question->sessions = sessions;
    question->call = call;
    engine_leader_post(sessions->leader, &question->message);
}

void
engine_responder_link_gone(void *arg, uint64_t link)
{
    struct engine_sessions *sessions = arg;
    struct question *question = kvt_calloc(1, sizeof(*question));

    if (question == NULL)
        return; /* holds end by themselves */
    question->message.run = run_question;
    question->sessions = sessions;
    question->link = link;
    engine_leader_post(sessions->leader, &question->message);
}

/* [version, instance], and behind it what the worker says. */
static void
describe(void *arg, struct engine_rpc_call *call)
{
    const struct engine_sessions *sessions = arg;
    const uint64_t words[] = {ENGINE_SESSION_VERSION, sessions->leader->options.instance};
    const uint64_t left_ms = engine_rpc_call_wait_ms(call);
    struct kvt_buffer out;
    enum kvt_err rc;

    kvt_buffer_init(&out, ENGINE_METADATA_MAX + 64);
    engine_session_words_put(&out, words, 2);
    rc = engine_worker_describe(sessions->leader->options.worker, &out, left_ms, NULL);
    if (rc == KVT_OK && !kvt_buffer_ok(&out))
        rc = KVT_NOMEM;
    engine_rpc_answer(call, rc, rc == KVT_OK ? out.data : NULL, rc == KVT_OK ? out.size : 0);
    kvt_buffer_release(&out);
}

const struct engine_rpc_method engine_responder_methods[] = {
    {ENGINE_SESSION_DESCRIBE, "describe", describe, true},
    {ENGINE_SESSION_OPEN, "open", hand_over, false},
    {ENGINE_SESSION_LOOK, "look", hand_over, false},
    {ENGINE_SESSION_STAGE, "stage", hand_over, false},
    {ENGINE_SESSION_CLOSE, "close", hand_over, false},
};
const size_t engine_responder_method_count =
    sizeof(engine_responder_methods) / sizeof(engine_responder_methods[0]);
