#include <inttypes.h>

#include "advisor/order/planner_private.h"
#include "advisor/selection/planner_tables.h"
#include "advisor/store/number_map.h"
#include "base/core/alloc.h"
#include "base/core/log.h"

/* Blocks of which no worker has a copy any more, as far as rules ask for that. */

enum {
    CHILDREN_MAX = 64,    /* of a block; one with more is taken for one that goes on */
    STACK_MAX = 1024,     /* blocks that wait to be looked at; the same where there are more */
    VISITS_MAX = 262144,  /* blocks behind others that are looked at in a group */
    VISITS_LEAST = 16384, /* after so many no more of those who left are looked at in a round */
    CLIMB_MAX = 16384,    /* blocks before the one that was lost */
    HASHES_A_LOOK = 256,
    TURNS = 64, /* of workers that left, in a look */
    TOLD_MAX =
        131072, /* events of blocks of theirs that are remembered; then they may come again */
};

#define WORKERS                                                                                    \
    (KVT_TIER_MASK(KVT_TIER_G1) | KVT_TIER_MASK(KVT_TIER_G2) | KVT_TIER_MASK(KVT_TIER_G3))

struct loss {
    struct advisor_planner *planner;
    struct advisor_number_map *told;  /* each event of a block once */
    struct advisor_number_map *ended; /* whether all behind a block has ended; of this look alone */
    bool keeps;                       /* what was told is the planner's */
    uint32_t ns;                      /* the store's */
    uint32_t index_ns;
    uint32_t visits;
    uint64_t stack[STACK_MAX];
    uint64_t visited[STACK_MAX];
};

struct key {
    uint64_t hash;
    uint32_t ns;
    uint32_t event; /* that was told; 0: none */
};

static bool
is_room(const struct loss *loss)
{
    return loss->planner->news_count < ADVISOR_NEWS_MAX;
}

/* In each tier that has the block.  False: it was told before, or cannot be. */
static bool
tell(struct loss *loss, const struct index_view *view, uint64_t hash, enum policy_event event)
{
    struct advisor_planner *planner = loss->planner;
    const struct key key = {.hash = hash, .ns = loss->ns, .event = (uint32_t)event};
    uint32_t former;

    if (advisor_number_map_get(loss->told, &key, sizeof(key), &former) ||
        advisor_number_map_put(loss->told, &key, sizeof(key), 1) != KVT_OK)
        return false;
    for (uint32_t i = 0; i < view->place_count && i < INDEX_PLACES_MAX; i++) {
        const uint32_t holder =
            advisor_name_table_store_holder(planner->names, view->places[i].holder);
        const uint32_t tier = holder == ADVISOR_NAME_TABLE_NOBODY
                                  ? ADVISOR_NONE
                                  : advisor_planner_tier_of(planner, holder);

        if (tier != ADVISOR_NONE)
            advisor_planner_hear(
                planner,
                &(struct advisor_news){.hash = hash, .ns = loss->ns, .tier = tier, .event = event});
    }
    return true;
}

static bool
recall(const struct loss *loss, uint64_t hash, uint32_t *ended)
{
    const struct key key = {.hash = hash, .ns = loss->ns};

    return advisor_number_map_get(loss->ended, &key, sizeof(key), ended);
}

static void
remember(struct loss *loss, uint64_t hash, bool ended)
{
    const struct key key = {.hash = hash, .ns = loss->ns};

    if (advisor_number_map_put(loss->ended, &key, sizeof(key), ended ? 1 : 0) != KVT_OK)
        return; /* it saves time only */
}

/* Put what goes on right behind the block on the stack; false: a worker has some of it. */
static bool
push_children(struct loss *loss, uint64_t hash, size_t *depth)
{
    struct index *index = loss->planner->options.index;
    uint64_t children[CHILDREN_MAX];
    uint8_t masks[CHILDREN_MAX];
    const size_t count = index_children(index, loss->index_ns, hash, children, CHILDREN_MAX);

    if (count > CHILDREN_MAX || *depth + count > STACK_MAX || loss->visits + count > VISITS_MAX)
        return false;
    loss->visits += (uint32_t)count;
    index_match(index, loss->index_ns, children, count, masks);
    for (size_t i = 0; i < count; i++) {
        uint32_t ended;

        if ((masks[i] & WORKERS) != 0)
            return false;
        if (!recall(loss, children[i], &ended))
            loss->stack[(*depth)++] = children[i];
        else if (ended == 0)
            return false;
    }
    return true;
}

