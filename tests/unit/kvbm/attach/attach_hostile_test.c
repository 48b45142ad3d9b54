/*
 * What is tested: a partner that keeps to nothing: it writes anything into the rings and their
 * indices, takes no completions, floods the socket with wake-ups and descriptors, gives its pages
 * back and leaves half-way.  The worker goes on, another engine keeps its blocks and their bytes,
 * and in the end nothing is held and no descriptor is left.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/random.h"
#include "kvbm/attach/channel.h"
#include "kvbm/attach/sealed_memory.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/attach/attach_bed.h"

enum { BLOCKS = 8, CHAIN = 6, ROUNDS = 150, WAIT = 10000, RECORDS = 200 };

struct hostile {
    int socket;
    int memory;
    uint8_t *shared;
    struct kvbm_ring requests;
    uint64_t *random;
};

static int
dial(const struct attach_bed *bed)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && strlen(bed->path) < sizeof(address.sun_path));
    memcpy(address.sun_path, bed->path, strlen(bed->path));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* As an engine, up to its rings; false: there is no place yet. */
static bool
come_in(struct hostile *hostile, const struct attach_bed *bed)
{
    struct kvbm_attach_hello hello = {
        .head = kvbm_attach_head(KVBM_ATTACH_HELLO, sizeof(hello)),
        .block_count = BLOCKS,
    };
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT;
    struct kvbm_attach_answer answer;
    struct kvbm_attach_control *control;
    uint8_t greeting[sizeof(answer)];
    void *shared;
    size_t size;
    int rings;

    hostile->socket = dial(bed);
    assert_int_equal(
        kvbm_channel_receive(hostile->socket, greeting, sizeof(greeting), until_ms, &size, NULL),
        KVT_OK);
    if (size != sizeof(struct kvbm_attach_greeting)) {
        (void)close(hostile->socket);
        return false;
    }
    kvbm_layout_serialize(&bed->layout, hello.layout);
    hostile->memory = kvbm_sealed_make("hostile", BLOCKS * ATTACH_BED_SIZE);
    assert_int_equal(kvbm_channel_send(hostile->socket, &hello, sizeof(hello), hostile->memory),
                     KVT_OK);
    assert_int_equal(
        kvbm_channel_receive(hostile->socket, &answer, sizeof(answer), until_ms, &size, &rings),
        KVT_OK);
    assert_int_equal(answer.status, KVT_OK);
    assert_int_equal(kvbm_sealed_map(&shared, rings, KVBM_ATTACH_MEMORY, NULL), KVT_OK);
    assert_int_not_equal(ftruncate(rings, 0), 0); /* it is sealed */
    (void)close(rings);
    hostile->shared = shared;
    control = shared;
    kvbm_ring_init(&hostile->requests, &control->requests, hostile->shared + KVBM_ATTACH_CONTROL,
                   KVBM_ATTACH_RING);
    return true;
}

static void
go(struct hostile *hostile)
{
    (void)munmap(hostile->shared, KVBM_ATTACH_MEMORY);
    (void)close(hostile->memory);
    (void)close(hostile->socket);
}

static void
anything_anywhere(struct hostile *hostile)
{
    for (int i = 0; i < RECORDS; i++) {
        const uint64_t word = kvt_random_next(hostile->random);
        const size_t at = (size_t)kvt_random_below(hostile->random, 4) > 0
                              ? (size_t)kvt_random_below(hostile->random, 384)
                              : (size_t)kvt_random_below(hostile->random, KVBM_ATTACH_MEMORY - 8);

        memcpy(hostile->shared + at / 8 * 8, &word, sizeof(word));
        kvbm_channel_nudge(hostile->socket);
    }
}

/* A block that may be ours, with bytes that are not what its name says. */
static struct kvbm_attach_entry
guess(struct hostile *hostile)
{
    return (struct kvbm_attach_entry){
        .handle = {(uint32_t)kvt_random_below(hostile->random, BLOCKS),
                   1 + (uint32_t)kvt_random_below(hostile->random, 2)},
        .name = {.hash = ATTACH_BED_HONEST + kvt_random_below(hostile->random, 500)},
    };
}

