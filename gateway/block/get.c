#include "gateway/block/get.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "gateway/block/commit_record.h"
#include "gateway/block/damage.h"
#include "gateway/block/recheck.h"
#include "gateway/block/repair.h"
#include "gateway/tier/access_counts.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/object_key.h"
#include "gateway/tier/store_batch.h"

struct reading {
    struct gateway_context *context;
    struct gateway_item *items;
    size_t count;
};

static bool
is_bad(enum kvt_err status)
{
    return status == KVT_CORRUPT || status == KVT_RANGE;
}

/* Are blocks without our metadata served under this key?  As KVBM has no namespaces, in none. */
static bool
serves_bare(const char *key)
{
    struct kvt_key parsed;

    return gateway_object_key_is_block(key, &parsed) && parsed.namespace_[0] == '\0';
}

/* HEAD shows an object that is no block by its metadata. */
static void
take_unmarked(struct gateway_item *item, const struct g4_request *head)
{
    const bool counted = item->record.foreign &&
                         (strcmp(item->record.etag, head->etag) == 0 || item->record.overwritten);

    if (item->record.foreign && gateway_damage_is_known_bare(head, &item->record) &&
        serves_bare(item->key))
        return; /* as its row says */
    if (!gateway_damage_is_bare(head) || item->record.overwritten || !serves_bare(item->key)) {
        item->status = KVT_NOTFOUND;
        item->suspect = !counted;
        return;
    }
    gateway_record_of_head(head, false, &item->record);
    item->record.foreign = true;
    item->unsummed = true;
}

static void
on_head(void *arg, struct g4_request *request, size_t index)
{
    struct reading *reading = arg;
    struct gateway_item *item = &reading->items[index];
    const bool opaque = !gateway_object_key_is_block(item->key, NULL);

    item->status = request->status;
    item->gone = item->gone && request->status == KVT_NOTFOUND;
    if (request->status == KVT_CORRUPT) {
        item->status = KVT_NOTFOUND;
        item->suspect = !opaque;
    } else if (request->status != KVT_OK) {
        item->status = gateway_bucket_tier_ended(reading->context->tiers.buckets, request->status);
    } else if (!opaque && gateway_damage_is_tombstone(request)) {
        item->status = KVT_NOTFOUND;
    } else if (!opaque && g4_kind_judge_block(request) != NULL) {
        take_unmarked(item, request);
    } else {
        gateway_record_of_head(request, opaque, &item->record);
    }
}

/* Is the bucket asked all the same, by reading the body there? */
static bool
is_read_cold(const struct gateway_context *context, const struct gateway_item *item)
{
    return item->for_body &&
           gateway_tier_fastest(&context->tiers, item->record.tiers & GATEWAY_VOLUMES) == 0;
}

/* The row answers; what it says of the bucket, the bucket did not say. */
static void
doubt(struct gateway_context *context, const struct gateway_item *item)
{
    if (item->known && (item->record.tiers & GATEWAY_BUCKETS) != 0)
        gateway_recheck_touch(context->recheck, item->key);
}

void
gateway_get_unread(struct gateway_context *context, const struct gateway_item *item)
{
    if (is_read_cold(context, item)) /* else it has been doubted */
        doubt(context, item);
}

/* True when the catalog answers for the key. */
static bool
find_known(struct gateway_context *context, struct gateway_item *item)
{
    item->known = false;
    item->suspect = false;
    item->uncommitted = false;
    item->gone = false;
    item->unsummed = false;
    item->size = 0;
    item->tier = GATEWAY_TIER_COLD;
    if (!gateway_object_key_is_stored(item->key)) {
        item->status = KVT_INVALID;
        return true;
    }
    item->status = gateway_catalog_get(context->catalog, item->key, &item->record);
    if (item->status == KVT_NOTFOUND)
        return false;
    if (item->status != KVT_OK)
        return true;
    if (item->record.opaque || (item->record.foreign && item->record.state == GATEWAY_STORED)) {
        item->gone = true; /* unless the bucket says otherwise */
        return false;      /* others may have written it since */
    }
    if (item->record.state == GATEWAY_RETIRING && item->record.moving != 0)
        return false; /* the bucket knows it, and who put it behind its removal since */
    if (item->record.state == GATEWAY_INTENT)
        return false; /* acknowledged in a life that ended before its row was durable, or not */
    item->known = item->record.state == GATEWAY_STORED;
    if (!item->known)
        item->status = KVT_NOTFOUND; /* on its way out */
    else if (!is_read_cold(context, item))
        doubt(context, item);
    return true;
}

