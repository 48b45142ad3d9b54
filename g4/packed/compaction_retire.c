#include <stdlib.h>

#include "g4/packed/compaction.h"
#include "g4/packed/compaction_internal.h"

/* Taking blocks out of a manifest. */

enum { TRIES = 4 };

/* Bring what is to be there in place of the block.  While the lock is held nobody packs, so nobody
 * removes it for what was there before. */
static enum kvt_err
put_first(struct g4_compaction_run *run, struct g4_compaction_retirement *one,
          struct kvt_error *err)
{
    const enum kvt_err rc = g4_compaction_guard(run, err);

    one->put->condition = G4_IF_ABSENT;
    if (rc != KVT_OK)
        return rc;
    one->outcome = g4_compaction_ask(run, one->put, err);
    if (one->outcome == KVT_EXISTS) /* it outlived the packing, or another was put since */
        one->outcome = KVT_OK;
    if (one->outcome == KVT_OK) /* once, also when the manifest has to be changed again */
        one->put = NULL;
    return KVT_OK;
}

static enum kvt_err
retire_one(struct g4_compaction_run *run, struct g4_compaction_retirement *one,
           struct kvt_error *err)
{
    const struct g4_manifest_block *block = g4_manifest_find(&run->manifest, &one->block);
    struct g4_manifest_change change = {.drop = true};
    enum kvt_err rc = KVT_OK;

    one->outcome = KVT_OK;
    if (block == NULL)
        return KVT_OK;
    if (one->only_this && !g4_segment_entry_same(&block->entry, &one->block)) {
        one->outcome = KVT_PRECONDITION;
        return KVT_OK;
    }
    if (one->put != NULL)
        rc = put_first(run, one, err);
    change.block.entry = one->block;
    return rc == KVT_OK && one->outcome == KVT_OK ? g4_compaction_change(run, &change, err) : rc;
}

/* Two may have asked for the same block. */
static void
drop_equal_changes(struct g4_compaction_run *run)
{
    size_t kept = 0;

    if (run->change_count > 0)
        qsort(run->changes, run->change_count, sizeof(*run->changes), g4_manifest_change_compare);
    for (size_t i = 0; i < run->change_count; i++)
        if (kept == 0 || g4_manifest_change_compare(&run->changes[kept - 1], &run->changes[i]) != 0)
            run->changes[kept++] = run->changes[i];
    run->change_count = kept;
}

enum kvt_err
g4_compaction_retire(const struct g4_compaction_options *options,
                     struct g4_compaction_retirement *blocks, size_t count, struct kvt_error *err)
{
    struct g4_compaction_report report;
    struct g4_compaction_run run;
    uint64_t deleted;
    enum kvt_err rc = KVT_BUSY;

    g4_compaction_begin(&run, options, &report);
    for (int i = 0; i < TRIES && rc == KVT_BUSY; i++) {
        run.change_count = 0;
        rc = g4_compaction_load(&run, err);
        for (size_t at = 0; at < count && rc == KVT_OK; at++)
            rc = retire_one(&run, &blocks[at], err);
        drop_equal_changes(&run);
        if (rc == KVT_OK && run.change_count > 0)
            rc = g4_compaction_commit(&run, err);
    }
    /* Where nothing is packed any more, nobody else would.  The blocks are out in any case. */
    if (rc == KVT_OK && run.committed && run.manifest.number % G4_MANIFEST_KEEP == 0)
        (void)!g4_manifest_log_prune(&run.log, run.manifest.number, &deleted, NULL);
    g4_compaction_end(&run);
    return rc;
}
