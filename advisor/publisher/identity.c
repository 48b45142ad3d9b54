#include "advisor/publisher/identity.h"

#include "advisor/publisher/aliases.h"
#include "kvtier/token.h"

/* The speaker's row of a block, if it still holds. */
static const struct advisor_alias_row *
known(const struct advisor_aliases *aliases, const struct advisor_speaker *speaker, uint64_t hash)
{
    const struct advisor_alias_row *row = advisor_aliases_find(aliases, speaker->publisher, hash);

    return row != NULL && row->gen >= speaker->floor ? row : NULL;
}

/* What a store begins with. */
struct root {
    uint64_t parent; /* its name */
    uint64_t seed;
    uint32_t position; /* of the first block */
    bool has_parent;
    bool salted;
    bool by_tokens; /* else the producer's hashes are the names */
};

static uint64_t
local_hash(const struct wire_raw_batch *batch, const struct wire_raw_event *event, uint32_t at,
           uint64_t seed)
{
    const struct wire_raw_block *block = &batch->blocks[event->first + at];

    if (block->tokens_hash != 0)
        return block->tokens_hash;
    return kvt_token_block(batch->token_ids + event->tokens + (size_t)at * wire_raw_window(event),
                           wire_raw_window(event), batch->media + block->media, block->media_count,
                           seed);
}

static bool
has_tokens(const struct wire_raw_batch *batch, const struct wire_raw_event *event)
{
    if (event->block_tokens != 0)
        return true;
    for (uint32_t i = 0; i < event->count; i++)
        if (batch->blocks[event->first + i].tokens_hash == 0)
            return false;
    return true;
}

static uint32_t
behind(uint32_t position)
{
    return position == ADVISOR_POSITION_NOBODY ? ADVISOR_POSITION_NOBODY : position + 1;
}

/* Some producers say 0 for "I do not know". */
static uint32_t
said_position(const struct wire_raw_event *event)
{
    return event->position == WIRE_RAW_POSITION_UNKNOWN ||
                   (event->has_parent && event->position == 0)
               ? ADVISOR_POSITION_NOBODY
               : event->position;
}

/* Salt and adapter are the parent's; a message may leave the salt out behind the first block. */
static bool
inherit(const struct wire_raw_event *event, const struct advisor_alias_row *parent,
        struct root *root)
{
    if (event->block_tokens == 0)
        return true;
    if (!event->salted && parent->salted != 0) {
        root->seed = parent->seed;
        root->salted = true;
        return true;
    }
    return event->seed == parent->seed && event->salted == (parent->salted != 0);
}

/* The parent has no row: is it perhaps named by its own hash?  The first block tells. */
static bool
is_own_name(const struct wire_raw_batch *batch, const struct wire_raw_event *event,
            const struct root *root)
{
    return kvt_token_chain(event->parent, local_hash(batch, event, 0, root->seed)) ==
           batch->blocks[event->first].hash;
}

static enum advisor_naming
find_root(const struct advisor_aliases *aliases, const struct advisor_speaker *speaker,
          const struct wire_raw_batch *batch, const struct wire_raw_event *event, struct root *root)
{
    const struct advisor_alias_row *row;

    *root = (struct root){.seed = event->seed,
                          .salted = event->salted,
                          .has_parent = event->has_parent,
                          .by_tokens = has_tokens(batch, event),
                          .position = said_position(event)};
    if (!event->has_parent) {
        if (root->position == ADVISOR_POSITION_NOBODY)
            root->position = 0;
        return ADVISOR_NAMED;
    }
    row = known(aliases, speaker, event->parent);
    if (row != NULL) {
        root->parent = row->chain;
        if (row->position != ADVISOR_POSITION_NOBODY)
            root->position = behind(row->position);
        return inherit(event, row, root) ? ADVISOR_NAMED : ADVISOR_CONFLICT;
    }
    root->parent = event->parent;
    if (root->by_tokens && !is_own_name(batch, event, root)) {
        /* A block that is known already, in another tier, brings its own name. */
        row = known(aliases, speaker, batch->blocks[event->first].hash);
        if (row == NULL)
            return ADVISOR_ORPHAN;
        root->parent = 0;
        root->position = row->position;
        root->seed = row->seed;
        root->salted = row->salted != 0;
        return ADVISOR_NAMED;
    }
    if (root->position == ADVISOR_POSITION_NOBODY)
        root->position = behind(speaker->position(speaker->arg, event->parent));
    return ADVISOR_NAMED;
}

