/*
 * What is tested: a gateway with a packed namespace, on a folder: what clients are told of a block
 * is the same before and after it is packed, by this gateway and by one that has never seen it;
 * promotion, removal one by one, many at once and by order, and PUTs after that; caps; the order
 * that packs, and what is refused; what is told, from the start on, and that what was asked for is
 * done; that nobody waits for a packer when the gateway ends.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/packed/packed_store.h"
#include "gateway/block/context_open.h"
#include "gateway/block/removal.h"
#include "gateway/bus/orders.h"
#include "gateway/move/move.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/packer.h"

#include "tests/unit/gateway/support/scene.h"

enum { BLOCKS = 24, SIZE = 3000, PATIENCE_MS = 30000 };

static void
open_packed(struct test_scene *scene)
{
    struct gateway_context_options *options = &scene->gateway.options;

    test_scene_open(scene, 1u << 20);
    options->packed = TEST_NAMESPACE;
    options->packer.settings = g4_compaction_defaults();
    options->packer.settings.age_ms = 0;
    options->packer.settings.bytes_min = 1;
    options->packer.settings.segment_bytes = 20000;
    options->packer.settings.block_max = 2 * SIZE;
    options->packer.interval_ms = 600000;
    test_gateway_reopen(&scene->gateway);
}

static void
pack(struct test_scene *scene, uint64_t packed)
{
    struct g4_compaction_report total;
    struct kvt_error err;

    if (gateway_packer_run(scene->gateway.context->packer, TEST_NAMESPACE, "test", NULL, &total,
                           &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(total.packed, packed);
    assert_false(total.more);
}

/* Blocks whose only copy is in the bucket, packed. */
static void
put_and_pack(struct test_scene *scene)
{
    for (uint64_t i = 0; i < BLOCKS; i++) {
        char key[KVT_KEY_MAX];
        uint64_t bytes;

        assert_int_equal(test_gateway_put(&scene->gateway, i, SIZE), KVT_OK);
        assert_int_equal(
            test_gateway_demote(scene->gateway.context, test_gateway_key(key, i), &bytes), KVT_OK);
    }
    pack(scene, BLOCKS);
}

/* As another gateway: with a catalog that knows nothing. */
static void
reopen_as_another(struct test_scene *scene, char state[192])
{
    (void)snprintf(state, 192, "%s/another", scene->gateway.folder);
    scene->gateway.options.state_dir = state;
    scene->gateway.options.hot_capacity = 0;
    test_gateway_reopen(&scene->gateway);
}

static void
url_of(char out[KVT_KEY_MAX + 16], uint64_t number)
{
    char key[KVT_KEY_MAX];

    (void)snprintf(out, KVT_KEY_MAX + 16, "/kvtier/%s", test_gateway_key(key, number));
}

/* What HEAD tells: everything but the writer, whom a packed block has forgotten. */
struct told {
    char etag[128];
    char modified[64];
    char length[32];
    char crc[32];
};

static void
ask_key(struct test_scene *scene, const char *key, struct told *told)
{
    char url[KVT_KEY_MAX + 16];
    struct gateway_request *request;

    (void)snprintf(url, sizeof(url), "/kvtier/%s", key);
    request = test_scene_ask(scene, "HEAD", url, NULL, 0, NULL, NULL);
    assert_int_equal(request->status, 200);
    (void)snprintf(told->etag, sizeof(told->etag), "%s", test_scene_field(request, "ETag"));
    (void)snprintf(told->modified, sizeof(told->modified), "%s",
                   test_scene_field(request, "Last-Modified"));
    (void)snprintf(told->length, sizeof(told->length), "%llu", (unsigned long long)request->length);
    (void)snprintf(told->crc, sizeof(told->crc), "%s",
                   test_scene_field(request, "x-amz-meta-kvt-crc32c"));
    test_scene_done(scene, request);
}

static void
ask_head(struct test_scene *scene, uint64_t number, struct told *told)
{
    char key[KVT_KEY_MAX];

    ask_key(scene, test_gateway_key(key, number), told);
}

