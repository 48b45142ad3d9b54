/*
 * A folder that keeps blocks by their names: put one, get it back, in this process or the next.
 *
 *     cc -o volume folder_volume.c $(pkg-config --cflags --libs libkvbm)
 */
#include <stdio.h>
#include <string.h>

#include "kvtier/volume.h"

enum { NUMBER = 1, SIZE = 65536 };

static enum kvt_err
ask(struct kvt_volumes *set, enum kvt_volume_verb verb, uint64_t hash, void *bytes)
{
    struct kvt_volume_item item = {.id = {.hash = hash}, .bytes = bytes, .size = SIZE};
    const struct kvt_volume_request request = {
        .size = sizeof(request), .volume = NUMBER, .verb = verb, .items = &item, .count = 1};

    const enum kvt_err rc = kvt_volumes_run(set, &request, NULL); /* _start() would not wait */

    return rc == KVT_OK ? item.status : rc; /* of several items each has its own */
}

int
main(void)
{
    static uint8_t bytes[SIZE];
    const struct kvt_volume_options options = {.size = sizeof(options),
                                               .kind = KVT_VOLUME_DIRECTORY,
                                               .path = "volume.blocks",
                                               .blocks = 1000,
                                               .block_size = SIZE};
    struct kvt_volume *volume = NULL;
    struct kvt_volumes *set = NULL;
    struct kvt_error err;
    enum kvt_err rc;

    if (kvt_volumes_new(&set, &err) != KVT_OK ||
        kvt_volume_open(&volume, &options, &err) != KVT_OK ||
        kvt_volumes_register(set, NUMBER, volume, 8, &err) != KVT_OK) {
        (void)fprintf(stderr, "volume: %s\n", err.text);
        return 1;
    }
    memset(bytes, 7, SIZE);
    (void)printf("put: %s\n", kvt_err_name(ask(set, KVT_VOLUME_PUT, 42, bytes)));
    memset(bytes, 0, SIZE);
    rc = ask(set, KVT_VOLUME_GET, 42, bytes);
    (void)printf("get: %s, %d\n", kvt_err_name(rc), bytes[SIZE - 1]);
    (void)printf("another: %s\n", kvt_err_name(ask(set, KVT_VOLUME_GET, 43, bytes)));
    kvt_volumes_free(set);
    return 0;
}
