#include "tests/unit/advisor/fake/crowd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/round/outbox.h"
#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvtier/event.h"
#include "wire/message/event_codec.h"
#include "wire/message/query.h"
#include "wire/nats/bus.h"

#include "tests/support/seed.h"

enum {
    ACTS_MAX = 6,
    EVENTS_MAX = 64, /* of a batch that is made */
    FIRST_INCARNATION = 1000,
    LATE_MAX = 12,   /* ticks until an answer is there */
    BUSY_IN = 50,    /* one in so many: the outbox takes no message */
    UNHEARD_IN = 80, /* a question gets no answer */
    EARLY_MAX = 2,   /* events in front of those a range asks for */
};

struct op {
    uint8_t type; /* enum kvt_event_type */
    uint8_t tier;
    uint16_t block;
};

struct life {
    struct op *ops;
    size_t count;
    size_t capacity;
};

struct worker {
    struct life lives[TEST_CROWD_LIVES_MAX];
    struct test_crowd_picture now;
};

static struct {
    struct worker *workers;
    struct test_crowd_counts counts;
    uint64_t seed;
    uint64_t random;
    uint64_t ticks;
} crowd;

/* ---- who they are ---- */

void
test_crowd_begin(uint64_t seed)
{
    crowd.workers = kvt_calloc(TEST_CROWD_WORKERS, sizeof(*crowd.workers));
    assert_non_null(crowd.workers);
    memset(&crowd.counts, 0, sizeof(crowd.counts));
    crowd.seed = seed;
    crowd.random = seed;
    crowd.ticks = 0;
}

void
test_crowd_end(void)
{
    for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++)
        for (uint32_t l = 0; l < TEST_CROWD_LIVES_MAX; l++)
            kvt_free(crowd.workers[w].lives[l].ops);
    kvt_free(crowd.workers);
    crowd.workers = NULL;
}

const struct test_crowd_counts *
test_crowd_counts(void)
{
    return &crowd.counts;
}

uint32_t
test_crowd_below(uint32_t limit)
{
    return (uint32_t)kvt_random_below(&crowd.random, limit);
}

uint64_t
test_crowd_hash(uint32_t block)
{
    uint64_t state = crowd.seed ^ (block * UINT64_C(0x9e37));

    return kvt_random_next(&state);
}

const char *
test_crowd_namespace(uint32_t worker)
{
    return worker % 2 == 0 ? "ns0" : "ns1";
}

uint32_t
test_crowd_worker(const char *name)
{
    const unsigned long worker = strtoul(name + 1, NULL, 10);

    assert_true(name[0] == 'w' && worker < TEST_CROWD_WORKERS);
    return (uint32_t)worker;
}

uint32_t
test_crowd_life(uint64_t incarnation)
{
    assert_in_range(incarnation, FIRST_INCARNATION, FIRST_INCARNATION + TEST_CROWD_LIVES_MAX - 1);
    return (uint32_t)(incarnation - FIRST_INCARNATION);
}

/* ---- what they did ---- */

static void
follow(struct test_crowd_picture *picture, const struct op *op)
{
    switch (op->type) {
    case KVT_EVENT_STORE: picture->held[op->tier][op->block] = true; break;
    case KVT_EVENT_REMOVE: picture->held[op->tier][op->block] = false; break;
    default: memset(picture->held[op->tier], 0, sizeof(picture->held[op->tier])); break;
    }
    picture->seq++;
}

const struct test_crowd_picture *
test_crowd_now(uint32_t worker)
{
    return &crowd.workers[worker].now;
}

void
test_crowd_at(uint32_t worker, uint32_t life, uint64_t seq, struct test_crowd_picture *picture)
{
    const struct life *lived = &crowd.workers[worker].lives[life];

    assert_true(seq <= lived->count);
    if (picture->life != life || picture->seq > seq) {
        memset(picture, 0, sizeof(*picture));
        picture->life = life;
    }
    while (picture->seq < seq)
        follow(picture, &lived->ops[picture->seq]);
}

