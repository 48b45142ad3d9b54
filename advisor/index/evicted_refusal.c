#include <assert.h>
#include <stdlib.h>

#include "advisor/index/evicted_private.h"

/*
 * Stores that say another parent or position than a block that is here has.
 *
 * They are left out of the group's log, each by itself: neither RAM nor a restart ever knows of
 * them.  A REMOVE behind them would say more than that: it would also take what the same holder
 * stored before, or stores rightly behind it in the same group; and until it comes, RAM would
 * refuse whoever else is right.
 */

static int
compare_at(const void *left, const void *right)
{
    const struct advisor_evicted_edit *a = left;
    const struct advisor_evicted_edit *b = right;

    return a->at < b->at ? -1 : a->at > b->at;
}

/* The blocks of a STORE that begins at `at`, but for those refused from `next` on. */
static enum kvt_err
copy_store(const struct advisor_evicted *evicted, struct advisor_event_log *to,
           const struct advisor_event_log_op *op, size_t at, size_t *next)
{
    const struct advisor_evicted_edit *refused = evicted->refused.rows;
    enum kvt_err rc = KVT_OK;

    for (uint32_t from = 0; from < op->count && rc == KVT_OK;) {
        const bool ends = *next < evicted->refused.count && refused[*next].at < at + op->count;
        const uint32_t end = ends ? (uint32_t)(refused[*next].at - at) : op->count;

        assert(!ends || refused[*next].hash == op->hashes[end]);
        rc = advisor_event_log_store(to, &op->place, from == 0 ? op->parent : op->hashes[from - 1],
                                     op->position + from, op->hashes + from,
                                     op->tokens == NULL ? NULL : op->tokens + from, end - from);
        *next += ends ? 1 : 0;
        from = end + 1;
    }
    return rc;
}

static enum kvt_err
copy_op(const struct advisor_evicted *evicted, struct advisor_event_log *to,
        const struct advisor_event_log_op *op, size_t at, size_t *next)
{
    switch (op->kind) {
    case ADVISOR_EVENT_LOG_STORE: return copy_store(evicted, to, op, at, next);
    case ADVISOR_EVENT_LOG_REMOVE:
        return advisor_event_log_remove(to, &op->place, op->hashes, op->count);
    case ADVISOR_EVENT_LOG_DROP: return advisor_event_log_drop(to, op->place.holder, op->place.ns);
    case ADVISOR_EVENT_LOG_RUN:
    case ADVISOR_EVENT_LOG_HOLD: break; /* of snapshots */
    }
    return KVT_OK;
}

static enum kvt_err
copy_rest(const struct advisor_evicted *evicted, struct advisor_event_log *to,
          const struct advisor_event_log *log)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    const void *bytes;
    size_t next = 0;
    size_t at = 0;
    size_t size;
    enum kvt_err rc = KVT_OK;

    for (size_t row = 0; rc == KVT_OK && advisor_event_log_row(log, row, &bytes, &size); row++) {
        rc = advisor_event_log_open(&reader, bytes, size);
        while (rc == KVT_OK && (rc = advisor_event_log_next(&reader, &op)) == KVT_OK) {
            rc = copy_op(evicted, to, &op, at, &next);
            at += op.kind == ADVISOR_EVENT_LOG_DROP ? 1 : op.count;
        }
        rc = rc == KVT_NOTFOUND ? KVT_OK : rc;
    }
    assert(rc != KVT_OK || next == evicted->refused.count);
    return rc;
}

enum kvt_err
advisor_evicted_leave_out(struct advisor_evicted *evicted, struct advisor_event_log *log)
{
    struct advisor_event_log *rest;
    enum kvt_err rc = advisor_event_log_new(&rest);

    if (rc != KVT_OK)
        return rc;
    qsort(evicted->refused.rows, evicted->refused.count, sizeof(struct advisor_evicted_edit),
          compare_at);
    rc = copy_rest(evicted, rest, log);
    if (rc == KVT_OK) {
        advisor_event_log_swap(log, rest);
        evicted->collisions += (uint32_t)evicted->refused.count;
        evicted->refused.count = 0;
    }
    advisor_event_log_free(rest);
    return rc;
}
