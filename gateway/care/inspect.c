#include "gateway/care/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "g4/lock/lock.h"
#include "g4/object/check.h"
#include "g4/object/commit.h"
#include "g4/object/kind.h"
#include "gateway/block/claim.h"
#include "gateway/block/commit_record.h"
#include "gateway/block/damage.h"
#include "gateway/block/get.h"
#include "gateway/block/repair.h"
#include "gateway/block/tombstone.h"
#include "gateway/move/bucket_move.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/key_lock.h"

const char *
gateway_finding_word(enum gateway_finding finding)
{
    static const char *const words[] = {
#define X(name, word, remedy) word,
        GATEWAY_FINDING_MAP(X)
#undef X
    };

    return words[finding];
}

const char *
gateway_finding_remedy(enum gateway_finding finding)
{
    static const char *const remedies[] = {
#define X(name, word, remedy) remedy,
        GATEWAY_FINDING_MAP(X)
#undef X
    };

    return remedies[finding];
}

/* What there is of a key, everywhere. */
struct scene {
    struct gateway_context *context;
    const char *key;
    enum g4_kind kind;
    bool known; /* a row is there */
    struct gateway_record record;
    struct g4_request files[GATEWAY_TIERS]; /* volumes; status NOTFOUND where there is none */
    struct g4_request cold;                 /* the bucket's; of two the one that is judged */
    struct g4_request far;
    enum gateway_tier tier; /* of `cold` */
};

static const enum gateway_tier volumes[] = {GATEWAY_TIER_HOT, GATEWAY_TIER_WARM};

enum { VOLUMES = sizeof(volumes) / sizeof(volumes[0]) };

static void
find(struct gateway_inspection *seen, enum gateway_finding finding, unsigned tier, const char *text)
{
    seen->finding = finding;
    seen->tier = tier;
    (void)snprintf(seen->text, sizeof(seen->text), "%s", text);
}

static bool
was_answered(enum kvt_err status)
{
    return status == KVT_OK || status == KVT_NOTFOUND || status == KVT_CORRUPT;
}

/* Blocks may be in either of two buckets; each is asked for its own copy. */
static enum kvt_err
look_into_buckets(struct scene *scene, struct kvt_error *err)
{
    struct gateway_bucket_tier *cold = scene->context->tiers.buckets;
    const uint64_t deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS;
    struct g4_store *far =
        scene->kind == G4_KIND_BLOCK ? gateway_bucket_tier_bucket(cold, GATEWAY_FAR) : NULL;
    enum kvt_err rc;

    scene->tier = GATEWAY_TIER_COLD;
    scene->cold = scene->far =
        (struct g4_request){.verb = G4_HEAD, .key = scene->key, .deadline_ms = deadline_ms};
    rc = gateway_bucket_tier_ended(
        cold, g4_store_perform(gateway_bucket_tier_bucket(cold, GATEWAY_COLD), &scene->cold));
    if (!was_answered(rc))
        return kvt_error_set(err, rc, "%.200s", scene->cold.error.text);
    scene->far.status = KVT_NOTFOUND;
    if (far == NULL)
        return KVT_OK;
    rc = gateway_bucket_tier_ended_of(cold, GATEWAY_FAR, g4_store_perform(far, &scene->far));
    return was_answered(rc) ? KVT_OK : kvt_error_set(err, rc, "%.200s", scene->far.error.text);
}

/* Row first: what came after it is seen in the copies, what went before it in the row. */
static enum kvt_err
look(struct scene *scene, struct kvt_error *err)
{
    struct gateway_context *context = scene->context;
    enum kvt_err rc = gateway_catalog_get(context->catalog, scene->key, &scene->record);

    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return kvt_error_set(err, rc, "the catalog could not be read");
    scene->known = rc == KVT_OK;
    rc = look_into_buckets(scene, err);
    for (size_t i = 0; i < VOLUMES && rc == KVT_OK; i++) {
        struct g4_store *volume = gateway_tier_volume(&context->tiers, 1u << volumes[i]);
        struct g4_request *file = &scene->files[volumes[i]];

        *file = (struct g4_request){.verb = G4_HEAD, .key = scene->key, .status = KVT_NOTFOUND};
        if (volume == NULL || scene->kind != G4_KIND_BLOCK)
            continue;
        rc = g4_store_perform(volume, file);
        rc = was_answered(rc) ? KVT_OK : kvt_error_set(err, rc, "%.200s", file->error.text);
    }
    return rc;
}

