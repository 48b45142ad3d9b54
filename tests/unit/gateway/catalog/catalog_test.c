/*
 * What is tested: gateway/catalog/catalog.h.  A long random run is compared with a model (an array
 * of rows): rows, counters, and the state that replaying the outbox gives, also over reopening and
 * over the death of a process in the middle; caps, epochs, backlog and a full map by hand.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/store/lmdb.h"
#include "gateway/catalog/catalog.h"

#include "tests/support/seed.h"

enum { KEYS = 60, STEPS = 1500, PER_GROUP_MAX = 8, SPACES = 3, EVENTS_PAGE = 64 };

struct model_row {
    bool there;
    struct gateway_record record;
};

struct fixture {
    char folder[128];
    struct gateway_catalog *catalog;
    struct model_row rows[KEYS];
    unsigned replayed[KEYS]; /* tiers, as the events say */
    uint64_t read_seq[SPACES];
};

static struct gateway_catalog_options
options_of(const char *folder)
{
    return (struct gateway_catalog_options){
        .path = folder, .bytes_max = 64u << 20, .capacity = {1u << 20}, .revision = KVT_KEY_KVBM_B};
}

static struct gateway_catalog *
open_catalog(const char *folder)
{
    const struct gateway_catalog_options options = options_of(folder);
    struct gateway_catalog *catalog;
    struct kvt_error err;

    if (gateway_catalog_open(&catalog, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return catalog;
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    (void)test_folder_make(f->folder, sizeof(f->folder));
    f->catalog = open_catalog(f->folder);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    gateway_catalog_close(f->catalog);
    test_folder_remove(f->folder);
    kvt_free(f);
    return 0;
}

/* Blocks of three namespaces, one of them empty; the hash is the number. */
static const char *
key_of(char out[KVT_KEY_MAX], unsigned number)
{
    static const char *const spaces[SPACES] = {"a", "a/b", ""};
    const struct kvt_block_id block = {.hash = number + 1, .parent = number, .position = 9};

    assert_int_equal(kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, spaces[number % SPACES],
                                    number % 2, &block),
                     KVT_OK);
    return out;
}

static enum kvt_err
change_one(struct gateway_catalog *catalog, struct gateway_change *change)
{
    const enum kvt_err rc = gateway_catalog_change(catalog, change, 1, GATEWAY_DURABLE);

    return rc == KVT_OK ? change->status : rc;
}

/* Apply what the outbox has behind what was read, checking numbers, identities and order. */
static void
replay(struct fixture *f)
{
    struct gateway_event *events = kvt_calloc(EVENTS_PAGE, sizeof(*events));
    struct gateway_stream stream;

    for (uint32_t number = 0; gateway_catalog_stream(f->catalog, number, &stream); number++) {
        size_t count = 1;

        assert_true(number < SPACES);
        while (count > 0) {
            assert_int_equal(gateway_catalog_events(f->catalog, number, f->read_seq[number] + 1,
                                                    events, EVENTS_PAGE, &count),
                             KVT_OK);
            for (size_t i = 0; i < count; i++) {
                const struct kvt_event *event = &events[i].event;
                const unsigned bit = 1u << event->location;
                unsigned *tiers = &f->replayed[event->sequence_hash - 1];

                assert_int_equal(events[i].seq, ++f->read_seq[number]);
                assert_string_equal(events[i].namespace_, stream.namespace_);
                assert_int_equal(event->position, 9);
                assert_int_equal(event->parent, 0); /* only a fragment is known */
                assert_int_equal(event->ranks, 1u << ((event->sequence_hash - 1) % 2));
                /* Every event changes something: the difference is all that is told. */
                assert_int_equal((*tiers & bit) != 0, event->type == KVT_EVENT_REMOVE);
                *tiers ^= bit;
            }
        }
        assert_int_equal(f->read_seq[number], stream.next_seq - 1);
    }
    kvt_free(events);
}

static void
compare(struct fixture *f)
{
    struct gateway_catalog_stats stats;
    uint64_t used[GATEWAY_TIERS] = {0};
    uint64_t blocks[GATEWAY_TIERS] = {0};
    uint64_t entries = 0;
    uint64_t pending = 0;
    char key[KVT_KEY_MAX];

    replay(f);
    for (unsigned i = 0; i < KEYS; i++) {
        const struct model_row *row = &f->rows[i];
        struct gateway_record record;
        const enum kvt_err rc = gateway_catalog_get(f->catalog, key_of(key, i), &record);

        assert_int_equal(rc, row->there ? KVT_OK : KVT_NOTFOUND);
        assert_int_equal(f->replayed[i], row->there ? gateway_record_visible(&row->record) : 0);
        if (!row->there)
            continue;
        assert_int_equal(record.state, row->record.state);
        assert_int_equal(record.tiers, row->record.tiers);
        assert_int_equal(record.length, row->record.length);
        entries++;
        pending += row->record.state != GATEWAY_STORED;
        for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
            if ((row->record.tiers & (1u << tier)) != 0) {
                blocks[tier]++;
                used[tier] += row->record.length;
            }
        }
    }
    gateway_catalog_stats(f->catalog, &stats);
    assert_int_equal(stats.entries, entries);
    assert_int_equal(stats.pending, pending);
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        assert_int_equal(stats.used[tier], used[tier]);
        assert_int_equal(stats.blocks[tier], blocks[tier]);
    }
}

