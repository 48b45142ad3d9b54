#include "gateway/put.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "g4/check.h"
#include "gateway/attributes.h"
#include "gateway/fault.h"
#include "gateway/flight.h"

/* How far one item got. */
enum step {
    STEP_REFUSED,  /* status says why; nothing of it is anywhere */
    STEP_DONE,     /* was there already, by our own catalog */
    STEP_WRITE,    /* intent is durable; being written */
    STEP_OCCUPIED, /* the bucket has something under the key */
    STEP_STORED,   /* the bucket has our bytes */
    STEP_UNKNOWN,  /* the bucket did not say; the intent stays */
};

struct work {
    enum step step;
    bool rewrite; /* the row was retiring: what is in the bucket must be written anew */
    bool hot;     /* a hot copy was written */
    bool had;     /* there was a row: `before` */
    struct gateway_record before;
};

struct putting {
    struct gateway_vault *vault;
    struct gateway_put_item *items;
    struct work *work;
    struct gateway_change *changes;
    size_t count;
};

static void
meta_of(const struct gateway_vault *vault, const struct gateway_put_item *item,
        struct g4_meta *meta)
{
    *meta = (struct g4_meta){.present = true,
                             .length = item->size,
                             .crc32c = item->crc32c,
                             .fingerprint = item->fingerprint};
    memcpy(meta->writer, vault->name, sizeof(meta->writer));
}

static void
record_of(const struct gateway_vault *vault, const struct gateway_put_item *item,
          struct gateway_record *record)
{
    *record = (struct gateway_record){.state = GATEWAY_INTENT,
                                      .tiers = GATEWAY_COLD,
                                      .length = item->size,
                                      .crc32c = item->crc32c,
                                      .fingerprint = item->fingerprint,
                                      .modified_ms = kvt_clock_unix_ms()};
    memcpy(record->writer, vault->name, sizeof(record->writer));
}

static bool
same_content(const struct gateway_put_item *item, uint64_t length, uint32_t crc32c,
             uint64_t fingerprint)
{
    return length == item->size && crc32c == item->crc32c &&
           (fingerprint == item->fingerprint || item->fingerprint == 0);
}

static void
refuse(struct putting *putting, size_t index, enum kvt_err status)
{
    putting->work[index].step = STEP_REFUSED;
    putting->items[index].status = status;
}

static enum kvt_err
validate(const struct gateway_vault *vault, const struct gateway_put_item *item)
{
    if (!gateway_vault_key_ok(item->key) || !gateway_vault_is_block(item->key, NULL) ||
        item->size == 0)
        return KVT_INVALID;
    if (item->size > vault->object_max)
        return KVT_RANGE;
    return g4_check_crc32c(item->body, item->size) == item->crc32c ? KVT_OK : KVT_CORRUPT;
}

/* Was its content acknowledged to somebody?  Then no other may take its place. */
static bool
is_acknowledged(const struct gateway_record *record)
{
    return record->state == GATEWAY_STORED || (record->state == GATEWAY_INTENT && record->kept);
}

/* What the catalog knows decides most repeats without a request. */
static void
decide(struct putting *putting, size_t index)
{
    struct gateway_put_item *item = &putting->items[index];
    struct work *work = &putting->work[index];
    const struct gateway_record *known = &work->before;
    enum kvt_err rc;

    rc = gateway_catalog_get(putting->vault->catalog, item->key, &work->before);
    if (rc != KVT_OK && rc != KVT_NOTFOUND) {
        refuse(putting, index, rc);
        return;
    }
    work->step = STEP_WRITE;
    work->had = rc == KVT_OK;
    work->rewrite = work->had && known->state == GATEWAY_RETIRING;
    if (!work->had || !is_acknowledged(known))
        return;
    if (!same_content(item, known->length, known->crc32c, known->fingerprint)) {
        refuse(putting, index, KVT_PRECONDITION);
        return;
    }
    if (known->state != GATEWAY_STORED || (known->tiers & GATEWAY_COLD) == 0)
        return;
    work->step = STEP_DONE;
    item->status = KVT_OK;
    item->present = true;
    memcpy(item->etag, known->etag, sizeof(item->etag));
}

