#include "cli/g4/cmd_g4.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/options.h"
#include "cli/g4/g4_commands.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "cli/remote/cli_bucket.h"
#include "g4/object/kind.h"
#include "g4/s3/s3.h"
#include "kvtier/key.h"

enum { PAGE = 1000 };

/* ---- ls ---- */

struct listing {
    const struct cli_context *context;
    const char *prefix;
    uint64_t limit;
    uint64_t count;
    uint64_t bytes;
};

/* The block behind a key, so that a list can be joined with the advisor's. */
static void
add_hash(struct json_object *line, const char *key)
{
    char text[KVT_HASH_TEXT_MAX];
    struct kvt_key parts;

    if (kvt_key_parse(key, &parts) != KVT_OK)
        return;
    kvt_hash_format(parts.hash, text);
    (void)json_object_object_add(line, "hash", json_object_new_string(text));
}

/* Count one line; false when it was the last that is wanted, or nobody reads on. */
static bool
count_line(struct listing *listing, uint64_t length)
{
    listing->count++;
    listing->bytes += length;
    return ferror(listing->context->out) == 0 &&
           (listing->limit == 0 || listing->count < listing->limit);
}

/* Above the first line, so that nothing is printed when nobody answers. */
static void
print_titles(const struct cli_context *context)
{
    if (!context->json)
        (void)fprintf(context->out, "%-4s  %12s  %-8s  %-8s  %s\n", "TIER", "BYTES", "CRC32C",
                      "STATE", "KEY");
}

static bool
list_line(void *arg, struct json_object *line)
{
    struct listing *listing = arg;
    FILE *out = listing->context->out;
    const char *key = cli_json_text(line, "key");

    if (strncmp(key, listing->prefix, strlen(listing->prefix)) != 0)
        return true;
    if (listing->count == 0)
        print_titles(listing->context);
    if (listing->context->json) {
        add_hash(line, key);
        cli_json_print(out, line);
    } else {
        (void)fprintf(out, "%-4s  %12" PRIu64 "  %-8s  %-8s  ", cli_json_text(line, "tier"),
                      cli_json_u64(line, "length"), cli_json_text(line, "crc32c"),
                      cli_json_text(line, "state"));
        cli_table_text(out, key);
        (void)fputc('\n', out);
    }
    return count_line(listing, cli_json_u64(line, "length"));
}

static void
print_total(const struct listing *listing, const char *noun)
{
    char size[KVT_SIZE_TEXT_MAX];

    if (listing->context->json)
        return;
    kvt_size_format(listing->bytes, size);
    (void)fprintf(listing->context->err, "%" PRIu64 " %s, %s%s\n", listing->count, noun, size,
                  listing->limit != 0 && listing->count >= listing->limit
                      ? "; stopped there, --limit 0 shows all"
                      : "");
}

enum kvt_err
cli_g4_walk(const struct cli_context *context, const struct cli_g4_walk *walk, void *arg,
            struct kvt_error *err)
{
    struct kvt_buffer path;
    enum kvt_err rc;

    kvt_buffer_init(&path, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&path, "/v1/objects?limit=%d", PAGE);
    if (walk->tier != NULL && walk->tier[0] != '\0')
        kvt_buffer_printf(&path, "&tier=%s", walk->tier);
    if (walk->prefix[0] != '\0')
        kvt_buffer_printf(&path, "&prefix=");
    cli_admin_escape(&path, walk->prefix, false);
    if (walk->after[0] != '\0')
        kvt_buffer_printf(&path, "&after=");
    cli_admin_escape(&path, walk->after, false);
    if (!kvt_buffer_ok(&path))
        rc = kvt_error_set(err, KVT_INVALID, "the prefix is too long");
    else
        rc = cli_admin_walk(context, CLI_ADMIN_GATEWAY, kvt_buffer_text(&path), walk->each, arg,
                            err);
    kvt_buffer_release(&path);
    return rc;
}