/* A random group of changes, on the model and on the catalog. */
static void
step(struct fixture *f, uint64_t *seed)
{
    struct gateway_change changes[PER_GROUP_MAX] = {0};
    char keys[PER_GROUP_MAX][KVT_KEY_MAX];
    const size_t count = 1 + kvt_random_below(seed, PER_GROUP_MAX);

    for (size_t i = 0; i < count; i++) {
        const unsigned number = (unsigned)kvt_random_below(seed, KEYS);
        struct gateway_change *change = &changes[i];
        struct model_row *row = &f->rows[number];

        change->key = key_of(keys[i], number);
        change->erase = kvt_random_below(seed, 4) == 0;
        change->only_if_absent = kvt_random_below(seed, 6) == 0;
        change->record =
            (struct gateway_record){.state = (enum gateway_state)(1 + kvt_random_below(seed, 3)),
                                    .tiers = (unsigned)(1 + kvt_random_below(seed, 3)),
                                    .length = kvt_random_below(seed, 5000)};
        if (change->only_if_absent && row->there)
            continue;
        row->there = !change->erase;
        row->record = change->record;
    }
    assert_int_equal(
        gateway_catalog_change(f->catalog, changes, count,
                               kvt_random_below(seed, 2) == 0 ? GATEWAY_APPLIED : GATEWAY_DURABLE),
        KVT_OK);
    if (kvt_random_below(seed, 3) == 0)
        gateway_catalog_acked(f->catalog, (uint32_t)kvt_random_below(seed, SPACES),
                              1 + kvt_random_below(seed, 50));
}

static void
random_run_against_model(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = test_seed();
    unsigned reopened = 0;

    for (int i = 0; i < STEPS; i++) {
        step(f, &seed);
        if (i % 100 != 99)
            continue;
        if (i == STEPS - 1 || kvt_random_below(&seed, 2) == 0) {
            gateway_catalog_close(f->catalog);
            f->catalog = open_catalog(f->folder);
            reopened++;
        } else {
            struct gateway_change none = {.key = "0/9:zz", .erase = true};

            assert_int_equal(change_one(f->catalog, &none), KVT_OK); /* all before is durable */
        }
        compare(f);
    }
    assert_true(reopened > 0);
}