/* The same head, and another ETag than when the row was written: another gateway may have written
 * the same block again, or somebody other bytes under the same words.  Only the bytes tell. */
static enum kvt_err
judge_rewritten(const struct scene *scene, struct gateway_inspection *seen, struct kvt_error *err)
{
    struct gateway_context *context = scene->context;
    struct kvt_error cause = {.code = KVT_OK};
    struct g4_meta expected;
    struct g4_request request;
    enum kvt_err rc;

    gateway_record_meta(&scene->record, &expected);
    rc = gateway_body_read(&context->body_limits,
                           gateway_tier_store(&context->tiers, 1u << scene->tier), scene->key,
                           scene->record.length, &request);
    cause = request.error;
    if (rc == KVT_OK)
        rc = g4_check_body(&request.meta, &expected, request.buffer, request.buffer_size, &cause);
    gateway_body_release(&context->body_limits, &request);
    if (rc == KVT_CORRUPT || rc == KVT_RANGE)
        find(seen, GATEWAY_FINDING_DAMAGED, scene->tier, cause.text);
    else if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return kvt_error_set(err, rc, "%.200s",
                             rc == KVT_AGAIN ? "memory.max is taken" : cause.text);
    return KVT_OK;
}

/* Is the row's ETag that of this bucket's object?  Of two it is the one's that readers see. */
static bool
is_of_etag(const struct scene *scene)
{
    return scene->record.etag[0] != '\0' &&
           (scene->tier == GATEWAY_TIER_COLD || (scene->record.tiers & GATEWAY_COLD) == 0);
}

static enum kvt_err
judge_known_cold(const struct scene *scene, struct gateway_inspection *seen, struct kvt_error *err)
{
    const struct gateway_record *record = &scene->record;
    const struct g4_request *cold = &scene->cold;
    const char *wrong = NULL;

    if (cold->status == KVT_NOTFOUND)
        find(seen, GATEWAY_FINDING_ROW_WITHOUT_OBJECT, scene->tier,
             "the catalog says the bucket has it, the bucket says no");
    else if (cold->status == KVT_CORRUPT)
        find(seen, GATEWAY_FINDING_DAMAGED, scene->tier, cold->error.text);
    else if (!record->opaque && g4_kind_of_object(cold) == G4_KIND_TOMBSTONE)
        find(seen, GATEWAY_FINDING_ROW_WITHOUT_OBJECT, scene->tier,
             "the catalog says the bucket has it, a tombstone is there");
    else if (!record->opaque && !record->foreign && gateway_damage_is_known_bare(cold, record))
        return KVT_OK;
    else if (!record->opaque && !record->foreign)
        wrong = g4_kind_judge_block(cold);
    if (wrong != NULL)
        find(seen, GATEWAY_FINDING_DAMAGED, scene->tier, wrong);
    if (record->opaque || record->foreign || seen->finding != GATEWAY_FINDING_NONE)
        return KVT_OK; /* others may write such a one */
    if (cold->meta.length != record->length || cold->meta.crc32c != record->crc32c ||
        cold->meta.fingerprint != record->fingerprint)
        find(seen, GATEWAY_FINDING_SWAPPED, scene->tier,
             "the bucket has another block's bytes or fingerprint under this key");
    else if (is_of_etag(scene) && strcmp(cold->etag, record->etag) != 0)
        return judge_rewritten(scene, seen, err);
    return KVT_OK;
}

