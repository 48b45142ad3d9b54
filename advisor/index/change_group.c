#include "advisor/index/change_group.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/index/byte_sums.h"
#include "advisor/index/shape_limits.h"
#include "base/core/alloc.h"

/* A change of the by-holder table. */
struct held_op {
    struct advisor_held held;
    uint32_t order;
    bool put;
};

struct advisor_change_group {
    struct advisor_event_log *log; /* of workers' places */
    struct advisor_op *ops;
    struct advisor_effect *effects;
    struct held_op *held;
    size_t op_count;
    size_t op_capacity;
    size_t effect_count;
    size_t held_count;
    struct advisor_store_block block;    /* scratch */
    struct advisor_shape_limits variety; /* of all groups so far */
    struct advisor_held *stored;         /* stores of `block` in this group so far */
    size_t stored_count;
    struct advisor_byte_sums *sums; /* by how much the last write changed what is where */
    uint32_t collisions;
    uint32_t strays;
    bool sorted;
};

enum kvt_err
advisor_change_group_new(struct advisor_change_group **out)
{
    struct advisor_change_group *group = kvt_calloc(1, sizeof(*group));
    enum kvt_err rc;

    *out = NULL;
    if (group == NULL)
        return KVT_NOMEM;
    rc = advisor_event_log_new(&group->log);
    if (rc == KVT_OK)
        rc = advisor_byte_sums_new(&group->sums);
    if (rc != KVT_OK) {
        advisor_event_log_free(group->log);
        kvt_free(group);
        return rc;
    }
    *out = group;
    return KVT_OK;
}

void
advisor_change_group_free(struct advisor_change_group *group)
{
    if (group == NULL)
        return;
    advisor_event_log_free(group->log);
    advisor_byte_sums_free(group->sums);
    advisor_store_block_release(&group->block);
    advisor_shape_limits_release(&group->variety);
    kvt_free(group->ops);
    kvt_free(group->effects);
    kvt_free(group->held);
    kvt_free(group->stored);
    kvt_free(group);
}

void
advisor_change_group_clear(struct advisor_change_group *group)
{
    advisor_event_log_clear(group->log);
    advisor_byte_sums_clear(group->sums);
    group->op_count = 0;
    group->effect_count = 0;
    group->held_count = 0;
    group->sorted = false;
    group->collisions = 0;
    group->strays = 0;
}

/* All arrays grow together, so that writing needs no memory for them.  A store has two effects at
 * most. */
static enum kvt_err
grow(struct advisor_change_group *group)
{
    const size_t capacity = group->op_capacity == 0 ? 1024 : group->op_capacity * 2;
    void *ops = kvt_realloc(group->ops, capacity, sizeof(*group->ops));
    void *effects = kvt_realloc(group->effects, capacity * 2, sizeof(*group->effects));
    void *held = kvt_realloc(group->held, capacity, sizeof(*group->held));
    void *stored = kvt_realloc(group->stored, capacity, sizeof(*group->stored));

    if (ops != NULL)
        group->ops = ops;
    if (effects != NULL)
        group->effects = effects;
    if (held != NULL)
        group->held = held;
    if (stored != NULL)
        group->stored = stored;
    if (ops == NULL || effects == NULL || held == NULL || stored == NULL)
        return KVT_NOMEM;
    group->op_capacity = capacity;
    return KVT_OK;
}

static bool
has_room(const struct advisor_change_group *group, size_t count)
{
    return advisor_change_group_count(group) + count <= ADVISOR_CHANGE_GROUP_OPS_MAX;
}

enum kvt_err
advisor_change_group_add(struct advisor_change_group *group, const struct advisor_op *op)
{
    enum kvt_err rc = KVT_OK;

    if (op->kind == ADVISOR_OP_STORE && op->position > KVT_POSITION_MAX)
        return KVT_RANGE; /* whoever says so: what is in the store must always load */
    if (!has_room(group, 1))
        return KVT_FULL;
    if (op->kind == ADVISOR_OP_STORE)
        rc = advisor_shape_limits_admit(&group->variety, op->ns, op->ranks, op->size);
    if (rc != KVT_OK)
        return rc;
    if (group->op_count == group->op_capacity && grow(group) != KVT_OK)
        return KVT_NOMEM;
    group->ops[group->op_count] = *op;
    group->ops[group->op_count].order = (uint32_t)group->op_count;
    group->op_count++;
    group->sorted = false;
    return KVT_OK;
}

