#include "gateway/care/purge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/lock/lock.h"
#include "g4/object/kind.h"
#include "g4/object/object_name.h"
#include "g4/packed/packed_store.h"
#include "gateway/block/removal.h"
#include "gateway/care/purge_private.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/object_key.h"

/* The places, in the order they are looked at.  Uploads to what is listed first, while it is.
 * Packed namespaces before rows: what is in no manifest any more is deleted without writing one.
 * Rows before files and objects, so that readers miss. */
typedef enum kvt_err part_fn(struct gateway_purge *purge, struct kvt_error *err);

static part_fn keys_part;
static part_fn packed_part;
static part_fn rows_part;
static part_fn hot_part;
static part_fn warm_part;
static part_fn bucket_part;

static part_fn *const parts[] = {
    gateway_purge_server,
    keys_part,
    packed_part,
    rows_part,
    hot_part,
    warm_part,
    bucket_part,
    gateway_purge_uploads,
    gateway_purge_bucket_uploads,
    gateway_purge_quarantine,
};

enum {
    PART_COUNT = sizeof(parts) / sizeof(parts[0]),
    PAGE = 256, /* keys: a step is looked at again behind each page */
};

/* ---- what is asked for ---- */

bool
gateway_purge_namespace_ok(const char *namespace_)
{
    const char *at = namespace_;

    if (strlen(namespace_) >= KVT_NAMESPACE_MAX || gateway_object_key_is_reserved(namespace_))
        return false;
    for (;;) {
        const size_t size = strcspn(at, "/");

        /* "acme/0" begins keys of rank 0 of "acme", too. */
        if (size == 0 || strspn(at, "0123456789") == size || strncmp(at, ".kvt", 4) == 0)
            return false;
        if (at[size] == '\0')
            return true;
        at += size + 1;
    }
}

/* "3l<key>": the part, what the server is known to do, and behind which key. */
static bool
read_cursor(struct gateway_purge *purge, const char *cursor)
{
    if (cursor[0] == '\0')
        return true;
    if (cursor[0] < '0' || cursor[0] >= '0' + PART_COUNT || strchr("lwn", cursor[1]) == NULL ||
        cursor[1] == '\0' || strlen(cursor + 2) >= sizeof(purge->after))
        return false;
    purge->part = (unsigned)(cursor[0] - '0');
    purge->listing = cursor[1];
    (void)snprintf(purge->after, sizeof(purge->after), "%s", cursor + 2);
    return true;
}

void
gateway_purge_fail(struct gateway_purge *purge, const char *what, enum kvt_err rc, const char *why)
{
    struct gateway_purge_report *report = purge->report;

    report->failed++;
    if (report->text[0] == '\0')
        (void)snprintf(report->text, sizeof(report->text), "%.80s: %.100s", what,
                       why == NULL || why[0] == '\0' ? kvt_err_text(rc) : why);
}

/* Remove these, and the uploads to their keys where a server tells of no others; a key whose
 * uploads stay is kept.  False: something of them is left. */
static bool
remove_keys(struct gateway_purge *purge, const char *const *keys, size_t count)
{
    const char *some[GATEWAY_REMOVAL_TOGETHER];
    enum kvt_err statuses[GATEWAY_REMOVAL_TOGETHER];
    bool all = true;

    for (size_t at = 0; at < count;) {
        size_t taken = 0;

        if (atomic_load(&purge->context->stopping))
            return false;
        for (; at < count && taken < GATEWAY_REMOVAL_TOGETHER; at++) {
            if (purge->listing != GATEWAY_PURGE_WHOLE || gateway_purge_uploads_to(purge, keys[at]))
                some[taken++] = keys[at];
            else
                all = false;
        }
        gateway_removal_all(purge->context, some, taken, statuses);
        for (size_t i = 0; i < taken; i++) {
            if (statuses[i] == KVT_OK) {
                purge->report->removed++;
            } else {
                gateway_purge_fail(purge, some[i], statuses[i], NULL);
                all = false;
            }
        }
    }
    return all;
}

