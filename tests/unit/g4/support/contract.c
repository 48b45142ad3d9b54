#include "tests/unit/g4/support/contract.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"

enum { ROOM = 20000 };

static const char *
key_of(char key[KVT_KEY_MAX], const char *prefix, const char *name)
{
    (void)snprintf(key, KVT_KEY_MAX, "%s%s", prefix, name);
    return key;
}

void
test_contract_attributes(struct g4_store *store, const char *prefix)
{
    static char text[G4_ATTRIBUTES_MAX] = "content-type: text/x; a=b\n"
                                          "x-amz-meta-color: deep  red\n"
                                          "x-amz-meta-none: \n";
    char room[G4_ATTRIBUTES_MAX] = "x";
    char key[KVT_KEY_MAX];
    char body[8];
    struct g4_request request = {.verb = G4_PUT,
                                 .key = key_of(key, prefix, "attributed"),
                                 .body = "xyz",
                                 .body_size = 3,
                                 .attributes = text};

    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
    for (int i = 0; i < 2; i++) {
        request = (struct g4_request){.verb = i == 0 ? G4_HEAD : G4_GET,
                                      .key = key,
                                      .buffer = body,
                                      .buffer_capacity = sizeof(body),
                                      .attributes = room};
        assert_int_equal(g4_store_perform(store, &request), KVT_OK);
        assert_non_null(strstr(room, "content-type: text/x; a=b\n"));
        assert_non_null(strstr(room, "x-amz-meta-color: deep"));
        assert_non_null(strstr(room, "x-amz-meta-none: \n"));
        assert_false(request.meta.present);
    }
    assert_int_equal(put_plain(store, key, "xyz", 3), KVT_OK);
    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
    assert_null(strstr(room, "x-amz-meta-"));
    request = (struct g4_request){.verb = G4_PUT, .key = key, .attributes = body};
    (void)snprintf(body, sizeof(body), "no: end");
    assert_int_equal(g4_store_perform(store, &request), KVT_INVALID);
    (void)snprintf(body, sizeof(body), "a: \r\n");
    assert_int_equal(g4_store_perform(store, &request), KVT_INVALID);
}

void
test_contract_empty_and_foreign(struct g4_store *store, const char *prefix)
{
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));
    char key[KVT_KEY_MAX];
    struct g4_request request = {
        .verb = G4_GET, .key = key_of(key, prefix, "empty"), .buffer_capacity = 100};

    assert_int_equal(put(store, key, "", 0, NULL), KVT_OK);
    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
    assert_non_null(request.buffer);
    assert_int_equal(request.buffer_size, 0);
    assert_true(request.meta.present);
    kvt_free(request.buffer);

    assert_int_equal(put_plain(store, key_of(key, prefix, "plain"), "xyz", 3), KVT_OK);
    assert_int_equal(get(store, key, fetched), KVT_OK);
    assert_false(fetched->meta.present);
    assert_int_equal(fetched->meta.length, 3);
    assert_int_equal(head(store, key, fetched), KVT_OK);
    assert_int_equal(fetched->meta.length, 3);
    kvt_free(fetched);
}

void
test_contract_conditions(struct g4_store *store, const char *prefix)
{
    struct fetched *fetched = kvt_calloc(1, sizeof(*fetched));
    char stale[G4_ETAG_MAX];
    char etag[G4_ETAG_MAX];
    char key[KVT_KEY_MAX];

    (void)key_of(key, prefix, "conditions");
    assert_int_equal(put_absent(store, key, "one", 3, etag), KVT_OK);
    assert_int_equal(put_absent(store, key, "two", 3, NULL), KVT_EXISTS);
    memcpy(stale, etag, sizeof(stale));
    assert_int_equal(put_match(store, key, "three", 5, etag), KVT_OK);
    assert_string_not_equal(etag, stale);
    assert_int_equal(put_match(store, key, "four", 4, stale), KVT_PRECONDITION);
    assert_int_equal(get(store, key, fetched), KVT_OK);
    assert_int_equal(fetched->size, 5);
    assert_memory_equal(fetched->body, "three", 5);
    assert_string_equal(fetched->etag, etag);

    (void)key_of(key, prefix, "missing");
    assert_int_equal(put_match(store, key, "x", 1, etag), KVT_NOTFOUND);
    (void)snprintf(stale, sizeof(stale), "no-such-tag");
    assert_int_equal(put_match(store, key, "x", 1, stale), KVT_NOTFOUND);
    assert_int_equal(get(store, key, fetched), KVT_NOTFOUND);
    assert_int_equal(head(store, key, fetched), KVT_NOTFOUND);
    kvt_free(fetched);
}