enum kvt_err
advisor_change_group_store(struct advisor_change_group *group,
                           const struct advisor_event_log_place *place, uint64_t parent,
                           uint32_t position, const uint64_t *hashes, const uint64_t *tokens,
                           size_t count)
{
    enum kvt_err rc;

    if (count == 0 || place->ranks == 0)
        return KVT_OK;
    if (position > KVT_POSITION_MAX || count - 1 > KVT_POSITION_MAX - position)
        return KVT_RANGE;
    if (!has_room(group, count))
        return KVT_FULL;
    rc = advisor_shape_limits_admit(&group->variety, place->ns, place->ranks, place->size);
    if (rc != KVT_OK)
        return rc;
    return advisor_event_log_store(group->log, place, parent, position, hashes, tokens, count);
}

enum kvt_err
advisor_change_group_remove(struct advisor_change_group *group,
                            const struct advisor_event_log_place *place, const uint64_t *hashes,
                            size_t count)
{
    if (count == 0 || place->ranks == 0)
        return KVT_OK;
    if (!has_room(group, count))
        return KVT_FULL;
    return advisor_event_log_remove(group->log, place, hashes, count);
}

enum kvt_err
advisor_change_group_drop(struct advisor_change_group *group, uint32_t holder, uint32_t ns)
{
    return advisor_event_log_drop(group->log, holder, ns);
}

struct advisor_event_log *
advisor_change_group_log(struct advisor_change_group *group)
{
    return group->log;
}

size_t
advisor_change_group_count(const struct advisor_change_group *group)
{
    return group->op_count + advisor_event_log_count(group->log);
}

size_t
advisor_change_group_ops(const struct advisor_change_group *group)
{
    return group->op_count;
}

static int
compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int
compare_ops(const void *left, const void *right)
{
    const struct advisor_op *a = left;
    const struct advisor_op *b = right;
    int order = compare_u64(a->hash, b->hash);

    if (order == 0)
        order = compare_u64(a->ns, b->ns);
    return order != 0 ? order : compare_u64(a->order, b->order);
}

static int
compare_places(const struct held_op *a, const struct held_op *b)
{
    int order = compare_u64(a->held.holder, b->held.holder);

    if (order == 0)
        order = compare_u64(a->held.ns, b->held.ns);
    return order != 0 ? order : compare_u64(a->held.hash, b->held.hash);
}

static int
compare_held(const void *left, const void *right)
{
    const struct held_op *a = left;
    const struct held_op *b = right;
    const int order = compare_places(a, b);

    return order != 0 ? order : compare_u64(a->order, b->order);
}

static struct advisor_store_place *
find_place(struct advisor_store_block *block, uint32_t holder)
{
    for (uint32_t i = 0; i < block->place_count; i++)
        if (block->places[i].holder == holder)
            return &block->places[i];
    return NULL;
}

static void
add_held(struct advisor_change_group *group, const struct advisor_op *op, bool put)
{
    assert(group->held_count < group->op_capacity);
    group->held[group->held_count++] = (struct held_op){
        .held = {op->hash, op->holder, op->ns, op->reporter, op->gen},
        .order = op->order,
        .put = put,
    };
}

static void
add_effect(struct advisor_change_group *group, const struct advisor_op *op, uint32_t ranks,
           bool in_hot)
{
    const struct advisor_store_block *block = &group->block;

    assert(group->effect_count < group->op_capacity * 2);
    group->effects[group->effect_count++] = (struct advisor_effect){
        .op = *op,
        .touched_ms = block->touched_ms,
        .parent = block->parent,
        .position = block->position,
        .ranks = ranks,
        .cold_recent = block->cold_recent,
        .in_hot = in_hot,
    };
}

/* A parent of 0 behind the first position means "the producer did not say". */
static bool
is_known(uint64_t parent, uint32_t position)
{
    return parent != 0 || position == 0;
}

static bool
collides(const struct advisor_store_block *block, const struct advisor_op *op)
{
    return block->place_count > 0 && is_known(block->parent, block->position) &&
           is_known(op->parent, op->position) &&
           (block->parent != op->parent || block->position != op->position);
}

/* The place holds shards of before, which a sweep that is under way will not find any more once
 * this store has renewed the place: they go now. */
