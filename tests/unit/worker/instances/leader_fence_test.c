/*
 * What is tested: worker/object/store_lock.h, and a leader of the engine behind it
 * (engine/leader/leader.h), on locks in a store in memory whose clock, and ours, jump: one holder
 * at a time, holders that die, holders that lose their lock in the middle of a batch, stores that
 * answer nothing, or no locks.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/engine/support/leader_bed.h"
#include "worker/instances/leader_fence.h"

enum {
    OBJECTS = 64,
    LEASE_MS = 6000,
    OVER_MS = LEASE_MS + G4_LEASE_GRACE_MS + 2000, /* both readings are whole seconds */
    WAIT_MS = 10000,
    BODY_MAX = 1024,
};

struct object {
    char key[KVT_KEY_MAX];
    char body[BODY_MAX];
    size_t size;
    uint64_t version; /* 0: there is none */
    uint64_t modified_ms;
};

struct bucket {
    pthread_mutex_t lock; /* guards what follows */
    struct object objects[OBJECTS];
    uint64_t versions;
    _Atomic uint64_t later_ms;   /* all clocks */
    _Atomic enum kvt_err answer; /* not KVT_OK: of every request */
    _Atomic bool lost;           /* PUTs are done, and answered as KVT_TIMEOUT */
    _Atomic bool unconditional;  /* conditions are not heeded */
    _Atomic int left;            /* requests until nobody is heard any more; below 0: no such */
    _Atomic bool arrives;        /* ... the first of those is done, and its answer lost */
};

static uint64_t
mono_ms(void *arg)
{
    return kvt_clock_mono_ms() + atomic_load(&((struct bucket *)arg)->later_ms);
}

static uint64_t
unix_ms(void *arg)
{
    return kvt_clock_unix_ms() + atomic_load(&((struct bucket *)arg)->later_ms);
}

static struct object *
object_locked(struct bucket *bucket, const char *key)
{
    struct object *empty = NULL;

    for (size_t i = 0; i < OBJECTS; i++) {
        if (bucket->objects[i].version != 0 && strcmp(bucket->objects[i].key, key) == 0)
            return &bucket->objects[i];
        if (bucket->objects[i].version == 0 && empty == NULL)
            empty = &bucket->objects[i];
    }
    assert_non_null(empty);
    (void)snprintf(empty->key, sizeof(empty->key), "%s", key);
    return empty;
}

static enum kvt_err
put_locked(struct bucket *bucket, struct object *object, struct g4_request *request)
{
    char etag[G4_ETAG_MAX];

    (void)snprintf(etag, sizeof(etag), "%llx", (unsigned long long)object->version);
    if (!atomic_load(&bucket->unconditional)) {
        if (request->condition == G4_IF_ABSENT && object->version != 0)
            return KVT_EXISTS;
        if (request->condition == G4_IF_MATCH &&
            (object->version == 0 || strcmp(etag, request->etag) != 0))
            return KVT_PRECONDITION;
    }
    assert_true(request->body_size <= BODY_MAX);
    memcpy(object->body, request->body, request->body_size);
    object->size = request->body_size;
    object->version = ++bucket->versions;
    object->modified_ms = unix_ms(bucket) / 1000 * 1000;
    (void)snprintf(request->etag, sizeof(request->etag), "%llx",
                   (unsigned long long)object->version);
    return atomic_load(&bucket->lost) ? KVT_TIMEOUT : KVT_OK;
}

static enum kvt_err
get_locked(const struct object *object, struct g4_request *request)
{
    if (object->version == 0)
        return KVT_NOTFOUND;
    (void)snprintf(request->etag, sizeof(request->etag), "%llx",
                   (unsigned long long)object->version);
    request->modified_ms = object->modified_ms;
    request->buffer_size = object->size;
    if (request->verb == G4_HEAD)
        return KVT_OK;
    if (request->buffer == NULL) {
        request->buffer = kvt_calloc(1, BODY_MAX);
        request->buffer_capacity = BODY_MAX;
    }
    assert_non_null(request->buffer);
    if (object->size > request->buffer_capacity)
        return KVT_RANGE;
    memcpy(request->buffer, object->body, object->size);
    return KVT_OK;
}