/* Every block is listed once, with the size and the ETag that HEAD tells. */
static void
check_listing(struct test_scene *scene, size_t expected)
{
    struct gateway_request *request =
        test_scene_ask(scene, "GET", "/kvtier?list-type=2", NULL, 0, NULL, NULL);
    const char *at = kvt_buffer_text(&request->answer);
    char last[KVT_KEY_MAX] = "";
    char key[KVT_KEY_MAX];
    char text[128];
    char quoted[132];
    struct told told;
    size_t count = 0;

    assert_int_equal(request->status, 200);
    while (test_scene_element(&at, "<Key>", key, sizeof(key))) {
        assert_true(strcmp(last, key) < 0);
        (void)snprintf(last, sizeof(last), "%s", key);
        assert_null(strstr(key, ".kvt"));
        ask_key(scene, key, &told);
        assert_true(test_scene_element(&at, "<ETag>&quot;", text, sizeof(text)));
        (void)snprintf(quoted, sizeof(quoted), "\"%.*s\"", (int)strcspn(text, "&"), text);
        assert_string_equal(quoted, told.etag);
        assert_true(test_scene_element(&at, "<Size>", text, sizeof(text)));
        assert_string_equal(text, told.length);
        count++;
    }
    assert_int_equal(count, expected);
    test_scene_done(scene, request);
}

static void
told_the_same(void **state)
{
    struct told before[BLOCKS];
    char by_another[BLOCKS][KVT_CLOCK_HTTP_MAX]; /* Last-Modified: the object's, not the row's */
    struct test_scene scene;
    char folder[192];

    (void)state;
    open_packed(&scene);
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_gateway_put(&scene.gateway, i, SIZE), KVT_OK);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct g4_request head;
        char key[KVT_KEY_MAX];

        ask_head(&scene, i, &before[i]);
        assert_int_equal(
            test_gateway_store_head(scene.gateway.bucket, test_gateway_key(key, i), &head), KVT_OK);
        kvt_clock_format_http(head.modified_ms, by_another[i]);
    }
    check_listing(&scene, BLOCKS);
    pack(&scene, BLOCKS);
    check_listing(&scene, BLOCKS);
    for (int turn = 0; turn < 2; turn++) {
        for (uint64_t i = 0; i < BLOCKS; i++) {
            char url[KVT_KEY_MAX + 16];
            uint8_t body[SIZE];
            struct gateway_request *request;
            struct told after;

            ask_head(&scene, i, &after);
            assert_string_equal(after.etag, before[i].etag);
            assert_string_equal(after.modified, turn == 0 ? before[i].modified : by_another[i]);
            assert_string_equal(after.length, before[i].length);
            assert_string_equal(after.crc, before[i].crc);
            url_of(url, i);
            test_gateway_fill(body, SIZE, i);
            request = test_scene_ask(&scene, "GET", url, NULL, 0, "range", "bytes=100-1099");
            assert_int_equal(request->status, 206);
            assert_int_equal(request->body_size, 1000);
            assert_memory_equal(request->answer.data + request->body_from, body + 100, 1000);
            test_scene_done(&scene, request);
            assert_int_equal(test_gateway_get(&scene.gateway, i, SIZE, NULL), KVT_OK);
        }
        if (turn == 0)
            reopen_as_another(&scene, folder);
        check_listing(&scene, BLOCKS);
    }
    test_scene_close(&scene);
}

