/*
 * cli/g4/sorted_listing.h -- one sorted listing of the gateway's, pulled row by row.
 *
 * Why: catalog, bucket and hot volume are compared in one pass without any of them in memory.
 *
 * Ownership: the caller owns the struct (open/close); `path` is borrowed.
 * Threads:   one owner.
 * Limits:    CLI_SORTED_LISTING_ROWS rows of a page in memory; a key longer than KVT_KEY_MAX - 1
 *            is left out.
 */
#ifndef CLI_G4_SORTED_LISTING_H
#define CLI_G4_SORTED_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/frame/context.h"
#include "cli/remote/admin_client.h"
#include "g4/object/g4_store.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define CLI_SORTED_LISTING_ROWS 1000

struct cli_sorted_listing_row {
    char key[KVT_KEY_MAX];
    char etag[G4_ETAG_MAX];
    uint64_t length;
    uint64_t modified_ms;
    char tiers[32]; /* of a row of the catalog: those with the copies it speaks of, ",hot,cold," */
    bool stored;    /* of a row of the catalog: not on its way in or out */
};

struct cli_sorted_listing {
    const struct cli_context *context;
    const char *path; /* with its query */
    char cursor[CLI_ADMIN_CURSOR_MAX];
    struct cli_sorted_listing_row *rows;
    size_t count;
    size_t at;
    bool begun;
};

KVT_NODISCARD enum kvt_err cli_sorted_listing_open(struct cli_sorted_listing *side,
                                                   const struct cli_context *context,
                                                   const char *path, struct kvt_error *err);
void cli_sorted_listing_close(struct cli_sorted_listing *side);

/** The row at hand, NULL behind the last one; it stays until cli_sorted_listing_next(). */
KVT_NODISCARD enum kvt_err cli_sorted_listing_head(struct cli_sorted_listing *side,
                                                   const struct cli_sorted_listing_row **row,
                                                   struct kvt_error *err);
void cli_sorted_listing_next(struct cli_sorted_listing *side);

#endif /* CLI_G4_SORTED_LISTING_H */