/* Requests of any kind, whose completions nobody takes. */
static void
ask_and_never_listen(struct hostile *hostile)
{
    static struct kvbm_attach_message message;

    for (int i = 0; i < RECORDS; i++) {
        size_t size = (size_t)kvt_random_below(hostile->random, 600);
        enum kvt_err rc;

        for (size_t j = 0; j < 64; j++)
            message.numbers[j] = kvt_random_below(hostile->random, 64);
        message.head = (struct kvbm_attach_record){
            .op = (uint32_t)kvt_random_below(hostile->random, KVBM_ATTACH_OP_END + 1),
            .count = (uint32_t)kvt_random_below(hostile->random, 8),
            .value = kvt_random_below(hostile->random, 12),
        };
        if (i % 20 == 0) { /* so that there is something to guess */
            message.head = (struct kvbm_attach_record){.op = KVBM_ATTACH_ALLOCATE, .value = 3};
            size = sizeof(message.head);
        } else if (message.head.op == KVBM_ATTACH_MATCH && i % 2 == 0) {
            message.head.count = KVBM_ATTACH_REQUEST_MAX;
            size = sizeof(message.head) + KVBM_ATTACH_REQUEST_MAX * sizeof(uint64_t);
        } else if (message.head.op == KVBM_ATTACH_DROP || message.head.op == KVBM_ATTACH_MATCH) {
            size = sizeof(message.head) + message.head.count * 8;
        } else if (message.head.op == KVBM_ATTACH_REGISTER) {
            message.head.value %= 2;
            for (uint32_t j = 0; j < message.head.count; j++)
                message.entries[j] = guess(hostile);
            size = sizeof(message.head) + message.head.count * sizeof(struct kvbm_attach_entry);
        } else if (message.head.op == KVBM_ATTACH_STATS ||
                   message.head.op == KVBM_ATTACH_ALLOCATE) {
            message.head.count = 0;
            size = sizeof(message.head);
        }
        rc = kvbm_ring_put(&hostile->requests, &message, size);
        assert_true(rc == KVT_OK || rc == KVT_AGAIN);
        if (kvbm_ring_wake(&hostile->requests))
            kvbm_channel_nudge(hostile->socket);
    }
}

static void
flood_the_socket(struct hostile *hostile)
{
    for (int i = 0; i < RECORDS; i++) {
        kvbm_channel_nudge(hostile->socket);
        (void)!kvbm_channel_send(hostile->socket, "descriptor", 10, hostile->memory);
    }
}

/* Blocks on their way down whose pages go. */
static void
take_pages_back(struct hostile *hostile)
{
    ask_and_never_listen(hostile);
    (void)fallocate(hostile->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    BLOCKS * ATTACH_BED_SIZE);
    assert_int_not_equal(ftruncate(hostile->memory, 0), 0);
}

static void
misbehave(struct hostile *hostile)
{
    switch (kvt_random_below(hostile->random, 6)) {
    case 0: anything_anywhere(hostile); break;
    case 1: ask_and_never_listen(hostile); break;
    case 2: flood_the_socket(hostile); break;
    case 3: take_pages_back(hostile); break;
    case 4: (void)shutdown(hostile->socket, SHUT_WR); break;
    default: (void)shutdown(hostile->socket, SHUT_RD); break;
    }
}

static size_t
open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count;
}

static void
hold_chain(struct kvt_attach *engine, struct kvt_shared *held)
{
    struct kvt_block_info infos[CHAIN];
    struct kvt_unique fresh[CHAIN];
    enum kvt_err results[CHAIN];

    assert_int_equal(kvt_attach_allocate(engine, CHAIN, fresh), KVT_OK);
    for (uint32_t i = 0; i < CHAIN; i++) {
        infos[i] = attach_bed_name(40, i);
        attach_bed_fill(kvt_attach_block(engine, fresh[i].handle.block), infos[i].id.hash);
    }
    assert_int_equal(kvt_attach_register(engine, fresh, infos, CHAIN, false, held, results),
                     KVT_OK);
}

static void
check_chain(struct kvt_attach *engine, const struct kvt_shared *held)
{
    uint64_t hashes[CHAIN];
    struct kvt_shared again[CHAIN];
    size_t count;

    for (uint32_t i = 0; i < CHAIN; i++) {
        hashes[i] = attach_bed_name(40, i).id.hash;
        assert_true(attach_bed_filled(kvt_attach_block(engine, held[i].handle.block), hashes[i]));
    }
    assert_int_equal(kvt_attach_match(engine, hashes, CHAIN, again, &count, NULL), KVT_OK);
    assert_int_equal(count, CHAIN);
    assert_memory_equal(again, held, sizeof(again));
    assert_int_equal(kvt_attach_drop(engine, again, CHAIN), KVT_OK);
}

static void
the_worker_goes_on(void **state)
{
    static struct attach_bed bed;
    uint64_t random = test_seed();
    const size_t descriptors = open_descriptors();
    struct kvt_shared held[CHAIN];
    struct kvbm_attach_stats stats;
    struct kvt_attach *good;

    (void)state;
    attach_bed_open(&bed);
    good = attach_bed_engine(&bed, 16);
    hold_chain(good, held);
    for (int round = 0; round < ROUNDS; round++) {
        struct hostile hostile = {.random = &random};
        const uint64_t until_ms = kvt_clock_mono_ms() + WAIT;

        while (!come_in(&hostile, &bed)) {
            assert_true(kvt_clock_mono_ms() < until_ms);
            kvt_clock_sleep_ms(5);
        }
        misbehave(&hostile);
        check_chain(good, held);
        misbehave(&hostile);
        go(&hostile);
    }
    kvbm_attach_stats(bed.attach, &stats);
    assert_true(stats.broken > 0);
    assert_true(kvbm_pool_stats(bed.below.g2.pool).registrations > 0); /* some guessed right */
    check_chain(good, held);
    kvt_attach_close(good);
    attach_bed_rest(&bed);
    attach_bed_close(&bed);
    assert_int_equal(open_descriptors(), descriptors);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worker_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