/* A process that dies in the middle leaves whole groups: what was said to be durable is there. */
static void
death_in_the_middle(void **state)
{
    struct fixture *f = *state;
    char key[KVT_KEY_MAX];
    int pipes[2];
    unsigned told = 0;
    unsigned number;
    pid_t child;

    gateway_catalog_close(f->catalog);
    f->catalog = NULL;
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct gateway_catalog *catalog = open_catalog(f->folder);

        for (number = 0; number < KEYS; number++) {
            struct gateway_change change = {
                .key = key_of(key, number),
                .record = {.state = GATEWAY_STORED, .tiers = GATEWAY_COLD, .length = 10}};

            if (gateway_catalog_change(catalog, &change, 1, GATEWAY_DURABLE) != KVT_OK)
                _exit(1);
            if (write(pipes[1], &number, sizeof(number)) != sizeof(number))
                _exit(1);
            if (number == KEYS / 2)
                abort(); /* as kill -9: nothing is closed */
        }
        _exit(0);
    }
    (void)close(pipes[1]);
    while (read(pipes[0], &number, sizeof(number)) == sizeof(number))
        told = number + 1;
    (void)close(pipes[0]);
    (void)waitpid(child, NULL, 0);
    assert_int_equal(told, KEYS / 2 + 1);
    f->catalog = open_catalog(f->folder);
    for (unsigned i = 0; i < told; i++)
        f->rows[i] = (struct model_row){
            .there = true,
            .record = {.state = GATEWAY_STORED, .tiers = GATEWAY_COLD, .length = 10}};
    compare(f);
}

static void
life_and_numbers_go_on(void **state)
{
    struct fixture *f = *state;
    struct gateway_catalog_stats before;
    struct gateway_catalog_stats after;
    struct gateway_stream stream;
    char key[KVT_KEY_MAX];
    struct gateway_change change = {
        .key = key_of(key, 0),
        .record = {.state = GATEWAY_STORED, .tiers = GATEWAY_COLD, .length = 10}};

    assert_false(gateway_catalog_stream(f->catalog, 0, &stream));
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    gateway_catalog_acked(f->catalog, 0, 1);
    change.record.tiers = GATEWAY_HOT;
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    gateway_catalog_stats(f->catalog, &before);
    gateway_catalog_close(f->catalog);
    f->catalog = open_catalog(f->folder);
    gateway_catalog_stats(f->catalog, &after);
    assert_int_equal(after.incarnation, before.incarnation);
    assert_true(after.incarnation > 0);
    assert_true(gateway_catalog_stream(f->catalog, 0, &stream));
    assert_string_equal(stream.namespace_, "a");
    assert_int_equal(stream.next_seq, 4); /* Store cold, Store hot, Remove cold */
    assert_int_equal(stream.acked_seq, 1);
    assert_int_equal(stream.durable_seq, 3);
}

static void
epochs_only_rise(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(gateway_catalog_epoch(f->catalog, 5), KVT_OK);
    assert_int_equal(gateway_catalog_epoch(f->catalog, 5), KVT_OK);
    assert_int_equal(gateway_catalog_epoch(f->catalog, 4), KVT_DENIED);
    gateway_catalog_close(f->catalog);
    f->catalog = open_catalog(f->folder);
    assert_int_equal(gateway_catalog_epoch(f->catalog, 4), KVT_DENIED);
    assert_int_equal(gateway_catalog_epoch(f->catalog, 6), KVT_OK);
}

static void
caps_count_what_is_reserved(void **state)
{
    struct fixture *f = *state;
    struct gateway_catalog_options options = options_of(f->folder);
    struct gateway_change change;
    struct gateway_catalog_stats stats;
    struct kvt_error err;
    char key[KVT_KEY_MAX];

    gateway_catalog_close(f->catalog);
    options.capacity[GATEWAY_TIER_HOT] = 150;
    options.capacity[GATEWAY_TIER_COLD] = 250;
    assert_int_equal(gateway_catalog_open(&f->catalog, &options, &err), KVT_OK);
    for (unsigned i = 0; i < 3; i++) {
        change = (struct gateway_change){.key = key_of(key, i),
                                         .reserve = true,
                                         .record = {.state = GATEWAY_INTENT,
                                                    .tiers = GATEWAY_HOT | GATEWAY_COLD,
                                                    .length = 100}};
        assert_int_equal(change_one(f->catalog, &change), i < 2 ? KVT_OK : KVT_FULL);
        if (i == 0)
            assert_int_equal(change.record.tiers, GATEWAY_HOT | GATEWAY_COLD);
        if (i == 1)
            assert_int_equal(change.record.tiers, GATEWAY_COLD); /* hot is full: not an error */
    }
    /* The same key again replaces its own bytes. */
    change = (struct gateway_change){
        .key = key_of(key, 0),
        .reserve = true,
        .record = {.state = GATEWAY_INTENT, .tiers = GATEWAY_HOT | GATEWAY_COLD, .length = 150}};
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    assert_int_equal(change.record.tiers, GATEWAY_HOT | GATEWAY_COLD);
    gateway_catalog_stats(f->catalog, &stats);
    assert_int_equal(stats.used[0], 150);
    assert_int_equal(stats.used[1], 250);
    assert_int_equal(stats.pending, 2);
}

