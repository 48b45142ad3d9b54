#include "gateway/care/adoption.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/cond.h"
#include "g4/object/kind.h"
#include "gateway/block/commit_record.h"
#include "gateway/tier/attribute_lines.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/object_key.h"
#include "gateway/tier/store_batch.h"

enum {
    IDLE_MS = 200,
    RETRY_MS = 500,
    TRIES = 5, /* of a batch that a healthy bucket does not answer as a whole */
};

/* One key of the batch that has no row yet. */
struct stranger {
    const char *key;
    enum kvt_err status; /* of its HEAD */
    char attributes[G4_ATTRIBUTES_MAX];
    struct gateway_record record; /* tiers 0: it gets no row */
};

struct gateway_adoption {
    struct gateway_context *context;
    struct g4_listed *listed; /* G4_LIST_KEYS_MAX */
    struct stranger strangers[GATEWAY_ADOPTION_BATCH];
    struct gateway_key_lock holds[GATEWAY_ADOPTION_BATCH];
    struct gateway_change changes[GATEWAY_ADOPTION_BATCH];
    struct gateway_adoption_mark mark; /* the walk's; what is written after each batch */
    char surveyed[KVT_KEY_MAX];        /* UNSEEN: all up to here have rows */
    unsigned tries;                    /* of the batch at hand, in vain, */
    enum kvt_err failed;               /* and why the last one was */
    _Atomic bool waiting;
    pthread_t thread;
    bool started;
    bool locks_made;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t news;
        bool start; /* asked for, and not taken yet */
        bool stop;
        bool taking;   /* a start is being written */
        uint64_t rate; /* of `start` */
        bool closing;
    } shared;
};

const char *
gateway_adoption_state_name(enum gateway_adoption_state state)
{
    switch (state) {
    case GATEWAY_ADOPTION_UNSEEN: return "unseen";
    case GATEWAY_ADOPTION_NEEDED: return "needed";
    case GATEWAY_ADOPTION_RUNNING: return "running";
    case GATEWAY_ADOPTION_STOPPED: return "stopped";
    case GATEWAY_ADOPTION_DONE: break;
    }
    return "done";
}

/* ---- waiting ---- */

static bool
is_closing(struct gateway_adoption *adoption)
{
    bool closing;

    (void)pthread_mutex_lock(&adoption->shared.lock);
    closing = adoption->shared.closing;
    (void)pthread_mutex_unlock(&adoption->shared.lock);
    return closing;
}

static bool
has_news_locked(const struct gateway_adoption *adoption)
{
    return adoption->shared.closing || adoption->shared.start || adoption->shared.stop;
}

/* So long, or until somebody asks for something: then true. */
static bool
rest(struct gateway_adoption *adoption, uint64_t wait_ms)
{
    const struct timespec due = kvt_cond_deadline(wait_ms);
    bool more = wait_ms > 0;
    bool news;

    (void)pthread_mutex_lock(&adoption->shared.lock);
    while (more && !has_news_locked(adoption))
        more = kvt_cond_wait(&adoption->shared.news, &adoption->shared.lock, &due);
    news = has_news_locked(adoption);
    (void)pthread_mutex_unlock(&adoption->shared.lock);
    return news;
}

/* ---- the marks ---- */

/* Write where the walk is, with the rows of the batch; the counts come back. */
static bool
write_mark(struct gateway_adoption *adoption, size_t changes, enum gateway_catalog_wait wait)
{
    struct gateway_catalog *catalog = adoption->context->catalog;
    const enum kvt_err rc =
        gateway_catalog_adopt(catalog, adoption->changes, changes, &adoption->mark, wait);

    if (rc != KVT_OK)
        kvt_log_warn("gateway.adoption", "not_written", "%s", kvt_err_text(rc));
    gateway_catalog_adoption(catalog, &adoption->mark);
    return rc == KVT_OK;
}

