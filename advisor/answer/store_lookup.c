#include "advisor/answer/store_lookup.h"

#include <string.h>

#include "advisor/store/event_log_table.h"
#include "base/core/alloc.h"

enum {
    NONE = UINT32_MAX,
    WANTED_BITS_MIN = 4, /* 16 slots */
    BITS_A_SLOT = 4,     /* 16 bits before each: of hashes not asked for, few get through */
    PLACES_BITS_MIN = 6,
};

/* Which hashes are asked for. */
struct wanted {
    const uint64_t *hashes;
    uint64_t *bits;  /* in front of `slots` */
    uint32_t *slots; /* open addressing: the first of a hash in `hashes`, plus 1; 0: free */
    unsigned size_bits;
};

/* Where the place of (block, holder) is; nothing leaves. */
struct places {
    struct slot {
        uint32_t block; /* plus 1; 0: free */
        uint32_t holder;
        uint32_t at;
    } * slots;
    unsigned size_bits;
    size_t count;
};

struct lookup {
    struct wanted wanted;
    struct places places;
    struct advisor_store_block *blocks;
    uint32_t *live; /* places of each block that have shards */
    size_t count;
    uint32_t ns;
};

/* ---- hashes ---- */

/* Hashes of blocks come from outside and may be anything; this only has to be cheap. */
static uint64_t
mix(uint64_t hash)
{
    return hash * UINT64_C(0x9e3779b97f4a7c15);
}

static unsigned
bits_for(size_t count, unsigned least)
{
    unsigned bits = least;

    while ((size_t)1 << bits < 2 * count)
        bits++;
    return bits;
}

static bool
may_be_wanted(const struct wanted *wanted, uint64_t hash)
{
    const uint64_t at = mix(hash) >> (64 - wanted->size_bits - BITS_A_SLOT);

    return wanted->bits[at / 64] >> at % 64 & 1;
}

static uint32_t *
wanted_slot(const struct wanted *wanted, uint64_t hash)
{
    const size_t mask = ((size_t)1 << wanted->size_bits) - 1;
    size_t at = mix(hash) >> (64 - wanted->size_bits);

    while (wanted->slots[at] != 0 && wanted->hashes[wanted->slots[at] - 1] != hash)
        at = (at + 1) & mask;
    return &wanted->slots[at];
}

/* The number of a block, or NONE. */
static uint32_t
find_wanted(const struct wanted *wanted, uint64_t hash)
{
    return may_be_wanted(wanted, hash) ? *wanted_slot(wanted, hash) - 1 : NONE;
}

static enum kvt_err
wanted_make(struct wanted *wanted, const uint64_t *hashes, size_t count)
{
    const unsigned bits = bits_for(count, WANTED_BITS_MIN);

    wanted->hashes = hashes;
    wanted->size_bits = bits;
    wanted->slots = kvt_calloc((size_t)1 << bits, sizeof(*wanted->slots));
    wanted->bits = kvt_calloc(((size_t)1 << (bits + BITS_A_SLOT)) / 64, sizeof(*wanted->bits));
    if (wanted->slots == NULL || wanted->bits == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = mix(hashes[i]) >> (64 - bits - BITS_A_SLOT);
        uint32_t *slot = wanted_slot(wanted, hashes[i]);

        wanted->bits[at / 64] |= UINT64_C(1) << at % 64;
        if (*slot == 0)
            *slot = (uint32_t)i + 1;
    }
    return KVT_OK;
}

/* ---- places ---- */

static struct slot *
place_slot(const struct places *places, uint32_t block, uint32_t holder)
{
    const size_t mask = ((size_t)1 << places->size_bits) - 1;
    size_t at = mix((uint64_t)holder << 32 | block) >> (64 - places->size_bits);

    while (places->slots[at].block != 0 &&
           (places->slots[at].block != block + 1 || places->slots[at].holder != holder))
        at = (at + 1) & mask;
    return &places->slots[at];
}

