#include "policy/decide/tier_blocks.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/decide/tier_blocks_private.h"

/* Who is there. */

enum { SEATS_MIN = 64, TOLD_MIN = 64 };

/* Of memory, for each seat there is room for; buckets are up to twice as many. */
enum {
    SEAT_BYTES = sizeof(struct policy_seat) + POLICY_BLOCK_QUEUES_BLOCK_BYTES +
                 2 * sizeof(uint32_t) + KVT_ORDERING_BLOCK_BYTES
};

enum kvt_err
policy_tier_blocks_new(struct policy_tier_blocks **out,
                       const struct policy_tier_blocks_options *options)
{
    struct policy_tier_blocks *roster = kvt_calloc(1, sizeof(*roster));
    enum kvt_err rc = KVT_NOMEM;

    *out = NULL;
    if (roster == NULL)
        return KVT_NOMEM;
    roster->ordering = options->ordering;
    roster->bytes_max = options->bytes_max;
    assert(options->request_ticks <= POLICY_TIER_BLOCKS_REQUEST_MAX);
    roster->request_ticks = options->request_ticks;
    roster->prices = options->ordering_options.prices;
    policy_block_queues_init(&roster->queues);
    roster->told = kvt_grow(NULL, &roster->told_capacity, TOLD_MIN, sizeof(*roster->told));
    if (roster->told != NULL)
        rc = roster->ordering->init(&roster->state, &options->ordering_options);
    if (rc != KVT_OK) {
        policy_tier_blocks_free(roster);
        return rc;
    }
    *out = roster;
    return KVT_OK;
}

void
policy_tier_blocks_free(struct policy_tier_blocks *roster)
{
    if (roster == NULL)
        return;
    roster->ordering->free(roster->state);
    policy_block_queues_release(&roster->queues);
    kvt_free(roster->told);
    kvt_free(roster->buckets);
    kvt_free(roster->seats);
    kvt_free(roster);
}

/* ---- names ---- */

static uint32_t *
bucket_of(const struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    const uint64_t mixed = (hash ^ ns) * UINT64_C(0x9e3779b97f4a7c15);

    return &roster->buckets[(uint32_t)(mixed >> 32) & (roster->bucket_count - 1)];
}

uint32_t
policy_tier_blocks_find(const struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    if (roster->seats_max == 0)
        return POLICY_NONE;
    for (uint32_t at = *bucket_of(roster, ns, hash); at != POLICY_NONE; at = roster->seats[at].next)
        if (roster->seats[at].block.hash == hash && roster->seats[at].block.ns == ns)
            return at;
    return POLICY_NONE;
}

static void
link_seat(struct policy_tier_blocks *roster, uint32_t at)
{
    struct policy_seat *seat = &roster->seats[at];
    uint32_t *bucket = bucket_of(roster, seat->block.ns, seat->block.hash);

    seat->next = *bucket;
    *bucket = at;
}

static void
unlink_seat(struct policy_tier_blocks *roster, uint32_t at)
{
    const struct policy_seat *seat = &roster->seats[at];
    uint32_t *link = bucket_of(roster, seat->block.ns, seat->block.hash);

    while (*link != at)
        link = &roster->seats[*link].next;
    *link = seat->next;
}

/* ---- seats ---- */

/* Half as many again, or what the bound leaves room for; 0 = none. */
static uint32_t
next_size(const struct policy_tier_blocks *roster)
{
    const uint64_t most = roster->bytes_max / SEAT_BYTES;
    uint64_t wanted = roster->seats_max + (uint64_t)roster->seats_max / 2;

    if (wanted < SEATS_MIN)
        wanted = SEATS_MIN;
    if (wanted > most)
        wanted = most;
    if (wanted > KVT_ORDERING_BLOCKS_MAX)
        wanted = KVT_ORDERING_BLOCKS_MAX;
    return wanted > roster->seats_max ? (uint32_t)wanted : 0;
}