/* Make the intents durable, all in one step; what does not fit under a cap is refused here. */
static void
reserve(struct putting *putting)
{
    struct gateway_vault *vault = putting->vault;
    size_t used = 0;
    enum kvt_err rc;

    for (size_t i = 0; i < putting->count; i++) {
        struct gateway_change *change = &putting->changes[used];

        if (putting->work[i].step != STEP_WRITE)
            continue;
        if (!gateway_cold_writable(vault->cold)) {
            refuse(putting, i, KVT_UNAVAILABLE);
            continue;
        }
        *change = (struct gateway_change){.key = putting->items[i].key, .reserve = true};
        record_of(vault, &putting->items[i], &change->record);
        if (vault->hot != NULL)
            change->record.tiers |= GATEWAY_HOT;
        change->record.kept = putting->work[i].had && is_acknowledged(&putting->work[i].before);
        used++;
    }
    rc = gateway_catalog_change(vault->catalog, putting->changes, used, GATEWAY_DURABLE);
    used = 0;
    for (size_t i = 0; i < putting->count; i++) {
        const struct gateway_change *change = &putting->changes[used];

        if (putting->work[i].step != STEP_WRITE)
            continue;
        used++;
        putting->work[i].hot = (change->record.tiers & GATEWAY_HOT) != 0;
        if (rc != KVT_OK || change->status != KVT_OK)
            refuse(putting, i, rc != KVT_OK ? rc : change->status);
    }
}

static void
on_written(void *arg, struct g4_request *request, size_t index)
{
    struct putting *putting = arg;
    struct gateway_put_item *item = &putting->items[index / 2];
    struct work *work = &putting->work[index / 2];

    if (index % 2 == 0) {
        work->hot = request->status == KVT_OK; /* without one the bucket serves */
        return;
    }
    switch (request->status) {
    case KVT_OK:
        work->step = STEP_STORED;
        memcpy(item->etag, request->etag, sizeof(item->etag));
        break;
    case KVT_EXISTS:
    case KVT_PRECONDITION: work->step = STEP_OCCUPIED; break;
    case KVT_FULL:
    case KVT_DENIED:
    case KVT_INVALID:
    case KVT_RANGE:
    case KVT_UNSUPPORTED: refuse(putting, index / 2, request->status); break;
    default:
        work->step = STEP_UNKNOWN;
        item->status = request->status == KVT_UNAVAILABLE ? KVT_UNAVAILABLE : KVT_AGAIN;
        (void)gateway_cold_ended(putting->vault->cold, request->status);
        break;
    }
}

static void
write_copies(struct putting *putting, struct gateway_flight *flight)
{
    struct gateway_vault *vault = putting->vault;

    for (size_t i = 0; i < putting->count; i++) {
        const struct gateway_put_item *item = &putting->items[i];

        if (putting->work[i].step != STEP_WRITE)
            continue;
        for (unsigned tier = putting->work[i].hot ? 0 : 1; tier < GATEWAY_TIERS; tier++) {
            struct g4_request *request = gateway_flight_prepare(flight, 2 * i + tier);

            request->verb = G4_PUT;
            request->key = item->key;
            request->condition = tier == 0 ? G4_ALWAYS : G4_IF_ABSENT;
            request->body = item->body;
            request->body_size = item->size;
            meta_of(vault, item, &request->meta);
            gateway_flight_submit(flight, tier == 0 ? vault->hot : gateway_cold_store(vault->cold),
                                  request);
        }
    }
    gateway_flight_drain(flight);
}

/* Is what lies there, read whole, a sound object of somebody?  Bad ones leave their evidence.
 * `seen` takes the status and the ETag of the read. */
