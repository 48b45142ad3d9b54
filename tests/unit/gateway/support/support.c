#include "tests/unit/gateway/support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/object/check.h"
#include "gateway/block/context_open.h"
#include "gateway/move/move.h"
#include "gateway/tier/bucket_tier.h"

enum { SIZE_MAX_BYTES = 1 << 20 };

static void
open_bucket(struct test_gateway *gateway)
{
    const struct g4_directory_options cold = {.path = gateway->cold, .threads = 4};
    struct g4_store *inner;
    struct kvt_error err;

    assert_int_equal(g4_directory_open(&inner, &cold, &err), KVT_OK);
    assert_int_equal(test_faulty_store_open(&gateway->bucket, inner), KVT_OK);
    gateway->options.cold_store = gateway->bucket;
    if (gateway->far[0] == '\0')
        return;
    assert_int_equal(
        g4_directory_open(&inner,
                          &(struct g4_directory_options){.path = gateway->far, .threads = 4}, &err),
        KVT_OK);
    assert_int_equal(test_faulty_store_open(&gateway->far_bucket, inner), KVT_OK);
    gateway->options.far_store = gateway->far_bucket;
}

static void
open_context(struct test_gateway *gateway)
{
    struct kvt_error err;

    if (gateway_context_open(&gateway->context, &gateway->options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    gateway_bucket_tier_probe(gateway->context->tiers.buckets);
    assert_true(gateway_bucket_tier_writable(gateway->context->tiers.buckets));
}

void
test_gateway_open(struct test_gateway *gateway, uint64_t hot_capacity, uint64_t cold_capacity)
{
    memset(gateway, 0, sizeof(*gateway));
    (void)test_folder_make(gateway->folder, sizeof(gateway->folder));
    (void)snprintf(gateway->hot, sizeof(gateway->hot), "%s/hot", gateway->folder);
    (void)snprintf(gateway->cold, sizeof(gateway->cold), "%s/cold", gateway->folder);
    (void)snprintf(gateway->state, sizeof(gateway->state), "%s/state", gateway->folder);
    assert_int_equal(kvt_metrics_new(&gateway->metrics), KVT_OK);
    gateway_stats_init(&gateway->stats, gateway->metrics,
                       (struct gateway_stats_tiers){.warm = true, .far = true});
    gateway->options = (struct gateway_context_options){
        .name = "gw0",
        .bucket = "kvtier",
        .state_dir = gateway->state,
        .hot_dir = gateway->hot,
        .hot_capacity = hot_capacity,
        .cold_capacity = cold_capacity,
        .catalog_max = 64u << 20,
        .object_max = SIZE_MAX_BYTES,
        .quarantine_max = 100,
        .io_threads = 4,
        .revision = KVT_KEY_KVBM_B,
        .stats = &gateway->stats,
    };
    open_bucket(gateway);
    open_context(gateway);
}

void
test_gateway_extend(struct test_gateway *gateway, uint64_t warm_capacity, uint64_t far_capacity)
{
    (void)snprintf(gateway->warm, sizeof(gateway->warm), "%s/warm", gateway->folder);
    (void)snprintf(gateway->far, sizeof(gateway->far), "%s/far", gateway->folder);
    gateway->options.warm_dir = gateway->warm;
    gateway->options.warm_capacity = warm_capacity;
    gateway->options.far_bucket = "attic";
    gateway->options.far_capacity = far_capacity;
    test_gateway_reopen(gateway);
}

void
test_gateway_reopen(struct test_gateway *gateway)
{
    gateway_context_close(gateway->context);
    open_bucket(gateway);
    open_context(gateway);
}

void
test_gateway_interpose(struct test_gateway *gateway, const struct g4_store_driver *driver,
                       void *self, struct g4_store **inner)
{
    gateway_context_close(gateway->context);
    open_bucket(gateway);
    *inner = gateway->bucket;
    assert_int_equal(g4_store_new(&gateway->options.cold_store, driver, self), KVT_OK);
    open_context(gateway);
}

void
test_gateway_close(struct test_gateway *gateway)
{
    gateway_context_close(gateway->context);
    kvt_metrics_free(gateway->metrics);
    test_folder_remove(gateway->folder);
}

const char *
test_gateway_key(char out[KVT_KEY_MAX], uint64_t number)
{
    const struct kvt_block_id block = {
        .hash = 0x1000 + number, .parent = 0x2000 + number, .position = 3};

    assert_int_equal(kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, TEST_NAMESPACE, 0, &block),
                     KVT_OK);
    return out;
}

void
test_gateway_fill(uint8_t *body, size_t size, uint64_t number)
{
    uint64_t state = number + 1;

    for (size_t i = 0; i < size; i++)
        body[i] = (uint8_t)kvt_random_next(&state);
}

enum kvt_err
test_gateway_put(struct test_gateway *gateway, uint64_t number, size_t size)
{
    char key[KVT_KEY_MAX];
    uint8_t *body = kvt_calloc(1, size);
    struct gateway_put_item item = {
        .key = test_gateway_key(key, number), .body = body, .size = size, .fingerprint = 7};

    test_gateway_fill(body, size, number);
    item.crc32c = g4_check_crc32c(body, size);
    gateway_put_blocks(gateway->context, &item, 1);
    kvt_free(body);
    return item.status;
}

enum kvt_err
test_gateway_get(struct test_gateway *gateway, uint64_t number, size_t size, unsigned *tier)
{
    char key[KVT_KEY_MAX];
    uint8_t *body = kvt_calloc(1, SIZE_MAX_BYTES);
    uint8_t *expected = kvt_calloc(1, size);
    struct gateway_item item = {
        .key = test_gateway_key(key, number), .buffer = body, .capacity = SIZE_MAX_BYTES};

    gateway_get_find(gateway->context, &item, 1);
    gateway_get_bodies(gateway->context, &item, 1);
    if (item.status == KVT_OK) {
        test_gateway_fill(expected, size, number);
        assert_int_equal(item.size, size);
        assert_memory_equal(body, expected, size);
    }
    if (tier != NULL)
        *tier = item.tier;
    kvt_free(body);
    kvt_free(expected);
    return item.status;
}

enum kvt_err
test_gateway_has(struct test_gateway *gateway, uint64_t number)
{
    char key[KVT_KEY_MAX];
    struct gateway_item item = {.key = test_gateway_key(key, number)};

    gateway_get_find(gateway->context, &item, 1);
    return item.status;
}

unsigned
test_gateway_tiers(struct test_gateway *gateway, uint64_t number, enum gateway_state *state)
{
    struct gateway_record record;
    char key[KVT_KEY_MAX];

    if (gateway_catalog_get(gateway->context->catalog, test_gateway_key(key, number), &record) !=
        KVT_OK)
        return 0;
    if (state != NULL)
        *state = record.state;
    return record.tiers;
}

enum kvt_err
test_gateway_store_put(struct g4_store *store, const char *key, const void *body, size_t size,
                       const struct g4_meta *meta)
{
    struct g4_request request = {
        .verb = G4_PUT, .key = key, .body = body, .body_size = size, .meta = *meta};

    return g4_store_perform(store, &request);
}

enum kvt_err
test_gateway_store_head(struct g4_store *store, const char *key, struct g4_request *request)
{
    *request = (struct g4_request){.verb = G4_HEAD, .key = key};
    return g4_store_perform(store, request);
}

void
test_gateway_fault(struct test_gateway *gateway, enum g4_verb verb, enum g4_fault fault,
                   enum kvt_err status, uint64_t count)
{
    const struct g4_fault_rule rule = {
        .verb = verb, .fault = fault, .status = status, .count = count};

    test_faulty_store_set(gateway->bucket, &rule);
}

enum kvt_err
test_gateway_demote(struct gateway_context *context, const char *key, uint64_t *bytes)
{
    const struct gateway_move move = {.from = GATEWAY_HOT, .to = GATEWAY_BUCKETS};
    enum kvt_err rc;

    *bytes = 0;
    if (context->tiers.hot == NULL)
        return KVT_OK;
    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    rc = gateway_move(context, key, &move, bytes);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
test_gateway_promote(struct gateway_context *context, const char *key, uint64_t *bytes)
{
    const struct gateway_move move = {.from = GATEWAY_BUCKETS, .to = GATEWAY_HOT};

    *bytes = 0;
    if (context->tiers.hot == NULL)
        return KVT_FULL;
    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    return gateway_move(context, key, &move, bytes);
}
