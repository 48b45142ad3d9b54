/* A shared object: loaded by foreign_test.  FAKE_STORE_ABI makes one of another version,
 * FAKE_STORE_PARTIAL one that lacks something. */
#include "tests/unit/g4/fake/fake_driver.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "g4/driver/driver_abi.h"
#include "kvtier/key.h"

enum { PAIRS_MAX = 16, TEXT_MAX = 256 };

struct object {
    char key[KVT_KEY_MAX]; /* "": the place is free */
    unsigned char body[FAKE_STORE_BODY_MAX + 1];
    size_t size;
    struct {
        char name[TEXT_MAX];
        char value[TEXT_MAX];
    } pairs[PAIRS_MAX];
    size_t pair_count;
    unsigned version;
};

static struct object objects[FAKE_STORE_OBJECTS_MAX];

static void
empty(void)
{
    memset(objects, 0, sizeof(objects));
}

extern struct fake_store_controls fake_store_controls;
struct fake_store_controls fake_store_controls = {.empty = empty};

static struct object *
find(const char *key)
{
    for (size_t i = 0; i < FAKE_STORE_OBJECTS_MAX; i++)
        if (strcmp(objects[i].key, key) == 0)
            return &objects[i];
    return NULL;
}

static void
tell(const struct object *object, int64_t size, g4_foreign_seen_fn *seen, void *arg)
{
    struct g4_foreign_object told = {.size = size, .modified_s = 1800000000};
    static const struct g4_foreign_meta odd[] = {
        {"a", "b\nx-amz-meta-c: d"}, {"e\n", "f"}, {"g:h", "i"},
        {"kvt-writer", "w\r\nX: y"}, {"j", "k"},   {"", "\x7f"}};
    struct g4_foreign_meta meta[PAIRS_MAX];

    (void)snprintf(told.etag, sizeof(told.etag), "v%u", object->version);
    for (size_t i = 0; i < object->pair_count; i++)
        meta[i] = (struct g4_foreign_meta){object->pairs[i].name,
                                           fake_store_controls.lie == FAKE_STORE_OTHER_KEY &&
                                                   strcasecmp(object->pairs[i].name, "kvt-key") == 0
                                               ? "0/0:11111113"
                                               : object->pairs[i].value};
    if (fake_store_controls.lie == FAKE_STORE_META_ODD)
        seen(arg, &told, odd, sizeof(odd) / sizeof(odd[0]));
    else
        seen(arg, &told, meta, object->pair_count);
}

static int
do_head(void *self, uint64_t deadline_ms, const char *key, g4_foreign_seen_fn *seen, void *arg)
{
    struct fake_store_controls *controls = &fake_store_controls;
    const struct object *object = find(key);

    (void)self;
    (void)deadline_ms;
    while (atomic_load(&controls->shut))
        (void)sched_yield();
    if (controls->lie == FAKE_STORE_HEAD_AWAY && controls->heads > 0)
        return G4_FOREIGN_UNAVAILABLE;
    controls->heads++;
    if (object == NULL)
        return G4_FOREIGN_NOTFOUND;
    tell(object, controls->lie == FAKE_STORE_HEAD_LENGTHLESS ? -1 : (int64_t)object->size, seen,
         arg);
    return G4_FOREIGN_OK;
}

static int
do_get(void *self, uint64_t deadline_ms, const char *key, uint64_t at, uint64_t count,
       g4_foreign_seen_fn *seen, g4_foreign_take_fn *take, void *arg)
{
    const enum fake_store_lie lie = fake_store_controls.lie;
    struct object *object = find(key);
    size_t size;

    (void)self;
    (void)deadline_ms;
    if (object == NULL)
        return G4_FOREIGN_NOTFOUND;
    if (lie == FAKE_STORE_CHANGES)
        object->version = ++fake_store_controls.writes;
    size = object->size - (size_t)at;
    if (count != 0 && size > count)
        size = (size_t)count;
    tell(object, (int64_t)size, seen, arg);
    if (lie == FAKE_STORE_GET_FLIPPED)
        object->body[at + size / 2] ^= 1;
    if (lie == FAKE_STORE_GET_SHORT)
        size /= 2;
    if (lie == FAKE_STORE_GET_LONG)
        size++;
    if (lie == FAKE_STORE_GET_TWICE && take(arg, object->body, 1) != 0) {
        tell(object, FAKE_STORE_BODY_MAX, seen, arg);
        at = 0;
        size = FAKE_STORE_BODY_MAX - 1;
    }
    for (size_t sent = 0; sent < size; sent += 1000)
        if (take(arg, object->body + at + sent, size - sent < 1000 ? size - sent : 1000) == 0)
            return G4_FOREIGN_STOPPED;
    if (lie == FAKE_STORE_GET_FLIPPED)
        object->body[at + size / 2] ^= 1;
    return G4_FOREIGN_OK;
}