static void
promoted_from_a_segment(void **state)
{
    struct test_scene scene;
    char key[KVT_KEY_MAX];
    uint64_t bytes = 0;
    unsigned tier = 9;

    (void)state;
    open_packed(&scene);
    put_and_pack(&scene);
    assert_int_equal(test_gateway_get(&scene.gateway, 5, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 1);
    assert_int_equal(test_gateway_promote(scene.gateway.context, test_gateway_key(key, 5), &bytes),
                     KVT_OK);
    assert_int_equal(bytes, SIZE);
    assert_int_equal(test_gateway_get(&scene.gateway, 5, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 0);
    assert_int_equal(test_gateway_demote(scene.gateway.context, key, &bytes), KVT_OK);
    assert_int_equal(test_gateway_get(&scene.gateway, 5, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 1);
    test_scene_close(&scene);
}

static void
removed_and_put_again(void **state)
{
    struct gateway_catalog_stats stats;
    struct test_scene scene;
    struct kvt_buffer form;
    char url[KVT_KEY_MAX + 16];
    char key[KVT_KEY_MAX];

    (void)state;
    open_packed(&scene);
    put_and_pack(&scene);
    gateway_catalog_stats(scene.gateway.context->catalog, &stats);
    assert_int_equal(stats.used[1], BLOCKS * SIZE); /* packed or not */
    url_of(url, 0);
    assert_int_equal(test_scene_status(&scene, "DELETE", url, "", NULL, NULL), 204);
    kvt_buffer_init(&form, 1u << 16);
    kvt_buffer_printf(&form, "<Delete>");
    for (uint64_t i = 1; i < 5; i++)
        kvt_buffer_printf(&form, "<Object><Key>%s</Key></Object>", test_gateway_key(key, i));
    kvt_buffer_printf(&form, "</Delete>");
    assert_int_equal(
        test_scene_status(&scene, "POST", "/kvtier?delete", (const char *)form.data, NULL, NULL),
        200);
    kvt_buffer_release(&form);
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_gateway_get(&scene.gateway, i, SIZE, NULL),
                         i < 5 ? KVT_NOTFOUND : KVT_OK);
    check_listing(&scene, BLOCKS - 5);
    gateway_catalog_stats(scene.gateway.context->catalog, &stats);
    assert_int_equal(stats.used[1], (BLOCKS - 5) * SIZE);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(test_gateway_put(&scene.gateway, i, SIZE), KVT_OK);
        assert_int_equal(test_gateway_get(&scene.gateway, i, SIZE, NULL), KVT_OK);
    }
    check_listing(&scene, BLOCKS - 2);
    test_scene_close(&scene);
}

/* A gateway that does not know a packed block meets it with a PUT. */
static void
met_by_a_put(void **state)
{
    struct test_scene scene;
    char folder[192];
    char url[KVT_KEY_MAX + 16];
    struct told before;
    struct told after;

    (void)state;
    open_packed(&scene);
    put_and_pack(&scene);
    ask_head(&scene, 3, &before);
    reopen_as_another(&scene, folder);
    assert_int_equal(test_gateway_put(&scene.gateway, 3, SIZE), KVT_OK);
    ask_head(&scene, 3, &after);
    assert_string_equal(after.etag, before.etag);
    url_of(url, 4); /* other content: the first writer won */
    assert_int_equal(test_scene_status(&scene, "PUT", url, "other bytes", NULL, NULL), 412);
    assert_int_equal(test_gateway_get(&scene.gateway, 4, SIZE, NULL), KVT_OK);
    pack(&scene, 0);
    test_scene_close(&scene);
}

/* Another gateway packs right after this one looked for manifests: other bytes of a block that has
 * a row here are refused all the same. */
static void
other_bytes_of_what_was_just_packed(void **state)
{
    struct g4_compaction_options another = {.namespace_ = TEST_NAMESPACE, .writer = "another"};
    struct g4_compaction_report report;
    struct test_scene scene;
    struct kvt_error err;
    char url[KVT_KEY_MAX + 16];
    char key[KVT_KEY_MAX];
    uint64_t bytes;

    (void)state;
    open_packed(&scene);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(test_gateway_put(&scene.gateway, i, SIZE), KVT_OK);
        assert_int_equal(
            test_gateway_demote(scene.gateway.context, test_gateway_key(key, i), &bytes), KVT_OK);
    }
    another.store = scene.gateway.bucket;
    another.settings = scene.gateway.options.packer.settings;
    assert_int_equal(g4_compaction_run(&another, &report, &err), KVT_OK);
    assert_int_equal(report.packed, BLOCKS);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        url_of(url, i);
        assert_int_equal(test_scene_status(&scene, "PUT", url, "other bytes", NULL, NULL), 412);
        assert_int_equal(test_gateway_get(&scene.gateway, i, SIZE, NULL), KVT_OK);
    }
    test_scene_close(&scene);
}

