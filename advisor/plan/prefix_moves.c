#include "advisor/plan/prefix_moves.h"

#include <string.h>

#include "advisor/index/ram_index.h"
#include "advisor/selection/tier_kind.h"
#include "base/core/alloc.h"

enum { CHILDREN = 64, ROUTES_OF_A_BLOCK = 16 };

struct making {
    struct advisor_prefix_moves *selection;
    const struct advisor_prefix_moves_options *options;
    struct advisor_tier_view *tiers; /* ADVISOR_TIERS_MAX */
    size_t tier_count;
    struct advisor_gateway_view *gateways; /* ADVISOR_GATEWAYS_MAX */
    size_t gateway_count;
    uint64_t *queue; /* hashes, parents first */
    size_t count;
    size_t capacity;
    struct kvt_error *err;
};

/* What is asked of a gateway about a block. */
struct route {
    const struct advisor_gateway_view *gateway;
    enum advisor_tier_kind from; /* as in a part */
    uint32_t ranks;
};

/* All that is asked about one. */
struct routes {
    struct route list[ROUTES_OF_A_BLOCK];
    size_t count;
};

/* ---- which gateways ---- */

/* What the holder is to that gateway; ADVISOR_TIER_KIND_GONE: it does not have it. */
static enum advisor_tier_kind
kind_at(const struct advisor_gateway_view *gateway, const char *holder)
{
    unsigned kind = ADVISOR_TIER_KIND_HOT;

    while (kind < ADVISOR_TIER_KIND_COUNT && strcmp(gateway->tiers[kind], holder) != 0)
        kind++;
    return (enum advisor_tier_kind)kind;
}

/* Who reported this tier last; NULL: nobody did. */
static const struct advisor_gateway_view *
gateway_of(const struct making *making, const char *holder)
{
    const char *name = NULL;

    for (size_t i = 0; i < making->tier_count && name == NULL; i++)
        if (strcmp(making->tiers[i].tier.name, holder) == 0)
            name = making->tiers[i].gateway;
    for (size_t i = 0; name != NULL && i < making->gateway_count; i++)
        if (strcmp(making->gateways[i].name, name) == 0)
            return &making->gateways[i];
    return NULL;
}

/* Can it bring what lies there up to the tier that is asked for? */
static bool
can_warm(const struct making *making, const struct advisor_gateway_view *gateway,
         const char *holder)
{
    const enum advisor_tier_kind from = kind_at(gateway, holder);

    return from > making->options->to && from < ADVISOR_TIER_KIND_COUNT &&
           gateway->tiers[making->options->to][0] != '\0';
}

/* Gateways share buckets: the one that reported it last, if it can. */
static const struct advisor_gateway_view *
warmer_of(const struct making *making, const char *holder)
{
    const struct advisor_gateway_view *last = gateway_of(making, holder);

    if (last != NULL && can_warm(making, last, holder))
        return last;
    for (size_t i = 0; i < making->gateway_count; i++)
        if (can_warm(making, &making->gateways[i], holder))
            return &making->gateways[i];
    return NULL;
}

static size_t
shown_places(const struct advisor_finder_block *block)
{
    return block->place_count < ADVISOR_FINDER_PLACES_MAX ? block->place_count
                                                          : ADVISOR_FINDER_PLACES_MAX;
}

/* The uppermost tier that it is in; ADVISOR_TIER_KIND_GONE: in none that is reported. */
static enum advisor_tier_kind
top_of(const struct making *making, const struct advisor_finder_block *block)
{
    enum advisor_tier_kind top = ADVISOR_TIER_KIND_GONE;

    for (size_t i = 0; i < shown_places(block); i++) {
        const struct index_holder *holder = &block->places[i].holder;
        const struct advisor_gateway_view *gateway =
            holder->tier == KVT_TIER_G4 ? gateway_of(making, holder->name) : NULL;
        const enum advisor_tier_kind kind =
            gateway == NULL ? ADVISOR_TIER_KIND_GONE : kind_at(gateway, holder->name);

        top = kind < top ? kind : top;
    }
    return top;
}

static void
add_route(struct routes *routes, const struct advisor_gateway_view *gateway,
          enum advisor_tier_kind from, uint32_t ranks)
{
    for (size_t i = 0; i < routes->count; i++)
        if (routes->list[i].gateway == gateway && routes->list[i].from == from) {
            routes->list[i].ranks |= ranks;
            return;
        }
    if (routes->count < ROUTES_OF_A_BLOCK)
        routes->list[routes->count++] =
            (struct route){.gateway = gateway, .from = from, .ranks = ranks};
}

