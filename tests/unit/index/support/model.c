#include "tests/unit/index/support/model.h"

#include <string.h>
#include <xxhash.h>

#include "base/core/random.h"

#include "tests/support/seed.h"

enum { ROOTS = 12, BRANCH_PERCENT = 6, CHAIN_SEED = 1337 };

static uint64_t
chain(uint64_t parent, uint64_t token)
{
    const uint64_t words[2] = {parent, token};

    return XXH3_64bits_withSeed(words, sizeof(words), CHAIN_SEED);
}

static void
draw_node(struct model *model, uint32_t at, uint32_t *last, uint64_t *random)
{
    struct model_node *node = &model->nodes[at];

    node->token = kvt_random_next(random) | 1;
    if (at < ROOTS) {
        *node =
            (struct model_node){.hash = node->token, .token = node->token, .parent = MODEL_NODES};
        return;
    }
    /* Mostly on from the last one; sometimes from anywhere. */
    if (at == ROOTS || kvt_random_below(random, 100) < BRANCH_PERCENT)
        *last = (uint32_t)kvt_random_below(random, at);
    if (model->nodes[*last].position + 2 >= MODEL_DEPTH_MAX)
        *last = (uint32_t)kvt_random_below(random, ROOTS);
    node->parent = *last;
    node->position = model->nodes[*last].position + 1;
    node->hash = chain(model->nodes[*last].hash, node->token);
    *last = at;
}

void
model_draw(struct model *model, uint64_t *random)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        uint32_t slot;

        draw_node(model, i, &last, random);
        for (slot = model->nodes[i].hash % MODEL_SLOTS; model->slots[slot] != 0;)
            slot = (slot + 1) % MODEL_SLOTS;
        model->slots[slot] = (uint16_t)(i + 1);
    }
}

uint32_t
model_find(const struct model *model, uint64_t hash)
{
    for (uint32_t slot = hash % MODEL_SLOTS; model->slots[slot] != 0;
         slot = (slot + 1) % MODEL_SLOTS)
        if (model->nodes[model->slots[slot] - 1u].hash == hash)
            return model->slots[slot] - 1u;
    return MODEL_NODES;
}

uint32_t
model_path(const struct model *model, uint32_t node, uint32_t path[MODEL_DEPTH_MAX])
{
    const uint32_t count = model->nodes[node].position + 1;

    for (uint32_t i = count; i > 0; i--) {
        path[i - 1] = node;
        node = model->nodes[node].parent;
    }
    return count;
}

bool
model_has(const struct model *model, uint32_t ns, uint32_t node, uint32_t holder)
{
    return model->blocks[ns][node].ranks[holder] != 0;
}

bool
model_is_linked(const struct model *model, uint32_t ns, uint32_t node, uint32_t *parent)
{
    const struct model_block *block = &model->blocks[ns][node];

    *parent = model->nodes[node].parent;
    /* The true parent is the only one of the forest a node ever names. */
    return *parent != MODEL_NODES && block->parent == model->nodes[*parent].hash &&
           model->blocks[ns][*parent].exists &&
           model->blocks[ns][*parent].position + 1 == block->position;
}

static bool
has_child(const struct model *model, uint32_t ns, uint32_t node)
{
    uint32_t parent;

    for (uint32_t i = 0; i < MODEL_NODES; i++)
        if (model->nodes[i].parent == node && model->blocks[ns][i].exists &&
            model_is_linked(model, ns, i, &parent))
            return true;
    return false;
}

static void
note(struct model *model, struct model_block *block, uint32_t holder, enum index_change_kind kind,
     uint64_t time_ms)
{
    memmove(&block->past[1], &block->past[0], (MODEL_PAST - 1) * sizeof(block->past[0]));
    block->past[0] =
        (struct index_past){.time_ms = time_ms / 1000 * 1000, .holder = holder, .kind = kind};
    if (block->past_count < MODEL_PAST)
        block->past_count++;
    model->changes++;
}

