#include <assert.h>
#include <stdlib.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "index/answer/scan.h"
#include "index/block/run_allocator.h"
#include "index/block/state.h"
#include "index/index.h"

enum {
    SAMPLE_PAGES = 64,
    SAMPLE_RUNS = 64, /* of a page */
    SHARE = 8,        /* one in so many blocks is old */
    LOOK_RUNS = 8192, /* in a call */
    LOOK_PAGES = 4096,
};

struct age {
    uint32_t stored_s;
    uint32_t blocks;
};

struct index_coldest {
    struct index *index;
    struct index_scan *runs;
    uint64_t random;
    uint32_t number;  /* where the hand is */
    uint32_t in_vain; /* numbers it has passed since something was given */
    uint32_t page;    /* where the hand of index_coldest_pages() is */
    enum kvt_tier but;
    struct age ages[SAMPLE_PAGES * SAMPLE_RUNS];
};

enum kvt_err
index_coldest_new(struct index_coldest **out, struct index *index, enum kvt_tier but)
{
    struct index_coldest *coldest = kvt_calloc(1, sizeof(*coldest));

    *out = NULL;
    if (coldest == NULL)
        return KVT_NOMEM;
    coldest->index = index;
    coldest->number = INDEX_PAGE_BLOCKS;
    coldest->but = but;
    if (index_scan_new(&coldest->runs, index) != KVT_OK) {
        index_coldest_free(coldest);
        return KVT_NOMEM;
    }
    *out = coldest;
    return KVT_OK;
}

void
index_coldest_free(struct index_coldest *coldest)
{
    if (coldest == NULL)
        return;
    index_scan_free(coldest->runs);
    kvt_free(coldest);
}

static uint32_t
stored_s(const struct index_run *run)
{
    return atomic_load_explicit(&run->stored_s, memory_order_relaxed);
}

/* The run that begins at `first`; NULL: none does. */
static const struct index_run *
run_of(const struct index *index, uint32_t first)
{
    uint32_t offset;
    const struct index_run *run = index_state_run(index, first, &offset);

    return run == NULL || offset != 0 || index_run_length(run) == 0 ? NULL : run;
}

/* Somebody holds it, not in the tier `but`, and not too many; how many pairs that is. */
static bool
is_light(const struct index *index, const struct index_run *run, enum kvt_tier but, size_t *pairs)
{
    struct index_run_holders_place place;
    uint64_t cursor = 0;
    uint32_t pieces = 0;

    *pairs = 0;
    while (index_run_holders_next_read(&run->holders, &cursor, &place)) {
        if (++pieces > INDEX_COLDEST_PIECES ||
            atomic_load_explicit(&index_state_holder(index, place.holder)->tier,
                                 memory_order_relaxed) == but)
            return false;
        *pairs += place.to - place.from;
    }
    return pieces > 0;
}

/* ---- how old is old ---- */

static size_t
sample_page(const struct index_coldest *coldest, uint32_t page, struct age *ages)
{
    const struct index *index = coldest->index;
    uint32_t number = page * INDEX_PAGE_BLOCKS;
    const uint32_t end = number + INDEX_PAGE_BLOCKS;
    size_t count = 0;

    for (; number < end && count < SAMPLE_RUNS; number = index_run_allocator_next(index, number)) {
        const struct index_run *run = run_of(index, number);

        size_t pairs;

        if (run != NULL && run->pinned == 0 && is_light(index, run, coldest->but, &pairs))
            ages[count++] = (struct age){stored_s(run), index_run_length(run)};
    }
    return count;
}

static int
compare_ages(const void *left, const void *right)
{
    const struct age *a = left;
    const struct age *b = right;

    return a->stored_s < b->stored_s ? -1 : a->stored_s > b->stored_s;
}

/* A SHARE of what could go was last stored to then, or before; where hardly anything could, all. */
static uint32_t
guess_age(struct index_coldest *coldest)
{
    const uint32_t pages =
        atomic_load_explicit(&coldest->index->allocator.end, memory_order_relaxed);
    uint64_t blocks = 0;
    uint64_t older = 0;
    size_t count = 0;
    size_t at = 0;

    if (pages <= 1)
        return UINT32_MAX;
    for (int i = 0; i < SAMPLE_PAGES; i++)
        count += sample_page(coldest, 1 + (uint32_t)kvt_random_below(&coldest->random, pages - 1),
                             &coldest->ages[count]);
    for (size_t i = 0; i < count; i++)
        blocks += coldest->ages[i].blocks;
    qsort(coldest->ages, count, sizeof(coldest->ages[0]), compare_ages);
    while (at + 1 < count && older + coldest->ages[at].blocks < blocks / SHARE)
        older += coldest->ages[at++].blocks;
    return count == 0 ? UINT32_MAX : coldest->ages[at].stored_s;
}

/* ---- the hand ---- */

struct giving {
    struct index_coldest *coldest;
    index_scan_fn *callback;
    void *arg;
    size_t pairs;
    uint32_t oldest_s; /* what was stored to later stays */
    bool failed;
};

static bool
give(struct giving *giving, uint32_t first, const struct index_run *run)
{
    size_t pairs;

    if (stored_s(run) > giving->oldest_s ||
        !is_light(giving->coldest->index, run, giving->coldest->but, &pairs))
        return false;
    giving->failed =
        index_scan_give(giving->coldest->runs, first, giving->callback, giving->arg) == 0;
    if (!giving->failed)
        giving->pairs += pairs;
    return !giving->failed;
}