static struct kvt_order
order_of(enum kvt_order_verb verb, struct kvt_order_item *items, uint32_t count)
{
    return (struct kvt_order){.gateway = "gw0",
                              .namespace_ = TEST_NAMESPACE,
                              .epoch = 1,
                              .id = 1,
                              .expires_ms = 2000,
                              .verb = verb,
                              .cause = {.kind = KVT_DELETE_JOB, .job = 1},
                              .items = items,
                              .item_count = count};
}

static void
by_order(void **state)
{
    struct test_scene scene;
    struct kvt_order_item items[2] = {
        {.block = {.hash = 0x1000, .position = 3}, .ranks = 1},
        {.block = {.hash = 0x1001, .position = 3}, .ranks = 1},
    };
    struct kvt_order order = order_of(KVT_ORDER_COMPACT, NULL, 0);
    struct gateway_packer_state packing;
    struct kvt_order_result result;
    struct kvt_error err;

    (void)state;
    open_packed(&scene);
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_gateway_put(&scene.gateway, i, SIZE), KVT_OK);
    assert_int_equal(gateway_orders_accept(scene.gateway.context, &order, 1000, &err), KVT_OK);
    for (int i = 0; i < 2; i++) { /* twice is as good as once */
        assert_true(
            gateway_orders_execute(scene.gateway.context, NULL, &order, &result, NULL, NULL));
        assert_int_equal(result.code, KVT_OK);
        assert_int_equal(result.done, 1);
        assert_int_equal(result.failed, 0);
        assert_int_equal(result.bytes_moved, i == 0 ? BLOCKS * SIZE : 0);
    }
    gateway_packer_state(scene.gateway.context->packer, 0, &packing);
    assert_string_equal(packing.namespace_, TEST_NAMESPACE);
    assert_string_equal(packing.last_reason, "order");
    assert_string_equal(packing.last_error, "");
    assert_int_equal(packing.runs, 2);
    assert_int_equal(packing.totals.blocks, BLOCKS);
    assert_int_equal(packing.totals.live_bytes, BLOCKS * SIZE);
    order = order_of(KVT_ORDER_DELETE, items, 2);
    assert_true(gateway_orders_execute(scene.gateway.context, NULL, &order, &result, NULL, NULL));
    assert_int_equal(result.done, 2);
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_gateway_get(&scene.gateway, i, SIZE, NULL),
                         i < 2 ? KVT_NOTFOUND : KVT_OK);
    order = order_of(KVT_ORDER_COMPACT, NULL, 0);
    (void)snprintf(order.namespace_, sizeof(order.namespace_), "another");
    assert_true(gateway_orders_execute(scene.gateway.context, NULL, &order, &result, NULL, NULL));
    assert_int_equal(result.failed, 1);
    assert_non_null(strstr(result.text, "packed.namespaces"));
    test_scene_close(&scene);
}

/* What people are told must not wait for a bucket that is slow. */
static void
told_without_asking(void **state)
{
    struct g4_request page = {.verb = G4_LIST, .key = ""};
    struct gateway_packer_state packing;
    struct test_scene scene;
    char folder[192];

    (void)state;
    open_packed(&scene);
    put_and_pack(&scene);
    reopen_as_another(&scene, folder);
    page.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*page.listed));
    assert_non_null(page.listed);
    test_gateway_fault(&scene.gateway, G4_LIST, G4_FAULT_FAIL, KVT_IO, 1);
    gateway_packer_state(scene.gateway.context->packer, 0, &packing);
    assert_int_equal(packing.totals.blocks, 0);
    assert_int_equal(g4_store_perform(scene.gateway.bucket, &page), KVT_IO); /* the first one */
    kvt_free(page.listed);
    test_scene_close(&scene);
}

