#include "advisor/selection.h"

#include <stdio.h>
#include <string.h>

#include "advisor/memory.h"
#include "base/alloc.h"

enum { CHILDREN = 64, GATEWAYS_OF_A_BLOCK = 16 };

struct making {
    struct advisor_selection *selection;
    const struct advisor_selection_options *options;
    struct advisor_tier_view *tiers; /* ADVISOR_TIERS_MAX */
    size_t tier_count;
    uint64_t *queue; /* hashes, parents first */
    size_t count;
    size_t capacity;
    struct kvt_error *err;
};

/* ---- which gateways ---- */

/* Who reports this tier; NULL: nobody does. */
static const char *
gateway_of(const struct making *making, const char *tier)
{
    for (size_t i = 0; i < making->tier_count; i++)
        if (strcmp(making->tiers[i].tier.name, tier) == 0)
            return making->tiers[i].gateway;
    return NULL;
}

static struct advisor_selection_part *
part_of(struct advisor_selection *selection, const char *gateway)
{
    struct advisor_selection_part *part;

    for (size_t i = 0; i < selection->part_count; i++)
        if (strcmp(selection->parts[i].gateway, gateway) == 0)
            return &selection->parts[i];
    if (selection->part_count == ADVISOR_GATEWAYS_MAX)
        return NULL;
    part = &selection->parts[selection->part_count++];
    (void)snprintf(part->gateway, sizeof(part->gateway), "%s", gateway);
    return part;
}

/* The gateways that are to do it, each once; returns how many. */
static size_t
choose(const struct making *making, const struct advisor_find_block *block,
       const char *gateways[GATEWAYS_OF_A_BLOCK], uint32_t *ranks)
{
    const enum kvt_order_verb verb = making->options->verb;
    const size_t shown =
        block->place_count < ADVISOR_FIND_PLACES_MAX ? block->place_count : ADVISOR_FIND_PLACES_MAX;
    bool is_hot = false;
    size_t count = 0;

    *ranks = 0;
    for (size_t i = 0; i < shown; i++)
        is_hot = is_hot || (block->places[i].holder.tier == KVT_TIER_G4 &&
                            strncmp(block->places[i].holder.name, "hot@", 4) == 0);
    if (verb == KVT_ORDER_WARM && is_hot)
        return 0;
    for (size_t i = 0; i < shown; i++) {
        const struct advisor_find_place *place = &block->places[i];
        const bool cold = strncmp(place->holder.name, "hot@", 4) != 0;
        const char *gateway;
        bool known = false;

        if (place->holder.tier != KVT_TIER_G4 || (verb == KVT_ORDER_PIN && is_hot && cold))
            continue;
        gateway = gateway_of(making, place->holder.name);
        if (gateway == NULL)
            continue;
        *ranks |= place->ranks;
        for (size_t at = 0; at < count; at++)
            known = known || strcmp(gateways[at], gateway) == 0;
        if (!known && count < GATEWAYS_OF_A_BLOCK)
            gateways[count++] = gateway;
    }
    return count;
}

static enum kvt_err
take(struct making *making, const struct advisor_find_block *block)
{
    struct advisor_selection *selection = making->selection;
    const char *gateways[GATEWAYS_OF_A_BLOCK];
    uint32_t ranks;
    const size_t count = choose(making, block, gateways, &ranks);
    const uint64_t bytes = block->size * (uint64_t)__builtin_popcount(ranks);
    bool is_behind = false;

    for (size_t i = 0; i < block->place_count && i < ADVISOR_FIND_PLACES_MAX; i++)
        is_behind = is_behind || (block->places[i].holder.tier == KVT_TIER_G4 &&
                                  gateway_of(making, block->places[i].holder.name) != NULL);
    selection->blocks++;
    selection->elsewhere += !is_behind;
    for (size_t i = 0; i < count; i++) {
        struct advisor_selection_part *part = part_of(selection, gateways[i]);
        struct kvt_order_item *items =
            part == NULL ? NULL
                         : kvt_grow(part->items, &part->capacity, part->count + 1, sizeof(*items));

        if (items == NULL)
            return kvt_error_set(making->err, KVT_NOMEM, "no memory for %zu blocks", making->count);
        part->items = items;
        items[part->count++] = (struct kvt_order_item){.block = block->id, .ranks = ranks};
        part->bytes += bytes;
    }
    selection->chosen += count > 0;
    selection->bytes += count > 0 ? bytes : 0;
    return KVT_OK;
}

/* ---- which blocks ---- */

