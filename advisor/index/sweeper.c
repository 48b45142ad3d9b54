#include "advisor/index/sweeper.h"

#include <assert.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

struct sweep {
    struct advisor_sweep_row row;
    uint64_t from;  /* next hash to look at */
    uint64_t until; /* behind the last hash, begin again and go as far as here; 0: do not */
    bool again;     /* begun again */
    bool dirty;     /* not in the store yet */
    bool done;      /* still in the store */
};

struct advisor_sweeper {
    struct sweep *sweeps;
    size_t count;
    size_t capacity;
    size_t turn;                                  /* the sweep to go on with */
    struct advisor_held rows[ADVISOR_SWEEP_ROWS]; /* scratch */
};

enum kvt_err
advisor_sweeper_new(struct advisor_sweeper **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

void
advisor_sweeper_free(struct advisor_sweeper *sweeper)
{
    if (sweeper == NULL)
        return;
    kvt_free(sweeper->sweeps);
    kvt_free(sweeper);
}

enum kvt_err
advisor_sweeper_add(struct advisor_sweeper *sweeper, const struct advisor_sweep_row *row)
{
    void *more;

    for (size_t i = 0; i < sweeper->count; i++) {
        struct sweep *sweep = &sweeper->sweeps[i];

        if (sweep->row.publisher != row->publisher || sweep->row.holder != row->holder)
            continue;
        /* One that began anew each time would never come behind what others reported. */
        *sweep =
            (struct sweep){.row = *row, .from = sweep->from, .until = sweep->from, .dirty = true};
        return KVT_OK;
    }
    more =
        kvt_grow(sweeper->sweeps, &sweeper->capacity, sweeper->count + 1, sizeof(*sweeper->sweeps));
    if (more == NULL)
        return KVT_NOMEM;
    sweeper->sweeps = more;
    sweeper->sweeps[sweeper->count++] = (struct sweep){.row = *row, .dirty = true};
    return KVT_OK;
}

static enum kvt_err
load_row(void *arg, const void *data)
{
    const struct advisor_sweep_row *row = data;

    return advisor_sweeper_add(arg, row);
}

enum kvt_err
advisor_sweeper_load(struct advisor_sweeper *sweeper, const struct advisor_txn *txn)
{
    const enum kvt_err rc = advisor_store_walk(txn, ADVISOR_ROW_SWEEP, load_row, sweeper);

    advisor_sweeper_saved(sweeper);
    return rc;
}

enum kvt_err
advisor_sweeper_save(const struct advisor_sweeper *sweeper, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < sweeper->count && rc == KVT_OK; i++) {
        const struct sweep *sweep = &sweeper->sweeps[i];

        if (sweep->done)
            rc = advisor_store_delete(txn, ADVISOR_ROW_SWEEP, &sweep->row);
        else if (sweep->dirty)
            rc = advisor_store_put(txn, ADVISOR_ROW_SWEEP, &sweep->row);
    }
    return rc;
}

void
advisor_sweeper_saved(struct advisor_sweeper *sweeper)
{
    size_t kept = 0;

    for (size_t i = 0; i < sweeper->count; i++) {
        sweeper->sweeps[i].dirty = false;
        if (!sweeper->sweeps[i].done)
            sweeper->sweeps[kept++] = sweeper->sweeps[i];
    }
    sweeper->count = kept;
}

bool
advisor_sweeper_dirty(const struct advisor_sweeper *sweeper)
{
    for (size_t i = 0; i < sweeper->count; i++)
        if (sweeper->sweeps[i].dirty || sweeper->sweeps[i].done)
            return true;
    return false;
}

uint32_t
advisor_sweeper_floor(const struct advisor_sweeper *sweeper, uint32_t publisher, uint32_t holder)
{
    for (size_t i = 0; i < sweeper->count; i++)
        if (sweeper->sweeps[i].row.publisher == publisher &&
            sweeper->sweeps[i].row.holder == holder)
            return sweeper->sweeps[i].row.floor;
    return 0;
}

bool
advisor_sweeper_sweeps(const struct advisor_sweeper *sweeper, uint32_t holder)
{
    for (size_t i = 0; i < sweeper->count; i++)
        if (sweeper->sweeps[i].row.holder == holder)
            return true;
    return false;
}

bool
advisor_sweeper_sweeps_namespace(const struct advisor_sweeper *sweeper, uint32_t ns)
{
    for (size_t i = 0; i < sweeper->count; i++)
        if (sweeper->sweeps[i].row.ns == ns)
            return true;
    return false;
}

bool
advisor_sweeper_busy(const struct advisor_sweeper *sweeper)
{
    return sweeper->count > 0;
}

/* A new sweep waits until it is in the store, together with what called for it. */
static struct sweep *
next_sweep(struct advisor_sweeper *sweeper)
{
    for (size_t i = 0; i < sweeper->count; i++) {
        struct sweep *sweep = &sweeper->sweeps[sweeper->turn++ % sweeper->count];

        if (!sweep->dirty && !sweep->done)
            return sweep;
    }
    return NULL;
}

/* Behind the rows that were looked at; without any, behind all. */
static void
advance(struct sweep *sweep, const struct advisor_held *last)
{
    const bool at_end = last == NULL || last->hash == UINT64_MAX;

    sweep->from = at_end ? 0 : last->hash + 1;
    if (sweep->again || sweep->until == 0)
        sweep->done = at_end || (sweep->again && sweep->from >= sweep->until);
    else
        sweep->again = at_end;
}

enum kvt_err
advisor_sweeper_step(struct advisor_sweeper *sweeper, const struct advisor_txn *txn,
                     struct advisor_change_group *group)
{
    const size_t used = advisor_change_group_count(group);
    size_t room = used < ADVISOR_CHANGE_GROUP_OPS_MAX ? ADVISOR_CHANGE_GROUP_OPS_MAX - used : 0;
    struct sweep *sweep = room == 0 ? NULL : next_sweep(sweeper);
    size_t count = 0;
    enum kvt_err rc;

    assert(advisor_change_group_ops(group) == 0);
    if (sweep == NULL)
        return KVT_OK;
    if (room > ADVISOR_SWEEP_ROWS)
        room = ADVISOR_SWEEP_ROWS;
    rc = advisor_store_held(txn, sweep->row.holder, sweep->row.ns, sweep->from, sweeper->rows, room,
                            &count);
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        const struct advisor_held *held = &sweeper->rows[i];
        const struct advisor_op op = {
            .kind = ADVISOR_OP_REMOVE,
            .hash = held->hash,
            .time_ms = kvt_clock_unix_coarse_ms(), /* when it was found out */
            .ns = held->ns,
            .holder = held->holder,
            .ranks = UINT32_MAX,
        };

        if (held->reporter == sweep->row.publisher && held->gen < sweep->row.floor)
            rc = advisor_change_group_add(group, &op);
    }
    if (rc == KVT_OK)
        advance(sweep, count < room ? NULL : &sweeper->rows[count - 1]);
    return rc;
}