bool
gateway_get_known(struct gateway_context *context, struct gateway_item *item)
{
    return find_known(context, item) && item->status == KVT_OK;
}

static void
on_record(void *arg, struct g4_request *request, size_t index)
{
    struct reading *reading = arg;
    struct gateway_item *item = &reading->items[index];

    if (request->status == KVT_OK || request->status == KVT_CORRUPT)
        return;
    item->status = gateway_bucket_tier_ended(reading->context->tiers.buckets, request->status);
    item->uncommitted = item->status == KVT_NOTFOUND;
}

static bool
needs_record(const struct gateway_context *context, const struct gateway_item *item,
             char record[KVT_KEY_MAX])
{
    return item->status == KVT_OK && !item->known &&
           gateway_commit_record_needed(context, item->key, record);
}

/* A block that only the bucket knows counts as KVBM counts it: with its record.  One that another
 * gateway removes loses that first. */
static void
find_records(struct reading *reading)
{
    char(*keys)[KVT_KEY_MAX] = NULL;
    struct gateway_store_batch *flight = NULL;
    char key[KVT_KEY_MAX];
    size_t used = 0;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < reading->count; i++)
        used += needs_record(reading->context, &reading->items[i], key) ? 1 : 0;
    if (used == 0)
        return;
    keys = kvt_calloc(used, sizeof(*keys));
    rc = keys == NULL ? KVT_NOMEM : gateway_store_batch_new(&flight, used, on_record, reading);
    used = 0;
    for (size_t i = 0; i < reading->count; i++) {
        if (!needs_record(reading->context, &reading->items[i], key))
            continue;
        if (rc != KVT_OK) {
            reading->items[i].status = rc;
            continue;
        }
        memcpy(keys[used], key, sizeof(key));
        gateway_store_batch_head(flight, gateway_bucket_tier_store(reading->context->tiers.buckets),
                                 keys[used++], i);
    }
    gateway_store_batch_free(flight);
    kvt_free(keys);
}

/* Only a row of the same kind gives way: what was acknowledged here says more, and so does what is
 * on its way. */
static bool
may_note_sum(struct gateway_context *context, const char *key)
{
    struct gateway_record record;
    const enum kvt_err rc = gateway_catalog_get(context->catalog, key, &record);

    return rc == KVT_NOTFOUND ||
           (rc == KVT_OK && record.state == GATEWAY_STORED && record.foreign &&
            !record.overwritten && (record.tiers & GATEWAY_VOLUMES) == 0 && record.moving == 0);
}

/* Without the key the row is left for the next read, which only costs. */
static void
note_sum(struct gateway_context *context, const struct gateway_item *item)
{
    struct gateway_change change = {.key = item->key, .record = item->record};
    struct gateway_key_lock hold;

    if (!gateway_key_lock_try_one(context->key_locks, &hold, item->key))
        return;
    if (may_note_sum(context, item->key))
        (void)!gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED);
    gateway_key_lock_release(context->key_locks, &hold, 1);
}

/* Read an object without our metadata whole.  The store's own word of its length must fit what
 * came; who reads it next compares with this sum. */
static void
sum_bare(struct gateway_context *context, struct gateway_item *item)
{
    struct g4_request seen;
    enum kvt_err rc = gateway_bucket_tier_ended(
        context->tiers.buckets,
        gateway_body_read(&context->body_limits, gateway_bucket_tier_store(context->tiers.buckets),
                          item->key, item->record.length, &seen));

    if (rc == KVT_OK && (seen.meta.present || seen.buffer_size != item->record.length ||
                         strcmp(seen.etag, item->record.etag) != 0))
        rc = KVT_AGAIN; /* it was written again, or cut short on its way */
    if (rc == KVT_OK) {
        item->record.crc32c = g4_check_crc32c(seen.buffer, seen.buffer_size);
        item->record.tiers = gateway_record_bucket(&seen);
        item->record.summed = true;
        note_sum(context, item);
    }
    gateway_body_release(&context->body_limits, &seen);
    item->status = is_bad(rc) ? KVT_NOTFOUND : rc;
}