/* ---- packed namespaces ---- */

static bool
is_below(const char *namespace_, const char *name)
{
    const size_t size = strlen(namespace_);

    return strncmp(name, namespace_, size) == 0 && (name[size] == '\0' || name[size] == '/');
}

static void
clear_space(struct gateway_purge *purge, struct g4_store *store, size_t index)
{
    const char *name = g4_packed_store_name(store, index);
    struct g4_compaction_remains left;
    struct g4_compaction_remains still;
    struct kvt_error err = {0};
    uint64_t blocks;
    enum kvt_err rc = g4_packed_store_remains(store, index, &left, &err);

    if (rc != KVT_OK) {
        gateway_purge_fail(purge, name, rc, err.text);
        return;
    }
    purge->report->segments += left.segments;
    purge->report->segment_bytes += left.segment_bytes;
    purge->report->manifests += left.manifests;
    if (!purge->act || left.segments + left.manifests == 0)
        return;
    rc = g4_packed_store_clear(store, index, &blocks, &err);
    if (rc == KVT_OK)
        rc = g4_packed_store_remains(store, index, &still, &err);
    if (rc != KVT_OK) {
        gateway_purge_fail(purge, name, rc, err.text);
        return;
    }
    /* What is not gone does not count, or whoever repeats passes never comes to an end. */
    if (left.segments + left.manifests > still.segments + still.manifests)
        purge->report->removed += left.segments + left.manifests - still.segments - still.manifests;
    if (still.segments + still.manifests > 0)
        gateway_purge_fail(purge, name, KVT_AGAIN, "packed again, or not deleted");
}

static enum kvt_err
packed_part(struct gateway_purge *purge, struct kvt_error *err)
{
    struct g4_store *store = gateway_bucket_tier_store(purge->context->tiers.buckets);

    (void)err;
    purge->after[0] = '\0';
    if (!gateway_bucket_tier_packs(purge->context->tiers.buckets))
        return KVT_OK;
    for (size_t i = 0; i < g4_packed_store_count(store); i++)
        if (is_below(purge->namespace_, g4_packed_store_name(store, i)))
            clear_space(purge, store, i);
    return KVT_OK;
}

/* ---- forms of names ---- */

/* `after` says which form is looked at. */
static enum g4_object_form
form_of(const struct gateway_purge *purge)
{
    if (strncmp(purge->after, G4_OBJECT_NAME_ESCAPED, strlen(G4_OBJECT_NAME_ESCAPED)) == 0)
        return G4_OBJECT_ESCAPED;
    if (strncmp(purge->after, G4_OBJECT_NAME_HASHED, strlen(G4_OBJECT_NAME_HASHED)) == 0)
        return G4_OBJECT_HASHED;
    return G4_OBJECT_IDENTITY;
}

/* How names of this form begin, of the keys of the namespace.  Also of those that no key has: KVBM
 * writes to the bucket itself. */
static void
names_of(const struct gateway_purge *purge, enum g4_object_form form, struct g4_object_name *names)
{
    if (form == G4_OBJECT_IDENTITY)
        (void)snprintf(names->text, sizeof(names->text), "%s", purge->prefix);
    else
        (void)!g4_object_name_prefix(names, "", form, purge->prefix);
}

/* Hashed names have only the beginning of a key: of a longer one, others' keys begin so too. */
static bool
is_cut(const struct gateway_purge *purge)
{
    struct g4_object_name escaped;
    struct g4_object_name hashed;

    names_of(purge, G4_OBJECT_ESCAPED, &escaped);
    names_of(purge, G4_OBJECT_HASHED, &hashed);
    return strcmp(escaped.text + strlen(G4_OBJECT_NAME_ESCAPED),
                  hashed.text + strlen(G4_OBJECT_NAME_HASHED)) != 0;
}

