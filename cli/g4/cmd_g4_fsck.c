#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/options.h"
#include "cli/g4/finding.h"
#include "cli/g4/g4_commands.h"
#include "cli/g4/progress_file.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"
#include "cli/remote/cli_bucket.h"
#include "g4/object/g4_store.h"
#include "g4/object/kind.h"
#include "g4/s3/bucket.h"
#include "kvtier/key.h"

enum {
    SIDES = 5,
    PATH_MAX_BYTES = 3 * CLI_ADMIN_CURSOR_MAX,
    PROGRESS_EVERY = 5000,
    LISTING_ROWS = 1000
};

/* KVBM's own formatter names shards by number: the first one is in front of its blocks. */
#define FIRST_SHARD "0/"

/* One sorted listing of the gateway, read row by row: one page of it is in memory.  A key longer
 * than KVT_KEY_MAX - 1 is left out. */
struct listing_row {
    char key[KVT_KEY_MAX];
    char etag[G4_ETAG_MAX];
    uint64_t length;
    uint64_t modified_ms;
    char tiers[32]; /* of a row of the catalog: those with the copies it speaks of, ",hot,cold," */
    bool stored;    /* of a row of the catalog: not on its way in or out */
};

struct listing {
    const struct cli_context *context;
    const char *path; /* with its query */
    char cursor[CLI_ADMIN_CURSOR_MAX];
    struct listing_row *rows;
    size_t count;
    size_t at;
    bool begun;
};

enum which { CATALOG, COLD, HOT, WARM, FAR };

static const char *const tier_names[SIDES] = {"", "cold", "hot", "warm", "far"};

struct check {
    const struct cli_context *context;
    struct cli_findings findings;
    struct cli_progress_file resume;
    char paths[SIDES][PATH_MAX_BYTES];
    struct listing sides[SIDES];
    struct listing data; /* blocks of shard 0 beside the commit records; open once one was seen */
    bool metas;
};

/* ---- a sorted listing ---- */

static enum kvt_err
listing_open(struct listing *listing, const struct cli_context *context, const char *path,
             struct kvt_error *err)
{
    *listing = (struct listing){.context = context, .path = path};
    listing->rows = kvt_calloc(LISTING_ROWS, sizeof(*listing->rows));
    return listing->rows == NULL ? kvt_error_set(err, KVT_NOMEM, "out of memory") : KVT_OK;
}

static void
listing_close(struct listing *listing)
{
    kvt_free(listing->rows);
    listing->rows = NULL;
}

