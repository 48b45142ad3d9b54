#include "g4/lock/selftest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/object/check.h"

enum { FOLDER_MAX = 48, KEY_MAX = 80, NOT_IMPLEMENTED = 501 };

static const char first[] = "first";
static const char second[] = "second";

/* One run: its own keys, and the first failure that is no answer. */
struct run {
    struct g4_store *store;
    char folder[FOLDER_MAX];
    struct kvt_error *err;
    enum kvt_err failed;
};

static void
key_of(const struct run *run, const char *name, char key[KEY_MAX])
{
    (void)snprintf(key, KEY_MAX, "%s/%s", run->folder, name);
}

/* Is this an answer about conditions, or did the store not work? */
static bool
answered(enum kvt_err rc)
{
    return rc == KVT_OK || rc == KVT_EXISTS || rc == KVT_PRECONDITION || rc == KVT_NOTFOUND;
}

static enum kvt_err
perform(struct run *run, struct g4_request *request)
{
    enum kvt_err rc;

    if (run->failed != KVT_OK)
        return run->failed;
    rc = g4_store_perform(run->store, request);
    if (request->verb == G4_DELETE && request->http == NOT_IMPLEMENTED)
        return KVT_UNSUPPORTED; /* a gateway's answer to If-Match */
    if (!answered(rc)) {
        run->failed = rc;
        if (run->err != NULL)
            *run->err = request->error;
    }
    return rc;
}

static enum kvt_err
put(struct run *run, const char *name, const char *body, enum g4_condition condition,
    char etag[G4_ETAG_MAX])
{
    struct g4_request request = {
        .verb = G4_PUT, .condition = condition, .body = body, .body_size = strlen(body)};
    char key[KEY_MAX];
    enum kvt_err rc;

    key_of(run, name, key);
    request.key = key;
    request.meta = (struct g4_meta){.present = true,
                                    .length = strlen(body),
                                    .crc32c = g4_check_crc32c(body, strlen(body)),
                                    .fingerprint = 0x6b7674696572, /* "kvtier" */
                                    .writer = "selftest"};
    memcpy(request.etag, etag, sizeof(request.etag));
    rc = perform(run, &request);
    if (rc == KVT_OK)
        memcpy(etag, request.etag, sizeof(request.etag));
    return rc;
}

/* Is `body` what the key holds, and did its metadata come along? */
static bool
holds(struct run *run, const char *name, const char *body, bool *meta_kept)
{
    char buffer[sizeof(second)];
    struct g4_request request = {
        .verb = G4_GET, .buffer = buffer, .buffer_capacity = sizeof(buffer)};
    char key[KEY_MAX];

    key_of(run, name, key);
    request.key = key;
    if (perform(run, &request) != KVT_OK)
        return false;
    *meta_kept = request.meta.present && request.meta.fingerprint == 0x6b7674696572 &&
                 strcmp(request.meta.writer, "selftest") == 0 &&
                 g4_check_body(&request.meta, NULL, buffer, request.buffer_size, NULL) == KVT_OK;
    return request.buffer_size == strlen(body) && memcmp(buffer, body, strlen(body)) == 0;
}

static bool
absent(struct run *run, const char *name)
{
    struct g4_request request = {.verb = G4_HEAD};
    char key[KEY_MAX];

    key_of(run, name, key);
    request.key = key;
    return perform(run, &request) == KVT_NOTFOUND;
}

static bool
listed(struct run *run, const char *name)
{
    struct g4_request request = {.verb = G4_LIST, .key = run->folder};
    char key[KEY_MAX];
    bool found = false;

    key_of(run, name, key);
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL) {
        run->failed = kvt_error_set(run->err, KVT_NOMEM, "self-test");
        return false;
    }
    if (perform(run, &request) == KVT_OK)
        for (size_t i = 0; i < request.listed_count && !found; i++)
            found = strcmp(request.listed[i].key, key) == 0;
    kvt_free(request.listed);
    return found;
}

static enum kvt_err
remove_key(struct run *run, const char *name, const char *etag)
{
    struct g4_request request = {.verb = G4_DELETE,
                                 .condition = etag == NULL ? G4_ALWAYS : G4_IF_MATCH};
    char key[KEY_MAX];

    key_of(run, name, key);
    request.key = key;
    if (etag != NULL)
        memcpy(request.etag, etag, sizeof(request.etag));
    return perform(run, &request);
}

static void
test_puts(struct run *run, struct g4_selftest *result, char stale[G4_ETAG_MAX],
          char current[G4_ETAG_MAX])
{
    char etag[G4_ETAG_MAX] = "";
    bool meta = false;
    bool refused;

    if (put(run, "absent", first, G4_IF_ABSENT, stale) != KVT_OK)
        return;
    refused = put(run, "absent", second, G4_IF_ABSENT, etag) == KVT_EXISTS;
    result->put_if_absent = holds(run, "absent", first, &meta) && refused;
    result->meta_kept = meta;
    result->list_after_write = listed(run, "absent");

    memcpy(current, stale, G4_ETAG_MAX);
    if (stale[0] == '\0' || put(run, "absent", second, G4_IF_MATCH, current) != KVT_OK)
        return;
    result->etag_changes = strcmp(current, stale) != 0;
    memcpy(etag, stale, sizeof(etag));
    refused = put(run, "absent", first, G4_IF_MATCH, etag) == KVT_PRECONDITION;
    result->put_if_match = holds(run, "absent", second, &meta) && refused;

    memcpy(etag, stale, sizeof(etag));
    refused = put(run, "missing", first, G4_IF_MATCH, etag) != KVT_OK;
    result->if_match_missing = absent(run, "missing") && refused;
}

enum kvt_err
g4_selftest(struct g4_store *store, struct g4_selftest *result, struct kvt_error *err)
{
    return g4_selftest_in(store, G4_SELFTEST_FOLDER, result, err);
}

enum kvt_err
g4_selftest_in(struct g4_store *store, const char *folder, struct g4_selftest *result,
               struct kvt_error *err)
{
    struct run run = {.store = store, .err = err, .failed = KVT_OK};
    char current[G4_ETAG_MAX] = "";
    char stale[G4_ETAG_MAX] = "";
    enum kvt_err failed;
    uint64_t nonce;

    *result = (struct g4_selftest){.put_if_absent = false};
    kvt_random_system(&nonce, sizeof(nonce));
    (void)snprintf(run.folder, sizeof(run.folder), "%.24s/%016" PRIx64, folder, nonce);

    test_puts(&run, result, stale, current);
    if (stale[0] != '\0' && run.failed == KVT_OK) {
        bool meta;
        const bool refused = remove_key(&run, "absent", stale) == KVT_PRECONDITION;

        result->delete_if_match =
            refused && holds(&run, "absent", result->put_if_match ? second : first, &meta);
    }
    /* Clean up whatever came before; a key that is not there any more is fine. */
    failed = run.failed;
    run.failed = KVT_OK;
    run.err = NULL;
    (void)remove_key(&run, "absent", NULL);
    (void)remove_key(&run, "missing", NULL);
    return failed;
}