/* Does no worker have anything that goes on behind the block? */
static bool
is_end(struct loss *loss, uint64_t hash)
{
    size_t visited = 0;
    size_t depth = 0;
    uint32_t ended;
    bool is;

    if (recall(loss, hash, &ended))
        return ended != 0;
    is = push_children(loss, hash, &depth);
    while (is && depth > 0) {
        const uint64_t next = loss->stack[--depth];

        is = push_children(loss, next, &depth);
        if (is && visited < STACK_MAX)
            loss->visited[visited++] = next;
    }
    for (size_t i = 0; is && i < visited; i++)
        remember(loss, loss->visited[i], true);
    remember(loss, hash, is);
    return is;
}

/* The block, and those before it that were kept for what came behind them alone. */
static void
end_session(struct loss *loss, uint64_t hash)
{
    struct index *index = loss->planner->options.index;

    for (int i = 0; i < CLIMB_MAX && hash != 0 && is_room(loss); i++) {
        struct index_view view;
        uint8_t mask;

        index_match(index, loss->index_ns, &hash, 1, &mask);
        if ((mask & WORKERS) != 0 || !is_end(loss, hash) ||
            index_get(index, loss->index_ns, hash, &view) != KVT_OK ||
            !tell(loss, &view, hash, POLICY_ON_SESSION_END))
            return;
        hash = view.block.id.parent;
    }
}

/* At most HASHES_A_LOOK blocks that a worker had, as all that follows. */
static void
ask_who_has(struct loss *loss, const uint64_t *hashes, uint32_t count)
{
    struct index *index = loss->planner->options.index;
    uint8_t masks[HASHES_A_LOOK];

    index_match(index, loss->index_ns, hashes, count, masks);
    for (uint32_t i = 0; i < count && is_room(loss); i++) {
        struct index_view view;

        if ((masks[i] & WORKERS) == 0 && (masks[i] & KVT_TIER_MASK(KVT_TIER_G4)) != 0 &&
            index_get(index, loss->index_ns, hashes[i], &view) == KVT_OK)
            (void)tell(loss, &view, hashes[i], POLICY_ON_LAST_HOLDER_REMOVED);
    }
}

/* Chains are mostly named from their beginnings: what is known of the end is known of all. */
static void
ask_what_ended(struct loss *loss, const uint64_t *hashes, uint32_t count)
{
    uint8_t masks[HASHES_A_LOOK];

    index_match(loss->planner->options.index, loss->index_ns, hashes, count, masks);
    for (uint32_t i = count; i-- > 0 && is_room(loss);)
        if ((masks[i] & WORKERS) == 0)
            end_session(loss, hashes[i]);
}

/* Any number of consecutive blocks: first who has them, for what lies before them may want all the
 * room there is. */
static void
look_at(struct loss *loss, const uint64_t *hashes, uint32_t count)
{
    for (uint32_t from = 0; loss->planner->hears_lost && from < count; from += HASHES_A_LOOK)
        ask_who_has(loss, hashes + from,
                    count - from < HASHES_A_LOOK ? count - from : HASHES_A_LOOK);
    for (uint32_t to = count; loss->planner->hears_ends && to > 0;) {
        const uint32_t from = to > HASHES_A_LOOK ? to - HASHES_A_LOOK : 0;

        ask_what_ended(loss, hashes + from, to - from);
        to = from;
    }
}

static void
look_at_row(struct loss *loss, const void *row, size_t size)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;

    if (advisor_event_log_open(&reader, row, size) != KVT_OK)
        return;
    while (is_room(loss) && advisor_event_log_next(&reader, &op) == KVT_OK) {
        /* What RAM had no room for went from nobody. */
        if (op.kind != ADVISOR_EVENT_LOG_REMOVE || op.place.time_s == 0)
            continue;
        loss->ns = op.place.ns;
        loss->index_ns = advisor_name_table_index_namespace(loss->planner->names, op.place.ns);
        look_at(loss, op.hashes, op.count);
    }
}

static void
end(struct loss *loss)
{
    if (loss == NULL)
        return;
    advisor_number_map_free(loss->ended);
    if (!loss->keeps)
        advisor_number_map_free(loss->told);
    kvt_free(loss);
}

/* `kept`: what was told in former looks, to which this one adds; NULL: that is of no interest.
 * NULL: no rule asks, or no memory. */