static void
act(struct worker *worker, enum kvt_event_type type, uint32_t tier, uint32_t block)
{
    struct life *life = &worker->lives[worker->now.life];

    if (life->count == life->capacity) {
        life->capacity = life->capacity == 0 ? 64 : life->capacity * 2;
        life->ops = kvt_realloc(life->ops, life->capacity, sizeof(*life->ops));
        assert_non_null(life->ops);
    }
    life->ops[life->count++] = (struct op){(uint8_t)type, (uint8_t)tier, (uint16_t)block};
    follow(&worker->now, &life->ops[life->count - 1]);
}

void
test_crowd_restart(uint32_t worker)
{
    struct test_crowd_picture *now = &crowd.workers[worker].now;
    const uint32_t life = now->life + 1;

    assert_true(life < TEST_CROWD_LIVES_MAX);
    memset(now, 0, sizeof(*now));
    now->life = life;
}

static void
store_some(struct worker *worker, uint32_t tier)
{
    const uint32_t chain = test_crowd_below(TEST_CROWD_CHAINS);
    const uint32_t depth = test_crowd_below(3) > 0 ? 0 : test_crowd_below(TEST_CROWD_DEPTH);
    const uint32_t count = 1 + test_crowd_below(TEST_CROWD_DEPTH - depth);

    for (uint32_t i = 0; i < count; i++)
        act(worker, KVT_EVENT_STORE, tier, chain * TEST_CROWD_DEPTH + depth + i);
    crowd.counts.stores += count;
}

/* Any of those it has, or one it does not have. */
static uint32_t
pick(const struct worker *worker, uint32_t tier)
{
    const uint32_t from = test_crowd_below(TEST_CROWD_BLOCKS);

    for (uint32_t i = 0; i < TEST_CROWD_BLOCKS; i++)
        if (worker->now.held[tier][(from + i) % TEST_CROWD_BLOCKS])
            return (from + i) % TEST_CROWD_BLOCKS;
    return from;
}

static void
remove_one(struct worker *worker, uint32_t tier, uint32_t block)
{
    const bool last = block % TEST_CROWD_DEPTH == TEST_CROWD_DEPTH - 1;

    crowd.counts.inner += !last && worker->now.held[tier][block + 1] ? 1 : 0;
    crowd.counts.removes++;
    act(worker, KVT_EVENT_REMOVE, tier, block);
}

/* ---- what they say ---- */

static struct kvt_event
event_of(const struct op *op)
{
    const uint32_t position = op->block % TEST_CROWD_DEPTH;

    if (op->type == KVT_EVENT_CLEAR)
        return (struct kvt_event){.type = KVT_EVENT_CLEAR, .ranks = 1, .location = op->tier};
    return (struct kvt_event){
        .sequence_hash = test_crowd_hash(op->block),
        .prefix_hash = test_crowd_hash(op->block - position),
        .parent = position == 0 ? 0 : test_crowd_hash(op->block - 1u),
        .position = position,
        .block_size = 4096,
        .ranks = 1,
        .location = op->tier,
        .type = op->type,
    };
}

static void
encode(uint32_t worker, uint64_t first_seq, struct kvt_event *events, size_t count,
       struct kvt_buffer *out)
{
    struct kvt_event_batch batch = {
        .incarnation = FIRST_INCARNATION + crowd.workers[worker].now.life,
        .first_seq = first_seq,
        .time_ms = 1000000,
        .location_count = TEST_CROWD_TIERS,
        .locations = {{.tier = KVT_TIER_G2, .name = "host"}, {.tier = KVT_TIER_G3, .name = "disk"}},
        .events = events,
        .event_count = (uint32_t)count,
    };

    (void)snprintf(batch.worker, sizeof(batch.worker), "w%u", worker);
    (void)snprintf(batch.namespace_, sizeof(batch.namespace_), "%s", test_crowd_namespace(worker));
    assert_int_equal(wire_event_encode(&batch, out), KVT_OK);
}

