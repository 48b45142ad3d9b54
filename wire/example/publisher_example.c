/*
 * What an engine does to be seen: cc engine.c $(pkg-config --cflags --libs kvtier-publisher)
 * usage: engine nats://127.0.0.1:4222 NAMESPACE WORKER BLOCKS
 *
 * Stores a sequence of blocks in host memory and on disk, drops the second half from memory, and
 * goes on holding the rest until its standard input ends.
 */
#include <inttypes.h>
#include <kvtier/publisher.h>
#include <stdio.h>
#include <stdlib.h>

enum { MEMORY, DISK, LONGEST = KVT_PUBLISHER_BLOCKS_MAX };

int
main(int argc, char **argv)
{
    static const struct kvt_location locations[] = {
        [MEMORY] = {.tier = KVT_TIER_G2, .name = "host"},
        [DISK] = {.tier = KVT_TIER_G3, .name = "/var/cache/kv"},
    };
    static struct kvt_publisher_block blocks[LONGEST];
    static uint64_t dropped[LONGEST];
    const size_t count = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
    struct kvt_publisher_options options = {.size = sizeof(options), .connect_now = 1};
    struct kvt_publisher *publisher;
    struct kvt_error err;

    if (count == 0 || count > LONGEST)
        return 2;
    options.url = argv[1];
    options.namespace_ = argv[2];
    options.worker = argv[3];
    options.locations = locations;
    options.location_count = 2;
    if (kvt_publisher_open(&publisher, &options, &err) != KVT_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < count; i++) { /* an engine has its own chained hashes */
        blocks[i].sequence_hash = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
        blocks[i].parent = i == 0 ? 0 : blocks[i - 1].sequence_hash;
        blocks[i].position = (uint32_t)i;
        blocks[i].bytes = 65536;
        dropped[i] = blocks[i].sequence_hash;
    }
    if (kvt_publisher_stored(publisher, MEMORY, blocks, count) != KVT_OK ||
        kvt_publisher_stored(publisher, DISK, blocks, count) != KVT_OK ||
        kvt_publisher_removed(publisher, MEMORY, dropped + count / 2, count - count / 2, 0) ||
        kvt_publisher_flush(publisher, 10000) != KVT_OK)
        return 1;
    (void)printf("ranks of the last block on disk: %" PRIx32 "\n",
                 kvt_publisher_holds(publisher, DISK, blocks[count - 1].sequence_hash));
    (void)fflush(stdout);
    while (getchar() != EOF)
        continue;
    kvt_publisher_close(publisher, true);
    return 0;
}
