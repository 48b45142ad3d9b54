#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/engine/support/fake_worker_internal.h"

struct object {
    uint32_t rank;
    struct kvt_block_id id;
    size_t size;
    uint8_t *bytes;
};

struct fake_objects {
    pthread_mutex_t lock; /* guards what follows; a leaf */
    struct object *all;
    size_t count;
};

struct fake_objects *
fake_objects_open(void)
{
    struct fake_objects *objects = calloc(1, sizeof(*objects));

    assert(objects != NULL && pthread_mutex_init(&objects->lock, NULL) == 0);
    return objects;
}

void
fake_objects_close(struct fake_objects *objects)
{
    if (objects == NULL)
        return;
    for (size_t i = 0; i < objects->count; i++)
        free(objects->all[i].bytes);
    free(objects->all);
    (void)pthread_mutex_destroy(&objects->lock);
    free(objects);
}

static struct object *
find_locked(struct fake_objects *objects, uint32_t rank, const struct kvt_block_id *id)
{
    for (size_t i = 0; i < objects->count; i++)
        if (objects->all[i].rank == rank && objects->all[i].id.hash == id->hash &&
            objects->all[i].id.position == id->position)
            return &objects->all[i];
    return NULL;
}

size_t
fake_objects_count(struct fake_objects *objects)
{
    size_t count;

    (void)pthread_mutex_lock(&objects->lock);
    count = objects->count;
    (void)pthread_mutex_unlock(&objects->lock);
    return count;
}

bool
fake_objects_has(struct fake_objects *objects, uint32_t rank, const struct kvt_block_id *id)
{
    bool has;

    (void)pthread_mutex_lock(&objects->lock);
    has = find_locked(objects, rank, id) != NULL;
    (void)pthread_mutex_unlock(&objects->lock);
    return has;
}

void
fake_objects_remove(struct fake_objects *objects, uint32_t rank, const struct kvt_block_id *id)
{
    struct object *object;

    (void)pthread_mutex_lock(&objects->lock);
    object = find_locked(objects, rank, id);
    if (object != NULL) {
        free(object->bytes);
        *object = objects->all[--objects->count];
    }
    (void)pthread_mutex_unlock(&objects->lock);
}

enum kvt_err
fake_objects_get(struct fake_objects *objects, uint32_t rank, const struct kvt_block_id *id,
                 void *bytes, size_t size)
{
    const struct object *object;
    enum kvt_err rc = KVT_NOTFOUND;

    (void)pthread_mutex_lock(&objects->lock);
    object = find_locked(objects, rank, id);
    if (object != NULL)
        rc = object->size == size ? KVT_OK : KVT_CORRUPT;
    if (rc == KVT_OK)
        memcpy(bytes, object->bytes, size);
    (void)pthread_mutex_unlock(&objects->lock);
    return rc;
}

enum kvt_err
fake_objects_put(struct fake_objects *objects, uint32_t rank, const struct kvt_block_id *id,
                 const void *bytes, size_t size)
{
    enum kvt_err rc = KVT_EXISTS;

    (void)pthread_mutex_lock(&objects->lock);
    if (find_locked(objects, rank, id) == NULL) {
        struct object *all = realloc(objects->all, (objects->count + 1) * sizeof(*all));
        struct object object = {rank, *id, size, malloc(size)};

        assert(all != NULL && object.bytes != NULL);
        memcpy(object.bytes, bytes, size);
        objects->all = all;
        all[objects->count++] = object;
        rc = KVT_OK;
    }
    (void)pthread_mutex_unlock(&objects->lock);
    return rc;
}