static void
backlog_gives_up_the_oldest(void **state)
{
    struct fixture *f = *state;
    struct gateway_catalog_options options = options_of(f->folder);
    struct gateway_event events[8];
    struct gateway_stream stream;
    struct kvt_error err;
    char key[KVT_KEY_MAX];
    size_t count;

    gateway_catalog_close(f->catalog);
    options.keep = 2;
    options.backlog = 5;
    assert_int_equal(gateway_catalog_open(&f->catalog, &options, &err), KVT_OK);
    for (unsigned i = 0; i < 12; i++) {
        struct gateway_change change = {
            .key = key_of(key, 0),
            .record = {.state = GATEWAY_STORED, .tiers = 1 + i % 2, .length = 1}};

        assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    }
    assert_true(gateway_catalog_stream(f->catalog, 0, &stream));
    assert_int_equal(stream.next_seq, 24); /* one Store, then eleven times two */
    assert_int_equal(stream.first_seq, 19);
    assert_int_equal(stream.lost, 18);
    assert_int_equal(gateway_catalog_events(f->catalog, 0, 1, events, 8, &count), KVT_OK);
    assert_int_equal(count, 5);
    assert_int_equal(events[0].seq, 19);
    /* Acknowledged events are kept for range(), `keep` of them. */
    gateway_catalog_acked(f->catalog, 0, 23);
    for (unsigned i = 0; i < 2; i++) {
        struct gateway_change change = {.key = key_of(key, 0), .erase = true};

        assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    }
    assert_true(gateway_catalog_stream(f->catalog, 0, &stream));
    assert_int_equal(stream.lost, 18);
    assert_int_equal(stream.acked_seq, 23);
    assert_int_equal(stream.next_seq - stream.first_seq, 2);
}

/* A full map refuses new rows, keeps serving, and takes removals, after which there is room
 * again. */
static void
full_map_is_a_state(void **state)
{
    struct fixture *f = *state;
    struct gateway_catalog_options options = options_of(f->folder);
    struct gateway_catalog_stats stats;
    struct gateway_record record;
    struct kvt_error err;
    char key[64];
    unsigned stored = 0;
    enum kvt_err rc = KVT_OK;

    gateway_catalog_close(f->catalog);
    options.bytes_max = 1u << 20;
    options.keep = 1;
    options.backlog = 1;
    assert_int_equal(gateway_catalog_open(&f->catalog, &options, &err), KVT_OK);
    for (; rc == KVT_OK && stored < 100000; stored++) {
        enum { GROUP = 64 };
        struct gateway_change changes[GROUP] = {0};
        char keys[GROUP][64];

        for (unsigned i = 0; i < GROUP; i++) {
            (void)snprintf(keys[i], sizeof(keys[i]), "opaque/%08u/%u", stored, i);
            changes[i] = (struct gateway_change){
                .key = keys[i],
                .reserve = true,
                .record = {.state = GATEWAY_STORED,
                           .tiers = GATEWAY_COLD,
                           .opaque = true,
                           .length = 1,
                           .etag = "0123456789012345678901234567890123456789"}};
        }
        rc = gateway_catalog_change(f->catalog, changes, GROUP, GATEWAY_DURABLE);
        for (unsigned i = 0; rc == KVT_OK && i < GROUP; i++)
            rc = changes[i].status;
    }
    assert_int_equal(rc, KVT_FULL);
    assert_true(stored > 10);
    gateway_catalog_stats(f->catalog, &stats);
    assert_true(stats.full);
    assert_int_equal(gateway_catalog_get(f->catalog, "opaque/00000000/0", &record), KVT_OK);
    for (unsigned i = 0; i < stored; i++) {
        enum { GROUP = 64 };
        struct gateway_change changes[GROUP] = {0};
        char keys[GROUP][64];

        for (unsigned j = 0; j < GROUP; j++) {
            (void)snprintf(keys[j], sizeof(keys[j]), "opaque/%08u/%u", i, j);
            changes[j] = (struct gateway_change){.key = keys[j], .erase = true};
        }
        assert_int_equal(gateway_catalog_change(f->catalog, changes, GROUP, GATEWAY_DURABLE),
                         KVT_OK);
    }
    gateway_catalog_stats(f->catalog, &stats);
    assert_int_equal(stats.entries, 0);
    (void)snprintf(key, sizeof(key), "opaque/again");
    for (int i = 0; i < 50; i++) { /* room is measured now and then */
        struct gateway_change change = {
            .key = key,
            .reserve = true,
            .record = {
                .state = GATEWAY_STORED, .tiers = GATEWAY_COLD, .opaque = true, .length = 1}};

        rc = change_one(f->catalog, &change);
        if (rc == KVT_OK)
            break;
        kvt_clock_sleep_ms(20);
    }
    assert_int_equal(rc, KVT_OK);
}

