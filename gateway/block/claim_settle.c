#include "gateway/block/claim_settle.h"

#include <string.h>

#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "gateway/block/commit_record.h"
#include "gateway/block/damage.h"
#include "gateway/block/tombstone.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"

/* What a flight's `finish` is given. */
struct settling {
    struct gateway_context *context;
    struct gateway_claim *claims;
};

/* Write over exactly the object that was looked at. */
static void
replace(struct gateway_context *context, struct gateway_claim *claim, const char *etag)
{
    struct gateway_bucket_tier *buckets = context->tiers.buckets;
    struct g4_request request = {.verb = G4_PUT,
                                 .key = claim->key,
                                 .condition = etag[0] == '\0' ? G4_IF_ABSENT : G4_IF_MATCH,
                                 .body = claim->body,
                                 .body_size = claim->size};
    enum kvt_err rc;

    memcpy(request.etag, etag, sizeof(request.etag));
    gateway_claim_meta(claim, &request.meta);
    if (etag[0] == '\0' && gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR))
        rc = gateway_tombstone_put_over(context, &request);
    else if (claim->noted && gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR))
        rc = gateway_tombstone_put_locked(context, &request);
    else
        rc = KVT_NOTFOUND;
    if (rc == KVT_NOTFOUND)
        rc = gateway_bucket_tier_ended(
            buckets, g4_store_perform(gateway_bucket_tier_store(buckets), &request));
    if (rc == KVT_OK) {
        gateway_claim_stored(claim, &request);
        gateway_stats_add(context->stats, GATEWAY_STAT_REPAIRED, 1);
        return;
    }
    gateway_claim_doubt(claim, KVT_AGAIN); /* someone was quicker: the next try will see */
}

/* This very block is there, whole. */
static void
take_present(struct gateway_context *context, struct gateway_claim *claim,
             const struct g4_request *seen)
{
    if (claim->rewrite) {
        replace(context, claim, seen->etag);
        return;
    }
    claim->present = true;
    gateway_claim_stored(claim, seen);
}

/* Written by KVBM itself: our bytes, without our metadata? */
static bool
is_same_bare(const struct gateway_claim *claim, const struct g4_request *seen)
{
    return !seen->meta.present && seen->buffer_size == claim->size &&
           memcmp(seen->buffer, claim->body, claim->size) == 0;
}

/* Did somebody put an object without our metadata there first?  Nothing proves it bad. */
static bool
is_others_bare(const struct gateway_claim *claim, const struct g4_request *head,
               const struct g4_request *seen)
{
    return !claim->acknowledged && ((seen->status == KVT_OK && gateway_damage_is_bare(seen)) ||
                                    (head->status == KVT_OK && gateway_damage_is_bare(head) &&
                                     gateway_damage_judged(seen->status)));
}

/* The first writer wins.  Its bytes are refused for when they come twice: an answer may be cut
 * short or flipped on its way. */
static void
refuse_bare(struct gateway_context *context, struct gateway_claim *claim,
            const struct g4_request *head, const struct g4_request *seen)
{
    const uint64_t length =
        head->status == KVT_OK ? head->buffer_size : context->body_limits.object_max;
    const bool whole = seen->status == KVT_RANGE ||
                       (seen->status == KVT_OK &&
                        (head->status != KVT_OK || seen->buffer_size == head->buffer_size));

    if (whole && gateway_damage_comes_again(context, claim->key, seen, seen->buffer,
                                            seen->buffer_size, length)) {
        claim->state = GATEWAY_CLAIM_REFUSED;
        claim->status = KVT_PRECONDITION;
    } else {
        gateway_claim_doubt(claim, KVT_AGAIN);
    }
}

/* A bad object leaves its evidence.  It is written over when it is bad again: an answer that was
 * cut short or flipped on its way may be of somebody's acknowledged block. */
static void
replace_bad(struct gateway_context *context, struct gateway_claim *claim,
            const struct g4_request *head, const struct g4_request *seen, const char *reason)
{
    const uint64_t length =
        head->status == KVT_OK ? head->buffer_size : context->body_limits.object_max;
    const bool cut =
        head->status == KVT_OK && seen->status == KVT_OK && seen->buffer_size != length;

    gateway_damage_keep(context, claim->key, 1, seen->buffer, seen->buffer_size, reason);
    if (!cut && gateway_damage_comes_again(context, claim->key, seen, seen->buffer,
                                           seen->buffer_size, length))
        replace(context, claim, seen->etag);
    else
        gateway_claim_doubt(claim, KVT_AGAIN);
}

