/*
 * advisor/archive/index_import.h -- an index made anew from its export (docs/formats.md, "Index
 * exports").
 *
 * Why: see advisor/archive/index_export.h.  The database is built beside the place it is for and
 * moved there when it is whole and checked, so that an import that was cut short leaves nothing
 * behind that an advisor would take for an index.
 *
 * Ownership: an import owns the folder's lock until it is freed: no advisor starts meanwhile.
 * Threads:   none; one owner.
 * Limits:    a line of ADVISOR_INDEX_IMPORT_LINE_MAX bytes; what the database may hold.
 */
#ifndef ADVISOR_ARCHIVE_INDEX_IMPORT_H
#define ADVISOR_ARCHIVE_INDEX_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/store/durable_store.h"
#include "base/core/file.h"

#define ADVISOR_INDEX_IMPORT_LINE_MAX (16u << 20)
#define ADVISOR_INDEX_IMPORT_FOLDER   "import.part"

struct advisor_index_import;

struct advisor_index_import_options {
    const char *path;   /* the advisor's state.dir */
    uint64_t map_bytes; /* db.max */
    bool replace;       /* an index that holds something is thrown away; else KVT_EXISTS */
};

struct advisor_index_import_counts {
    uint64_t blocks;
    uint64_t places;
    uint64_t publishers;
    uint64_t left_out; /* places of publishers that came while the export was made */
};

/** KVT_BUSY: an advisor runs there.  KVT_EXISTS: there is an index that holds something. */
KVT_NODISCARD enum kvt_err
advisor_index_import_open(struct advisor_index_import **out,
                          const struct advisor_index_import_options *options,
                          struct kvt_error *err);

/** The next line, without its end.  KVT_INVALID says what is wrong with it; KVT_UNSUPPORTED: an
 *  export of another version; KVT_FULL: the database. */
KVT_NODISCARD enum kvt_err advisor_index_import_line(struct advisor_index_import *import,
                                                     const char *line, size_t size,
                                                     struct kvt_error *err);

/** All lines were given: KVT_CORRUPT when some are missing.  Then the database takes its place. */
KVT_NODISCARD enum kvt_err advisor_index_import_finish(struct advisor_index_import *import,
                                                       struct advisor_index_import_counts *counts,
                                                       struct kvt_error *err);

/** Without finish: nothing was imported.  NULL is allowed. */
void advisor_index_import_free(struct advisor_index_import *import);

#endif /* ADVISOR_ARCHIVE_INDEX_IMPORT_H */
