#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/s3/bucket.h"
#include "g4/s3/upload_notes.h"
#include "gateway/care/purge_private.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/quarantine.h"
#include "gateway/upload/unfinished_uploads.h"
#include "gateway/upload/uploads.h"

#define PROBE "kvtier-purge-probe"

enum { REQUEST_MS = 5000, NOTES = 64, SERVERS = 2 };

/* ---- the servers ---- */

/* Of the bucket and of a second one; NULL: it is at no S3 server, or there is none. */
static void
find_servers(const struct gateway_purge *purge, const struct g4_endpoint *servers[SERVERS])
{
    servers[0] = gateway_bucket_tier_endpoint(purge->context->tiers.buckets);
    servers[1] = gateway_bucket_tier_far_endpoint(purge->context->tiers.buckets);
}

/* Uploads whose keys begin with `prefix`: counted, and given up when that is wanted. */
static enum kvt_err
visit_at(struct gateway_purge *purge, const struct g4_endpoint *endpoint, const char *prefix,
         const char *probe, bool *seen, struct kvt_error *err)
{
    struct g4_bucket_uploads *page = kvt_calloc(1, sizeof(*page));
    enum kvt_err rc = KVT_OK;

    if (page == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    do {
        rc = g4_bucket_uploads_of(endpoint, REQUEST_MS, prefix, page, err);
        for (size_t i = 0; rc == KVT_OK && i < page->count; i++) {
            const struct g4_bucket_upload *upload = &page->rows[i];
            struct kvt_error why = {0};
            enum kvt_err given_up;

            if (strcmp(upload->key, probe) == 0) {
                *seen = true;
                given_up = g4_bucket_abort(endpoint, REQUEST_MS, upload, &why);
                if (given_up != KVT_OK)
                    gateway_purge_fail(purge, upload->key, given_up, why.text);
                continue;
            }
            if (strncmp(upload->key, purge->prefix, strlen(purge->prefix)) != 0)
                continue;
            purge->report->bucket_uploads++;
            if (!purge->act)
                continue;
            given_up = g4_bucket_abort(endpoint, REQUEST_MS, upload, &why);
            if (given_up == KVT_OK)
                purge->report->removed++;
            else
                gateway_purge_fail(purge, upload->key, given_up, why.text);
        }
    } while (rc == KVT_OK && page->key_marker[0] != '\0');
    kvt_free(page);
    return rc;
}

static enum kvt_err
visit(struct gateway_purge *purge, const char *prefix, struct kvt_error *err)
{
    const struct g4_endpoint *servers[SERVERS];
    enum kvt_err rc = KVT_OK;
    bool seen = false;

    find_servers(purge, servers);
    for (unsigned i = 0; i < SERVERS && rc == KVT_OK; i++)
        if (servers[i] != NULL)
            rc = visit_at(purge, servers[i], prefix, "", &seen, err);
    return rc;
}

/* An upload of our own shows whether a listing by prefix has all there are, also where nothing is
 * to be changed: it ends here, whatever fails.  One that a crash left is found by its key the next
 * time. */
static enum kvt_err
probe_listing(struct gateway_purge *purge, const struct g4_endpoint *endpoint,
              struct kvt_error *err)
{
    struct g4_bucket_upload probe = {.begun_ms = 0};
    bool listed = false;
    bool found = false;
    bool begun;
    enum kvt_err rc;

    (void)snprintf(probe.key, sizeof(probe.key), "%s" PROBE, purge->prefix);
    rc = g4_bucket_begin(endpoint, REQUEST_MS, &probe, err);
    begun = rc == KVT_OK;
    if (rc == KVT_OK)
        rc = visit_at(purge, endpoint, purge->prefix, probe.key, &listed, err);
    if (rc == KVT_OK && !listed)
        rc = visit_at(purge, endpoint, probe.key, probe.key, &found, err);
    if (begun && !found && !listed) { /* no listing tells of it, or there was none */
        struct kvt_error why = {0};
        const enum kvt_err given_up = g4_bucket_abort(endpoint, REQUEST_MS, &probe, &why);

        if (rc == KVT_OK && given_up != KVT_OK)
            rc = kvt_error_set(err, given_up, "%s", why.text);
    }
    purge->report->bucket_uploads = 0; /* they are counted in their turn */
    /* What holds for one of two servers alone is as good as not so: a search by whole key finds
     * what there is at the other one, too. */
    if (!listed)
        purge->listing = GATEWAY_PURGE_WHOLE;
    else if (purge->listing == GATEWAY_PURGE_NONE)
        purge->listing = GATEWAY_PURGE_LISTED;
    return rc;
}

enum kvt_err
gateway_purge_server(struct gateway_purge *purge, struct kvt_error *err)
{
    const struct g4_endpoint *servers[SERVERS];
    struct g4_bucket_settings *settings = kvt_calloc(1, sizeof(*settings));
    enum kvt_err rc = KVT_OK;

    purge->after[0] = '\0';
    purge->listing = GATEWAY_PURGE_NONE;
    if (settings == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    find_servers(purge, servers);
    for (unsigned i = 0; i < SERVERS && rc == KVT_OK; i++) {
        if (servers[i] == NULL)
            continue;
        rc = g4_bucket_settings(servers[i], REQUEST_MS, settings, err);
        if (rc != KVT_OK)
            break;
        purge->report->versions = purge->report->versions || settings->versions != G4_BUCKET_OFF;
        rc = probe_listing(purge, servers[i], err);
    }
    kvt_free(settings);
    return rc;
}

bool
gateway_purge_uploads_to(struct gateway_purge *purge, const char *key)
{
    const uint64_t failed = purge->report->failed;
    struct kvt_error err = {0};
    const enum kvt_err rc = visit(purge, key, &err);

    if (rc != KVT_OK)
        gateway_purge_fail(purge, key, rc, err.text);
    return purge->report->failed == failed;
}

/* A look counts the uploads to a key once: with its row, with its object, or else here. */
static bool
is_looked_at(struct gateway_purge *purge, const char *key)
{
    struct gateway_context *context = purge->context;
    struct g4_request head = {
        .verb = G4_HEAD, .key = key, .deadline_ms = kvt_clock_mono_ms() + REQUEST_MS};
    struct gateway_record record;

    return !purge->act && (gateway_catalog_get(context->catalog, key, &record) != KVT_NOTFOUND ||
                           g4_store_perform(gateway_bucket_tier_store(context->tiers.buckets),
                                            &head) != KVT_NOTFOUND);
}

/* One that this gateway began: perhaps it is under way, or the server hears of it yet. */
static void
visit_note(struct gateway_purge *purge, struct g4_upload_notes *notes,
           const struct g4_upload_note *note)
{
    const uint64_t age_ms = kvt_clock_unix_ms() - note->begun_ms; /* huge, if in the future */
    enum kvt_err gone;

    if (strncmp(note->key, purge->prefix, strlen(purge->prefix)) != 0)
        return;
    if (purge->listing == GATEWAY_PURGE_WHOLE && !is_looked_at(purge, note->key) &&
        !gateway_purge_uploads_to(purge, note->key))
        return;
    if (note->ours && age_ms < GATEWAY_UNFINISHED_UPLOADS_LATE_MS) {
        purge->report->bucket_uploads++;
        if (purge->act)
            gateway_purge_fail(purge, note->key, KVT_BUSY,
                               "its upload began a moment ago: it is being written, or the bucket "
                               "may hear of it late");
    } else if (purge->act) {
        gone = g4_upload_notes_drop(notes, note->id);
        if (gone != KVT_OK)
            gateway_purge_fail(purge, note->key, gone, "the note of its upload stays");
    }
}

static enum kvt_err
visit_notes(struct gateway_purge *purge, struct g4_upload_notes *notes, struct kvt_error *err)
{
    struct g4_upload_note *page = kvt_calloc(NOTES, sizeof(*page));
    char after[G4_UPLOAD_NOTE_ID] = "";
    size_t count = 0;
    enum kvt_err rc = page == NULL ? KVT_NOMEM : KVT_OK;

    while (rc == KVT_OK) {
        rc = g4_upload_notes_list(notes, after, page, NOTES, &count);
        for (size_t i = 0; rc == KVT_OK && i < count; i++)
            visit_note(purge, notes, &page[i]);
        if (rc != KVT_OK || count < NOTES)
            break;
        memcpy(after, page[count - 1].id, sizeof(after));
    }
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "the notes of uploads could not be read: %s",
                            kvt_err_text(rc));
    kvt_free(page);
    return rc;
}

/* MinIO lists what it heard of since it was started, without a prefix and of all buckets: which
 * proves nothing, but names keys. */
static enum kvt_err
visit_heard_of(struct gateway_purge *purge, const struct g4_endpoint *endpoint,
               struct kvt_error *err)
{
    struct g4_bucket_uploads *page = kvt_calloc(1, sizeof(*page));
    enum kvt_err rc = KVT_OK;

    if (page == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    do {
        rc = g4_bucket_uploads_of(endpoint, REQUEST_MS, "", page, err);
        for (size_t i = 0; rc == KVT_OK && i < page->count; i++) {
            const char *key = page->rows[i].key;

            if (strncmp(key, purge->prefix, strlen(purge->prefix)) == 0 &&
                !is_looked_at(purge, key))
                (void)gateway_purge_uploads_to(purge, key);
        }
    } while (rc == KVT_OK && page->key_marker[0] != '\0');
    kvt_free(page);
    return rc;
}

enum kvt_err
gateway_purge_bucket_uploads(struct gateway_purge *purge, struct kvt_error *err)
{
    const struct g4_endpoint *servers[SERVERS];
    enum kvt_err rc = KVT_OK;

    purge->after[0] = '\0';
    find_servers(purge, servers);
    if (servers[0] == NULL && servers[1] == NULL)
        return KVT_OK;
    for (unsigned i = 0; i < SERVERS && rc == KVT_OK; i++)
        if (purge->context->uploads.begun[i] != NULL)
            rc = visit_notes(purge, purge->context->uploads.begun[i], err);
    if (rc == KVT_OK && purge->listing != GATEWAY_PURGE_WHOLE)
        return visit(purge, purge->prefix, err);
    for (unsigned i = 0; i < SERVERS && rc == KVT_OK; i++)
        if (servers[i] != NULL)
            rc = visit_heard_of(purge, servers[i], err);
    return rc;
}

/* ---- what this gateway keeps ---- */

enum kvt_err
gateway_purge_uploads(struct gateway_purge *purge, struct kvt_error *err)
{
    char(*ids)[GATEWAY_UPLOAD_ID] = kvt_calloc(GATEWAY_UPLOADS_MAX, sizeof(*ids));
    struct gateway_upload *upload = kvt_calloc(1, sizeof(*upload));
    size_t count = 0;
    enum kvt_err rc = KVT_NOMEM;

    purge->after[0] = '\0';
    if (ids != NULL && upload != NULL)
        rc = gateway_uploads_list(purge->context, ids, &count);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "the uploads here could not be listed: %s", kvt_err_text(rc));
    for (size_t i = 0; rc == KVT_OK && i < count; i++) {
        enum kvt_err found = gateway_uploads_find(purge->context, ids[i], upload);
        struct g4_object_name name;

        if (found == KVT_NOTFOUND ||
            (found == KVT_OK &&
             (upload->bucket[0] != '\0' ||
              strncmp(upload->key, purge->prefix, strlen(purge->prefix)) != 0 ||
              g4_object_name_make(&name, upload->bucket, upload->key) != KVT_OK)))
            continue;
        if (found == KVT_OK)
            purge->report->uploads++;
        if (found == KVT_OK && purge->listing == GATEWAY_PURGE_WHOLE &&
            !is_looked_at(purge, name.text) && !gateway_purge_uploads_to(purge, name.text))
            continue; /* its key is wanted */
        if (found == KVT_OK && purge->act)
            found = gateway_uploads_drop(purge->context, ids[i]);
        if (found != KVT_OK)
            gateway_purge_fail(purge, ids[i], found, NULL);
        else if (purge->act)
            purge->report->removed++;
    }
    kvt_free(upload);
    kvt_free(ids);
    return rc;
}

enum kvt_err
gateway_purge_quarantine(struct gateway_purge *purge, struct kvt_error *err)
{
    uint64_t *ids = kvt_calloc(GATEWAY_QUARANTINE_ENTRIES_MAX, sizeof(*ids));
    size_t count = 0;
    enum kvt_err rc = KVT_NOMEM;

    purge->after[0] = '\0';
    if (ids != NULL)
        rc = gateway_quarantine_find(purge->context->quarantine, purge->prefix, ids,
                                     GATEWAY_QUARANTINE_ENTRIES_MAX, &count);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "the quarantine could not be read: %s", kvt_err_text(rc));
    purge->report->quarantined += count;
    for (size_t i = 0; rc == KVT_OK && purge->act && i < count; i++) {
        const enum kvt_err gone = gateway_quarantine_drop(purge->context->quarantine, ids[i]);

        if (gone == KVT_OK || gone == KVT_NOTFOUND)
            purge->report->removed++;
        else
            gateway_purge_fail(purge, "quarantine", gone, NULL);
    }
    kvt_free(ids);
    return rc;
}
