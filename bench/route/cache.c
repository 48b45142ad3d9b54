#include "bench/route/cache.h"

#include <stdbool.h>

#include "base/core/alloc.h"

enum kvt_err
cache_new(struct cache *cache, uint32_t blocks, uint32_t capacity)
{
    *cache = (struct cache){.capacity = capacity};
    cache->next = kvt_calloc((size_t)blocks + 1, sizeof(*cache->next));
    cache->before = kvt_calloc((size_t)blocks + 1, sizeof(*cache->before));
    if (cache->next == NULL || cache->before == NULL) {
        cache_release(cache);
        return KVT_NOMEM;
    }
    return KVT_OK;
}

void
cache_release(struct cache *cache)
{
    kvt_free(cache->next);
    kvt_free(cache->before);
    *cache = (struct cache){0};
}

/* An entry that is in the ring has a next one, which may be the end, or is the end's. */
static bool
has(const struct cache *cache, uint32_t entry)
{
    return cache->next[entry] != 0 || cache->before[0] == entry;
}

static void
leave(struct cache *cache, uint32_t entry)
{
    cache->next[cache->before[entry]] = cache->next[entry];
    cache->before[cache->next[entry]] = cache->before[entry];
    cache->next[entry] = 0;
    cache->before[entry] = 0;
    cache->count--;
}

static void
enter(struct cache *cache, uint32_t entry)
{
    cache->next[entry] = cache->next[0];
    cache->before[cache->next[0]] = entry;
    cache->next[0] = entry;
    cache->before[entry] = 0;
    cache->count++;
}

uint32_t
cache_prefix(const struct cache *cache, const uint32_t *chain, uint32_t count)
{
    uint32_t found = 0;

    while (found < count && has(cache, chain[found] + 1))
        found++;
    return found;
}

void
cache_use(struct cache *cache, const uint32_t *chain, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        if (has(cache, chain[i] + 1))
            leave(cache, chain[i] + 1);
        enter(cache, chain[i] + 1);
        if (cache->count > cache->capacity)
            leave(cache, cache->before[0]);
    }
}
