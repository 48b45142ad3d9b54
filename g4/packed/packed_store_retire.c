#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/random.h"
#include "g4/packed/packed_store_internal.h"

enum {
    BATCH = 1024,
    IDLE_MS = 1000,
    TOTALS_AGE_MS = 5000, /* of the manifest they are told of */
    PAUSE_MIN_MS = 20,    /* while somebody else has the lock, doubled each time up to */
    PAUSE_MAX_MS =
        100, /* who packs gives it back for so long now and then (gateway/tier/packer.c) */
    HURRY_AFTER_MS = 5000, /* who packs here has so long before a deletion makes it stop */
    LOOK_MS = 2000,        /* of one look at a lock: others wait for this thread meanwhile */
    SETTLE_MS = 2000,      /* what a former life had sent is answered, or cut off, by then */
};

/* ---- the lock of a namespace ---- */

/* False: not proved yet, or not safe. */
static bool
may_lock(struct g4_packed_store *store, struct g4_selftest *proved)
{
    bool known;

    pthread_mutex_lock(&store->shared.lock);
    known = store->shared.proved;
    *proved = store->shared.selftest;
    pthread_mutex_unlock(&store->shared.lock);
    return known;
}

/* Take back, once, a lock that a killed process of the same name left.  Its epoch fences whatever
 * of it is still under way. */
static enum kvt_err
settle(struct g4_packed_store *store, struct g4_packed_space *space, struct kvt_error *err)
{
    struct g4_lease_seen seen;
    char key[KVT_KEY_MAX];
    enum kvt_err rc;

    if (space->settled)
        return KVT_OK;
    rc = g4_compaction_lock_key(key, space->name);
    if (rc == KVT_OK)
        rc = g4_lock_look(store->inner, key, kvt_clock_mono_ms() + LOOK_MS, &seen, err);
    if (rc == KVT_OK && !seen.malformed && !seen.expired && !seen.body.released &&
        strcmp(seen.body.instance, store->instance) == 0) {
        if (kvt_clock_mono_ms() - store->opened_ms < SETTLE_MS)
            return kvt_error_set(err, KVT_BUSY, "the lock of a former life is not settled yet");
        rc = g4_lock_break(store->inner, key, &seen, store->instance, err);
        kvt_log_info("g4.packed", "lock_taken_back", "%s: left by a former life: %s", space->name,
                     kvt_err_text(rc));
    }
    if (rc == KVT_OK || rc == KVT_NOTFOUND || rc == KVT_PRECONDITION)
        space->settled = true;
    return space->settled ? KVT_OK : rc;
}

/* Everything a run needs; `lock` stays NULL where nobody else is. */
static enum kvt_err
take(struct g4_packed_store *store, struct g4_packed_space *space,
     struct g4_compaction_options *options, struct kvt_error *err)
{
    struct g4_selftest proved;
    const struct g4_lock_options lock = {.store = store->inner,
                                         .proved = &proved,
                                         .instance = store->instance,
                                         .ttl_ms = G4_PACKED_STORE_LEASE_MS};
    enum kvt_err rc = KVT_OK;

    if (!may_lock(store, &proved))
        return kvt_error_set(err, KVT_AGAIN, "the store was not tested yet");
    if (atomic_load(&store->stopping))
        return kvt_error_set(err, KVT_CANCELLED, "stopping");
    if (atomic_exchange(&space->taken, true))
        return kvt_error_set(err, KVT_BUSY, "%.80s is being packed", space->name);
    *options = (struct g4_compaction_options){.store = store->inner,
                                              .namespace_ = space->name,
                                              .settings = g4_compaction_defaults(),
                                              .writer = store->instance,
                                              .delete_if_match = proved.delete_if_match,
                                              .request_ms = G4_PACKED_STORE_LEASE_MS / 3};
    if (!store->alone) {
        rc = settle(store, space, err);
        if (rc == KVT_OK)
            rc = g4_compaction_lock(&options->lock, &lock, space->name, err);
    }
    if (rc != KVT_OK)
        atomic_store(&space->taken, false);
    return rc;
}

static void
give_back(struct g4_packed_space *space, struct g4_compaction_options *options)
{
    (void)g4_lock_release(options->lock, NULL); /* one that is lost ends by itself */
    g4_packed_doubt(space->packed);
    atomic_store(&space->taken, false);
}

/* ---- packing ---- */

