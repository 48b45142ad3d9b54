#include "cli/g4.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parse.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/server.h"
#include "cli/table.h"
#include "kvtier/key.h"

enum { PAGE = 1000, PATH_MAX_BYTES = 128 };

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
        (void)fprintf(out, "%-4s  %12" PRIu64 "  %-8s  %-8s  %s\n", cli_json_text(line, "tier"),
                      cli_json_u64(line, "length"), cli_json_text(line, "crc32c"),
                      cli_json_text(line, "state"), key);
    }
    listing->count++;
    listing->bytes += cli_json_u64(line, "length");
    return ferror(out) == 0 && (listing->limit == 0 || listing->count < listing->limit);
}

enum cli_exit
cli_g4_ls(const struct cli_context *context)
{
    static const char *const tiers[] = {"", "hot", "cold"};
    struct listing listing = {
        .context = context,
        .prefix = context->argument_count > 0 ? context->arguments[0] : "",
        .limit = kvt_config_u64(context->options, CLI_G4_LS_LIMIT),
    };
    const char *tier = tiers[kvt_config_enum(context->options, CLI_G4_LS_TIER)];
    struct kvt_error err = {0};
    char path[PATH_MAX_BYTES];
    char size[KVT_SIZE_TEXT_MAX];

    (void)snprintf(path, sizeof(path), "/v1/objects?limit=%d%s%s", PAGE,
                   tier[0] == '\0' ? "" : "&tier=", tier);
    if (cli_server_walk(context, CLI_SERVER_GATEWAY, path, list_line, &listing, &err) != KVT_OK)
        return cli_server_fail(context, CLI_SERVER_GATEWAY, &err);
    if (listing.count == 0)
        print_titles(context);
    if (!context->json) {
        kvt_size_format(listing.bytes, size);
        (void)fprintf(context->err, "%" PRIu64 " copies, %s%s\n", listing.count, size,
                      listing.limit != 0 && listing.count >= listing.limit
                          ? "; stopped there, --limit 0 shows all"
                          : "");
    }
    return CLI_EXIT_DONE;
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
}

enum cli_exit
cli_g4_stat(const struct cli_context *context)
{
    struct json_object *object = NULL;
    struct kvt_buffer path;
    struct kvt_error err = {0};
    enum kvt_err rc;

    kvt_buffer_init(&path, CLI_SERVER_PATH_MAX);
    kvt_buffer_printf(&path, "/v1/objects/");
    cli_server_escape(&path, context->arguments[0], true);
    rc = kvt_buffer_ok(&path) ? cli_server_ask(context, CLI_SERVER_GATEWAY, kvt_buffer_text(&path),
                                               NULL, false, &object, &err)
                              : kvt_error_set(&err, KVT_INVALID, "the key is too long");
    kvt_buffer_release(&path);
    if (rc != KVT_OK) {
        const enum cli_exit status = cli_server_fail(context, CLI_SERVER_GATEWAY, &err);
        uint64_t hash;

        if (rc == KVT_NOTFOUND && kvt_hash_parse(context->arguments[0], &hash))
            (void)fprintf(context->err,
                          "  a KEY is [NAMESPACE/]RANK/POSITION:...: kvtier g4 ls lists them\n"
                          "  of a hash:  kvtier block show %s\n",
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

/* ---- verify ---- */

struct verification {
    const struct cli_context *context;
    struct kvt_error err; /* of the first question that failed */
    uint64_t objects;
    uint64_t copies;
    uint64_t bad;
    char last[KVT_KEY_MAX]; /* a key with two copies is listed twice, side by side */
};

static bool
verify_key(struct verification *verification, const char *key)
{
    const struct cli_context *context = verification->context;
    struct json_object *body = json_object_new_object();
    struct json_object *answer = NULL;
    enum kvt_err rc;

    (void)json_object_object_add(body, "key", json_object_new_string(key));
    rc = cli_server_ask(context, CLI_SERVER_GATEWAY, "/v1/verify", body, true, &answer,
                        &verification->err);
    (void)json_object_put(body);
    if (rc != KVT_OK)
        return false;
    verification->objects++;
    if (context->json)
        cli_json_print(context->out, answer);
    for (size_t i = 0; i < cli_json_count(answer, "copies"); i++) {
        struct json_object *copy = cli_json_item(answer, "copies", i);
        const bool ok = cli_json_bool(copy, "ok");

        verification->copies++;
        verification->bad += !ok;
        if (!context->json && (!ok || context->argument_count > 0))
            (void)fprintf(context->out, "%-4s  %-4s  %s%s%s\n", ok ? "ok" : "BAD",
                          cli_json_text(copy, "tier"), key, ok ? "" : ": ",
                          ok ? "" : cli_json_text(copy, "reason"));
    }
    (void)json_object_put(answer);
    return true;
}

static bool
verify_line(void *arg, struct json_object *line)
{
    struct verification *verification = arg;
    const char *key = cli_json_text(line, "key");

    if (strcmp(key, verification->last) == 0)
        return true;
    (void)snprintf(verification->last, sizeof(verification->last), "%s", key);
    if (verification->objects % PAGE == 0 && cli_context_interactive(verification->context))
        (void)fprintf(verification->context->err, "\r%" PRIu64 " objects checked ",
                      verification->objects);
    /* One that went away in the meantime is no failure. */
    if (!verify_key(verification, key) && verification->err.code != KVT_NOTFOUND)
        return false;
    verification->err.code = KVT_OK;
    return true;
}

enum cli_exit
cli_g4_verify(const struct cli_context *context)
{
    const bool all = kvt_config_bool(context->options, CLI_G4_VERIFY_ALL);
    struct verification *verification;
    struct kvt_error err = {0};
    enum cli_exit status = CLI_EXIT_DONE;

    if (all == (context->argument_count > 0))
        return cli_context_usage(context, "g4 verify wants a KEY or --all");
    verification = kvt_calloc(1, sizeof(*verification));
    if (verification == NULL) {
        (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
        return cli_context_fail(context, &err);
    }
    verification->context = context;
    if (!all)
        (void)verify_key(verification, context->arguments[0]);
    else if (cli_server_walk(context, CLI_SERVER_GATEWAY, "/v1/objects?limit=1000", verify_line,
                             verification, &err) != KVT_OK)
        verification->err = err;
    if (verification->err.code != KVT_OK)
        status = cli_server_fail(context, CLI_SERVER_GATEWAY, &verification->err);
    else if (verification->bad > 0)
        status = CLI_EXIT_INTEGRITY;
    if (!context->json && (verification->objects > 0 || status == CLI_EXIT_DONE))
        (void)fprintf(context->err,
                      "%" PRIu64 " object%s, %" PRIu64 " copies read, %" PRIu64 " bad\n",
                      verification->objects, verification->objects == 1 ? "" : "s",
                      verification->copies, verification->bad);
    kvt_free(verification);
    return status;
}
