#include <assert.h>

#include "index/block/block_size.h"
#include "index/block/state.h"
#include "index/index.h"

enum { AHEAD = 8 }; /* hashes are known in advance: their lines are loaded this many steps early */

/* A question that is answered piece by piece, a piece for each run. */
struct asking {
    const struct index *index;
    const uint64_t *hashes;
    uint8_t *masks;
    size_t count;
    uint32_t ns;
};

/* The tiers of a block.  What the run knows may have tiers too many, never too few. */
static uint8_t
tiers_of(const struct index *index, const struct index_run *run, uint32_t offset)
{
    const uint8_t all = atomic_load_explicit(&run->tiers, memory_order_relaxed);
    struct index_run_holders_place place;
    uint64_t cursor = 0;
    uint8_t tiers = 0;

    if ((all & (all - 1)) == 0)
        return index_run_held(run, offset) ? all : 0;
    while (tiers != all && index_run_holders_next_read(&run->holders, &cursor, &place)) {
        const uint32_t holders = atomic_load_explicit(&index->holder_count, memory_order_relaxed);

        /* Of a run that changes the holder may be any number. */
        if (place.from <= offset && offset < place.to && place.holder < holders)
            tiers |= (uint8_t)KVT_TIER_MASK(atomic_load_explicit(
                &index_state_holder(index, place.holder)->tier, memory_order_relaxed));
    }
    return tiers;
}

/* Masks of hashes from `at` on that lie side by side from `number` on; returns how many. */
static size_t
match_run(const struct asking *asking, const struct index_run *run, uint32_t number,
          uint32_t offset, size_t at)
{
    const struct index *index = asking->index;
    const uint32_t length = index_run_length(run);
    size_t count = 0;

    if (index_run_ns(run) != asking->ns)
        return 0;
    while (at + count < asking->count && offset + count < length &&
           index_state_seq(index, number + (uint32_t)count) == asking->hashes[at + count]) {
        asking->masks[at + count] = tiers_of(index, run, offset + (uint32_t)count);
        count++;
    }
    return count;
}

/* The next piece from `*at` on; false: its run changes. */
static bool
match_piece(const struct asking *asking, size_t *at)
{
    const struct index *index = asking->index;
    const uint32_t number = index_state_find(index, asking->ns, asking->hashes[*at]);
    struct index_run *run = NULL;
    uint32_t offset;
    uint32_t version;
    size_t count;

    if (number != 0)
        run = index_state_run(index, number, &offset);
    if (run == NULL) {
        asking->masks[(*at)++] = 0;
        return true;
    }
    version = index_run_read(run);
    count = match_run(asking, run, number, offset, *at);
    if ((version & 1) != 0 || !index_run_unchanged(run, version))
        return false;
    if (count == 0)
        asking->masks[(*at)++] = 0; /* it has just gone */
    *at += count;
    return true;
}

void
index_match(struct index *index, uint32_t ns, const uint64_t *hashes, size_t count, uint8_t *masks)
{
    const struct asking asking = {
        .index = index, .hashes = hashes, .masks = masks, .count = count, .ns = ns};
    unsigned retries = 0;
    unsigned slot;
    size_t at = 0;

    assert(index != NULL && (hashes != NULL || count == 0));
    slot = index_epoch_enter(&index->epoch);
    for (size_t i = 0; i < count && i < AHEAD; i++)
        index_state_find_prefetch(index, ns, hashes[i]);
    while (at < count && retries < INDEX_READ_RETRIES) {
        if (!match_piece(&asking, &at))
            retries++;
        if (at + AHEAD < count)
            index_state_find_prefetch(index, ns, hashes[at + AHEAD]);
    }
    index_epoch_leave(&index->epoch, slot);
    if (at == count)
        return;
    (void)pthread_mutex_lock(&index->lock);
    while (at < count)
        (void)match_piece(&asking, &at);
    (void)pthread_mutex_unlock(&index->lock);
}

static void
copy_block(const struct index *index, const struct index_run *run, uint32_t number, uint32_t offset,
           struct index_view *view)
{
    struct index_run_holders_place places[INDEX_PLACES_MAX];
    const size_t count =
        index_run_holders_block_read(&run->holders, offset, places, INDEX_PLACES_MAX);
    const uint32_t shown = count < INDEX_PLACES_MAX ? (uint32_t)count : INDEX_PLACES_MAX;

