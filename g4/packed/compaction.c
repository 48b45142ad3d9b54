#include "g4/packed/compaction.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/packed/compaction_internal.h"
#include "g4/packed/list_pages.h"

#define LOCK_NAME G4_SEGMENT_FOLDER "compaction"

enum kvt_err
g4_compaction_lock_key(char out[KVT_KEY_MAX], const char *namespace_)
{
    const int size = snprintf(out, KVT_KEY_MAX, "%s" LOCK_NAME G4_LOCK_SUFFIX, namespace_);

    if (namespace_[0] != '\0' && size > 0 && size < KVT_KEY_MAX)
        return KVT_OK;
    out[0] = '\0';
    return namespace_[0] == '\0' ? KVT_INVALID : KVT_RANGE;
}

enum kvt_err
g4_compaction_lock(struct g4_lock **out, const struct g4_lock_options *options,
                   const char *namespace_, struct kvt_error *err)
{
    const struct g4_manifest_log log = {.store = options->store, .namespace_ = namespace_};
    struct g4_lock_options own = *options;
    struct g4_manifest newest = {.number = 0};
    char name[KVT_KEY_MAX];
    enum kvt_err rc = g4_manifest_log_load(&log, &newest, err);

    *out = NULL;
    if (rc != KVT_OK)
        return rc;
    /* Shorter than the name of a manifest, which was long enough. */
    (void)snprintf(name, sizeof(name), "%s" LOCK_NAME, namespace_);
    own.name = name;
    own.epoch_min = newest.epoch;
    g4_manifest_release(&newest);
    return g4_lock_acquire(out, &own, err);
}

/* ---- what the parts of a run share ---- */

enum kvt_err
g4_compaction_no_memory(struct kvt_error *err)
{
    return kvt_error_set(err, KVT_NOMEM, "no memory to pack blocks");
}

static uint64_t
mono_ms(const struct g4_compaction_options *options)
{
    return options->clock == NULL ? kvt_clock_mono_ms()
                                  : options->clock->mono_ms(options->clock->arg);
}

enum kvt_err
g4_compaction_guard(struct g4_compaction_run *run, struct kvt_error *err)
{
    const struct g4_compaction_options *options = run->options;

    if (options->stop != NULL && atomic_load(options->stop))
        return kvt_error_set(err, KVT_CANCELLED, "packing %.80s was stopped", options->namespace_);
    if (options->lock == NULL)
        return KVT_OK;
    /* One that cannot be renewed now lasts a while; g4_lock_lost() decides. */
    if (mono_ms(options) >= g4_lock_renew_ms(options->lock) &&
        g4_lock_renew(options->lock, err) == KVT_PRECONDITION)
        return KVT_PRECONDITION;
    if (g4_lock_lost(options->lock))
        return kvt_error_set(err, KVT_PRECONDITION, "the lock to pack %.80s was lost",
                             options->namespace_);
    return KVT_OK;
}

uint64_t
g4_compaction_deadline_ms(const struct g4_compaction_run *run)
{
    const struct g4_compaction_options *options = run->options;
    uint64_t rest_ms = run->log.request_ms;

    if (options->lock != NULL) {
        const uint64_t stop_ms = g4_lock_stop_ms(options->lock);
        const uint64_t now_ms = mono_ms(options);
        const uint64_t lease_ms = stop_ms > now_ms ? stop_ms - now_ms : 1;

        if (lease_ms < rest_ms)
            rest_ms = lease_ms;
    }
    return kvt_clock_mono_ms() + rest_ms;
}

enum kvt_err
g4_compaction_ask(struct g4_compaction_run *run, struct g4_request *request, struct kvt_error *err)
{
    enum kvt_err rc;

    request->deadline_ms = g4_compaction_deadline_ms(run);
    rc = g4_store_perform(run->options->store, request);
    if (rc != KVT_OK && err != NULL)
        *err = request->error;
    return rc;
}