/* One more place fits; half of the slots stay free. */
static enum kvt_err
places_reserve(struct places *places)
{
    const size_t size = places->slots == NULL ? 0 : (size_t)1 << places->size_bits;
    struct places grown = {.count = places->count};

    if (2 * (places->count + 1) <= size)
        return KVT_OK;
    grown.size_bits = size == 0 ? PLACES_BITS_MIN : places->size_bits + 1;
    grown.slots = kvt_calloc((size_t)1 << grown.size_bits, sizeof(*grown.slots));
    if (grown.slots == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < size; i++) {
        const struct slot *slot = &places->slots[i];

        if (slot->block != 0)
            *place_slot(&grown, slot->block - 1, slot->holder) = *slot;
    }
    kvt_free(places->slots);
    *places = grown;
    return KVT_OK;
}

static struct advisor_store_place *
find_place(const struct lookup *lookup, uint32_t number, uint32_t holder)
{
    const struct slot *slot;

    if (lookup->places.slots == NULL)
        return NULL;
    slot = place_slot(&lookup->places, number, holder);
    return slot->block == 0 ? NULL : &lookup->blocks[number].places[slot->at];
}

static void
put_place(struct lookup *lookup, uint32_t number, uint32_t holder, uint32_t at)
{
    *place_slot(&lookup->places, number, holder) =
        (struct slot){.block = number + 1, .holder = holder, .at = at};
    lookup->places.count++;
}

static enum kvt_err
add_place(struct lookup *lookup, uint32_t number, uint32_t holder,
          struct advisor_store_place **place)
{
    struct advisor_store_block *block = &lookup->blocks[number];
    enum kvt_err rc = advisor_store_block_reserve(block, block->place_count + 1);

    *place = NULL;
    if (rc == KVT_OK)
        rc = places_reserve(&lookup->places);
    if (rc != KVT_OK)
        return rc;
    put_place(lookup, number, holder, block->place_count);
    *place = &block->places[block->place_count++];
    **place = (struct advisor_store_place){.holder = holder};
    return KVT_OK;
}

/* ---- operations ---- */

/* A parent of 0 behind the first position means "the producer did not say". */
static bool
is_known(uint64_t parent, uint32_t position)
{
    return parent != 0 || position == 0;
}

static enum kvt_err
store_block(struct lookup *lookup, uint32_t number, const struct advisor_event_log_op *op,
            uint32_t at)
{
    const uint64_t parent = at == 0 ? op->parent : op->hashes[at - 1];
    const uint32_t position = op->position + at;
    struct advisor_store_block *block = &lookup->blocks[number];
    const bool known = lookup->live[number] > 0 && is_known(block->parent, block->position);
    struct advisor_store_place *place;
    enum kvt_err rc = KVT_OK;

    if (op->place.ranks == 0 || (known && is_known(parent, position) &&
                                 (block->parent != parent || block->position != position)))
        return KVT_OK;
    /* Of two who do not know the parent, the first one's position stays. */
    if (!known && (lookup->live[number] == 0 || is_known(parent, position))) {
        block->parent = parent;
        block->position = position;
    }
    if (op->tokens != NULL && op->tokens[at] != 0)
        block->tokens_hash = op->tokens[at];
    if (op->place.size != 0)
        block->size = op->place.size;
    place = find_place(lookup, number, op->place.holder);
    if (place == NULL)
        rc = add_place(lookup, number, op->place.holder, &place);
    if (rc != KVT_OK)
        return rc;
    lookup->live[number] += place->ranks == 0 ? 1 : 0;
    place->ranks |= op->place.ranks;
    return KVT_OK;
}

static void
take(struct lookup *lookup, uint32_t number, uint32_t holder, uint32_t ranks)
{
    struct advisor_store_place *place = find_place(lookup, number, holder);

    if (place == NULL || place->ranks == 0)
        return;
    place->ranks &= ~ranks;
    lookup->live[number] -= place->ranks == 0 ? 1 : 0;
}

