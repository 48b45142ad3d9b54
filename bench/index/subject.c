#include "bench/index/subject.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "bench/index/corpus.h"

#define BYTES_MAX (UINT64_C(8) << 30)

enum { ASIDE_CHAINS = 64, ASIDE_CHAIN = 64, ASIDE_SEED = 7 };

/* A second tenant with a little of its own: nothing may depend on there being one. */
static enum kvt_err
fill_aside(struct subject *subject)
{
    const struct index_holder key = {.name = "aside", .tier = KVT_TIER_G2};
    uint64_t locals[ASIDE_CHAIN];
    uint64_t hashes[ASIDE_CHAIN];
    uint32_t ns;
    uint32_t holder;
    enum kvt_err rc = index_namespace(subject->index, "tenant/other", &ns);

    if (rc == KVT_OK)
        rc = index_holder(subject->index, &key, &holder);
    for (uint64_t chain = 0; chain < ASIDE_CHAINS && rc == KVT_OK; chain++) {
        struct index_change change = {
            .hashes = hashes,
            .tokens = locals,
            .size = SUBJECT_SIZE,
            .time_ms = kvt_clock_unix_ms(),
            .count = ASIDE_CHAIN,
            .ns = ns,
            .holder = holder,
            .ranks = 1,
            .kind = INDEX_STORE,
        };

        for (uint64_t i = 0; i < ASIDE_CHAIN; i++)
            locals[i] = corpus_local(ASIDE_SEED, chain, i);
        corpus_sequence(locals, ASIDE_CHAIN, hashes);
        index_apply(subject->index, &change, 1);
        rc = change.status;
    }
    return rc;
}

enum kvt_err
subject_new(struct subject **out)
{
    struct subject *subject = kvt_calloc(1, sizeof(*subject));
    struct index_stats stats;
    enum kvt_err rc;

    *out = NULL;
    if (subject == NULL)
        return KVT_NOMEM;
    rc = index_new(&subject->index, BYTES_MAX);
    if (rc == KVT_OK)
        rc = index_namespace(subject->index, "tenant/model", &subject->ns);
    if (rc == KVT_OK)
        rc = fill_aside(subject);
    if (rc != KVT_OK) {
        subject_free(subject);
        return rc;
    }
    index_stats(subject->index, &stats);
    subject->aside = stats.places;
    *out = subject;
    return KVT_OK;
}

void
subject_free(struct subject *subject)
{
    if (subject == NULL)
        return;
    index_free(subject->index);
    kvt_free(subject);
}

static enum kvt_err
make_holder(struct subject *subject, uint64_t worker, uint32_t *holder)
{
    struct index_holder key = {.tier = KVT_TIER_G1};

    if (subject->holder_count == SUBJECT_HOLDERS_MAX)
        return KVT_FULL;
    (void)snprintf(key.name, sizeof(key.name), "worker-%016" PRIx64, worker);
    subject->holder_count++;
    return index_holder(subject->index, &key, holder);
}

enum kvt_err
subject_holder(struct subject *subject, uint64_t worker, uint32_t *holder)
{
    const size_t mask = 2 * SUBJECT_HOLDERS_MAX - 1;
    size_t at = worker * UINT64_C(0x9e3779b97f4a7c15) >> 40 & mask;
    enum kvt_err rc;

    while (subject->holders[at].used && subject->holders[at].worker != worker)
        at = (at + 1) & mask;
    if (!subject->holders[at].used) {
        rc = make_holder(subject, worker, &subject->holders[at].holder);
        if (rc != KVT_OK)
            return rc;
        subject->holders[at].worker = worker;
        subject->holders[at].used = true;
    }
    *holder = subject->holders[at].holder;
    return KVT_OK;
}

uint64_t
subject_memberships(struct subject *subject)
{
    struct index_stats stats;

    index_stats(subject->index, &stats);
    return stats.places - subject->aside;
}

/* ---- batches ---- */