/* HEAD did not show this block: what lies there is read whole. */
static void
settle_by_body(struct gateway_context *context, struct gateway_claim *claim,
               const struct g4_request *head)
{
    const uint64_t length =
        head->status == KVT_OK ? head->buffer_size : context->body_limits.object_max;
    struct g4_request seen;
    const char *reason;
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    rc = gateway_bucket_tier_ended(
        context->tiers.buckets,
        gateway_body_read(&context->body_limits, gateway_bucket_tier_store(context->tiers.buckets),
                          claim->key, length, &seen));
    reason = rc == KVT_OK ? g4_kind_judge_block(&seen) : seen.error.text;
    if (rc == KVT_OK && reason == NULL &&
        g4_check_body(&seen.meta, NULL, seen.buffer, seen.buffer_size, &err) != KVT_OK)
        reason = err.text;
    if (rc == KVT_OK && reason == NULL &&
        gateway_damage_shows(&seen, claim->size, claim->crc32c, claim->fingerprint)) {
        take_present(context, claim, &seen); /* somebody was quicker than our second look */
    } else if (rc == KVT_OK && reason == NULL) {
        claim->state = GATEWAY_CLAIM_REFUSED;
        claim->status = KVT_PRECONDITION;
    } else if (rc == KVT_OK && is_same_bare(claim, &seen)) {
        if (claim->rewrite)
            replace(context, claim, seen.etag);
        else
            gateway_claim_stored(claim, &seen); /* the row knows what it is */
    } else if (rc == KVT_NOTFOUND || (rc == KVT_OK && gateway_damage_is_tombstone(&seen))) {
        replace(context, claim, seen.etag);
    } else if (is_others_bare(claim, head, &seen)) {
        refuse_bare(context, claim, head, &seen);
    } else if (gateway_damage_judged(rc)) {
        replace_bad(context, claim, head, &seen, reason);
    } else {
        gateway_claim_doubt(claim, KVT_AGAIN); /* it may well be somebody's acknowledged block */
    }
    gateway_body_release(&context->body_limits, &seen);
}

/* The bucket said "already there": length, crc and fingerprint decide. */
static void
settle(struct gateway_context *context, struct gateway_claim *claim, const struct g4_request *head)
{
    const enum kvt_err rc = head->status;

    (void)gateway_bucket_tier_ended(context->tiers.buckets, rc);
    if (!gateway_bucket_tier_healthy(context->tiers.buckets) ||
        (rc != KVT_OK && rc != KVT_CORRUPT && rc != KVT_NOTFOUND))
        gateway_claim_doubt(claim, KVT_AGAIN);
    else if (rc == KVT_NOTFOUND)
        replace(context, claim, "");
    else if (rc == KVT_OK &&
             gateway_damage_shows(head, claim->size, claim->crc32c, claim->fingerprint))
        take_present(context, claim, head);
    else
        settle_by_body(context, claim, head);
}

static void
on_occupied(void *arg, struct g4_request *request, size_t index)
{
    struct settling *settling = arg;

    settle(settling->context, &settling->claims[index], request);
}

/* Gateways that race meet many at once. */
void
gateway_claim_settle(struct gateway_context *context, struct gateway_claim *claims, size_t count)
{
    struct settling settling = {.context = context, .claims = claims};
    struct gateway_store_batch *flight = NULL;

    for (size_t i = 0; i < count; i++) {
        if (claims[i].state != GATEWAY_CLAIM_OCCUPIED)
            continue;
        if (flight == NULL &&
            gateway_store_batch_new(&flight, count - i, on_occupied, &settling) != KVT_OK) {
            gateway_claim_doubt(&claims[i], KVT_AGAIN);
            continue;
        }
        gateway_store_batch_head(flight, gateway_bucket_tier_store(context->tiers.buckets),
                                 claims[i].key, i);
    }
    gateway_store_batch_free(flight);
    gateway_commit_record_claims(context, claims, count);
}

static void
on_performed(void *arg, struct g4_request *request, size_t index)
{
    struct settling *settling = arg;

    gateway_claim_landed(settling->context, &settling->claims[index], request);
}

enum kvt_err
gateway_claim_perform(struct gateway_context *context, struct gateway_claim *claim)
{
    struct settling settling = {.context = context, .claims = claim};
    struct gateway_store_batch *flight;

    if (gateway_store_batch_new(&flight, 1, on_performed, &settling) != KVT_OK) {
        gateway_claim_doubt(claim, KVT_AGAIN);
        return claim->status;
    }
    gateway_claim_send(context, flight, claim, 0);
    gateway_store_batch_free(flight);
    gateway_claim_settle(context, claim, 1);
    return claim->status;
}
