/*
 * What is tested: gateway/block/unsynced.h with put.h and recover.h.  The hot copy of a block that
 * the bucket has is not synced before the PUT is acknowledged: whatever a power cut makes of it,
 * the block is served, the row tells the truth, and nobody calls it damage.  Where the hot copy is
 * what an acknowledgement stands on, it is synced; and what a disk failed to write is not believed
 * because it is asked again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "g4/directory/file_name.h"
#include "g4/directory/object_file.h"
#include "g4/object/check.h"
#include "gateway/block/damage.h"
#include "gateway/block/removal.h"
#include "gateway/block/repair.h"
#include "gateway/block/unsynced.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/quarantine.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = 5000, HOT = 1 << 20, ROOM = 1 << 20 };

/* What a power cut may leave of a file that was not synced. */
enum left { LEFT_WHOLE, LEFT_NOTHING, LEFT_EMPTY, LEFT_SHORT, LEFT_ZEROES, LEFT_HOLE, LEFT_COUNT };

/* The disk below the hot volume: what its syncs are told. */
static struct {
    _Atomic unsigned syncs; /* since it was last set to 0 */
    _Atomic unsigned fail;  /* so many of the next ones fail, and the pages count as written */
} disk;

/* In place of the C library's. */
int
fsync(int fd)
{
    char link[64];
    char path[4096] = "";

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "/hot/") != NULL) {
        unsigned fail = atomic_load(&disk.fail);

        atomic_fetch_add(&disk.syncs, 1);
        while (fail > 0 && !atomic_compare_exchange_weak(&disk.fail, &fail, fail - 1))
            ;
        if (fail > 0) {
            errno = EIO;
            return -1;
        }
    }
    return (int)syscall(SYS_fsync, fd);
}

static void
path_of(const struct test_gateway *g, uint64_t number, char path[4096])
{
    char key[KVT_KEY_MAX];
    char name[G4_FILE_NAME_MAX];

    g4_file_name_format(test_gateway_key(key, number), name);
    (void)snprintf(path, 4096, "%s/objects/%s", g->hot, name);
}

static void
cut(const struct test_gateway *g, uint64_t number, enum left left)
{
    static const uint8_t zeroes[G4_OBJECT_FILE_BODY_AT + SIZE];
    char path[4096];

    path_of(g, number, path);
    switch (left) {
    case LEFT_WHOLE: assert_int_equal(access(path, F_OK), 0); return;
    case LEFT_NOTHING: assert_int_equal(unlink(path), 0); return;
    case LEFT_EMPTY: assert_int_equal(truncate(path, 0), 0); return;
    case LEFT_SHORT: assert_int_equal(truncate(path, G4_OBJECT_FILE_BODY_AT + SIZE / 2), 0); return;
    default: break;
    }
    const int fd = open(path, O_WRONLY);
    const size_t from =
        left == LEFT_ZEROES ? 0 : G4_OBJECT_FILE_BODY_AT; /* a sound header remains */
    const size_t size = sizeof(zeroes) - from;

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, zeroes, size, (off_t)from), size);
    assert_int_equal(close(fd), 0);
}

static uint64_t
unsynced(const struct test_gateway *g)
{
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(g->context->catalog, &stats);
    assert_int_equal(stats.unsynced_bytes, stats.unsynced_blocks * SIZE);
    return stats.unsynced_blocks;
}

static enum kvt_err
synced(struct test_gateway *g)
{
    char after[KVT_KEY_MAX] = "";

    return gateway_unsynced_sync(g->context, after, 60000);
}