static enum kvt_err
grow_buckets(struct policy_tier_blocks *roster, uint32_t seats)
{
    uint32_t count = roster->bucket_count == 0 ? SEATS_MIN : roster->bucket_count;
    uint32_t *buckets;

    while (count < seats)
        count *= 2;
    if (count == roster->bucket_count)
        return KVT_OK;
    buckets = kvt_calloc(count, sizeof(*buckets));
    if (buckets == NULL)
        return KVT_NOMEM;
    memset(buckets, 0xff, count * sizeof(*buckets)); /* POLICY_NONE */
    kvt_free(roster->buckets);
    roster->buckets = buckets;
    roster->bucket_count = count;
    for (uint32_t i = 0; i < roster->seats_max; i++)
        if (roster->queues.queue_of[i] != POLICY_TIER_BLOCKS_FREE)
            link_seat(roster, i);
    return KVT_OK;
}

static enum kvt_err
grow(struct policy_tier_blocks *roster)
{
    const uint32_t count = next_size(roster);
    struct policy_seat *seats;

    if (count == 0)
        return KVT_FULL;
    if (roster->ordering->reserve(roster->state, count) != KVT_OK ||
        policy_block_queues_reserve(&roster->queues, count) != KVT_OK ||
        grow_buckets(roster, count) != KVT_OK)
        return KVT_NOMEM;
    seats = kvt_realloc(roster->seats, count, sizeof(*seats));
    if (seats == NULL)
        return KVT_NOMEM;
    memset(seats + roster->seats_max, 0, (count - roster->seats_max) * sizeof(*seats));
    roster->seats = seats;
    for (uint32_t i = roster->seats_max; i < count; i++)
        policy_block_queues_add(&roster->queues, POLICY_TIER_BLOCKS_FREE, i);
    roster->seats_max = count;
    return KVT_OK;
}

/* Nothing that was told names it. */
static void
empty_seat(struct policy_tier_blocks *roster, uint32_t at)
{
    struct policy_seat *seat = &roster->seats[at];

    assert(roster->told_count == 0 && (seat->flags & POLICY_TIER_BLOCKS_IN) == 0);
    if (seat->flags & POLICY_TIER_BLOCKS_KNOWN)
        roster->ordering->forget(roster->state, at);
    unlink_seat(roster, at);
    if (roster->queues.queue_of[at] != POLICY_BLOCK_QUEUE_NONE)
        policy_block_queues_remove(&roster->queues, at);
    policy_block_queues_add(&roster->queues, POLICY_TIER_BLOCKS_FREE, at);
    *seat = (struct policy_seat){.flags = 0};
    roster->known--;
}

/* KVT_OK: there is a free one. */
static enum kvt_err
free_seat(struct policy_tier_blocks *roster)
{
    enum kvt_err rc = KVT_OK;

    if (roster->queues.queues[POLICY_TIER_BLOCKS_FREE].count > 0)
        return KVT_OK;
    rc = grow(roster);
    if (rc == KVT_OK || roster->restoring) /* then nothing is in its order yet */
        return rc;
    policy_tier_blocks_settle(roster);
    if (roster->queues.queues[POLICY_TIER_BLOCKS_COLD].count == 0)
        return rc;
    empty_seat(roster, roster->queues.queues[POLICY_TIER_BLOCKS_COLD].oldest);
    return KVT_OK;
}

static enum kvt_err
seat_of(struct policy_tier_blocks *roster, const struct policy_block *block, uint32_t *out,
        bool *is_new)
{
    struct policy_seat *seat;
    enum kvt_err rc;

    *is_new = false;
    *out = policy_tier_blocks_find(roster, block->ns, block->hash);
    if (*out != POLICY_NONE)
        return KVT_OK;
    rc = free_seat(roster);
    if (rc != KVT_OK)
        return rc;
    *out = roster->queues.queues[POLICY_TIER_BLOCKS_FREE].oldest;
    policy_block_queues_remove(&roster->queues, *out);
    seat = &roster->seats[*out];
    *seat = (struct policy_seat){.block = *block};
    seat->block.ranks = 0;
    link_seat(roster, *out);
    roster->known++;
    *is_new = true;
    return KVT_OK;
}