static void
judge_unknown_cold(const struct scene *scene, struct gateway_inspection *seen)
{
    const struct g4_request *cold = &scene->cold;
    const char *wrong;

    if (cold->status == KVT_NOTFOUND)
        return;
    if (scene->kind != G4_KIND_BLOCK) {
        find(seen, GATEWAY_FINDING_FOREIGN_KEY, scene->tier,
             "no block, and not put through this gateway");
        return;
    }
    if (cold->status == KVT_CORRUPT) {
        find(seen, GATEWAY_FINDING_DAMAGED, scene->tier, cold->error.text);
        return;
    }
    if (g4_kind_of_object(cold) == G4_KIND_TOMBSTONE) {
        find(seen, GATEWAY_FINDING_TOMBSTONE, scene->tier,
             "an empty object in the place of a bad block");
        return;
    }
    wrong = g4_kind_judge_block(cold);
    if (wrong == NULL)
        find(seen, GATEWAY_FINDING_OBJECT_WITHOUT_ROW, scene->tier,
             "a whole block that this gateway does not count: another gateway's, or its row is "
             "lost");
    else if (!cold->meta.present && cold->buffer_size > 0)
        find(seen, GATEWAY_FINDING_FOREIGN_BLOCK, scene->tier,
             "a block's key without KVTier's metadata: KVBM's, or somebody else's");
    else
        find(seen, GATEWAY_FINDING_DAMAGED, scene->tier, wrong);
}

static void
judge_file(const struct scene *scene, enum gateway_tier tier, struct gateway_inspection *seen)
{
    const bool listed = scene->known && (scene->record.tiers & (1u << tier)) != 0;
    const char *name = gateway_tier_name(tier);
    const struct g4_request *file = &scene->files[tier];
    char text[128];

    if (listed && file->status == KVT_NOTFOUND) {
        (void)snprintf(text, sizeof(text),
                       "the catalog says the %s volume has it, the volume says no", name);
        find(seen, GATEWAY_FINDING_ROW_WITHOUT_FILE, tier, text);
    } else if (!listed && file->status != KVT_NOTFOUND) {
        (void)snprintf(text, sizeof(text),
                       "a file on the %s volume that no row knows: the gateway drops it by itself",
                       name);
        find(seen, GATEWAY_FINDING_FILE_WITHOUT_ROW, tier, text);
    } else if (file->status == KVT_CORRUPT) {
        find(seen, GATEWAY_FINDING_FILE_DAMAGED, tier, file->error.text);
    } else if (listed && (file->meta.length != scene->record.length ||
                          file->meta.crc32c != scene->record.crc32c)) {
        (void)snprintf(text, sizeof(text), "the %s volume has another block's file", name);
        find(seen, GATEWAY_FINDING_FILE_DAMAGED, tier, text);
    }
}

/* A bucket's copy of a block whose row speaks of the other one. */
static void
judge_extra_copy(const struct scene *scene, struct gateway_inspection *seen)
{
    const struct g4_request *cold = &scene->cold;

    if (cold->status == KVT_NOTFOUND)
        return;
    if (cold->status == KVT_OK && g4_kind_of_object(cold) == G4_KIND_TOMBSTONE)
        find(seen, GATEWAY_FINDING_TOMBSTONE, scene->tier,
             "an empty object where the block was before it was moved to the other bucket");
    else if (cold->status == KVT_OK && g4_kind_judge_block(cold) == NULL)
        find(seen, GATEWAY_FINDING_OBJECT_WITHOUT_ROW, scene->tier,
             "a copy that is not counted, of a block whose row speaks of the other bucket");
    else
        find(seen, GATEWAY_FINDING_DAMAGED, scene->tier, "a bad copy of a block that is elsewhere");
}

/* One bucket after the other, up to the first that something is wrong in. */
static enum kvt_err
judge_buckets(struct scene *scene, struct gateway_inspection *seen, struct kvt_error *err)
{
    const bool two = gateway_tier_exists(&scene->context->tiers, GATEWAY_TIER_FAR);
    enum kvt_err rc = KVT_OK;

    for (unsigned i = 0; i < 2 && rc == KVT_OK && seen->finding == GATEWAY_FINDING_NONE; i++) {
        if (i == 1) {
            if (scene->kind != G4_KIND_BLOCK || !two)
                break;
            scene->cold = scene->far;
            scene->tier = GATEWAY_TIER_FAR;
        }
        if (scene->known && (scene->record.tiers & (1u << scene->tier)) != 0)
            rc = judge_known_cold(scene, seen, err);
        else if (!scene->known)
            judge_unknown_cold(scene, seen);
        else if (two && !scene->record.owed && (scene->record.tiers & GATEWAY_BUCKETS) != 0)
            judge_extra_copy(scene, seen);
    }
    return rc;
}