enum kvt_err
g4_compaction_change(struct g4_compaction_run *run, const struct g4_manifest_change *change,
                     struct kvt_error *err)
{
    struct g4_manifest_change *changes =
        kvt_grow(run->changes, &run->change_room, run->change_count + 1, sizeof(*changes));

    if (changes == NULL)
        return g4_compaction_no_memory(err);
    run->changes = changes;
    run->changes[run->change_count++] = *change;
    return KVT_OK;
}

/* ---- the manifest ---- */

enum kvt_err
g4_compaction_load(struct g4_compaction_run *run, struct kvt_error *err)
{
    const struct g4_compaction_options *options = run->options;
    enum kvt_err rc = g4_compaction_guard(run, err);

    if (rc == KVT_OK)
        rc = g4_manifest_log_load(&run->log, &run->manifest, err);
    if (rc != KVT_OK)
        return rc;
    run->report->manifest = run->manifest.number;
    if (run->epoch == 0)
        run->epoch = options->lock != NULL ? g4_lock_epoch(options->lock) : run->manifest.epoch + 1;
    if (run->manifest.epoch > run->epoch)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "%.80s was packed under epoch %" PRIu64 ", and this one is %" PRIu64,
                             options->namespace_, run->manifest.epoch, run->epoch);
    return KVT_OK;
}

enum kvt_err
g4_compaction_commit(struct g4_compaction_run *run, struct kvt_error *err)
{
    struct g4_manifest next;
    enum kvt_err rc;

    if (run->change_count > 0)
        qsort(run->changes, run->change_count, sizeof(*run->changes), g4_manifest_change_compare);
    rc = g4_manifest_merge(&next, &run->manifest, run->changes, run->change_count, run->added,
                           run->added_count);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "manifest %" PRIu64 " of %.80s: %s", run->manifest.number + 1,
                             run->options->namespace_, kvt_err_text(rc));
    next.epoch = run->epoch;
    rc = g4_compaction_guard(run, err);
    if (rc == KVT_OK)
        rc = g4_manifest_log_commit(&run->log, &next, err);
    if (rc != KVT_OK) {
        g4_manifest_release(&next);
        return rc == KVT_EXISTS ? KVT_BUSY : rc;
    }
    g4_manifest_release(&run->manifest);
    run->manifest = next;
    run->report->manifest = next.number;
    run->committed = true;
    run->change_count = 0;
    run->added_count = 0;
    return KVT_OK;
}

/* Nothing is deleted before this run has added a manifest: whatever a holder of an older epoch, or
 * an earlier run whose answer was lost, may still add to what there was, comes too late then. */
static enum kvt_err
before_delete(struct g4_compaction_run *run, struct kvt_error *err)
{
    if (!run->committed) {
        const enum kvt_err rc = g4_compaction_commit(run, err);

        if (rc != KVT_OK)
            return rc;
    }
    return g4_compaction_guard(run, err);
}

/* ---- deleting ---- */

static enum kvt_err
fill_removal(struct g4_compaction_run *run, const struct g4_compaction_double *one,
             struct kvt_error *err)
{
    const struct g4_compaction_options *options = run->options;
    struct g4_compaction_slot *slot = g4_compaction_slot(run, G4_DELETE);

    if (slot == NULL)
        return g4_compaction_no_memory(err);
    if (options->delete_if_match && one->etag[0] != '\0') {
        slot->request.condition = G4_IF_MATCH;
        memcpy(slot->request.etag, one->etag, sizeof(one->etag));
    }
    return g4_segment_entry_key(slot->key, options->namespace_, &one->block);
}

static enum kvt_err
remove_doubles(struct g4_compaction_run *run, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < run->double_count && rc == KVT_OK;) {
        run->slot_count = 0;
        while (i < run->double_count && run->slot_count < G4_COMPACTION_REQUESTS && rc == KVT_OK)
            rc = fill_removal(run, &run->doubles[i++], err);
        if (rc == KVT_OK)
            rc = before_delete(run, err);
        if (rc == KVT_OK)
            rc = g4_compaction_requests(run, err);
        for (size_t at = 0; at < run->slot_count && rc == KVT_OK; at++) {
            rc = g4_compaction_answer(&run->slots[at].request, err);
            run->report->removed += rc == KVT_OK;
            if (rc == KVT_NOTFOUND || rc == KVT_PRECONDITION) /* gone, or put anew */
                rc = KVT_OK;
        }
    }
    run->slot_count = 0;
    return rc;
}