static void
finish(struct gateway_adoption *adoption, enum gateway_adoption_state state, enum kvt_err why)
{
    struct gateway_adoption_mark *mark = &adoption->mark;

    mark->state = state;
    mark->why = why;
    mark->ended_ms = kvt_clock_unix_ms();
    if (state == GATEWAY_ADOPTION_DONE) {
        mark->whole = true;
        mark->after[0] = '\0';
    }
    if (write_mark(adoption, 0, GATEWAY_DURABLE))
        kvt_log_info("gateway.adoption", gateway_adoption_state_name(state),
                     "%" PRIu64 " objects passed, %" PRIu64 " taken up, %" PRIu64
                     " damaged, %" PRIu64 " refused%s%s",
                     mark->listed, mark->adopted, mark->damaged, mark->refused,
                     why == KVT_OK ? "" : ": ", why == KVT_OK ? "" : kvt_err_text(why));
}

/* Do what was asked for since the last look. */
static void
take_requests(struct gateway_adoption *adoption)
{
    struct gateway_adoption_mark *mark = &adoption->mark;
    bool start;
    bool stop;
    uint64_t rate;

    (void)pthread_mutex_lock(&adoption->shared.lock);
    start = adoption->shared.start;
    stop = adoption->shared.stop;
    rate = adoption->shared.rate;
    adoption->shared.taking = start;
    adoption->shared.start = false;
    adoption->shared.stop = false;
    (void)pthread_mutex_unlock(&adoption->shared.lock);
    if (stop && mark->state == GATEWAY_ADOPTION_RUNNING) {
        finish(adoption, GATEWAY_ADOPTION_STOPPED, KVT_CANCELLED);
    } else if (start) {
        if (mark->state != GATEWAY_ADOPTION_RUNNING && mark->state != GATEWAY_ADOPTION_STOPPED)
            *mark = (struct gateway_adoption_mark){.whole = mark->whole,
                                                   .began_ms = kvt_clock_unix_ms()};
        mark->state = GATEWAY_ADOPTION_RUNNING;
        mark->why = KVT_OK;
        mark->ended_ms = 0;
        mark->rate = rate;
        if (write_mark(adoption, 0, GATEWAY_DURABLE))
            kvt_log_info("gateway.adoption", "running",
                         "%" PRIu64 " objects a second, behind \"%s\"", rate, mark->after);
    }
    (void)pthread_mutex_lock(&adoption->shared.lock);
    adoption->shared.taking = false;
    (void)pthread_mutex_unlock(&adoption->shared.lock);
}

/* ---- one batch ---- */

/* Is it of a kind that gets a row? */
static bool
counts(const char *key)
{
    const enum g4_kind kind = g4_kind_of_key(key, NULL);

    return (kind == G4_KIND_BLOCK || kind == G4_KIND_OPAQUE || kind == G4_KIND_OWN) &&
           gateway_object_key_is_stored(key);
}

static bool
has_row(struct gateway_adoption *adoption, const char *key)
{
    struct gateway_record record;

    return gateway_catalog_get(adoption->context->catalog, key, &record) != KVT_NOTFOUND;
}

static void
on_head(void *arg, struct g4_request *head, size_t index)
{
    struct gateway_adoption *adoption = arg;
    struct stranger *stranger = &adoption->strangers[index];
    const bool block = gateway_object_key_is_block(stranger->key, NULL);
    struct gateway_record *record = &stranger->record;
    char commit[KVT_KEY_MAX];

    *record = (struct gateway_record){0};
    stranger->status = gateway_bucket_tier_ended(adoption->context->tiers.buckets, head->status);
    if (head->status != KVT_OK)
        return;
    if (!block) {
        gateway_record_of_head(head, true, record);
        if (!gateway_attribute_lines_get(stranger->attributes, GATEWAY_ATTRIBUTE_ETAG,
                                         record->shown, sizeof(record->shown)))
            record->shown[0] = '\0';
    } else if (g4_kind_judge_block(head) == NULL) {
        gateway_record_of_head(head, false, record);
        record->foreign = gateway_commit_record_needed(adoption->context, stranger->key, commit);
    } else if (!head->meta.present && head->buffer_size > 0) {
        gateway_record_of_head(head, false, record);
        record->foreign = true;
    } else {
        stranger->status = g4_kind_of_object(head) == G4_KIND_TOMBSTONE ? KVT_EXISTS : KVT_CORRUPT;
    }
}

