/* What an engine asks for, checked and answered. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/core/clock.h"
#include "kvbm/attach/attach_service_internal.h"
#include "kvbm/pool/mutable_block.h"

enum { WAIT_MAX = 600000 /* ms that a request may ask for */ };

/* A request that is served, and its answer. */
struct serving {
    const struct kvbm_attach_message *request;
    struct kvbm_attach_message *answer;
    size_t item; /* bytes of one item of the answer */
};

static size_t
item_size(uint32_t op)
{
    switch ((enum kvbm_attach_op)op) {
    case KVBM_ATTACH_REGISTER: return sizeof(struct kvbm_attach_entry);
    case KVBM_ATTACH_DROP: return sizeof(struct kvt_handle);
    case KVBM_ATTACH_MATCH: return sizeof(uint64_t);
    case KVBM_ATTACH_ONBOARD:
    case KVBM_ATTACH_PREFETCH: return sizeof(struct kvbm_attach_name);
    case KVBM_ATTACH_ALLOCATE:
    case KVBM_ATTACH_STEP:
    case KVBM_ATTACH_DRAIN:
    case KVBM_ATTACH_CLEAR:
    case KVBM_ATTACH_STATS:
    case KVBM_ATTACH_OP_END: break;
    }
    return 0;
}

static enum kvt_err
check(const struct kvbm_attach_message *request, size_t size)
{
    const struct kvbm_attach_record *head = &request->head;

    if (size < sizeof(*head) || head->op == 0 || head->op >= KVBM_ATTACH_OP_END ||
        head->status != 0 || head->zero != 0)
        return KVT_INVALID;
    if (head->count > KVBM_ATTACH_REQUEST_MAX)
        return KVT_RANGE;
    if (item_size(head->op) == 0 && head->count != 0)
        return KVT_INVALID;
    return size == sizeof(*head) + head->count * item_size(head->op) ? KVT_OK : KVT_INVALID;
}

/* A name that may enter a pool and be announced. */
static bool
read_name(struct kvbm_label *label, const struct kvbm_attach_name *name)
{
    *label = (struct kvbm_label){
        .id = {.hash = name->hash, .parent = name->parent, .position = name->position},
        .prefix_hash = name->prefix_hash,
        .tokens_hash = name->tokens_hash,
    };
    return name->hash != 0 && name->zero == 0 && name->position <= KVT_POSITION_MAX &&
           (name->position > 0 || name->parent == 0);
}

static bool
read_names(struct kvbm_label *labels, const struct kvbm_attach_message *request)
{
    for (uint32_t i = 0; i < request->head.count; i++)
        if (!read_name(&labels[i], &request->names[i]))
            return false;
    return true;
}

/* Tell the engine of held blocks; those it may not hold, and what follows them, are given back. */
static void
answer_shared(struct kvbm_attach_service *service, struct serving *serving,
              const struct kvt_handle *handles, size_t count)
{
    size_t given = 0;

    while (given < count && kvbm_attach_service_give_shared(service, handles[given])) {
        serving->answer->handles[given] = handles[given];
        given++;
    }
    kvbm_pool_drop_all(service->pool, handles + given, count - given);
    serving->answer->head.count = (uint32_t)given;
    serving->item = sizeof(struct kvt_handle);
}

static enum kvt_err
serve_allocate(struct kvbm_attach_service *service, struct serving *serving)
{
    const uint64_t count = serving->request->head.value;
    enum kvt_err rc;

    if (count == 0 || count > KVBM_ATTACH_REQUEST_MAX)
        return KVT_RANGE;
    rc = kvbm_attach_service_allocate(service, (size_t)count, serving->answer->handles);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < count; i++)
        kvbm_attach_service_give_unique(service, serving->answer->handles[i]);
    serving->answer->head.count = (uint32_t)count;
    serving->item = sizeof(struct kvt_handle);
    return KVT_OK;
}