static struct loss *
begin(struct advisor_planner *planner, struct advisor_number_map **kept)
{
    struct loss *loss;

    if (!(planner->hears_lost || planner->hears_ends) || planner->options.index == NULL)
        return NULL;
    loss = kvt_calloc(1, sizeof(*loss));
    if (loss == NULL || advisor_number_map_new(&loss->ended) != KVT_OK)
        goto fail;
    loss->planner = planner;
    loss->told = kept == NULL ? NULL : *kept;
    if (loss->told == NULL && advisor_number_map_new(&loss->told) != KVT_OK)
        goto fail;
    loss->keeps = kept != NULL;
    if (loss->keeps)
        *kept = loss->told;
    return loss;

fail:
    end(loss);
    return NULL;
}

void
advisor_planner_lose(struct advisor_planner *planner, const struct advisor_event_log *log)
{
    const void *row;
    struct loss *loss;
    size_t size;

    /* What went with its holder is gone through by advisor_planner_depart(). */
    if (advisor_event_log_count(log) == 0)
        return;
    loss = begin(planner, NULL);
    if (loss == NULL)
        return;
    for (size_t at = 0; is_room(loss) && advisor_event_log_row(log, at, &row, &size); at++)
        look_at_row(loss, row, size);
    end(loss);
}

/* ---- holders that left ---- */

static void
forget_told(struct advisor_planner *planner)
{
    advisor_number_map_free(planner->departed_told);
    planner->departed_told = NULL;
}

void
advisor_planner_free_departed(struct advisor_planner *planner)
{
    forget_told(planner);
    advisor_departed_blocks_free(planner->departed);
    planner->departed = NULL;
}

struct advisor_departed_blocks *
advisor_planner_departed(struct advisor_planner *planner)
{
    if (!(planner->hears_lost || planner->hears_ends) || planner->options.index == NULL) {
        advisor_planner_free_departed(planner);
    } else if (planner->departed == NULL &&
               advisor_departed_blocks_new(&planner->departed) != KVT_OK) {
        return NULL;
    }
    return planner->departed;
}

static void
look_at_piece(struct loss *loss, const struct advisor_departed_blocks_piece *piece)
{
    loss->ns = piece->ns;
    loss->index_ns = advisor_name_table_index_namespace(loss->planner->names, piece->ns);
    look_at(loss, piece->hashes, piece->count);
    if (loss->planner->hears_ends)
        end_session(loss, piece->parent);
}

/* Half of the room for news is left to what comes meanwhile and to the piece that is looked at: its
 * own blocks fit there, unless many tiers have each, and then comes what lies before them. */
static bool
may_go_on(const struct loss *loss, uint32_t looked)
{
    return looked < ADVISOR_DEPARTED_BLOCKS_A_LOOK && loss->visits < VISITS_LEAST &&
           loss->planner->news_count <= ADVISOR_NEWS_MAX / 2;
}

static void
say_left_out(struct advisor_planner *planner)
{
    const uint64_t left_out = advisor_departed_blocks_left_out(planner->departed);

    if (left_out > 0)
        kvt_log_warn("advisor.planner", "departed",
                     "workers left with more blocks than are remembered: rules on "
                     "last_holder_removed and session_end are not asked about %" PRIu64 " of them",
                     left_out);
}

/* A chain is many pieces, and what lies before it was told with the first.  Who left since may have
 * had that again. */
static void
review_told(struct advisor_planner *planner)
{
    if (advisor_departed_blocks_count(planner->departed) != planner->departed_rest ||
        (planner->departed_told != NULL &&
         advisor_number_map_count(planner->departed_told) >= TOLD_MAX))
        forget_told(planner);
}

void
advisor_planner_depart(struct advisor_planner *planner, advisor_departed_blocks_settled_fn *settled,
                       void *arg)
{
    struct advisor_departed_blocks_piece piece;
    uint32_t looked = 0;
    struct loss *loss;

    if (advisor_planner_departed(planner) == NULL ||
        advisor_departed_blocks_count(planner->departed) == 0)
        return;
    say_left_out(planner);
    review_told(planner);
    loss = begin(planner, &planner->departed_told);
    for (int turns = 0; loss != NULL && turns < TURNS && may_go_on(loss, looked); turns++) {
        if (!advisor_departed_blocks_turn(planner->departed, settled, arg))
            continue;
        while (may_go_on(loss, looked) && advisor_departed_blocks_next(planner->departed, &piece)) {
            look_at_piece(loss, &piece);
            looked += piece.count + 1;
        }
    }
    end(loss);
    planner->departed_rest = advisor_departed_blocks_count(planner->departed);
    if (planner->departed_rest == 0)
        forget_told(planner);
}
