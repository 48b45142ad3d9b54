#include "gateway/upload/unfinished_uploads.h"

#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "g4/pair/bucket_pair.h"
#include "g4/s3/bucket.h"
#include "g4/s3/upload_notes.h"
#include "gateway/tier/bucket_tier.h"

enum { REQUEST_MS = 5000, PAGE = 64 };

struct settling {
    struct gateway_context *context;
    struct g4_upload_notes *notes;
    const struct g4_endpoint *endpoint; /* of the bucket that they are of */
    struct g4_bucket_uploads *page;
    uint64_t now_ms;
    uint64_t given_up;
    unsigned looked_at;
};

static bool
is_old(const struct settling *settling, uint64_t begun_ms)
{
    return begun_ms != 0 && begun_ms + GATEWAY_UNFINISHED_UPLOADS_AGE_MS <= settling->now_ms;
}

/* Somebody else's upload to the same key may be under way: only old ones are given up. */
static enum kvt_err
settle_one(struct settling *settling, const struct g4_upload_note *note)
{
    const struct g4_endpoint *endpoint = settling->endpoint;
    struct g4_bucket_uploads *page = settling->page;
    struct kvt_error err = {0};
    bool left = false;
    enum kvt_err rc;

    memset(page, 0, sizeof(*page));
    do {
        rc = g4_bucket_uploads_of(endpoint, REQUEST_MS, note->key, page, &err);
        for (size_t i = 0; rc == KVT_OK && i < page->count; i++) {
            if (strcmp(page->rows[i].key, note->key) != 0)
                continue;
            if (!is_old(settling, page->rows[i].begun_ms)) {
                left = true;
                continue;
            }
            rc = g4_bucket_abort(endpoint, REQUEST_MS, &page->rows[i], &err);
            settling->given_up += rc == KVT_OK;
        }
    } while (rc == KVT_OK && page->key_marker[0] != '\0');
    if (rc == KVT_OK && !left)
        rc = g4_upload_notes_drop(settling->notes, note->id);
    if (rc != KVT_OK)
        kvt_log_warn("gateway.begun", "settle", "%s: %s", note->key,
                     err.text[0] == '\0' ? kvt_err_text(rc) : err.text);
    return rc;
}

/* One bucket's: an hour's, until one of them cannot be seen to. */
static void
settle_all(struct settling *settling, struct g4_upload_note notes[PAGE])
{
    char after[G4_UPLOAD_NOTE_ID] = "";
    size_t count = PAGE;
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && count == PAGE &&
           settling->looked_at < GATEWAY_UNFINISHED_UPLOADS_ROUND) {
        rc = g4_upload_notes_list(settling->notes, after, notes, PAGE, &count);
        for (size_t i = 0; rc == KVT_OK && i < count; i++) {
            memcpy(after, notes[i].id, sizeof(after));
            if (!is_old(settling, notes[i].begun_ms))
                continue;
            settling->looked_at++;
            rc = atomic_load(&settling->context->stopping) ? KVT_CANCELLED
                                                           : settle_one(settling, &notes[i]);
        }
    }
}

void
gateway_unfinished_uploads_settle(struct gateway_context *context, uint64_t now_ms)
{
    struct settling settling = {.context = context, .now_ms = now_ms};
    struct g4_upload_note *notes = kvt_calloc(PAGE, sizeof(*notes));

    settling.page = kvt_calloc(1, sizeof(*settling.page));
    for (unsigned place = 0; notes != NULL && settling.page != NULL && place < 2; place++) {
        settling.notes = context->uploads.begun[place];
        if (settling.notes == NULL)
            continue;
        settling.endpoint = place == G4_BUCKET_PAIR_NEAR
                                ? gateway_bucket_tier_endpoint(context->tiers.buckets)
                                : gateway_bucket_tier_far_endpoint(context->tiers.buckets);
        settling.looked_at = 0;
        settle_all(&settling, notes);
    }
    if (settling.given_up > 0)
        kvt_log_info("gateway.begun", "given_up", "%" PRIu64 " uploads that nobody completed",
                     settling.given_up);
    kvt_free(settling.page);
    kvt_free(notes);
}
