#include "advisor/archive/index_import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "advisor/archive/index_import_private.h"
#include "advisor/index/index_image.h"
#include "base/core/alloc.h"

/* ROWS: in one transaction; LMDB keeps what it changed in memory until the commit. */
enum { ROWS = 20000, PATH_BYTES = ADVISOR_INDEX_IMPORT_PATH_BYTES, PATH_SHOWN = 120 };

/* ---- the folder ---- */

static void
remove_part(const struct advisor_index_import *import)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "lock"};
    char name[PATH_BYTES + 16];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s/%s", import->part, names[i]);
        (void)unlink(name);
    }
    (void)rmdir(import->part);
}

static enum kvt_err
some_publisher(void *arg, const void *data)
{
    const struct advisor_publisher_row *row = data;

    (void)row;
    *(bool *)arg = true;
    return KVT_OK;
}

/* Nothing in it that could be lost: no block, and nobody was ever heard. */
static enum kvt_err
check_empty(struct advisor_index_import *import, struct kvt_error *err)
{
    struct advisor_store_log log = {0};
    struct advisor_txn txn;
    uint64_t blocks = 0;
    bool heard = false;
    enum kvt_err rc = advisor_store_read(import->place, &txn, err);

    if (rc != KVT_OK)
        return rc;
    blocks = advisor_store_block_count(&txn);
    rc = advisor_store_walk(&txn, ADVISOR_ROW_PUBLISHER, some_publisher, &heard);
    if (rc == KVT_OK)
        rc = advisor_store_log_get(&txn, &log);
    advisor_store_end(&txn);
    if (rc == KVT_OK && (blocks > 0 || heard || log.next > 0))
        return kvt_error_set(err, KVT_EXISTS, "%.*s holds an index already; --force throws it away",
                             PATH_SHOWN, import->path);
    return rc;
}

enum kvt_err
advisor_index_import_open(struct advisor_index_import **out,
                          const struct advisor_index_import_options *options, struct kvt_error *err)
{
    struct advisor_store_options store = {.path = options->path, .map_bytes = options->map_bytes};
    struct advisor_index_import *import = kvt_calloc(1, sizeof(*import));
    enum kvt_err rc;

    *out = NULL;
    if (import == NULL)
        return kvt_error_set(err, KVT_NOMEM, "import: out of memory");
    if (snprintf(import->path, sizeof(import->path), "%s", options->path) >= PATH_BYTES ||
        snprintf(import->part, sizeof(import->part), "%s/" ADVISOR_INDEX_IMPORT_FOLDER,
                 options->path) >= PATH_BYTES) {
        import->part[0] = '\0';
        rc = kvt_error_set(err, KVT_RANGE, "%.*s...: name too long", PATH_SHOWN, options->path);
        goto fail;
    }
    rc = advisor_store_open(&import->place, &store, err);
    if (rc == KVT_OK && !options->replace)
        rc = check_empty(import, err);
    if (rc != KVT_OK)
        goto fail;
    remove_part(import); /* of an import that was cut short */
    store.path = import->part;
    rc = advisor_store_open(&import->store, &store, err);
    if (rc == KVT_OK)
        rc = advisor_number_map_new(&import->namespaces);
    if (rc == KVT_OK)
        rc = advisor_number_map_new(&import->holders);
    if (rc == KVT_OK)
        rc = advisor_number_map_new(&import->floors);
    if (rc == KVT_OK)
        rc = advisor_event_log_new(&import->log);
    if (rc != KVT_OK) {
        if (rc == KVT_NOMEM)
            (void)kvt_error_set(err, rc, "import: out of memory");
        goto fail;
    }
    *out = import;
    return KVT_OK;

fail:
    advisor_index_import_free(import);
    return rc;
}

void
advisor_index_import_free(struct advisor_index_import *import)
{
    if (import == NULL)
        return;
    advisor_store_end(&import->txn);
    if (import->store != NULL) {
        advisor_store_close(import->store);
        remove_part(import);
    }
    advisor_store_close(import->place);
    advisor_store_block_release(&import->block);
    advisor_number_map_free(import->namespaces);
    advisor_number_map_free(import->holders);
    advisor_number_map_free(import->floors);
    advisor_event_log_free(import->log);
    kvt_free(import);
}

/* ---- lines ---- */

