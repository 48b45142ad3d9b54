#include "gateway/tier/key_lock.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"

enum { BUCKETS = 4096 };

struct gateway_key_locks {
    struct {
        pthread_mutex_t lock; /* guards this struct and the links of the holds in it */
        pthread_cond_t released;
        struct gateway_key_lock *buckets[BUCKETS];
    } shared;
};

enum kvt_err
gateway_key_lock_new(struct gateway_key_locks **out)
{
    struct gateway_key_locks *holds = kvt_calloc(1, sizeof(*holds));

    *out = NULL;
    if (holds == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&holds->shared.lock, NULL) != 0) {
        kvt_free(holds);
        return KVT_NOMEM;
    }
    if (pthread_cond_init(&holds->shared.released, NULL) != 0) {
        (void)pthread_mutex_destroy(&holds->shared.lock);
        kvt_free(holds);
        return KVT_NOMEM;
    }
    *out = holds;
    return KVT_OK;
}

void
gateway_key_lock_free(struct gateway_key_locks *holds)
{
    if (holds == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        assert(holds->shared.buckets[i] == NULL);
    (void)pthread_cond_destroy(&holds->shared.released);
    (void)pthread_mutex_destroy(&holds->shared.lock);
    kvt_free(holds);
}

void
gateway_key_lock_init(struct gateway_key_lock *hold, const char *key)
{
    *hold = (struct gateway_key_lock){.hash = XXH3_64bits(key, strlen(key))};
}

static bool
all_free_locked(const struct gateway_key_locks *holds, const struct gateway_key_lock *array,
                size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (const struct gateway_key_lock *hold = holds->shared.buckets[array[i].hash % BUCKETS];
             hold != NULL; hold = hold->next)
            if (hold->hash == array[i].hash)
                return false;
    return true;
}

static void
link_all_locked(struct gateway_key_locks *holds, struct gateway_key_lock *array, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct gateway_key_lock **bucket = &holds->shared.buckets[array[i].hash % BUCKETS];

        array[i].owner = array;
        array[i].next = *bucket;
        *bucket = &array[i];
    }
}

void
gateway_key_lock_acquire(struct gateway_key_locks *holds, struct gateway_key_lock *array,
                         size_t count)
{
    (void)pthread_mutex_lock(&holds->shared.lock);
    while (!all_free_locked(holds, array, count))
        (void)pthread_cond_wait(&holds->shared.released, &holds->shared.lock);
    link_all_locked(holds, array, count);
    (void)pthread_mutex_unlock(&holds->shared.lock);
}

bool
gateway_key_lock_try(struct gateway_key_locks *holds, struct gateway_key_lock *array, size_t count)
{
    bool taken;

    (void)pthread_mutex_lock(&holds->shared.lock);
    taken = all_free_locked(holds, array, count);
    if (taken)
        link_all_locked(holds, array, count);
    (void)pthread_mutex_unlock(&holds->shared.lock);
    return taken;
}

bool
gateway_key_lock_try_one(struct gateway_key_locks *holds, struct gateway_key_lock *hold,
                         const char *key)
{
    gateway_key_lock_init(hold, key);
    return gateway_key_lock_try(holds, hold, 1);
}

void
gateway_key_lock_release(struct gateway_key_locks *holds, struct gateway_key_lock *array,
                         size_t count)
{
    (void)pthread_mutex_lock(&holds->shared.lock);
    for (size_t i = 0; i < count; i++) {
        struct gateway_key_lock **link = &holds->shared.buckets[array[i].hash % BUCKETS];

        assert(array[i].owner == array);
        while (*link != NULL && *link != &array[i])
            link = &(*link)->next;
        assert(*link == &array[i]);
        *link = array[i].next;
        array[i].owner = NULL;
    }
    (void)pthread_cond_broadcast(&holds->shared.released);
    (void)pthread_mutex_unlock(&holds->shared.lock);
}