static bool
collides(const struct model *model, uint32_t ns, uint32_t node, uint64_t parent, uint32_t position)
{
    const struct model_block *block = &model->blocks[ns][node];

    /* Parent 0 at a position above 0: not known, and neither is the position; unless others hang on
     * it. */
    if (!block->exists || (parent == 0 && position != 0))
        return false;
    if (block->parent == 0 && block->position != 0)
        return block->position != position && has_child(model, ns, node);
    return block->position != position || block->parent != parent;
}

enum kvt_err
model_store(struct model *model, const struct index_change *change, uint32_t at, bool *added)
{
    const uint32_t node = model_find(model, change->hashes[at]);
    const uint64_t parent = at == 0 ? change->parent : change->hashes[at - 1];
    const uint32_t position = change->position + at;
    struct model_block *block = &model->blocks[change->ns][node];
    uint8_t *ranks = &block->ranks[change->holder];

    *added = false;
    if (collides(model, change->ns, node, parent, position)) {
        model->collisions++;
        return KVT_EXISTS;
    }
    if (!block->exists) {
        block->exists = true;
        block->position = position;
        block->parent = parent;
        block->token = 0;
        block->size = change->size;
    }
    if (block->parent == 0 && block->position != 0 && (parent != 0 || position == 0)) {
        block->parent = parent;
        block->position = position;
    }
    if (block->token == 0 && change->tokens != NULL)
        block->token = change->tokens[at];
    if (change->size != 0 && change->size != block->size) {
        for (uint32_t i = 0; i < MODEL_HOLDERS; i++)
            model->holder_bytes[i] +=
                (change->size - block->size) * (uint64_t)__builtin_popcount(block->ranks[i]);
        block->size = change->size;
    }
    block->stored_ms = change->time_ms / 1000 * 1000;
    if (*ranks == 0) {
        *added = true;
        model->block_count += block->count == 0;
        block->count++;
        model->places++;
        model->holder_blocks[change->holder]++;
        note(model, block, change->holder, INDEX_STORE, change->time_ms);
    }
    model->holder_bytes[change->holder] +=
        block->size * (uint64_t)__builtin_popcount(change->ranks & ~(uint32_t)*ranks);
    *ranks |= (uint8_t)change->ranks;
    return KVT_OK;
}

bool
model_remove(struct model *model, uint32_t ns, uint32_t node, uint32_t holder, uint32_t ranks,
             uint64_t time_ms)
{
    struct model_block *block = &model->blocks[ns][node];
    const uint32_t had = block->ranks[holder];
    uint32_t parent;

    if (had == 0)
        return false;
    block->ranks[holder] &= (uint8_t)~ranks;
    model->holder_bytes[holder] -= block->size * (uint64_t)__builtin_popcount(had & ranks);
    if (block->ranks[holder] != 0)
        return true;
    model->holder_blocks[holder]--;
    model->places--;
    note(model, block, holder, INDEX_REMOVE, time_ms);
    if (--block->count > 0)
        return true;
    model->block_count--;
    block->hits = 0;
    block->read_ms = 0;
    /* Ghosts go from the leaves to the roots. */
    while (model->blocks[ns][node].exists && model->blocks[ns][node].count == 0 &&
           !has_child(model, ns, node)) {
        const bool linked = model_is_linked(model, ns, node, &parent);

        model->blocks[ns][node].exists = false;
        if (!linked)
            break;
        node = parent;
    }
    return true;
}

size_t
model_drop(struct model *model, uint32_t holder, uint32_t ns)
{
    size_t count = 0;

    for (uint32_t at = 0; at < MODEL_NAMESPACES; at++)
        for (uint32_t node = 0; node < MODEL_NODES && (ns == INDEX_NAMESPACE_ALL || ns == at);
             node++)
            count += model_remove(model, at, node, holder, UINT32_MAX, 0);
    return count;
}

/* What a holder of one namespace is about to lose. */
struct losing {
    const struct model *model;
    uint32_t ns;
    uint32_t holder;
    uint64_t told;
    bool seen[MODEL_NODES];
};

