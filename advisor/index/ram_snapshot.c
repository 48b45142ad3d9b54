#include "advisor/index/ram_snapshot.h"

#include <assert.h>

#include "base/core/alloc.h"
#include "base/core/log.h"

enum {
    PAGE_BLOCKS = 512, /* of the index, while its writer's lock is held */
    TRIES_MAX = 4, /* of a step; should it be why its transactions fail, it must not stop them */
};

/* What the last write did, and does again until it is saved. */
enum step { STEP_NONE, STEP_BEGIN, STEP_SLICE, STEP_END };

struct advisor_ram_snapshot {
    struct advisor_ram_index *memory;
    struct index_scan *runs;         /* NULL: the pass has not begun */
    struct advisor_event_log *slice; /* of STEP_SLICE and STEP_END */
    uint64_t log_min;
    uint64_t slice_min;
    uint64_t seen_bytes;  /* of the log, when the last step was saved */
    uint64_t wrote_bytes; /* when it was written */
    uint64_t retry_bytes; /* of the log: none is begun before */
    enum step step;
    enum kvt_err rc; /* of the slice */
    bool begun;      /* one is being written */
    bool no_room;    /* the store refused the step */
    unsigned tries;  /* of the step */
};

enum kvt_err
advisor_ram_snapshot_new(struct advisor_ram_snapshot **out, struct advisor_ram_index *memory)
{
    struct advisor_ram_snapshot *snapshot = kvt_calloc(1, sizeof(*snapshot));

    *out = NULL;
    if (snapshot == NULL)
        return KVT_NOMEM;
    snapshot->memory = memory;
    snapshot->log_min = ADVISOR_RAM_SNAPSHOT_LOG_MIN;
    snapshot->slice_min = ADVISOR_RAM_SNAPSHOT_SLICE_MIN;
    if (advisor_event_log_new(&snapshot->slice) != KVT_OK) {
        advisor_ram_snapshot_free(snapshot);
        return KVT_NOMEM;
    }
    *out = snapshot;
    return KVT_OK;
}

void
advisor_ram_snapshot_free(struct advisor_ram_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    index_scan_free(snapshot->runs);
    advisor_event_log_free(snapshot->slice);
    kvt_free(snapshot);
}

void
advisor_ram_snapshot_sizes(struct advisor_ram_snapshot *snapshot, uint64_t log_min,
                           uint64_t slice_min)
{
    snapshot->log_min = log_min;
    snapshot->slice_min = slice_min;
}

bool
advisor_ram_snapshot_busy(const struct advisor_ram_snapshot *snapshot)
{
    return snapshot->begun;
}

/* ---- a slice ---- */

/* Whose places are in the log; ADVISOR_NAME_TABLE_NOBODY for those that have rows. */
static uint32_t
logged_holder(const struct advisor_ram_snapshot *snapshot, uint32_t index)
{
    const struct advisor_name_table *names = snapshot->memory->names;
    const uint32_t number = advisor_name_table_store_holder(names, index);

    if (number == ADVISOR_NAME_TABLE_NOBODY ||
        advisor_name_table_holder_key(names, number)->tier == KVT_TIER_G4)
        return ADVISOR_NAME_TABLE_NOBODY;
    return number;
}

/* The part of a run without the blocks at either end that have rows only; false: none is left.
 * What nobody has stays: something hangs on it. */
static bool
find_part(const struct advisor_ram_snapshot *snapshot, const struct index_run_view *run,
          uint32_t *first, uint32_t *end)
{
    bool in_rows[INDEX_RUN_VIEW_MAX] = {false};
    bool logged[INDEX_RUN_VIEW_MAX] = {false};

    *first = 0;
    *end = run->count;
    for (uint32_t i = 0; i < run->held_count; i++) {
        const struct index_held *held = &run->held[i];
        bool *marks = in_rows;

        if (logged_holder(snapshot, held->holder) != ADVISOR_NAME_TABLE_NOBODY) {
            if (held->count == run->count)
                return true;
            marks = logged;
        }
        for (uint32_t block = held->from; block < held->from + held->count; block++)
            marks[block] = true;
    }
    while (*first < *end && in_rows[*first] && !logged[*first])
        ++*first;
    while (*end > *first && in_rows[*end - 1] && !logged[*end - 1])
        --*end;
    return *first < *end;
}

static enum kvt_err
add_run(struct advisor_ram_snapshot *snapshot, const struct index_run_view *run)
{
    const struct advisor_event_log_place place = {
        .size = run->size,
        .ns = advisor_name_table_store_namespace(snapshot->memory->names, run->ns),
        .time_s = run->stored_s};
    uint32_t first;
    uint32_t end;
    enum kvt_err rc;

    if (place.ns == ADVISOR_NAME_TABLE_NOBODY || !find_part(snapshot, run, &first, &end))
        return KVT_OK;
    rc = advisor_event_log_run(snapshot->slice, &place,
                               first > 0 ? run->hashes[first - 1] : run->parent,
                               run->position + first, run->hashes + first,
                               run->tokens == NULL ? NULL : run->tokens + first, end - first);
    for (uint32_t i = 0; i < run->held_count && rc == KVT_OK; i++) {
        const struct index_held *held = &run->held[i];
        const uint32_t holder = logged_holder(snapshot, held->holder);

        if (holder != ADVISOR_NAME_TABLE_NOBODY)
            rc = advisor_event_log_hold(snapshot->slice, holder, held->ranks, held->from - first,
                                        held->count);
    }
    return rc;
}

static void
see_run(void *arg, const struct index_run_view *run)
{
    struct advisor_ram_snapshot *snapshot = arg;

    if (snapshot->rc == KVT_OK)
        snapshot->rc = add_run(snapshot, run);
}