static void
what_a_cut_leaves(void **state)
{
    (void)state;
    for (enum left left = LEFT_WHOLE; left < LEFT_COUNT; left++) {
        const bool whole = left == LEFT_WHOLE;
        struct gateway_catalog_stats stats;
        struct test_gateway g;
        char path[4096];
        unsigned tier;

        test_gateway_open(&g, HOT, 0);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
        assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_OK);
        assert_int_equal(unsynced(&g), 2);
        cut(&g, 1, left);
        test_gateway_reopen(&g);
        assert_int_equal(test_gateway_tiers(&g, 1, NULL),
                         GATEWAY_COLD | (whole ? GATEWAY_HOT : 0u));
        assert_int_equal(test_gateway_tiers(&g, 2, NULL), GATEWAY_COLD | GATEWAY_HOT);
        gateway_catalog_stats(g.context->catalog, &stats);
        assert_int_equal(stats.used[0], whole ? 2 * SIZE : SIZE);
        path_of(&g, 1, path);
        assert_int_equal(access(path, F_OK), whole ? 0 : -1);
        assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
        assert_int_equal(tier, whole ? 0 : 1);
        assert_int_equal(gateway_quarantine_count(g.context->quarantine), 0);
        assert_int_equal(unsynced(&g), 2); /* until they are synced, or seen to be gone */
        assert_int_equal(synced(&g), KVT_OK);
        assert_int_equal(unsynced(&g), 0);
        test_gateway_close(&g);
    }
}

/* Of a synced copy all damage is damage: nobody looks for it at the start, and it leaves evidence.
 */
static void
synced_is_no_longer_forgiven(void **state)
{
    struct test_gateway g;
    unsigned tier;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(synced(&g), KVT_OK);
    assert_int_equal(unsynced(&g), 0);
    cut(&g, 1, LEFT_HOLE);
    test_gateway_reopen(&g);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_COLD | GATEWAY_HOT);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 1);
    assert_int_equal(gateway_quarantine_count(g.context->quarantine), 1);
    test_gateway_close(&g);
}

/* The cut came between the bucket's PUT and the row: there is an intent, and no note. */
static void
cut_before_the_row(void **state)
{
    (void)state;
    for (enum left left = LEFT_WHOLE; left < LEFT_COUNT; left++) {
        const bool whole = left == LEFT_WHOLE;
        struct test_gateway g;
        enum gateway_state row;
        char path[4096];

        test_gateway_open(&g, HOT, 0);
        test_gateway_fault(&g, G4_PUT, G4_FAULT_LOSE, KVT_IO, 1);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_AGAIN);
        assert_int_equal(unsynced(&g), 0);
        cut(&g, 1, left);
        test_gateway_reopen(&g);
        assert_int_equal(gateway_recover_pending(g.context), 1);
        assert_int_equal(test_gateway_tiers(&g, 1, &row),
                         GATEWAY_COLD | (whole ? GATEWAY_HOT : 0u));
        assert_int_equal(row, GATEWAY_STORED);
        path_of(&g, 1, path);
        assert_int_equal(access(path, F_OK), whole ? 0 : -1);
        assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
        assert_int_equal(gateway_quarantine_count(g.context->quarantine), 0);
        test_gateway_close(&g);
    }
}

/* A note of bytes that were replaced since says nothing of those that are there. */
static void
note_is_of_one_writing(void **state)
{
    struct gateway_unsynced_row row;
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    size_t count;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(gateway_catalog_unsynced(g.context->catalog, "", &row, 1, &count), KVT_OK);
    assert_int_equal(count, 1);
    assert_string_equal(row.key, test_gateway_key(key, 1));
    assert_int_equal(row.length, SIZE);
    assert_int_equal(gateway_remove(g.context, key), KVT_OK);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(gateway_catalog_synced(g.context->catalog, &row, 1), KVT_OK);
    assert_int_equal(unsynced(&g), 1);
    assert_int_equal(gateway_catalog_unsynced(g.context->catalog, row.key, &row, 1, &count),
                     KVT_OK);
    assert_int_equal(count, 0);
    test_gateway_close(&g);
}

/* Many notes go page by page, and none is left out. */
static void
all_are_synced(void **state)
{
    enum { MANY = 150 };
    struct gateway_catalog_stats stats;
    char after[KVT_KEY_MAX] = "";
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(test_gateway_put(&g, i, SIZE), KVT_OK);
    assert_int_equal(unsynced(&g), MANY);
    atomic_store(&disk.syncs, 0);
    assert_int_equal(gateway_unsynced_sync(g.context, after, 0),
                     KVT_OK); /* no patience: one batch */
    assert_int_equal(unsynced(&g), MANY - 64);
    assert_int_equal(atomic_load(&disk.syncs), 2 * 64);
    assert_int_equal(synced(&g), KVT_OK);
    assert_int_equal(unsynced(&g), 0);
    assert_int_equal(atomic_load(&disk.syncs), 2 * MANY);
    gateway_catalog_stats(g.context->catalog, &stats);
    assert_false(gateway_unsynced_room(&stats, 1, GATEWAY_UNSYNCED_MAX + 1));
    assert_true(gateway_unsynced_room(&stats, 1, GATEWAY_UNSYNCED_MAX));
    test_gateway_close(&g);
}