/* A refused block stays the engine's, Reset. */
static enum kvt_err
register_one(struct kvbm_attach_service *service, const struct kvbm_attach_entry *entry,
             bool offload, struct kvt_handle *out)
{
    struct kvt_handle handle = entry->handle;
    struct kvbm_label label;
    enum kvt_err rc;

    if (!kvbm_attach_service_holds_unique(service, handle) || !read_name(&label, &entry->name))
        return KVT_INVALID;
    rc = kvbm_block_begin(service->pool, handle, NULL);
    assert(rc == KVT_OK); /* the engine's own blocks are Reset, here and between requests */
    rc = kvbm_block_complete(service->pool, handle, &label, NULL);
    if (rc == KVT_OK)
        rc = kvbm_pool_register(service->pool, &handle, NULL);
    if (rc != KVT_OK && rc != KVT_EXISTS) {
        const enum kvt_err back = kvbm_block_reset(service->pool, handle, NULL);

        assert(back == KVT_OK);
        return rc;
    }
    kvbm_attach_service_take_unique(service, entry->handle);
    if (!kvbm_attach_service_give_shared(service, handle)) {
        kvbm_pool_drop(service->pool, handle);
        return KVT_FULL;
    }
    if (offload)
        kvbm_attach_service_lower_later(service, handle);
    *out = handle;
    return rc;
}

static enum kvt_err
serve_register(struct kvbm_attach_service *service, struct serving *serving)
{
    const struct kvbm_attach_message *request = serving->request;
    const bool offload = request->head.value == 1;

    if (request->head.value > 1)
        return KVT_INVALID;
    for (uint32_t i = 0; i < request->head.count; i++) {
        struct kvbm_attach_result *result = &serving->answer->results[i];

        *result = (struct kvbm_attach_result){.zero = 0};
        result->status =
            (uint32_t)register_one(service, &request->entries[i], offload, &result->handle);
    }
    serving->answer->head.count = request->head.count;
    serving->item = sizeof(struct kvbm_attach_result);
    return KVT_OK;
}

/* The last first: of a chain, the end then goes first. */
static enum kvt_err
serve_drop(struct kvbm_attach_service *service, struct serving *serving)
{
    const struct kvbm_attach_message *request = serving->request;

    for (uint32_t i = request->head.count; i > 0; i--) {
        if (!kvbm_attach_service_drop(service, request->handles[i - 1]))
            return KVT_INVALID;
        serving->answer->head.value++;
    }
    return KVT_OK;
}

static bool
is_below(const struct kvbm_attach_service *service, uint64_t hash)
{
    return kvbm_pool_has(service->below->g2.pool, hash) ||
           (service->below->g3.pool != NULL && kvbm_pool_has(service->below->g3.pool, hash));
}

static enum kvt_err
serve_match(struct kvbm_attach_service *service, struct serving *serving)
{
    const struct kvbm_attach_message *request = serving->request;
    const uint32_t count = request->head.count;
    struct kvt_handle handles[KVBM_ATTACH_REQUEST_MAX];
    const size_t held = kvbm_pool_match(service->pool, request->numbers, count, handles);
    uint32_t known = (uint32_t)held;

    answer_shared(service, serving, handles, held);
    while (known < count && (is_below(service, request->numbers[known]) ||
                             kvbm_pool_has(service->pool, request->numbers[known])))
        known++;
    serving->answer->head.value = known;
    return KVT_OK;
}

static uint64_t
until(uint64_t wait_ms)
{
    return kvt_clock_mono_ms() + (wait_ms < WAIT_MAX ? wait_ms : WAIT_MAX);
}

static enum kvt_err
serve_onboard(struct kvbm_attach_service *service, struct serving *serving)
{
    const struct kvbm_attach_message *request = serving->request;
    struct kvt_handle handles[KVBM_ATTACH_REQUEST_MAX];
    enum kvt_err rc;
    size_t held;

    if (!read_names(service->labels, request))
        return KVT_INVALID;
    rc = kvbm_attach_service_raise(service, service->labels, request->head.count,
                                   until(request->head.value), handles, &held);
    answer_shared(service, serving, handles, held);
    return rc;
}