enum kvt_err
g4_packed_store_compact(struct g4_store *store_, size_t index,
                        const struct g4_compaction_settings *settings,
                        struct g4_compaction_report *report, struct kvt_error *err)
{
    struct g4_packed_store *store = g4_packed_store_of(store_);
    struct g4_packed_space *space = &store->spaces[index];
    struct g4_compaction_options options;
    enum kvt_err rc;

    *report = (struct g4_compaction_report){.more = true};
    rc = take(store, space, &options, err);
    if (rc != KVT_OK)
        return rc;
    options.settings = *settings;
    options.stop = &space->hurry;
    rc = g4_compaction_run(&options, report, err);
    give_back(space, &options);
    return rc;
}

enum kvt_err
g4_packed_store_look(struct g4_store *store_, size_t index,
                     const struct g4_compaction_settings *settings,
                     struct g4_compaction_outlook *outlook, struct kvt_error *err)
{
    struct g4_packed_store *store = g4_packed_store_of(store_);
    const struct g4_compaction_options options = {.store = store->inner,
                                                  .namespace_ = store->spaces[index].name,
                                                  .settings = *settings,
                                                  .stop = &store->stopping};

    return g4_compaction_look(&options, outlook, err);
}

enum kvt_err
g4_packed_store_remains(struct g4_store *store_, size_t index,
                        struct g4_compaction_remains *remains, struct kvt_error *err)
{
    struct g4_packed_store *store = g4_packed_store_of(store_);

    return g4_compaction_remains(store->inner, store->spaces[index].name, remains, err);
}

enum kvt_err
g4_packed_store_clear(struct g4_store *store_, size_t index, uint64_t *blocks,
                      struct kvt_error *err)
{
    struct g4_packed_store *store = g4_packed_store_of(store_);
    struct g4_packed_space *space = &store->spaces[index];
    struct g4_compaction_options options;
    enum kvt_err rc;

    *blocks = 0;
    rc = take(store, space, &options, err);
    if (rc != KVT_OK)
        return rc;
    options.stop = &store->stopping;
    rc = g4_compaction_clear(&options, blocks, err);
    give_back(space, &options);
    return rc;
}

/* ---- taking blocks out ---- */

/* Answer those whose time is over, or all of them. */
static void
end_waits(struct g4_packed_space *space, enum kvt_err rc, const struct kvt_error *err, bool all)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct g4_packed_call **link = &space->waits.first;

    while (*link != NULL) {
        struct g4_packed_call *call = *link;

        if (!all && call->deadline_ms > now_ms) {
            link = &call->next;
            continue;
        }
        *link = call->next;
        space->waits.count--;
        g4_packed_call_retired(call, rc, err);
    }
}

static void
add_wait(struct g4_packed_space *space, struct g4_packed_call *call)
{
    if (space->waits.first == NULL) {
        space->waits.hurry_ms = kvt_clock_mono_ms() + HURRY_AFTER_MS;
        space->waits.try_ms = 0;
        space->waits.pause_ms = 0;
        (void)kvt_error_set(&space->waits.why, KVT_BUSY, "%.80s is being packed", space->name);
    }
    call->next = space->waits.first;
    space->waits.first = call;
    space->waits.count++;
}

/* Ask for the lock again later: no two gateways at the same times for long. */
static void
put_off(struct g4_packed_store *store, struct g4_packed_space *space)
{
    uint64_t pause_ms = space->waits.pause_ms == 0 ? PAUSE_MIN_MS : 2 * space->waits.pause_ms;

    if (pause_ms > PAUSE_MAX_MS)
        pause_ms = PAUSE_MAX_MS;
    space->waits.pause_ms = pause_ms;
    space->waits.try_ms =
        kvt_clock_mono_ms() + pause_ms / 2 + kvt_random_below(&store->random, pause_ms / 2 + 1);
}

/* Is the lock somebody else's, as far as one look tells?  It spares the manifest, which whoever
 * takes the lock has to read. */
static bool
is_locked(struct g4_packed_store *store, struct g4_packed_space *space)
{
    struct g4_lease_seen seen;
    char key[KVT_KEY_MAX];

    return !store->alone && !atomic_load(&space->taken) &&
           g4_compaction_lock_key(key, space->name) == KVT_OK &&
           g4_lock_look(store->inner, key, kvt_clock_mono_ms() + LOOK_MS, &seen, NULL) == KVT_OK &&
           !seen.expired && !seen.body.released;
}