static void
known_at_the_start(void **state)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct gateway_packer_state packing;
    struct test_scene scene;
    struct kvt_error err;
    char folder[192];

    (void)state;
    open_packed(&scene);
    put_and_pack(&scene);
    reopen_as_another(&scene, folder);
    assert_int_equal(gateway_packer_start(scene.gateway.context->packer, &err), KVT_OK);
    do {
        assert_true(kvt_clock_mono_ms() < end_ms);
        kvt_clock_sleep_ms(10);
        gateway_packer_state(scene.gateway.context->packer, 0, &packing);
    } while (packing.totals.blocks != BLOCKS);
    assert_int_equal(packing.totals.live_bytes, BLOCKS * SIZE);
    assert_true(packing.totals.segments > 0);
    assert_int_equal(packing.runs, 0);
    test_scene_close(&scene);
}

/* A bucket that takes no segment while it is shut. */
struct shut {
    struct g4_store *inner;
    atomic_bool shut;
    atomic_bool met; /* a segment was brought */
};

static bool
wait_until(const atomic_bool *flag, bool value)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + PATIENCE_MS;

    while (atomic_load(flag) != value && kvt_clock_mono_ms() < end_ms)
        kvt_clock_sleep_ms(1);
    return atomic_load(flag) == value;
}

static enum kvt_err
submit_shut(void *self, struct g4_request *request)
{
    struct shut *shut = self;

    if (request->verb == G4_PUT && strstr(request->key, "/.kvt/segment/") != NULL &&
        atomic_load(&shut->shut)) {
        atomic_store(&shut->met, true);
        (void)!wait_until(&shut->shut, false);
    }
    return g4_store_submit(shut->inner, request);
}

static void
close_shut(void *self)
{
    g4_store_close(((struct shut *)self)->inner);
}

struct run {
    struct test_scene *scene;
    enum kvt_err rc;
};

static void *
pack_meanwhile(void *arg)
{
    struct run *run = arg;
    struct g4_compaction_report total;
    struct kvt_error err;

    run->rc = gateway_packer_run(run->scene->gateway.context->packer, TEST_NAMESPACE, "test", NULL,
                                 &total, &err);
    return NULL;
}

static void *
remove_meanwhile(void *arg)
{
    struct run *run = arg;
    char key[KVT_KEY_MAX];

    run->rc = gateway_remove(run->scene->gateway.context, test_gateway_key(key, 0));
    return NULL;
}

/* Who waits for a packer that hangs is told so when the gateway ends, not after his patience. */
static void
a_stop_waits_for_no_packer(void **state)
{
    static const struct g4_store_driver driver = {
        .name = "shut", .submit = submit_shut, .close = close_shut};
    struct shut shut = {.shut = false};
    struct test_scene scene;
    struct run packing = {.scene = &scene};
    struct run removal = {.scene = &scene};
    pthread_t threads[2];
    uint64_t began_ms;

    (void)state;
    open_packed(&scene);
    test_gateway_interpose(&scene.gateway, &driver, &shut, &shut.inner);
    put_and_pack(&scene);
    for (uint64_t i = BLOCKS; i < 2 * BLOCKS; i++)
        assert_int_equal(test_gateway_put(&scene.gateway, i, SIZE), KVT_OK);
    atomic_store(&shut.shut, true);
    assert_int_equal(pthread_create(&threads[0], NULL, pack_meanwhile, &packing), 0);
    assert_true(wait_until(&shut.met, true));
    assert_int_equal(pthread_create(&threads[1], NULL, remove_meanwhile, &removal), 0);
    began_ms = kvt_clock_mono_ms();
    gateway_packer_cancel(scene.gateway.context->packer);
    (void)pthread_join(threads[1], NULL); /* while the packer hangs */
    assert_true(kvt_clock_mono_ms() - began_ms < G4_PACKED_STORE_PATIENCE_MS / 2);
    assert_int_equal(removal.rc, KVT_AGAIN);
    atomic_store(&shut.shut, false);
    (void)pthread_join(threads[0], NULL);
    assert_int_equal(packing.rc, KVT_CANCELLED);
    test_scene_close(&scene);
}