/* Each block that it has, once; the parent is as the index knows it. */
static void
lose(void *arg, const struct index_dropped *dropped)
{
    struct losing *losing = arg;
    const struct model *model = losing->model;
    uint64_t parent = dropped->parent;

    assert_in_range(dropped->count, 1, INDEX_DROPPED_MAX);
    assert_int_equal(dropped->loss, 0);
    assert_true((dropped->tiers & KVT_TIER_MASK(model->tiers[losing->holder])) != 0);
    for (uint32_t i = 0; i < dropped->count; i++) {
        const uint32_t node = model_find(model, dropped->hashes[i]);
        const struct model_block *block;

        assert_true(node < MODEL_NODES && !losing->seen[node]);
        block = &model->blocks[losing->ns][node];
        assert_true(block->exists && block->ranks[losing->holder] != 0);
        assert_int_equal(block->parent, parent);
        for (uint32_t k = 0; k < MODEL_HOLDERS; k++)
            assert_true(block->ranks[k] == 0 ||
                        (dropped->tiers & KVT_TIER_MASK(model->tiers[k])) != 0);
        losing->seen[node] = true;
        losing->told++;
        parent = dropped->hashes[i];
    }
}

uint64_t
model_lose(const struct model *model, struct index *index, uint32_t holder, uint32_t ns)
{
    const struct index_loss loss = {.holder = holder, .ns = ns};
    struct losing losing = {.model = model, .ns = ns, .holder = holder};
    uint64_t cursor = 0;
    uint64_t total = 0;
    uint64_t pairs;
    bool more;

    do {
        more = index_drop_report(index, &loss, 1, lose, &losing, &cursor, &pairs);
        total += pairs;
    } while (more);
    assert_int_equal(losing.told, total);
    return total;
}

uint64_t
model_orphans(const struct model *model)
{
    uint64_t orphans = 0;
    uint32_t parent;

    for (uint32_t ns = 0; ns < MODEL_NAMESPACES; ns++)
        for (uint32_t i = 0; i < MODEL_NODES; i++)
            orphans += model->blocks[ns][i].exists && model->blocks[ns][i].parent != 0 &&
                       !model_is_linked(model, ns, i, &parent);
    return orphans;
}

/* Whether `node` is `top` or below it, by links alone. */
static bool
is_below(const struct model *model, uint32_t ns, uint32_t node, uint32_t top)
{
    uint32_t parent;

    while (node != top) {
        if (!model->blocks[ns][node].exists || !model_is_linked(model, ns, node, &parent))
            return false;
        node = parent;
    }
    return true;
}

void
model_totals(const struct model *model, uint32_t ns, uint32_t node, struct index_totals *totals)
{
    *totals = (struct index_totals){.blocks = 0};
    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        const struct model_block *block = &model->blocks[ns][i];
        bool tiers[KVT_TIER_G4 + 1] = {false};
        bool parts[INDEX_PARTS] = {false};

        if (block->count == 0 || !is_below(model, ns, i, node))
            continue;
        totals->blocks++;
        totals->places += block->count;
        for (uint32_t holder = 0; holder < MODEL_HOLDERS; holder++) {
            const enum kvt_tier tier = model->tiers[holder];

            if (block->ranks[holder] == 0)
                continue;
            const uint64_t bytes = block->size * (uint64_t)__builtin_popcount(block->ranks[holder]);

            tiers[tier] = true;
            totals->tier_bytes[tier] += bytes;
            if (tier != KVT_TIER_G4)
                continue;
            parts[model_part(holder)] = true;
            totals->part_bytes[model_part(holder)] += bytes;
        }
        for (int part = 0; part < INDEX_PARTS; part++)
            totals->part_blocks[part] += parts[part];
        for (int tier = KVT_TIER_G1; tier <= KVT_TIER_G4; tier++)
            totals->tier_blocks[tier] += tiers[tier];
    }
}