static enum kvt_err
push(struct making *making, const uint64_t *hashes, size_t count)
{
    uint64_t *queue;

    if (making->count + count > ADVISOR_SELECTION_BLOCKS_MAX)
        return kvt_error_set(making->err, KVT_RANGE,
                             "more than %d blocks hang on it: name one further down",
                             ADVISOR_SELECTION_BLOCKS_MAX);
    queue =
        kvt_grow(making->queue, &making->capacity, making->count + count, sizeof(*making->queue));
    if (queue == NULL)
        return kvt_error_set(making->err, KVT_NOMEM, "no memory for %zu blocks", making->count);
    making->queue = queue;
    if (count > 0)
        memcpy(queue + making->count, hashes, count * sizeof(*hashes));
    making->count += count;
    return KVT_OK;
}

static enum kvt_err
push_children(struct making *making, uint64_t hash)
{
    const struct advisor_selection_options *options = making->options;
    uint64_t few[CHILDREN];
    size_t count = advisor_find_children(options->finder, options->namespace_, hash, few, CHILDREN);
    uint64_t *many;
    size_t room;
    enum kvt_err rc;

    if (count <= CHILDREN)
        return push(making, few, count);
    if (count > ADVISOR_SELECTION_BLOCKS_MAX)
        return push(making, few, count); /* which says so */
    room = count;
    many = kvt_calloc(room, sizeof(*many));
    if (many == NULL)
        return kvt_error_set(making->err, KVT_NOMEM, "no memory for %zu children", count);
    count = advisor_find_children(options->finder, options->namespace_, hash, many, room);
    rc = push(making, many, count < room ? count : room);
    kvt_free(many);
    return rc;
}

/* What was looked for, where, and what says what there is. */
static enum kvt_err
fail(const struct making *making, enum kvt_err rc)
{
    char hash[KVT_HASH_TEXT_MAX];

    if (rc != KVT_NOTFOUND)
        return kvt_error_set(making->err, rc, "%s", kvt_err_text(rc));
    kvt_hash_format(making->options->hash, hash);
    return kvt_error_set(making->err, rc,
                         "nobody holds %s in namespace \"%.80s\"; what is read: kvtier prefix top, "
                         "which namespaces there are: kvtier tenant usage%s",
                         hash, making->options->namespace_,
                         making->options->namespace_[0] == '\0' ? " (then add --namespace)" : "");
}

static enum kvt_err
walk(struct making *making)
{
    const struct advisor_selection_options *options = making->options;
    struct advisor_find_block *block = kvt_calloc(1, sizeof(*block));
    enum kvt_err rc = push(making, &options->hash, 1);

    if (block == NULL)
        rc = kvt_error_set(making->err, KVT_NOMEM, "out of memory");
    for (size_t i = 0; rc == KVT_OK && i < making->count; i++) {
        rc = advisor_find_block(options->finder, options->namespace_, making->queue[i], block);
        if (rc == KVT_OK)
            rc = take(making, block);
        else if (rc == KVT_NOTFOUND && i > 0)
            rc = KVT_OK; /* it went meanwhile, or others hang on it only */
        else
            (void)fail(making, rc);
        if (rc == KVT_OK)
            rc = push_children(making, making->queue[i]);
    }
    kvt_free(block);
    return rc;
}

static void
reverse(struct advisor_selection_part *part)
{
    for (size_t i = 0; i < part->count / 2; i++) {
        const struct kvt_order_item item = part->items[i];

        part->items[i] = part->items[part->count - 1 - i];
        part->items[part->count - 1 - i] = item;
    }
}

enum kvt_err
advisor_selection_make(struct advisor_selection *selection,
                       const struct advisor_selection_options *options, struct kvt_error *err)
{
    struct making making = {.selection = selection, .options = options, .err = err};
    enum kvt_err rc = KVT_NOMEM;

    *selection = (struct advisor_selection){.blocks = 0};
    if (!advisor_memory_whole(options->finder->memory))
        return kvt_error_set(err, KVT_AGAIN, "the index is being read into memory: try again soon");
    selection->parts = kvt_calloc(ADVISOR_GATEWAYS_MAX, sizeof(*selection->parts));
    making.tiers = kvt_calloc(ADVISOR_TIERS_MAX, sizeof(*making.tiers));
    if (selection->parts == NULL || making.tiers == NULL) {
        (void)kvt_error_set(err, rc, "out of memory");
    } else {
        making.tier_count =
            advisor_planner_tiers(options->planner, making.tiers, ADVISOR_TIERS_MAX);
        rc = walk(&making);
    }
    if (options->verb == KVT_ORDER_DELETE)
        for (size_t i = 0; i < selection->part_count; i++)
            reverse(&selection->parts[i]);
    kvt_free(making.tiers);
    kvt_free(making.queue);
    return rc;
}

void
advisor_selection_release(struct advisor_selection *selection)
{
    for (size_t i = 0; i < selection->part_count; i++)
        kvt_free(selection->parts[i].items);
    kvt_free(selection->parts);
    *selection = (struct advisor_selection){.blocks = 0};
}
