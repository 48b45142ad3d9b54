#include "tests/unit/gateway/support/scene.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/http/attributes.h"

const struct gateway_principal test_scene_owner = {
    .access = "all",
    .owner = "all",
    .creates = "*",
    .grants = {{.prefix = "", .rights = GATEWAY_RIGHTS_ALL}},
    .grant_count = 1};

void
test_scene_open(struct test_scene *scene, uint64_t hot_capacity)
{
    test_gateway_open(&scene->gateway, hot_capacity, 0);
    atomic_init(&scene->budget.used, 0);
    scene->budget.max = 1u << 20;
    assert_int_equal(gateway_client_buckets_new(&scene->buckets, "kvtier", "kvtier", 0, 8), KVT_OK);
    assert_int_equal(gateway_listing_prefetch_new(&scene->prefetch), KVT_OK);
    scene->s3 = (struct gateway_s3){.context = scene->gateway.context,
                                    .budget = &scene->budget,
                                    .buckets = scene->buckets,
                                    .prefetch = scene->prefetch,
                                    .bucket = "kvtier",
                                    .region = "eu-1",
                                    .batch_max = 1u << 20};
    scene->who = &test_scene_owner;
    scene->answer_max = gateway_s3_answer_max(&scene->s3);
}

void
test_scene_close(struct test_scene *scene)
{
    assert_int_equal(atomic_load(&scene->budget.used), 0);
    gateway_listing_prefetch_free(scene->prefetch);
    gateway_client_buckets_free(scene->buckets);
    test_gateway_close(&scene->gateway);
}

int
test_scene_set_up(void **state)
{
    struct test_scene *scene = kvt_calloc(1, sizeof(*scene));

    test_scene_open(scene, 1u << 20);
    *state = scene;
    return 0;
}

int
test_scene_tear_down(void **state)
{
    test_scene_close(*state);
    kvt_free(*state);
    return 0;
}

struct gateway_request *
test_scene_ask_all(struct test_scene *scene, const char *method, const char *raw, const void *body,
                   size_t size, const char *const *headers)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));

    kvt_buffer_init(&request->answer, scene->answer_max);
    kvt_buffer_init(&request->body, size + 1); /* with the end of a text */
    (void)snprintf(request->method, sizeof(request->method), "%s", method);
    request->raw = kvt_strdup(raw);
    request->status = 200;
    assert_int_equal(gateway_target_parse(request->raw, &request->target, NULL), KVT_OK);
    if (size > 0)
        kvt_buffer_append(&request->body, body, size);
    assert_true(kvt_buffer_ok(&request->body));
    for (; headers[0] != NULL; headers += 2)
        assert_int_equal(gateway_request_header_add(request, headers[0], headers[1]), KVT_OK);
    request->principal = scene->who;
    scene->s3.context = scene->gateway.context; /* which may have been opened again */
    gateway_s3_dispatch(&scene->s3, request);
    return request;
}

struct gateway_request *
test_scene_ask(struct test_scene *scene, const char *method, const char *raw, const void *body,
               size_t size, const char *header, const char *value)
{
    const char *const headers[] = {header, value, NULL};

    return test_scene_ask_all(scene, method, raw, body, size, headers);
}

unsigned
test_scene_status(struct test_scene *scene, const char *method, const char *raw, const char *body,
                  const char *header, const char *value)
{
    struct gateway_request *request =
        test_scene_ask(scene, method, raw, body, strlen(body), header, value);
    const unsigned status = request->status;

    test_scene_done(scene, request);
    return status;
}

void
test_scene_done(struct test_scene *scene, struct gateway_request *request)
{
    gateway_request_release(request, &scene->budget);
}

const char *
test_scene_field(const struct gateway_request *request, const char *name)
{
    for (size_t i = 0; i < request->field_count; i++)
        if (strcmp(request->fields[i].name, name) == 0)
            return request->fields[i].value;
    return "";
}

const char *
test_scene_line(const struct gateway_request *request, const char *name, char *out, size_t size)
{
    char text[1024];

    (void)snprintf(text, sizeof(text), "%.*s", (int)request->lines.size,
                   request->lines.data == NULL ? "" : (const char *)request->lines.data);
    return gateway_attribute_lines_get(text, name, out, size) ? out : "";
}

bool
test_scene_element(const char **at, const char *open, char *out, size_t size)
{
    const char *start = strstr(*at, open);

    out[0] = '\0';
    if (start == NULL)
        return false;
    start += strlen(open);
    (void)snprintf(out, size, "%.*s", (int)strcspn(start, "<"), start);
    *at = start;
    return true;
}