static enum kvt_err
retire_all(struct g4_packed_space *space, struct g4_compaction_options *options,
           struct kvt_error *err)
{
    struct g4_compaction_retirement *blocks = kvt_calloc(space->waits.count, sizeof(*blocks));
    struct g4_packed_call *call;
    size_t count = 0;
    enum kvt_err rc;

    if (blocks == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for deletions");
    for (call = space->waits.first; call != NULL; call = call->next)
        blocks[count++] = g4_packed_call_retirement(call);
    rc = g4_compaction_retire(options, blocks, count, err);
    count = 0;
    for (call = space->waits.first; call != NULL; call = call->next)
        call->outcome = blocks[count++].outcome;
    kvt_free(blocks);
    return rc;
}

/* One step for those who wait for this namespace; none waits here for whoever packs it. */
static void
attend(struct g4_packed_store *store, struct g4_packed_space *space)
{
    const bool stopping = atomic_load(&store->stopping);
    struct g4_compaction_options options;
    struct kvt_error *why = &space->waits.why;
    enum kvt_err rc;

    end_waits(space, KVT_BUSY, why, stopping);
    if (space->waits.first == NULL)
        goto done;
    if (kvt_clock_mono_ms() >= space->waits.hurry_ms)
        atomic_store(&space->hurry, true);
    if (kvt_clock_mono_ms() < space->waits.try_ms)
        return;
    if (space->waits.pause_ms > 0 && is_locked(store, space)) {
        put_off(store, space);
        return;
    }
    rc = take(store, space, &options, why);
    if (rc == KVT_BUSY || rc == KVT_AGAIN) {
        put_off(store, space);
        return;
    }
    if (rc == KVT_OK) {
        rc = retire_all(space, &options, why);
        give_back(space, &options);
    }
    end_waits(space, rc, why, true);
done:
    atomic_store(&space->hurry, false);
    if (atomic_load(&store->stopping)) /* whoever said so since set it, too, perhaps before */
        atomic_store(&space->hurry, true);
}

/* How long nothing needs to be done, unless more calls come. */
static uint64_t
rest_ms(const struct g4_packed_store *store)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    uint64_t rest = IDLE_MS;

    for (size_t i = 0; i < store->space_count; i++) {
        const struct g4_packed_space *space = &store->spaces[i];
        const uint64_t next = space->waits.try_ms > now_ms ? space->waits.try_ms - now_ms : 0;

        if (space->waits.first != NULL && next < rest)
            rest = next;
    }
    return rest;
}

void *
g4_packed_store_retire(void *arg)
{
    struct g4_packed_store *store = arg;
    void *items[BATCH];

    for (;;) {
        const size_t taken = kvt_queue_take(store->retiring, items, BATCH, rest_ms(store));

        if (taken == 0 && kvt_queue_closed(store->retiring))
            return NULL;
        for (size_t i = 0; i < taken; i++) {
            struct g4_packed_call *call = items[i];

            add_wait(call->space, call);
        }
        for (size_t i = 0; i < store->space_count; i++)
            if (store->spaces[i].waits.first != NULL)
                attend(store, &store->spaces[i]);
    }
}

/* ---- what is told and asked ---- */

void
g4_packed_store_prove(struct g4_store *store_, const struct g4_selftest *proved)
{
    struct g4_packed_store *store = g4_packed_store_of(store_);

    pthread_mutex_lock(&store->shared.lock);
    store->shared.proved = true;
    store->shared.selftest = *proved;
    pthread_mutex_unlock(&store->shared.lock);
}

size_t
g4_packed_store_count(struct g4_store *store)
{
    return g4_packed_store_of(store)->space_count;
}

const char *
g4_packed_store_name(struct g4_store *store_, size_t index)
{
    const struct g4_packed_store *store = g4_packed_store_of(store_);

    return index < store->space_count ? store->spaces[index].name : NULL;
}

enum kvt_err
g4_packed_store_totals(struct g4_store *store, size_t index, struct g4_packed_totals *totals,
                       struct kvt_error *err)
{
    struct g4_packed *packed = g4_packed_store_of(store)->spaces[index].packed;
    enum kvt_err rc = KVT_OK;

    if (g4_packed_age_ms(packed) >= TOTALS_AGE_MS)
        rc = g4_packed_refresh(packed, err);
    g4_packed_totals(packed, totals);
    return rc;
}