void
test_contract_room(struct g4_store *store, const char *prefix)
{
    char key[KVT_KEY_MAX];
    char body[ROOM];
    struct g4_request request = {
        .verb = G4_GET, .key = key_of(key, prefix, "room"), .buffer_capacity = ROOM - 1};

    fill(body, sizeof(body), 2);
    assert_int_equal(put(store, key, body, sizeof(body), NULL), KVT_OK);
    assert_int_equal(g4_store_perform(store, &request), KVT_RANGE);
    assert_null(request.buffer);
    assert_int_equal(request.meta.length, ROOM);
    request.buffer_capacity = ROOM;
    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
    assert_int_equal(request.buffer_size, ROOM);
    assert_memory_equal(request.buffer, body, sizeof(body));
    kvt_free(request.buffer);
}

void
test_contract_parts(struct g4_store *store, const char *prefix)
{
    enum { SIZE = 10000 };
    static const struct {
        uint64_t at;
        size_t size;
        size_t got;
    } rows[] = {{0, 1, 1},          {0, SIZE, SIZE},  {0, SIZE + 1, SIZE}, {1, SIZE, SIZE - 1},
                {4095, 4098, 4098}, {SIZE - 1, 1, 1}, {SIZE - 1, 99, 1}};
    struct g4_request request = {.verb = G4_GET, .buffer_capacity = SIZE};
    char key[KVT_KEY_MAX];
    char etag[G4_ETAG_MAX];
    uint8_t body[SIZE];
    uint8_t room[SIZE];

    request.key = key_of(key, prefix, "parts");
    fill(body, SIZE, 5);
    assert_int_equal(put(store, key, body, SIZE, etag), KVT_OK);
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        const bool own = i % 2 == 1;

        request.buffer = own ? NULL : room;
        request.range_at = rows[i / 2].at;
        request.range_size = rows[i / 2].size;
        assert_int_equal(g4_store_perform(store, &request), KVT_OK);
        assert_int_equal(request.buffer_size, rows[i / 2].got);
        assert_memory_equal(request.buffer, body + request.range_at, request.buffer_size);
        assert_int_equal(request.object_size, SIZE);
        assert_true(request.meta.present && request.meta.length == SIZE);
        assert_string_equal(request.etag, etag);
        if (own)
            kvt_free(request.buffer);
    }
    request.buffer = NULL;
    request.range_at = SIZE;
    assert_int_equal(g4_store_perform(store, &request), KVT_RANGE);
    request.range_at = 0;
    request.range_size = SIZE;
    request.buffer_capacity = SIZE - 1;
    assert_int_equal(g4_store_perform(store, &request), KVT_RANGE);
    assert_null(request.buffer);

    request.buffer_capacity = SIZE;
    request.range_size = 10;
    request.condition = G4_IF_MATCH;
    assert_int_equal(g4_store_perform(store, &request), KVT_OK); /* the etag of the last answer */
    kvt_free(request.buffer);
    request.buffer = NULL;
    assert_int_equal(put(store, key, body, 9000, NULL), KVT_OK);
    (void)snprintf(request.etag, sizeof(request.etag), "%s", etag);
    assert_int_equal(g4_store_perform(store, &request), KVT_PRECONDITION);
    assert_null(request.buffer);
    request.range_size = 0; /* nor is the whole of another version given out */
    (void)snprintf(request.etag, sizeof(request.etag), "%s", etag);
    assert_int_equal(g4_store_perform(store, &request), KVT_PRECONDITION);
    request.verb = G4_HEAD;
    request.condition = G4_ALWAYS;
    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
    assert_int_equal(request.object_size, 9000);
    request.range_size = 1;
    assert_int_equal(g4_store_perform(store, &request), KVT_INVALID);
}