static bool
is_sound(struct putting *putting, size_t index, struct g4_request *seen)
{
    struct gateway_vault *vault = putting->vault;
    struct gateway_put_item *item = &putting->items[index];
    const uint64_t length = seen->status == KVT_OK ? seen->buffer_size : vault->object_max;
    struct g4_request request;
    const char *reason;
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    rc = gateway_cold_ended(vault->cold, gateway_vault_read(vault, gateway_cold_store(vault->cold),
                                                            item->key, length, &request));
    reason = rc == KVT_OK ? gateway_fault_judge_head(&request) : request.error.text;
    if (rc == KVT_OK && reason == NULL &&
        g4_check_body(&request.meta, NULL, request.buffer, request.buffer_size, &err) != KVT_OK)
        reason = err.text;
    if (rc == KVT_OK && reason != NULL && !request.meta.present &&
        request.buffer_size == item->size && memcmp(request.buffer, item->body, item->size) == 0) {
        /* Written by KVBM itself: our bytes, without our metadata.  The row knows them from now on.
         */
        putting->work[index].step = STEP_STORED;
        memcpy(item->etag, request.etag, sizeof(item->etag));
    } else if (reason != NULL && (rc == KVT_OK || rc == KVT_CORRUPT || rc == KVT_RANGE) &&
               !gateway_fault_is_tombstone(&request)) {
        gateway_fault_keep(vault, item->key, 1, request.buffer, request.buffer_size, reason);
    }
    memcpy(seen->etag, request.etag, sizeof(seen->etag));
    seen->status = rc;
    gateway_vault_release(vault, &request);
    return rc == KVT_OK && reason == NULL;
}

/* Did the read show what lies there?  One that failed half-way tells nothing about the object. */
static bool
was_judged(enum kvt_err status)
{
    return status == KVT_OK || status == KVT_CORRUPT || status == KVT_RANGE ||
           status == KVT_NOTFOUND;
}

/* Write over exactly the object that was looked at. */
static void
replace(struct putting *putting, size_t index, const char *etag)
{
    struct gateway_cold *cold = putting->vault->cold;
    struct gateway_put_item *item = &putting->items[index];
    struct g4_request request = {.verb = G4_PUT,
                                 .key = item->key,
                                 .condition = etag[0] == '\0' ? G4_IF_ABSENT : G4_IF_MATCH,
                                 .body = item->body,
                                 .body_size = item->size};

    memcpy(request.etag, etag, sizeof(request.etag));
    meta_of(putting->vault, item, &request.meta);
    if (gateway_cold_ended(cold, g4_store_perform(gateway_cold_store(cold), &request)) == KVT_OK) {
        putting->work[index].step = STEP_STORED;
        memcpy(item->etag, request.etag, sizeof(item->etag));
        gateway_stats_add(putting->vault->stats, GATEWAY_STAT_REPAIRED, 1);
        return;
    }
    putting->work[index].step = STEP_UNKNOWN; /* someone was quicker: the next try will see */
    item->status = KVT_AGAIN;
}

/* The bucket said "already there": length, crc and fingerprint decide. */
static void
settle(struct putting *putting, struct g4_request *head, size_t index)
{
    struct gateway_put_item *item = &putting->items[index];
    struct work *work = &putting->work[index];
    const enum kvt_err rc = head->status;

    (void)gateway_cold_ended(putting->vault->cold, rc);
    if (!gateway_cold_healthy(putting->vault->cold) ||
        (rc != KVT_OK && rc != KVT_CORRUPT && rc != KVT_NOTFOUND)) {
        work->step = STEP_UNKNOWN;
        item->status = KVT_AGAIN;
        return;
    }
    if (rc == KVT_NOTFOUND) {
        replace(putting, index, "");
        return;
    }
    if (rc == KVT_OK && gateway_fault_judge_head(head) == NULL &&
        same_content(item, head->meta.length, head->meta.crc32c, head->meta.fingerprint)) {
        if (work->rewrite) {
            replace(putting, index, head->etag);
            return;
        }
        work->step = STEP_STORED;
        item->present = true;
        memcpy(item->etag, head->etag, sizeof(item->etag));
        return;
    }
    if (is_sound(putting, index, head)) {
        refuse(putting, index, KVT_PRECONDITION);
        return;
    }
    if (work->step == STEP_STORED)
        return;
    if (!was_judged(head->status)) { /* it may well be somebody's acknowledged block */
        work->step = STEP_UNKNOWN;
        item->status = KVT_AGAIN;
        return;
    }
    replace(putting, index, head->etag);
}

static void
on_occupied(void *arg, struct g4_request *request, size_t index)
{
    settle(arg, request, index);
}

