#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "g4/packed_store_state.h"

enum {
    BATCH = 1024,
    IDLE_MS = 1000,
    TOTALS_AGE_MS = 5000,  /* of the manifest they are told of */
    POLL_MS = 20,          /* while somebody else has the lock */
    HURRY_AFTER_MS = 5000, /* who packs here has so long before a deletion makes it stop */
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
        rc = g4_lock_look(store->inner, key, &seen, err);
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

/* ---- taking blocks out ---- */

static void
end_overdue(struct g4_packed_call **calls, size_t *count, enum kvt_err rc,
            const struct kvt_error *err, bool all)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    size_t left = 0;

    for (size_t i = 0; i < *count; i++) {
        if (all || calls[i]->deadline_ms <= now_ms)
            g4_packed_call_retired(calls[i], rc, err);
        else
            calls[left++] = calls[i];
    }
    *count = left;
}

/* Wait for the lock as long as anybody does.  Whoever packs in this process is asked to hurry. */
static enum kvt_err
take_for(struct g4_packed_space *space, struct g4_packed_call **calls, size_t *count,
         struct g4_compaction_options *options, struct kvt_error *err)
{
    struct g4_packed_store *store = calls[0]->store;
    const uint64_t hurry_ms = kvt_clock_mono_ms() + HURRY_AFTER_MS;
    enum kvt_err rc = take(store, space, options, err);

    while (rc == KVT_BUSY || rc == KVT_AGAIN) {
        if (kvt_clock_mono_ms() >= hurry_ms)
            atomic_store(&space->hurry, true);
        end_overdue(calls, count, KVT_BUSY, err, atomic_load(&store->stopping));
        if (*count == 0)
            break;
        kvt_clock_sleep_ms(POLL_MS);
        rc = take(store, space, options, err);
    }
    if (!atomic_load(&store->stopping))
        atomic_store(&space->hurry, false);
    return rc;
}

static void
retire(struct g4_packed_space *space, struct g4_packed_call **calls, size_t count)
{
    struct g4_segment_entry *blocks = kvt_calloc(count, sizeof(*blocks));
    struct g4_compaction_options options;
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc = KVT_NOMEM;

    if (blocks != NULL) {
        rc = take_for(space, calls, &count, &options, &err);
        if (count == 0 && rc != KVT_OK)
            goto done;
    }
    if (rc == KVT_OK) {
        for (size_t i = 0; i < count; i++)
            blocks[i] = g4_segment_entry_of(&calls[i]->key);
        rc = g4_compaction_retire(&options, blocks, count, &err);
        give_back(space, &options);
    }
    end_overdue(calls, &count, rc, &err, true);
done:
    kvt_free(blocks);
}

void *
g4_packed_store_retire(void *arg)
{
    struct g4_packed_store *store = arg;
    void *items[BATCH];

    for (;;) {
        const size_t taken = kvt_queue_take(store->retiring, items, BATCH, IDLE_MS);

        if (taken == 0 && kvt_queue_closed(store->retiring))
            return NULL;
        for (size_t at = 0; at < store->space_count; at++) {
            struct g4_packed_call *calls[BATCH];
            size_t count = 0;

            for (size_t i = 0; i < taken; i++) {
                struct g4_packed_call *call = items[i];

                if (call != NULL && call->space == &store->spaces[at]) {
                    calls[count++] = call;
                    items[i] = NULL;
                }
            }
            if (count > 0)
                retire(&store->spaces[at], calls, count);
        }
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