static enum kvt_err
take_end(struct advisor_index_import *import, struct json_object *row, struct kvt_error *err)
{
    uint64_t lines;

    if (!kvt_json_u64(row, "lines", &lines))
        return KVT_INVALID;
    if (lines != import->lines)
        return kvt_error_set(err, KVT_CORRUPT, "%" PRIu64 " lines, and the last says %" PRIu64,
                             import->lines, lines);
    import->ended = true;
    return KVT_OK;
}

static enum kvt_err
take_row(struct advisor_index_import *import, struct json_object *row, struct kvt_error *err)
{
    const char *kind = kvt_json_string(row, "row");

    if (kind == NULL || import->ended)
        return KVT_INVALID;
    if (import->begun && strcmp(kind, "end") == 0)
        return take_end(import, row, err);
    return advisor_index_import_row(import, row, kind, err);
}

static enum kvt_err
commit(struct advisor_index_import *import, struct kvt_error *err)
{
    enum kvt_err rc;

    import->rows = 0;
    if (import->txn.handle == NULL)
        return KVT_OK;
    rc = advisor_store_log_append(&import->txn, &import->state, import->log);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "the index: %s", kvt_err_text(rc));
    advisor_event_log_clear(import->log);
    return advisor_store_commit(&import->txn, err);
}

enum kvt_err
advisor_index_import_line(struct advisor_index_import *import, const char *line, size_t size,
                          struct kvt_error *err)
{
    struct kvt_error cause = {0};
    struct json_object *row;
    char name[32];
    enum kvt_err rc;

    (void)snprintf(name, sizeof(name), "line %" PRIu64, import->lines + 1);
    rc = kvt_json_parse(&row, line, size, name, err);
    if (rc != KVT_OK)
        return rc;
    if (import->txn.handle == NULL)
        rc = advisor_store_write(import->store, &import->txn, err);
    if (rc == KVT_OK) {
        rc = take_row(import, row, &cause);
        if (rc != KVT_OK)
            (void)kvt_error_set(err, rc, "%s: %.*s", name, PATH_SHOWN,
                                cause.text[0] != '\0' ? cause.text
                                : rc == KVT_INVALID   ? "no row of an index export"
                                                      : kvt_err_text(rc));
    }
    (void)json_object_put(row);
    if (rc != KVT_OK)
        return rc;
    import->lines++;
    return ++import->rows < ROWS ? KVT_OK : commit(import, err);
}

/* ---- the end ---- */

static enum kvt_err
take_place_of(const struct advisor_index_import *import, struct kvt_error *err)
{
    char from[PATH_BYTES + 16];
    char to[PATH_BYTES + 16];

    (void)snprintf(from, sizeof(from), "%s/data.mdb", import->part);
    (void)snprintf(to, sizeof(to), "%s/data.mdb", import->path);
    if (rename(from, to) != 0)
        return kvt_error_sys(err, errno, "%.*s: put the index in place", PATH_SHOWN, import->path);
    /* It speaks of the transactions of the database that was there. */
    (void)snprintf(to, sizeof(to), "%s/lock.mdb", import->path);
    (void)unlink(to);
    return kvt_folder_sync(import->path, err);
}

/* It can be read as an advisor will: what is in it is counted so. */
static enum kvt_err
check_whole(struct advisor_index_import *import, struct kvt_error *err)
{
    struct advisor_index_image *image;
    struct index_stats stats;
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(import->store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = advisor_index_image_new(&image, &txn, err);
    advisor_store_end(&txn);
    if (rc != KVT_OK)
        return rc;
    index_stats(advisor_index_image_memory(image)->index, &stats);
    import->counts.blocks = stats.blocks;
    import->counts.places = stats.places;
    advisor_index_image_free(image);
    return KVT_OK;
}

enum kvt_err
advisor_index_import_finish(struct advisor_index_import *import,
                            struct advisor_index_import_counts *counts, struct kvt_error *err)
{
    enum kvt_err rc;

    *counts = (struct advisor_index_import_counts){0};
    if (!import->ended)
        return kvt_error_set(err, KVT_CORRUPT,
                             "the export ends after line %" PRIu64 " without its last row: it was "
                             "cut short",
                             import->lines);
    rc = commit(import, err);
    if (rc == KVT_OK)
        rc = advisor_store_sync(import->store, err);
    if (rc == KVT_OK)
        rc = check_whole(import, err);
    if (rc != KVT_OK)
        return rc;
    advisor_store_close(import->store);
    import->store = NULL;
    rc = take_place_of(import, err);
    remove_part(import);
    if (rc == KVT_OK)
        *counts = import->counts;
    return rc;
}
