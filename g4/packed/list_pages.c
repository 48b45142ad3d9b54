#include "g4/packed/list_pages.h"

#include <stddef.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

enum kvt_err
g4_list_pages_walk(struct g4_store *store, const char *prefix, const char *after,
                   uint64_t request_ms, g4_list_pages_each *each, void *arg, struct kvt_error *err)
{
    /* Not zeroed: most pages have few rows. */
    struct g4_listed *rows = kvt_aligned(_Alignof(max_align_t), G4_LIST_KEYS_MAX * sizeof(*rows));
    struct g4_request request = {.verb = G4_LIST, .key = prefix, .after = after, .listed = rows};
    enum kvt_err rc = KVT_OK;

    if (rows == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for a page of a listing");
    do {
        request.deadline_ms = request_ms == 0 ? 0 : kvt_clock_mono_ms() + request_ms;
        rc = g4_store_perform(store, &request);
        if (rc != KVT_OK && err != NULL)
            *err = request.error;
        for (size_t i = 0; i < request.listed_count && rc == KVT_OK; i++)
            rc = each(arg, &rows[i], err);
    } while (rc == KVT_OK && request.token[0] != '\0');
    kvt_free(rows);
    return rc;
}
