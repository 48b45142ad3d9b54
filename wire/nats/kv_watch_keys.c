#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "wire/nats/kv_watch.h"
#include "wire/nats/kv_watch_internal.h"

static size_t
head_of(const char *name)
{
    return XXH3_64bits(name, strlen(name)) % WIRE_KV_WATCH_KEYS_HEADS;
}

struct wire_kv_watch_key *
wire_kv_watch_keys_find(const struct wire_kv_watch_keys *keys, const char *name)
{
    struct wire_kv_watch_key *key = keys->heads[head_of(name)];

    while (key != NULL && strcmp(key->name, name) != 0)
        key = key->next;
    return key;
}

enum kvt_err
wire_kv_watch_keys_add(struct wire_kv_watch_keys *keys, const char *name,
                       struct wire_kv_watch_key **out)
{
    const size_t size = strlen(name) + 1;
    const size_t head = head_of(name);
    struct wire_kv_watch_key *key;

    *out = NULL;
    if (size > WIRE_KV_WATCH_KEY_MAX)
        return KVT_RANGE;
    if (keys->count == WIRE_KV_WATCH_KEYS_MAX)
        return KVT_FULL;
    key = kvt_calloc(1, sizeof(*key) + size);
    if (key == NULL)
        return KVT_NOMEM;
    memcpy(key->name, name, size);
    key->next = keys->heads[head];
    keys->heads[head] = key;
    keys->count++;
    *out = key;
    return KVT_OK;
}

void
wire_kv_watch_keys_remove(struct wire_kv_watch_keys *keys, struct wire_kv_watch_key *key)
{
    struct wire_kv_watch_key **link = &keys->heads[head_of(key->name)];

    while (*link != key) {
        assert(*link != NULL);
        link = &(*link)->next;
    }
    *link = key->next;
    keys->count--;
    kvt_free(key);
}

void
wire_kv_watch_keys_forget_revisions(struct wire_kv_watch_keys *keys)
{
    for (size_t i = 0; i < WIRE_KV_WATCH_KEYS_HEADS; i++)
        for (struct wire_kv_watch_key *key = keys->heads[i]; key != NULL; key = key->next)
            key->revision = 0;
}

void
wire_kv_watch_keys_clear(struct wire_kv_watch_keys *keys)
{
    struct wire_kv_watch_walk walk = {.next = NULL};
    struct wire_kv_watch_key *key;

    while ((key = wire_kv_watch_keys_walk(keys, &walk)) != NULL)
        wire_kv_watch_keys_remove(keys, key);
}

struct wire_kv_watch_key *
wire_kv_watch_keys_walk(const struct wire_kv_watch_keys *keys, struct wire_kv_watch_walk *walk)
{
    struct wire_kv_watch_key *key;

    while (walk->next == NULL && walk->head < WIRE_KV_WATCH_KEYS_HEADS)
        walk->next = keys->heads[walk->head++];
    key = walk->next;
    if (key != NULL)
        walk->next = key->next;
    return key;
}