enum kvt_err
subject_batch_new(struct subject_batch **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

void
subject_batch_free(struct subject_batch *batch)
{
    if (batch == NULL)
        return;
    kvt_free(batch->events);
    kvt_free(batch->blocks);
    kvt_free(batch->hashes);
    kvt_free(batch->tokens);
    kvt_free(batch);
}

void
subject_batch_clear(struct subject_batch *batch)
{
    batch->event_count = 0;
    batch->block_count = 0;
}

static enum kvt_err
grow(void **items, size_t *room, size_t wanted, size_t size)
{
    size_t more = *room == 0 ? SUBJECT_BATCH_BLOCKS + CORPUS_CHAIN_MAX : *room;
    void *grown;

    if (wanted <= *room)
        return KVT_OK;
    while (more < wanted)
        more *= 2;
    grown = kvt_realloc(*items, more, size);
    if (grown == NULL)
        return KVT_NOMEM;
    *items = grown;
    *room = more;
    return KVT_OK;
}

/* A new event with room for its blocks, or NULL. */
static struct wire_raw_event *
add_event(struct subject_batch *batch, uint64_t worker, uint32_t count)
{
    struct wire_raw_event *event;
    void *events = batch->events;
    void *blocks = batch->blocks;
    enum kvt_err rc;

    rc = grow(&events, &batch->event_room, batch->event_count + 1, sizeof(*batch->events));
    if (rc == KVT_OK)
        rc = grow(&blocks, &batch->block_room, batch->block_count + count, sizeof(*batch->blocks));
    batch->events = events;
    batch->blocks = blocks;
    if (rc != KVT_OK)
        return NULL;
    event = &batch->events[batch->event_count++];
    *event = (struct wire_raw_event){
        .worker = worker,
        .first = (uint32_t)batch->block_count,
        .count = count,
        .ranks = 1,
        .tier = KVT_TIER_G1,
    };
    batch->block_count += count;
    return event;
}

enum kvt_err
subject_batch_store(struct subject_batch *batch, uint64_t worker, uint64_t parent,
                    uint32_t position, const uint64_t *hashes, const uint64_t *locals,
                    uint32_t count)
{
    struct wire_raw_event *event = add_event(batch, worker, count);

    if (event == NULL)
        return KVT_NOMEM;
    event->kind = WIRE_RAW_STORE;
    event->position = position;
    event->has_parent = position > 0;
    event->parent = position > 0 ? parent : 0;
    for (uint32_t i = 0; i < count; i++)
        batch->blocks[event->first + i] =
            (struct wire_raw_block){.hash = hashes[i], .tokens_hash = locals[i]};
    return KVT_OK;
}

enum kvt_err
subject_batch_remove(struct subject_batch *batch, uint64_t worker, const uint64_t *hashes,
                     uint32_t count)
{
    struct wire_raw_event *event = add_event(batch, worker, count);

    if (event == NULL)
        return KVT_NOMEM;
    event->kind = WIRE_RAW_REMOVE;
    for (uint32_t i = 0; i < count; i++)
        batch->blocks[event->first + i] = (struct wire_raw_block){.hash = hashes[count - 1 - i]};
    return KVT_OK;
}

/* ---- events into changes into the index ---- */

static enum kvt_err
reserve_hashes(struct subject_batch *batch, size_t wanted)
{
    uint64_t *hashes;
    uint64_t *tokens;

    if (wanted <= batch->room)
        return KVT_OK;
    hashes = kvt_realloc(batch->hashes, wanted, sizeof(*hashes));
    if (hashes == NULL)
        return KVT_NOMEM;
    batch->hashes = hashes;
    tokens = kvt_realloc(batch->tokens, wanted, sizeof(*tokens));
    if (tokens == NULL)
        return KVT_NOMEM;
    batch->tokens = tokens;
    batch->room = wanted;
    return KVT_OK;
}

static void
fill_change(const struct subject *subject, struct subject_batch *batch,
            const struct wire_raw_event *event, size_t at, struct index_change *change)
{
    const struct wire_raw_block *blocks = &batch->blocks[event->first];
    const bool store = event->kind == WIRE_RAW_STORE;

    *change = (struct index_change){
        .hashes = batch->hashes + at,
        .tokens = store ? batch->tokens + at : NULL,
        .parent = event->parent,
        .size = SUBJECT_SIZE,
        .position = event->position,
        .count = event->count,
        .ns = subject->ns,
        .ranks = event->ranks,
        .kind = store ? INDEX_STORE : INDEX_REMOVE,
    };
    for (uint32_t i = 0; i < event->count; i++) {
        batch->hashes[at + i] = blocks[i].hash;
        batch->tokens[at + i] = blocks[i].tokens_hash;
    }
}

static enum kvt_err
apply_changes(struct subject *subject, struct subject_batch *batch, size_t count)
{
    index_apply(subject->index, batch->changes, count);
    for (size_t i = 0; i < count; i++)
        if (batch->changes[i].status != KVT_OK)
            return batch->changes[i].status;
    return KVT_OK;
}

enum kvt_err
subject_apply(struct subject *subject, struct subject_batch *batch, size_t from, size_t to)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    size_t changes = 0;
    size_t blocks = 0;
    enum kvt_err rc = reserve_hashes(batch, SUBJECT_CHANGE_BLOCKS + CORPUS_CHAIN_MAX);

    for (size_t i = from; i < to && rc == KVT_OK; i++) {
        const struct wire_raw_event *event = &batch->events[i];
        struct index_change *change = &batch->changes[changes];

        if (changes == 0)
            rc = reserve_hashes(batch, event->count);
        if (rc != KVT_OK)
            break;
        fill_change(subject, batch, event, blocks, change);
        change->time_ms = now_ms;
        rc = subject_holder(subject, event->worker, &change->holder);
        changes++;
        blocks += event->count;
        if (rc == KVT_OK && (changes == SUBJECT_CHANGES || i + 1 == to ||
                             blocks + batch->events[i + 1].count > batch->room)) {
            rc = apply_changes(subject, batch, changes);
            changes = 0;
            blocks = 0;
        }
    }
    return rc;
}
