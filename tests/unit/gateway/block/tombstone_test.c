/*
 * What is tested: a removal that was noted in the first bucket while the far one was away, next to
 * another gateway.  A check there leaves the note alone, as does whoever finds it in the place of
 * what was bad; a move whose lease was over does not write over it.  A DELETE without an answer may
 * still come: until the lease is over nothing is put that it could take, and a next life waits for
 * it, too.  What is sent under a lock is sent once.  Locks of a gateway that never comes back are
 * swept, once their lease is over.
 */
#include <stdio.h>
#include <string.h>

#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "gateway/block/context_open.h"
#include "gateway/block/damage.h"
#include "gateway/block/move_lock.h"
#include "gateway/block/removal.h"
#include "gateway/block/repair.h"
#include "gateway/block/tombstone.h"
#include "gateway/care/inspect.h"
#include "gateway/move/bucket_move.h"
#include "gateway/move/move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

#include "tests/unit/g4/support/memory_bucket.h"
#include "tests/unit/gateway/support/support.h"

enum { SIZE = 300, LIFE_MS = GATEWAY_MOVE_LOCK_MS + 5000, NEAR = 0, FAR = 1 };

struct pair;

/* A bucket as one gateway sees it. */
struct view {
    struct pair *pair;
    unsigned who;
    unsigned bucket;
    struct memory_bucket_client client;
    struct g4_store *inner;
};

/* What happens before a request; true: it has been answered. */
typedef bool (*event)(struct pair *pair, const struct view *view, struct g4_request *request);

struct pair {
    struct test_gateway base;
    struct test_gateway gateways[2];
    char state[2][256];
    char hot[2][256];
    struct view views[2][2];
    struct memory_bucket memory[2];
    char key[KVT_KEY_MAX];
    bool deaf;              /* DELETE heeds no condition, as MinIO's */
    bool away;              /* the far bucket, for the first gateway */
    event before;           /* each request, until it says NULL */
    struct g4_request late; /* a DELETE that is still on its way, */
    unsigned late_at;       /* to this bucket */
    unsigned seen;          /* for `before` */
};

static void
answer(struct g4_request *request, enum kvt_err status, const char *text)
{
    request->status = kvt_error_set(&request->error, status, "%s", text);
    request->done(request, request->arg);
}

static enum kvt_err
view_submit(void *self, struct g4_request *request)
{
    struct view *view = self;
    struct pair *pair = view->pair;

    if (pair->deaf && request->verb == G4_DELETE)
        request->condition = G4_ALWAYS;
    if (pair->away && view->who == 0 && view->bucket == FAR) {
        answer(request, KVT_UNAVAILABLE, "it is away");
        return KVT_OK;
    }
    if (pair->before != NULL && pair->before(pair, view, request))
        return KVT_OK;
    return g4_store_submit(view->inner, request);
}

static void
view_close(void *self)
{
    struct view *view = self;

    g4_store_close(view->inner);
}

