#include "gateway/block/commit_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "g4/object/commit.h"
#include "g4/object/kind.h"
#include "gateway/block/damage.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/store_batch.h"

/* A block of which some claims are ranks. */
struct unit {
    char key[KVT_KEY_MAX]; /* of its record */
    struct g4_commit record;
    struct kvt_buffer body; /* of the record */
    uint32_t own;           /* bit r: rank r is of these claims */
    uint32_t known;         /* bit r: rank r is in the bucket, and in `record` */
    uint32_t asked;         /* the rank that was asked for last, and its key */
    char asked_key[KVT_KEY_MAX];
    bool complete; /* as far as is known; false: no record */
    bool present;  /* there is a record, which may be another */
    enum kvt_err status;
};

struct member {
    const char *name; /* the key behind its rank: equal for the ranks of a block */
    struct gateway_claim *claim;
    size_t unit;
};

struct committing {
    struct gateway_context *context;
    struct member *members; /* sorted by name */
    size_t member_count;
    struct unit *units;
    struct gateway_key_lock *holds;
    size_t count; /* of units and holds */
    bool proving; /* the records are written: now only the bucket's word counts */
};

bool
gateway_commit_record_needed(const struct gateway_context *context, const char *key,
                             char record[KVT_KEY_MAX])
{
    record[0] = '\0';
    return context->commit_ranks > 0 && g4_commit_key(key, record);
}

/* ---- which ranks there are ---- */

static void
add_rank(struct unit *unit, uint32_t rank, uint64_t length, uint32_t crc32c, uint64_t fingerprint)
{
    unit->record.rank[rank] = (struct g4_commit_rank){length, crc32c, fingerprint};
    unit->known |= UINT32_C(1) << rank;
}

/* Does this gateway know that the bucket has the rank?  What is under way is for the bucket to say.
 */
static bool
add_known(struct gateway_context *context, struct unit *unit, uint32_t rank, const char *key)
{
    struct gateway_record record;

    if (gateway_catalog_get(context->catalog, key, &record) != KVT_OK)
        return false;
    if (record.state == GATEWAY_RETIRING && record.moving == 0)
        unit->complete = false; /* one that was noted the bucket knows, and may have got again */
    if (record.state != GATEWAY_STORED || record.owed || record.foreign ||
        (record.tiers & GATEWAY_BUCKETS) == 0)
        return false;
    add_rank(unit, rank, record.length, record.crc32c, record.fingerprint);
    return true;
}

static void
on_head(struct committing *work, const struct g4_request *request, struct unit *unit)
{
    const struct g4_meta *meta = &request->meta;

    if (!gateway_damage_judged(request->status)) {
        unit->status = gateway_bucket_tier_ended(work->context->tiers.buckets, request->status);
        unit->complete = false;
    } else if (request->status != KVT_OK || g4_kind_judge_block(request) != NULL) {
        unit->complete = false;
    } else {
        add_rank(unit, unit->asked, meta->length, meta->crc32c, meta->fingerprint);
    }
}

static void
on_written(struct committing *work, const struct g4_request *request, struct unit *unit)
{
    unit->present = request->status == KVT_EXISTS || request->status == KVT_PRECONDITION;
    if (!unit->present)
        unit->status = gateway_bucket_tier_ended(work->context->tiers.buckets, request->status);
}

static void
on_removed(struct committing *work, const struct g4_request *request, struct unit *unit)
{
    if (request->status != KVT_OK && request->status != KVT_NOTFOUND)
        unit->status = gateway_bucket_tier_ended(work->context->tiers.buckets, request->status);
}

static void
on_landed(void *arg, struct g4_request *request, size_t index)
{
    struct committing *work = arg;

    if (request->verb == G4_HEAD)
        on_head(work, request, &work->units[index]);
    else if (request->verb == G4_PUT)
        on_written(work, request, &work->units[index]);
    else
        on_removed(work, request, &work->units[index]);
}

/* Ask for the next rank that is not known; those behind a known one first, for ranks mostly come in
 * their order.  False: none is left, or one is missing. */