static int
store(struct object *object, const char *key, const struct g4_foreign_meta *meta, size_t count,
      const void *body, size_t size)
{
    (void)snprintf(object->key, sizeof(object->key), "%s", key);
    if (size > 0)
        memcpy(object->body, body, size);
    object->size = size;
    object->version = ++fake_store_controls.writes;
    object->pair_count = count;
    for (size_t i = 0; i < count; i++) { /* capitals as servers write them */
        (void)snprintf(object->pairs[i].name, TEXT_MAX, "%s", meta[i].name);
        if (object->pairs[i].name[0] >= 'a' && object->pairs[i].name[0] <= 'z')
            object->pairs[i].name[0] = (char)(object->pairs[i].name[0] - 'a' + 'A');
        (void)snprintf(object->pairs[i].value, TEXT_MAX, "%s", meta[i].value);
    }
    return G4_FOREIGN_OK;
}

static int
do_put(void *self, uint64_t deadline_ms, const char *key, const struct g4_foreign_meta *meta,
       size_t count, const void *body, size_t size)
{
    const enum fake_store_lie lie = fake_store_controls.lie;
    struct object *object = find(key);

    (void)self;
    (void)deadline_ms;
    fake_store_controls.puts++;
    if (lie == FAKE_STORE_PUT_LOST)
        return G4_FOREIGN_OK;
    if (object == NULL)
        object = find("");
    if (object == NULL || size > FAKE_STORE_BODY_MAX || count > PAIRS_MAX)
        return G4_FOREIGN_INVALID;
    (void)store(object, key, meta, count, body, lie == FAKE_STORE_PUT_HALF ? size / 2 : size);
    return lie == FAKE_STORE_PUT_UNSAID ? G4_FOREIGN_UNAVAILABLE : G4_FOREIGN_OK;
}

static int
do_remove(void *self, uint64_t deadline_ms, const char *key)
{
    struct object *object = find(key);

    (void)self;
    (void)deadline_ms;
    if (object != NULL)
        object->key[0] = '\0';
    return G4_FOREIGN_OK;
}

/* The next key behind `after`, in order. */
static const struct object *
next_behind(const char *prefix, const char *after)
{
    const struct object *least = NULL;

    for (size_t i = 0; i < FAKE_STORE_OBJECTS_MAX; i++)
        if (objects[i].key[0] != '\0' && strncmp(objects[i].key, prefix, strlen(prefix)) == 0 &&
            strcmp(objects[i].key, after) > 0 &&
            (least == NULL || strcmp(objects[i].key, least->key) < 0))
            least = &objects[i];
    return least;
}

static int
do_list(void *self, uint64_t deadline_ms, const char *prefix, const char *after, unsigned max,
        g4_foreign_row_fn *row, void *arg, int *more)
{
    const struct object *object = next_behind(prefix, after);

    (void)self;
    (void)deadline_ms;
    for (unsigned i = 0; object != NULL && i < FAKE_STORE_PAGE && i < max; i++) {
        const struct g4_foreign_object told = {.size = (int64_t)object->size, .modified_s = 1};

        row(arg, object->key, &told);
        object = next_behind(prefix, object->key);
    }
    *more = object != NULL;
    return G4_FOREIGN_OK;
}

static int
do_open(void **self, const struct g4_foreign_options *options, char *text, size_t size)
{
    *self = NULL;
    if (strcmp(options->secret_key, "wrong") == 0) {
        (void)snprintf(text, size, "it does not like the secret");
        return G4_FOREIGN_DENIED;
    }
    fake_store_controls.opened++;
    *self = objects;
    return G4_FOREIGN_OK;
}

static void
do_close(void *self)
{
    (void)self;
    fake_store_controls.opened--;
}

#ifndef FAKE_STORE_ABI
#define FAKE_STORE_ABI G4_FOREIGN_ABI
#endif

#ifdef FAKE_STORE_PARTIAL
#define FAKE_STORE_WARNING NULL
#else
#define FAKE_STORE_WARNING "a fake"
#endif

extern const struct g4_foreign_driver FAKE_STORE_NAME;

const struct g4_foreign_driver FAKE_STORE_NAME = {
    .abi = FAKE_STORE_ABI,
    .size = sizeof(struct g4_foreign_driver),
    .name = "fake",
    .warning = FAKE_STORE_WARNING,
    .open = do_open,
    .close = do_close,
    .head = do_head,
    .get = do_get,
    .put = do_put,
    .remove = do_remove,
    .list = do_list,
};
