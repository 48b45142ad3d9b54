/*
 * tests/scenario/bucket_mover.c -- KVTier's side of a bucket that KVBM's own client uses.
 *
 * usage: bucket_mover put|get ENDPOINT BUCKET a|b|c RANK SIZE < lines of "HASH PARENT POSITION"
 *
 * Stores or fetches these blocks over worker/object/bucket_volume.h, their bytes being what
 * worker/replay/block_content.h says of their hash, and prints each one's status; a fetched block
 * with other bytes is WRONG, and one that is refused must leave none.
 * AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who we are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/s3/s3.h"
#include "kvbm/storage/tier_storage.h"

#include "worker/object/bucket_volume.h"
#include "worker/replay/block_content.h"

enum { BLOCKS_MAX = 256, FINGERPRINT = 77 };

static size_t
read_items(struct kvt_volume_item *items, size_t size, bool put)
{
    size_t count = 0;

    for (; count < BLOCKS_MAX; count++) {
        struct kvt_volume_item *item = &items[count];

        *item = (struct kvt_volume_item){.size = size};
        if (scanf("%" SCNu64 " %" SCNu64 " %" SCNu32, &item->id.hash, &item->id.parent,
                  &item->id.position) != 3)
            break;
        item->bytes = kvt_aligned(KVBM_STORAGE_ALIGN, size);
        if (item->bytes == NULL)
            abort();
        memset(item->bytes, 0x5a, size);
        if (put)
            worker_content_fill(item->id.hash, item->bytes, size);
    }
    return count;
}

static const char *
verdict(const struct kvt_volume_item *item, bool put)
{
    const uint8_t *bytes = item->bytes;
    size_t first;

    if (!put && item->status == KVT_OK &&
        worker_content_check(item->id.hash, bytes, item->size, &first) != 0)
        return "WRONG";
    if (!put && item->status != KVT_OK && item->status != KVT_NOTFOUND &&
        (bytes[0] != 0 || memcmp(bytes, bytes + 1, item->size - 1) != 0))
        return "LEFTOVERS";
    return kvt_err_name(item->status);
}

int
main(int argc, char **argv)
{
    static struct kvt_volume_item items[BLOCKS_MAX];
    struct kvbm_volume *volume;
    struct kvbm_volumes *set;
    struct g4_store *store;
    struct kvt_error err = {.code = KVT_OK};
    size_t size;
    size_t count;
    bool put;

    if (argc != 7)
        return 2;
    put = strcmp(argv[1], "put") == 0;
    size = strtoull(argv[6], NULL, 10);
    if (g4_s3_open(&store,
                   &(struct g4_s3_options){.endpoint = argv[2],
                                           .bucket = argv[3],
                                           .region = "",
                                           .access_key = getenv("AWS_ACCESS_KEY_ID"),
                                           .secret_key = getenv("AWS_SECRET_ACCESS_KEY"),
                                           .session_token = "",
                                           .ca_file = "",
                                           .path_style = true},
                   &err) != KVT_OK ||
        kvbm_volumes_new(&set, &err) != KVT_OK ||
        worker_bucket_volume(
            &volume,
            &(struct worker_bucket_options){
                .store = store,
                .revision = (enum kvt_key_revision)(KVT_KEY_KVBM_A + (argv[4][0] - 'a')),
                .namespace_ = "",
                .rank = (uint32_t)strtoul(argv[5], NULL, 10),
                .block_size = size,
                .fingerprint = FINGERPRINT,
            },
            &err) != KVT_OK ||
        kvbm_volumes_register(set, 1, volume, 4, &err) != KVT_OK) {
        (void)fprintf(stderr, "bucket_mover: %s\n", err.text);
        return 1;
    }
    count = read_items(items, size, put);
    (void)!kvbm_volumes_run(set, &(struct kvbm_volume_request){
                                     .volume = 1,
                                     .verb = put ? KVT_VOLUME_PUT : KVT_VOLUME_GET,
                                     .items = items,
                                     .count = count,
                                 });
    for (size_t i = 0; i < count; i++) {
        (void)printf("%s\n", verdict(&items[i], put));
        kvt_free(items[i].bytes);
    }
    kvbm_volumes_free(set);
    g4_store_close(store);
    return 0;
}