/* Names of one form are done with: go to the next, or end the part. */
static void
end_form(struct gateway_purge *purge, enum g4_object_form form)
{
    struct g4_object_name names;

    purge->after[0] = '\0';
    if (form == G4_OBJECT_HASHED || (form == G4_OBJECT_ESCAPED && is_cut(purge)))
        return;
    names_of(purge, form == G4_OBJECT_IDENTITY ? G4_OBJECT_ESCAPED : G4_OBJECT_HASHED, &names);
    (void)snprintf(purge->after, sizeof(purge->after), "%s", names.text);
}

/* ---- the catalog ---- */

static enum kvt_err
rows_part(struct gateway_purge *purge, struct kvt_error *err)
{
    const enum g4_object_form form = form_of(purge);
    struct g4_object_name names;
    struct gateway_scan scan = {.prefix = names.text, .capacity = PAGE};
    const char **keys = kvt_calloc(PAGE, sizeof(*keys));
    enum kvt_err rc = KVT_NOMEM;

    names_of(purge, form, &names);
    memcpy(scan.after, purge->after, sizeof(scan.after));
    scan.rows = kvt_calloc(scan.capacity, sizeof(*scan.rows));
    if (scan.rows != NULL && keys != NULL)
        rc = gateway_catalog_scan(purge->context->catalog, &scan);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "the catalog: %s", kvt_err_text(rc));
        goto done;
    }
    purge->report->rows += scan.count;
    for (size_t i = 0; i < scan.count; i++)
        keys[i] = scan.rows[i].key;
    if (purge->act)
        (void)remove_keys(purge, keys, scan.count);
    for (size_t i = 0; !purge->act && purge->listing == GATEWAY_PURGE_WHOLE && i < scan.count; i++)
        (void)gateway_purge_uploads_to(purge, keys[i]);
    if (scan.end)
        end_form(purge, form);
    else
        memcpy(purge->after, scan.after, sizeof(purge->after));
done:
    kvt_free(scan.rows);
    kvt_free(keys);
    return rc;
}

/* ---- listings ---- */

/* The next page of a store, behind `after`; `after` is set to its last key, or to the next form in
 * the bucket, or to "" when that was the last page. */
static enum kvt_err
next_page(struct gateway_purge *purge, struct g4_store *store, const char *what,
          struct g4_request *page, struct kvt_error *err)
{
    const bool volume = store != gateway_bucket_tier_store(purge->context->tiers.buckets);
    const enum g4_object_form form = form_of(purge);
    struct g4_object_name names;
    enum kvt_err rc;

    names_of(purge, form, &names);
    *page = (struct g4_request){.verb = G4_LIST,
                                .key = names.text,
                                .after = purge->after[0] == '\0' ? NULL : purge->after,
                                .listed_wanted = PAGE};
    page->listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*page->listed));
    rc = page->listed == NULL ? KVT_NOMEM : g4_store_perform(store, page);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "%s could not be listed: %.150s", what,
                            page->listed == NULL ? "out of memory" : page->error.text);
        kvt_free(page->listed);
        page->listed = NULL;
        return rc;
    }
    page->key = NULL;
    if ((page->token[0] == '\0' || page->listed_count == 0) && !volume)
        end_form(purge, form);
    else if (page->token[0] == '\0' || page->listed_count == 0)
        purge->after[0] = '\0'; /* a volume has blocks only */
    else
        (void)snprintf(purge->after, sizeof(purge->after), "%s",
                       page->listed[page->listed_count - 1].key);
    return KVT_OK;
}

/* Where uploads are listed by whole key, those to all that is in the bucket, of whatever kind.
 * What has a row is looked at with it. */
static enum kvt_err
keys_part(struct gateway_purge *purge, struct kvt_error *err)
{
    struct g4_request page = {.listed = NULL};
    struct gateway_record record;
    enum kvt_err rc;

    if (purge->listing != GATEWAY_PURGE_WHOLE) {
        purge->after[0] = '\0';
        return KVT_OK;
    }
    rc = next_page(purge, gateway_bucket_tier_store(purge->context->tiers.buckets), "the bucket",
                   &page, err);
    for (size_t i = 0; rc == KVT_OK && i < page.listed_count; i++)
        if (gateway_catalog_get(purge->context->catalog, page.listed[i].key, &record) ==
            KVT_NOTFOUND)
            (void)gateway_purge_uploads_to(purge, page.listed[i].key);
    kvt_free(page.listed);
    return rc;
}

