#include "gateway/tier/access_counts.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

enum { SLOTS = 2 * GATEWAY_ACCESS_COUNTS_ROWS };

struct row {
    struct kvt_report_access access; /* count 0: a free slot */
    uint32_t namespace_;             /* row of `namespaces` */
};

struct gateway_access_counts {
    struct {
        pthread_mutex_t lock; /* guards this struct */
        char namespaces[GATEWAY_ACCESS_COUNTS_NAMESPACES][KVT_NAMESPACE_MAX];
        uint32_t namespace_count;
        size_t row_count;
        struct row rows[SLOTS]; /* open addressing; only ever emptied as a whole */
    } shared;
};

enum kvt_err
gateway_access_counts_new(struct gateway_access_counts **out)
{
    struct gateway_access_counts *access = kvt_calloc(1, sizeof(*access));

    *out = NULL;
    if (access == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&access->shared.lock, NULL) != 0) {
        kvt_free(access);
        return KVT_NOMEM;
    }
    *out = access;
    return KVT_OK;
}

void
gateway_access_counts_free(struct gateway_access_counts *access)
{
    if (access == NULL)
        return;
    (void)pthread_mutex_destroy(&access->shared.lock);
    kvt_free(access);
}

static bool
find_namespace_locked(struct gateway_access_counts *access, const char *namespace_, uint32_t *out)
{
    for (uint32_t i = 0; i < access->shared.namespace_count; i++) {
        if (strcmp(access->shared.namespaces[i], namespace_) == 0) {
            *out = i;
            return true;
        }
    }
    if (access->shared.namespace_count == GATEWAY_ACCESS_COUNTS_NAMESPACES)
        return false;
    *out = access->shared.namespace_count++;
    (void)snprintf(access->shared.namespaces[*out], KVT_NAMESPACE_MAX, "%s", namespace_);
    return true;
}

static bool
add_locked(struct gateway_access_counts *access, uint32_t namespace_, uint64_t hash, unsigned tier,
           uint64_t bytes)
{
    /* Sequence hashes are uniform already; the multiplier only parts tiers and namespaces. */
    size_t at = (size_t)((hash ^ (namespace_ * 4u + tier) * UINT64_C(0x9e3779b97f4a7c15)) % SLOTS);

    for (;; at = (at + 1) % SLOTS) {
        struct row *row = &access->shared.rows[at];

        if (row->access.count == 0) {
            if (access->shared.row_count == GATEWAY_ACCESS_COUNTS_ROWS)
                return false;
            access->shared.row_count++;
            *row = (struct row){.access = {.hash = hash, .tier_index = (uint8_t)tier},
                                .namespace_ = namespace_};
        } else if (row->access.hash != hash || row->access.tier_index != tier ||
                   row->namespace_ != namespace_) {
            continue;
        }
        row->access.count++;
        row->access.bytes += bytes;
        return true;
    }
}

bool
gateway_access_counts_add(struct gateway_access_counts *access, const char *namespace_,
                          uint64_t hash, unsigned tier, uint64_t bytes)
{
    uint32_t index;
    bool added;

    (void)pthread_mutex_lock(&access->shared.lock);
    added = find_namespace_locked(access, namespace_, &index) &&
            add_locked(access, index, hash, tier, bytes);
    (void)pthread_mutex_unlock(&access->shared.lock);
    return added;
}

size_t
gateway_access_counts_take(struct gateway_access_counts *access, char namespace_[KVT_NAMESPACE_MAX],
                           struct kvt_report_access *rows, size_t capacity)
{
    size_t count = 0;
    uint32_t wanted;

    assert(capacity >= GATEWAY_ACCESS_COUNTS_ROWS); /* a namespace is always taken whole */
    namespace_[0] = '\0';
    (void)pthread_mutex_lock(&access->shared.lock);
    if (access->shared.namespace_count == 0) {
        (void)pthread_mutex_unlock(&access->shared.lock);
        return 0;
    }
    wanted = --access->shared.namespace_count;
    memcpy(namespace_, access->shared.namespaces[wanted], KVT_NAMESPACE_MAX);
    /* The last namespace goes first, so the others keep their numbers; probing chains may be cut
     * here, which at worst gives one block two rows in the next report. */
    for (size_t i = 0; i < SLOTS; i++) {
        struct row *row = &access->shared.rows[i];

        if (row->access.count == 0 || row->namespace_ != wanted)
            continue;
        rows[count++] = row->access;
        row->access.count = 0;
        access->shared.row_count--;
    }
    (void)pthread_mutex_unlock(&access->shared.lock);
    return count;
}