    view->block = (struct index_block){
        .id = {.hash = index_state_seq(index, number),
               .parent = offset > 0 ? index_state_seq(index, number - 1)
                                    : atomic_load_explicit(&run->parent, memory_order_relaxed),
               .position = atomic_load_explicit(&run->position, memory_order_relaxed) + offset},
        .tokens_hash = index_state_tok(index, number),
        .size =
            index_block_size_bytes(index, atomic_load_explicit(&run->size, memory_order_relaxed))};
    for (uint32_t i = 0; i < shown; i++) {
        view->places[i] = (struct index_place){
            .holder = places[i].holder,
            .ranks = index_shards_ranks(index->shards, places[i].code & INDEX_SHARDS_MAX)};
        view->block.ranks |= view->places[i].ranks;
    }
    view->place_count = (uint32_t)count;
}

enum answer { ANSWER_FOUND, ANSWER_ABSENT, ANSWER_CHANGED, ANSWER_WANTS_LOCK };

/* A block that somebody has, as it was at one instant, if end_look() says so. */
struct looked {
    const struct index_run *run;
    uint32_t number;
    uint32_t offset;
    uint32_t version;
};

static enum answer
begin_look(const struct index *index, uint32_t ns, uint64_t hash, struct looked *looked)
{
    looked->number = index_state_find(index, ns, hash);
    looked->run = NULL;
    if (looked->number != 0)
        looked->run = index_state_run(index, looked->number, &looked->offset);
    if (looked->run == NULL)
        return ANSWER_ABSENT;
    looked->version = index_run_read(looked->run);
    if ((looked->version & 1) != 0)
        return ANSWER_CHANGED;
    return looked->offset < index_run_length(looked->run) && index_run_ns(looked->run) == ns &&
                   index_state_seq(index, looked->number) == hash &&
                   index_run_held(looked->run, looked->offset)
               ? ANSWER_FOUND
               : ANSWER_ABSENT;
}

static enum answer
end_look(const struct looked *looked, enum answer answer)
{
    if (looked->run != NULL && answer != ANSWER_CHANGED &&
        !index_run_unchanged(looked->run, looked->version))
        return ANSWER_CHANGED;
    return answer;
}

static enum answer
look(const struct index *index, uint32_t ns, uint64_t hash, bool locked, struct index_view *view)
{
    struct looked looked;
    const enum answer answer = begin_look(index, ns, hash, &looked);

    if (answer == ANSWER_FOUND) {
        copy_block(index, looked.run, looked.number, looked.offset, view);
        if (!locked &&
            (index_run_is(looked.run, INDEX_RUN_ODD_SIZES) || view->place_count > INDEX_PLACES_MAX))
            return ANSWER_WANTS_LOCK;
    }
    return end_look(&looked, answer);
}

/* What only the writer's side can say: a size of its own, and shards of very many places. */
static void
complete(struct index *index, uint32_t ns, struct index_view *view)
{
    const uint32_t number = index_state_find(index, ns, view->block.id.hash);
    struct index_run_holders_place place;
    uint64_t cursor = 0;
    uint32_t offset;
    const struct index_run *run = index_state_at(index, number, &offset);

    view->block.size = index_block_size_of(index, number - offset, offset);
    while (view->place_count > INDEX_PLACES_MAX &&
           index_run_holders_next_read(&run->holders, &cursor, &place))
        if (place.from <= offset && offset < place.to)
            view->block.ranks |= index_shards_ranks(index->shards, place.code);
}

