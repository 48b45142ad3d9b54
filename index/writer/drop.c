#include <string.h>

#include "index/block/holder_usage.h"
#include "index/block/state.h"
#include "index/writer/writer.h"

/* What is to go, in one pass over the pages. */
struct pass {
    struct index *index;
    const struct index_loss *losses;
    size_t count;
    struct index_holder_usage *usages[INDEX_DROPS_MAX]; /* NULL where a loss is of all namespaces */
    bool left[INDEX_DROPS_MAX];                         /* there is something to lose */
    unsigned tiers;                                     /* of all these holders, which are */
    uint64_t holders[INDEX_HOLDERS_MAX / 64];
    index_dropped_fn *callback; /* NULL: nobody asks */
    void *arg;
    uint64_t hashes[INDEX_DROPPED_MAX];
};

_Static_assert(INDEX_DROPPED_MAX == INDEX_RUN_BLOCKS_MAX, "a piece is of one run");

/* What is left to lose. */
static void
look_up(struct pass *pass)
{
    for (size_t i = 0; i < pass->count; i++) {
        const struct index_loss *loss = &pass->losses[i];
        const struct index_holder_record *record = index_state_holder(pass->index, loss->holder);

        pass->usages[i] = NULL;
        pass->left[i] = atomic_load_explicit(&record->blocks, memory_order_relaxed) > 0;
        if (!pass->left[i] || loss->ns == INDEX_NAMESPACE_ALL)
            continue;
        pass->usages[i] = index_holder_usage_find(pass->index, loss->holder, loss->ns);
        pass->left[i] = pass->usages[i] != NULL;
    }
}

static void
begin(struct pass *pass, struct index *index, const struct index_loss *losses, size_t count)
{
    pass->index = index;
    pass->losses = losses;
    pass->count = count;
    pass->tiers = 0;
    memset(pass->holders, 0, sizeof(pass->holders));
    for (size_t i = 0; i < count; i++) {
        const uint32_t holder = losses[i].holder;

        assert(holder < atomic_load_explicit(&index->holder_count, memory_order_relaxed));
        pass->holders[holder / 64] |= UINT64_C(1) << holder % 64;
        pass->tiers |= KVT_TIER_MASK(index_state_holder(index, holder)->key.tier);
    }
    look_up(pass);
}

/* The first page from `page` on that may have any of it; UINT32_MAX: none. */
static uint32_t
next_page(const struct pass *pass, uint32_t page)
{
    uint32_t next = UINT32_MAX;

    for (size_t i = 0; i < pass->count && next > page; i++) {
        const uint32_t its =
            pass->usages[i] == NULL ? page : index_holder_usage_page(pass->usages[i], page);

        if (pass->left[i] && its < next)
            next = its;
    }
    return next;
}

/* Say what is about to go. */
static void
tell(struct pass *pass, const struct index_run *run, uint32_t first, uint32_t loss,
     const struct index_run_holders_place *place)
{
    const struct index *index = pass->index;
    const uint32_t length = index_run_length(run);
    const uint32_t end = place->to < length ? place->to : length;
    struct index_dropped dropped = {
        .hashes = pass->hashes,
        .parent = place->from > 0 ? index_state_seq(index, first + place->from - 1)
                                  : atomic_load_explicit(&run->parent, memory_order_relaxed),
        .loss = loss,
        .tiers = atomic_load_explicit(&run->tiers, memory_order_relaxed),
    };

    for (uint32_t at = place->from; at < end; at++)
        pass->hashes[dropped.count++] = index_state_seq(index, first + at);
    pass->callback(pass->arg, &dropped);
}