static enum kvt_err
submit(void *self, struct g4_request *request)
{
    struct bucket *bucket = self;
    struct object *object;
    bool dies;

    (void)pthread_mutex_lock(&bucket->lock);
    object = object_locked(bucket, request->key);
    request->server_ms = unix_ms(bucket) / 1000 * 1000;
    request->status = atomic_load(&bucket->answer);
    dies = atomic_load(&bucket->left) >= 0 && atomic_fetch_sub(&bucket->left, 1) == 0;
    if (dies)
        atomic_store(&bucket->answer, KVT_UNAVAILABLE);
    if (dies && !atomic_load(&bucket->arrives))
        request->status = KVT_UNAVAILABLE;
    if (request->status == KVT_OK) {
        if (request->verb == G4_PUT)
            request->status = put_locked(bucket, object, request);
        else if (request->verb == G4_DELETE)
            object->version = 0;
        else if (request->verb != G4_LIST)
            request->status = get_locked(object, request);
    }
    if (dies && request->status == KVT_OK)
        request->status = KVT_TIMEOUT;
    (void)pthread_mutex_unlock(&bucket->lock);
    request->done(request, request->arg);
    return KVT_OK;
}

static void
close_nothing(void *self)
{
    (void)self;
}

static const struct g4_store_driver driver = {
    .name = "memory", .submit = submit, .close = close_nothing};

static const struct g4_selftest safe = {.put_if_absent = true,
                                        .put_if_match = true,
                                        .if_match_missing = true,
                                        .etag_changes = true,
                                        .one_creator = true,
                                        .one_changer = true,
                                        .server_clock = true};

struct scene {
    struct bucket bucket;
    struct g4_lock_clock clock;
    struct g4_store *store;
    struct worker_store_lock *ours, *theirs;
    struct engine_fence fence;
};

static struct worker_store_lock *
open_fence(struct scene *scene, const char *instance, const struct g4_selftest *proved)
{
    struct worker_store_lock *fence;

    assert_int_equal(
        worker_store_lock_new(&fence,
                              &(struct worker_store_lock_options){.store = scene->store,
                                                                  .namespace_ = "model/fp",
                                                                  .instance = instance,
                                                                  .lease_ms = LEASE_MS,
                                                                  .proved = proved,
                                                                  .clock = &scene->clock},
                              NULL),
        KVT_OK);
    return fence;
}

static struct scene *
scene_open(void)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));

    assert_non_null(scene);
    (void)pthread_mutex_init(&scene->bucket.lock, NULL);
    atomic_store(&scene->bucket.left, -1);
    scene->clock = (struct g4_lock_clock){mono_ms, unix_ms, &scene->bucket};
    assert_int_equal(g4_store_new(&scene->store, &driver, &scene->bucket), KVT_OK);
    scene->ours = open_fence(scene, "ours", &safe);
    scene->theirs = open_fence(scene, "theirs", &safe);
    scene->fence = worker_leader_fence(scene->ours);
    return scene;
}

static void
scene_close(struct scene *scene)
{
    worker_store_lock_close(scene->ours);
    worker_store_lock_close(scene->theirs);
    g4_store_close(scene->store);
    (void)pthread_mutex_destroy(&scene->bucket.lock);
    kvt_free(scene);
}

static void
one_has_it_at_a_time(void **state)
{
    struct scene *scene = scene_open();
    struct worker_store_lock_lease one;
    struct worker_store_lock_lease two;

    (void)state;
    assert_int_equal(worker_store_lock_acquire(scene->ours, 3, &one), KVT_OK);
    assert_int_equal(worker_store_lock_acquire(scene->ours, 3, &two),
                     KVT_BUSY); /* another thread's */
    assert_int_equal(worker_store_lock_acquire(scene->theirs, 3, &two), KVT_BUSY);
    assert_int_equal(worker_store_lock_acquire(scene->theirs, 4, &two), KVT_OK);
    assert_int_equal(worker_store_lock_release(scene->theirs, 4, &two), KVT_OK);
    assert_int_equal(worker_store_lock_release(scene->theirs, 4, &two), KVT_PRECONDITION);
    assert_int_equal(worker_store_lock_release(scene->ours, 3, &one), KVT_OK);
    assert_int_equal(worker_store_lock_acquire(scene->theirs, 3, &two), KVT_OK);
    assert_true(two.token > one.token);
    /* It dies with it: nobody has it before its lease is over, then whoever comes first. */
    atomic_store(&scene->bucket.later_ms, LEASE_MS);
    assert_int_equal(worker_store_lock_acquire(scene->ours, 3, &one), KVT_BUSY);
    atomic_store(&scene->bucket.later_ms, OVER_MS);
    assert_int_equal(worker_store_lock_acquire(scene->ours, 3, &one), KVT_OK);
    assert_true(one.token > two.token);
    assert_int_equal(worker_store_lock_release(scene->theirs, 3, &two), KVT_PRECONDITION);
    assert_int_equal(worker_store_lock_acquire(scene->theirs, 3, &two),
                     KVT_BUSY); /* it is ours still */
    assert_int_equal(worker_store_lock_release(scene->ours, 3, &one), KVT_OK);
    scene_close(scene);
}