/* Leave the block's hot copy alone in its row, as after damage in the bucket. */
static void
leave_hot_alone(struct test_gateway *g, uint64_t number)
{
    struct g4_request drop = {.verb = G4_DELETE};
    struct gateway_change change;
    char key[KVT_KEY_MAX];

    change = (struct gateway_change){.key = test_gateway_key(key, number)};
    drop.key = key;
    assert_int_equal(g4_store_perform(g->bucket, &drop), KVT_OK);
    assert_int_equal(gateway_catalog_get(g->context->catalog, key, &change.record), KVT_OK);
    change.record.tiers = GATEWAY_HOT;
    assert_int_equal(gateway_catalog_change(g->context->catalog, &change, 1, GATEWAY_DURABLE),
                     KVT_OK);
}

/* Where the hot copy is all there is of a block, or may come to be, it is synced: the file, and the
 * folder. */
static void
the_only_copy_is_synced(void **state)
{
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    atomic_store(&disk.syncs, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(atomic_load(&disk.syncs), 0);
    assert_int_equal(synced(&g), KVT_OK);
    assert_int_equal(atomic_load(&disk.syncs), 2);
    leave_hot_alone(&g, 1);
    atomic_store(&disk.syncs, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK); /* over the copy that is kept */
    assert_int_equal(atomic_load(&disk.syncs), 2);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(unsynced(&g), 0);

    g.options.write_back = true;
    g.options.backlog_max = ROOM;
    test_gateway_reopen(&g);
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    atomic_store(&disk.syncs, 0);
    assert_int_equal(test_gateway_put(&g, 2, SIZE), KVT_OK);
    assert_int_equal(atomic_load(&disk.syncs), 2);
    assert_int_equal(test_gateway_tiers(&g, 2, NULL), GATEWAY_HOT);
    assert_int_equal(unsynced(&g), 0);
    test_gateway_close(&g);
}

/* A PUT over the only copy came to no end.  While nobody can look at that copy, or the disk does
 * not take it, nothing is decided; then it is kept. */
static void
the_only_copy_is_not_given_up(void **state)
{
    struct gateway_budget budget = {.max = UINT64_C(4) * SIZE};
    enum gateway_state row;
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    g.options.budget = &budget;
    test_gateway_reopen(&g);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    leave_hot_alone(&g, 1);
    test_gateway_fault(&g, G4_PUT, G4_FAULT_FAIL, KVT_TIMEOUT, 1);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_AGAIN);
    gateway_bucket_tier_probe(g.context->tiers.buckets);
    budget.used = budget.max; /* somebody's */
    assert_int_equal(gateway_recover_pending(g.context), 0);
    budget.used = 0;
    atomic_store(&disk.fail, 1);
    assert_int_equal(gateway_recover_pending(g.context), 0);
    assert_int_equal(atomic_load(&disk.fail), 0);
    (void)test_gateway_tiers(&g, 1, &row);
    assert_int_equal(row, GATEWAY_INTENT);
    atomic_store(&disk.syncs, 0);
    assert_int_equal(gateway_recover_pending(g.context), 1);
    assert_int_equal(atomic_load(&disk.syncs), 2);
    assert_int_equal(test_gateway_tiers(&g, 1, &row), GATEWAY_HOT);
    assert_int_equal(row, GATEWAY_STORED);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(budget.used, 0);
    test_gateway_close(&g);
}

/* The disk says once that it failed to write a copy.  That copy goes: the next sync would find
 * nothing wrong with it. */
