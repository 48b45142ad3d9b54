/*
 * What is tested: gateway/tier/body_cache.h: memory comes again, no more of it is kept than was
 * said, what nobody needs goes, and without a cache, or where it has nothing to offer, the heap is
 * as good.
 */
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/tier/body_cache.h"

#include "tests/unit/gateway/support/support.h"

enum { LIMIT = 128 << 20, THREADS = 4, TURNS = 500 };

static struct gateway_body_cache *
new_cache(size_t max)
{
    struct gateway_body_cache *cache;

    assert_int_equal(gateway_body_cache_new(&cache, max), KVT_OK);
    return cache;
}

static void *
take(struct gateway_body_cache *cache, struct kvt_buffer *buffer, size_t size)
{
    kvt_buffer_init(buffer, LIMIT);
    assert_non_null(gateway_body_cache_reserve(cache, buffer, size));
    assert_true(buffer->capacity >= size);
    assert_int_equal(buffer->size, 0);
    memset(buffer->data, 0x5a, buffer->capacity + 1); /* all of it is there */
    return buffer->data;
}

static void
memory_comes_again_for_bodies_of_its_size(void **state)
{
    struct gateway_body_cache *cache = new_cache(8 << 20);
    struct kvt_buffer buffer;
    struct kvt_buffer other;
    void *first;

    (void)state;
    first = take(cache, &buffer, 1 << 20);
    gateway_body_cache_release(cache, &buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.limit, LIMIT);
    assert_ptr_equal(take(cache, &buffer, (1 << 20) - 5), first);
    assert_ptr_not_equal(take(cache, &other, 1 << 20), first);
    gateway_body_cache_release(cache, &other);
    gateway_body_cache_release(cache, &buffer);
    assert_ptr_equal(take(cache, &buffer, 1 << 20), first); /* the last one comes first */
    assert_ptr_not_equal(take(cache, &other, (1 << 20) + 1), first);
    gateway_body_cache_release(cache, &buffer);
    gateway_body_cache_release(cache, &other);
    gateway_body_cache_free(cache);
}

static void
no_more_is_kept_than_was_said(void **state)
{
    struct gateway_body_cache *cache = new_cache(3 * (64 << 10));
    struct kvt_buffer buffers[5];
    const size_t before = kvt_alloc_live();

    (void)state;
    for (int i = 0; i < 5; i++)
        (void)take(cache, &buffers[i], 64 << 10);
    assert_int_equal(kvt_alloc_live() - before, 5);
    for (int i = 0; i < 5; i++)
        gateway_body_cache_release(cache, &buffers[i]);
    assert_int_equal(kvt_alloc_live() - before, 3);
    (void)take(cache, &buffers[0], 64 << 10);
    (void)take(cache, &buffers[1], 64 << 10);
    assert_int_equal(kvt_alloc_live() - before, 3);
    (void)take(cache, &buffers[2], 128 << 10);
    gateway_body_cache_release(cache, &buffers[2]); /* two of three places' worth */
    assert_int_equal(kvt_alloc_live() - before, 4);
    gateway_body_cache_release(cache, &buffers[1]);
    assert_int_equal(kvt_alloc_live() - before, 3);
    gateway_body_cache_release(cache, &buffers[0]);
    assert_int_equal(kvt_alloc_live() - before, 2);
    gateway_body_cache_free(cache);
}