static enum kvt_err
judge_lock(const struct scene *scene, struct g4_lease_seen *lock, struct gateway_inspection *seen,
           struct kvt_error *err)
{
    const enum kvt_err rc = g4_lock_look(gateway_bucket_tier_store(scene->context->tiers.buckets),
                                         scene->key, 0, lock, err);

    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    if (rc != KVT_OK)
        return rc;
    seen->age_ms = lock->age_ms;
    if (lock->malformed) {
        find(seen, GATEWAY_FINDING_LOCK_UNREADABLE, 1, "a lock's name, and no lock in it");
    } else if (lock->expired && !lock->body.released) {
        find(seen, GATEWAY_FINDING_LOCK_OVER, 1, "");
        (void)snprintf(seen->text, sizeof(seen->text),
                       "its lease is over, written %" PRIu64 " s ago by %.60s", lock->age_ms / 1000,
                       lock->body.instance);
    }
    return KVT_OK;
}

/* Is the rank `block` of a block there, as its record says?  `said` is NULL where it says nothing.
 * A rank in the catalog is served, or settled, whether the bucket has it yet, still, or not at all.
 */
static enum kvt_err
judge_rank(const struct scene *scene, const char *block, const struct g4_commit_rank *said,
           struct gateway_inspection *seen, struct kvt_error *err)
{
    struct g4_request head = {.verb = G4_HEAD,
                              .key = block,
                              .deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS};
    struct gateway_record record;
    enum kvt_err rc = gateway_catalog_get(scene->context->catalog, block, &record);

    if (rc != KVT_NOTFOUND)
        return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "the catalog could not be read");
    rc = g4_store_perform(gateway_bucket_tier_store(scene->context->tiers.buckets), &head);
    if (rc == KVT_NOTFOUND || (rc == KVT_OK && g4_kind_of_object(&head) == G4_KIND_TOMBSTONE))
        find(seen, GATEWAY_FINDING_META_WITHOUT_DATA, 1,
             "a commit record of KVBM whose block is gone: the block would never be stored again");
    else if (rc == KVT_OK && said != NULL && head.buffer_size != said->length)
        find(seen, GATEWAY_FINDING_META_WITHOUT_DATA, 1,
             "a commit record of another block than the one that is there");
    return was_answered(rc) ? KVT_OK : kvt_error_set(err, rc, "%.200s", head.error.text);
}

/* A reader that finds the record and no data never stores the block again. */
static enum kvt_err
judge_meta(const struct scene *scene, struct gateway_inspection *seen, struct kvt_error *err)
{
    struct g4_commit record = {.ranks = 0};
    char block[KVT_KEY_MAX];
    char etag[G4_ETAG_MAX];
    enum kvt_err rc;

    if (scene->cold.status == KVT_NOTFOUND || !g4_kind_meta_block(scene->key, block))
        return KVT_OK;
    if (strchr(scene->key, '/') == NULL && scene->cold.buffer_size > 0) {
        rc = g4_commit_read(gateway_bucket_tier_store(scene->context->tiers.buckets), scene->key,
                            &record, etag, err);
        if (rc != KVT_OK && rc != KVT_NOTFOUND && rc != KVT_CORRUPT && rc != KVT_UNSUPPORTED)
            return rc;
    }
    if (record.ranks == 0) /* of KVBM, or a later version: how many there are is not said */
        return judge_rank(scene, block, NULL, seen, err);
    rc = KVT_OK;
    for (uint32_t i = 0; i < record.ranks && rc == KVT_OK; i++) {
        g4_commit_rank_key(scene->key, i, block);
        rc = judge_rank(scene, block, &record.rank[i], seen, err);
        if (seen->finding != GATEWAY_FINDING_NONE)
            break;
    }
    return rc;
}

/* For every gateway the first bucket's word is the last one, whatever its row says. */
static bool
is_noted_removal(const struct scene *scene)
{
    return scene->kind == G4_KIND_BLOCK && scene->cold.status != KVT_NOTFOUND &&
           g4_kind_is_removed(&scene->cold);
}