static void
namespaces_are_bounded(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i <= GATEWAY_STREAMS_MAX; i++) {
        const struct kvt_block_id block = {.hash = 1};
        struct gateway_change change = {
            .reserve = i % 2 == 0,
            .record = {.state = GATEWAY_STORED, .tiers = GATEWAY_COLD, .length = 1}};
        char space[16];
        char key[KVT_KEY_MAX];

        (void)snprintf(space, sizeof(space), "n%u", i);
        assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, space, 0, &block),
                         KVT_OK);
        change.key = key;
        assert_int_equal(change_one(f->catalog, &change),
                         i < GATEWAY_STREAMS_MAX ? KVT_OK : KVT_FULL);
    }
}

static void
scans_page_through(void **state)
{
    struct fixture *f = *state;
    struct gateway_row rows[7];
    struct gateway_scan scan = {.rows = rows, .capacity = 7, .prefix = "a/"};
    unsigned found = 0;
    char key[KVT_KEY_MAX];
    char last[KVT_KEY_MAX] = "";

    for (unsigned i = 0; i < KEYS; i++) {
        struct gateway_change change = {
            .key = key_of(key, i),
            .record = {.state = i % 5 == 0 ? GATEWAY_INTENT : GATEWAY_STORED,
                       .tiers = i % 2 == 0 ? GATEWAY_HOT : GATEWAY_COLD,
                       .length = 1}};

        assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    }
    while (!scan.end) {
        assert_int_equal(gateway_catalog_scan(f->catalog, &scan), KVT_OK);
        for (size_t i = 0; i < scan.count; i++) {
            assert_int_equal(strncmp(rows[i].key, "a/", 2), 0);
            assert_true(strcmp(rows[i].key, last) > 0);
            memcpy(last, rows[i].key, sizeof(last));
            found++;
        }
    }
    assert_int_equal(found, 2 * KEYS / SPACES); /* "a" and "a/b" */
    scan =
        (struct gateway_scan){.rows = rows, .capacity = 7, .pending = true, .tiers = GATEWAY_HOT};
    for (found = 0; !scan.end; found += (unsigned)scan.count)
        assert_int_equal(gateway_catalog_scan(f->catalog, &scan), KVT_OK);
    assert_int_equal(found, KEYS / 10);
}

static bool
attempt_open(void *arg)
{
    const struct gateway_catalog_options options = options_of(arg);
    struct gateway_catalog *catalog;
    struct kvt_error err;
    const enum kvt_err rc = gateway_catalog_open(&catalog, &options, &err);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && catalog == NULL));
    gateway_catalog_close(catalog);
    return rc == KVT_OK;
}

static void
opening_survives_every_failing_allocation(void **state)
{
    struct fixture *f = *state;

    gateway_catalog_close(f->catalog);
    f->catalog = NULL;
    assert_true(test_sweep_allocations(attempt_open, f->folder) > 0);
}

