#include "gateway/block/claim.h"

#include <string.h>

#include "gateway/tier/bucket_tier.h"

void
gateway_claim_init(struct gateway_claim *claim, const char *key,
                   const struct gateway_record *record, const struct g4_request *hot)
{
    *claim = (struct gateway_claim){.key = key,
                                    .body = hot->buffer,
                                    .size = hot->buffer_size,
                                    .crc32c = record->crc32c,
                                    .fingerprint = record->fingerprint,
                                    .writer = record->writer};
}

void
gateway_claim_meta(const struct gateway_claim *claim, struct g4_meta *meta)
{
    *meta = (struct g4_meta){.present = true,
                             .length = claim->size,
                             .crc32c = claim->crc32c,
                             .fingerprint = claim->fingerprint};
    memcpy(meta->writer, claim->writer, strnlen(claim->writer, sizeof(meta->writer) - 1));
}

void
gateway_claim_stored(struct gateway_claim *claim, const struct g4_request *answer)
{
    claim->state = GATEWAY_CLAIM_STORED;
    claim->status = KVT_OK;
    claim->tier = gateway_record_bucket(answer);
    memcpy(claim->etag, answer->etag, sizeof(claim->etag));
}

void
gateway_claim_doubt(struct gateway_claim *claim, enum kvt_err status)
{
    claim->state = GATEWAY_CLAIM_UNKNOWN;
    claim->status = status == KVT_UNAVAILABLE ? KVT_UNAVAILABLE : KVT_AGAIN;
}

void
gateway_claim_send(struct gateway_context *context, struct gateway_store_batch *flight,
                   struct gateway_claim *claim, size_t index)
{
    struct g4_request *request = gateway_store_batch_prepare(flight, index);

    request->verb = G4_PUT;
    request->key = claim->key;
    request->condition = G4_IF_ABSENT;
    request->body = claim->body;
    request->body_size = claim->size;
    gateway_claim_meta(claim, &request->meta);
    gateway_store_batch_submit(flight, gateway_bucket_tier_store(context->tiers.buckets), request);
}

void
gateway_claim_landed(struct gateway_context *context, struct gateway_claim *claim,
                     const struct g4_request *request)
{
    claim->status = request->status;
    switch (request->status) {
    case KVT_OK: gateway_claim_stored(claim, request); break;
    case KVT_EXISTS:
    case KVT_PRECONDITION: claim->state = GATEWAY_CLAIM_OCCUPIED; break;
    case KVT_FULL:
    case KVT_DENIED:
    case KVT_INVALID:
    case KVT_RANGE:
    case KVT_UNSUPPORTED: claim->state = GATEWAY_CLAIM_REFUSED; break;
    default:
        gateway_claim_doubt(claim, request->status);
        (void)gateway_bucket_tier_ended(context->tiers.buckets, request->status);
        break;
    }
}