static enum cli_exit
list_catalog(const struct cli_context *context, struct listing *listing)
{
    static const char *const tiers[] = {"", "hot", "cold", "warm", "far"};
    const struct cli_g4_walk walk = {.tier =
                                         tiers[kvt_config_enum(context->options, CLI_G4_LS_TIER)],
                                     .prefix = listing->prefix,
                                     .after = kvt_config_string(context->options, CLI_G4_LS_AFTER),
                                     .each = list_line};
    struct kvt_error err = {0};

    if (cli_g4_walk(context, &walk, listing, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
    if (listing->count == 0)
        print_titles(context);
    print_total(listing, "copies");
    return CLI_EXIT_DONE;
}

static void
print_bucket_titles(const struct cli_context *context)
{
    if (!context->json)
        (void)fprintf(context->out, "%-6s  %12s  %-24s  %s\n", "KIND", "BYTES", "MODIFIED", "KEY");
}

static bool
list_row(void *arg, const struct g4_listed *row)
{
    struct listing *listing = arg;
    const struct cli_context *context = listing->context;
    struct kvt_key parts = {.namespace_ = ""};
    const char *kind = g4_kind_name(g4_kind_of_key(row->key, &parts));
    char modified[KVT_CLOCK_TEXT_MAX];

    kvt_clock_format(row->modified_ms, modified);
    if (listing->count == 0)
        print_bucket_titles(context);
    if (context->json) {
        struct json_object *line = json_object_new_object();

        (void)json_object_object_add(line, "schema_version", json_object_new_int(1));
        (void)json_object_object_add(line, "key", json_object_new_string(row->key));
        (void)json_object_object_add(line, "kind", json_object_new_string(kind));
        (void)json_object_object_add(line, "namespace", json_object_new_string(parts.namespace_));
        (void)json_object_object_add(line, "length", json_object_new_uint64(row->size));
        (void)json_object_object_add(line, "modified_ms", json_object_new_uint64(row->modified_ms));
        (void)json_object_object_add(line, "etag", json_object_new_string(row->etag));
        add_hash(line, row->key);
        cli_json_print(context->out, line);
        (void)json_object_put(line);
    } else {
        (void)fprintf(context->out, "%-6s  %12" PRIu64 "  %-24s  ", kind, row->size, modified);
        cli_table_text(context->out, row->key);
        (void)fputc('\n', context->out);
    }
    return count_line(listing, row->size);
}

static enum cli_exit
list_bucket(const struct cli_context *context, struct listing *listing)
{
    const char *after = kvt_config_string(context->options, CLI_G4_LS_AFTER);
    struct g4_store *store = NULL;
    struct kvt_error err = {0};
    enum kvt_err rc;

    if (kvt_config_enum(context->options, CLI_G4_LS_TIER) != 0)
        return cli_context_usage(context, "g4 ls: --tier is of the gateway, --s3 has one tier");
    rc = cli_bucket_open(context, CLI_G4_LS_S3, &store, &err);
    if (rc == KVT_OK)
        rc = cli_bucket_walk(store, listing->prefix, after, list_row, listing, &err);
    g4_store_close(store);
    if (rc != KVT_OK)
        return cli_bucket_fail(context, CLI_G4_LS_S3, &err);
    if (listing->count == 0)
        print_bucket_titles(context);
    print_total(listing, "objects");
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_g4_ls(const struct cli_context *context)
{
    struct listing listing = {
        .context = context,
        .prefix = context->argument_count > 0 ? context->arguments[0] : "",
        .limit = kvt_config_u64(context->options, CLI_G4_LS_LIMIT),
    };

    return cli_bucket_given(context, CLI_G4_LS_S3) ? list_bucket(context, &listing)
                                                   : list_catalog(context, &listing);
}

/* ---- stat ---- */

static void
print_object(FILE *out, struct json_object *object)
{
    char size[KVT_SIZE_TEXT_MAX];
    char hash[KVT_HASH_TEXT_MAX];
    struct kvt_key key;

    kvt_size_format(cli_json_u64(object, "length"), size);
    (void)fprintf(out, "key          %s\n", cli_json_text(object, "key"));
    if (kvt_key_parse(cli_json_text(object, "key"), &key) == KVT_OK) {
        kvt_hash_format(key.hash, hash);
        (void)fprintf(out, "block        %s at position %" PRIu32 ", shard %" PRIu32 "\n", hash,
                      key.position, key.rank);
    } else {
        (void)fprintf(out, "block        none: the key is opaque\n");
    }
    (void)fprintf(out, "length       %s (%" PRIu64 " bytes)\ncrc32c       %s\nfingerprint  %s\n",
                  size, cli_json_u64(object, "length"), cli_json_text(object, "crc32c"),
                  cli_json_text(object, "fingerprint"));
    (void)fprintf(out, "writer       %s\netag         %s\nstate        %s\ncopies      ",
                  cli_json_text(object, "writer"), cli_json_text(object, "etag"),
                  cli_json_text(object, "state"));
    for (size_t i = 0; i < cli_json_count(object, "tiers"); i++)
        (void)fprintf(out, " %s", json_object_get_string(cli_json_item(object, "tiers", i)));
    (void)fputc('\n', out);
    if (json_object_object_get_ex(object, "pinned_until_ms", NULL)) {
        const uint64_t until_ms = cli_json_u64(object, "pinned_until_ms");
        char until[KVT_CLOCK_TEXT_MAX];

        kvt_clock_format(until_ms, until);
        (void)fprintf(out, "pinned       %s\n", until_ms == 0 ? "until an unpin" : until);
    }
}

static enum cli_exit
stat_catalog(const struct cli_context *context)
{
    struct json_object *object = NULL;
    struct kvt_buffer path;
    struct kvt_error err = {0};
    enum kvt_err rc;

    kvt_buffer_init(&path, CLI_ADMIN_PATH_MAX);
    kvt_buffer_printf(&path, "/v1/objects/");
    cli_admin_escape(&path, context->arguments[0], true);
    rc = kvt_buffer_ok(&path)
             ? cli_admin_ask(context, CLI_ADMIN_GATEWAY, kvt_buffer_text(&path), NULL, false,
                             &object, &err)
             : kvt_error_set(&err, KVT_INVALID, "a key has at most %d bytes", KVT_KEY_MAX - 1);
    kvt_buffer_release(&path);
    if (rc != KVT_OK) {
        const enum cli_exit status = cli_admin_fail(context, CLI_ADMIN_GATEWAY, &err);
        uint64_t hash;

        if (rc == KVT_NOTFOUND && kvt_hash_parse(context->arguments[0], &hash))
            (void)fprintf(context->err,
                          "  a KEY is [NAMESPACE/]RANK/POSITION:...: kvtier g4 ls lists them\n"
                          "  of a hash:  kvtier block show %s --namespace NAMESPACE\n",
                          context->arguments[0]);
        return status;
    }
    if (context->json)
        cli_json_print(context->out, object);
    else
        print_object(context->out, object);
    (void)json_object_put(object);
    return CLI_EXIT_DONE;
}

/* What is wrong with the object; "" = nothing that its head tells. */
static void
judge(const struct g4_request *head, enum g4_kind kind, char reason[KVT_ERROR_TEXT_MAX])
{
    const char *text = "";

    if (head->status == KVT_CORRUPT)
        text = head->error.text;
    else if (kind == G4_KIND_BLOCK)
        text = g4_kind_judge_block(head);
    else if (kind == G4_KIND_OPAQUE && head->meta.present && head->meta.length != head->buffer_size)
        text = "length differs from its metadata";
    (void)snprintf(reason, KVT_ERROR_TEXT_MAX, "%s", text == NULL ? "" : text);
}

static void
print_head(const struct cli_context *context, const struct g4_request *head, enum g4_kind kind,
           const char *wrong)
{
    char modified[KVT_CLOCK_TEXT_MAX];
    char size[KVT_SIZE_TEXT_MAX];

    kvt_clock_format(head->modified_ms, modified);
    kvt_size_format(head->buffer_size, size);
    (void)fprintf(context->out, "key          %s\nkind         %s\nlength       %s (%zu bytes)\n",
                  head->key, g4_kind_name(kind), size, head->buffer_size);
    if (head->meta.present)
        (void)fprintf(context->out,
                      "written as   %" PRIu64 " bytes\ncrc32c       %08" PRIx32
                      "\nfingerprint  %016" PRIx64 "\nwriter       %s\n",
                      head->meta.length, head->meta.crc32c, head->meta.fingerprint,
                      head->meta.writer);
    else
        (void)fprintf(context->out, "crc32c       none: not written by KVTier\n");
    (void)fprintf(context->out, "etag         %s\nmodified     %s\nwrong        %s\n", head->etag,
                  modified, wrong[0] == '\0' ? "nothing; g4 verify reads the bytes" : wrong);
}

static void
print_head_json(const struct cli_context *context, const struct g4_request *head, enum g4_kind kind,
                const char *wrong)
{
    struct json_object *object = json_object_new_object();
    char crc[9] = "";
    char fingerprint[17] = "";

    if (head->meta.present) {
        (void)snprintf(crc, sizeof(crc), "%08" PRIx32, head->meta.crc32c);
        (void)snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64, head->meta.fingerprint);
    }
    (void)json_object_object_add(object, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(object, "key", json_object_new_string(head->key));
    (void)json_object_object_add(object, "kind", json_object_new_string(g4_kind_name(kind)));
    (void)json_object_object_add(object, "length", json_object_new_uint64(head->buffer_size));
    (void)json_object_object_add(object, "crc32c", json_object_new_string(crc));
    (void)json_object_object_add(object, "fingerprint", json_object_new_string(fingerprint));
    (void)json_object_object_add(object, "writer", json_object_new_string(head->meta.writer));
    (void)json_object_object_add(object, "etag", json_object_new_string(head->etag));
    (void)json_object_object_add(object, "modified_ms", json_object_new_uint64(head->modified_ms));
    (void)json_object_object_add(object, "wrong", json_object_new_string(wrong));
    add_hash(object, head->key);
    cli_json_print(context->out, object);
    (void)json_object_put(object);
}

static enum cli_exit
stat_bucket(const struct cli_context *context)
{
    struct g4_request head = {.verb = G4_HEAD, .key = context->arguments[0]};
    char wrong[KVT_ERROR_TEXT_MAX];
    struct g4_store *store = NULL;
    struct kvt_error err = {0};
    enum g4_kind kind;
    enum kvt_err rc;

    rc = cli_bucket_open(context, CLI_G4_STAT_S3, &store, &err);
    if (rc == KVT_OK) {
        rc = g4_store_perform(store, &head);
        err = head.error;
    }
    if (rc == KVT_NOTFOUND && g4_s3_probe(store, NULL, &err) == KVT_OK) {
        g4_store_close(store);
        (void)kvt_error_set(&err, rc, "%.120s: no such object in the bucket", head.key);
        return cli_context_fail(context, &err);
    }
    g4_store_close(store);
    if (rc != KVT_OK && rc != KVT_CORRUPT)
        return cli_bucket_fail(context, CLI_G4_STAT_S3, &err);
    kind = g4_kind_of_object(&head);
    judge(&head, kind, wrong);
    if (context->json)
        print_head_json(context, &head, kind, wrong);
    else
        print_head(context, &head, kind, wrong);
    /* A block without our metadata may be KVBM's: unproven, not damaged. */
    return wrong[0] != '\0' && head.meta.present ? CLI_EXIT_INTEGRITY : CLI_EXIT_DONE;
}

enum cli_exit
cli_g4_stat(const struct cli_context *context)
{
    return cli_bucket_given(context, CLI_G4_STAT_S3) ? stat_bucket(context) : stat_catalog(context);
}
