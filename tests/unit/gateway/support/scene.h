/*
 * tests/unit/gateway/support/scene.h -- a context behind the S3 port, without HTTP.
 *
 * Why: what requests mean is tested by asking, in the words of a client, and looking at the answer.
 * Ownership: the scene owns its context and folder; requests are the caller's, to be given back.
 * Threads:   the test's.
 * Limits:    as the gateway's; requests hold at most 1 MiB of memory, unless a test says otherwise.
 */
#ifndef TESTS_UNIT_GATEWAY_SUPPORT_SCENE_H
#define TESTS_UNIT_GATEWAY_SUPPORT_SCENE_H

#include "gateway/s3/listing_prefetch.h"
#include "gateway/s3/s3_dispatch.h"

#include "tests/unit/gateway/support/support.h"

struct test_scene {
    struct test_gateway gateway;
    struct gateway_budget budget;
    struct gateway_client_buckets *buckets; /* of at most eight that are made */
    struct gateway_listing_prefetch *prefetch;
    struct gateway_s3 s3;
    const struct gateway_principal *who; /* test_scene_owner, unless a test says otherwise */
    size_t answer_max;                   /* bytes; as the front gives, unless a test says so */
};

/** Whoever may do all. */
extern const struct gateway_principal test_scene_owner;

/** Open with this room for hot blocks (0: no hot tier); asserts. */
void test_scene_open(struct test_scene *scene, uint64_t hot_capacity);

/** Asserts that every request gave back what it took. */
void test_scene_close(struct test_scene *scene);

/** As cmocka's fixtures: *state is a struct test_scene with a hot tier of 1 MiB. */
int test_scene_set_up(void **state);
int test_scene_tear_down(void **state);

/** Ask, with `headers`: name, value, ..., NULL.  The answer goes to test_scene_done(). */
struct gateway_request *test_scene_ask_all(struct test_scene *scene, const char *method,
                                           const char *raw, const void *body, size_t size,
                                           const char *const *headers);

/** The same with one header, or none where it is NULL. */
struct gateway_request *test_scene_ask(struct test_scene *scene, const char *method,
                                       const char *raw, const void *body, size_t size,
                                       const char *header, const char *value);

/** The same for the status only. */
unsigned test_scene_status(struct test_scene *scene, const char *method, const char *raw,
                           const char *body, const char *header, const char *value);

void test_scene_done(struct test_scene *scene, struct gateway_request *request);

/** A field of the answer; "" when there is none. */
const char *test_scene_field(const struct gateway_request *request, const char *name);

/** A line of what is kept with an object, in `out`; "" when there is none. */
const char *test_scene_line(const struct gateway_request *request, const char *name, char *out,
                            size_t size);

/**
 * The text behind the tag `open`, the first from `*at` on, and moves `*at` there.  false: there is
 * none, `out` is "".
 */
bool test_scene_element(const char **at, const char *open, char *out, size_t size);

#endif /* TESTS_UNIT_GATEWAY_SUPPORT_SCENE_H */
