/* Finding: a match is made, and where its blocks are is looked up: here, and far away one place
 * after the other. */
#include <assert.h>
#include <string.h>

#include "base/core/deadline.h"

#include "engine/leader/leader_internal.h"

/* ---- looking ---- */

void
engine_find_know(struct engine_match *match)
{
    struct engine_match_view *view = &match->shared.view;
    uint32_t in[ENGINE_PLACE_END] = {0};

    match->asking = ENGINE_PLACE_NONE;
    if (match->end > match->found) /* else something went while the rest was looked for */
        match->end = match->found;
    for (uint32_t i = 0; i < match->found; i++)
        in[match->place[i]]++;
    (void)pthread_mutex_lock(&match->leader->shared.lock);
    view->in_g2 = in[ENGINE_PLACE_G2];
    view->in_g3 = in[ENGINE_PLACE_G3];
    view->in_peer = in[ENGINE_PLACE_PEER];
    view->in_objects = in[ENGINE_PLACE_OBJECTS];
    if (!match->for_peer) {
        match->leader->shared.stats.blocks_g2 += view->in_g2;
        match->leader->shared.stats.blocks_g3 += view->in_g3;
        match->leader->shared.stats.blocks_peer += view->in_peer;
        match->leader->shared.stats.blocks_objects += view->in_objects;
    }
    (void)pthread_mutex_unlock(&match->leader->shared.lock);
    engine_match_advance(match);
}

/* The next place far away to be asked, or NONE. */
static enum engine_place
next_far(const struct engine_match *match)
{
    const struct engine_leader *leader = match->leader;
    const bool wanted[ENGINE_PLACE_END] = {
        [ENGINE_PLACE_PEER] =
            match->peers && match->count - match->found >= leader->options.min_remote_blocks,
        [ENGINE_PLACE_OBJECTS] = match->objects,
    };

    if (match->found >= match->end)
        return ENGINE_PLACE_NONE;
    for (unsigned place = ENGINE_PLACE_PEER; place < ENGINE_PLACE_END; place++)
        if (wanted[place] && leader->origins[place] != NULL && (match->asked & (1u << place)) == 0)
            return (enum engine_place)place;
    return ENGINE_PLACE_NONE;
}

void
engine_find_search(struct engine_match *match)
{
    const enum engine_place place = next_far(match);

    if (place == ENGINE_PLACE_NONE) {
        engine_find_know(match);
        engine_match_go_on(match);
        return;
    }
    match->asked |= 1u << place;
    match->asking = place;
    match->leader->origins[place]->search(match);
}

void
engine_match_found(struct engine_match *match, uint32_t count, enum kvt_err why, const char *text)
{
    assert(match->state == ENGINE_SEARCHING && match->asking != ENGINE_PLACE_NONE);
    assert(count <= match->count - match->found);
    if (why != KVT_OK)
        engine_match_note(match, why, text);
    memset(match->place + match->found, (int)match->asking, count);
    match->found += count;
    match->asking = ENGINE_PLACE_NONE;
    engine_origin_near(match);
    engine_find_search(match);
}

void
engine_find_give_up(struct engine_match *match)
{
    const struct engine_origin *origin = match->leader->origins[match->asking];

    if (match->asking == ENGINE_PLACE_NONE)
        return;
    if (origin->let_go != NULL)
        origin->let_go(match, 0);
    match->asked &= ~(1u << match->asking);
}

/* ---- beginning ---- */

/* One of ENGINE_MATCHES_MAX, for `count` blocks. */
static enum kvt_err
make_match(struct engine_leader *leader, const struct kvbm_label *labels, size_t count,
           struct engine_match **out)
{
    bool full;

    *out = NULL;
    if (labels == NULL || count == 0)
        return KVT_INVALID;
    if (count > ENGINE_FIND_MAX)
        return KVT_RANGE;
    (void)pthread_mutex_lock(&leader->shared.lock);
    full = leader->shared.stats.matches >= ENGINE_MATCHES_MAX;
    leader->shared.stats.matches += !full;
    (void)pthread_mutex_unlock(&leader->shared.lock);
    if (full)
        return KVT_FULL;
    *out = engine_match_new(leader, count);
    if (*out == NULL) {
        (void)pthread_mutex_lock(&leader->shared.lock);
        leader->shared.stats.matches--;
        (void)pthread_mutex_unlock(&leader->shared.lock);
        return KVT_NOMEM;
    }
    memcpy((*out)->labels, labels, count * sizeof(*labels));
    (*out)->shared.view.wanted = (uint32_t)count;
    return KVT_OK;
}

/* What G2 and G3 had is known already, on the caller's thread; the rest is the leader's. */
enum kvt_err
engine_leader_find(struct engine_leader *leader, const struct engine_find *find,
                   struct engine_match **out)
{
    struct engine_match *match;
    const enum kvt_err rc = make_match(leader, find->labels, find->count, &match);
    bool at_once;

    *out = match;
    if (rc != KVT_OK)
        return rc;
    match->mode = find->mode;
    match->peers = find->peers;
    match->objects = find->objects;
    match->for_peer = engine_leader_is_thread(leader); /* others ask from threads of their own */
    match->until_ms = kvt_deadline_in(find->wait_ms);
    engine_origin_near(match);
    if (next_far(match) == ENGINE_PLACE_NONE) {
        engine_find_know(match);
        at_once = match->ready == match->end || find->mode == ENGINE_HOLD;
        if (at_once)
            engine_match_settle(match);
        else
            engine_match_publish(match, ENGINE_HOLDING);
    } else {
        at_once = false;
    }
    (void)pthread_mutex_lock(&leader->shared.lock);
    if (!match->for_peer) {
        leader->shared.stats.finds++;
        leader->shared.stats.ready_at_once += match->state == ENGINE_READY;
        leader->shared.stats.blocks_wanted += match->count;
    }
    (void)pthread_mutex_unlock(&leader->shared.lock);
    match->changed = find->changed;
    match->arg = find->arg;
    if (at_once)
        return KVT_OK;
    match->known = true;
    match->shared.stage = match->state == ENGINE_HOLDING;
    match->shared.mode = match->mode;
    match->shared.until_ms = match->until_ms;
    engine_leader_post(leader, &match->wake);
    return KVT_OK;
}

enum kvt_err
engine_leader_scan(struct engine_leader *leader, const struct kvbm_label *labels, size_t count,
                   engine_scan_fn *wants, void *arg, struct engine_match **out)
{
    struct engine_match *match;
    const enum kvt_err rc = make_match(leader, labels, count, &match);

    *out = match;
    if (rc != KVT_OK)
        return rc;
    match->mode = ENGINE_HOLD;
    engine_origin_scan(match, wants, arg);
    engine_find_know(match);
    engine_match_settle(match);
    return KVT_OK;
}