static void
open_gateway(struct pair *pair, unsigned who)
{
    static const struct g4_store_driver driver = {
        .name = "view", .submit = view_submit, .close = view_close};
    struct test_gateway *gateway = &pair->gateways[who];
    struct gateway_context_options *options = &gateway->options;
    struct kvt_error err;

    *gateway = pair->base;
    (void)snprintf(pair->state[who], sizeof(pair->state[who]), "%s%u", pair->base.state, who);
    (void)snprintf(pair->hot[who], sizeof(pair->hot[who]), "%s%u", pair->base.hot, who);
    options->name = who == 0 ? "gw0" : "gw1";
    options->state_dir = pair->state[who];
    options->hot_dir = pair->hot[who];
    for (unsigned bucket = 0; bucket < 2; bucket++) {
        struct view *view = &pair->views[who][bucket];

        *view = (struct view){.pair = pair,
                              .who = who,
                              .bucket = bucket,
                              .client = {.memory = &pair->memory[bucket]}};
        view->inner = memory_bucket_open(&view->client);
        assert_int_equal(g4_store_new(bucket == NEAR ? &options->cold_store : &options->far_store,
                                      &driver, view),
                         KVT_OK);
    }
    if (gateway_context_open(&gateway->context, options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    gateway_bucket_tier_probe(gateway->context->tiers.buckets);
    assert_true(gateway_bucket_tier_takes(gateway->context->tiers.buckets, GATEWAY_FAR));
}

static enum kvt_err
move(struct pair *pair, unsigned who, unsigned from, unsigned to, bool keep)
{
    const struct gateway_move what = {.from = from, .to = to, .keep = keep};
    uint64_t bytes;

    return gateway_move(pair->gateways[who].context, pair->key, &what, &bytes);
}

/* The block is in the first bucket, and both know. */
static void
open_pair(struct pair *pair, bool deaf)
{
    memset(pair, 0, sizeof(*pair));
    pair->deaf = deaf;
    pthread_mutex_init(&pair->memory[NEAR].lock, NULL);
    pthread_mutex_init(&pair->memory[FAR].lock, NULL);
    (void)test_gateway_key(pair->key, 1);
    test_gateway_open(&pair->base, 1 << 20, 0);
    test_gateway_extend(&pair->base, 1 << 20, 0);
    gateway_context_close(pair->base.context);
    pair->base.context = NULL;
    pair->base.options.warm_capacity = 0;
    for (unsigned who = 0; who < 2; who++)
        open_gateway(pair, who);
    assert_int_equal(test_gateway_put(&pair->gateways[0], 1, SIZE), KVT_OK);
    assert_int_equal(move(pair, 0, GATEWAY_HOT, GATEWAY_COLD, false), KVT_OK);
    assert_int_equal(test_gateway_get(&pair->gateways[1], 1, SIZE, NULL), KVT_OK);
}

static void
close_pair(struct pair *pair)
{
    for (unsigned who = 0; who < 2; who++)
        gateway_context_close(pair->gateways[who].context);
    test_gateway_close(&pair->base);
    for (unsigned bucket = 0; bucket < 2; bucket++) {
        memory_bucket_clear(&pair->memory[bucket]);
        pthread_mutex_destroy(&pair->memory[bucket].lock);
    }
}

/* Time passes, and what was begun is ended. */
static void
settle(struct pair *pair)
{
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned who = 0; who < 2; who++) {
            gateway_bucket_tier_probe(pair->gateways[who].context->tiers.buckets);
            (void)gateway_recover_pending(pair->gateways[who].context);
        }
        pair->memory[NEAR].now_ms += LIFE_MS;
        pair->memory[FAR].now_ms += LIFE_MS;
    }
}

static void
remove_noted(struct pair *pair)
{
    pair->away = true;
    assert_int_equal(gateway_remove(pair->gateways[0].context, pair->key), KVT_OK);
    pair->away = false;
    gateway_bucket_tier_probe(pair->gateways[0].context->tiers.buckets);
}

static bool
says_removed(struct pair *pair)
{
    struct g4_request head;

    return test_gateway_store_head(pair->views[1][NEAR].inner, pair->key, &head) == KVT_OK &&
           g4_kind_is_removed(&head);
}

static bool
has_block(struct pair *pair, unsigned bucket)
{
    const struct memory_bucket_object *object =
        memory_bucket_find(&pair->memory[bucket], pair->key);

    return object != NULL && object->size == SIZE;
}

/* A tombstone of the other kind, or the one that says that the block was removed. */
static void
bury(struct pair *pair, bool removed)
{
    const struct g4_meta meta = {.present = true,
                                 .crc32c = g4_check_crc32c("", 0),
                                 .fingerprint = removed ? G4_KIND_REMOVED : 0,
                                 .writer = GATEWAY_TOMBSTONE};

    assert_int_equal(test_gateway_store_put(pair->views[0][NEAR].inner, pair->key, "", 0, &meta),
                     KVT_OK);
}

static void
expect_gone(struct pair *pair)
{
    settle(pair);
    for (unsigned who = 0; who < 2; who++)
        assert_int_equal(test_gateway_get(&pair->gateways[who], 1, SIZE, NULL), KVT_NOTFOUND);
    for (unsigned bucket = 0; bucket < 2; bucket++)
        assert_null(memory_bucket_find(&pair->memory[bucket], pair->key));
    assert_int_equal(memory_bucket_count(&pair->memory[NEAR], GATEWAY_MOVE_LOCK_PREFIX), 0);
}