/* Events `from` to `to` of its life. */
static void
tell(uint32_t worker, uint64_t from, uint64_t to, struct kvt_buffer *out)
{
    const struct worker *who = &crowd.workers[worker];
    struct kvt_event events[EVENTS_MAX];
    size_t count = 0;

    assert_true(to - from < EVENTS_MAX);
    for (uint64_t seq = from; seq <= to; seq++)
        events[count++] = event_of(&who->lives[who->now.life].ops[seq - 1]);
    encode(worker, from, events, count, out);
}

void
test_crowd_act(uint32_t worker, struct kvt_buffer *out)
{
    struct worker *who = &crowd.workers[worker];
    const uint64_t from = who->now.seq + 1;

    for (uint32_t left = 1 + test_crowd_below(ACTS_MAX); left > 0; left--) {
        const uint32_t tier = test_crowd_below(TEST_CROWD_TIERS);
        const uint32_t dice = test_crowd_below(100);
        const uint32_t block = pick(who, tier);

        if (who->now.seq + TEST_CROWD_DEPTH + 1 - from > EVENTS_MAX)
            break;
        if (dice < 2) {
            act(who, KVT_EVENT_CLEAR, tier, 0);
            crowd.counts.clears++;
        } else if (dice < 40) {
            store_some(who, tier);
        } else if (dice < 60 && who->now.held[tier][block]) {
            act(who, KVT_EVENT_STORE, 1 - tier, block);
            remove_one(who, tier, block);
            crowd.counts.moves++;
        } else {
            remove_one(who, tier, block);
        }
    }
    tell(worker, from, who->now.seq, out);
}

void
test_crowd_heartbeat(uint32_t worker, struct kvt_buffer *out)
{
    encode(worker, crowd.workers[worker].now.seq + 1, NULL, 0, out);
}

/* ---- what they answer ---- */

static void
answer_page(uint64_t next_cursor, const struct kvt_buffer *batch, struct kvt_buffer *out)
{
    const enum kvt_err status = batch == NULL ? KVT_NOTFOUND : KVT_OK;

    assert_int_equal(wire_query_encode_page(status, next_cursor, batch == NULL ? NULL : batch->data,
                                            batch == NULL ? 0 : batch->size, out),
                     KVT_OK);
}

static void
answer_range(uint32_t worker, const struct wire_query_range *range, struct kvt_buffer *out)
{
    const struct test_crowd_picture *now = &crowd.workers[worker].now;
    const uint64_t oldest = now->seq > TEST_CROWD_RING ? now->seq - TEST_CROWD_RING + 1 : 1;
    uint64_t to = range->to < now->seq ? range->to : now->seq;
    uint64_t from = range->from;
    struct kvt_buffer batch;

    if (range->incarnation != FIRST_INCARNATION + now->life || range->from < oldest) {
        crowd.counts.too_late++;
        answer_page(0, NULL, out);
        return;
    }
    kvt_buffer_init(&batch, WIRE_EVENT_BATCH_MAX);
    /* What was not asked for may come along. */
    from -= test_crowd_below((uint32_t)(from - oldest < EARLY_MAX ? from - oldest : EARLY_MAX) + 1);
    if (to >= from + TEST_CROWD_PAGE)
        to = from + TEST_CROWD_PAGE - 1;
    if (to >= from)
        tell(worker, from, to, &batch);
    else
        test_crowd_heartbeat(worker, &batch);
    answer_page(0, &batch, out);
    kvt_buffer_release(&batch);
    crowd.counts.ranges++;
}

/* A cursor says which snapshot it goes on with: life, event, and how many blocks were told. */
static uint64_t
cursor_of(const struct test_crowd_picture *snapshot, uint32_t told)
{
    return (uint64_t)snapshot->life << 48 | snapshot->seq << 16 | told;
}

