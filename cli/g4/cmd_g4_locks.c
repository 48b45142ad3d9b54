#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "cli/frame/options.h"
#include "cli/g4/g4_commands.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/cli_bucket.h"
#include "g4/lock/lock.h"
#include "g4/object/kind.h"

/* ---- one lock ---- */

static const char *
state_of(const struct g4_lease_seen *seen)
{
    if (seen->malformed)
        return seen->expired ? "malformed, over" : "malformed";
    if (seen->body.released)
        return "free";
    return seen->expired ? "expired" : "held";
}

static struct json_object *
to_json(const char *key, const struct g4_lease_seen *seen)
{
    struct json_object *lock = json_object_new_object();
    char acquired[KVT_CLOCK_TEXT_MAX] = "";

    if (!seen->malformed)
        kvt_clock_format(seen->body.acquired_ms, acquired);
    (void)json_object_object_add(lock, "key", json_object_new_string(key));
    (void)json_object_object_add(lock, "state", json_object_new_string(state_of(seen)));
    (void)json_object_object_add(lock, "holder", json_object_new_string(seen->body.instance));
    (void)json_object_object_add(lock, "epoch", json_object_new_uint64(seen->body.epoch));
    (void)json_object_object_add(lock, "acquired_at", json_object_new_string(acquired));
    (void)json_object_object_add(lock, "age_ms", json_object_new_uint64(seen->age_ms));
    (void)json_object_object_add(lock, "ttl_ms",
                                 json_object_new_uint64(g4_lock_body_ttl_ms(&seen->body)));
    (void)json_object_object_add(lock, "expired", json_object_new_boolean(seen->expired));
    (void)json_object_object_add(lock, "malformed", json_object_new_boolean(seen->malformed));
    (void)json_object_object_add(lock, "etag", json_object_new_string(seen->etag));
    return lock;
}

static void
print_lock(const struct cli_context *context, const char *key, const struct g4_lease_seen *seen)
{
    FILE *out = context->out;
    char acquired[KVT_CLOCK_TEXT_MAX];

    if (context->json) {
        struct json_object *lock = to_json(key, seen);

        (void)json_object_object_add(lock, "schema_version", json_object_new_int(1));
        cli_json_print(out, lock);
        (void)json_object_put(lock);
        return;
    }
    (void)fprintf(out, "key       %s\nstate     %s\n", key, state_of(seen));
    if (!seen->malformed) {
        kvt_clock_format(seen->body.acquired_ms, acquired);
        (void)fprintf(out,
                      "holder    %s\nepoch     %" PRIu64 "\nacquired  %s by the holder's clock\n"
                      "lasts     %" PRIu64 " s\n",
                      seen->body.instance, seen->body.epoch, acquired,
                      g4_lock_body_ttl_ms(&seen->body) / 1000);
    }
    if (seen->aged)
        (void)fprintf(out, "written   %" PRIu64 " s ago by the server's clock\n",
                      seen->age_ms / 1000);
    else
        (void)fprintf(out, "written   the server does not say when\n");
    (void)fprintf(out, "etag      %s\n", seen->etag);
}

/* ---- ls ---- */

struct listing {
    const struct cli_context *context;
    struct g4_store *store;
    struct json_object *locks; /* with JSON output */
    struct cli_table table;    /* otherwise */
    uint64_t count;
    uint64_t limit;
};

static void
add_lock(struct listing *listing, const char *key, const struct g4_lease_seen *seen)
{
    listing->count++;
    if (listing->context->json) {
        (void)json_object_array_add(listing->locks, to_json(key, seen));
        return;
    }
    cli_table_add(&listing->table, "%s", key);
    cli_table_add(&listing->table, "%s", state_of(seen));
    cli_table_add(&listing->table, "%s", seen->malformed ? "-" : seen->body.instance);
    cli_table_add(&listing->table, "%" PRIu64, seen->body.epoch);
    cli_table_add(&listing->table, "%" PRIu64 " s", seen->age_ms / 1000);
    cli_table_add(&listing->table, "%" PRIu64 " s", g4_lock_body_ttl_ms(&seen->body) / 1000);
}

/* The locks of one page.  One that is gone by now is none. */
static enum kvt_err
list_page(struct listing *listing, const struct g4_request *page, struct kvt_error *err)
{
    for (size_t i = 0; i < page->listed_count; i++) {
        const char *key = page->listed[i].key;
        struct g4_lease_seen seen;
        enum kvt_err rc;

        if (g4_kind_of_key(key, NULL) != G4_KIND_LOCK)
            continue;
        if (listing->limit != 0 && listing->count >= listing->limit)
            return KVT_FULL;
        rc = g4_lock_look(listing->store, key, 0, &seen, err);
        if (rc == KVT_OK)
            add_lock(listing, key, &seen);
        else if (rc != KVT_NOTFOUND)
            return rc;
    }
    return KVT_OK;
}

static enum kvt_err
list_all(struct listing *listing, const char *prefix, struct kvt_error *err)
{
    struct g4_listed *listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*listed));
    struct g4_request page = {.verb = G4_LIST, .key = prefix, .listed = listed};
    enum kvt_err rc;

    if (listed == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    do {
        rc = cli_bucket_page(listing->store, &page, err);
        if (rc == KVT_OK)
            rc = list_page(listing, &page, err);
    } while (rc == KVT_OK && page.token[0] != '\0');
    kvt_free(listed);
    return rc;
}