static enum kvt_err
serve_prefetch(struct kvbm_attach_service *service, struct serving *serving)
{
    const struct kvbm_attach_message *request = serving->request;
    struct kvbm_attach_service_wish *wish;

    if (!read_names(service->labels, request))
        return KVT_INVALID;
    if (request->head.count == 0)
        return KVT_OK;
    if (service->wishes.count == KVBM_ATTACH_SERVICE_WISHES)
        return KVT_AGAIN;
    wish = &service->wishes
                .rows[(service->wishes.head + service->wishes.count) % KVBM_ATTACH_SERVICE_WISHES];
    wish->count = request->head.count;
    wish->at = 0;
    memcpy(wish->labels, service->labels, wish->count * sizeof(*wish->labels));
    service->wishes.count++;
    return KVT_OK;
}

static enum kvt_err
serve_drain(struct kvbm_attach_service *service, struct serving *serving)
{
    const uint64_t until_ms = until(serving->request->head.value);
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && service->lower.count > 0) {
        if (kvbm_attach_service_stopped(service))
            rc = KVT_CANCELLED;
        else if (kvt_clock_mono_ms() >= until_ms)
            rc = KVT_TIMEOUT;
        else
            (void)kvbm_attach_service_lower(service);
    }
    serving->answer->head.value = service->lower.count;
    return rc;
}

static enum kvt_err
serve_stats(struct kvbm_attach_service *service, struct serving *serving)
{
    const struct kvbm_pool_stats stats = kvbm_pool_stats(service->pool);
    uint64_t *numbers = serving->answer->numbers;

    memcpy(numbers, service->counts, sizeof(service->counts));
    numbers[KVBM_ATTACH_STAT_blocks] = stats.blocks;
    numbers[KVBM_ATTACH_STAT_free] = stats.free;
    numbers[KVBM_ATTACH_STAT_active] = stats.active;
    numbers[KVBM_ATTACH_STAT_inactive] = stats.inactive;
    numbers[KVBM_ATTACH_STAT_registered] = stats.registered;
    numbers[KVBM_ATTACH_STAT_waiting] = service->lower.count;
    serving->answer->head.count = KVBM_ATTACH_STATS_COUNT;
    serving->item = sizeof(uint64_t);
    return KVT_OK;
}

static enum kvt_err
serve(struct kvbm_attach_service *service, struct serving *serving)
{
    switch ((enum kvbm_attach_op)serving->request->head.op) {
    case KVBM_ATTACH_ALLOCATE: return serve_allocate(service, serving);
    case KVBM_ATTACH_REGISTER: return serve_register(service, serving);
    case KVBM_ATTACH_DROP: return serve_drop(service, serving);
    case KVBM_ATTACH_MATCH: return serve_match(service, serving);
    case KVBM_ATTACH_ONBOARD: return serve_onboard(service, serving);
    case KVBM_ATTACH_PREFETCH: return serve_prefetch(service, serving);
    case KVBM_ATTACH_STEP:
        service->lower.due = service->lower.count;
        serving->answer->head.value = service->lower.count;
        return KVT_OK;
    case KVBM_ATTACH_DRAIN: return serve_drain(service, serving);
    case KVBM_ATTACH_CLEAR:
        serving->answer->head.value = kvbm_pool_clear(service->pool);
        return KVT_OK;
    case KVBM_ATTACH_STATS: return serve_stats(service, serving);
    case KVBM_ATTACH_OP_END: break;
    }
    return KVT_INVALID;
}

size_t
kvbm_attach_service_serve(struct kvbm_attach_service *service,
                          const struct kvbm_attach_message *request, size_t size,
                          struct kvbm_attach_message *answer)
{
    struct serving serving = {.request = request, .answer = answer};
    enum kvt_err rc = check(request, size);

    assert(size <= sizeof(*request));
    answer->head = (struct kvbm_attach_record){.count = 0};
    if (size >= sizeof(request->head)) {
        answer->head.id = request->head.id;
        answer->head.op = request->head.op;
    }
    if (rc == KVT_OK)
        rc = serve(service, &serving);
    if (rc == KVT_INVALID || rc == KVT_RANGE)
        service->counts[KVBM_ATTACH_STAT_refused]++;
    answer->head.status = (uint32_t)rc;
    return sizeof(answer->head) + answer->head.count * serving.item;
}
