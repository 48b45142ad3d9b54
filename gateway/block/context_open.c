#include "gateway/block/context_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/pair/bucket_pair.h"
#include "g4/s3/upload_notes.h"
#include "gateway/block/recheck.h"
#include "gateway/block/unsynced.h"
#include "gateway/tier/access_counts.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/hot_memory.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/quarantine.h"
#include "gateway/tier/volume_id.h"

enum { PATH_BYTES = 4096 };

/* A context, and the lock of its state folder: one gateway runs on it. */
struct opened {
    struct gateway_context context;
    int lock_fd;
};

/* LMDB lets two processes write in turn; two gateways would count bytes and number events each for
 * itself. */
static enum kvt_err
lock_state(struct opened *opened, const char *folder, struct kvt_error *err)
{
    char path[PATH_BYTES];
    enum kvt_err rc;

    if (strlen(folder) + sizeof("/quarantine") > sizeof(path))
        return kvt_error_set(err, KVT_RANGE, "state.dir is too long");
    rc = kvt_folder_make(folder, err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(path, sizeof(path), "%s/lock", folder);
    opened->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (opened->lock_fd < 0)
        return kvt_error_sys(err, errno, "open %s", path);
    if (flock(opened->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return KVT_OK;
    return errno == EWOULDBLOCK ? kvt_error_set(err, KVT_BUSY, "another gateway runs on %s", folder)
                                : kvt_error_sys(err, errno, "lock %s", path);
}

static enum kvt_err
open_state(struct gateway_context *context, const struct gateway_context_options *options,
           struct kvt_error *err)
{
    char path[PATH_BYTES];
    struct gateway_catalog_options catalog = {.path = path,
                                              .bytes_max = options->catalog_max,
                                              .owed_max = options->backlog_max,
                                              .revision = options->revision};
    enum kvt_err rc;

    memcpy(catalog.capacity, context->tiers.capacity, sizeof(catalog.capacity));
    (void)snprintf(path, sizeof(path), "%s/catalog", options->state_dir);
    rc = gateway_catalog_open(&context->catalog, &catalog, err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(path, sizeof(path), "%s/quarantine", options->state_dir);
    rc = gateway_quarantine_open(&context->quarantine, path, options->quarantine_max, err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(path, sizeof(path), "%s/uploads", options->state_dir);
    return g4_directory_open(&context->uploads.parts,
                             &(struct g4_directory_options){.path = path,
                                                            .threads = options->io_threads,
                                                            .bytes_max = GATEWAY_UPLOADS_BYTES},
                             err);
}

/* Blocks that are only on the hot volume must not vanish with a setting. */
static enum kvt_err
check_backlog(struct gateway_context *context, const struct gateway_context_options *options,
              struct kvt_error *err)
{
    struct gateway_catalog_stats stats;

    if (options->hot_capacity != 0)
        return KVT_OK;
    if (options->write_back)
        return kvt_error_set(err, KVT_INVALID, "write.mode is back, but hot.capacity is 0");
    gateway_catalog_stats(context->catalog, &stats);
    if (stats.owed_blocks == 0)
        return KVT_OK;
    return kvt_error_set(err, KVT_INVALID,
                         "hot.capacity is 0, but %" PRIu64 " acknowledged blocks are on the hot "
                         "volume alone: run with it until the backlog is empty",
                         stats.owed_blocks);
}

/* Large objects are uploads there, and what begins is written down first. */
static enum kvt_err
open_notes(struct gateway_context *context, const struct gateway_context_options *options,
           enum g4_bucket_pair_place place, struct kvt_error *err)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/%s", options->state_dir,
                   place == G4_BUCKET_PAIR_NEAR ? "begun" : "begun-far");
    return g4_upload_notes_open(&context->uploads.begun[place], path, err);
}

static enum kvt_err
open_bucket(struct gateway_context *context, const struct gateway_context_options *options,
            struct kvt_error *err)
{
    struct gateway_bucket_tier_options cold = options->cold;
    enum kvt_err rc = KVT_OK;

    if (cold.kind == GATEWAY_BUCKET_TIER_S3)
        rc = open_notes(context, options, G4_BUCKET_PAIR_NEAR, err);
    cold.s3.notes = context->uploads.begun[G4_BUCKET_PAIR_NEAR];
    return rc == KVT_OK ? gateway_bucket_tier_open(&context->tiers.buckets, &cold, err) : rc;
}

static enum kvt_err
open_far_bucket(struct gateway_context *context, const struct gateway_context_options *options,
                struct kvt_error *err)
{
    struct gateway_far_options far = options->far;
    enum kvt_err rc = KVT_OK;

    if (far.kind == GATEWAY_FAR_NONE)
        return KVT_OK;
    if (far.kind == GATEWAY_FAR_S3)
        rc = open_notes(context, options, G4_BUCKET_PAIR_FAR, err);
    far.s3.notes = context->uploads.begun[G4_BUCKET_PAIR_FAR];
    return rc == KVT_OK ? gateway_bucket_tier_extend(context->tiers.buckets, &far, err) : rc;
}

static enum kvt_err
open_volume(struct gateway_context *context, enum gateway_tier tier, const char *folder, bool fresh,
            unsigned io_threads, struct g4_store **out, struct kvt_error *err)
{
    const struct g4_directory_options options = {
        .path = folder, .threads = io_threads, .bytes_max = context->tiers.capacity[tier]};
    enum kvt_err rc;

    if (context->tiers.capacity[tier] == 0)
        return KVT_OK;
    rc = gateway_volume_id_check(context->catalog, tier, folder, fresh, err);
    return rc == KVT_OK ? g4_directory_open(out, &options, err) : rc;
}

static enum kvt_err
open_volumes(struct gateway_context *context, const struct gateway_context_options *options,
             struct kvt_error *err)
{
    enum kvt_err rc = open_volume(context, GATEWAY_TIER_HOT, options->hot_dir, options->hot_new,
                                  options->io_threads, &context->tiers.hot, err);

    if (rc == KVT_OK)
        rc = open_volume(context, GATEWAY_TIER_WARM, options->warm_dir, options->warm_new,
                         options->io_threads, &context->tiers.warm, err);
    if (rc != KVT_OK || context->tiers.hot == NULL || options->hot_memory == 0)
        return rc;
    rc = gateway_hot_memory_new(&context->hot_memory, options->hot_memory);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "hot.memory");
}

/* Two buckets that are one folder, whatever they are called: a move would drop its own copy. */
static enum kvt_err
check_folders(const struct gateway_context_options *options, struct kvt_error *err)
{
    struct stat near;
    struct stat far;

    if (options->cold.kind != GATEWAY_BUCKET_TIER_DIRECTORY ||
        options->far.kind != GATEWAY_FAR_DIRECTORY)
        return KVT_OK;
    if (stat(options->cold.folder, &near) != 0)
        return kvt_error_sys(err, errno, "stat %s", options->cold.folder);
    if (stat(options->far.folder, &far) != 0)
        return kvt_error_sys(err, errno, "stat %s", options->far.folder);
    return near.st_dev == far.st_dev && near.st_ino == far.st_ino
               ? kvt_error_set(err, KVT_INVALID, "far.dir is cold.dir")
               : KVT_OK;
}

static enum kvt_err
open_buckets(struct gateway_context *context, const struct gateway_context_options *options,
             struct kvt_error *err)
{
    enum kvt_err rc;

    if (options->cold_store == NULL) {
        rc = open_bucket(context, options, err);
        if (rc == KVT_OK)
            rc = open_far_bucket(context, options, err);
        return rc == KVT_OK ? check_folders(options, err) : rc;
    }
    rc = gateway_bucket_tier_adopt(&context->tiers.buckets, options->cold_store);
    if (rc == KVT_OK && options->far_store != NULL)
        rc = gateway_bucket_tier_extend_by(context->tiers.buckets, options->far_store);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "bucket");
}

static enum kvt_err
open_packer(struct gateway_context *context, const struct gateway_context_options *options,
            struct kvt_error *err)
{
    enum kvt_err rc;

    if (options->packed == NULL || options->packed[0] == '\0')
        return KVT_OK;
    rc = gateway_bucket_tier_pack(context->tiers.buckets, options->packed, context->identity.name,
                                  err);
    if (rc == KVT_OK)
        rc = gateway_packer_new(&context->packer, context->tiers.buckets, context->stats,
                                &options->packer, err);
    if (rc == KVT_RANGE) {
        const struct kvt_error why = *err;

        return kvt_error_set(err, KVT_INVALID, "packed.*: %.200s", why.text);
    }
    return rc;
}

/* What a power cut left of hot copies. */
static enum kvt_err
check_unsynced(struct gateway_context *context, struct kvt_error *err)
{
    uint64_t dropped;
    const enum kvt_err rc = gateway_unsynced_check(context, &dropped);

    return rc == KVT_OK ? rc
                        : kvt_error_set(err, rc, "the hot volume could not be checked: %s",
                                        kvt_err_text(rc));
}

static bool
has_far(const struct gateway_context_options *options)
{
    return options->far.kind != GATEWAY_FAR_NONE || options->far_store != NULL;
}

static enum kvt_err
check_more_tiers(const struct gateway_context_options *options, struct kvt_error *err)
{
    if (options->warm_capacity != 0 && options->hot_capacity == 0)
        return kvt_error_set(err, KVT_INVALID,
                             "warm.capacity is set, but hot.capacity is 0: with one volume it is "
                             "the hot one");
    if (options->warm_capacity != 0 && strcmp(options->warm_dir, options->hot_dir) == 0)
        return kvt_error_set(err, KVT_INVALID, "warm.dir is hot.dir");
    if (!has_far(options))
        return KVT_OK;
    if (options->far_bucket == NULL || options->far_bucket[0] == '\0' ||
        strlen(options->far_bucket) > KVT_NAME_MAX - sizeof("cold@"))
        return kvt_error_set(err, KVT_INVALID, "far.bucket must be 1 to %zu bytes long",
                             KVT_NAME_MAX - sizeof("cold@"));
    if (strcmp(options->far_bucket, options->bucket) == 0)
        return kvt_error_set(err, KVT_INVALID,
                             "far.bucket is bucket: two buckets need two names, by which orders "
                             "and events tell them apart");
    if (options->packed != NULL && options->packed[0] != '\0')
        return kvt_error_set(err, KVT_INVALID,
                             "packed.namespaces: what is packed lies in one bucket: leave it "
                             "empty with far.kind");
    return KVT_OK;
}

/* What can be told before anything is opened: a loaded store leaves a mark in its bucket. */
static enum kvt_err
check_options(const struct gateway_context_options *options, struct kvt_error *err)
{
    if (strlen(options->name) == 0 || strlen(options->name) > KVT_NAME_MAX - sizeof("hot@") ||
        strlen(options->bucket) == 0 || strlen(options->bucket) > KVT_NAME_MAX - sizeof("cold@"))
        return kvt_error_set(err, KVT_INVALID, "name and bucket must be 1 to %zu bytes long",
                             KVT_NAME_MAX - sizeof("cold@"));
    if (options->cold.kind == GATEWAY_BUCKET_TIER_DRIVER && options->packed != NULL &&
        options->packed[0] != '\0')
        return kvt_error_set(err, KVT_INVALID,
                             "packed.namespaces: a loaded store keeps no promise that packing "
                             "needs: leave it empty with cold.kind driver");
    return check_more_tiers(options, err);
}

/* Which tiers there are, and what people, orders and events call them. */
static void
name_tiers(struct gateway_context *context, const struct gateway_context_options *options)
{
    context->tiers.capacity[GATEWAY_TIER_HOT] = options->hot_capacity;
    context->tiers.capacity[GATEWAY_TIER_COLD] = options->cold_capacity;
    context->tiers.capacity[GATEWAY_TIER_WARM] = options->warm_capacity;
    (void)snprintf(context->tiers.holder[GATEWAY_TIER_HOT], KVT_NAME_MAX, "hot@%s", options->name);
    (void)snprintf(context->tiers.holder[GATEWAY_TIER_COLD], KVT_NAME_MAX, "cold@%s",
                   options->bucket);
    if (options->warm_capacity != 0)
        (void)snprintf(context->tiers.holder[GATEWAY_TIER_WARM], KVT_NAME_MAX, "warm@%s",
                       options->name);
    if (!has_far(options))
        return;
    context->tiers.capacity[GATEWAY_TIER_FAR] = options->far_capacity;
    (void)snprintf(context->tiers.holder[GATEWAY_TIER_FAR], KVT_NAME_MAX, "cold@%s",
                   options->far_bucket);
}

/* Rows of blocks that were removed while the far bucket was away. */
static uint64_t
count_noted(struct gateway_context *context)
{
    enum { PAGE = 16 };
    struct gateway_row rows[PAGE];
    struct gateway_scan scan = {.pending = true, .rows = rows, .capacity = PAGE};
    uint64_t noted = 0;

    while (!scan.end && gateway_catalog_scan(context->catalog, &scan) == KVT_OK)
        for (size_t i = 0; i < scan.count; i++)
            noted += rows[i].record.state == GATEWAY_RETIRING && rows[i].record.moving != 0;
    return noted;
}

/* `why` is what was set, `where` the bucket that rows tell of. */
static enum kvt_err
refuse_far(struct gateway_context *context, uint64_t blocks, const char *why, const char *where,
           struct kvt_error *err)
{
    const uint64_t noted = count_noted(context);

    if (noted < blocks)
        return kvt_error_set(err, KVT_INVALID,
                             "%.100s, but %" PRIu64
                             " blocks are in %.80s: set that, and order them back first",
                             why, blocks - noted, where);
    return kvt_error_set(err, KVT_INVALID,
                         "%.60s, but %" PRIu64 " removals wait for %.50s: set that until they are "
                         "done; if it is lost, an empty one of the same name will do",
                         why, noted, where);
}

/* Blocks of a tier must not vanish with its setting: rows say where they are. */
static enum kvt_err
check_left_tiers(struct gateway_context *context, struct kvt_error *err)
{
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(context->catalog, &stats);
    if (stats.blocks[GATEWAY_TIER_FAR] > 0 &&
        !gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR))
        return refuse_far(context, stats.blocks[GATEWAY_TIER_FAR], "far.kind is none",
                          "the far bucket", err);
    if (stats.blocks[GATEWAY_TIER_WARM] > 0 &&
        !gateway_tier_exists(&context->tiers, GATEWAY_TIER_WARM))
        return kvt_error_set(err, KVT_INVALID,
                             "warm.capacity is 0, but %" PRIu64
                             " blocks are on the warm volume: set it, and order them away first",
                             stats.blocks[GATEWAY_TIER_WARM]);
    return KVT_OK;
}