/* ---- what is told ---- */

static void
set_ranks(struct policy_tier_blocks *roster, struct policy_seat *seat, uint32_t ranks)
{
    if ((seat->block.ranks != 0) != (ranks != 0))
        roster->in_tier += ranks != 0 ? 1u : -1u;
    seat->block.ranks = ranks;
}

static void
learn_facts(struct policy_seat *seat, const struct policy_block *block)
{
    if (seat->block.parent == 0)
        seat->block.parent = block->parent;
    if (block->size != 0)
        seat->block.size = block->size;
}

static void
note(struct policy_tier_blocks *roster, uint32_t at, bool used, bool again)
{
    const struct policy_seat *seat = &roster->seats[at];
    struct policy_told *told;

    if (roster->told_count == roster->told_capacity) {
        void *more = roster->told_capacity >= POLICY_TOLD_MAX
                         ? NULL
                         : kvt_grow(roster->told, &roster->told_capacity, roster->told_count + 1,
                                    sizeof(*roster->told));

        if (more == NULL)
            policy_tier_blocks_settle(
                roster); /* makes room, at the price of the order in this tick */
        else
            roster->told = more;
    }
    told = &roster->told[roster->told_count];
    *told = (struct policy_told){.tick = roster->newest,
                                 .seat = at,
                                 .position = seat->block.position,
                                 .number = (uint32_t)roster->told_count++,
                                 .uses = used ? seat->uses : 0,
                                 .ranks = seat->block.ranks,
                                 .again = again};
}

static uint32_t
parent_seat(const struct policy_tier_blocks *roster, const struct policy_seat *seat)
{
    return seat->block.parent == 0
               ? POLICY_NONE
               : policy_tier_blocks_find(roster, seat->block.ns, seat->block.parent);
}

static bool
is_used_now(const struct policy_tier_blocks *roster, const struct policy_seat *seat)
{
    return seat->uses > 0 && seat->stamp == (uint32_t)roster->newest;
}

/* Is this use, which may be known from another block's alone, the one before it, heard of in
 * another way?  Two that were both read themselves are two. */
static bool
goes_on(const struct policy_tier_blocks *roster, const struct policy_seat *seat, bool implied)
{
    return seat->uses > 0 && (uint32_t)roster->newest - seat->stamp <= roster->request_ticks &&
           (implied || (seat->flags & POLICY_TIER_BLOCKS_IMPLIED) != 0);
}

/* The block and all before it, as far as this tick's uses did not come by already. */
static void
use_chain(struct policy_tier_blocks *roster, uint32_t at)
{
    bool implied = false;

    while (at != POLICY_NONE && !is_used_now(roster, &roster->seats[at])) {
        struct policy_seat *seat = &roster->seats[at];
        const bool again = goes_on(roster, seat, implied);

        if (!again && seat->uses < UINT32_MAX)
            seat->uses++;
        if (!implied)
            seat->flags &= (uint8_t)~POLICY_TIER_BLOCKS_IMPLIED;
        else if (!again)
            seat->flags |= POLICY_TIER_BLOCKS_IMPLIED;
        seat->stamp = (uint32_t)roster->newest;
        note(roster, at, true, again);
        at = parent_seat(roster, seat);
        roster->told[roster->told_count - 1].loose = at == POLICY_NONE && seat->block.parent != 0;
        implied = true;
        if (at != POLICY_NONE)
            roster->seats[at].inner = (uint16_t)roster->newest;
    }
    if (at == POLICY_NONE)
        return;
    if (!implied)
        roster->seats[at].flags &= (uint8_t)~POLICY_TIER_BLOCKS_IMPLIED;
    else if ((roster->seats[at].flags & POLICY_TIER_BLOCKS_ENDED) != 0)
        note(roster, at, true, true); /* it was no end */
}

