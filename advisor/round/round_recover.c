#include <inttypes.h>

#include "advisor/round/round_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"

/*
 * RAM that is no copy of the store any more is made one again: emptied, and read as at a start.
 * Meanwhile questions are answered from the store, as before.
 */

enum {
    FIRST_MS = 10 * 1000,
    MOST_MS = 10 * 60 * 1000,
    PARTS_MAX = 16,
    ROOM_SHARE = 8, /* of the ceiling must be free: what is there now is to fit, and some more */
};

/* What RAM has followed since, as far as it fitted, tells how much there is. */
static bool
has_room(struct index *index)
{
    struct index_stats stats;
    uint64_t pages;

    index_stats(index, &stats);
    return stats.bytes_max - (stats.bytes < stats.bytes_max ? stats.bytes : stats.bytes_max) +
               index_room(index, &pages) >=
           stats.bytes_max / ROOM_SHARE;
}

static void
empty(struct index *index)
{
    const uint32_t count = index_holder_count(index);

    for (uint32_t holder = 0; holder < count; holder++) {
        uint64_t cursor = 0;
        uint64_t pairs;

        while (index_drop(index, holder, INDEX_NAMESPACE_ALL, &cursor, &pairs)) {
        }
    }
}

/* No snapshot is written while RAM is no copy, so the log has all that did not fit, and read in one
 * piece it would not fit again, whatever has gone since.  More often in vain: in more parts. */
static uint32_t
parts_of(const struct advisor_round *round)
{
    const uint64_t parts = 2 * round->recover_after_ms / FIRST_MS;

    return parts < PARTS_MAX ? (uint32_t)parts : PARTS_MAX;
}

/* Into a memory of its own: nobody is answered from RAM until it is whole. */
static enum kvt_err
load(struct advisor_round *round, struct kvt_error *err)
{
    struct advisor_ram_index fresh = {
        .index = round->memory.index,
        .names = round->names,
        .cold = round->evicted,
        .taken_back = round->taken_back,
        .quiet = true,
    };
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(round->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = advisor_index_load_parts(&fresh, &txn, parts_of(round), &round->progress, err);
    advisor_store_end(&txn);
    advisor_ram_index_release(&fresh);
    if (rc == KVT_OK && atomic_load(&fresh.spilled))
        rc = kvt_error_set(err, KVT_FULL, "it does not fit in memory");
    return rc;
}

void
advisor_round_recover(struct advisor_round *round)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    if (!atomic_load(&round->memory.spilled)) {
        round->recover_after_ms = 0;
        return;
    }
    if (round->recover_after_ms == 0) {
        round->recover_after_ms = FIRST_MS;
        round->recover_at_ms = began_ms + FIRST_MS;
    }
    /* Without a log there is nothing to read; before a commit it is not what RAM followed. */
    if (began_ms < round->recover_at_ms || round->options.volatile_places ||
        advisor_change_group_count(round->group) > 0 || atomic_load(&round->progress.cancel) ||
        !has_room(round->memory.index))
        return;
    advisor_ram_snapshot_forget(round->snapshot);
    empty(round->memory.index);
    rc = load(round, &err);
    round->deaf = true;
    advisor_round_forgive(round);
    if (round->recover_after_ms < MOST_MS)
        round->recover_after_ms *= 2;
    round->recover_at_ms = kvt_clock_mono_ms() + round->recover_after_ms;
    if (rc != KVT_OK) {
        kvt_log_warn("advisor.engine", "recover", "the index cannot be read into memory again: %s",
                     err.text);
        return;
    }
    atomic_store(&round->memory.spilled, false);
    kvt_log_info("advisor.engine", "recovered",
                 "the index is in memory again, read in %" PRIu64 " ms",
                 kvt_clock_mono_ms() - began_ms);
}