/* Many deletions of one request leave the manifest together. */
static void
removed_together(void **state)
{
    struct gateway_packer_state packing;
    struct test_scene scene;
    struct g4_packed_totals totals;
    enum kvt_err statuses[BLOCKS];
    const char *keys[BLOCKS];
    char texts[BLOCKS][KVT_KEY_MAX];
    struct kvt_error err;
    uint64_t number;

    (void)state;
    open_packed(&scene);
    put_and_pack(&scene);
    for (uint64_t i = 0; i < BLOCKS; i++)
        keys[i] = test_gateway_key(texts[i], i / 2 * 2); /* each of them twice */
    gateway_packer_state(scene.gateway.context->packer, 0, &packing);
    number = packing.totals.number;
    gateway_removal_all(scene.gateway.context, keys, BLOCKS, statuses);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(statuses[i], KVT_OK);
        assert_int_equal(test_gateway_get(&scene.gateway, i, SIZE, NULL),
                         i % 2 == 0 ? KVT_NOTFOUND : KVT_OK);
    }
    assert_int_equal(
        g4_packed_store_totals(gateway_bucket_tier_store(scene.gateway.context->tiers.buckets), 0,
                               &totals, &err),
        KVT_OK);
    assert_int_equal(totals.blocks, BLOCKS / 2);
    /* What comes while a manifest is written waits for the next one. */
    assert_in_range(totals.number - number, 1, BLOCKS / 2 - 1);
    test_scene_close(&scene);
}

/* Somebody else was at it: what was asked for is not forgotten. */
static void
asked_until_it_is_done(void **state)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct gateway_packer_state packing;
    struct gateway_packer *packer;
    struct test_scene scene;
    struct kvt_error err;
    uint64_t ticket;

    (void)state;
    open_packed(&scene);
    packer = scene.gateway.context->packer;
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_gateway_put(&scene.gateway, i, SIZE), KVT_OK);
    test_gateway_fault(&scene.gateway, G4_PUT, G4_FAULT_FAIL, KVT_PRECONDITION, 1);
    assert_int_equal(gateway_packer_ask(packer, TEST_NAMESPACE, false, &ticket), KVT_OK);
    assert_int_equal(gateway_packer_start(packer, &err), KVT_OK);
    do {
        assert_true(kvt_clock_mono_ms() < end_ms);
        kvt_clock_sleep_ms(10);
        gateway_packer_state(packer, 0, &packing);
    } while (packing.totals.blocks < BLOCKS || packing.runs < 2);
    assert_int_equal(packing.runs, 2);
    assert_string_equal(packing.last_reason, "asked");
    assert_string_equal(packing.last_error, "");
    test_scene_close(&scene);
}

static void
wait_answered(struct gateway_packer *packer, uint64_t ticket, struct gateway_packer_state *packing)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + PATIENCE_MS;

    do {
        assert_true(kvt_clock_mono_ms() < end_ms);
        kvt_clock_sleep_ms(10);
        gateway_packer_state(packer, 0, packing);
    } while (packing->answered < ticket);
}

/* Who asks while nothing can be written hears of that, and is served when it can. */
static void
asked_while_nothing_is_written(void **state)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct gateway_packer_state packing;
    struct gateway_packer *packer;
    struct test_scene scene;
    struct kvt_error err;
    uint64_t ticket;

    (void)state;
    open_packed(&scene);
    packer = scene.gateway.context->packer;
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_gateway_put(&scene.gateway, i, SIZE), KVT_OK);
    (void)gateway_bucket_tier_ended(scene.gateway.context->tiers.buckets, KVT_UNAVAILABLE);
    assert_int_equal(gateway_packer_ask(packer, TEST_NAMESPACE, false, &ticket), KVT_OK);
    assert_int_equal(gateway_packer_start(packer, &err), KVT_OK);
    do {
        assert_true(kvt_clock_mono_ms() < end_ms);
        kvt_clock_sleep_ms(10);
        gateway_packer_state(packer, 0, &packing);
    } while (packing.last_error[0] == '\0');
    assert_non_null(strstr(packing.last_error, "takes nothing"));
    assert_true(packing.answered < ticket);
    gateway_bucket_tier_probe(scene.gateway.context->tiers.buckets);
    wait_answered(packer, ticket, &packing);
    assert_string_equal(packing.last_error, "");
    assert_int_equal(packing.last.packed, BLOCKS);
    test_scene_close(&scene);
}