static enum kvt_err
renew(struct advisor_change_group *group, const struct advisor_txn *txn,
      const struct advisor_op *op, struct advisor_store_place *place)
{
    struct advisor_op gone = *op;
    struct advisor_held held;
    size_t count = 0;
    enum kvt_err rc = KVT_OK;

    for (size_t i = group->stored_count; i > 0 && count == 0; i--)
        if (group->stored[i - 1].holder == op->holder) {
            held = group->stored[i - 1];
            count = 1;
        }
    if (count == 0)
        rc = advisor_store_held(txn, op->holder, op->ns, op->hash, &held, 1, &count);
    if (rc != KVT_OK || count == 0 || held.hash != op->hash || held.reporter != op->reporter ||
        held.gen >= op->floor)
        return rc;
    gone.kind = ADVISOR_OP_REMOVE;
    gone.ranks = place->ranks & ~op->ranks;
    place->ranks &= op->ranks;
    if (gone.ranks != 0)
        add_effect(group, &gone, op->ranks, false);
    return KVT_OK;
}

static enum kvt_err
do_store(struct advisor_change_group *group, const struct advisor_txn *txn,
         const struct advisor_op *op)
{
    struct advisor_store_block *block = &group->block;
    struct advisor_store_place *place;
    enum kvt_err rc;

    if (collides(block, op)) {
        group->collisions++;
        return KVT_OK;
    }
    if (block->place_count == 0 || !is_known(block->parent, block->position)) {
        block->parent = op->parent;
        block->position = op->position;
    }
    if (op->tokens_hash != 0)
        block->tokens_hash = op->tokens_hash;
    if (op->size != 0)
        block->size = op->size;
    if (op->time_ms > block->touched_ms)
        block->touched_ms = op->time_ms;
    if (block->place_count == 0)
        block->stored_ms = op->time_ms;
    place = find_place(block, op->holder);
    if (op->hot || place == NULL)
        block->cold_recent = 0; /* reads from further down count from each move on */
    if (place == NULL) {
        rc = advisor_store_block_reserve(block, block->place_count + 1);
        if (rc != KVT_OK)
            return rc;
        place = &block->places[block->place_count++];
        *place = (struct advisor_store_place){.holder = op->holder};
    } else if (op->floor != 0) {
        rc = renew(group, txn, op, place);
        if (rc != KVT_OK)
            return rc;
    }
    group->stored[group->stored_count++] =
        (struct advisor_held){op->hash, op->holder, op->ns, op->reporter, op->gen};
    place->ranks |= op->ranks;
    add_held(group, op, true);
    add_effect(group, op, place->ranks, false);
    return KVT_OK;
}

static void
do_remove(struct advisor_change_group *group, const struct advisor_op *op)
{
    struct advisor_store_block *block = &group->block;
    struct advisor_store_place *place = find_place(block, op->holder);
    uint32_t left;

    if (place == NULL)
        return;
    place->ranks &= ~op->ranks;
    left = place->ranks;
    if (left == 0) {
        *place = block->places[--block->place_count];
        add_held(group, op, false);
    }
    add_effect(group, op, left, false);
    if (block->place_count == 0) {
        /* The next store of this hash, in this group or later, meets a block without a past. */
        const struct advisor_store_block fresh = {.hash = block->hash,
                                                  .ns = block->ns,
                                                  .places = block->places,
                                                  .place_capacity = block->place_capacity};
        *block = fresh;
    }
}

static void
do_access(struct advisor_change_group *group, const struct advisor_op *op,
          advisor_change_group_hot_fn *hot_holder, void *arg)
{
    struct advisor_store_block *block = &group->block;
    const struct advisor_store_place *place;
    const uint64_t age_ms = op->time_ms > block->touched_ms ? op->time_ms - block->touched_ms : 0;
    bool in_hot = false; /* of the gateway that reports it */

    if (block->place_count == 0) {
        group->strays++;
        return;
    }
    block->hits += op->count;
    if (op->cold)
        block->cold_hits += op->count;
    if (op->cold || op->warm)
        block->cold_recent += op->count;
    if (op->time_ms > block->last_access_ms)
        block->last_access_ms = op->time_ms;
    if (op->time_ms > block->touched_ms)
        block->touched_ms = op->time_ms;
    for (uint32_t i = 0; i < block->place_count && !in_hot; i++)
        in_hot = hot_holder(arg, op->reporter, block->places[i].holder);
    place = find_place(block, op->holder);
    add_effect(group, op, place == NULL ? 0 : place->ranks, in_hot);
    group->effects[group->effect_count - 1].op.size = block->size;
    group->effects[group->effect_count - 1].age_ms = age_ms;
}