/* ---- how far the rows cover the bucket ---- */

static struct gateway_change
found(const char *key, enum gateway_state state, bool foreign)
{
    return (struct gateway_change){
        .key = key,
        .only_if_absent = true,
        .record = {.state = state, .tiers = GATEWAY_COLD, .foreign = foreign, .length = 10}};
}

/* The mark and the rows it speaks of are one: what became of them is in it. */
static void
a_mark_comes_back_with_its_counts(void **state)
{
    struct fixture *f = *state;
    struct gateway_adoption_mark mark = {.state = GATEWAY_ADOPTION_RUNNING,
                                         .rate = 7,
                                         .began_ms = 1234567890123,
                                         .listed = 3,
                                         .damaged = 1,
                                         .after = "0/9:k"};
    struct gateway_change changes[3];
    struct gateway_adoption_mark back;
    struct gateway_record record;
    char keys[2][KVT_KEY_MAX];

    gateway_catalog_adoption(f->catalog, &back);
    assert_int_equal(back.state, GATEWAY_ADOPTION_UNSEEN);
    assert_true(gateway_adoption_capped(&back));
    changes[0] = found(key_of(keys[0], 0), GATEWAY_INTENT, false);
    assert_int_equal(gateway_catalog_change(f->catalog, changes, 1, GATEWAY_APPLIED), KVT_OK);
    changes[0] = found(keys[0], GATEWAY_STORED, false); /* a PUT is under way: its row stays */
    changes[1] = found(key_of(keys[1], 1), GATEWAY_STORED, true);
    changes[2] = found("note", GATEWAY_STORED, false);
    changes[2].record.opaque = true;
    assert_int_equal(gateway_catalog_adopt(f->catalog, changes, 3, &mark, GATEWAY_APPLIED), KVT_OK);
    gateway_catalog_close(f->catalog);
    f->catalog = open_catalog(f->folder);
    gateway_catalog_adoption(f->catalog, &back);
    assert_int_equal(back.state, GATEWAY_ADOPTION_RUNNING);
    assert_false(gateway_adoption_capped(&back));
    assert_int_equal(back.rate, 7);
    assert_int_equal(back.began_ms, mark.began_ms);
    assert_int_equal(back.listed, 3);
    assert_int_equal(back.damaged, 1);
    assert_int_equal(back.known, 1);
    assert_int_equal(back.adopted, 2);
    assert_int_equal(back.adopted_bytes, 20);
    assert_int_equal(back.adopted_foreign, 1);
    assert_int_equal(back.adopted_opaque, 1);
    assert_string_equal(back.after, mark.after);
    assert_int_equal(gateway_catalog_get(f->catalog, keys[0], &record), KVT_OK);
    assert_int_equal(record.state, GATEWAY_INTENT);
}

/* That something is there says less than that it is served. */
static void
a_foreign_row_yields_to_a_block(void **state)
{
    struct fixture *f = *state;
    struct gateway_record record;
    struct gateway_change change;
    char key[KVT_KEY_MAX];

    for (unsigned i = 0; i < 3; i++) {
        change = found(key_of(key, 0), GATEWAY_STORED, i != 1);
        assert_int_equal(gateway_catalog_change(f->catalog, &change, 1, GATEWAY_APPLIED), KVT_OK);
        assert_int_equal(change.status, i == 2 ? KVT_EXISTS : KVT_OK);
        assert_int_equal(gateway_catalog_get(f->catalog, key, &record), KVT_OK);
        assert_int_equal(record.foreign, i == 0);
    }
}

/* Whoever read the object before it was marked must not take the mark away. */
static void
a_foreign_row_that_is_removed_yields_to_none(void **state)
{
    struct fixture *f = *state;
    struct gateway_record record;
    struct gateway_change change;
    char key[KVT_KEY_MAX];

    change = found(key_of(key, 0), GATEWAY_STORED, true);
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    change.only_if_absent = false;
    change.record.state = GATEWAY_RETIRING;
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    change = found(key, GATEWAY_STORED, false);
    assert_int_equal(change_one(f->catalog, &change), KVT_EXISTS);
    assert_int_equal(gateway_catalog_get(f->catalog, key, &record), KVT_OK);
    assert_int_equal(record.state, GATEWAY_RETIRING);
    assert_true(record.foreign);
}