static bool
ask_next(struct committing *work, struct gateway_store_batch *flight, size_t index)
{
    struct unit *unit = &work->units[index];
    const uint32_t ranks = work->context->commit_ranks;
    const uint32_t first = unit->asked;

    for (uint32_t i = 1; i <= ranks && unit->complete; i++) {
        unit->asked = (first + i) % ranks;
        g4_commit_rank_key(unit->key, unit->asked, unit->asked_key);
        if ((unit->known >> unit->asked & 1) != 0 ||
            (!work->proving && add_known(work->context, unit, unit->asked, unit->asked_key)) ||
            !unit->complete)
            continue;
        gateway_store_batch_head(flight, gateway_bucket_tier_store(work->context->tiers.buckets),
                                 unit->asked_key, index);
        return true;
    }
    return false;
}

/* One rank of each block at a time: most are incomplete at the first look. */
static void
gather(struct committing *work, struct gateway_store_batch *flight)
{
    bool any = true;

    while (any) {
        any = false;
        for (size_t i = 0; i < work->count; i++)
            any = ask_next(work, flight, i) || any;
        gateway_store_batch_drain(flight);
    }
}

/* ---- their records ---- */

static void
write_records(struct committing *work, struct gateway_store_batch *flight)
{
    struct g4_store *store = gateway_bucket_tier_store(work->context->tiers.buckets);

    for (size_t i = 0; i < work->count; i++) {
        struct unit *unit = &work->units[i];
        struct g4_request *request;

        if (!unit->complete)
            continue;
        unit->record.ranks = work->context->commit_ranks;
        g4_commit_format(&unit->record, &unit->body);
        if (!kvt_buffer_ok(&unit->body)) {
            unit->status = KVT_NOMEM;
            continue;
        }
        request = gateway_store_batch_prepare(flight, i);
        g4_commit_request(&unit->record, unit->key, &unit->body, request);
        gateway_store_batch_submit(flight, store, request);
    }
    gateway_store_batch_drain(flight);
    for (size_t i = 0; i < work->count; i++)
        if (work->units[i].present)
            work->units[i].status = gateway_bucket_tier_ended(
                work->context->tiers.buckets,
                g4_commit_settle(store, work->units[i].key, &work->units[i].record, NULL));
}

/* Another gateway may have removed a rank meanwhile: it removes the record before and after that,
 * so either it met this one, or the rank is seen to be gone here. */
static void
prove_records(struct committing *work, struct gateway_store_batch *flight)
{
    for (size_t i = 0; i < work->count; i++) {
        struct unit *unit = &work->units[i];

        unit->complete = unit->complete && unit->status == KVT_OK;
        unit->present = unit->complete; /* from here on: it was written */
        unit->known = unit->own;
    }
    work->proving = true;
    gather(work, flight);
    for (size_t i = 0; i < work->count; i++) {
        const struct unit *unit = &work->units[i];
        struct g4_request *request;

        if (!unit->present || unit->complete || unit->status != KVT_OK)
            continue;
        request = gateway_store_batch_prepare(flight, i);
        request->verb = G4_DELETE;
        request->key = unit->key;
        gateway_store_batch_submit(flight, gateway_bucket_tier_store(work->context->tiers.buckets),
                                   request);
    }
    gateway_store_batch_drain(flight);
}

static int
compare_members(const void *left, const void *right)
{
    return strcmp(((const struct member *)left)->name, ((const struct member *)right)->name);
}

/* The claims that are in the bucket, sorted so that the ranks of a block stand together. */
static void
sort_members(struct committing *work, struct gateway_claim *claims, size_t count)
{
    char ignored[KVT_KEY_MAX];

    for (size_t i = 0; i < count; i++)
        if (claims[i].state == GATEWAY_CLAIM_STORED &&
            gateway_commit_record_needed(work->context, claims[i].key, ignored))
            work->members[work->member_count++] =
                (struct member){.name = strchr(claims[i].key, '/') + 1, .claim = &claims[i]};
    qsort(work->members, work->member_count, sizeof(*work->members), compare_members);
}

