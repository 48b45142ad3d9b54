/*
 * advisor/archive/index_import_private.h -- what the files import*.c share.
 *
 * Why: the folder, rows and rows of other systems' publishers are each a page of their own.
 */
#ifndef ADVISOR_ARCHIVE_INDEX_IMPORT_PRIVATE_H
#define ADVISOR_ARCHIVE_INDEX_IMPORT_PRIVATE_H

#include "advisor/archive/index_import.h"
#include "advisor/store/event_log.h"
#include "advisor/store/event_log_table.h"
#include "advisor/store/number_map.h"
#include "base/text/json.h"

#define ADVISOR_INDEX_IMPORT_PATH_BYTES 4096

struct advisor_index_import {
    struct advisor_store *place; /* the folder's own database: its lock keeps advisors out */
    struct advisor_store *store; /* the one that is built */
    struct advisor_txn txn;
    struct advisor_number_map *namespaces;
    struct advisor_number_map *holders;
    struct advisor_number_map
        *floors; /* version 1: what of a worker's places was about to be swept */
    struct advisor_store_block block;
    struct advisor_event_log *log; /* of the transaction */
    struct advisor_store_log state;
    struct advisor_index_import_counts counts;
    uint64_t publisher_next; /* of the export's first row; 0: not seen yet */
    uint64_t version;        /* of the export */
    uint64_t lines;
    uint64_t rows; /* of the transaction */
    bool begun;
    bool ended;
    char path[ADVISOR_INDEX_IMPORT_PATH_BYTES];
    char part[ADVISOR_INDEX_IMPORT_PATH_BYTES];
};

/** Take a row that is not the end; KVT_INVALID: it is none. */
KVT_NODISCARD enum kvt_err advisor_index_import_row(struct advisor_index_import *import,
                                                    struct json_object *row, const char *kind,
                                                    struct kvt_error *err);

/* import_foreign.c; KVT_NOTFOUND: of another kind */
KVT_NODISCARD enum kvt_err advisor_index_import_foreign(struct advisor_index_import *import,
                                                        struct json_object *row, const char *kind);

/* Members; false: it is missing, or does not fit. */
bool advisor_index_import_u32(struct json_object *row, const char *key, uint32_t *number);
bool advisor_index_import_name(struct json_object *row, const char *key, char *out, size_t size);

#endif /* ADVISOR_ARCHIVE_INDEX_IMPORT_PRIVATE_H */