/* It kept its cap over what it had, and an upgrade takes nothing from that. */
static void
a_catalog_without_a_mark_is_whole(void **state)
{
    const struct kvt_lmdb_options options = {.map_bytes = 128u << 20, .databases_max = 6};
    struct fixture *f = *state;
    struct kvt_lmdb_options at = options;
    struct gateway_adoption_mark mark;
    MDB_val name = kvt_lmdb_val("adoption", 8);
    struct kvt_error err;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi meta;

    gateway_catalog_close(f->catalog);
    at.path = f->folder;
    assert_int_equal(kvt_lmdb_open(&env, &at, &err), KVT_OK);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "meta", 0, &meta), 0);
    assert_int_equal(mdb_del(txn, meta, &name, NULL), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    f->catalog = open_catalog(f->folder);
    gateway_catalog_adoption(f->catalog, &mark);
    assert_int_equal(mark.state, GATEWAY_ADOPTION_DONE);
    assert_true(mark.whole);
}

/* ---- a disk that fails ---- */

static _Atomic int sync_fails; /* errno of the next sync, once; 0: it does what it should */

/* LMDB's, found before libc's. */
int
fdatasync(int fd)
{
    const int fails = atomic_exchange(&sync_fails, 0);

    if (fails == 0)
        return (int)syscall(SYS_fdatasync, fd);
    errno = fails;
    return -1;
}

/* The kernel says so once: to believe the next sync would be to acknowledge what is not there. */
static void
nothing_is_durable_behind_a_sync_that_failed(void **state)
{
    struct fixture *f = *state;
    struct gateway_catalog_stats stats;
    struct gateway_change change;
    char key[KVT_KEY_MAX];

    change = found(key_of(key, 0), GATEWAY_STORED, false);
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    atomic_store(&sync_fails, EIO);
    change = found(key_of(key, 1), GATEWAY_STORED, false);
    assert_int_equal(change_one(f->catalog, &change), KVT_IO);
    change = found(key_of(key, 2), GATEWAY_STORED, false);
    assert_int_equal(change_one(f->catalog, &change), KVT_IO);
    assert_int_equal(atomic_load(&sync_fails), 0);
    gateway_catalog_stats(f->catalog, &stats);
    assert_true(stats.failed);
    gateway_catalog_close(f->catalog);
    f->catalog = open_catalog(f->folder);
    change = found(key_of(key, 3), GATEWAY_STORED, false);
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
}

static void
no_room_is_over_when_there_is_room(void **state)
{
    struct fixture *f = *state;
    struct gateway_change change;
    char key[KVT_KEY_MAX];

    change = found(key_of(key, 0), GATEWAY_STORED, false);
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
    atomic_store(&sync_fails, ENOSPC);
    change = found(key_of(key, 1), GATEWAY_STORED, false);
    (void)change_one(f->catalog, &change); /* that commit is tried again at once, by itself */
    assert_int_equal(atomic_load(&sync_fails), 0);
    change = found(key_of(key, 2), GATEWAY_STORED, false);
    assert_int_equal(change_one(f->catalog, &change), KVT_OK);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(random_run_against_model),
        TEST(death_in_the_middle),
        TEST(life_and_numbers_go_on),
        TEST(epochs_only_rise),
        TEST(caps_count_what_is_reserved),
        TEST(backlog_gives_up_the_oldest),
        TEST(full_map_is_a_state),
        TEST(namespaces_are_bounded),
        TEST(scans_page_through),
        TEST(opening_survives_every_failing_allocation),
        TEST(a_foreign_row_yields_to_a_block),
        TEST(a_foreign_row_that_is_removed_yields_to_none),
        TEST(a_catalog_without_a_mark_is_whole),
        TEST(a_mark_comes_back_with_its_counts),
        TEST(nothing_is_durable_behind_a_sync_that_failed),
        TEST(no_room_is_over_when_there_is_room),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
