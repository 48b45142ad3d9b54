/* A match: what is seen of it, what it holds, how it goes from state to state, and what its owner
 * asks of it.  How its blocks are found is in leader_find.c. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/deadline.h"
#include "base/thread/cond.h"

#include "engine/leader/leader_internal.h"

static const char late[] = "the time of the match is over";

static bool
is_over(enum engine_state state)
{
    return state == ENGINE_COMPLETE || state == ENGINE_FAILED;
}

/* ---- what is seen of it ---- */

void
engine_match_publish(struct engine_match *match, enum engine_state state)
{
    struct engine_leader *leader = match->leader;
    struct engine_match_view view;
    bool call;

    (void)pthread_mutex_lock(&leader->shared.lock);
    call = state != match->state && match->changed != NULL && !match->shared.released;
    match->state = state;
    match->shared.view.state = state;
    match->shared.view.found = match->found;
    match->shared.view.ready = match->ready;
    match->shared.end = match->end;
    match->shared.calling = call;
    view = match->shared.view;
    (void)pthread_cond_broadcast(&leader->shared.moved);
    (void)pthread_mutex_unlock(&leader->shared.lock);
    if (match->watch != NULL)
        match->watch(match);
    if (!call)
        return;
    match->changed(match->arg, match, &view);
    (void)pthread_mutex_lock(&leader->shared.lock);
    match->shared.calling = false;
    (void)pthread_cond_broadcast(&leader->shared.moved);
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

void
engine_match_advance(struct engine_match *match)
{
    const uint32_t before = match->ready;

    while (match->ready < match->end && match->g2[match->ready].generation != 0)
        match->ready++;
    if (match->ready > before)
        engine_match_publish(match, match->state);
}

void
engine_match_note(struct engine_match *match, enum kvt_err why, const char *text)
{
    struct engine_leader *leader = match->leader;

    (void)pthread_mutex_lock(&leader->shared.lock);
    if (!match->shared.view.shortened) {
        match->shared.view.shortened = true;
        match->shared.view.why = why;
        (void)snprintf(match->shared.view.text, sizeof(match->shared.view.text), "%s",
                       text != NULL && text[0] != '\0' ? text : kvt_err_text(why));
        leader->shared.stats.shortened++;
    }
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

void
engine_match_view(struct engine_match *match, struct engine_match_view *view)
{
    (void)pthread_mutex_lock(&match->leader->shared.lock);
    *view = match->shared.view;
    (void)pthread_mutex_unlock(&match->leader->shared.lock);
}

enum kvt_err
engine_match_wait(struct engine_match *match, uint32_t states, uint64_t wait_ms,
                  struct engine_match_view *view)
{
    struct engine_leader *leader = match->leader;
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    bool there;

    assert(!engine_leader_is_thread(leader));
    (void)pthread_mutex_lock(&leader->shared.lock);
    for (;;) {
        const enum engine_state state = match->shared.view.state;

        there = is_over(state) || (states & ENGINE_STATE_BIT(state)) != 0;
        if (there || !kvt_cond_wait(&leader->shared.moved, &leader->shared.lock, &deadline))
            break;
    }
    if (view != NULL)
        *view = match->shared.view;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    return there ? KVT_OK : KVT_TIMEOUT;
}

size_t
engine_match_blocks(struct engine_match *match, struct kvt_handle *handles, size_t capacity)
{
    size_t count;

    (void)pthread_mutex_lock(&match->leader->shared.lock);
    count = match->shared.view.ready < capacity ? match->shared.view.ready : capacity;
    memcpy(handles, match->g2, count * sizeof(*handles));
    (void)pthread_mutex_unlock(&match->leader->shared.lock);
    return count;
}

size_t
engine_match_take(struct engine_match *match, struct kvt_handle *handles, size_t capacity)
{
    size_t count = 0;

    (void)pthread_mutex_lock(&match->leader->shared.lock);
    if (match->shared.view.ready > match->shared.taken)
        count = match->shared.view.ready - match->shared.taken;
    if (count > capacity)
        count = capacity;
    memcpy(handles, match->g2 + match->shared.taken, count * sizeof(*handles));
    match->shared.taken += (uint32_t)count;
    (void)pthread_mutex_unlock(&match->leader->shared.lock);
    atomic_fetch_sub(&match->leader->pins, count);
    return count;
}

/* ---- what it holds ---- */

static void
drop(struct engine_match *match, struct kvbm_pool *pool, struct kvt_handle *handles, uint32_t from)
{
    uint32_t held = 0;

    if (pool == NULL || from >= match->count)
        return;
    for (uint32_t i = from; i < match->count; i++)
        held += handles[i].generation != 0;
    kvbm_pool_drop_all(pool, handles + from, match->count - from);
    memset(handles + from, 0, (match->count - from) * sizeof(*handles));
    atomic_fetch_sub(&match->leader->pins, held);
}

/* Nothing is wanted from block `from` on that is elsewhere; 0: nothing at all. */
static void
let_far_go(struct engine_match *match, uint32_t from)
{
    struct engine_leader *leader = match->leader;

    for (unsigned place = ENGINE_PLACE_PEER; place < ENGINE_PLACE_END; place++) {
        if ((match->asked & (1u << place)) == 0)
            continue;
        if (leader->origins[place]->let_go != NULL)
            leader->origins[place]->let_go(match, from);
        if (from == 0)
            match->asked &= ~(1u << place);
    }
}

/* All from block `from` on, here and elsewhere; what its owner took is not ours. */
static void
let_go(struct engine_match *match, uint32_t from)
{
    struct engine_leader *leader = match->leader;
    uint32_t taken;

    (void)pthread_mutex_lock(&leader->shared.lock);
    if (from < match->shared.view.ready) /* and no more are taken */
        match->shared.view.ready = from;
    taken = match->shared.taken;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    let_far_go(match, from);
    drop(match, leader->options.g3, match->source, from);
    drop(match, leader->options.g2, match->g2, from > taken ? from : taken);
}

static void
unlist(struct engine_match *match)
{
    engine_leader_not_at(&match->deadline);
    if (match->link == NULL)
        return;
    *match->link = match->next;
    if (match->next != NULL)
        match->next->link = match->link;
    match->link = NULL;
}

/* What is under way for it goes on for nobody. */
static void
orphan(struct engine_match *match)
{
    for (struct engine_leader_job *task = match->leader->busy; task != NULL; task = task->next)
        if (task->match == match)
            task->match = NULL;
    match->running = 0;
}

static void
fail(struct engine_match *match, enum kvt_err why, const char *text)
{
    struct engine_leader *leader = match->leader;

    unlist(match);
    orphan(match);
    (void)pthread_mutex_lock(&leader->shared.lock);
    match->shared.view.state = ENGINE_FAILED; /* at once: nobody sees it READY with nothing */
    match->shared.view.ready = 0;
    match->shared.view.why = why;
    (void)snprintf(match->shared.view.text, sizeof(match->shared.view.text), "%s", text);
    leader->shared.stats.failed++;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    let_go(match, 0);
    match->ready = 0;
    engine_match_publish(match, ENGINE_FAILED);
}

static void
destroy(struct engine_match *match)
{
    struct engine_leader *leader = match->leader;

    kvt_free(match->labels);
    kvt_free(match->g2);
    kvt_free(match->source);
    kvt_free(match->place);
    kvt_free(match);
    (void)pthread_mutex_lock(&leader->shared.lock);
    leader->shared.stats.matches--;
    (void)pthread_cond_broadcast(&leader->shared.moved); /* there may be room now */
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

/* ---- from state to state ---- */

void
engine_match_settle(struct engine_match *match)
{
    const bool here = match->ready == match->end;

    if (match->ready == 0 && match->shared.view.why == KVT_TIMEOUT && match->mode != ENGINE_HOLD) {
        fail(match, KVT_TIMEOUT, late); /* whose clock was first, the job's or ours */
        return;
    }
    unlist(match);
    if (here)
        let_far_go(match, 0);
    engine_match_publish(match,
                         here || match->state == ENGINE_STAGING ? ENGINE_READY : ENGINE_HOLDING);
}

static void
stage(struct engine_match *match)
{
    struct engine_leader *leader = match->leader;

    engine_match_publish(match, ENGINE_STAGING);
    for (unsigned place = ENGINE_PLACE_PEER; place < ENGINE_PLACE_END; place++)
        if ((match->asked & (1u << place)) != 0 && leader->origins[place]->stage != NULL)
            leader->origins[place]->stage(match);
    engine_match_pump(match);
}

void
engine_match_go_on(struct engine_match *match)
{
    if (match->mode == ENGINE_HOLD || match->ready == match->end) {
        engine_match_settle(match);
        return;
    }
    engine_match_publish(match, ENGINE_HOLDING);
    stage(match);
}

void
engine_match_pump(struct engine_match *match)
{
    if (match->state == ENGINE_STAGING && engine_stage_step(match))
        engine_match_settle(match);
}

void
engine_match_cut(struct engine_match *match, uint32_t end, enum kvt_err why, const char *text)
{
    if (end < match->ready)
        end = match->ready;
    if (end >= match->end || is_over(match->state))
        return;
    engine_match_note(match, why, text);
    match->end = end;
    if (match->at > end)
        match->at = end;
    let_go(match, end);
}

/* Its time is over: what is ready is what it gets; where nothing had to move, what was found. */
static void
expire(struct engine_leader *leader, struct engine_timer *timer)
{
    struct engine_match *match =
        (struct engine_match *)((char *)timer - offsetof(struct engine_match, deadline));

    (void)leader;
    if (match->state == ENGINE_SEARCHING) {
        orphan(match);
        engine_find_give_up(match);
        engine_find_know(match);
        engine_match_note(match, KVT_TIMEOUT, late);
    }
    if (match->mode == ENGINE_HOLD && match->found > 0) {
        engine_match_settle(match);
        return;
    }
    if (match->ready == 0) {
        fail(match, KVT_TIMEOUT, late);
        return;
    }
    orphan(match);
    engine_match_cut(match, match->ready, KVT_TIMEOUT, late);
    engine_match_settle(match);
}

/* ---- what its owner asks for ---- */

static void
list(struct engine_match *match, uint64_t until_ms)
{
    struct engine_leader *leader = match->leader;
    struct engine_match **link = &leader->staging;

    match->until_ms = until_ms;
    if (until_ms != UINT64_MAX)
        engine_leader_at(leader, &match->deadline, until_ms);
    while (*link != NULL) /* oldest first: nobody is overtaken for ever */
        link = &(*link)->next;
    match->next = NULL;
    match->link = link;
    *link = match;
}

static void
stage_anew(struct engine_match *match, enum engine_mode mode, uint64_t until_ms)
{
    if (match->state == ENGINE_READY && match->ready == match->end) {
        engine_match_publish(match, ENGINE_READY); /* it came while this was asked for */
        return;
    }
    unlist(match); /* it may be staged already, for another mode or time */
    match->mode = mode;
    if (match->state != ENGINE_STAGING)
        match->at = match->ready;
    match->room_ms = 0;
    list(match, until_ms);
    stage(match);
}

/* The leader's thread looks what is wanted of it. */
static void
wake(struct engine_leader *leader, struct engine_message *message)
{
    struct engine_match *match =
        (struct engine_match *)((char *)message - offsetof(struct engine_match, wake));
    bool released;
    bool cancelled;
    bool staged;
    uint64_t until_ms;
    enum engine_mode mode;

    (void)pthread_mutex_lock(&leader->shared.lock);
    if (message->queued) { /* again, meanwhile: it comes once more, and may be the last */
        (void)pthread_mutex_unlock(&leader->shared.lock);
        return;
    }
    released = match->shared.released;
    cancelled = match->shared.cancelled;
    staged = match->shared.stage;
    until_ms = match->shared.until_ms;
    mode = match->shared.mode;
    match->shared.stage = false;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    if (released) {
        unlist(match);
        orphan(match);
        let_go(match, 0);
        destroy(match);
        engine_stage_all(leader);
    } else if (is_over(match->state)) {
        return;
    } else if (cancelled) {
        fail(match, KVT_CANCELLED, "the match was cancelled");
        engine_stage_all(leader);
    } else if (staged) {
        stage_anew(match, mode, until_ms);
    } else if (match->state == ENGINE_SEARCHING && match->link == NULL) {
        list(match, match->until_ms);
        engine_find_search(match);
    }
}

enum kvt_err
engine_match_stage(struct engine_match *match, enum engine_mode mode, uint64_t wait_ms)
{
    struct engine_leader *leader = match->leader;
    struct engine_match_view *view = &match->shared.view;
    enum kvt_err rc = KVT_OK;
    bool more;

    (void)pthread_mutex_lock(&leader->shared.lock);
    more = mode != ENGINE_HOLD && view->ready < view->found;
    if (view->state == ENGINE_READY)
        more = mode == ENGINE_FULL && view->ready < match->shared.end;
    if (view->state != ENGINE_READY && view->state != ENGINE_HOLDING)
        rc = KVT_PRECONDITION;
    else if (more) {
        view->state = ENGINE_STAGING; /* who waits from now on waits for what comes */
        match->shared.stage = true;
        match->shared.mode = mode;
        match->shared.until_ms = kvt_deadline_in(wait_ms);
        match->known = true;
    }
    (void)pthread_mutex_unlock(&leader->shared.lock);
    if (rc == KVT_OK && more)
        engine_leader_post(leader, &match->wake);
    return rc;
}

void
engine_match_cancel(struct engine_match *match)
{
    (void)pthread_mutex_lock(&match->leader->shared.lock);
    match->shared.cancelled = true;
    match->known = true;
    (void)pthread_mutex_unlock(&match->leader->shared.lock);
    engine_leader_post(match->leader, &match->wake);
}

void
engine_match_release(struct engine_match *match)
{
    struct engine_leader *leader;
    bool known;

    if (match == NULL)
        return;
    leader = match->leader;
    (void)pthread_mutex_lock(&leader->shared.lock);
    assert(!match->shared.released);
    while (match->shared.calling && !engine_leader_is_thread(leader))
        (void)pthread_cond_wait(&leader->shared.moved, &leader->shared.lock);
    match->shared.released = true;
    known = match->known;
    if (known)
        engine_leader_post_locked(leader, &match->wake);
    (void)pthread_mutex_unlock(&leader->shared.lock);
    if (known)
        return;
    let_go(match, 0);
    destroy(match);
}

/* ---- making one ---- */

struct engine_match *
engine_match_new(struct engine_leader *leader, size_t count)
{
    struct engine_match *match = kvt_calloc(1, sizeof(*match));

    if (match == NULL)
        return NULL;
    match->leader = leader;
    match->count = (uint32_t)count;
    match->end = (uint32_t)count;
    match->until_ms = UINT64_MAX;
    match->wake.run = wake;
    match->deadline.run = expire;
    match->labels = kvt_calloc(count, sizeof(*match->labels));
    match->g2 = kvt_calloc(count, sizeof(*match->g2));
    match->source = kvt_calloc(count, sizeof(*match->source));
    match->place = kvt_calloc(count, sizeof(*match->place));
    if (match->labels != NULL && match->g2 != NULL && match->source != NULL && match->place != NULL)
        return match;
    kvt_free(match->labels);
    kvt_free(match->g2);
    kvt_free(match->source);
    kvt_free(match->place);
    kvt_free(match);
    return NULL;
}