/* Each shard from the next tier below that has it. */
static void
choose_warm(const struct making *making, const struct advisor_finder_block *block,
            struct routes *routes)
{
    for (unsigned from = making->options->to + 1; from < ADVISOR_TIER_KIND_COUNT; from++)
        for (size_t i = 0; i < shown_places(block); i++) {
            const struct advisor_finder_place *place = &block->places[i];
            const struct advisor_gateway_view *gateway =
                place->holder.tier == KVT_TIER_G4 ? warmer_of(making, place->holder.name) : NULL;
            uint32_t ranks = place->ranks;

            if (gateway == NULL || kind_at(gateway, place->holder.name) != from)
                continue;
            for (size_t at = 0; at < routes->count; at++)
                if (routes->list[at].gateway == gateway && routes->list[at].from < from)
                    ranks &= ~routes->list[at].ranks;
            if (ranks != 0)
                add_route(routes, gateway, (enum advisor_tier_kind)from, ranks);
        }
}

/* The gateways that have it, of a pin those with the uppermost copy: all shards at each. */
static void
choose_gateways(const struct making *making, const struct advisor_finder_block *block,
                enum advisor_tier_kind top, struct routes *routes)
{
    uint32_t ranks = 0;

    for (size_t i = 0; i < shown_places(block); i++) {
        const struct advisor_finder_place *place = &block->places[i];
        const struct advisor_gateway_view *gateway =
            place->holder.tier == KVT_TIER_G4 ? gateway_of(making, place->holder.name) : NULL;

        if (gateway == NULL ||
            (making->options->verb == KVT_ORDER_PIN && kind_at(gateway, place->holder.name) != top))
            continue;
        ranks |= place->ranks;
        add_route(routes, gateway, ADVISOR_TIER_KIND_GONE, place->ranks);
    }
    for (size_t i = 0; i < routes->count; i++)
        routes->list[i].ranks = ranks;
}

/* ---- parts ---- */

static struct advisor_prefix_moves_part *
part_of(const struct making *making, const struct route *route)
{
    struct advisor_prefix_moves *selection = making->selection;
    const enum advisor_tier_kind to = making->options->to;
    struct advisor_prefix_moves_part *part;

    for (size_t i = 0; i < selection->part_count; i++)
        if (selection->parts[i].from == route->from &&
            strcmp(selection->parts[i].gateway, route->gateway->name) == 0)
            return &selection->parts[i];
    if (selection->part_count == ADVISOR_PREFIX_MOVES_PARTS_MAX)
        return NULL;
    part = &selection->parts[selection->part_count++];
    memcpy(part->gateway, route->gateway->name, sizeof(part->gateway));
    part->from = route->from;
    if (route->from != ADVISOR_TIER_KIND_GONE &&
        (route->from != ADVISOR_TIER_KIND_COLD || to != ADVISOR_TIER_KIND_HOT)) {
        memcpy(part->from_holder, route->gateway->tiers[route->from], KVT_NAME_MAX);
        memcpy(part->to_holder, route->gateway->tiers[to], KVT_NAME_MAX);
    }
    return part;
}

static enum kvt_err
take(struct making *making, const struct advisor_finder_block *block)
{
    struct advisor_prefix_moves *selection = making->selection;
    const enum advisor_tier_kind top = top_of(making, block);
    struct routes routes = {.count = 0};
    uint32_t ranks = 0;

    if (making->options->verb != KVT_ORDER_WARM)
        choose_gateways(making, block, top, &routes);
    else if (top > making->options->to)
        choose_warm(making, block, &routes);
    selection->blocks++;
    selection->elsewhere += top == ADVISOR_TIER_KIND_GONE;
    for (size_t i = 0; i < routes.count; i++) {
        const struct route *route = &routes.list[i];
        struct advisor_prefix_moves_part *part = part_of(making, route);
        struct kvt_order_item *items =
            part == NULL ? NULL
                         : kvt_grow(part->items, &part->capacity, part->count + 1, sizeof(*items));

        if (items == NULL)
            return kvt_error_set(making->err, KVT_NOMEM, "no memory for %zu blocks", making->count);
        part->items = items;
        items[part->count++] = (struct kvt_order_item){.block = block->id, .ranks = route->ranks};
        part->bytes += block->size * (uint64_t)__builtin_popcount(route->ranks);
        ranks |= route->ranks;
    }
    selection->chosen += routes.count > 0;
    selection->bytes += block->size * (uint64_t)__builtin_popcount(ranks);
    return KVT_OK;
}