/* What the block has where, into the sums or out of them: its size may change with its places. */
static enum kvt_err
sum_up(struct advisor_change_group *group, bool in)
{
    const struct advisor_store_block *block = &group->block;
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = 0; i < block->place_count && rc == KVT_OK; i++) {
        const int64_t bytes =
            (int64_t)(block->size * (uint64_t)__builtin_popcount(block->places[i].ranks));
        size_t at;

        rc = advisor_byte_sums_add(group->sums, block->ns, block->places[i].holder,
                                   in ? bytes : -bytes, &at);
    }
    return rc;
}

/* Are there others than reads among a block's ops? */
static bool
changes_places(const struct advisor_change_group *group, size_t first)
{
    const struct advisor_op *head = &group->ops[first];

    for (size_t at = first;
         at < group->op_count && group->ops[at].hash == head->hash && group->ops[at].ns == head->ns;
         at++)
        if (group->ops[at].kind != ADVISOR_OP_ACCESS)
            return true;
    return false;
}

/* All ops of one block, from `first` on; `end` is where the next block's begin. */
static enum kvt_err
write_block(struct advisor_change_group *group, const struct advisor_txn *txn, size_t first,
            size_t *end, advisor_change_group_hot_fn *hot_holder, void *arg)
{
    const struct advisor_op *head = &group->ops[first];
    const bool changes = changes_places(group, first);
    size_t at = first;
    enum kvt_err rc = advisor_store_get_block(txn, head->ns, head->hash, &group->block);

    *end = first;
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return rc;
    group->stored_count = 0;
    for (rc = changes ? sum_up(group, false) : KVT_OK; at < group->op_count && rc == KVT_OK; at++) {
        const struct advisor_op *op = &group->ops[at];

        if (op->hash != head->hash || op->ns != head->ns)
            break;
        switch (op->kind) {
        case ADVISOR_OP_STORE: rc = do_store(group, txn, op); break;
        case ADVISOR_OP_REMOVE: do_remove(group, op); break;
        case ADVISOR_OP_ACCESS: do_access(group, op, hot_holder, arg); break;
        }
    }
    *end = at;
    if (rc == KVT_OK && changes)
        rc = sum_up(group, true);
    return rc == KVT_OK ? advisor_store_put_block(txn, &group->block) : rc;
}

static enum kvt_err
write_held(struct advisor_change_group *group, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    if (group->held_count == 0)
        return KVT_OK;
    qsort(group->held, group->held_count, sizeof(*group->held), compare_held);
    for (size_t i = 0; i < group->held_count && rc == KVT_OK; i++) {
        const struct held_op *op = &group->held[i];

        /* Only the last word about a place counts. */
        if (i + 1 < group->held_count && compare_places(op, op + 1) == 0)
            continue;
        rc = op->put ? advisor_store_put_held(txn, &op->held)
                     : advisor_store_delete_held(txn, &op->held);
    }
    return rc;
}

static enum kvt_err
write_rows(struct advisor_change_group *group, const struct advisor_txn *txn,
           advisor_change_group_hot_fn *hot_holder, void *arg)
{
    size_t at = 0;
    enum kvt_err rc = KVT_OK;

    if (!group->sorted)
        qsort(group->ops, group->op_count, sizeof(*group->ops), compare_ops);
    group->sorted = true;
    while (at < group->op_count && rc == KVT_OK)
        rc = write_block(group, txn, at, &at, hot_holder, arg);
    return rc == KVT_OK ? write_held(group, txn) : rc;
}

enum kvt_err
advisor_change_group_write(struct advisor_change_group *group, const struct advisor_txn *txn,
                           struct advisor_store_log *log, advisor_change_group_hot_fn *hot_holder,
                           void *arg)
{
    enum kvt_err rc = KVT_OK;

    advisor_byte_sums_clear(group->sums);
    group->effect_count = 0;
    group->held_count = 0;
    group->collisions = 0;
    group->strays = 0;
    if (group->op_count > 0)
        rc = write_rows(group, txn, hot_holder, arg);
    if (rc == KVT_OK && log != NULL && advisor_event_log_count(group->log) > 0)
        rc = advisor_store_log_append(txn, log, group->log);
    return rc;
}

const struct advisor_effect *
advisor_change_group_effects(const struct advisor_change_group *group, size_t *count)
{
    *count = group->effect_count;
    return group->effects;
}

const struct advisor_byte_sums_row *
advisor_change_group_sums(const struct advisor_change_group *group, size_t *count)
{
    return advisor_byte_sums_rows(group->sums, count);
}

uint32_t
advisor_change_group_collisions(const struct advisor_change_group *group)
{
    return group->collisions;
}

uint32_t
advisor_change_group_strays(const struct advisor_change_group *group)
{
    return group->strays;
}