/* A quarter more than the log grew by, so that the snapshot is whole before the log is as long. */
static uint64_t
slice_bytes(const struct advisor_ram_snapshot *snapshot, uint64_t log_bytes)
{
    const uint64_t grown = log_bytes > snapshot->seen_bytes ? log_bytes - snapshot->seen_bytes : 0;
    const uint64_t wanted = grown + grown / 4;

    if (wanted < snapshot->slice_min)
        return snapshot->slice_min;
    return wanted < ADVISOR_RAM_SNAPSHOT_SLICE_MAX ? wanted : ADVISOR_RAM_SNAPSHOT_SLICE_MAX;
}

/* Whatever is not KVT_OK: there is none. */
static enum kvt_err
make_slice(struct advisor_ram_snapshot *snapshot, uint64_t log_bytes)
{
    const uint64_t bytes = slice_bytes(snapshot, log_bytes);
    bool done = false;
    enum kvt_err rc = KVT_OK;

    if (snapshot->runs == NULL)
        rc = index_scan_new(&snapshot->runs, snapshot->memory->index);
    snapshot->rc = KVT_OK;
    while (rc == KVT_OK && !done && advisor_event_log_bytes(snapshot->slice) < bytes) {
        rc = index_scan_next(snapshot->runs, PAGE_BLOCKS, see_run, snapshot, &done);
        if (rc == KVT_OK)
            rc = snapshot->rc;
    }
    if (rc == KVT_OK)
        snapshot->step = done ? STEP_END : STEP_SLICE;
    return rc;
}

/* ---- steps ---- */

/* As if none had been begun: what there is of it in the store goes when the next is. */
void
advisor_ram_snapshot_forget(struct advisor_ram_snapshot *snapshot)
{
    index_scan_free(snapshot->runs);
    snapshot->runs = NULL;
    advisor_event_log_clear(snapshot->slice);
    snapshot->begun = false;
    snapshot->no_room = false;
    snapshot->tries = 0;
    snapshot->step = STEP_NONE;
}

static void
give_up(struct advisor_ram_snapshot *snapshot, const struct advisor_store_log *state,
        enum kvt_err why)
{
    kvt_log_warn("advisor.snapshot", "given_up",
                 "the index's snapshot cannot be written (%s): its log grows until that is tried "
                 "again",
                 kvt_err_text(why));
    advisor_ram_snapshot_forget(snapshot);
    snapshot->retry_bytes = state->bytes + snapshot->log_min / 4;
}

void
advisor_ram_snapshot_abandoned(struct advisor_ram_snapshot *snapshot,
                               const struct advisor_store_log *state)
{
    give_up(snapshot, state, KVT_FULL);
}

static bool
is_due(const struct advisor_ram_snapshot *snapshot, const struct advisor_store_log *state)
{
    return state->bytes >= snapshot->log_min && state->bytes >= state->runs_bytes &&
           state->bytes >= snapshot->retry_bytes;
}

static void
choose_step(struct advisor_ram_snapshot *snapshot, const struct advisor_store_log *state)
{
    enum kvt_err rc;

    if (!snapshot->begun) {
        if (is_due(snapshot, state))
            snapshot->step = STEP_BEGIN;
        return;
    }
    rc = make_slice(snapshot, state->bytes);
    if (rc != KVT_OK && rc != KVT_BUSY)
        give_up(snapshot, state, rc);
}

static enum kvt_err
take_step(const struct advisor_ram_snapshot *snapshot, const struct advisor_txn *txn,
          struct advisor_store_log *state)
{
    enum kvt_err rc;

    switch (snapshot->step) {
    case STEP_NONE: return KVT_OK;
    case STEP_BEGIN: return advisor_store_log_begin(txn, state);
    case STEP_SLICE: return advisor_store_log_add(txn, state, snapshot->slice);
    case STEP_END:
        rc = advisor_store_log_add(txn, state, snapshot->slice);
        return rc == KVT_OK ? advisor_store_log_end(txn, state) : rc;
    }
    return KVT_OK;
}

enum kvt_err
advisor_ram_snapshot_write(struct advisor_ram_snapshot *snapshot, const struct advisor_txn *txn,
                           struct advisor_store_log *state)
{
    enum kvt_err rc;

    if (!advisor_ram_index_whole(snapshot->memory)) {
        advisor_ram_snapshot_forget(snapshot);
        return KVT_OK;
    }
    if (snapshot->no_room || snapshot->tries == TRIES_MAX)
        give_up(snapshot, state, snapshot->no_room ? KVT_FULL : KVT_IO);
    if (snapshot->step == STEP_NONE)
        choose_step(snapshot, state);
    rc = take_step(snapshot, txn, state);
    if (snapshot->step != STEP_NONE) {
        snapshot->no_room = rc == KVT_FULL;
        snapshot->tries++;
    }
    snapshot->wrote_bytes = state->bytes;
    return rc;
}

void
advisor_ram_snapshot_saved(struct advisor_ram_snapshot *snapshot)
{
    const bool begun = snapshot->step == STEP_BEGIN || snapshot->begun;
    const bool ended = snapshot->step == STEP_END;

    assert(ended || snapshot->step != STEP_SLICE || snapshot->begun);
    advisor_event_log_clear(snapshot->slice);
    snapshot->step = STEP_NONE;
    snapshot->tries = 0;
    snapshot->begun = begun && !ended;
    snapshot->seen_bytes = snapshot->wrote_bytes;
    if (ended) {
        advisor_ram_snapshot_forget(snapshot);
        snapshot->retry_bytes = 0;
    }
}