static bool
is_needed(const struct g4_manifest *manifest, const struct g4_segment_name *name)
{
    size_t low = 0;
    size_t high = manifest->segment_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = g4_segment_name_compare(&manifest->segments[middle].name, name);

        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Segments of later epochs belong to whoever has the lock now. */
static enum kvt_err
on_segment(void *arg, const struct g4_listed *row, struct kvt_error *err)
{
    struct g4_compaction_run *run = arg;
    struct g4_request request = {.verb = G4_DELETE, .key = row->key};
    struct g4_segment_name name;
    enum kvt_err rc = g4_compaction_guard(run, err);

    if (rc != KVT_OK)
        return rc;
    if (g4_segment_key_parse(row->key, run->options->namespace_, &name) != KVT_OK ||
        name.epoch > run->epoch || is_needed(&run->manifest, &name))
        return KVT_OK;
    rc = before_delete(run, err);
    if (rc == KVT_OK)
        rc = g4_compaction_ask(run, &request, err);
    run->report->segments_deleted += rc == KVT_OK;
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
g4_compaction_remove_segments(struct g4_compaction_run *run, struct kvt_error *err)
{
    const struct g4_segment_name none = {.epoch = 0};
    char prefix[KVT_KEY_MAX];
    enum kvt_err rc = g4_segment_key(prefix, run->options->namespace_, &none);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "\"%.80s\" cannot be packed", run->options->namespace_);
    strrchr(prefix, '/')[1] = '\0';
    return g4_list_pages_walk(run->options->store, prefix, NULL, run->log.request_ms, on_segment,
                              run, err);
}

/* ---- runs ---- */

static void
end_pass(struct g4_compaction_run *run)
{
    kvt_free(run->seen);
    run->seen = NULL;
    run->pick_count = 0;
    run->pick_bytes = 0;
    run->eligible_blocks = 0;
    run->eligible_bytes = 0;
    run->double_count = 0;
    run->slot_count = 0;
    run->change_count = 0;
    run->added_count = 0;
    run->more = false;
}

/* Look at everything once, and do what can be done with that. */
static enum kvt_err
pass(struct g4_compaction_run *run, bool *idle, struct kvt_error *err)
{
    uint64_t deleted = 0;
    bool worth = false;
    enum kvt_err rc = g4_compaction_load(run, err);

    *idle = false;
    if (rc == KVT_OK)
        rc = g4_compaction_survey(run, err);
    /* Blocks whose place is about to change wait for the next pass. */
    if (rc == KVT_OK && run->change_count == 0)
        rc = g4_compaction_forward(run, err);
    worth =
        g4_compaction_plan_pack(&run->options->settings, run->eligible_blocks, run->eligible_bytes);
    if (rc == KVT_OK && worth)
        rc = g4_compaction_pack(run, err);
    if (rc != KVT_OK)
        return rc;
    *idle = run->change_count == 0 && run->double_count == 0;
    run->report->more = !*idle || (run->more && worth);
    if (run->change_count > 0)
        rc = g4_compaction_commit(run, err);
    if (rc == KVT_OK)
        rc = remove_doubles(run, err);
    if (rc == KVT_OK)
        rc = g4_compaction_remove_segments(run, err);
    if (rc == KVT_OK)
        rc = g4_manifest_log_prune(&run->log, run->manifest.number, &deleted, err);
    run->report->manifests_deleted += deleted;
    return rc;
}

static enum kvt_err
guard_log(void *arg, struct kvt_error *err)
{
    return g4_compaction_guard(arg, err);
}

void
g4_compaction_begin(struct g4_compaction_run *run, const struct g4_compaction_options *options,
                    struct g4_compaction_report *report)
{
    memset(report, 0, sizeof(*report));
    *run = (struct g4_compaction_run){
        .options = options,
        .report = report,
        .budget = options->settings.bytes_max,
        .log = {.store = options->store,
                .namespace_ = options->namespace_,
                .guard = guard_log,
                .guard_arg = run,
                .request_ms =
                    options->request_ms == 0 ? G4_COMPACTION_REQUEST_MS : options->request_ms},
    };
}

void
g4_compaction_end(struct g4_compaction_run *run)
{
    end_pass(run);
    for (size_t i = 0; i < run->manifest.segment_count; i++) {
        run->report->segment_bytes += run->manifest.segments[i].size;
        run->report->live_bytes += run->manifest.segments[i].live_bytes;
    }
    g4_manifest_release(&run->manifest);
    g4_segment_builder_free(run->builder);
    kvt_free(run->bodies);
    kvt_free(run->slots);
    kvt_free(run->segment);
    kvt_free(run->changes);
    kvt_free(run->added);
    kvt_free(run->picks);
    kvt_free(run->doubles);
}

static enum kvt_err
check_options(const struct g4_compaction_options *options, struct kvt_error *err)
{
    if (options->namespace_[0] == '\0')
        return kvt_error_set(err, KVT_RANGE, "the namespace without a name cannot be packed");
    return g4_compaction_settings_check(&options->settings, err);
}

/* Which segments a run would copy forward: all that are worth it, however many runs that takes. */
static enum kvt_err
look_forward(struct g4_compaction_run *run, struct g4_compaction_outlook *outlook,
             struct kvt_error *err)
{
    const struct g4_manifest *manifest = &run->manifest;
    bool *chosen = kvt_calloc(manifest->segment_count + 1, sizeof(*chosen));

    if (chosen == NULL)
        return g4_compaction_no_memory(err);
    outlook->forward_segments =
        g4_compaction_plan_forward(&run->options->settings, manifest, UINT64_MAX, chosen);
    for (size_t i = 0; i < manifest->segment_count; i++)
        outlook->forward_bytes += chosen[i] ? manifest->segments[i].live_bytes : 0;
    kvt_free(chosen);
    return KVT_OK;
}

enum kvt_err
g4_compaction_look(const struct g4_compaction_options *options,
                   struct g4_compaction_outlook *outlook, struct kvt_error *err)
{
    struct g4_compaction_outlook found = {0};
    struct g4_compaction_report report;
    struct g4_compaction_run run;
    enum kvt_err rc = check_options(options, err);

    *outlook = found;
    g4_compaction_begin(&run, options, &report);
    if (rc == KVT_OK)
        rc = g4_compaction_load(&run, err);
    if (rc == KVT_OK)
        rc = g4_compaction_survey(&run, err);
    if (rc == KVT_OK)
        rc = look_forward(&run, &found, err);
    if (g4_compaction_plan_pack(&options->settings, run.eligible_blocks, run.eligible_bytes)) {
        found.pack_blocks = run.eligible_blocks;
        found.pack_bytes = run.eligible_bytes;
    }
    g4_compaction_end(&run);
    found.plain_blocks = report.plain_blocks;
    found.plain_bytes = report.plain_bytes;
    found.full = report.full;
    if (rc == KVT_OK)
        *outlook = found;
    return rc;
}

enum kvt_err
g4_compaction_run(const struct g4_compaction_options *options, struct g4_compaction_report *report,
                  struct kvt_error *err)
{
    struct g4_compaction_run run;
    bool idle = false;
    enum kvt_err rc = check_options(options, err);

    g4_compaction_begin(&run, options, report);
    report->more = true;
    for (unsigned i = 0; i < G4_COMPACTION_PASSES_MAX && rc == KVT_OK && !idle; i++) {
        rc = pass(&run, &idle, err);
        end_pass(&run);
    }
    g4_compaction_end(&run);
    return rc;
}