static enum kvt_err
judge(struct scene *scene, struct g4_lease_seen *lock, struct gateway_inspection *seen,
      struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;
    uint64_t now_ms;

    *seen = (struct gateway_inspection){.finding = GATEWAY_FINDING_NONE, .tier = 1};
    /* A directory's clock is ours. */
    now_ms = scene->cold.server_ms != 0 ? scene->cold.server_ms : kvt_clock_unix_ms();
    if (now_ms > scene->cold.modified_ms && scene->cold.modified_ms != 0)
        seen->age_ms = now_ms - scene->cold.modified_ms;
    if (scene->kind == G4_KIND_LOCK)
        return judge_lock(scene, lock, seen, err);
    if (scene->kind == G4_KIND_META)
        return judge_meta(scene, seen, err);
    if (scene->kind == G4_KIND_OWN)
        return KVT_OK;
    if (scene->known && gateway_record_unsettled(&scene->record)) {
        find(seen, GATEWAY_FINDING_UNSETTLED, 1,
             "a PUT, a removal or a move is under way, or was left by a crash: the gateway settles "
             "it");
        return KVT_OK;
    }
    if (is_noted_removal(scene)) {
        find(seen, GATEWAY_FINDING_UNSETTLED, 1,
             "the block was removed while the far bucket was away: the gateway that was told so "
             "ends it when that is back");
        return KVT_OK;
    }
    rc = judge_buckets(scene, seen, err);
    for (size_t i = 0; i < VOLUMES && rc == KVT_OK; i++)
        if (seen->finding == GATEWAY_FINDING_NONE)
            judge_file(scene, volumes[i], seen);
    return rc;
}

static enum kvt_err
inspect(struct scene *scene, struct gateway_context *context, const char *key,
        struct g4_lease_seen *lock, struct gateway_inspection *seen, struct kvt_error *err)
{
    enum kvt_err rc;

    *scene = (struct scene){.context = context, .key = key, .kind = g4_kind_of_key(key, NULL)};
    *seen = (struct gateway_inspection){.finding = GATEWAY_FINDING_NONE, .tier = 1};
    rc = look(scene, err);
    return rc == KVT_OK ? judge(scene, lock, seen, err) : rc;
}

enum kvt_err
gateway_inspect(struct gateway_context *context, const char *key, struct gateway_inspection *seen,
                struct kvt_error *err)
{
    struct g4_lease_seen lock;
    struct scene scene;

    return inspect(&scene, context, key, &lock, seen, err);
}

/* ---- repair ---- */

/* Write the record of a block that lacks it.  False: it still does, perhaps with one of its ranks,
 * and counts without being served. */
static bool
complete(struct gateway_context *context, const char *key, const struct gateway_record *record)
{
    struct gateway_item item = {.key = key};

    if (gateway_commit_record_found(context, key, record) != KVT_OK)
        return false;
    gateway_get_find(context, &item, 1);
    return item.status == KVT_OK;
}

/* A row from what the bucket's HEAD tells; every read checks the body against it. */
static enum kvt_err
adopt(struct gateway_context *context, const char *key, struct kvt_error *err)
{
    struct gateway_item item = {.key = key};
    struct gateway_change change = {.key = key, .only_if_absent = true};
    struct gateway_key_lock hold;
    enum kvt_err rc;

    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return kvt_error_set(err, KVT_BUSY, "the key is in use");
    gateway_get_find(context, &item, 1);
    rc = item.uncommitted && !item.record.foreign ? KVT_OK : item.status;
    if (rc == KVT_OK && !item.known) {
        change.record = item.record;
        change.record.foreign =
            item.record.foreign || (item.uncommitted && !complete(context, key, &item.record));
        rc = gateway_catalog_change(context->catalog, &change, 1, GATEWAY_APPLIED);
    }
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "it could not be taken up");
}