static void
answer_dump(uint32_t worker, uint64_t cursor, struct kvt_buffer *out)
{
    const struct test_crowd_picture *now = &crowd.workers[worker].now;
    struct test_crowd_picture snapshot = {.life = UINT32_MAX};
    struct kvt_event events[TEST_CROWD_PAGE];
    uint32_t told = (uint32_t)(cursor & 0xFFFF);
    struct kvt_buffer batch;
    size_t count = 0;

    if (cursor != 0 && cursor >> 48 != now->life) {
        crowd.counts.broken_off++;
        answer_page(0, NULL, out);
        return;
    }
    test_crowd_at(worker, now->life, cursor == 0 ? now->seq : cursor >> 16 & UINT32_MAX, &snapshot);
    for (; told < TEST_CROWD_BLOCKS * TEST_CROWD_TIERS && count < TEST_CROWD_PAGE; told++) {
        const struct op op = {KVT_EVENT_STORE, (uint8_t)(told / TEST_CROWD_BLOCKS),
                              (uint16_t)(told % TEST_CROWD_BLOCKS)};

        if (snapshot.held[op.tier][op.block])
            events[count++] = event_of(&op);
    }
    kvt_buffer_init(&batch, WIRE_EVENT_BATCH_MAX);
    encode(worker, snapshot.seq, events, count, &batch);
    answer_page(told < TEST_CROWD_BLOCKS * TEST_CROWD_TIERS ? cursor_of(&snapshot, told) : 0,
                &batch, out);
    kvt_buffer_release(&batch);
    crowd.counts.dumps += cursor == 0 ? 1 : 0;
    crowd.counts.pages += cursor == 0 ? 0 : 1;
}

static void
answer(struct advisor_outbox_message *message)
{
    const uint32_t worker = test_crowd_worker(strrchr(message->subject, '.') + 1);
    struct wire_query_range range;
    struct wire_query_dump dump;
    struct kvt_error err;

    if (test_crowd_below(UNHEARD_IN) == 0) {
        crowd.counts.unanswered++;
        message->rc = KVT_TIMEOUT;
    } else if (strstr(message->subject, ".range.") != NULL) {
        assert_int_equal(
            wire_query_decode_range(message->bytes.data, message->bytes.size, &range, &err),
            KVT_OK);
        answer_range(worker, &range, &message->answer);
    } else {
        assert_int_equal(
            wire_query_decode_dump(message->bytes.data, message->bytes.size, &dump, &err), KVT_OK);
        answer_dump(worker, dump.cursor, &message->answer);
    }
}

/* ---- the outbox ---- */

struct advisor_outbox {
    struct {
        struct advisor_outbox_message *message;
        uint64_t due;
    } messages[ADVISOR_OUTBOX_MESSAGES_MAX];
    size_t count;
};

void
test_crowd_tick(void)
{
    crowd.ticks++;
}

enum kvt_err
advisor_outbox_new(struct advisor_outbox **out, struct wire_bus *bus)
{
    (void)bus;
    *out = kvt_calloc(1, sizeof(**out));
    assert_non_null(*out);
    return KVT_OK;
}

void
advisor_outbox_free(struct advisor_outbox *outbox)
{
    for (size_t i = 0; outbox != NULL && i < outbox->count; i++)
        advisor_outbox_message_free(outbox->messages[i].message);
    kvt_free(outbox);
}

enum kvt_err
advisor_outbox_send(struct advisor_outbox *outbox, struct advisor_outbox_message *message)
{
    if (outbox->count == ADVISOR_OUTBOX_MESSAGES_MAX || test_crowd_below(BUSY_IN) == 0)
        return KVT_AGAIN;
    assert_int_equal(message->kind, ADVISOR_OUTBOX_MESSAGE_ASK);
    answer(message);
    outbox->messages[outbox->count].message = message;
    outbox->messages[outbox->count++].due = crowd.ticks + test_crowd_below(LATE_MAX);
    return KVT_OK;
}

/* Those that are due, in any order. */
struct advisor_outbox_message *
advisor_outbox_take(struct advisor_outbox *outbox)
{
    const size_t from = outbox->count == 0 ? 0 : test_crowd_below((uint32_t)outbox->count);

    for (size_t i = 0; i < outbox->count; i++) {
        const size_t at = (from + i) % outbox->count;
        struct advisor_outbox_message *message = outbox->messages[at].message;

        if (outbox->messages[at].due > crowd.ticks)
            continue;
        outbox->messages[at] = outbox->messages[--outbox->count];
        return message;
    }
    return NULL;
}