static enum kvt_err
list(const struct cli_context *context, struct g4_store *store, const char *prefix,
     struct kvt_error *err)
{
    static const struct cli_column columns[] = {{"LOCK", false},   {"STATE", false},
                                                {"HOLDER", false}, {"EPOCH", true},
                                                {"AGE", true},     {"LASTS", true}};
    struct listing listing = {.context = context,
                              .store = store,
                              .locks = json_object_new_array(),
                              .limit = kvt_config_u64(context->options, CLI_LOCKS_LIMIT)};
    struct json_object *answer = json_object_new_object();
    enum kvt_err rc;

    cli_table_init(&listing.table, columns, sizeof(columns) / sizeof(columns[0]));
    rc = list_all(&listing, prefix, err);
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "locks", listing.locks);
    (void)json_object_object_add(answer, "truncated", json_object_new_boolean(rc == KVT_FULL));
    if ((rc == KVT_OK || rc == KVT_FULL) && context->json)
        cli_json_print(context->out, answer);
    else if (rc == KVT_OK || rc == KVT_FULL)
        cli_table_print(&listing.table, context->out);
    if (rc == KVT_FULL && !context->json)
        (void)fprintf(context->err, "stopped there, --limit 0 shows all\n");
    cli_table_release(&listing.table);
    (void)json_object_put(answer);
    return rc == KVT_FULL ? KVT_OK : rc;
}

/* ---- break ---- */

/* Who breaks it, for those who look: the next holder writes its own name. */
static void
breaker_name(char name[KVT_NAME_MAX])
{
    char host[KVT_NAME_MAX / 2] = "";

    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = '\0';
    (void)snprintf(name, KVT_NAME_MAX, "broken by kvtier on %s", host[0] == '\0' ? "?" : host);
}

static enum kvt_err
break_lock(const struct cli_context *context, struct g4_store *store, const char *key,
           struct kvt_error *err)
{
    const bool force = kvt_config_bool(context->options, CLI_LOCKS_FORCE);
    struct g4_lease_seen seen;
    char name[KVT_NAME_MAX];
    enum kvt_err rc = g4_lock_look(store, key, 0, &seen, err);

    if (rc != KVT_OK)
        return rc;
    if (!seen.expired && !force)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "%.80s is held%s%s, written %" PRIu64
                             " s ago: its holder may be at work; --force breaks it all the same",
                             key, seen.malformed ? "" : " by ", seen.body.instance,
                             seen.age_ms / 1000);
    breaker_name(name);
    rc = g4_lock_break(store, key, &seen, name, err);
    if (rc == KVT_OK)
        rc = g4_lock_look(store, key, 0, &seen, err);
    if (rc == KVT_OK)
        print_lock(context, key, &seen);
    return rc;
}

/* ---- the command ---- */

static enum kvt_err
show(const struct cli_context *context, struct g4_store *store, const char *key,
     struct kvt_error *err)
{
    struct g4_lease_seen seen;
    const enum kvt_err rc = g4_lock_look(store, key, 0, &seen, err);

    if (rc == KVT_OK)
        print_lock(context, key, &seen);
    return rc;
}

enum cli_exit
cli_locks_run(const struct cli_context *context)
{
    const char *verb = context->argument_count > 0 ? context->arguments[0] : "ls";
    const char *name = context->argument_count > 1 ? context->arguments[1] : "";
    const bool ls = strcmp(verb, "ls") == 0;
    const bool is_lock = ls || g4_kind_of_key(name, NULL) == G4_KIND_LOCK;
    struct g4_store *store = NULL;
    struct kvt_error err = {0};
    char key[KVT_KEY_MAX];
    int size;
    enum kvt_err rc;

    if (!ls && strcmp(verb, "show") != 0 && strcmp(verb, "break") != 0)
        return cli_context_usage(context, "g4 locks: ls, show or break, not \"%s\"", verb);
    if (!ls && name[0] == '\0')
        return cli_context_usage(context, "g4 locks %s wants the KEY of a lock", verb);
    size = snprintf(key, sizeof(key), "%s%s", name, is_lock ? "" : G4_LOCK_SUFFIX);
    if (size < 0 || (size_t)size >= sizeof(key))
        return cli_context_usage(context, "g4 locks: a key has at most %d bytes, with \"%s\"",
                                 KVT_KEY_MAX - 1, G4_LOCK_SUFFIX);
    rc = cli_bucket_open(context, CLI_LOCKS_S3, &store, &err);
    if (rc == KVT_OK && ls)
        rc = list(context, store, key, &err);
    else if (rc == KVT_OK && strcmp(verb, "show") == 0)
        rc = show(context, store, key, &err);
    else if (rc == KVT_OK)
        rc = break_lock(context, store, key, &err);
    g4_store_close(store);
    if (rc == KVT_OK)
        return CLI_EXIT_DONE;
    return rc == KVT_PRECONDITION || (rc == KVT_NOTFOUND && !ls)
               ? cli_context_fail(context, &err)
               : cli_bucket_fail(context, CLI_LOCKS_S3, &err);
}