static void
refused_copies_go(void **state)
{
    struct test_gateway g;
    unsigned hot = 0;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(test_gateway_put(&g, i, SIZE), KVT_OK);
    atomic_store(&disk.fail, 1);
    assert_int_equal(synced(&g), KVT_IO);
    for (uint64_t i = 1; i <= 3; i++) {
        const unsigned tiers = test_gateway_tiers(&g, i, NULL);
        char path[4096];

        path_of(&g, i, path);
        assert_true((tiers & GATEWAY_COLD) != 0);
        assert_int_equal(access(path, F_OK), (tiers & GATEWAY_HOT) != 0 ? 0 : -1);
        hot += (tiers & GATEWAY_HOT) != 0 ? 1 : 0;
        assert_int_equal(test_gateway_get(&g, i, SIZE, NULL), KVT_OK);
    }
    assert_int_equal(hot, 2);
    assert_int_equal(unsynced(&g), 3);
    assert_int_equal(synced(&g), KVT_OK);
    assert_int_equal(unsynced(&g), 0);
    assert_int_equal(gateway_quarantine_count(g.context->quarantine), 0);
    test_gateway_close(&g);
}

/* The bucket does not have the block: then a copy that was refused is written anew. */
static void
refused_and_the_only_one(void **state)
{
    struct stat before;
    struct stat later;
    struct test_gateway g;
    char path[4096];

    (void)state;
    test_gateway_open(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    leave_hot_alone(&g, 1);
    path_of(&g, 1, path);
    assert_int_equal(stat(path, &before), 0);
    atomic_store(&disk.syncs, 0);
    atomic_store(&disk.fail, 1);
    assert_int_equal(synced(&g), KVT_IO);
    assert_int_equal(atomic_load(&disk.syncs),
                     3); /* the one that failed, the new file, the folder */
    assert_int_equal(stat(path, &later), 0);
    assert_true(before.st_ino != later.st_ino);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    test_gateway_close(&g);
}

/* The bucket's object is bad: before it leaves the row the hot copy is written anew, and while that
 * fails the object stays. */
static void
left_alone_by_damage(void **state)
{
    struct stat before;
    struct stat later;
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    char path[4096];
    char bad[4096 + 256];

    (void)state;
    test_gateway_open(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    path_of(&g, 1, path);
    assert_int_equal(stat(path, &before), 0);
    (void)snprintf(bad, sizeof(bad), "%s/objects/%s", g.cold, strrchr(path, '/') + 1);
    const int fd = open(bad, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "no", 2, G4_OBJECT_FILE_BODY_AT + 7), 2);
    assert_int_equal(close(fd), 0);
    atomic_store(&disk.fail, 1);
    gateway_repair_inspect(g.context, test_gateway_key(key, 1));
    assert_int_equal(atomic_load(&disk.fail), 0);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    atomic_store(&disk.syncs, 0);
    gateway_repair_inspect(g.context, key);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT);
    assert_int_equal(atomic_load(&disk.syncs), 2);
    assert_int_equal(stat(path, &later), 0);
    assert_true(before.st_ino != later.st_ino);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    test_gateway_close(&g);
}

/* What fails keeps nobody waiting: the batches behind it are synced, and the next round goes on
 * where the last one ended. */
static void
failures_are_passed_by(void **state)
{
    enum { MANY = 150, BATCH = 64 };
    char after[KVT_KEY_MAX] = "";
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, UINT64_C(2) * HOT, 0);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(test_gateway_put(&g, i, SIZE), KVT_OK);
    atomic_store(&disk.fail, 1);
    assert_int_equal(gateway_unsynced_sync(g.context, after, 0), KVT_IO);
    assert_int_equal(unsynced(&g), MANY);
    assert_int_equal(gateway_unsynced_sync(g.context, after, 0), KVT_OK);
    assert_int_equal(unsynced(&g), MANY - BATCH);
    assert_int_equal(gateway_unsynced_sync(g.context, after, 60000), KVT_OK); /* and around */
    assert_int_equal(unsynced(&g), 0);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(test_gateway_put(&g, MANY + i, SIZE), KVT_OK);
    atomic_store(&disk.fail, 1);
    after[0] = '\0';
    assert_int_equal(gateway_unsynced_sync(g.context, after, 60000), KVT_IO);
    assert_int_equal(unsynced(&g), BATCH);
    test_gateway_close(&g);
}

