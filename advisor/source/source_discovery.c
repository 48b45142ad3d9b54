#include "advisor/source/source_discovery.h"

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"

enum { NAP_MS = 100 };

struct advisor_source_watch {
    struct advisor_source *source;
    struct advisor_discovery *discovery;
    pthread_t thread;
    _Atomic bool stopping;
};

enum kvt_err
advisor_source_discovery_look(struct advisor_source *source, struct advisor_discovery *discovery,
                              struct kvt_error *err)
{
    const enum kvt_err rc = advisor_discovery_scan(discovery, kvt_clock_mono_ms(), err);
    const uint64_t *gone;
    size_t count;

    if (rc != KVT_OK)
        return rc;
    (void)pthread_mutex_lock(&source->shared.lock);
    source->shared.state.discovery_skipped = advisor_discovery_odd(discovery);
    (void)pthread_mutex_unlock(&source->shared.lock);
    gone = advisor_discovery_gone(discovery, &count);
    for (size_t i = 0; i < count; i++) {
        struct advisor_inbox_item *item;

        while (advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_GONE, "", NULL, 0) != KVT_OK) {
            if (atomic_load(&source->stopping))
                return KVT_CANCELLED;
            kvt_clock_sleep_ms(NAP_MS);
        }
        item->worker_id = gone[i];
        item->time_ms = kvt_clock_unix_ms();
        if (!advisor_source_push_wait(source, item))
            return KVT_CANCELLED;
    }
    return KVT_OK;
}

static bool
is_over(const struct advisor_source_watch *watch)
{
    return atomic_load(&watch->stopping) || atomic_load(&watch->source->stopping);
}

static void *
run(void *arg)
{
    struct advisor_source_watch *watch = arg;
    bool failed = false;

    while (!is_over(watch)) {
        const uint64_t next_ms = kvt_clock_mono_ms() + ADVISOR_SOURCE_DISCOVERY_EVERY_MS;
        struct kvt_error err = {.text = ""};
        const enum kvt_err rc =
            advisor_source_discovery_look(watch->source, watch->discovery, &err);

        if (rc != KVT_OK && rc != KVT_CANCELLED && !failed)
            kvt_log_warn("advisor.source", "discovery", "%s: %s", watch->source->options.name,
                         err.text);
        failed = rc != KVT_OK;
        while (!is_over(watch) && kvt_clock_mono_ms() < next_ms)
            kvt_clock_sleep_ms(NAP_MS);
    }
    return NULL;
}

enum kvt_err
advisor_source_watch_start(struct advisor_source_watch **out, struct advisor_source *source)
{
    const char *folder = source->options.discovery;
    struct advisor_source_watch *watch;

    *out = NULL;
    if (folder == NULL || folder[0] == '\0')
        return KVT_OK;
    watch = kvt_calloc(1, sizeof(*watch));
    if (watch == NULL)
        return KVT_NOMEM;
    watch->source = source;
    if (advisor_discovery_new(&watch->discovery, folder, "") != KVT_OK ||
        pthread_create(&watch->thread, NULL, run, watch) != 0) {
        advisor_discovery_free(watch->discovery);
        kvt_free(watch);
        return KVT_NOMEM;
    }
    *out = watch;
    return KVT_OK;
}

void
advisor_source_watch_stop(struct advisor_source_watch *watch)
{
    if (watch == NULL)
        return;
    atomic_store(&watch->stopping, true);
    (void)pthread_join(watch->thread, NULL);
    advisor_discovery_free(watch->discovery);
    kvt_free(watch);
}
