#include <assert.h>

#include "index/index.h"
#include "index/old_state.h"

uint32_t
index_state_find_block(struct index *index, uint32_t ns, uint64_t hash,
                       struct index_slots_probe *probe)
{
    uint32_t number =
        index_slots_first(&index->block_table, index_state_block_key(ns, hash), probe);

    while (number != INDEX_NONE) {
        const struct index_block_record *block = index_state_block(index, number);

        if (block->hash == hash && block->ns == ns)
            break;
        number = index_slots_next(probe);
    }
    return number;
}

uint32_t
index_state_find_place(struct index *index, uint32_t block, uint32_t holder,
                       struct index_slots_probe *probe)
{
    uint32_t number =
        index_slots_first(&index->place_table, index_state_place_key(block, holder), probe);

    while (number != INDEX_NONE) {
        const struct index_place_record *place = index_state_place(index, number);

        if (place->block == block && place->holder == holder)
            break;
        number = index_slots_next(probe);
    }
    return number;
}

uint32_t
index_state_find_children(struct index *index, uint32_t ns, uint64_t parent,
                          struct index_slots_probe *probe)
{
    uint32_t number =
        index_slots_first(&index->child_table, index_state_block_key(ns, parent), probe);

    while (number != INDEX_NONE) {
        const struct index_block_record *child = index_state_block(index, number);

        if (child->parent == parent && child->ns == ns)
            break;
        number = index_slots_next(probe);
    }
    return number;
}

static uint64_t
place_bytes(const struct index_block_record *block, uint32_t ranks)
{
    return block->size * (uint64_t)__builtin_popcount(ranks);
}

/* Parent 0 is "root or unknown": such blocks are nobody's children. */
static void
link_child(struct index *index, uint32_t number)
{
    struct index_block_record *block = index_state_block(index, number);
    struct index_slots_probe probe;
    uint32_t head;

    block->sibling_next = block->sibling_prev = INDEX_NONE;
    if (block->parent == 0)
        return;
    head = index_state_find_children(index, block->ns, block->parent, &probe);
    if (head == INDEX_NONE) {
        index_slots_add(&index->child_table, index_state_block_key(block->ns, block->parent),
                        number);
        return;
    }
    block->sibling_next = head;
    index_state_block(index, head)->sibling_prev = number;
    index_slots_replace(&probe, number);
}

static void
unlink_child(struct index *index, uint32_t number)
{
    struct index_block_record *block = index_state_block(index, number);
    struct index_slots_probe probe;
    uint32_t head;

    if (block->parent == 0)
        return;
    if (block->sibling_next != INDEX_NONE)
        index_state_block(index, block->sibling_next)->sibling_prev = block->sibling_prev;
    if (block->sibling_prev != INDEX_NONE) {
        index_state_block(index, block->sibling_prev)->sibling_next = block->sibling_next;
        return;
    }
    head = index_state_find_children(index, block->ns, block->parent, &probe);
    assert(head == number);
    if (block->sibling_next == INDEX_NONE)
        index_slots_remove(&probe);
    else
        index_slots_replace(&probe, block->sibling_next);
}

static void
link_place(struct index *index, uint32_t number)
{
    struct index_place_record *place = index_state_place(index, number);
    struct index_block_record *block = index_state_block(index, place->block);
    struct index_holder_record *holder = index_state_holder(index, place->holder);

    place->block_prev = place->holder_prev = INDEX_NONE;
    place->block_next = block->place_head;
    if (place->block_next != INDEX_NONE)
        index_state_place(index, place->block_next)->block_prev = number;
    block->place_head = number;
    block->place_count++;
    block->tiers |= (uint8_t)KVT_TIER_MASK(holder->key.tier);
    place->holder_next = holder->place_head;
    if (place->holder_next != INDEX_NONE)
        index_state_place(index, place->holder_next)->holder_prev = number;
    holder->place_head = number;
    holder->blocks++;
}