static enum kvt_err
look(struct gateway_adoption *adoption, size_t count)
{
    struct g4_store *store = gateway_bucket_tier_store(adoption->context->tiers.buckets);
    struct gateway_store_batch *flight;
    enum kvt_err rc;

    if (count == 0)
        return KVT_OK;
    rc = gateway_store_batch_new(&flight, count, on_head, adoption);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < count; i++) {
        struct g4_request *request = gateway_store_batch_prepare(flight, i);

        request->verb = G4_HEAD;
        request->key = adoption->strangers[i].key;
        request->attributes = adoption->strangers[i].attributes;
        gateway_store_batch_submit(flight, store, request);
    }
    gateway_store_batch_free(flight);
    return KVT_OK;
}

/* Rows of what was seen, into the changes and the mark.  KVT_AGAIN: not all was answered, and it
 * may be yet; `failed` says why not. */
static enum kvt_err
judge(struct gateway_adoption *adoption, size_t count, size_t *changes)
{
    struct gateway_adoption_mark *mark = &adoption->mark;

    *changes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct stranger *stranger = &adoption->strangers[i];

        switch (stranger->status) {
        case KVT_OK:
            adoption->changes[(*changes)++] = (struct gateway_change){
                .key = stranger->key, .only_if_absent = true, .record = stranger->record};
            break;
        case KVT_EXISTS: mark->passed++; break; /* a tombstone */
        case KVT_NOTFOUND: break;
        default:
            adoption->failed = stranger->status;
            if (kvt_err_retryable(stranger->status))
                return KVT_AGAIN;
            mark->damaged++;
            break;
        }
    }
    return KVT_OK;
}

/* The keys that are to get a row, into the strangers; all others are counted as what they are. */
static size_t
sort_out(struct gateway_adoption *adoption, const struct g4_listed *rows, size_t count)
{
    struct gateway_adoption_mark *mark = &adoption->mark;
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        mark->listed++;
        if (!counts(rows[i].key))
            mark->passed++;
        else if (has_row(adoption, rows[i].key))
            mark->known++;
        else
            adoption->strangers[used++] = (struct stranger){.key = rows[i].key};
    }
    return used;
}

/* Rows for the objects of a part of a page.  False: nothing was written, and it is to be tried
 * again; after TRIES not before somebody asks for it, for what is passed over is never counted. */
static bool
adopt(struct gateway_adoption *adoption, const struct g4_listed *rows, size_t count)
{
    struct gateway_context *context = adoption->context;
    const struct gateway_adoption_mark before = adoption->mark;
    const size_t strangers = sort_out(adoption, rows, count);
    size_t changes = 0;
    enum kvt_err rc;

    for (size_t i = 0; i < strangers; i++)
        gateway_key_lock_init(&adoption->holds[i], adoption->strangers[i].key);
    gateway_key_lock_acquire(context->key_locks, adoption->holds, strangers);
    rc = look(adoption, strangers);
    if (rc == KVT_OK && !gateway_bucket_tier_healthy(context->tiers.buckets))
        rc = KVT_UNAVAILABLE; /* what failed says nothing of the objects */
    if (rc == KVT_OK)
        rc = judge(adoption, strangers, &changes);
    adoption->tries = rc == KVT_AGAIN ? adoption->tries + 1 : 0;
    if (rc == KVT_OK) {
        memcpy(adoption->mark.after, rows[count - 1].key, sizeof(adoption->mark.after));
        rc = write_mark(adoption, changes, GATEWAY_APPLIED) ? KVT_OK : KVT_IO;
    } else {
        adoption->mark = before;
    }
    gateway_key_lock_release(context->key_locks, adoption->holds, strangers);
    if (adoption->tries == TRIES) {
        adoption->tries = 0;
        finish(adoption, GATEWAY_ADOPTION_STOPPED, adoption->failed);
    }
    return rc == KVT_OK;
}