/* Which far bucket rows and unsent events tell of.  Under another name they would speak of blocks
 * that are not there, and nobody would take back what was told of the former one. */
static enum kvt_err
check_far_name(struct gateway_context *context, const char *bucket, struct kvt_error *err)
{
    struct gateway_catalog_stats stats;
    char former[KVT_NAME_MAX];
    char why[128];
    enum kvt_err rc = gateway_catalog_far(context->catalog, former);

    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return kvt_error_set(err, rc, "the catalog's far bucket");
    if (!gateway_tier_exists(&context->tiers, GATEWAY_TIER_FAR)) {
        if (rc == KVT_OK)
            (void)snprintf(context->tiers.former_far, sizeof(context->tiers.former_far),
                           "cold@%.*s", KVT_NAME_MAX - 6, former);
        return KVT_OK;
    }
    if (strcmp(former, bucket) == 0)
        return KVT_OK;
    gateway_catalog_stats(context->catalog, &stats);
    (void)snprintf(why, sizeof(why), "far.bucket is %.80s", bucket);
    if (former[0] != '\0' && stats.blocks[GATEWAY_TIER_FAR] > 0)
        return refuse_far(context, stats.blocks[GATEWAY_TIER_FAR], why, former, err);
    /* Where nothing was sent yet, nobody knows of the former one. */
    if (former[0] != '\0' && stats.events_acked > 0 && stats.events > stats.events_acked)
        return kvt_error_set(err, KVT_INVALID,
                             "%.60s, but %" PRIu64
                             " events are not sent yet, and may take back blocks of %.50s: set "
                             "that, or far.kind none, until they are",
                             why, stats.events - stats.events_acked, former);
    return gateway_catalog_name_far(context->catalog, bucket, err);
}