/* Somebody deletes the lock object: the token rises all the same. */
static void
tokens_rise(void **state)
{
    struct scene *scene = scene_open();
    struct worker_store_lock_lease lease;
    uint64_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(worker_store_lock_acquire(scene->ours, 0, &lease), KVT_OK);
        assert_true(lease.token > before);
        before = lease.token;
        assert_int_equal(worker_store_lock_release(scene->ours, 0, &lease), KVT_OK);
        if (i % 2 == 1)
            for (size_t k = 0; k < OBJECTS; k++)
                scene->bucket.objects[k].version = 0;
    }
    scene_close(scene);
}

/* It is not said of one that is being proved what will come of it. */
static enum kvt_err
until_other(struct worker_store_lock *fence, uint32_t part, enum kvt_err not,
            struct worker_store_lock_lease *lease)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    enum kvt_err rc;

    while ((rc = worker_store_lock_acquire(fence, part, lease)) == not ) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
    return rc;
}

static void
what_is_no_place_for_locks_has_none(void **state)
{
    struct scene *scene = scene_open();
    struct worker_store_lock *fence;
    struct worker_store_lock_lease lease;

    (void)state;
    atomic_store(&scene->bucket.unconditional, true);
    fence = open_fence(scene, "third", NULL);
    kvt_clock_sleep_ms(50);
    assert_int_equal(worker_store_lock_acquire(fence, 1, &lease), KVT_UNSUPPORTED);
    worker_store_lock_close(fence);
    atomic_store(&scene->bucket.unconditional, false);
    atomic_store(&scene->bucket.answer, KVT_UNAVAILABLE); /* that may pass */
    fence = open_fence(scene, "fourth", NULL);
    kvt_clock_sleep_ms(50);
    assert_int_equal(worker_store_lock_acquire(fence, 1, &lease), KVT_UNSUPPORTED);
    atomic_store(&scene->bucket.answer, KVT_OK);
    assert_int_equal(until_other(fence, 1, KVT_UNSUPPORTED, &lease), KVT_OK);
    atomic_store(&scene->bucket.answer, KVT_DENIED);
    assert_int_equal(worker_store_lock_acquire(fence, 2, &lease), KVT_UNSUPPORTED); /* no right */
    atomic_store(&scene->bucket.answer, KVT_OK);
    assert_int_equal(worker_store_lock_acquire(fence, 2, &lease), KVT_UNSUPPORTED);
    atomic_store(&scene->bucket.later_ms, 60000); /* a right may be given meanwhile */
    assert_int_equal(worker_store_lock_acquire(fence, 2, &lease), KVT_OK);
    worker_store_lock_close(fence); /* gives back what it has */
    assert_int_equal(worker_store_lock_acquire(scene->ours, 1, &lease), KVT_OK);
    assert_int_equal(worker_store_lock_release(scene->ours, 1, &lease), KVT_OK);
    scene_close(scene);
}

/* Takes and gives back, three times, and dies at some request.  False: it did not. */
static bool
dies_at(struct scene *scene, int request, bool arrives, uint64_t *holds_until_ms)
{
    struct worker_store_lock_lease lease;

    *holds_until_ms = 0;
    atomic_store(&scene->bucket.arrives, arrives);
    atomic_store(&scene->bucket.left, request);
    for (unsigned i = 0; i < 3; i++) {
        if (worker_store_lock_acquire(scene->ours, 5, &lease) != KVT_OK)
            return true;
        *holds_until_ms = lease.stop_ms;
        if (worker_store_lock_release(scene->ours, 5, &lease) != KVT_OK)
            return true;
        *holds_until_ms = 0;
    }
    return atomic_load(&scene->bucket.answer) != KVT_OK;
}

/* Whoever comes next waits for what the dead one believed, and no longer than a lease and 2 s. */
static void
a_lock_outlives_its_holder_by_a_lease(void **state)
{
    unsigned deaths = 0;

    (void)state;
    for (int n = 0, dead = 1; dead != 0; n++) {
        struct scene *scene = scene_open();
        struct worker_store_lock_lease lease;
        uint64_t holds_until_ms;
        enum kvt_err rc;

        assert_int_equal(worker_store_lock_acquire(scene->theirs, 5, &lease), KVT_OK);
        assert_int_equal(worker_store_lock_release(scene->theirs, 5, &lease), KVT_OK);
        dead = dies_at(scene, n / 2, n % 2 == 1, &holds_until_ms);
        deaths += (unsigned)dead;
        atomic_store(&scene->bucket.left, -1);
        atomic_store(&scene->bucket.answer, KVT_OK);
        while ((rc = worker_store_lock_acquire(scene->theirs, 5, &lease)) == KVT_BUSY) {
            assert_true(atomic_load(&scene->bucket.later_ms) < OVER_MS);
            atomic_fetch_add(&scene->bucket.later_ms, 500);
        }
        assert_int_equal(rc, KVT_OK);
        assert_true(mono_ms(&scene->bucket) >= holds_until_ms ||
                    n % 2 == 1); /* its tombstone had arrived */
        assert_int_equal(worker_store_lock_release(scene->theirs, 5, &lease), KVT_OK);
        scene_close(scene);
    }
    assert_true(deaths >= 12); /* six requests at least, and both ways */
}