static void
what_nobody_needs_goes(void **state)
{
    struct gateway_body_cache *cache = new_cache(8 << 20);
    const size_t before = kvt_alloc_live();
    struct kvt_buffer buffers[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        (void)take(cache, &buffers[i], 64 << 10);
    for (int i = 0; i < 3; i++)
        gateway_body_cache_release(cache, &buffers[i]);
    gateway_body_cache_expire(cache, 1); /* none of them was there all the time */
    assert_int_equal(kvt_alloc_live() - before, 3);
    (void)take(cache, &buffers[0], 64 << 10);
    gateway_body_cache_release(cache, &buffers[0]);
    gateway_body_cache_expire(cache, GATEWAY_BODY_CACHE_REST_MS); /* too early */
    assert_int_equal(kvt_alloc_live() - before, 3);
    gateway_body_cache_expire(cache, GATEWAY_BODY_CACHE_REST_MS + 1); /* one of three was needed */
    assert_int_equal(kvt_alloc_live() - before, 1);
    gateway_body_cache_expire(cache, 2 * GATEWAY_BODY_CACHE_REST_MS + 1);
    assert_int_equal(kvt_alloc_live() - before, 0);
    gateway_body_cache_free(cache);
}

static void
what_has_no_place_comes_from_the_heap(void **state)
{
    struct gateway_body_cache *cache = new_cache(LIMIT);
    const size_t before = kvt_alloc_live();
    struct kvt_buffer buffer;

    (void)state;
    (void)take(NULL, &buffer, 1 << 20);
    gateway_body_cache_release(NULL, &buffer);
    (void)take(cache, &buffer, 100);
    gateway_body_cache_release(cache, &buffer);
    (void)take(cache, &buffer, GATEWAY_BODY_CACHE_MAX + 1);
    gateway_body_cache_release(cache, &buffer);
    kvt_buffer_init(&buffer, LIMIT);
    gateway_body_cache_release(cache, &buffer); /* nothing in it */
    assert_int_equal(kvt_alloc_live() - before, 0);
    kvt_buffer_init(&buffer, 100 << 10);
    assert_null(gateway_body_cache_reserve(cache, &buffer, (100 << 10) + 1));
    assert_false(kvt_buffer_ok(&buffer));
    kvt_buffer_init(&buffer, LIMIT);
    kvt_buffer_append(&buffer, "begun", 5);
    assert_non_null(gateway_body_cache_reserve(cache, &buffer, 1 << 20));
    assert_memory_equal(buffer.data, "begun", 5);
    kvt_buffer_release(&buffer);
    gateway_body_cache_free(cache);
    gateway_body_cache_free(NULL);
    gateway_body_cache_expire(NULL, 0);
}

static void
a_failing_allocation_is_an_answer(void **state)
{
    struct gateway_body_cache *cache;
    struct kvt_buffer buffer;

    (void)state;
    kvt_alloc_fail_after(0);
    assert_int_equal(gateway_body_cache_new(&cache, 1 << 20), KVT_NOMEM);
    kvt_alloc_fail_after(SIZE_MAX);
    assert_null(cache);
    cache = new_cache(1 << 20);
    kvt_buffer_init(&buffer, LIMIT);
    kvt_alloc_fail_after(0);
    assert_null(gateway_body_cache_reserve(cache, &buffer, 64 << 10));
    kvt_alloc_fail_after(SIZE_MAX);
    assert_false(kvt_buffer_ok(&buffer));
    gateway_body_cache_release(cache, &buffer);
    gateway_body_cache_free(cache);
}

static void *
come_and_go(void *arg)
{
    struct gateway_body_cache *cache = arg;

    for (int i = 0; i < TURNS; i++) {
        struct kvt_buffer buffer;

        (void)take(cache, &buffer, (size_t)(64 << 10) << i % 3);
        gateway_body_cache_release(cache, &buffer);
        gateway_body_cache_expire(cache, (uint64_t)i * GATEWAY_BODY_CACHE_REST_MS);
    }
    return NULL;
}

static void
threads_share_it(void **state)
{
    const size_t before = kvt_alloc_live();
    struct gateway_body_cache *cache = new_cache(1 << 20);
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, cache), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    gateway_body_cache_free(cache);
    assert_int_equal(kvt_alloc_live(), before);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_comes_again_for_bodies_of_its_size),
        cmocka_unit_test(no_more_is_kept_than_was_said),
        cmocka_unit_test(what_nobody_needs_goes),
        cmocka_unit_test(what_has_no_place_comes_from_the_heap),
        cmocka_unit_test(a_failing_allocation_is_an_answer),
        cmocka_unit_test(threads_share_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