/* A catalog's row is a line for each of its copies, next to one another. */
static bool
take_line(void *arg, struct json_object *line)
{
    struct listing *listing = arg;
    const char *key = cli_json_text(line, "key");
    const char *tier = cli_json_text(line, "tier");
    size_t used;
    struct listing_row *row = listing->count > 0 ? &listing->rows[listing->count - 1] : NULL;

    if (strlen(key) >= KVT_KEY_MAX)
        return true;
    if (row == NULL || strcmp(row->key, key) != 0) {
        if (listing->count == LISTING_ROWS)
            return false; /* more than was asked for: no gateway of ours */
        row = &listing->rows[listing->count++];
        *row = (struct listing_row){.length = cli_json_u64(line, "length"),
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

/* The row at hand, NULL after the last one; it stays until listing_next(). */
static enum kvt_err
listing_head(struct listing *listing, const struct listing_row **row, struct kvt_error *err)
{
    *row = NULL;
    while (listing->at == listing->count) {
        enum kvt_err rc;

        if (listing->begun && listing->cursor[0] == '\0')
            return KVT_OK;
        listing->begun = true;
        listing->count = listing->at = 0;
        rc = cli_admin_page(listing->context, CLI_ADMIN_GATEWAY, listing->path, listing->cursor,
                            take_line, listing, err);
        if (rc != KVT_OK)
            return rc;
    }
    *row = &listing->rows[listing->at];
    return KVT_OK;
}

static void
listing_next(struct listing *listing)
{
    if (listing->at < listing->count)
        listing->at++;
}

/* ---- one key ---- */

/* Does the catalog's row speak of a copy on this tier? */
static bool
names_tier(const struct listing_row *row, const char *tier)
{
    char wanted[16];

    (void)snprintf(wanted, sizeof(wanted), ",%s,", tier);
    return strstr(row->tiers, wanted) != NULL;
}

/* Does what the listings say of a block or an opaque object not fit together?  The row's ETag is
 * that of the first bucket that has it. */
static bool
is_odd(const struct listing_row *rows[SIDES])
{
    const struct listing_row *row = rows[CATALOG];
    const struct listing_row *object = rows[COLD] != NULL ? rows[COLD] : rows[FAR];

    if (row == NULL)
        return true; /* whatever it is, nobody counts it */
    if (!row->stored)
        return true;
    for (size_t i = COLD; i < SIDES; i++)
        if (names_tier(row, tier_names[i]) != (rows[i] != NULL) ||
            (rows[i] != NULL && rows[i]->length != row->length))
            return true;
    return object != NULL && row->etag[0] != '\0' && strcmp(object->etag, row->etag) != 0;
}

/* ---- data without its commit record ---- */

/* Advance over the blocks of shard 0 up to `display`; those in between have no record. */
static enum kvt_err
pass_data(struct check *check, const char *display, struct kvt_error *err)
{
    const struct listing_row *row;
    enum kvt_err rc;
    int order;

    for (;;) {
        rc = listing_head(&check->data, &row, err);
        if (rc != KVT_OK || row == NULL)
            return rc;
        order = display == NULL ? -1 : strcmp(row->key + strlen(FIRST_SHARD), display);
        if (order > 0)
            return KVT_OK;
        if (order < 0 && row->length > 0 && g4_kind_of_key(row->key, NULL) == G4_KIND_BLOCK)
            cli_finding_show(&check->findings, "data-without-meta", row->key,
                             "KVBM does not know that it is complete: its commit record is "
                             "missing, or not written yet");
        listing_next(&check->data);
        if (order == 0)
            return KVT_OK;
    }
}

/* Records of the namespace "" come in the order of their blocks: side by side they show what is
 * missing.  Without any record nobody here uses them. */
static enum kvt_err
pass_meta(struct check *check, const char *key, struct kvt_error *err)
{
    char block[KVT_KEY_MAX];
    enum kvt_err rc;

    if (strchr(key, '/') != NULL || !g4_kind_meta_block(key, block) || check->resume.resumed)
        return KVT_OK;
    if (!check->metas) {
        rc = listing_open(&check->data, check->context, "/v1/store?tier=cold&prefix=" FIRST_SHARD,
                          err);
        if (rc != KVT_OK)
            return rc;
        check->metas = true;
    }
    return pass_data(check, block + strlen(FIRST_SHARD), err);
}

/* ---- the walk ---- */

static enum kvt_err
open_sides(struct check *check, struct kvt_error *err)
{
    struct json_object *status = NULL;
    enum kvt_err rc =
        cli_admin_ask(check->context, CLI_ADMIN_GATEWAY, "/v1/status", NULL, false, &status, err);

    for (size_t i = 0; i < SIDES && rc == KVT_OK; i++) {
        struct kvt_buffer path;

        /* Every gateway has a bucket, whatever it says of its tiers. */
        if (i > COLD && cli_json_at(status, tier_names[i]) == NULL) {
            check->sides[i].begun = true; /* a tier that this gateway has not: an empty listing */
            continue;
        }
        kvt_buffer_init(&path, PATH_MAX_BYTES - 1);
        if (i == CATALOG)
            kvt_buffer_printf(&path, "/v1/objects?limit=1000");
        else
            kvt_buffer_printf(&path, "/v1/store?tier=%s", tier_names[i]);
        if (check->resume.after[0] != '\0')
            kvt_buffer_printf(&path, "&after=");
        cli_admin_escape(&path, check->resume.after, false);
        (void)snprintf(check->paths[i], sizeof(check->paths[i]), "%s", kvt_buffer_text(&path));
        rc = kvt_buffer_ok(&path)
                 ? listing_open(&check->sides[i], check->context, check->paths[i], err)
                 : kvt_error_set(err, KVT_NOMEM, "out of memory");
        kvt_buffer_release(&path);
    }
    (void)json_object_put(status);
    return rc;
}

/* The smallest key at hand and who has it; `key` "" = no side has any more. */
static enum kvt_err
next_key(struct check *check, const struct listing_row *rows[SIDES], char key[KVT_KEY_MAX],
         struct kvt_error *err)
{
    const char *least = NULL;

    for (size_t i = 0; i < SIDES; i++) {
        const enum kvt_err rc = listing_head(&check->sides[i], &rows[i], err);

        if (rc != KVT_OK)
            return rc;
        if (rows[i] != NULL && (least == NULL || strcmp(rows[i]->key, least) < 0))
            least = rows[i]->key;
    }
    (void)snprintf(key, KVT_KEY_MAX, "%s", least == NULL ? "" : least);
    for (size_t i = 0; i < SIDES; i++)
        if (rows[i] != NULL && strcmp(rows[i]->key, key) != 0)
            rows[i] = NULL;
    return KVT_OK;
}

static enum kvt_err
compare(struct check *check, const char *key, const struct listing_row *rows[SIDES],
        struct kvt_error *err)
{
    const enum g4_kind kind = g4_kind_of_key(key, NULL);
    enum kvt_err rc = KVT_OK;

    if (kind == G4_KIND_OWN)
        return KVT_OK;
    if (kind == G4_KIND_META)
        rc = pass_meta(check, key, err);
    if (rc == KVT_OK && (kind == G4_KIND_META || kind == G4_KIND_LOCK || is_odd(rows)))
        rc = cli_finding_ask(&check->findings, key, err);
    return rc;
}

static enum kvt_err
walk(struct check *check, struct kvt_error *err)
{
    const struct listing_row *rows[SIDES];
    char key[KVT_KEY_MAX];
    enum kvt_err rc = open_sides(check, err);

    while (rc == KVT_OK && ferror(check->context->out) == 0) {
        rc = next_key(check, rows, key, err);
        if (rc != KVT_OK || key[0] == '\0')
            break;
        rc = compare(check, key, rows, err);
        for (size_t i = 0; i < SIDES; i++)
            if (rows[i] != NULL)
                listing_next(&check->sides[i]);
        if (rc == KVT_OK)
            rc = cli_progress_file_done(&check->resume, key, false, err);
        if (check->resume.done % PROGRESS_EVERY == 0 && cli_context_interactive(check->context))
            (void)fprintf(check->context->err, "\r%" PRIu64 " keys compared ", check->resume.done);
    }
    if (rc == KVT_OK && check->metas)
        rc = pass_data(check, NULL, err);
    for (size_t i = 0; i < SIDES; i++)
        listing_close(&check->sides[i]);
    listing_close(&check->data);
    return rc;
}

/* ---- incomplete uploads ---- */

static void
report_upload(const struct cli_context *context, const struct g4_endpoint *endpoint,
              const struct g4_bucket_upload *upload, struct cli_findings *findings)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    const uint64_t age_ms = now_ms > upload->begun_ms ? now_ms - upload->begun_ms : 0;
    const bool act = findings->act && strstr(findings->only, "|abort|") != NULL;
    char text[KVT_ERROR_TEXT_MAX];
    struct kvt_error err = {.code = KVT_OK};

    if (upload->begun_ms == 0 || age_ms < findings->older_ms) {
        findings->young++;
        return;
    }
    (void)snprintf(text, sizeof(text), "an upload begun %" PRIu64 " s ago and not completed",
                   age_ms / 1000);
    if (act && g4_bucket_abort(endpoint, kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT),
                               upload, &err) != KVT_OK)
        cli_finding_report(findings, "upload-left", upload->key, text, "abort", err.text);
    else
        cli_finding_report(findings, "upload-left", upload->key, text, "abort", act ? "" : NULL);
}

/* Uploads that were begun in the bucket and not completed: no listing shows their parts.  The
 * gateway begins none there; other clients do.  Reports each that is at least findings->older_ms
 * old as "upload-left", and aborts it where findings say so.  `first`: the command's first row of
 * CLI_OPTIONS_BUCKET. */
static enum kvt_err
find_incomplete_uploads(const struct cli_context *context, size_t first,
                        struct cli_findings *findings, struct kvt_error *err)
{
    struct g4_bucket_uploads *page = kvt_calloc(1, sizeof(*page));
    struct g4_endpoint *endpoint = NULL;
    enum kvt_err rc;

    if (page == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    rc = cli_bucket_endpoint(context, first, &endpoint, err);
    while (rc == KVT_OK) {
        rc = g4_bucket_uploads(endpoint, kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT),
                               page, err);
        for (size_t i = 0; rc == KVT_OK && i < page->count; i++)
            report_upload(context, endpoint, &page->rows[i], findings);
        if (page->key_marker[0] == '\0')
            break;
    }
    g4_endpoint_free(endpoint);
    kvt_free(page);
    return rc;
}

/* ---- fsck ---- */

static enum kvt_err
begin(struct check *check, struct kvt_error *err)
{
    const struct cli_context *context = check->context;
    const char *after = kvt_config_string(context->options, CLI_FSCK_AFTER);
    char what[CLI_PROGRESS_FILE_WHAT_MAX];
    enum kvt_err rc;

    if (strlen(after) >= KVT_KEY_MAX)
        return kvt_error_set(err, KVT_INVALID, "--after is longer than a key");
    (void)snprintf(what, sizeof(what), "fsck %s", cli_admin_url(context, CLI_ADMIN_GATEWAY));
    rc = cli_progress_file_begin(&check->resume,
                                 kvt_config_string(context->options, CLI_FSCK_STATE), what, err);
    if (rc == KVT_OK && after[0] != '\0') {
        (void)snprintf(check->resume.after, sizeof(check->resume.after), "%s", after);
        check->resume.resumed = true;
    }
    if (rc == KVT_OK && check->resume.resumed)
        (void)fprintf(context->err, "going on behind %s\n", check->resume.after);
    return rc;
}

static enum cli_exit
fail(const struct check *check, const struct kvt_error *err)
{
    const enum cli_exit status = cli_admin_fail(check->context, CLI_ADMIN_GATEWAY, err);

    if (err->code == KVT_AGAIN) /* the gateway is there, and its bucket is not */
        (void)fprintf(check->context->err, "  what is wrong: kvtier doctor\n");
    if (check->resume.after[0] != '\0')
        (void)fprintf(check->context->err, "  go on from there: kvtier g4 fsck --after %s\n",
                      check->resume.after);
    return status;
}

enum cli_exit
cli_g4_fsck(const struct cli_context *context)
{
    struct check *check = kvt_calloc(1, sizeof(*check));
    struct kvt_error err = {0};
    enum cli_exit status;
    enum kvt_err rc;

    if (check == NULL) {
        (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
        return cli_context_fail(context, &err);
    }
    check->context = context;
    check->findings = (struct cli_findings){
        .context = context,
        .act = kvt_config_bool(context->options, CLI_FSCK_REPAIR),
        .only = "|forget|adopt|quarantine|remove|", /* the rest is g4 gc's */
    };
    rc = begin(check, &err);
    if (rc != KVT_OK) {
        kvt_free(check);
        return cli_context_fail(context, &err);
    }
    rc = walk(check, &err);
    if (rc == KVT_OK && cli_bucket_given(context, CLI_FSCK_S3) &&
        find_incomplete_uploads(context, CLI_FSCK_S3, &check->findings, &err) != KVT_OK) {
        kvt_free(check);
        return cli_bucket_fail(context, CLI_FSCK_S3, &err);
    }
    if (rc == KVT_OK)
        rc = cli_progress_file_end(&check->resume, ferror(context->out) == 0, &err);
    else
        (void)!cli_progress_file_end(&check->resume, false, NULL);
    if (rc == KVT_OK || check->findings.found > 0)
        cli_finding_summary(&check->findings, check->resume.done,
                            "--repair does what stands under REMEDY, g4 gc collects and frees");
    status = rc == KVT_OK ? cli_finding_exit(&check->findings) : fail(check, &err);
    kvt_free(check);
    return status;
}

/* ---- gc ---- */

static enum kvt_err
collect(struct listing *bucket, struct cli_findings *findings, uint64_t *keys,
        struct kvt_error *err)
{
    const struct listing_row *row;
    enum kvt_err rc;

    for (*keys = 0; (rc = listing_head(bucket, &row, err)) == KVT_OK && row != NULL; ++*keys) {
        const enum g4_kind kind = g4_kind_of_key(row->key, NULL);

        if (kind == G4_KIND_LOCK || (kind == G4_KIND_BLOCK && row->length == 0))
            rc = cli_finding_ask(findings, row->key, err);
        if (rc != KVT_OK)
            return rc;
        listing_next(bucket);
        if (*keys % PROGRESS_EVERY == 0 && cli_context_interactive(findings->context))
            (void)fprintf(findings->context->err, "\r%" PRIu64 " keys ", *keys);
    }
    return rc;
}

enum cli_exit
cli_g4_gc(const struct cli_context *context)
{
    struct cli_findings findings = {
        .context = context,
        .act = kvt_config_bool(context->options, CLI_GC_YES),
        .only = "|collect|free|abort|",
        .older_ms = kvt_config_u64(context->options, CLI_GC_OLDER_THAN),
        .alone = kvt_config_bool(context->options, CLI_GC_ALONE),
    };
    struct listing bucket;
    struct kvt_error err = {0};
    uint64_t keys = 0;
    enum kvt_err rc;

    rc = listing_open(&bucket, context, "/v1/store?tier=cold", &err);
    if (rc == KVT_OK)
        rc = collect(&bucket, &findings, &keys, &err);
    listing_close(&bucket);
    if (rc != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
    if (cli_bucket_given(context, CLI_GC_S3) &&
        find_incomplete_uploads(context, CLI_GC_S3, &findings, &err) != KVT_OK)
        return cli_bucket_fail(context, CLI_GC_S3, &err);
    cli_finding_summary(&findings, keys, "--yes does it");
    return findings.failed > 0 ? CLI_EXIT_PARTIAL : CLI_EXIT_DONE;
}