static void
sum_all(struct reading *reading)
{
    size_t left = GATEWAY_GET_SUMS_MAX;

    for (size_t i = 0; i < reading->count; i++) {
        struct gateway_item *item = &reading->items[i];

        if (!item->unsummed || item->status != KVT_OK)
            continue;
        if (item->for_body || left > 0)
            sum_bare(reading->context, item);
        else
            item->status = KVT_NOTFOUND;
        left -= left > 0 ? 1 : 0;
    }
}

void
gateway_get_find(struct gateway_context *context, struct gateway_item *items, size_t count)
{
    struct reading reading = {.context = context, .items = items, .count = count};
    struct gateway_store_batch *flight = NULL;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < count; i++) {
        if (find_known(context, &items[i]))
            continue;
        if (flight == NULL && rc == KVT_OK)
            rc = gateway_store_batch_new(&flight, count - i, on_head, &reading);
        if (rc != KVT_OK || !gateway_bucket_tier_healthy(context->tiers.buckets)) {
            items[i].gone = false;
            items[i].status = rc != KVT_OK ? rc : KVT_UNAVAILABLE;
            continue;
        }
        gateway_store_batch_head(flight, gateway_bucket_tier_store(context->tiers.buckets),
                                 items[i].key, i);
    }
    gateway_store_batch_free(flight);
    for (size_t i = 0; i < count; i++)
        if (items[i].gone)
            gateway_repair_gone(context, items[i].key);
    find_records(&reading);
    sum_all(&reading);
}

void
gateway_get_count(struct gateway_context *context, const struct gateway_item *item)
{
    static const enum gateway_stat hits[GATEWAY_TIERS] = {
        GATEWAY_STAT_HITS_HOT, GATEWAY_STAT_HITS_COLD, GATEWAY_STAT_HITS_WARM,
        GATEWAY_STAT_HITS_FAR};
    struct kvt_key key;

    gateway_stats_add(context->stats, hits[item->tier], 1);
    gateway_stats_add(context->stats, GATEWAY_STAT_BYTES_OUT, item->size);
    if (gateway_object_key_is_block(item->key, &key) &&
        !gateway_access_counts_add(context->access_counts, key.namespace_, key.hash, item->tier,
                                   item->size))
        gateway_stats_add(context->stats, GATEWAY_STAT_ACCESS_LOST, 1);
}

/* What the body must be: the row's word for a block; an opaque object answers for itself. */
static enum kvt_err
check(const struct gateway_item *item, const struct g4_request *request, struct kvt_error *err)
{
    struct g4_meta expected;

    gateway_record_meta(&item->record, &expected);
    return g4_check_answer(request, item->record.opaque ? NULL : &expected, err);
}

/* As check().  A volume compares each body with its file's header: where that says what the
 * row says, the bytes need no second look. */
static enum kvt_err
check_file(const struct gateway_item *item, const struct g4_request *request, struct kvt_error *err)
{
    const struct gateway_record *record = &item->record;
    const struct g4_meta *meta = &request->meta;

    if (meta->present && meta->length == record->length && request->buffer_size == meta->length &&
        meta->crc32c == record->crc32c && meta->fingerprint == record->fingerprint)
        return KVT_OK;
    return check(item, request, err);
}

static void
on_file(struct gateway_context *context, struct gateway_item *item,
        const struct g4_request *request, enum gateway_tier tier)
{
    struct kvt_error err = request->error;
    enum kvt_err rc = request->status;

    if (rc == KVT_OK)
        rc = check_file(item, request, &err);
    if (rc == KVT_OK) {
        item->status = KVT_OK;
        item->left = 0;
        item->tier = tier;
        item->size = request->buffer_size;
        return;
    }
    item->left &= ~(1u << tier);
    item->status = KVT_NOTFOUND;
    if (is_bad(rc))
        gateway_repair_file(context, item->key, tier, request->buffer, request->buffer_size,
                            err.text);
    else if (rc == KVT_NOTFOUND)
        gateway_repair_file(context, item->key, tier, NULL, 0, NULL);
    else
        item->volume = rc; /* it may well be there: the disk did not say */
}