static void
unlink_place(struct index *index, uint32_t number)
{
    struct index_place_record *place = index_state_place(index, number);
    struct index_block_record *block = index_state_block(index, place->block);
    struct index_holder_record *holder = index_state_holder(index, place->holder);
    uint32_t *block_link = place->block_prev == INDEX_NONE
                               ? &block->place_head
                               : &index_state_place(index, place->block_prev)->block_next;
    uint32_t *holder_link = place->holder_prev == INDEX_NONE
                                ? &holder->place_head
                                : &index_state_place(index, place->holder_prev)->holder_next;

    *block_link = place->block_next;
    if (place->block_next != INDEX_NONE)
        index_state_place(index, place->block_next)->block_prev = place->block_prev;
    *holder_link = place->holder_next;
    if (place->holder_next != INDEX_NONE)
        index_state_place(index, place->holder_next)->holder_prev = place->holder_prev;
    block->place_count--;
    holder->blocks--;
    holder->bytes -= place_bytes(block, place->ranks);
}

/* The tiers of the places that are left. */
static uint8_t
tiers_of(const struct index *index, const struct index_block_record *block)
{
    uint8_t tiers = 0;

    for (uint32_t at = block->place_head; at != INDEX_NONE;) {
        const struct index_place_record *place = index_state_place(index, at);

        tiers |= (uint8_t)KVT_TIER_MASK(index_state_holder(index, place->holder)->key.tier);
        at = place->block_next;
    }
    return tiers;
}

/* Every list and table forgets the place, and the block with its last one. */
static void
remove_place(struct index *index, uint32_t number)
{
    const struct index_place_record *place = index_state_place(index, number);
    const uint32_t block_number = place->block;
    struct index_block_record *block = index_state_block(index, block_number);
    struct index_slots_probe probe;
    uint32_t found = index_state_find_place(index, block_number, place->holder, &probe);

    assert(found == number);
    index_slots_remove(&probe);
    unlink_place(index, number);
    index_pool_give(&index->places, number);
    if (block->place_count > 0) {
        block->tiers = tiers_of(index, block);
        return;
    }
    unlink_child(index, block_number);
    found = index_state_find_block(index, block->ns, block->hash, &probe);
    assert(found == block_number);
    index_slots_remove(&probe);
    index_pool_give(&index->blocks, block_number);
}

/* What a Store may need, before anything is changed. */
static bool
reserve(struct index *index, uint32_t ns, uint32_t holder, uint32_t block_number,
        const struct index_block *block)
{
    uint32_t next = block_number;

    if (next == INDEX_NONE) {
        if (!index_pool_reserve(&index->blocks) ||
            !index_slots_reserve(&index->block_table, index_state_block_key(ns, block->id.hash)))
            return false;
        /* The number it will get decides where its place goes. */
        next = index_pool_peek(&index->blocks);
    }
    if (block->id.parent != 0 &&
        !index_slots_reserve(&index->child_table, index_state_block_key(ns, block->id.parent)))
        return false;
    return index_pool_reserve(&index->places) &&
           index_slots_reserve(&index->place_table, index_state_place_key(next, holder));
}

static bool
collides(const struct index_block_record *known, const struct index_block *block)
{
    if (known->position != block->id.position)
        return true;
    /* At a position above 0, parent 0 means that the sender does not know it. */
    return known->parent != block->id.parent &&
           (block->id.position == 0 || (known->parent != 0 && block->id.parent != 0));
}

static uint32_t
add_block(struct index *index, uint32_t ns, const struct index_block *block)
{
    const uint32_t number = index_pool_take(&index->blocks);
    struct index_block_record *record = index_state_block(index, number);

    *record = (struct index_block_record){
        .hash = block->id.hash,
        .parent = block->id.parent,
        .position = block->id.position,
        .tokens_hash = block->tokens_hash,
        .size = block->size,
        .place_head = INDEX_NONE,
    };
    record->ns = ns & 0xffffffu;
    index_slots_add(&index->block_table, index_state_block_key(ns, block->id.hash), number);
    link_child(index, number);
    return number;
}