/* Look at everything that was there already; gateways that race meet many at once. */
static void
settle_all(struct putting *putting)
{
    struct gateway_flight *flight = NULL;

    for (size_t i = 0; i < putting->count; i++) {
        struct g4_request *request;

        if (putting->work[i].step != STEP_OCCUPIED)
            continue;
        if (flight == NULL &&
            gateway_flight_new(&flight, putting->count - i, on_occupied, putting) != KVT_OK) {
            putting->work[i].step = STEP_UNKNOWN;
            putting->items[i].status = KVT_AGAIN;
            continue;
        }
        request = gateway_flight_prepare(flight, i);
        request->verb = G4_HEAD;
        request->key = putting->items[i].key;
        gateway_flight_submit(flight, gateway_cold_store(putting->vault->cold), request);
    }
    if (flight != NULL)
        gateway_flight_drain(flight);
    gateway_flight_free(flight);
}

/* Rows of what is stored, and no rows of what is not. */
static void
publish(struct putting *putting)
{
    struct gateway_vault *vault = putting->vault;
    size_t used = 0;
    enum kvt_err rc;

    for (size_t i = 0; i < putting->count; i++) {
        struct gateway_change *change = &putting->changes[used];
        const struct gateway_put_item *item = &putting->items[i];

        if (putting->work[i].step != STEP_STORED)
            continue;
        *change = (struct gateway_change){.key = item->key};
        record_of(vault, item, &change->record);
        change->record.state = GATEWAY_STORED;
        change->record.tiers |= putting->work[i].hot ? GATEWAY_HOT : 0;
        memcpy(change->record.etag, item->etag, sizeof(item->etag));
        used++;
    }
    rc = gateway_catalog_change(vault->catalog, putting->changes, used, GATEWAY_APPLIED);
    for (size_t i = 0; i < putting->count; i++) {
        if (putting->work[i].step == STEP_STORED) {
            /* Without its row the block is not acknowledged; the intent finds it again. */
            putting->items[i].status = rc == KVT_OK ? KVT_OK : KVT_AGAIN;
            if (rc == KVT_OK)
                putting->work[i].step = STEP_DONE;
        }
    }
}

/* A refusal after the intent leaves things as they were before it: no row and no hot copy, or the
 * row that was there, with the copy it speaks of. */
static void
withdraw(struct putting *putting, const bool *intended)
{
    struct gateway_vault *vault = putting->vault;
    size_t used = 0;

    for (size_t i = 0; i < putting->count; i++) {
        struct g4_request request = {.verb = G4_DELETE, .key = putting->items[i].key};
        const struct work *work = &putting->work[i];

        if (!intended[i] || work->step != STEP_REFUSED)
            continue;
        if (work->hot && !(work->had && is_acknowledged(&work->before)))
            (void)!g4_store_perform(vault->hot, &request);
        putting->changes[used++] = (struct gateway_change){
            .key = putting->items[i].key, .erase = !work->had, .record = work->before};
    }
    (void)!gateway_catalog_change(vault->catalog, putting->changes, used, GATEWAY_APPLIED);
}

static void
count_outcomes(struct putting *putting)
{
    struct gateway_stats *stats = putting->vault->stats;

    for (size_t i = 0; i < putting->count; i++) {
        const struct gateway_put_item *item = &putting->items[i];

        switch (item->status) {
        case KVT_OK:
            gateway_stats_add(stats, item->present ? GATEWAY_STAT_PRESENT : GATEWAY_STAT_STORED, 1);
            gateway_stats_add(stats, GATEWAY_STAT_BYTES_IN, item->size);
            break;
        case KVT_PRECONDITION: gateway_stats_add(stats, GATEWAY_STAT_CONFLICT, 1); break;
        case KVT_FULL: gateway_stats_add(stats, GATEWAY_STAT_REFUSED_FULL, 1); break;
        default: gateway_stats_add(stats, GATEWAY_STAT_PUT_FAILED, 1); break;
        }
    }
}

/* With all valid keys held: everything but counting. */
static void
put_held(struct putting *putting, struct gateway_flight *flight, bool *intended)
{
    for (size_t i = 0; i < putting->count; i++)
        if (putting->work[i].step != STEP_REFUSED)
            decide(putting, i);
    reserve(putting);
    for (size_t i = 0; i < putting->count; i++)
        intended[i] = putting->work[i].step == STEP_WRITE;
    write_copies(putting, flight);
    settle_all(putting);
    publish(putting);
    withdraw(putting, intended);
}