/* ---- which blocks ---- */

static enum kvt_err
push(struct making *making, const uint64_t *hashes, size_t count)
{
    uint64_t *queue;

    if (making->count + count > ADVISOR_PREFIX_MOVES_BLOCKS_MAX)
        return kvt_error_set(making->err, KVT_RANGE,
                             "more than %d blocks hang on it: name one further down",
                             ADVISOR_PREFIX_MOVES_BLOCKS_MAX);
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
    const struct advisor_prefix_moves_options *options = making->options;
    uint64_t few[CHILDREN];
    size_t count =
        advisor_finder_children(options->finder, options->namespace_, hash, few, CHILDREN);
    uint64_t *many;
    size_t room;
    enum kvt_err rc;

    if (count <= CHILDREN)
        return push(making, few, count);
    if (count > ADVISOR_PREFIX_MOVES_BLOCKS_MAX)
        return push(making, few, count); /* which says so */
    room = count;
    many = kvt_calloc(room, sizeof(*many));
    if (many == NULL)
        return kvt_error_set(making->err, KVT_NOMEM, "no memory for %zu children", count);
    count = advisor_finder_children(options->finder, options->namespace_, hash, many, room);
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
    const struct advisor_prefix_moves_options *options = making->options;
    struct advisor_finder_block *block = kvt_calloc(1, sizeof(*block));
    enum kvt_err rc = push(making, &options->hash, 1);

    if (block == NULL)
        rc = kvt_error_set(making->err, KVT_NOMEM, "out of memory");
    for (size_t i = 0; rc == KVT_OK && i < making->count; i++) {
        rc = advisor_finder_block(options->finder, options->namespace_, making->queue[i], block);
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
reverse(struct advisor_prefix_moves_part *part)
{
    for (size_t i = 0; i < part->count / 2; i++) {
        const struct kvt_order_item item = part->items[i];

        part->items[i] = part->items[part->count - 1 - i];
        part->items[part->count - 1 - i] = item;
    }
}

/* What gateways there are, and that one of them has the tier. */
static enum kvt_err
look(struct making *making)
{
    const struct advisor_prefix_moves_options *options = making->options;
    bool any = options->verb != KVT_ORDER_WARM;

    making->tiers = kvt_calloc(ADVISOR_TIERS_MAX, sizeof(*making->tiers));
    making->gateways = kvt_calloc(ADVISOR_GATEWAYS_MAX, sizeof(*making->gateways));
    if (making->selection->parts == NULL || making->tiers == NULL || making->gateways == NULL)
        return kvt_error_set(making->err, KVT_NOMEM, "out of memory");
    making->tier_count = advisor_planner_tiers(options->planner, making->tiers, ADVISOR_TIERS_MAX);
    making->gateway_count =
        advisor_planner_gateways(options->planner, making->gateways, ADVISOR_GATEWAYS_MAX);
    for (size_t i = 0; i < making->gateway_count; i++)
        any = any || making->gateways[i].tiers[options->to][0] != '\0';
    if (any)
        return KVT_OK;
    return kvt_error_set(making->err, KVT_NOTFOUND,
                         "no gateway has a %s tier; which there are: kvtier tier ls",
                         advisor_tier_kind_name(options->to));
}

enum kvt_err
advisor_prefix_moves_make(struct advisor_prefix_moves *selection,
                          const struct advisor_prefix_moves_options *options, struct kvt_error *err)
{
    struct making making = {.selection = selection, .options = options, .err = err};
    enum kvt_err rc;

    *selection = (struct advisor_prefix_moves){.blocks = 0};
    if (!advisor_ram_index_whole(options->finder->memory))
        return kvt_error_set(err, KVT_AGAIN, "the index is being read into memory: try again soon");
    selection->parts = kvt_calloc(ADVISOR_PREFIX_MOVES_PARTS_MAX, sizeof(*selection->parts));
    rc = look(&making);
    if (rc == KVT_OK)
        rc = walk(&making);
    if (options->verb == KVT_ORDER_DELETE)
        for (size_t i = 0; i < selection->part_count; i++)
            reverse(&selection->parts[i]);
    kvt_free(making.tiers);
    kvt_free(making.gateways);
    kvt_free(making.queue);
    return rc;
}

void
advisor_prefix_moves_release(struct advisor_prefix_moves *selection)
{
    for (size_t i = 0; i < selection->part_count; i++)
        kvt_free(selection->parts[i].items);
    kvt_free(selection->parts);
    *selection = (struct advisor_prefix_moves){.blocks = 0};
}