static void
on_cold(struct gateway_context *context, struct gateway_item *item,
        const struct g4_request *request)
{
    struct kvt_error err = request->error;
    enum kvt_err rc = request->status;

    if (rc == KVT_OK)
        rc = check(item, request, &err);
    item->left = 0;
    item->tier = request->place == 0 ? GATEWAY_TIER_COLD : GATEWAY_TIER_FAR;
    if (rc == KVT_OK) {
        item->status = KVT_OK;
        item->size = request->buffer_size;
        gateway_recheck_seen(context->recheck, item->key);
        if (item->known && gateway_record_elsewhere(&item->record, request))
            (void)gateway_repair_elsewhere(context, item->key);
        return;
    }
    item->status = KVT_NOTFOUND;
    if (item->record.opaque)
        item->status = gateway_bucket_tier_ended(context->tiers.buckets, rc);
    else if (is_bad(rc) && !item->known)
        item->suspect = !item->record.foreign; /* its key may be held by us: looked at afterwards */
    else if (is_bad(rc))
        gateway_repair_cold(context, item->key, request, request->buffer, request->buffer_size,
                            err.text);
    else if (rc == KVT_NOTFOUND)
        gateway_repair_gone(context, item->key);
    else
        item->status = gateway_bucket_tier_ended(context->tiers.buckets, rc);
}

static void
on_body(void *arg, struct g4_request *request, size_t index)
{
    struct reading *reading = arg;
    struct gateway_item *item = &reading->items[index / GATEWAY_TIERS];
    const enum gateway_tier tier = (enum gateway_tier)(index % GATEWAY_TIERS);

    if (tier == GATEWAY_TIER_COLD)
        on_cold(reading->context, item, request);
    else
        on_file(reading->context, item, request, tier);
}

/* Ask the fastest of those that are left. */
static void
start_read(struct reading *reading, struct gateway_store_batch *flight, size_t index)
{
    static const enum gateway_tier order[] = {GATEWAY_TIER_HOT, GATEWAY_TIER_WARM};
    struct gateway_item *item = &reading->items[index];
    enum gateway_tier tier = GATEWAY_TIER_COLD;
    struct g4_request *request;

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && tier == GATEWAY_TIER_COLD; i++)
        if ((item->left & (1u << order[i])) != 0)
            tier = order[i];
    request = gateway_store_batch_prepare(flight, GATEWAY_TIERS * index + tier);
    request->verb = G4_GET;
    request->key = item->key;
    request->buffer = item->buffer;
    request->buffer_capacity = item->capacity;
    request->sum = true;
    gateway_store_batch_submit(flight,
                               tier == GATEWAY_TIER_COLD
                                   ? gateway_bucket_tier_store(reading->context->tiers.buckets)
                                   : gateway_tier_volume(&reading->context->tiers, 1u << tier),
                               request);
}

/* Which are to be asked, until one has it.  What was owed to the bucket may be there by now, and
 * gone from here. */
static unsigned
where(const struct gateway_context *context, const struct gateway_item *item)
{
    const struct gateway_record *record = &item->record;
    unsigned volumes = record->tiers & (context->tiers.hot != NULL ? GATEWAY_HOT : 0u);

    volumes |= record->tiers & (context->tiers.warm != NULL ? GATEWAY_WARM : 0u);
    if (volumes == 0 || (record->tiers & GATEWAY_BUCKETS) != 0 || record->owed)
        return volumes | GATEWAY_COLD;
    return volumes;
}

/* A block that is on volumes alone may have moved to the other one since its row was read. */
static bool
has_moved(const struct gateway_context *context, struct gateway_item *item)
{
    struct gateway_record now;
    unsigned other;

    if (!item->asked || item->status == KVT_OK || !item->known || item->record.opaque ||
        context->tiers.warm == NULL ||
        gateway_catalog_get(context->catalog, item->key, &now) != KVT_OK ||
        now.state != GATEWAY_STORED || now.length != item->record.length ||
        now.crc32c != item->record.crc32c)
        return false;
    other = now.tiers & GATEWAY_VOLUMES & ~item->record.tiers;
    item->record.tiers |= other; /* once */
    item->left = other;
    return other != 0;
}