/* ---- the walk ---- */

static enum kvt_err
list(struct gateway_adoption *adoption, const char *after, struct g4_request *page)
{
    struct gateway_bucket_tier *buckets = adoption->context->tiers.buckets;

    *page = (struct g4_request){.verb = G4_LIST,
                                .key = "",
                                .after = after[0] == '\0' ? NULL : after,
                                .listed = adoption->listed};
    return gateway_bucket_tier_ended(buckets,
                                     g4_store_perform(gateway_bucket_tier_store(buckets), page));
}

/* One page of the bucket behind the mark.  False: pause before the next. */
static bool
walk(struct gateway_adoption *adoption)
{
    struct gateway_catalog_stats stats;
    struct g4_request page;
    char after[KVT_KEY_MAX];

    gateway_catalog_stats(adoption->context->catalog, &stats);
    if (stats.full) {
        finish(adoption, GATEWAY_ADOPTION_STOPPED, KVT_FULL);
        return true;
    }
    memcpy(after, adoption->mark.after, sizeof(after));
    if (!gateway_bucket_tier_healthy(adoption->context->tiers.buckets) ||
        list(adoption, after, &page) != KVT_OK)
        return false;
    for (size_t at = 0; at < page.listed_count; at += GATEWAY_ADOPTION_BATCH) {
        const size_t left = page.listed_count - at;
        const size_t count = left < GATEWAY_ADOPTION_BATCH ? left : GATEWAY_ADOPTION_BATCH;
        const uint64_t begun_ms = kvt_clock_mono_ms();
        uint64_t spent_ms;
        uint64_t share_ms;

        if (!adopt(adoption, &page.listed[at], count))
            return false;
        spent_ms = kvt_clock_mono_ms() - begun_ms;
        share_ms = count * 1000 / adoption->mark.rate;
        if (rest(adoption, spent_ms < share_ms ? share_ms - spent_ms : 0))
            return true;
    }
    if (page.token[0] == '\0')
        finish(adoption, GATEWAY_ADOPTION_DONE, KVT_OK);
    return true;
}

/* Is there anything that has no row?  A page at a time; in an empty bucket that is one. */
static bool
survey(struct gateway_adoption *adoption)
{
    struct g4_request page;

    if (!gateway_bucket_tier_healthy(adoption->context->tiers.buckets) ||
        list(adoption, adoption->surveyed, &page) != KVT_OK)
        return false;
    for (size_t i = 0; i < page.listed_count; i++) {
        if (!counts(page.listed[i].key) || has_row(adoption, page.listed[i].key))
            continue;
        adoption->mark.state = GATEWAY_ADOPTION_NEEDED;
        if (write_mark(adoption, 0, GATEWAY_DURABLE))
            kvt_log_warn("gateway.adoption", "needed",
                         "the bucket has objects that are not counted: run kvtier g4 adopt");
        return true;
    }
    if (page.listed_count > 0)
        memcpy(adoption->surveyed, page.listed[page.listed_count - 1].key,
               sizeof(adoption->surveyed));
    if (page.token[0] == '\0')
        finish(adoption, GATEWAY_ADOPTION_DONE, KVT_OK);
    return true;
}

static void *
adoption_main(void *arg)
{
    struct gateway_adoption *adoption = arg;

    while (!is_closing(adoption)) {
        bool went = false;

        take_requests(adoption);
        if (adoption->mark.state == GATEWAY_ADOPTION_UNSEEN)
            went = survey(adoption);
        else if (adoption->mark.state == GATEWAY_ADOPTION_RUNNING)
            went = walk(adoption);
        atomic_store(&adoption->waiting,
                     !went && !gateway_bucket_tier_healthy(adoption->context->tiers.buckets));
        if (!went)
            (void)rest(adoption,
                       adoption->mark.state == GATEWAY_ADOPTION_RUNNING ? RETRY_MS : IDLE_MS);
    }
    return NULL;
}