struct mention {
    uint64_t hash;
    size_t index;
};

static int
compare_mentions(const void *left, const void *right)
{
    const struct mention *a = left;
    const struct mention *b = right;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The hold keeps other calls off a key, not this one: so a key is written once a call, and who
 * named it again is to ask again.  False: no memory. */
static bool
refuse_repeats(struct putting *putting)
{
    struct mention *mentions = kvt_calloc(putting->count, sizeof(*mentions));
    size_t used = 0;

    if (mentions == NULL)
        return false;
    for (size_t i = 0; i < putting->count; i++) {
        struct gateway_hold hold;

        if (putting->work[i].step == STEP_REFUSED)
            continue;
        gateway_hold_init(&hold, putting->items[i].key);
        mentions[used++] = (struct mention){.hash = hold.hash, .index = i};
    }
    qsort(mentions, used, sizeof(*mentions), compare_mentions);
    for (size_t i = 1; i < used; i++)
        if (mentions[i].hash == mentions[i - 1].hash)
            refuse(putting, mentions[i].index, KVT_AGAIN);
    kvt_free(mentions);
    return true;
}

/* Hold what is valid.  A hold table takes one array, so the holds of the valid items are gathered.
 */
static struct gateway_hold *
hold_valid(struct putting *putting, size_t *held)
{
    struct gateway_hold *holds = kvt_calloc(putting->count, sizeof(*holds));

    *held = 0;
    if (holds == NULL)
        return NULL;
    for (size_t i = 0; i < putting->count; i++)
        if (putting->work[i].step != STEP_REFUSED)
            gateway_hold_init(&holds[(*held)++], putting->items[i].key);
    gateway_hold_acquire(putting->vault->holds, holds, *held);
    return holds;
}

void
gateway_put_blocks(struct gateway_vault *vault, struct gateway_put_item *items, size_t count)
{
    struct putting putting = {.vault = vault, .items = items, .count = count};
    struct gateway_flight *flight = NULL;
    struct gateway_hold *holds = NULL;
    bool *intended = NULL;
    size_t held = 0;

    assert(count <= GATEWAY_BATCH_KEYS_MAX);
    if (count == 0)
        return;
    putting.work = kvt_calloc(count, sizeof(*putting.work));
    putting.changes = kvt_calloc(count, sizeof(*putting.changes));
    intended = kvt_calloc(count, sizeof(*intended));
    for (size_t i = 0; i < count; i++) {
        items[i].status = KVT_NOMEM;
        items[i].present = false;
        items[i].etag[0] = '\0';
    }
    if (putting.work == NULL || putting.changes == NULL || intended == NULL ||
        gateway_flight_new(&flight, 2 * count, on_written, &putting) != KVT_OK)
        goto done;
    for (size_t i = 0; i < count; i++) {
        const enum kvt_err rc = validate(vault, &items[i]);

        putting.work[i].step = STEP_WRITE;
        if (rc != KVT_OK)
            refuse(&putting, i, rc);
    }
    if (!refuse_repeats(&putting) || (holds = hold_valid(&putting, &held)) == NULL)
        goto done;
    put_held(&putting, flight, intended);
    gateway_hold_release(vault->holds, holds, held);

done:
    count_outcomes(&putting);
    gateway_flight_free(flight);
    kvt_free(holds);
    kvt_free(intended);
    kvt_free(putting.changes);
    kvt_free(putting.work);
}

enum { NONCE_BYTES = 16, NONCE_TEXT = 2 * NONCE_BYTES + 1 };

/* What tells this PUT from all others.  False: no room for it beside the client's attributes. */
static bool
add_nonce(char attributes[G4_ATTRIBUTES_MAX], char nonce[NONCE_TEXT])
{
    uint8_t bytes[NONCE_BYTES];

    kvt_random_system(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(nonce + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return gateway_attributes_add(attributes, GATEWAY_ATTRIBUTE_PUT, nonce);
}

/* The condition did not hold, perhaps because the PUT did what it says: an answer was lost, the
 * store was asked again and found our own object.  Equal content proves nothing, the nonce does. */
static enum kvt_err
look_whose(struct gateway_vault *vault, struct g4_request *put, const char *nonce)
{
    char attributes[G4_ATTRIBUTES_MAX];
    char found[NONCE_TEXT];
    struct g4_request head = {.verb = G4_HEAD, .key = put->key, .attributes = attributes};
    const enum kvt_err rc = g4_store_perform(gateway_cold_store(vault->cold), &head);

    if (!was_judged(rc)) /* it may be ours */
        return kvt_err_retryable(rc) ? rc : KVT_AGAIN;
    if (rc != KVT_OK ||
        !gateway_attributes_get(attributes, GATEWAY_ATTRIBUTE_PUT, found, sizeof(found)) ||
        strcmp(found, nonce) != 0)
        return put->status;
    memcpy(put->etag, head.etag, sizeof(put->etag));
    return KVT_OK;
}

static enum kvt_err
put_opaque_held(struct gateway_vault *vault, struct gateway_put_item *item,
                enum g4_condition condition)
{
    struct gateway_change change = {.key = item->key, .reserve = true};
    struct g4_request request = {.verb = G4_PUT,
                                 .key = item->key,
                                 .condition = condition,
                                 .body = item->body,
                                 .body_size = item->size};
    struct gateway_record before;
    const bool had = gateway_catalog_get(vault->catalog, item->key, &before) == KVT_OK;
    char attributes[G4_ATTRIBUTES_MAX] = "";
    char nonce[NONCE_TEXT] = "";
    enum kvt_err rc;

    if (item->attributes != NULL)
        (void)snprintf(attributes, sizeof(attributes), "%s", item->attributes);
    if (condition != G4_ALWAYS && !add_nonce(attributes, nonce))
        return KVT_INVALID;
    record_of(vault, item, &change.record);
    change.record.opaque = true;
    if (item->shown != NULL)
        (void)snprintf(change.record.shown, sizeof(change.record.shown), "%s", item->shown);
    rc = gateway_catalog_change(vault->catalog, &change, 1, GATEWAY_DURABLE);
    if (rc != KVT_OK || change.status != KVT_OK)
        return rc != KVT_OK ? rc : change.status;
    memcpy(request.etag, item->etag, sizeof(request.etag));
    request.attributes = attributes;
    meta_of(vault, item, &request.meta);
    rc = g4_store_perform(gateway_cold_store(vault->cold), &request);
    if (condition != G4_ALWAYS && (rc == KVT_EXISTS || rc == KVT_PRECONDITION))
        rc = look_whose(vault, &request, nonce);
    change.reserve = false;
    if (rc == KVT_OK) {
        change.record.state = GATEWAY_STORED;
        memcpy(change.record.etag, request.etag, sizeof(request.etag));
        memcpy(item->etag, request.etag, sizeof(item->etag));
    } else if (kvt_err_retryable(rc)) {
        return gateway_cold_ended(vault->cold, rc); /* the intent stays until somebody looks */
    } else if (had) {
        change.record = before;
    } else {
        change.erase = true;
    }
    if (gateway_catalog_change(vault->catalog, &change, 1, GATEWAY_APPLIED) != KVT_OK)
        return rc == KVT_OK ? KVT_AGAIN : rc;
    return rc;
}

enum kvt_err
gateway_put_opaque(struct gateway_vault *vault, struct gateway_put_item *item,
                   enum g4_condition condition)
{
    struct gateway_hold hold;

    item->present = false;
    item->status = KVT_INVALID;
    if (!gateway_vault_key_ok(item->key))
        return item->status;
    item->status = KVT_UNAVAILABLE;
    if (!gateway_cold_writable(vault->cold))
        return item->status;
    gateway_hold_init(&hold, item->key);
    gateway_hold_acquire(vault->holds, &hold, 1);
    item->status = put_opaque_held(vault, item, condition);
    gateway_hold_release(vault->holds, &hold, 1);
    gateway_stats_add(vault->stats,
                      item->status == KVT_OK ? GATEWAY_STAT_STORED : GATEWAY_STAT_PUT_FAILED, 1);
    if (item->status == KVT_OK)
        gateway_stats_add(vault->stats, GATEWAY_STAT_BYTES_IN, item->size);
    return item->status;
}