enum kvt_err
gateway_context_open(struct gateway_context **out, const struct gateway_context_options *options,
                     struct kvt_error *err)
{
    struct gateway_context *context;
    struct opened *opened;
    enum kvt_err rc;

    *out = NULL;
    rc = check_options(options, err);
    if (rc != KVT_OK)
        return rc;
    opened = kvt_calloc(1, sizeof(*opened));
    if (opened == NULL)
        return kvt_error_set(err, KVT_NOMEM, "gateway");
    opened->lock_fd = -1;
    context = &opened->context;
    (void)snprintf(context->identity.name, sizeof(context->identity.name), "%s", options->name);
    kvt_random_system(&context->identity.life, sizeof(context->identity.life));
    name_tiers(context, options);
    context->identity.revision = options->revision;
    context->body_limits.object_max = options->object_max;
    context->commit_ranks = options->commit_ranks;
    context->deletes.mark_ppm = options->delete_mark_ppm;
    context->deletes.share_ppm = options->delete_share_ppm;
    context->write_back = (struct gateway_write_back){.allowed = options->write_back,
                                                      .backlog_max = options->backlog_max};
    context->stats = options->stats;
    context->body_limits.budget = options->budget;
    rc = gateway_key_lock_new(&context->key_locks);
    if (rc == KVT_OK)
        rc = gateway_access_counts_new(&context->access_counts);
    if (rc == KVT_OK)
        rc = gateway_recheck_new(&context->recheck, options->recheck_ms);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "gateway");
    if (rc == KVT_OK)
        rc = lock_state(opened, options->state_dir, err);
    if (rc == KVT_OK)
        rc = open_state(context, options, err);
    context->identity.since_ms = kvt_clock_mono_ms();
    if (rc == KVT_OK)
        rc = check_backlog(context, options, err);
    if (rc == KVT_OK)
        rc = check_left_tiers(context, err);
    if (rc == KVT_OK)
        rc = check_far_name(context, options->far_bucket, err);
    if (rc == KVT_OK)
        rc = open_volumes(context, options, err);
    if (rc == KVT_OK)
        rc = open_buckets(context, options, err);
    if (rc == KVT_OK)
        rc = open_packer(context, options, err);
    if (rc == KVT_OK)
        rc = check_unsynced(context, err);
    if (rc != KVT_OK)
        goto fail;
    *out = context;
    return KVT_OK;

fail:
    gateway_context_close(context);
    return rc;
}

void
gateway_context_close(struct gateway_context *context)
{
    struct opened *opened = (struct opened *)context;

    if (context == NULL)
        return;
    gateway_packer_free(context->packer);
    gateway_bucket_tier_close(context->tiers.buckets);
    for (unsigned place = 0; place < 2; place++)
        g4_upload_notes_close(context->uploads.begun[place]);
    g4_store_close(context->tiers.hot);
    g4_store_close(context->tiers.warm);
    gateway_hot_memory_free(context->hot_memory);
    g4_store_close(context->uploads.parts);
    gateway_catalog_close(context->catalog);
    gateway_quarantine_close(context->quarantine);
    gateway_recheck_free(context->recheck);
    gateway_access_counts_free(context->access_counts);
    gateway_key_lock_free(context->key_locks);
    if (opened->lock_fd >= 0)
        (void)close(opened->lock_fd);
    kvt_free(opened);
}