/* Of a block in one bucket the row tells wrongly of the other: it follows what is there. */
static enum kvt_err
recount(struct gateway_context *context, const char *key, unsigned tier, struct kvt_error *err)
{
    struct g4_request head = {.verb = G4_HEAD,
                              .key = key,
                              .deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS};
    struct gateway_change change = {.key = key};
    struct gateway_record *record = &change.record;
    struct gateway_key_lock hold;
    enum kvt_err rc;

    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return kvt_error_set(err, KVT_BUSY, "the key is in use");
    rc = gateway_catalog_get(context->catalog, key, record);
    if (rc == KVT_OK && !gateway_record_unsettled(record)) {
        rc =
            g4_store_perform(gateway_bucket_tier_bucket(context->tiers.buckets, 1u << tier), &head);
        if (rc == KVT_OK && gateway_damage_fits(&head, record)) {
            record->tiers |= 1u << tier;
            if (tier == GATEWAY_TIER_COLD) /* readers see this one from now on */
                memcpy(record->etag, head.etag, sizeof(record->etag));
        } else if (was_answered(rc)) {
            record->tiers &= ~(1u << tier);
        }
        rc = was_answered(rc) ? KVT_OK : rc;
        if (rc == KVT_OK && (record->tiers & GATEWAY_BUCKETS) != 0)
            rc = gateway_catalog_change(context->catalog, &change, 1, GATEWAY_DURABLE);
    }
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "its row could not be written");
}

/* Delete what was seen.  What is put meanwhile may go with it: there are stores whose DELETE
 * ignores If-Match, and such as let it and a PUT of the same ETag both win.  So it is sent once,
 * and an answer that was lost counts as not done. */
static enum kvt_err
remove_seen(const struct scene *scene, const struct gateway_remedy *remedy, struct kvt_error *err)
{
    struct gateway_context *context = scene->context;
    struct g4_request request = {.verb = G4_DELETE,
                                 .key = scene->key,
                                 .once = true,
                                 .deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS};
    struct gateway_change row = {.key = scene->key, .erase = true};
    struct gateway_bucket_tier_state state;
    enum kvt_err rc;

    if (!remedy->alone && scene->kind != G4_KIND_META) /* at worst a block is put again */
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "it could take a block along that is put meanwhile: only with "
                             "--alone, while no other gateway writes");
    if (scene->kind == G4_KIND_BLOCK && gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR)) {
        /* In this bucket alone: the other one may have the block. */
        rc = gateway_tombstone_clear(context, scene->key, 1u << scene->tier);
        return rc == KVT_OK ? rc : kvt_error_set(err, rc, "it could not be removed");
    }
    gateway_bucket_tier_state(context->tiers.buckets, &state);
    if (state.tested && state.selftest.delete_if_match) {
        request.condition = G4_IF_MATCH;
        memcpy(request.etag, scene->cold.etag, sizeof(request.etag));
    }
    rc = gateway_bucket_tier_perform(context->tiers.buckets, &request);
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return kvt_error_set(err, rc, "%.200s", request.error.text);
    rc = scene->known ? gateway_catalog_change(context->catalog, &row, 1, GATEWAY_DURABLE) : KVT_OK;
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "its row could not be erased");
}

/* Looked at again while nobody else here can change the key. */
static enum kvt_err
collect(struct gateway_context *context, const char *key, enum gateway_finding wanted,
        const struct gateway_remedy *remedy, struct kvt_error *err)
{
    struct gateway_inspection seen;
    struct g4_lease_seen lock;
    struct gateway_key_lock hold;
    struct scene scene;
    enum kvt_err rc;

    if (!gateway_key_lock_try_one(context->key_locks, &hold, key))
        return kvt_error_set(err, KVT_BUSY, "the key is in use");
    rc = inspect(&scene, context, key, &lock, &seen, err);
    if (rc == KVT_OK && seen.finding == wanted && seen.age_ms < remedy->older_ms)
        rc = kvt_error_set(err, KVT_BUSY, "it is %" PRIu64 " s old, too young", seen.age_ms / 1000);
    else if (rc == KVT_OK && seen.finding == wanted)
        rc = remove_seen(&scene, remedy, err);
    gateway_key_lock_release(context->key_locks, &hold, 1);
    return rc;
}

