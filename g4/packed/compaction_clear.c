#include <stdio.h>
#include <string.h>

#include "g4/packed/compaction_internal.h"
#include "g4/packed/list_pages.h"

/* ---- what there is ---- */

struct counting {
    const char *namespace_;
    struct g4_compaction_remains *remains;
};

static enum kvt_err
on_row(void *arg, const struct g4_listed *row, struct kvt_error *err)
{
    const struct counting *counting = arg;
    struct g4_segment_name name;
    uint64_t number;

    (void)err;
    if (g4_segment_key_parse(row->key, counting->namespace_, &name) == KVT_OK) {
        counting->remains->segments++;
        counting->remains->segment_bytes += row->size;
    } else if (g4_manifest_key_parse(row->key, counting->namespace_, &number) == KVT_OK) {
        counting->remains->manifests += row->size > G4_MANIFEST_HEADER_SIZE;
    }
    return KVT_OK;
}

enum kvt_err
g4_compaction_remains(struct g4_store *store, const char *namespace_,
                      struct g4_compaction_remains *remains, struct kvt_error *err)
{
    struct counting counting = {.namespace_ = namespace_, .remains = remains};
    char prefix[KVT_KEY_MAX];

    *remains = (struct g4_compaction_remains){0};
    (void)snprintf(prefix, sizeof(prefix), "%.450s" G4_SEGMENT_FOLDER, namespace_);
    return g4_list_pages_walk(store, prefix, NULL, G4_COMPACTION_REQUEST_MS, on_row, &counting,
                              err);
}

/* ---- taking it away ---- */

/* The next manifest is without blocks. */
static enum kvt_err
empty(struct g4_compaction_run *run, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < run->manifest.block_count && rc == KVT_OK; i++) {
        const struct g4_manifest_change change = {.block = run->manifest.blocks[i], .drop = true};

        rc = g4_compaction_change(run, &change, err);
    }
    return rc == KVT_OK ? g4_compaction_commit(run, err) : rc;
}

/* Manifests are deleted when so many newer ones are there that nobody can take the number of a
 * deleted one for free (g4/packed/manifest_log.h): ones without blocks will do. */
static enum kvt_err
outnumber(struct g4_compaction_run *run, struct kvt_error *err)
{
    uint64_t deleted = 0;
    enum kvt_err rc = KVT_OK;

    for (unsigned i = 0; i < G4_MANIFEST_KEEP && rc == KVT_OK; i++)
        rc = g4_compaction_commit(run, err);
    if (rc == KVT_OK)
        rc = g4_manifest_log_prune(&run->log, run->manifest.number, &deleted, err);
    run->report->manifests_deleted += deleted;
    return rc;
}

enum kvt_err
g4_compaction_clear(const struct g4_compaction_options *options, uint64_t *blocks,
                    struct kvt_error *err)
{
    struct g4_compaction_report report;
    struct g4_compaction_run run;
    enum kvt_err rc;

    *blocks = 0;
    g4_compaction_begin(&run, options, &report);
    rc = g4_compaction_load(&run, err);
    if (rc == KVT_OK) {
        *blocks = run.manifest.block_count;
        rc = empty(&run, err);
    }
    if (rc == KVT_OK)
        rc = g4_compaction_remove_segments(&run, err);
    if (rc == KVT_OK)
        rc = outnumber(&run, err);
    g4_compaction_end(&run);
    return rc;
}