/* What packing would do is told, and not done; then it is done, and answered. */
static void
asked_what_it_would_do(void **state)
{
    struct gateway_packer_state packing;
    struct gateway_packer *packer;
    struct test_scene scene;
    struct kvt_error err;
    uint64_t ticket;

    (void)state;
    open_packed(&scene);
    packer = scene.gateway.context->packer;
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_gateway_put(&scene.gateway, i, SIZE), KVT_OK);
    assert_int_equal(gateway_packer_start(packer, &err), KVT_OK);
    for (int turn = 0; turn < 3; turn++) {
        const uint64_t left = turn < 2 ? BLOCKS : 0;

        assert_int_equal(gateway_packer_ask(packer, TEST_NAMESPACE, turn != 1, &ticket), KVT_OK);
        assert_int_equal(ticket, turn + 1);
        wait_answered(packer, ticket, &packing);
        assert_string_equal(packing.outlook_error, "");
        assert_int_equal(packing.outlook.pack_blocks, left);
        assert_int_equal(packing.outlook.pack_bytes, left * SIZE);
        assert_int_equal(packing.outlook.plain_blocks, left);
        assert_int_equal(packing.runs, turn == 0 ? 0 : 1);
        assert_int_equal(packing.outlook.forward_segments, 0);
    }
    for (uint64_t i = 0; i < BLOCKS - 2; i++) { /* too little of the segments lives */
        char key[KVT_KEY_MAX];

        assert_int_equal(gateway_remove(scene.gateway.context, test_gateway_key(key, i)), KVT_OK);
    }
    assert_int_equal(gateway_packer_ask(packer, TEST_NAMESPACE, true, &ticket), KVT_OK);
    wait_answered(packer, ticket, &packing);
    assert_true(packing.outlook.forward_segments > 0);
    assert_int_equal(packing.outlook.forward_bytes, 2 * SIZE);
    test_scene_close(&scene);
}

static void
without_packing(void **state)
{
    struct g4_compaction_report total;
    struct test_gateway gateway;
    struct kvt_error err;
    uint64_t ticket;

    (void)state;
    test_gateway_open(&gateway, 0, 0);
    assert_null(gateway.context->packer);
    assert_int_equal(gateway_packer_count(NULL), 0);
    assert_int_equal(gateway_packer_ask(NULL, TEST_NAMESPACE, false, &ticket), KVT_NOTFOUND);
    assert_int_equal(gateway_packer_run(NULL, TEST_NAMESPACE, "test", NULL, &total, &err),
                     KVT_NOTFOUND);
    test_gateway_close(&gateway);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_the_same),
        cmocka_unit_test(promoted_from_a_segment),
        cmocka_unit_test(removed_and_put_again),
        cmocka_unit_test(met_by_a_put),
        cmocka_unit_test(other_bytes_of_what_was_just_packed),
        cmocka_unit_test(by_order),
        cmocka_unit_test(told_without_asking),
        cmocka_unit_test(known_at_the_start),
        cmocka_unit_test(a_stop_waits_for_no_packer),
        cmocka_unit_test(removed_together),
        cmocka_unit_test(asked_until_it_is_done),
        cmocka_unit_test(asked_while_nothing_is_written),
        cmocka_unit_test(asked_what_it_would_do),
        cmocka_unit_test(without_packing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