/* ---- a leader behind it ---- */

static struct engine_leader_stats
stats_of(struct bed *bed)
{
    struct engine_leader_stats stats;

    engine_leader_stats(bed->leader, &stats);
    return stats;
}

static void
wait_for(struct bed *bed, uint64_t unstored)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;

    while (stats_of(bed).unstored != unstored) {
        (void)fake_worker_step(bed->worker);
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
}

static void
open_leader(struct bed *bed, struct scene *scene, enum fake_ending ending)
{
    bed_open(bed, &(struct bed_options){
                      .g2 = 16,
                      .objects = true,
                      .ending = ending,
                      .leader = {.store = true, .store_again_ms = 5, .fence = &scene->fence}});
}

static void
who_was_killed_with_the_lock_is_followed(void **state)
{
    struct scene *scene = scene_open();
    struct worker_store_lock_lease leases[WORKER_STORE_LOCK_PARTS];
    struct bed bed;

    (void)state;
    for (uint32_t part = 0; part < WORKER_STORE_LOCK_PARTS; part++)
        assert_int_equal(worker_store_lock_acquire(scene->theirs, part, &leases[part]), KVT_OK);
    open_leader(&bed, scene, FAKE_LATER);
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 6));
    kvt_clock_sleep_ms(50);
    atomic_store(&scene->bucket.answer, KVT_UNAVAILABLE); /* and nobody can be asked for a while */
    kvt_clock_sleep_ms(20);
    atomic_store(&scene->bucket.answer, KVT_OK);
    assert_true(stats_of(&bed).store_again > 6);
    assert_int_equal(fake_objects_count(bed.objects), 0);
    atomic_store(&scene->bucket.later_ms, OVER_MS);
    wait_for(&bed, 0);
    assert_int_equal(fake_objects_count(bed.objects), 6);
    assert_int_equal(stats_of(&bed).store_failed, 0);
    for (uint32_t part = 0; part < WORKER_STORE_LOCK_PARTS; part++)
        (void)worker_store_lock_release(scene->theirs, part, &leases[part]);
    bed_close(&bed);
    scene_close(scene);
}

/* The batch goes on while its lease ends and another takes the lock: it does not count. */
static void
who_loses_the_lock_counts_nothing(void **state)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT_MS;
    struct scene *scene = scene_open();
    struct worker_store_lock_lease lease;
    struct bed bed;

    (void)state;
    open_leader(&bed, scene, FAKE_WHEN_TOLD);
    assert_true(bed_make(&bed, KVT_TIER_G2, 1, 0, 4)); /* one prefix: of part 1 */
    while (fake_worker_jobs(bed.worker, ENGINE_STORE) == 0) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
    assert_int_equal(worker_store_lock_acquire(scene->theirs, 1, &lease), KVT_BUSY);
    atomic_store(&scene->bucket.later_ms, OVER_MS);
    assert_int_equal(worker_store_lock_acquire(scene->theirs, 1, &lease), KVT_OK);
    assert_true(fake_worker_step(bed.worker));
    while (stats_of(&bed).store_again == 0) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
        (void)fake_worker_step(bed.worker); /* who came too late for the first batch has another */
    }
    assert_int_equal(stats_of(&bed).stored, 0);
    assert_int_equal(stats_of(&bed).unstored, 4);
    assert_int_equal(worker_store_lock_release(scene->theirs, 1, &lease),
                     KVT_OK); /* nobody took it away */
    wait_for(&bed, 0);
    assert_int_equal(fake_objects_count(bed.objects), 4);
    bed_close(&bed);
    scene_close(scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_has_it_at_a_time),
        cmocka_unit_test(tokens_rise),
        cmocka_unit_test(what_is_no_place_for_locks_has_none),
        cmocka_unit_test(a_lock_outlives_its_holder_by_a_lease),
        cmocka_unit_test(who_was_killed_with_the_lock_is_followed),
        cmocka_unit_test(who_loses_the_lock_counts_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
