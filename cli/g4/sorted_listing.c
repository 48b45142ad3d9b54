#include "cli/g4/sorted_listing.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "cli/output/cli_json.h"

enum kvt_err
cli_sorted_listing_open(struct cli_sorted_listing *side, const struct cli_context *context,
                        const char *path, struct kvt_error *err)
{
    *side = (struct cli_sorted_listing){.context = context, .path = path};
    side->rows = kvt_calloc(CLI_SORTED_LISTING_ROWS, sizeof(*side->rows));
    return side->rows == NULL ? kvt_error_set(err, KVT_NOMEM, "out of memory") : KVT_OK;
}

void
cli_sorted_listing_close(struct cli_sorted_listing *side)
{
    kvt_free(side->rows);
    side->rows = NULL;
}

/* A catalog's row is a line for each of its copies, side by side. */
static bool
take_line(void *arg, struct json_object *line)
{
    struct cli_sorted_listing *side = arg;
    const char *key = cli_json_text(line, "key");
    const char *tier = cli_json_text(line, "tier");
    size_t used;
    struct cli_sorted_listing_row *row = side->count > 0 ? &side->rows[side->count - 1] : NULL;

    if (strlen(key) >= KVT_KEY_MAX)
        return true;
    if (row == NULL || strcmp(row->key, key) != 0) {
        if (side->count == CLI_SORTED_LISTING_ROWS)
            return false; /* more than was asked for: no gateway of ours */
        row = &side->rows[side->count++];
        *row = (struct cli_sorted_listing_row){
            .length = cli_json_u64(line, "length"),
            .modified_ms = cli_json_u64(line, "modified_ms"),
            .stored = strcmp(cli_json_text(line, "state"), "stored") == 0};
        (void)snprintf(row->key, sizeof(row->key), "%s", key);
        (void)snprintf(row->etag, sizeof(row->etag), "%s", cli_json_text(line, "etag"));
    }
    used = strlen(row->tiers);
    (void)snprintf(row->tiers + used, sizeof(row->tiers) - used, "%s%.8s,", used == 0 ? "," : "",
                   tier);
    return true;
}

enum kvt_err
cli_sorted_listing_head(struct cli_sorted_listing *side, const struct cli_sorted_listing_row **row,
                        struct kvt_error *err)
{
    *row = NULL;
    while (side->at == side->count) {
        enum kvt_err rc;

        if (side->begun && side->cursor[0] == '\0')
            return KVT_OK;
        side->begun = true;
        side->count = side->at = 0;
        rc = cli_admin_page(side->context, CLI_ADMIN_GATEWAY, side->path, side->cursor, take_line,
                            side, err);
        if (rc != KVT_OK)
            return rc;
    }
    *row = &side->rows[side->at];
    return KVT_OK;
}

void
cli_sorted_listing_next(struct cli_sorted_listing *side)
{
    if (side->at < side->count)
        side->at++;
}