static void
read_all(struct reading *reading, struct gateway_store_batch *flight)
{
    bool more = true;

    for (size_t i = 0; i < reading->count; i++) {
        struct gateway_item *item = &reading->items[i];

        item->volume = KVT_OK;
        assert(item->status != KVT_OK || item->capacity >= item->record.length);
        item->asked = item->status == KVT_OK;
        item->left = item->asked ? where(reading->context, item) : 0;
    }
    while (more) {
        more = false;
        for (size_t i = 0; i < reading->count; i++) {
            struct gateway_item *item = &reading->items[i];

            if (item->left != 0 || has_moved(reading->context, item)) {
                start_read(reading, flight, i);
                more = true;
            }
        }
        gateway_store_batch_drain(flight);
    }
    for (size_t i = 0; i < reading->count; i++)
        if (reading->items[i].status == KVT_NOTFOUND && reading->items[i].volume != KVT_OK)
            reading->items[i].status = reading->items[i].volume;
}

/* Objects other gateways wrote, read and checked: rows of ours from now on.  The keys are held, so
 * a removal cannot have happened between the read and the row. */
static void
remember(struct gateway_context *context, struct gateway_item *items, const size_t *unknown,
         size_t count)
{
    struct gateway_change *changes = kvt_calloc(count, sizeof(*changes));
    size_t used = 0;

    if (changes == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct gateway_item *item = &items[unknown[i]];

        if (item->status == KVT_OK && ((1u << item->tier) & GATEWAY_BUCKETS) != 0)
            changes[used++] = (struct gateway_change){
                .key = item->key, .only_if_absent = true, .record = item->record};
    }
    (void)!gateway_catalog_change(context->catalog, changes, used, GATEWAY_APPLIED);
    kvt_free(changes);
}

struct strangers {
    size_t *index;
    struct gateway_key_lock *holds;
    size_t count;
    bool held;
};

/* Hold the keys the catalog does not know; without them nothing is remembered, which only costs. */
static void
hold_strangers(struct reading *reading, struct strangers *strangers)
{
    *strangers = (struct strangers){0};
    for (size_t i = 0; i < reading->count; i++)
        if (reading->items[i].status == KVT_OK && !reading->items[i].known &&
            !reading->items[i].record.opaque)
            strangers->count++;
    if (strangers->count == 0)
        return;
    strangers->index = kvt_calloc(strangers->count, sizeof(*strangers->index));
    strangers->holds = kvt_calloc(strangers->count, sizeof(*strangers->holds));
    if (strangers->index == NULL || strangers->holds == NULL)
        return;
    for (size_t i = 0, used = 0; i < reading->count; i++) {
        const struct gateway_item *item = &reading->items[i];

        if (item->status != KVT_OK || item->known || item->record.opaque)
            continue;
        strangers->index[used] = i;
        gateway_key_lock_init(&strangers->holds[used++], item->key);
    }
    strangers->held =
        gateway_key_lock_try(reading->context->key_locks, strangers->holds, strangers->count);
}

void
gateway_get_bodies(struct gateway_context *context, struct gateway_item *items, size_t count)
{
    struct reading reading = {.context = context, .items = items, .count = count};
    struct gateway_store_batch *flight;
    struct strangers strangers;

    if (gateway_store_batch_new(&flight, 2 * count, on_body, &reading) != KVT_OK) {
        for (size_t i = 0; i < count; i++)
            items[i].status = items[i].status == KVT_OK ? KVT_NOMEM : items[i].status;
        return;
    }
    hold_strangers(&reading, &strangers);
    read_all(&reading, flight);
    gateway_store_batch_free(flight);
    if (strangers.held) {
        remember(context, items, strangers.index, strangers.count);
        gateway_key_lock_release(context->key_locks, strangers.holds, strangers.count);
    }
    kvt_free(strangers.index);
    kvt_free(strangers.holds);
    for (size_t i = 0; i < count; i++) {
        if (items[i].status == KVT_OK)
            gateway_get_count(context, &items[i]);
        else if (items[i].status == KVT_NOTFOUND)
            gateway_stats_add(context->stats, GATEWAY_STAT_MISSES, 1);
        if (items[i].suspect)
            gateway_repair_inspect(context, items[i].key);
    }
}