/* Its row first, should it have one since; then the file, which no row knows. */
static void
drop_file(struct gateway_purge *purge, struct g4_store *volume, const char *key)
{
    struct gateway_context *context = purge->context;
    struct g4_request drop = {.verb = G4_DELETE, .key = key};
    const uint64_t removed = purge->report->removed;
    struct gateway_record record;
    struct gateway_key_lock hold;
    enum kvt_err rc;

    if (!remove_keys(purge, &key, 1))
        return;
    purge->report->removed = removed; /* of the file, not of what else had its key */
    gateway_key_lock_init(&hold, key);
    gateway_key_lock_acquire(context->key_locks, &hold, 1);
    if (gateway_catalog_get(context->catalog, key, &record) == KVT_NOTFOUND) {
        rc = g4_store_perform(volume, &drop);
        if (rc == KVT_OK || rc == KVT_NOTFOUND)
            purge->report->removed++;
        else
            gateway_purge_fail(purge, key, rc, drop.error.text);
    }
    gateway_key_lock_release(context->key_locks, &hold, 1);
}

/* Files that a row knows went with it; the others are what a crash left. */
static enum kvt_err
files_part(struct gateway_purge *purge, struct g4_store *volume, const char *name,
           struct kvt_error *err)
{
    struct g4_request page;
    enum kvt_err rc;

    if (volume == NULL) {
        purge->after[0] = '\0';
        return KVT_OK;
    }
    rc = next_page(purge, volume, name, &page, err);
    for (size_t i = 0; rc == KVT_OK && i < page.listed_count; i++) {
        const char *key = page.listed[i].key;

        purge->report->hot_files++;
        if (purge->act && !atomic_load(&purge->context->stopping))
            drop_file(purge, volume, key);
    }
    if (rc == KVT_OK)
        kvt_free(page.listed);
    return rc;
}

static enum kvt_err
hot_part(struct gateway_purge *purge, struct kvt_error *err)
{
    return files_part(purge, purge->context->tiers.hot, "the hot volume", err);
}

static enum kvt_err
warm_part(struct gateway_purge *purge, struct kvt_error *err)
{
    return files_part(purge, purge->context->tiers.warm, "the warm volume", err);
}

/* One whose lease is over, or that was given back, is nobody's; who has one is still at work. */
static void
handle_lock(struct gateway_purge *purge, const char *key)
{
    struct g4_store *store = gateway_bucket_tier_store(purge->context->tiers.buckets);
    struct g4_request drop = {.verb = G4_DELETE, .key = key, .once = true};
    struct g4_lease_seen seen;
    struct kvt_error err = {0};
    enum kvt_err rc;

    purge->report->locks++;
    if (!purge->act)
        return;
    rc = g4_lock_look(store, key, kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS, &seen, &err);
    if (rc == KVT_NOTFOUND)
        return;
    if (rc == KVT_OK && !seen.malformed && !seen.expired && !seen.body.released)
        rc = kvt_error_set(&err, KVT_BUSY, "held by %.60s", seen.body.instance);
    if (rc == KVT_OK)
        rc = g4_store_perform(store, &drop);
    if (rc == KVT_OK || rc == KVT_NOTFOUND)
        purge->report->removed++;
    else
        gateway_purge_fail(purge, key, rc, err.text);
}

/* Of a namespace that another gateway packs: only there its manifest can be emptied. */
static bool
is_packed_elsewhere(const char *key)
{
    return strstr(key, G4_SEGMENT_FOLDER) != NULL && g4_kind_of_key(key, NULL) != G4_KIND_BLOCK;
}