/* A run that nothing hangs on, and then what only that hung on. */
static void
give_branch(struct giving *giving, uint32_t first, const struct index_run *run, size_t pairs_max)
{
    const struct index *index = giving->coldest->index;

    while (give(giving, first, run) && giving->pairs < pairs_max) {
        const uint32_t parent = run->parent_number;
        const uint32_t child = first;

        if (parent == 0 || run->next != 0 || index_run_is(run, INDEX_RUN_ORPHAN))
            return;
        run = index_state_run_of(index, parent, &first);
        if (run->child != child)
            return;
    }
}

/* Move the hand over one run, or one page of none; returns how far. */
static uint32_t
go_on(struct index_coldest *coldest, uint32_t end)
{
    const uint32_t number = index_run_allocator_next(coldest->index, coldest->number);
    const uint32_t passed = number - coldest->number;

    coldest->number = number < end ? number : INDEX_PAGE_BLOCKS;
    return passed;
}

enum kvt_err
index_coldest_next(struct index_coldest *coldest, size_t pairs_max, index_scan_fn *callback,
                   void *arg, size_t *pairs)
{
    struct giving giving = {.coldest = coldest, .callback = callback, .arg = arg};
    struct index *index = coldest->index;
    uint32_t passed = 0;
    uint32_t end;

    (void)pthread_mutex_lock(&index->lock);
    giving.oldest_s = guess_age(coldest);
    end = atomic_load_explicit(&index->allocator.end, memory_order_relaxed) * INDEX_PAGE_BLOCKS;
    /* Not round twice: what was given is there until it is taken. */
    for (int looked = 0;
         looked < LOOK_RUNS && passed + INDEX_PAGE_BLOCKS < end && giving.pairs < pairs_max;
         looked++) {
        const struct index_run *run = run_of(index, coldest->number);

        if (run != NULL && run->pinned == 0)
            give_branch(&giving, coldest->number, run, pairs_max);
        if (giving.failed)
            break;
        passed += go_on(coldest, end);
    }
    (void)pthread_mutex_unlock(&index->lock);
    coldest->in_vain = giving.pairs > 0 ? 0 : coldest->in_vain + passed;
    *pairs = giving.pairs;
    if (giving.failed)
        return KVT_NOMEM;
    if (giving.pairs > 0 || coldest->in_vain + INDEX_PAGE_BLOCKS < end)
        return KVT_OK;
    coldest->in_vain = 0;
    return KVT_NOTFOUND;
}

/* ---- pages ---- */

/* All runs of the page could go, and they are the smaller half of it. */
static bool
is_sparse(const struct index_coldest *coldest, uint32_t at)
{
    const struct index *index = coldest->index;
    const struct index_page *page = &index->allocator.pages[at];
    uint32_t number = at * INDEX_PAGE_BLOCKS;
    const uint32_t end = number + INDEX_PAGE_BLOCKS;

    if (page->class_ == 0 || page->used == 0 ||
        page->used * 2 > index_classes[page->class_ - 1].runs)
        return false;
    for (; number < end; number = index_run_allocator_next(index, number)) {
        const struct index_run *run = run_of(index, number);
        size_t pairs;

        if (run != NULL && (run->pinned > 0 || !is_light(index, run, coldest->but, &pairs)))
            return false;
    }
    return true;
}

static void
give_page(struct giving *giving, uint32_t at)
{
    const struct index *index = giving->coldest->index;
    uint32_t number = at * INDEX_PAGE_BLOCKS;
    const uint32_t end = number + INDEX_PAGE_BLOCKS;

    for (; number < end && !giving->failed; number = index_run_allocator_next(index, number)) {
        const struct index_run *run = run_of(index, number);

        if (run != NULL)
            (void)give(giving, number, run);
    }
}

enum kvt_err
index_coldest_pages(struct index_coldest *coldest, size_t pairs_max, index_scan_fn *callback,
                    void *arg, size_t *pairs)
{
    struct giving giving = {
        .coldest = coldest, .callback = callback, .arg = arg, .oldest_s = UINT32_MAX};
    struct index *index = coldest->index;
    uint32_t end;

    (void)pthread_mutex_lock(&index->lock);
    end = atomic_load_explicit(&index->allocator.end, memory_order_relaxed);
    for (uint32_t passed = 1;
         passed < end && passed <= LOOK_PAGES && giving.pairs < pairs_max && !giving.failed;
         passed++) {
        if (coldest->page == 0 || coldest->page >= end)
            coldest->page = 1;
        if (is_sparse(coldest, coldest->page))
            give_page(&giving, coldest->page);
        coldest->page++;
    }
    (void)pthread_mutex_unlock(&index->lock);
    *pairs = giving.pairs;
    return giving.failed ? KVT_NOMEM : KVT_OK;
}

/* ---- room ---- */

uint64_t
index_room(struct index *index, uint64_t *pages)
{
    uint64_t numbers = 0; /* of blocks, in one of the arrays */
    uint64_t whole = 0;   /* of those, in empty pages */
    uint64_t runs = 0;
    uint32_t end;

    (void)pthread_mutex_lock(&index->lock);
    end = atomic_load_explicit(&index->allocator.end, memory_order_relaxed);
    for (uint32_t at = 1; at < end; at++) {
        const struct index_page *page = &index->allocator.pages[at];
        const struct index_class *class_ = &index_classes[page->class_ == 0 ? 0 : page->class_ - 1];
        const uint32_t arrays = (uint32_t)page->seq_counted + page->tok_counted;
        const uint32_t empty = page->class_ == 0 ? 0 : class_->runs - page->used;

        if (page->class_ == 0)
            whole += (uint64_t)arrays * INDEX_PAGE_BLOCKS;
        runs += empty;
        numbers += (uint64_t)arrays * empty * class_->capacity;
    }
    (void)pthread_mutex_unlock(&index->lock);
    if (pages != NULL)
        *pages = whole * sizeof(uint64_t);
    return (whole + numbers) * sizeof(uint64_t) + runs * sizeof(struct index_run);
}