enum kvt_err
index_get(struct index *index, uint32_t ns, uint64_t hash, struct index_view *view)
{
    enum answer answer = ANSWER_CHANGED;
    unsigned slot;

    assert(index != NULL && view != NULL);
    view->place_count = 0;
    slot = index_epoch_enter(&index->epoch);
    for (unsigned i = 0; i < INDEX_READ_RETRIES && answer == ANSWER_CHANGED; i++)
        answer = look(index, ns, hash, false, view);
    index_epoch_leave(&index->epoch, slot);
    if (answer == ANSWER_CHANGED || answer == ANSWER_WANTS_LOCK) {
        (void)pthread_mutex_lock(&index->lock);
        answer = look(index, ns, hash, true, view);
        if (answer == ANSWER_FOUND)
            complete(index, ns, view);
        (void)pthread_mutex_unlock(&index->lock);
    }
    if (answer != ANSWER_FOUND)
        view->place_count = 0;
    return answer == ANSWER_FOUND ? KVT_OK : KVT_NOTFOUND;
}

/* The holders of a block, one after the other; returns how many. */
static size_t
copy_places(const struct index *index, const struct looked *looked, struct index_place *places,
            size_t capacity)
{
    const uint64_t offset = looked->offset;
    struct index_run_holders_place place;
    uint64_t cursor = offset;
    uint64_t holder = 0; /* all before were looked at */
    size_t count = 0;

    /* Of a run that changes the next holder may be any. */
    while (index_run_holders_next_read(&looked->run->holders, &cursor, &place) &&
           place.holder >= holder) {
        holder = place.holder + (uint64_t)(place.to > offset); /* else it may have more */
        cursor = holder << 16 | offset;
        if (place.from > offset || place.to <= offset)
            continue;
        if (count < capacity)
            places[count] = (struct index_place){
                .holder = place.holder,
                .ranks = index_shards_ranks(index->shards, place.code & INDEX_SHARDS_MAX)};
        count++;
    }
    return count;
}

static enum answer
look_for_places(const struct index *index, uint32_t ns, uint64_t hash, struct index_place *places,
                size_t capacity, size_t *count)
{
    struct looked looked;
    const enum answer answer = begin_look(index, ns, hash, &looked);

    *count = answer == ANSWER_FOUND ? copy_places(index, &looked, places, capacity) : 0;
    return end_look(&looked, answer);
}

size_t
index_places(struct index *index, uint32_t ns, uint64_t hash, struct index_place *places,
             size_t capacity)
{
    enum answer answer = ANSWER_CHANGED;
    size_t count = 0;
    unsigned slot;

    assert(index != NULL && (places != NULL || capacity == 0));
    slot = index_epoch_enter(&index->epoch);
    for (unsigned i = 0; i < INDEX_READ_RETRIES && answer == ANSWER_CHANGED; i++)
        answer = look_for_places(index, ns, hash, places, capacity, &count);
    index_epoch_leave(&index->epoch, slot);
    if (answer == ANSWER_CHANGED) {
        (void)pthread_mutex_lock(&index->lock);
        (void)look_for_places(index, ns, hash, places, capacity, &count);
        (void)pthread_mutex_unlock(&index->lock);
    }
    return count;
}

/* Pieces of one holder may lie before and behind the block. */
static enum answer
look_for_holder(const struct index *index, uint32_t ns, uint64_t hash, uint32_t holder, bool *has)
{
    struct looked looked;
    const enum answer answer = begin_look(index, ns, hash, &looked);
    struct index_run_holders_place place;
    uint64_t cursor;

    *has = false;
    if (answer == ANSWER_FOUND) {
        cursor = (uint64_t)holder << 16 | looked.offset;
        *has = index_run_holders_next_read(&looked.run->holders, &cursor, &place) &&
               place.holder == holder && place.from <= looked.offset && looked.offset < place.to;
    }
    return end_look(&looked, answer);
}

bool
index_has(struct index *index, uint32_t ns, uint64_t hash, uint32_t holder)
{
    enum answer answer = ANSWER_CHANGED;
    unsigned slot;
    bool has = false;

    assert(index != NULL);
    slot = index_epoch_enter(&index->epoch);
    for (unsigned i = 0; i < INDEX_READ_RETRIES && answer == ANSWER_CHANGED; i++)
        answer = look_for_holder(index, ns, hash, holder, &has);
    index_epoch_leave(&index->epoch, slot);
    if (answer == ANSWER_CHANGED) {
        (void)pthread_mutex_lock(&index->lock);
        (void)look_for_holder(index, ns, hash, holder, &has);
        (void)pthread_mutex_unlock(&index->lock);
    }
    return has;
}