/* All that loses of the run that begins at `first`. */
static uint64_t
drop_holder(struct pass *pass, uint32_t first, uint32_t loss)
{
    struct index *index = pass->index;
    const uint32_t holder = pass->losses[loss].holder;
    uint64_t gone = 0;

    for (;;) {
        uint32_t offset;
        const struct index_run *run = index_state_run(index, first, &offset);
        uint64_t cursor = (uint64_t)holder << 16;
        struct index_run_holders_place place;
        uint32_t pairs;
        enum kvt_err rc;

        /* It may have gone with what was taken from it, and its page too. */
        if (run == NULL || index_run_length(run) == 0 ||
            !index_run_holders_next_read(&run->holders, &cursor, &place) || place.holder != holder)
            return gone;
        if (pass->callback != NULL)
            tell(pass, run, first, loss, &place);
        rc =
            index_writer_release(index, first, place.from, place.to, holder, UINT32_MAX, 0, &pairs);
        assert(rc == KVT_OK); /* a range that goes as a whole is not taken apart */
        (void)rc;
        gone += pairs;
    }
}

/* Whether anybody who loses may have blocks of the run. */
static bool
may_lose(const struct pass *pass, const struct index_run *run)
{
    uint32_t sole;

    return index_run_length(run) > 0 &&
           (atomic_load_explicit(&run->tiers, memory_order_relaxed) & pass->tiers) != 0 &&
           (!index_run_holders_sole(&run->holders, &sole) ||
            (pass->holders[sole / 64] >> sole % 64 & 1) != 0);
}

static uint64_t
drop_from_run(struct pass *pass, uint32_t first, uint32_t ns)
{
    uint64_t gone = 0;

    for (uint32_t i = 0; i < pass->count; i++)
        if (pass->left[i] &&
            (pass->losses[i].ns == ns || pass->losses[i].ns == INDEX_NAMESPACE_ALL))
            gone += drop_holder(pass, first, i);
    return gone;
}

static uint64_t
drop_from_page(struct pass *pass, uint32_t number)
{
    const struct index_run_allocator *allocator = &pass->index->allocator;
    const uintptr_t entry = atomic_load_explicit(&allocator->runs[number], memory_order_relaxed);
    const struct index_run *runs = (const struct index_run *)(entry & ~(uintptr_t)63);
    uint64_t gone = 0;

    /* A page that became empty is no more. */
    for (uint32_t at = 0;
         entry != 0 && at < allocator->pages[number].fresh &&
         atomic_load_explicit(&allocator->runs[number], memory_order_relaxed) == entry;
         at++)
        if (may_lose(pass, &runs[at]))
            gone += drop_from_run(
                pass, number * INDEX_PAGE_BLOCKS + at * index_classes[(entry & 63) - 1].capacity,
                index_run_ns(&runs[at]));
    return gone;
}

bool
index_drop_report(struct index *index, const struct index_loss *losses, size_t count,
                  index_dropped_fn *callback, void *arg, uint64_t *cursor, uint64_t *pairs)
{
    struct pass pass;
    uint32_t page;
    uint32_t end;

    assert(index != NULL && cursor != NULL && pairs != NULL && count <= INDEX_DROPS_MAX);
    *pairs = 0;
    pass.callback = callback;
    pass.arg = arg;
    (void)pthread_mutex_lock(&index->lock);
    begin(&pass, index, losses, count);
    end = atomic_load_explicit(&index->allocator.end, memory_order_relaxed);
    page = next_page(&pass, *cursor < 1 ? 1 : (uint32_t)*cursor);
    for (uint32_t looked = 0; page < end && looked < INDEX_DROP_PAGES && *pairs < INDEX_DROP_PAIRS;
         looked++) {
        const uint64_t gone = drop_from_page(&pass, page);

        *pairs += gone;
        if (gone > 0)
            look_up(&pass);
        page = next_page(&pass, page + 1);
    }
    (void)pthread_mutex_unlock(&index->lock);
    *cursor = page;
    return page < end;
}

bool
index_drop(struct index *index, uint32_t holder, uint32_t ns, uint64_t *cursor, uint64_t *pairs)
{
    const struct index_loss loss = {.holder = holder, .ns = ns};

    return index_drop_report(index, &loss, 1, NULL, NULL, cursor, pairs);
}