static enum kvt_err
apply(void *arg, const struct advisor_event_log_op *op)
{
    struct lookup *lookup = arg;
    enum kvt_err rc = KVT_OK;

    /* Who holds a RUN is said by what follows it. */
    if (op->place.ns != lookup->ns || op->kind == ADVISOR_EVENT_LOG_RUN)
        return KVT_OK;
    if (op->kind == ADVISOR_EVENT_LOG_DROP)
        for (size_t i = 0; i < lookup->count; i++)
            take(lookup, (uint32_t)i, op->place.holder, UINT32_MAX);
    for (uint32_t i = 0; i < op->count && rc == KVT_OK; i++) {
        const uint32_t number = find_wanted(&lookup->wanted, op->hashes[i]);

        if (number == NONE)
            continue;
        if (op->kind == ADVISOR_EVENT_LOG_STORE)
            rc = store_block(lookup, number, op, i);
        else
            take(lookup, number, op->place.holder, op->place.ranks);
    }
    return rc;
}

/* ---- all ---- */

/* What the store has a row for. */
static enum kvt_err
begin_block(struct lookup *lookup, const struct advisor_txn *txn, uint32_t number, uint64_t hash)
{
    struct advisor_store_block *block = &lookup->blocks[number];
    enum kvt_err rc = advisor_store_get_block(txn, lookup->ns, hash, block);

    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    lookup->live[number] = block->place_count;
    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++) {
        rc = places_reserve(&lookup->places);
        if (rc == KVT_OK)
            put_place(lookup, number, block->places[i].holder, i);
    }
    return rc;
}

static enum kvt_err
begin(struct lookup *lookup, const struct advisor_txn *txn, const uint64_t *hashes)
{
    enum kvt_err rc = wanted_make(&lookup->wanted, hashes, lookup->count);

    lookup->live = kvt_calloc(lookup->count, sizeof(*lookup->live));
    if (lookup->live == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < lookup->count && rc == KVT_OK; i++)
        rc = begin_block(lookup, txn, (uint32_t)i, hashes[i]);
    return rc;
}

static enum kvt_err
read_log(struct lookup *lookup, const struct advisor_txn *txn)
{
    struct advisor_store_log_cursor cursor = {0};
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && !cursor.done)
        rc = advisor_store_log_read(txn, &cursor, SIZE_MAX, apply, lookup, NULL);
    return rc;
}

/* Places that lost all their shards leave. */
static void
compact(struct advisor_store_block *block)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < block->place_count; i++)
        if (block->places[i].ranks != 0)
            block->places[count++] = block->places[i];
    block->place_count = count;
}

/* A hash that is asked for twice has one block; the other is a copy. */
static enum kvt_err
copy_block(const struct advisor_store_block *from, struct advisor_store_block *to)
{
    struct advisor_store_block copy = *from;
    const enum kvt_err rc = advisor_store_block_reserve(to, from->place_count);

    if (rc != KVT_OK)
        return rc;
    copy.places = to->places;
    copy.place_capacity = to->place_capacity;
    *to = copy;
    if (from->place_count > 0)
        memcpy(to->places, from->places, from->place_count * sizeof(*to->places));
    return KVT_OK;
}

static enum kvt_err
end(struct lookup *lookup, const uint64_t *hashes)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < lookup->count && rc == KVT_OK; i++) {
        const uint32_t first = find_wanted(&lookup->wanted, hashes[i]);

        if (first == i)
            compact(&lookup->blocks[i]);
        else
            rc = copy_block(&lookup->blocks[first], &lookup->blocks[i]);
    }
    return rc;
}

enum kvt_err
advisor_store_lookup(const struct advisor_txn *txn, uint32_t ns, const uint64_t *hashes,
                     size_t count, struct advisor_store_block *blocks)
{
    struct lookup lookup = {.blocks = blocks, .count = count, .ns = ns};
    enum kvt_err rc;

    if (count == 0)
        return KVT_OK;
    if (count >= NONE)
        return KVT_RANGE;
    rc = begin(&lookup, txn, hashes);
    if (rc == KVT_OK)
        rc = read_log(&lookup, txn);
    if (rc == KVT_OK)
        rc = end(&lookup, hashes);
    for (size_t i = 0; i < count && rc != KVT_OK; i++)
        blocks[i].place_count = 0;
    kvt_free(lookup.wanted.slots);
    kvt_free(lookup.wanted.bits);
    kvt_free(lookup.places.slots);
    kvt_free(lookup.live);
    return rc;
}