/* A later Store may know what an earlier one did not. */
static void
learn(struct index *index, uint32_t number, const struct index_block *block)
{
    struct index_block_record *record = index_state_block(index, number);

    if (record->parent == 0 && block->id.parent != 0) {
        record->parent = block->id.parent;
        link_child(index, number);
    }
    if (record->tokens_hash == 0)
        record->tokens_hash = block->tokens_hash;
    if (block->size == 0 || block->size == record->size)
        return;
    /* The holders' totals follow the block's size. */
    for (uint32_t at = record->place_head; at != INDEX_NONE;) {
        const struct index_place_record *place = index_state_place(index, at);
        const uint64_t ranks = (uint64_t)__builtin_popcount(place->ranks);

        index_state_holder(index, place->holder)->bytes += (block->size - record->size) * ranks;
        at = place->block_next;
    }
    record->size = block->size;
}

static bool
add_place(struct index *index, uint32_t block_number, uint32_t holder, uint32_t ranks)
{
    struct index_block_record *block = index_state_block(index, block_number);
    struct index_slots_probe probe;
    uint32_t number = index_state_find_place(index, block_number, holder, &probe);
    const bool added = number == INDEX_NONE;
    struct index_place_record *place;

    if (added) {
        number = index_pool_take(&index->places);
        place = index_state_place(index, number);
        place->block = block_number;
        place->holder = holder;
        index_slots_add(&index->place_table, index_state_place_key(block_number, holder), number);
        link_place(index, number);
    }
    place = index_state_place(index, number);
    index_state_holder(index, holder)->bytes += place_bytes(block, ranks & ~place->ranks);
    place->ranks |= ranks;
    return added;
}

enum kvt_err
index_store(struct index *index, uint32_t ns, uint32_t holder, const struct index_block *block,
            bool *added)
{
    struct index_slots_probe probe;
    uint32_t number;
    bool is_new = false;
    enum kvt_err rc = KVT_OK;

    assert(index != NULL && block != NULL);
    if (added != NULL)
        *added = false;
    if (block->ranks == 0)
        return KVT_INVALID;
    (void)pthread_rwlock_wrlock(&index->lock);
    assert(ns < index->namespaces.used && holder < index->holders.used);
    number = index_state_find_block(index, ns, block->id.hash, &probe);
    if (number != INDEX_NONE && collides(index_state_block(index, number), block)) {
        index->collisions++;
        rc = KVT_EXISTS;
    } else if (!reserve(index, ns, holder, number, block)) {
        rc = KVT_FULL;
    } else {
        if (number == INDEX_NONE)
            number = add_block(index, ns, block);
        else
            learn(index, number, block);
        is_new = add_place(index, number, holder, block->ranks);
    }
    (void)pthread_rwlock_unlock(&index->lock);
    if (added != NULL)
        *added = is_new;
    return rc;
}

enum kvt_err
index_remove(struct index *index, uint32_t ns, uint32_t holder, uint64_t hash, uint32_t ranks)
{
    struct index_slots_probe probe;
    uint32_t block;
    uint32_t number = INDEX_NONE;

    assert(index != NULL);
    (void)pthread_rwlock_wrlock(&index->lock);
    block = index_state_find_block(index, ns, hash, &probe);
    if (block != INDEX_NONE)
        number = index_state_find_place(index, block, holder, &probe);
    if (number != INDEX_NONE) {
        struct index_place_record *place = index_state_place(index, number);

        if ((place->ranks & ~ranks) == 0) {
            remove_place(index, number);
        } else {
            index_state_holder(index, holder)->bytes -=
                place_bytes(index_state_block(index, block), place->ranks & ranks);
            place->ranks &= ~ranks;
        }
    }
    (void)pthread_rwlock_unlock(&index->lock);
    return number != INDEX_NONE ? KVT_OK : KVT_NOTFOUND;
}

size_t
index_drop_holder(struct index *index, uint32_t holder, size_t max)
{
    size_t count = 0;

    assert(index != NULL);
    (void)pthread_rwlock_wrlock(&index->lock);
    assert(holder < index->holders.used);
    while (count < max && index_state_holder(index, holder)->place_head != INDEX_NONE) {
        remove_place(index, index_state_holder(index, holder)->place_head);
        count++;
    }
    (void)pthread_rwlock_unlock(&index->lock);
    return count;
}