static enum kvt_err
bucket_part(struct gateway_purge *purge, struct kvt_error *err)
{
    const char **keys = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*keys));
    struct g4_request page = {.listed = NULL};
    size_t count = 0;
    enum kvt_err rc = KVT_NOMEM;

    if (keys == NULL)
        return kvt_error_set(err, rc, "out of memory");
    rc = next_page(purge, gateway_bucket_tier_store(purge->context->tiers.buckets), "the bucket",
                   &page, err);
    for (size_t i = 0; rc == KVT_OK && i < page.listed_count; i++) {
        const struct g4_listed *row = &page.listed[i];

        if (is_packed_elsewhere(row->key)) {
            purge->report->segments++;
            purge->report->segment_bytes += row->size;
            if (purge->act)
                gateway_purge_fail(purge, row->key, KVT_UNSUPPORTED,
                                   "its namespace is packed, and not in packed.namespaces here");
        } else if (g4_kind_of_key(row->key, NULL) == G4_KIND_LOCK) {
            handle_lock(purge, row->key);
        } else {
            purge->report->objects++;
            purge->report->object_bytes += row->size;
            keys[count++] = row->key;
        }
    }
    if (rc == KVT_OK && purge->act)
        (void)remove_keys(purge, keys, count);
    kvt_free(page.listed);
    kvt_free(keys);
    return rc;
}

/* ---- steps ---- */

enum kvt_err
gateway_purge_step(struct gateway_context *context, const char *namespace_, bool act,
                   char cursor[GATEWAY_PURGE_CURSOR_MAX], struct gateway_purge_report *report,
                   struct kvt_error *err)
{
    struct gateway_purge purge = {.context = context,
                                  .namespace_ = namespace_,
                                  .act = act,
                                  .report = report,
                                  .listing = GATEWAY_PURGE_NONE};
    const uint64_t end_ms = kvt_clock_mono_ms() + GATEWAY_PURGE_STEP_MS;
    enum kvt_err rc = KVT_OK;

    *report = (struct gateway_purge_report){
        .uploads_by = gateway_bucket_tier_is_driven(context->tiers.buckets)
                          ? GATEWAY_PURGE_BY_NOBODY
                          : GATEWAY_PURGE_BY_NOTHING};
    if (!gateway_purge_namespace_ok(namespace_) || !read_cursor(&purge, cursor))
        return kvt_error_set(err, KVT_INVALID, "\"%.80s\" is no tenant, or tenant/model",
                             namespace_);
    (void)snprintf(purge.prefix, sizeof(purge.prefix), "%s/", namespace_);
    if (act && !gateway_bucket_tier_healthy(context->tiers.buckets))
        return kvt_error_set(err, KVT_UNAVAILABLE, "the bucket does not answer");
    while (rc == KVT_OK && purge.part < PART_COUNT && kvt_clock_mono_ms() < end_ms) {
        if (atomic_load(&context->stopping))
            return kvt_error_set(err, KVT_CANCELLED, "the gateway ends");
        rc = parts[purge.part](&purge, err);
        if (rc == KVT_OK && purge.after[0] == '\0')
            purge.part++;
    }
    if (purge.listing != GATEWAY_PURGE_NONE &&
        !gateway_bucket_tier_is_driven(context->tiers.buckets))
        report->uploads_by =
            purge.listing == GATEWAY_PURGE_LISTED ? GATEWAY_PURGE_BY_PREFIX : GATEWAY_PURGE_BY_KEY;
    if (act && report->removed > 0)
        kvt_log_info("gateway.purge", "purged", "%s: %" PRIu64 " removed, %" PRIu64 " failed%s%s",
                     namespace_, report->removed, report->failed,
                     report->text[0] == '\0' ? "" : "; ", report->text);
    if (rc == KVT_OK && purge.part == PART_COUNT)
        cursor[0] = '\0';
    else if (rc == KVT_OK)
        (void)snprintf(cursor, GATEWAY_PURGE_CURSOR_MAX, "%c%c%s", (char)('0' + purge.part),
                       purge.listing, purge.after);
    return rc;
}