static void
set_row(struct pair *pair, unsigned who, unsigned tiers)
{
    struct gateway_catalog *catalog = pair->gateways[who].context->catalog;
    struct gateway_change change = {.key = pair->key, .erase = tiers == 0};

    assert_int_equal(gateway_catalog_get(catalog, pair->key, &change.record), KVT_OK);
    change.record.tiers = tiers;
    assert_int_equal(gateway_catalog_change(catalog, &change, 1, GATEWAY_APPLIED), KVT_OK);
}

/* ---- a check by another gateway ---- */

static void
a_check_leaves_it_alone(void **state)
{
    static const unsigned tiers[] = {GATEWAY_COLD, GATEWAY_FAR, GATEWAY_BUCKETS, 0};
    const struct gateway_remedy remedy = {.alone = true};

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct gateway_inspection seen;
        struct gateway_context *context;
        struct kvt_error err;
        struct pair pair;

        open_pair(&pair, i % 2 == 0);
        context = pair.gateways[1].context;
        assert_int_equal(move(&pair, 0, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        remove_noted(&pair);
        set_row(&pair, 1, tiers[i / 2]);
        assert_int_equal(gateway_inspect(context, pair.key, &seen, &err), KVT_OK);
        assert_string_equal(gateway_finding_word(seen.finding), "unsettled");
        assert_int_equal(gateway_inspect_repair(context, pair.key, &remedy, &seen, &err),
                         KVT_UNSUPPORTED);
        assert_true(says_removed(&pair));
        assert_int_equal(test_gateway_get(&pair.gateways[1], 1, SIZE, NULL), KVT_NOTFOUND);
        expect_gone(&pair);
        close_pair(&pair);
    }
}

/* A gateway that lost its state folder settles nothing; a DELETE at another one does. */
static void
another_delete_ends_it(void **state)
{
    (void)state;
    for (unsigned knows = 0; knows < 2; knows++) {
        struct pair pair;

        open_pair(&pair, true);
        assert_int_equal(move(&pair, 0, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        remove_noted(&pair);
        if (knows == 0)
            set_row(&pair, 1, 0);
        assert_true(says_removed(&pair));
        assert_int_equal(gateway_remove(pair.gateways[1].context, pair.key), KVT_OK);
        for (unsigned bucket = 0; bucket < 2; bucket++)
            assert_null(memory_bucket_find(&pair.memory[bucket], pair.key));
        close_pair(&pair);
    }
}

/* The removal comes between what a reader saw and what he does about it. */
static bool
note_before_second_look(struct pair *pair, const struct view *view, struct g4_request *request)
{
    if (view->who == 1 && request->verb == G4_HEAD && strcmp(request->key, pair->key) == 0 &&
        ++pair->seen == 1)
        bury(pair, true);
    return false;
}

static void
what_was_bad_is_not_replaced_once_it_was_removed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        const bool late = i / 2 != 0; /* before the second look, or before all */
        struct g4_request seen;
        struct pair pair;

        open_pair(&pair, i % 2 == 0);
        bury(&pair, !late);
        assert_int_equal(test_gateway_store_head(pair.views[1][NEAR].inner, pair.key, &seen),
                         KVT_OK);
        pair.before = late ? note_before_second_look : NULL;
        gateway_repair_cold(pair.gateways[1].context, pair.key, &seen, "", 0, "a tombstone");
        assert_true(says_removed(&pair));
        assert_int_equal(test_gateway_tiers(&pair.gateways[1], 1, NULL), 0);
        close_pair(&pair);
    }
}

/* Of an empty object that is no tombstone the ETag is that of all tombstones. */
static bool
note_before_replacement(struct pair *pair, const struct view *view, struct g4_request *request)
{
    const bool locks =
        strncmp(request->key, GATEWAY_MOVE_LOCK_PREFIX, strlen(GATEWAY_MOVE_LOCK_PREFIX)) == 0;

    if (view->who == 1 && ((request->verb == G4_PUT && !locks) || request->verb == G4_DELETE) &&
        strcmp(request->key, pair->key) == 0) {
        struct gateway_move_lock lock; /* who notes it needs it */

        pair->before = NULL;
        pair->seen = gateway_move_lock_acquire(pair->gateways[0].context, pair->key, &lock);
    }
    return false;
}

static void
what_was_empty_is_replaced_under_the_lock(void **state)
{
    (void)state;
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        const struct g4_meta bad = {.present = true, .crc32c = 1, .writer = "gw0"};
        struct g4_request seen;
        struct pair pair;

        open_pair(&pair, deaf != 0);
        assert_int_equal(test_gateway_store_put(pair.views[0][NEAR].inner, pair.key, "", 0, &bad),
                         KVT_OK);
        (void)!test_gateway_store_head(pair.views[1][NEAR].inner, pair.key, &seen);
        pair.before = note_before_replacement;
        gateway_repair_cold(pair.gateways[1].context, pair.key, &seen, "", 0, "empty");
        assert_null(pair.before); /* it was to be replaced */
        assert_int_equal(pair.seen, KVT_BUSY);
        assert_int_equal(gateway_tombstone_note(pair.gateways[0].context, pair.key), KVT_OK);
        assert_true(says_removed(&pair));
        close_pair(&pair);
    }
}