/* ---- life ---- */

enum kvt_err
gateway_adoption_open(struct gateway_adoption **out, struct gateway_context *context,
                      struct kvt_error *err)
{
    struct gateway_adoption *adoption = kvt_calloc(1, sizeof(*adoption));
    enum kvt_err rc;
    int sys;

    *out = NULL;
    if (adoption == NULL)
        return kvt_error_set(err, KVT_NOMEM, "adoption");
    adoption->context = context;
    gateway_catalog_adoption(context->catalog, &adoption->mark);
    adoption->listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*adoption->listed));
    if (adoption->listed == NULL || pthread_mutex_init(&adoption->shared.lock, NULL) != 0) {
        rc = kvt_error_set(err, KVT_NOMEM, "adoption");
        goto fail;
    }
    if (!kvt_cond_init(&adoption->shared.news)) {
        (void)pthread_mutex_destroy(&adoption->shared.lock);
        rc = kvt_error_set(err, KVT_NOMEM, "adoption");
        goto fail;
    }
    adoption->locks_made = true;
    sys = pthread_create(&adoption->thread, NULL, adoption_main, adoption);
    if (sys != 0) {
        rc = kvt_error_sys(err, sys, "start the adoption");
        goto fail;
    }
    adoption->started = true;
    *out = adoption;
    return KVT_OK;

fail:
    gateway_adoption_close(adoption);
    return rc;
}

void
gateway_adoption_close(struct gateway_adoption *adoption)
{
    if (adoption == NULL)
        return;
    if (adoption->started) {
        (void)pthread_mutex_lock(&adoption->shared.lock);
        adoption->shared.closing = true;
        (void)pthread_cond_signal(&adoption->shared.news);
        (void)pthread_mutex_unlock(&adoption->shared.lock);
        (void)pthread_join(adoption->thread, NULL);
    }
    if (adoption->locks_made) {
        (void)pthread_cond_destroy(&adoption->shared.news);
        (void)pthread_mutex_destroy(&adoption->shared.lock);
    }
    kvt_free(adoption->listed);
    kvt_free(adoption);
}

/* ---- asking ---- */

void
gateway_adoption_start(struct gateway_adoption *adoption, uint64_t rate)
{
    assert(rate >= 1 && rate <= GATEWAY_ADOPTION_RATE_MAX);
    (void)pthread_mutex_lock(&adoption->shared.lock);
    adoption->shared.start = true;
    adoption->shared.stop = false;
    adoption->shared.rate = rate;
    (void)pthread_cond_signal(&adoption->shared.news);
    (void)pthread_mutex_unlock(&adoption->shared.lock);
}

void
gateway_adoption_stop(struct gateway_adoption *adoption)
{
    (void)pthread_mutex_lock(&adoption->shared.lock);
    adoption->shared.start = false;
    adoption->shared.stop = true;
    (void)pthread_cond_signal(&adoption->shared.news);
    (void)pthread_mutex_unlock(&adoption->shared.lock);
}

void
gateway_adoption_view(struct gateway_adoption *adoption, struct gateway_adoption_view *view)
{
    bool start;

    /* In this order: what was asked for is taken away after the mark says it. */
    (void)pthread_mutex_lock(&adoption->shared.lock);
    start = adoption->shared.start || adoption->shared.taking;
    (void)pthread_mutex_unlock(&adoption->shared.lock);
    gateway_catalog_adoption(adoption->context->catalog, &view->mark);
    if (start)
        view->mark.state = GATEWAY_ADOPTION_RUNNING;
    view->waiting = view->mark.state == GATEWAY_ADOPTION_RUNNING && atomic_load(&adoption->waiting);
}