static void
advance(struct policy_tier_blocks *roster, uint64_t tick)
{
    if (roster->restoring)
        policy_tier_blocks_settle(roster);
    if (tick > roster->newest)
        roster->newest = tick;
}

enum kvt_err
policy_tier_blocks_store(struct policy_tier_blocks *roster, const struct policy_block *block,
                         uint64_t tick)
{
    uint32_t was;
    bool is_new;
    uint32_t at;
    enum kvt_err rc;

    assert(block->ranks != 0);
    advance(roster, tick);
    rc = seat_of(roster, block, &at, &is_new);
    if (rc != KVT_OK)
        return rc;
    learn_facts(&roster->seats[at], block);
    if (is_new)
        use_chain(roster, at);
    was = roster->seats[at].block.ranks;
    set_ranks(roster, &roster->seats[at], block->ranks);
    if (was == 0)
        note(roster, at, false, false);
    return KVT_OK;
}

enum kvt_err
policy_tier_blocks_use(struct policy_tier_blocks *roster, const struct policy_block *block,
                       uint64_t tick)
{
    bool is_new;
    uint32_t at;
    enum kvt_err rc;

    advance(roster, tick);
    rc = seat_of(roster, block, &at, &is_new);
    if (rc != KVT_OK)
        return rc;
    learn_facts(&roster->seats[at], block);
    use_chain(roster, at);
    return KVT_OK;
}

enum kvt_err
policy_tier_blocks_restore(struct policy_tier_blocks *roster, const struct policy_block *block,
                           uint32_t uses, uint64_t tick)
{
    struct policy_seat *seat;
    bool is_new;
    uint32_t at;
    enum kvt_err rc;

    if (policy_tier_blocks_find(roster, block->ns, block->hash) != POLICY_NONE)
        return KVT_OK;
    assert(roster->now == 0 && roster->told_count == 0);
    rc = seat_of(roster, block, &at, &is_new);
    if (rc != KVT_OK)
        return rc;
    roster->restoring = true;
    if (tick > roster->newest)
        roster->newest = tick;
    seat = &roster->seats[at];
    seat->uses = uses > 0 ? uses : 1;
    seat->stamp = (uint32_t)tick;
    set_ranks(roster, seat, block->ranks);
    return KVT_OK;
}

void
policy_tier_blocks_leave(struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);

    if (at == POLICY_NONE || roster->seats[at].block.ranks == 0)
        return;
    if (roster->restoring)
        policy_tier_blocks_settle(roster);
    set_ranks(roster, &roster->seats[at], 0);
    note(roster, at, false, false);
}

bool
policy_tier_blocks_has(const struct policy_tier_blocks *roster, uint32_t ns, uint64_t hash)
{
    const uint32_t at = policy_tier_blocks_find(roster, ns, hash);

    return at != POLICY_NONE && roster->seats[at].block.ranks != 0;
}

void
policy_tier_blocks_counts(const struct policy_tier_blocks *roster,
                          struct policy_tier_blocks_counts *counts)
{
    *counts = (struct policy_tier_blocks_counts){
        .in_tier = roster->in_tier,
        .taken = roster->taken,
        .passed = roster->queues.queues[POLICY_TIER_BLOCKS_PASSED].count,
        .known = roster->known,
        .bytes = sizeof(*roster) + roster->told_capacity * sizeof(*roster->told) +
                 (uint64_t)roster->seats_max *
                     (sizeof(*roster->seats) + POLICY_BLOCK_QUEUES_BLOCK_BYTES) +
                 (uint64_t)roster->bucket_count * sizeof(*roster->buckets) +
                 roster->ordering->memory(roster->state),
    };
}