/* ---- a move that stood still ---- */

/* Behind the tombstone of the second gateway's move: its lease is over, the first one notes a
 * removal, and the copy that was to stay is gone. */
static bool
note_behind_tombstone(struct pair *pair, const struct view *view, struct g4_request *request)
{
    struct memory_bucket_object *far = memory_bucket_find(&pair->memory[FAR], pair->key);

    if (view->who != 1 || view->bucket != FAR || request->verb != G4_HEAD ||
        strcmp(request->key, pair->key) != 0 || has_block(pair, NEAR))
        return false;
    pair->before = NULL;
    pair->memory[NEAR].now_ms += LIFE_MS;
    assert_non_null(far);
    far->meta.crc32c++; /* another one */
    remove_noted(pair);
    return false;
}

static void
a_move_does_not_write_over_it(void **state)
{
    (void)state;
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct pair pair;

        open_pair(&pair, deaf != 0);
        assert_int_equal(move(&pair, 1, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        pair.before = note_behind_tombstone;
        assert_int_equal(move(&pair, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_AGAIN);
        assert_null(pair.before);
        assert_true(says_removed(&pair));
        expect_gone(&pair);
        close_pair(&pair);
    }
}

/* No lock is to be had, and the block's own PUT is not done at once. */
static bool
stumble(struct pair *pair, const struct view *view, struct g4_request *request)
{
    if (view->who != 1 || request->verb != G4_PUT)
        return false;
    if (strcmp(request->key, pair->key) == 0)
        pair->before = NULL;
    answer(request, KVT_IO, "not now");
    return true;
}

/* The same without a removal: what is in memory is all there is. */
static bool
lose_behind_tombstone(struct pair *pair, const struct view *view, struct g4_request *request)
{
    struct gateway_move_lock lock;

    if (view->who != 1 || view->bucket != FAR || request->verb != G4_HEAD ||
        strcmp(request->key, pair->key) != 0 || has_block(pair, NEAR))
        return false;
    pair->before = NULL;
    memory_bucket_find(&pair->memory[FAR], pair->key)->meta.crc32c++;
    if (pair->seen == 2)
        pair->before = stumble;
    if (pair->seen == 1) { /* and another gateway has the lock */
        pair->memory[NEAR].now_ms += LIFE_MS;
        assert_int_equal(gateway_move_lock_acquire(pair->gateways[0].context, pair->key, &lock),
                         KVT_OK);
    }
    return false;
}

static void
a_move_puts_back_what_it_has_in_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct pair pair;

        open_pair(&pair, i % 2 == 0);
        assert_int_equal(move(&pair, 1, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        pair.before = lose_behind_tombstone;
        pair.seen = i / 2;
        assert_int_equal(move(&pair, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_AGAIN);
        assert_null(pair.before);
        assert_true(has_block(&pair, NEAR));
        /* Nobody gives back what another one has, or what he does not know to be his. */
        assert_int_equal(memory_bucket_count(&pair.memory[NEAR], GATEWAY_MOVE_LOCK_PREFIX),
                         i / 2 != 0);
        close_pair(&pair);
    }
}

/* ---- a DELETE that is late ---- */

static bool
hold_delete(struct pair *pair, const struct view *view, struct g4_request *request)
{
    if (view->who != 0 || request->verb != G4_DELETE || strcmp(request->key, pair->key) != 0 ||
        view->bucket != pair->late_at)
        return false;
    pair->before = NULL;
    pair->late = *request;
    answer(request, KVT_TIMEOUT, "no answer");
    return true;
}

static void
on_late(struct g4_request *request, void *arg)
{
    (void)request;
    (void)arg;
}

static void
deliver(struct pair *pair)
{
    pair->late.key = pair->key;
    pair->late.done = on_late;
    assert_int_equal(g4_store_submit(pair->views[0][pair->late_at].inner, &pair->late), KVT_OK);
}

static void
a_late_delete_meets_nothing_new(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        enum kvt_err put_rc;
        struct pair pair;

        open_pair(&pair, i % 2 == 0);
        assert_int_equal(move(&pair, 0, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        remove_noted(&pair);
        pair.late_at = i / 2;
        pair.before = hold_delete;
        assert_int_not_equal(gateway_removal_finish(pair.gateways[0].context, pair.key, NULL),
                             KVT_OK);
        assert_null(pair.before);
        put_rc = test_gateway_put(&pair.gateways[1], 1, SIZE);
        if (put_rc == KVT_OK)
            assert_int_equal(move(&pair, 1, GATEWAY_HOT, GATEWAY_COLD, false), KVT_OK);
        deliver(&pair);
        settle(&pair);
        if (put_rc == KVT_OK)
            assert_int_equal(test_gateway_get(&pair.gateways[1], 1, SIZE, NULL), KVT_OK);
        else
            assert_int_equal(put_rc, KVT_AGAIN);
        /* It ends with the lease. */
        assert_int_equal(test_gateway_put(&pair.gateways[1], 1, SIZE), KVT_OK);
        settle(&pair);
        assert_int_equal(test_gateway_get(&pair.gateways[0], 1, SIZE, NULL), KVT_OK);
        assert_int_equal(memory_bucket_count(&pair.memory[NEAR], GATEWAY_MOVE_LOCK_PREFIX), 0);
        close_pair(&pair);
    }
}

static bool
hold_tombstone(struct pair *pair, const struct view *view, struct g4_request *request)
{
    if (view->who != 0 || request->verb != G4_PUT || strcmp(request->key, pair->key) != 0)
        return false;
    pair->before = NULL;
    pair->late = *request;
    answer(request, KVT_TIMEOUT, "no answer");
    return true;
}

/* The block is there still, and so is its ETag when the same bytes are put over it. */
static void
a_late_tombstone_takes_nothing_that_was_put_again(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair, true);
    assert_int_equal(move(&pair, 0, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
    pair.away = true;
    pair.late_at = NEAR;
    pair.before = hold_tombstone;
    assert_int_not_equal(gateway_remove(pair.gateways[0].context, pair.key), KVT_OK);
    assert_null(pair.before);
    gateway_bucket_tier_probe(pair.gateways[0].context->tiers.buckets);
    assert_int_equal(test_gateway_put(&pair.gateways[0], 1, SIZE), KVT_AGAIN);
    deliver(&pair);
    assert_true(says_removed(&pair));
    pair.memory[NEAR].now_ms += LIFE_MS;
    assert_int_equal(test_gateway_put(&pair.gateways[0], 1, SIZE), KVT_OK);
    pair.away = false;
    settle(&pair);
    assert_true(has_block(&pair, NEAR));
    assert_int_equal(test_gateway_get(&pair.gateways[0], 1, SIZE, NULL), KVT_OK);
    close_pair(&pair);
}

/* Killed with the DELETE on its way, and back at once. */
static void
a_next_life_waits_for_what_was_sent(void **state)
{
    (void)state;
    for (unsigned bucket = 0; bucket < 2; bucket++) {
        struct pair pair;

        open_pair(&pair, true);
        assert_int_equal(move(&pair, 0, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        remove_noted(&pair);
        pair.late_at = bucket;
        pair.before = hold_delete;
        assert_int_not_equal(gateway_removal_finish(pair.gateways[0].context, pair.key, NULL),
                             KVT_OK);
        assert_null(pair.before);
        gateway_context_close(pair.gateways[0].context);
        open_gateway(&pair, 0);
        assert_int_equal(test_gateway_put(&pair.gateways[0], 1, SIZE), KVT_AGAIN);
        deliver(&pair);
        assert_int_equal(test_gateway_put(&pair.gateways[0], 1, SIZE),
                         bucket == NEAR ? KVT_OK : KVT_AGAIN); /* that took the note */
        pair.gateways[0].context->identity.since_ms = 0;
        assert_int_equal(test_gateway_put(&pair.gateways[0], 1, SIZE), KVT_OK);
        close_pair(&pair);
    }
}

/* ---- the lock's own DELETE ---- */

static bool
hold_release(struct pair *pair, const struct view *view, struct g4_request *request)
{
    static const size_t size = sizeof(GATEWAY_MOVE_LOCK_PREFIX) - 1;

    if (view->who != 0 || request->verb != G4_DELETE ||
        strncmp(request->key, GATEWAY_MOVE_LOCK_PREFIX, size) != 0)
        return false;
    pair->before = NULL;
    pair->late = *request;
    answer(request, KVT_TIMEOUT, "no answer");
    return true;
}

static void
a_late_release_frees_nobody_else(void **state)
{
    struct gateway_move_lock lock;
    struct gateway_move_lock next;
    struct pair pair;

    (void)state;
    open_pair(&pair, true);
    assert_int_equal(gateway_move_lock_acquire(pair.gateways[0].context, pair.key, &lock), KVT_OK);
    pair.before = hold_release;
    gateway_move_lock_release(pair.gateways[0].context, &lock);
    assert_null(pair.before);
    assert_int_equal(gateway_move_lock_acquire(pair.gateways[1].context, pair.key, &next),
                     KVT_BUSY);
    pair.memory[NEAR].now_ms += LIFE_MS;
    assert_int_equal(gateway_move_lock_acquire(pair.gateways[1].context, pair.key, &next), KVT_OK);
    gateway_move_lock_release(pair.gateways[1].context, &next);
    assert_int_equal(memory_bucket_count(&pair.memory[NEAR], GATEWAY_MOVE_LOCK_PREFIX), 0);
    close_pair(&pair);
}

/* ---- requests under the lock ---- */

/* Is one sent that may be repeated? */
static bool
see_repeats(struct pair *pair, const struct view *view, struct g4_request *request)
{
    const bool changes = request->verb == G4_PUT || request->verb == G4_DELETE;

    (void)view;
    if (changes && strcmp(request->key, pair->key) == 0 && !request->once &&
        memory_bucket_count(&pair->memory[NEAR], GATEWAY_MOVE_LOCK_PREFIX) != 0)
        pair->seen++;
    return false;
}

static void
each_is_sent_once(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair, true);
    pair.before = see_repeats;
    assert_int_equal(move(&pair, 0, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
    remove_noted(&pair);
    assert_int_equal(test_gateway_put(&pair.gateways[1], 1, SIZE), KVT_OK);
    settle(&pair);
    assert_int_equal(pair.seen, 0);
    close_pair(&pair);
}

/* ---- a gateway that never comes back ---- */

static void
its_locks_are_swept(void **state)
{
    enum { MANY = GATEWAY_MOVE_LOCK_ROUND + 10 };
    static const char other[] = GATEWAY_MOVE_LOCK_PREFIX "another's";
    const struct g4_meta none = {.present = false};
    struct gateway_move_lock lock;
    char swept[KVT_KEY_MAX] = "";
    struct gateway_context *sweeper;
    struct pair pair;

    (void)state;
    open_pair(&pair, true);
    sweeper = pair.gateways[1].context;
    assert_int_equal(gateway_move_lock_sweep(sweeper, swept), 0);
    assert_int_equal(test_gateway_store_put(pair.views[0][NEAR].inner, other, "x", 1, &none),
                     KVT_OK);
    for (uint64_t number = 0; number < MANY; number++) {
        char key[KVT_KEY_MAX];

        assert_int_equal(gateway_move_lock_acquire(pair.gateways[0].context,
                                                   test_gateway_key(key, number), &lock),
                         KVT_OK);
    }
    for (unsigned round = 0; round < 2; round++)
        assert_int_equal(gateway_move_lock_sweep(sweeper, swept), 0); /* they are held */
    pair.memory[NEAR].now_ms += LIFE_MS;
    assert_int_equal(gateway_move_lock_acquire(pair.gateways[0].context, pair.key, &lock), KVT_OK);
    assert_in_range(gateway_move_lock_sweep(sweeper, swept), GATEWAY_MOVE_LOCK_ROUND - 2,
                    GATEWAY_MOVE_LOCK_ROUND);
    (void)gateway_move_lock_sweep(sweeper, swept);
    assert_int_equal(memory_bucket_count(&pair.memory[NEAR], GATEWAY_MOVE_LOCK_PREFIX), 2);
    assert_non_null(memory_bucket_find(&pair.memory[NEAR], lock.name));
    assert_non_null(memory_bucket_find(&pair.memory[NEAR], other));
    close_pair(&pair);
}

static void
those_that_are_held_hide_none_that_is_left(void **state)
{
    enum { HELD = GATEWAY_MOVE_LOCK_ROUND + 10 };
    static const char left[] = GATEWAY_MOVE_LOCK_PREFIX "ffffffffffffffffffffffffffffffff";
    const struct g4_meta none = {.present = false};
    struct gateway_move_lock lock;
    char swept[KVT_KEY_MAX] = "";
    struct gateway_context *sweeper;
    struct pair pair;

    (void)state;
    open_pair(&pair, true);
    sweeper = pair.gateways[1].context;
    assert_int_equal(test_gateway_store_put(pair.views[0][NEAR].inner, left, "x", 1, &none),
                     KVT_OK);
    pair.memory[NEAR].now_ms += LIFE_MS;
    for (uint64_t number = 0; number < HELD; number++) {
        char key[KVT_KEY_MAX];

        assert_int_equal(gateway_move_lock_acquire(pair.gateways[0].context,
                                                   test_gateway_key(key, number), &lock),
                         KVT_OK);
    }
    assert_int_equal(gateway_move_lock_sweep(sweeper, swept), 0);
    sweeper->stopping = true;
    assert_int_equal(gateway_move_lock_sweep(sweeper, swept), 0);
    sweeper->stopping = false;
    assert_int_equal(gateway_move_lock_sweep(sweeper, swept), 1);
    assert_null(memory_bucket_find(&pair.memory[NEAR], left));
    assert_string_equal(swept, ""); /* and then from the first again */
    close_pair(&pair);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_leaves_it_alone),
        cmocka_unit_test(another_delete_ends_it),
        cmocka_unit_test(what_was_bad_is_not_replaced_once_it_was_removed),
        cmocka_unit_test(what_was_empty_is_replaced_under_the_lock),
        cmocka_unit_test(a_move_does_not_write_over_it),
        cmocka_unit_test(a_move_puts_back_what_it_has_in_memory),
        cmocka_unit_test(a_late_delete_meets_nothing_new),
        cmocka_unit_test(a_late_tombstone_takes_nothing_that_was_put_again),
        cmocka_unit_test(a_next_life_waits_for_what_was_sent),
        cmocka_unit_test(a_late_release_frees_nobody_else),
        cmocka_unit_test(each_is_sent_once),
        cmocka_unit_test(its_locks_are_swept),
        cmocka_unit_test(those_that_are_held_hide_none_that_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