/* The block of a member, begun with its first one. */
static void
enter_member(struct committing *work, size_t index)
{
    struct member *member = &work->members[index];
    const struct gateway_claim *claim = member->claim;
    const bool same = index > 0 && strcmp(member->name, work->members[index - 1].name) == 0;
    struct unit *unit = &work->units[same ? work->count - 1 : work->count];
    struct kvt_key parsed;

    if (!same) {
        *unit = (struct unit){.complete = true};
        (void)g4_commit_key(claim->key, unit->key);
        memcpy(unit->record.writer, work->context->identity.name, sizeof(unit->record.writer));
        kvt_buffer_init(&unit->body, G4_COMMIT_BODY_MAX);
        gateway_key_lock_init(&work->holds[work->count++], unit->key);
    }
    member->unit = work->count - 1;
    if (kvt_key_parse(claim->key, &parsed) != KVT_OK ||
        parsed.rank >= work->context->commit_ranks) {
        unit->complete = false; /* of a model with more ranks: nobody here knows how many */
        return;
    }
    unit->asked = parsed.rank;
    unit->own |= UINT32_C(1) << parsed.rank;
    add_rank(unit, parsed.rank, claim->size, claim->crc32c, claim->fingerprint);
}

static enum kvt_err
commit_members(struct committing *work)
{
    struct gateway_store_batch *flight;
    enum kvt_err rc;

    rc = gateway_store_batch_new(&flight, work->member_count, on_landed, work);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < work->member_count; i++)
        enter_member(work, i);
    gateway_key_lock_acquire(work->context->key_locks, work->holds, work->count);
    gather(work, flight);
    write_records(work, flight);
    prove_records(work, flight);
    gateway_key_lock_release(work->context->key_locks, work->holds, work->count);
    gateway_store_batch_free(flight);
    for (size_t i = 0; i < work->member_count; i++) {
        const enum kvt_err status = work->units[work->members[i].unit].status;

        if (status != KVT_OK)
            gateway_claim_doubt(work->members[i].claim, status);
    }
    for (size_t i = 0; i < work->count; i++) {
        const struct unit *unit = &work->units[i];

        if (unit->status != KVT_OK)
            kvt_log_warn("gateway.commit", "record_missing", "%s: %s; its PUT is not acknowledged",
                         unit->key, kvt_err_text(unit->status));
        kvt_buffer_release(&work->units[i].body);
    }
    return KVT_OK;
}

void
gateway_commit_record_claims(struct gateway_context *context, struct gateway_claim *claims,
                             size_t count)
{
    struct committing work = {.context = context};
    enum kvt_err rc = KVT_NOMEM;

    if (context->commit_ranks == 0 || count == 0)
        return;
    work.members = kvt_calloc(count, sizeof(*work.members));
    if (work.members != NULL) {
        sort_members(&work, claims, count);
        if (work.member_count == 0) {
            kvt_free(work.members);
            return;
        }
        work.units = kvt_calloc(work.member_count, sizeof(*work.units));
        work.holds = kvt_calloc(work.member_count, sizeof(*work.holds));
    }
    if (work.units != NULL && work.holds != NULL)
        rc = commit_members(&work);
    for (size_t i = 0; i < count && rc != KVT_OK; i++)
        if (claims[i].state == GATEWAY_CLAIM_STORED)
            gateway_claim_doubt(&claims[i], rc);
    kvt_free(work.holds);
    kvt_free(work.units);
    kvt_free(work.members);
}

enum kvt_err
gateway_commit_record_found(struct gateway_context *context, const char *key,
                            const struct gateway_record *record)
{
    struct gateway_claim claim = {.key = key,
                                  .size = record->length,
                                  .crc32c = record->crc32c,
                                  .fingerprint = record->fingerprint,
                                  .writer = record->writer,
                                  .state = GATEWAY_CLAIM_STORED};

    gateway_commit_record_claims(context, &claim, 1);
    return claim.status;
}
