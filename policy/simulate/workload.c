#include "policy/simulate/workload.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvtier/ordering.h"

enum { SLOTS_FIRST = 1024 };

/* Id to number: open addressing, at most half full.  A number is stored plus one, 0 is empty. */
struct slot {
    uint64_t id;
    uint32_t number;
};

struct request {
    uint64_t time_ms;
    uint32_t tenant;
    size_t first; /* in `reads` */
};

struct policy_workload {
    struct slot *slots;
    size_t slot_count; /* a power of two */
    uint32_t block_count;
    struct policy_workload_tenant *tenants;
    size_t tenant_room;
    uint32_t tenant_count;
    struct request *requests;
    size_t request_count;
    size_t request_room;
    uint32_t *reads;
    size_t read_count;
    size_t read_room;
};

enum kvt_err
policy_workload_new(struct policy_workload **out)
{
    struct policy_workload *workload = kvt_calloc(1, sizeof(*workload));
    uint32_t nobody;

    *out = NULL;
    if (workload == NULL)
        return KVT_NOMEM;
    workload->slot_count = SLOTS_FIRST;
    workload->slots = kvt_calloc(SLOTS_FIRST, sizeof(*workload->slots));
    if (workload->slots == NULL || policy_workload_name(workload, "", &nobody) != KVT_OK) {
        policy_workload_free(workload);
        return KVT_NOMEM;
    }
    *out = workload;
    return KVT_OK;
}

void
policy_workload_free(struct policy_workload *workload)
{
    if (workload == NULL)
        return;
    kvt_free(workload->slots);
    kvt_free(workload->tenants);
    kvt_free(workload->requests);
    kvt_free(workload->reads);
    kvt_free(workload);
}

/* Ids may count up from 0 as well as be hashes, so they are mixed. */
static size_t
place_of(uint64_t id, size_t slot_count)
{
    id ^= id >> 32;
    id *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(id >> 32) & (slot_count - 1);
}

static struct slot *
find(struct slot *slots, size_t slot_count, uint64_t id)
{
    size_t place = place_of(id, slot_count);

    while (slots[place].number != 0 && slots[place].id != id)
        place = (place + 1) & (slot_count - 1);
    return &slots[place];
}

static enum kvt_err
reserve_slots(struct policy_workload *workload, size_t more)
{
    size_t slot_count = workload->slot_count;
    struct slot *slots;

    while (2 * (workload->block_count + more) > slot_count)
        slot_count *= 2;
    if (slot_count == workload->slot_count)
        return KVT_OK;
    slots = kvt_calloc(slot_count, sizeof(*slots));
    if (slots == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < workload->slot_count; i++)
        if (workload->slots[i].number != 0)
            *find(slots, slot_count, workload->slots[i].id) = workload->slots[i];
    kvt_free(workload->slots);
    workload->slots = slots;
    workload->slot_count = slot_count;
    return KVT_OK;
}

/* "acme/llama/fp16": acme, llama. */
static void
take_parts(struct policy_workload_tenant *row)
{
    const size_t first = strcspn(row->namespace_, "/");
    const char *rest = row->namespace_ + first + (row->namespace_[first] == '/');

    (void)snprintf(row->tenant, sizeof(row->tenant), "%.*s", (int)first, row->namespace_);
    (void)snprintf(row->model, sizeof(row->model), "%.*s", (int)strcspn(rest, "/"), rest);
}

enum kvt_err
policy_workload_name(struct policy_workload *workload, const char *namespace_, uint32_t *tenant)
{
    struct policy_workload_tenant *tenants;

    for (*tenant = 0; *tenant < workload->tenant_count; (*tenant)++)
        if (strcmp(workload->tenants[*tenant].namespace_, namespace_) == 0)
            return KVT_OK;
    *tenant = 0;
    if (workload->tenant_count == POLICY_WORKLOAD_TENANTS_MAX)
        return KVT_FULL;
    tenants = kvt_grow(workload->tenants, &workload->tenant_room, workload->tenant_count + 1,
                       sizeof(*tenants));
    if (tenants == NULL)
        return KVT_NOMEM;
    workload->tenants = tenants;
    *tenant = workload->tenant_count++;
    tenants[*tenant] = (struct policy_workload_tenant){.namespace_ = ""};
    (void)snprintf(tenants[*tenant].namespace_, sizeof(tenants[*tenant].namespace_), "%s",
                   namespace_);
    take_parts(&tenants[*tenant]);
    return KVT_OK;
}

uint32_t
policy_workload_tenants(const struct policy_workload *workload)
{
    return workload->tenant_count;
}

const struct policy_workload_tenant *
policy_workload_tenant(const struct policy_workload *workload, uint32_t number)
{
    assert(number < workload->tenant_count);
    return &workload->tenants[number];
}

enum kvt_err
policy_workload_add(struct policy_workload *workload, uint64_t time_ms, const uint64_t *ids,
                    uint32_t count)
{
    return policy_workload_add_of(workload, 0, time_ms, ids, count);
}

enum kvt_err
policy_workload_add_of(struct policy_workload *workload, uint32_t tenant, uint64_t time_ms,
                       const uint64_t *ids, uint32_t count)
{
    const uint64_t salt = tenant * UINT64_C(0x9e3779b97f4a7c15); /* 0 of the empty namespace */
    struct request *requests;
    uint32_t *reads;

    assert(tenant < workload->tenant_count);
    if (workload->read_count + count > POLICY_WORKLOAD_READS_MAX ||
        (uint64_t)workload->block_count + count > KVT_ORDERING_BLOCKS_MAX)
        return KVT_FULL;
    if (reserve_slots(workload, count) != KVT_OK)
        return KVT_NOMEM;
    requests = kvt_grow(workload->requests, &workload->request_room, workload->request_count + 1,
                        sizeof(*requests));
    if (requests == NULL)
        return KVT_NOMEM;
    workload->requests = requests;
    reads = kvt_grow(workload->reads, &workload->read_room, workload->read_count + count + 1,
                     sizeof(*reads));
    if (reads == NULL)
        return KVT_NOMEM;
    workload->reads = reads;
    requests[workload->request_count++] =
        (struct request){.time_ms = time_ms, .tenant = tenant, .first = workload->read_count};
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t id = ids[i] ^ salt;
        struct slot *slot = find(workload->slots, workload->slot_count, id);

        if (slot->number == 0)
            *slot = (struct slot){id, ++workload->block_count};
        reads[workload->read_count++] = slot->number - 1;
    }
    return KVT_OK;
}

size_t
policy_workload_requests(const struct policy_workload *workload)
{
    return workload->request_count;
}

struct policy_workload_request
policy_workload_request(const struct policy_workload *workload, size_t at)
{
    const struct request *request = &workload->requests[at];
    const size_t end =
        at + 1 == workload->request_count ? workload->read_count : workload->requests[at + 1].first;

    assert(at < workload->request_count);
    return (struct policy_workload_request){.blocks = workload->reads + request->first,
                                            .count = (uint32_t)(end - request->first),
                                            .tenant = (uint32_t)request->tenant,
                                            .time_ms = request->time_ms};
}

uint32_t
policy_workload_blocks(const struct policy_workload *workload)
{
    return workload->block_count;
}

uint64_t
policy_workload_reads(const struct policy_workload *workload)
{
    return workload->read_count;
}