/* A torn file that does not go is no reason not to start: its row speaks of it no more. */
static void
a_torn_file_stays(void **state)
{
    struct test_gateway g;
    uint64_t dropped;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    cut(&g, 1, LEFT_SHORT);
    atomic_store(&disk.fail, 1);
    assert_int_equal(gateway_unsynced_check(g.context, &dropped), KVT_OK);
    assert_int_equal(atomic_load(&disk.fail), 0);
    assert_int_equal(dropped, 1);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_COLD);
    test_gateway_close(&g);
}

/* Note so many small copies that are not there, as the row of `like` says of its own. */
static void
note(struct test_gateway *g, const char *like, uint64_t from, uint64_t count)
{
    enum { TOGETHER = 512 };
    static char keys[TOGETHER][KVT_KEY_MAX];
    static struct gateway_change changes[TOGETHER];
    struct gateway_record record;

    assert_int_equal(gateway_catalog_get(g->context->catalog, like, &record), KVT_OK);
    record.length = 1;
    while (count > 0) {
        const size_t some = count < TOGETHER ? count : TOGETHER;

        for (size_t i = 0; i < some; i++)
            changes[i] = (struct gateway_change){
                .key = test_gateway_key(keys[i], from + i), .record = record, .unsynced = true};
        assert_int_equal(
            gateway_catalog_change(g->context->catalog, changes, some, GATEWAY_APPLIED), KVT_OK);
        from += some;
        count -= some;
    }
}

/* Their number is bounded like their bytes, and a batch counts what it leaves itself. */
static void
no_more_than_are_soon_read(void **state)
{
    static const uint8_t body[2][SIZE] = {{1}, {2}};
    struct gateway_put_item items[2];
    struct gateway_catalog_stats stats;
    struct test_gateway g;
    char keys[3][KVT_KEY_MAX];

    (void)state;
    test_gateway_open(&g, HOT, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    test_gateway_key(keys[2], 1);
    note(&g, keys[2], 100, GATEWAY_UNSYNCED_BLOCKS / 2 - 2);
    gateway_catalog_stats(g.context->catalog, &stats);
    assert_false(gateway_unsynced_many(&stats));
    note(&g, keys[2], 100000, GATEWAY_UNSYNCED_BLOCKS / 2);
    gateway_catalog_stats(g.context->catalog, &stats);
    assert_true(gateway_unsynced_many(&stats));
    assert_int_equal(stats.unsynced_blocks, GATEWAY_UNSYNCED_BLOCKS - 1);
    assert_false(gateway_unsynced_room(&stats, 2, 2));
    for (unsigned i = 0; i < 2; i++)
        items[i] = (struct gateway_put_item){.key = test_gateway_key(keys[i], 2 + i),
                                             .body = body[i],
                                             .size = SIZE,
                                             .crc32c = g4_check_crc32c(body[i], SIZE)};
    atomic_store(&disk.syncs, 0);
    gateway_put_blocks(g.context, items, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(items[i].status, KVT_OK);
        assert_int_equal(test_gateway_tiers(&g, 2 + i, NULL), GATEWAY_HOT | GATEWAY_COLD);
    }
    gateway_catalog_stats(g.context->catalog, &stats);
    assert_int_equal(stats.unsynced_blocks, GATEWAY_UNSYNCED_BLOCKS);
    assert_int_equal(atomic_load(&disk.syncs), 2); /* a file and its folder */
    test_gateway_close(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_cut_leaves),
        cmocka_unit_test(synced_is_no_longer_forgiven),
        cmocka_unit_test(cut_before_the_row),
        cmocka_unit_test(note_is_of_one_writing),
        cmocka_unit_test(all_are_synced),
        cmocka_unit_test(the_only_copy_is_synced),
        cmocka_unit_test(the_only_copy_is_not_given_up),
        cmocka_unit_test(refused_copies_go),
        cmocka_unit_test(refused_and_the_only_one),
        cmocka_unit_test(left_alone_by_damage),
        cmocka_unit_test(failures_are_passed_by),
        cmocka_unit_test(a_torn_file_stays),
        cmocka_unit_test(no_more_than_are_soon_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