static enum kvt_err
remember(struct advisor_aliases *aliases, const struct advisor_speaker *speaker,
         const struct advisor_named *named, uint64_t hash, const struct root *root,
         uint32_t position, enum kvt_tier tier)
{
    const struct advisor_alias_row *before =
        advisor_aliases_find(aliases, speaker->publisher, hash);
    struct advisor_alias_row row = {
        .hash = hash,
        .chain = named->hash,
        .seed = root->seed,
        .publisher = speaker->publisher,
        .gen = speaker->gen,
        .position = position,
        .tiers = KVT_TIER_MASK(tier),
        .salted = root->salted ? 1 : 0,
    };

    if (before == NULL && named->hash == hash && !root->salted)
        return KVT_OK; /* its own name */
    if (before != NULL && before->gen >= speaker->floor && before->chain == named->hash)
        row.tiers |= before->tiers & UINT8_MAX;
    return advisor_aliases_put(aliases, &row);
}

/* The first block's name when its parent is known only through the block itself. */
static uint64_t
first_name(const struct advisor_aliases *aliases, const struct advisor_speaker *speaker,
           const struct wire_raw_batch *batch, const struct wire_raw_event *event,
           const struct root *root, uint64_t local)
{
    if (!root->has_parent)
        return local;
    if (root->parent == 0)
        return known(aliases, speaker, batch->blocks[event->first].hash)->chain;
    return kvt_token_chain(root->parent, local);
}

enum kvt_err
advisor_identity_store(struct advisor_aliases *aliases, const struct advisor_speaker *speaker,
                       const struct wire_raw_batch *batch, const struct wire_raw_event *event,
                       struct advisor_named *named, enum advisor_naming *naming)
{
    enum kvt_err rc = KVT_OK;
    struct root root;
    uint64_t parent;

    *naming = ADVISOR_NAMED;
    if (event->count == 0)
        return KVT_OK;
    *naming = find_root(aliases, speaker, batch, event, &root);
    parent = root.parent;
    for (uint32_t i = 0; i < event->count && rc == KVT_OK && *naming == ADVISOR_NAMED; i++) {
        const uint64_t hash = batch->blocks[event->first + i].hash;
        const uint32_t position =
            root.position == ADVISOR_POSITION_NOBODY ? ADVISOR_POSITION_NOBODY : root.position + i;
        uint64_t local = batch->blocks[event->first + i].tokens_hash;
        uint64_t name = hash;

        if (root.by_tokens) {
            local = local_hash(batch, event, i, root.seed);
            name = i > 0 ? kvt_token_chain(parent, local)
                         : first_name(aliases, speaker, batch, event, &root, local);
        }
        named[i] = (struct advisor_named){
            .hash = name, .parent = parent, .tokens_hash = local, .position = position};
        if (position == ADVISOR_POSITION_NOBODY || (position > 0 && parent == 0)) {
            named[i].parent = 0;
            named[i].position = position == ADVISOR_POSITION_NOBODY ? 1 : position;
        }
        rc = remember(aliases, speaker, &named[i], hash, &root, position, event->tier);
        parent = name;
    }
    return rc;
}

uint64_t
advisor_identity_remove(struct advisor_aliases *aliases, const struct advisor_speaker *speaker,
                        enum kvt_tier tier, uint64_t hash, bool *is_known)
{
    const struct advisor_alias_row *row = known(aliases, speaker, hash);
    struct advisor_alias_row left;

    *is_known = row != NULL;
    if (row == NULL)
        return hash;
    left = *row;
    left.tiers = left.tiers & ~(uint32_t)KVT_TIER_MASK(tier) & UINT8_MAX;
    if (left.tiers == 0)
        advisor_aliases_drop(aliases, speaker->publisher, hash);
    else if (advisor_aliases_put(aliases, &left) != KVT_OK)
        return left.chain; /* it is said to be there still, which costs room and harms nothing */
    return left.chain;
}

void
advisor_identity_clear(struct advisor_aliases *aliases, const struct advisor_speaker *speaker,
                       enum kvt_tier tier)
{
    for (uint32_t at = 0; at < advisor_aliases_end(aliases); at++) {
        const struct advisor_alias_row *row = advisor_aliases_at(aliases, at);
        bool is_known;

        if (row != NULL && row->publisher == speaker->publisher &&
            (row->tiers & KVT_TIER_MASK(tier)) != 0)
            (void)advisor_identity_remove(aliases, speaker, tier, row->hash, &is_known);
    }
}