/* Read the copy and deal with it as if a client had read it. */
static void
quarantine(struct gateway_context *context, const struct scene *scene, unsigned tier)
{
    struct kvt_error err = {.code = KVT_OK};
    struct g4_meta expected;
    struct g4_request request;
    enum kvt_err rc;

    if (!scene->known) {
        gateway_repair_inspect(context, scene->key);
        return;
    }
    gateway_record_meta(&scene->record, &expected);
    rc = gateway_body_read(&context->body_limits, gateway_tier_store(&context->tiers, 1u << tier),
                           scene->key, scene->record.length, &request);
    request.place = tier == GATEWAY_TIER_FAR ? 1 : 0;
    err = request.error;
    if (rc == KVT_OK)
        rc = g4_check_body(&request.meta, &expected, request.buffer, request.buffer_size, &err);
    if (rc == KVT_CORRUPT || rc == KVT_RANGE) {
        if (((1u << tier) & GATEWAY_VOLUMES) != 0)
            gateway_repair_file(context, scene->key, (enum gateway_tier)tier, request.buffer,
                                request.buffer_size, err.text);
        else
            gateway_repair_cold(context, scene->key, &request, request.buffer, request.buffer_size,
                                err.text);
    }
    gateway_body_release(&context->body_limits, &request);
}

static enum kvt_err
free_lock(struct gateway_context *context, const char *key, const struct g4_lease_seen *lock,
          struct kvt_error *err)
{
    char name[KVT_NAME_MAX];

    (void)snprintf(name, sizeof(name), "freed by %.48s", context->identity.name);
    return g4_lock_break(gateway_bucket_tier_store(context->tiers.buckets), key, lock, name, err);
}

enum kvt_err
gateway_inspect_repair(struct gateway_context *context, const char *key,
                       const struct gateway_remedy *remedy, struct gateway_inspection *seen,
                       struct kvt_error *err)
{
    struct gateway_inspection after;
    struct g4_lease_seen lock;
    struct scene scene;
    enum kvt_err rc = inspect(&scene, context, key, &lock, seen, err);

    if (rc != KVT_OK)
        return rc;
    switch (seen->finding) {
    case GATEWAY_FINDING_NONE: return KVT_OK;
    case GATEWAY_FINDING_ROW_WITHOUT_OBJECT:
        if (scene.known && (scene.record.tiers & GATEWAY_BUCKETS & ~(1u << seen->tier)) != 0)
            return recount(context, key, seen->tier, err);
        if (scene.cold.status == KVT_NOTFOUND)
            gateway_repair_gone(context, key);
        else
            quarantine(context, &scene, seen->tier); /* a tombstone: it cannot be the block */
        break;
    case GATEWAY_FINDING_ROW_WITHOUT_FILE:
        gateway_repair_file(context, key, (enum gateway_tier)seen->tier, NULL, 0, NULL);
        break;
    case GATEWAY_FINDING_OBJECT_WITHOUT_ROW:
        return scene.known ? recount(context, key, seen->tier, err) : adopt(context, key, err);
    case GATEWAY_FINDING_DAMAGED:
    case GATEWAY_FINDING_SWAPPED:
    case GATEWAY_FINDING_FILE_DAMAGED: quarantine(context, &scene, seen->tier); break;
    case GATEWAY_FINDING_LOCK_OVER: return free_lock(context, key, &lock, err);
    case GATEWAY_FINDING_TOMBSTONE:
    case GATEWAY_FINDING_META_WITHOUT_DATA:
        return collect(context, key, seen->finding, remedy, err);
    case GATEWAY_FINDING_UNSETTLED:
    case GATEWAY_FINDING_FOREIGN_BLOCK:
    case GATEWAY_FINDING_FOREIGN_KEY:
    case GATEWAY_FINDING_FILE_WITHOUT_ROW:
    case GATEWAY_FINDING_LOCK_UNREADABLE:
        return kvt_error_set(err, KVT_UNSUPPORTED, "nothing is safe to do about it");
    }
    /* Those look once more before they act, and do not say what came of it. */
    rc = inspect(&scene, context, key, &lock, &after, err);
    if (rc == KVT_OK && after.finding == seen->finding)
        return kvt_error_set(err, KVT_BUSY, "the key is in use, or was changed meanwhile");
    return rc;
}
