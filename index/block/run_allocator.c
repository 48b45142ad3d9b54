#include "index/block/run_allocator.h"

#include "index/block/state.h"
#include "index/memory/address_space.h"

enum {
    CHUNK_PAGES = 256, /* 2 MiB of each array: what one huge page covers */
    EMPTY_KEPT = 1024, /* empty pages whose memory is kept for the next ones, */
    EMPTY_SHARE = 8,   /* or this part of all memory; until something else needs it */
    RECIPROCAL_BITS = 20,
};

#define CHUNK_BYTES     ((size_t)CHUNK_PAGES * PAGE_BYTES)
#define PAGE_BYTES      (INDEX_PAGE_BLOCKS * sizeof(uint64_t))
/* What the arrays over pages take for each page ever used. */
#define PAGE_SELF_BYTES (sizeof(struct index_page) + sizeof(uintptr_t) + sizeof(void *))

_Static_assert(CHUNK_BYTES == INDEX_ADDRESS_SPACE_CHUNK, "a chunk is a huge page");

/* Capacities that fill a page nearly to its end. */
#define CLASS(capacity)                                                                            \
    {                                                                                              \
        (capacity), INDEX_PAGE_BLOCKS / (capacity),                                                \
            ((1u << RECIPROCAL_BITS) + (capacity)-1) / (capacity)                                  \
    }
const struct index_class index_classes[INDEX_CLASSES] = {
    CLASS(1),   CLASS(2),   CLASS(3),   CLASS(4),   CLASS(6),   CLASS(8),   CLASS(10),  CLASS(12),
    CLASS(16),  CLASS(20),  CLASS(24),  CLASS(32),  CLASS(40),  CLASS(51),  CLASS(64),  CLASS(78),
    CLASS(102), CLASS(128), CLASS(170), CLASS(204), CLASS(256), CLASS(341), CLASS(512), CLASS(1024),
};

_Static_assert(INDEX_RUN_BLOCKS_MAX == 1024, "the largest class");

void
index_run_allocator_close(struct index *index)
{
    struct index_run_allocator *allocator = &index->allocator;
    const uint32_t end = atomic_load(&allocator->end);

    for (uint32_t page = 1; page < end; page++) {
        const uintptr_t runs = atomic_load(&allocator->runs[page]);

        if (runs != 0)
            index_memory_give(&index->memory, (void *)(runs & ~(uintptr_t)63),
                              index_classes[(runs & 63) - 1].runs, sizeof(struct index_run));
        index_memory_give(&index->memory, atomic_load(&allocator->uses[page]), INDEX_PAGE_BLOCKS,
                          sizeof(struct index_block_hits));
        index_memory_discharge(&index->memory,
                               PAGE_SELF_BYTES +
                                   PAGE_BYTES * ((size_t)allocator->pages[page].seq_counted +
                                                 (size_t)allocator->pages[page].tok_counted));
    }
    index_address_space_release((void *)(uintptr_t)allocator->seq, allocator->max * PAGE_BYTES);
    index_address_space_release((void *)(uintptr_t)allocator->tok, allocator->max * PAGE_BYTES);
    index_address_space_release((void *)(uintptr_t)allocator->runs,
                                allocator->max * sizeof(*allocator->runs));
    index_address_space_release((void *)(uintptr_t)allocator->uses,
                                allocator->max * sizeof(*allocator->uses));
    index_address_space_release(allocator->pages, allocator->max * sizeof(*allocator->pages));
    index_address_space_release(allocator->chunk_used,
                                allocator->max / CHUNK_PAGES * sizeof(uint16_t));
    *allocator = (struct index_run_allocator){.seq = NULL};
}

enum kvt_err
index_run_allocator_open(struct index *index)
{
    struct index_run_allocator *allocator = &index->allocator;
    const uint64_t limit = index->memory.max + index->memory.max / INDEX_LIMIT_SHARE;
    const uint64_t wanted = limit / PAGE_BYTES / CHUNK_PAGES + 2; /* chunks */
    const uint64_t most = INDEX_NUMBERS_MAX / INDEX_PAGE_BLOCKS / CHUNK_PAGES;

    *allocator = (struct index_run_allocator){.end = 1};
    allocator->max = (uint32_t)(wanted < most ? wanted : most) * CHUNK_PAGES;
    allocator->seq = index_address_space_reserve(allocator->max * PAGE_BYTES, false);
    allocator->tok = index_address_space_reserve(allocator->max * PAGE_BYTES, false);
    allocator->runs = index_address_space_reserve(allocator->max * sizeof(*allocator->runs), true);
    allocator->uses = index_address_space_reserve(allocator->max * sizeof(*allocator->uses), true);
    allocator->pages =
        index_address_space_reserve(allocator->max * sizeof(*allocator->pages), true);
    allocator->chunk_used =
        index_address_space_reserve(allocator->max / CHUNK_PAGES * sizeof(uint16_t), true);
    if (allocator->seq == NULL || allocator->tok == NULL || allocator->runs == NULL ||
        allocator->uses == NULL || allocator->pages == NULL || allocator->chunk_used == NULL) {
        index_run_allocator_close(index);
        return KVT_NOMEM;
    }
    return KVT_OK;
}

unsigned
index_run_allocator_class(uint32_t blocks)
{
    unsigned class_ = 0;

    while (class_ + 1 < INDEX_CLASSES && index_classes[class_].capacity < blocks)
        class_++;
    if (index_classes[class_].capacity > blocks + blocks / 3 && class_ > 0)
        class_--;
    return class_;
}

/* Numbers up to the end of `page` become memory. */
static bool
open_page(struct index_run_allocator *allocator, uint32_t page)
{
    while (allocator->open <= page) {
        char *const seq = (char *)(uintptr_t)allocator->seq + allocator->open * PAGE_BYTES;
        char *const tok = (char *)(uintptr_t)allocator->tok + allocator->open * PAGE_BYTES;

        if (!index_address_space_commit(seq, CHUNK_BYTES) ||
            !index_address_space_commit(tok, CHUNK_BYTES))
            return false;
        allocator->open += CHUNK_PAGES;
    }
    return true;
}

static void
list_page(struct index_run_allocator *allocator, uint32_t number)
{
    struct index_page *page = &allocator->pages[number];
    uint32_t *head = &allocator->room[page->tokens][page->class_ - 1];

    page->prev = 0;
    page->next = *head;
    if (*head != 0)
        allocator->pages[*head].prev = number;
    *head = number;
    page->listed = true;
}

static void
unlist_page(struct index_run_allocator *allocator, uint32_t number)
{
    struct index_page *page = &allocator->pages[number];

    if (page->prev != 0)
        allocator->pages[page->prev].next = page->next;
    else
        allocator->room[page->tokens][page->class_ - 1] = page->next;
    if (page->next != 0)
        allocator->pages[page->next].prev = page->prev;
    page->listed = false;
}

/* Memory of an empty page goes back to the system. */
static void
forget_page(struct index *index, uint32_t number)
{
    struct index_run_allocator *allocator = &index->allocator;
    struct index_page *page = &allocator->pages[number];

    if (!page->seq_counted)
        return;
    index_memory_discharge(&index->memory, PAGE_BYTES * (1 + (size_t)page->tok_counted));
    page->seq_counted = page->tok_counted = false;
    allocator->empty_counted--;
}

static void
trim_chunk(struct index *index, uint32_t chunk)
{
    struct index_run_allocator *allocator = &index->allocator;
    const uint32_t first = chunk * CHUNK_PAGES;

    index_address_space_decommit((char *)(uintptr_t)allocator->seq + first * PAGE_BYTES,
                                 CHUNK_BYTES);
    index_address_space_decommit((char *)(uintptr_t)allocator->tok + first * PAGE_BYTES,
                                 CHUNK_BYTES);
    for (uint32_t page = first; page < first + CHUNK_PAGES && page < atomic_load(&allocator->end);
         page++)
        forget_page(index, page);
}

/* The page has no runs any more. */
static void
empty_page(struct index *index, uint32_t number)
{
    struct index_run_allocator *allocator = &index->allocator;
    struct index_page *page = &allocator->pages[number];
    const uintptr_t runs = atomic_load_explicit(&allocator->runs[number], memory_order_relaxed);
    struct index_block_hits *uses =
        atomic_load_explicit(&allocator->uses[number], memory_order_relaxed);
    const uint32_t chunk = number / CHUNK_PAGES;

    unlist_page(allocator, number);
    atomic_store_explicit(&allocator->runs[number], 0, memory_order_release);
    atomic_store_explicit(&allocator->uses[number], NULL, memory_order_release);
    index_epoch_retire(&index->epoch, (void *)(runs & ~(uintptr_t)63),
                       index_classes[(runs & 63) - 1].runs, sizeof(struct index_run));
    index_epoch_retire(&index->epoch, uses, INDEX_PAGE_BLOCKS, sizeof(struct index_block_hits));
    page->class_ = 0;
    page->next = allocator->empty;
    allocator->empty = number;
    allocator->empty_counted++;
    allocator->chunk_used[chunk]--;
    if (allocator->chunk_used[chunk] == 0 && allocator->empty_counted > EMPTY_KEPT &&
        allocator->empty_counted > index->memory.max / EMPTY_SHARE / (2 * PAGE_BYTES))
        trim_chunk(index, chunk);
}

void
index_run_allocator_trim(struct index *index)
{
    struct index_run_allocator *allocator = &index->allocator;

    for (int tokens = 0; tokens < 2; tokens++) {
        for (unsigned class_ = 0; class_ < INDEX_CLASSES; class_++) {
            for (uint32_t at = allocator->room[tokens][class_]; at != 0;) {
                const uint32_t next = allocator->pages[at].next;

                if (allocator->pages[at].used == 0)
                    empty_page(index, at);
                at = next;
            }
        }
    }
    for (uint32_t at = allocator->empty; at != 0; at = allocator->pages[at].next) {
        if (!allocator->pages[at].seq_counted)
            continue;
        index_address_space_decommit((char *)(uintptr_t)allocator->seq + at * PAGE_BYTES,
                                     PAGE_BYTES);
        index_address_space_decommit((char *)(uintptr_t)allocator->tok + at * PAGE_BYTES,
                                     PAGE_BYTES);
        forget_page(index, at);
    }
}

/* The memory of a page that is to be used: counted, and readable. */
static bool
count_page(struct index *index, uint32_t number, bool tokens)
{
    struct index_page *page = &index->allocator.pages[number];

    if (!open_page(&index->allocator, number))
        return false;
    if (!page->seq_counted) {
        if (!index_memory_charge(&index->memory, PAGE_BYTES))
            return false;
        page->seq_counted = true;
    }
    if (tokens && !page->tok_counted) {
        if (!index_memory_charge(&index->memory, PAGE_BYTES))
            return false;
        page->tok_counted = true;
    }
    return true;
}

/* A page off the list of empty ones, or a new one; 0: none. */
static uint32_t
next_page(struct index *index, bool tokens)
{
    struct index_run_allocator *allocator = &index->allocator;
    const uint32_t end = atomic_load_explicit(&allocator->end, memory_order_relaxed);
    uint32_t number = allocator->empty;

    if (number != 0) {
        const bool counted = allocator->pages[number].seq_counted;

        if (!count_page(index, number, tokens)) {
            allocator->empty_counted += !counted && allocator->pages[number].seq_counted;
            return 0;
        }
        allocator->empty = allocator->pages[number].next;
        allocator->empty_counted -= counted;
        return number;
    }
    if (end == allocator->max || !index_memory_charge(&index->memory, PAGE_SELF_BYTES))
        return 0;
    number = end;
    atomic_store_explicit(&allocator->end, end + 1, memory_order_release);
    if (count_page(index, number, tokens))
        return number;
    allocator->pages[number].next = allocator->empty;
    allocator->empty = number;
    allocator->empty_counted += allocator->pages[number].seq_counted;
    return 0;
}

/* A page of this class, in the list of those with room; 0: no memory. */
static uint32_t
add_page(struct index *index, unsigned class_, bool tokens)
{
    struct index_run_allocator *allocator = &index->allocator;
    struct index_run *runs = index_memory_take_lines(&index->memory, index_classes[class_].runs,
                                                     sizeof(struct index_run));
    uint32_t number = 0;
    struct index_page *page;

    if (runs != NULL)
        number = next_page(index, tokens);
    if (number == 0) {
        index_memory_give(&index->memory, runs, index_classes[class_].runs, sizeof(*runs));
        return 0;
    }
    page = &allocator->pages[number];
    *page = (struct index_page){.class_ = (uint8_t)(class_ + 1),
                                .seq_counted = true,
                                .tok_counted = page->tok_counted,
                                .tokens = tokens};
    allocator->chunk_used[number / CHUNK_PAGES]++;
    atomic_store_explicit(&allocator->runs[number], (uintptr_t)runs | (class_ + 1),
                          memory_order_release);
    list_page(allocator, number);
    return number;
}

static struct index_run *
page_run(const struct index_run_allocator *allocator, uint32_t page, uint32_t at)
{
    const uintptr_t runs = atomic_load_explicit(&allocator->runs[page], memory_order_relaxed);

    return (struct index_run *)(runs & ~(uintptr_t)63) + at;
}

/* A page that has room, of any class from one to another; 0: none. */
static uint32_t
find_other(struct index *index, int from, int to, bool tokens)
{
    struct index_run_allocator *allocator = &index->allocator;
    const int step = from < to ? 1 : -1;

    for (int class_ = from; class_ != to + step; class_ += step) {
        for (int other = 0; other < 2; other++) {
            const uint32_t number = allocator->room[other == 0 ? tokens : !tokens][class_];

            if (number != 0 && count_page(index, number, tokens))
                return number;
        }
    }
    return 0;
}

/* A page with room of this class; or, without memory, of a smaller or a larger one; 0: none. */
static uint32_t
find_page(struct index *index, unsigned class_, bool tokens)
{
    uint32_t number = index->allocator.room[tokens][class_];

    if (number == 0)
        number = add_page(index, class_, tokens);
    if (number == 0)
        number = find_other(index, (int)class_, 0, tokens);
    if (number == 0)
        number = find_other(index, (int)class_, INDEX_CLASSES - 1, tokens);
    return number;
}

/* The next one to be taken will be written from front to back. */
static void
prefetch_next(const struct index_run_allocator *allocator, const struct index_page *page,
              uint32_t number)
{
    enum { LINE = 8, LINES_MAX = 8 };
    const struct index_class *class_ = &index_classes[page->class_ - 1];
    const uint32_t at = page->free != 0 ? page->free - 1u : page->fresh;
    const uint32_t first = number * INDEX_PAGE_BLOCKS + at * class_->capacity;

    if (at >= class_->runs)
        return;
    __builtin_prefetch(page_run(allocator, number, at), 1);
    for (uint32_t i = 0; i < class_->capacity && i < LINE * LINES_MAX; i += LINE) {
        __builtin_prefetch(&allocator->seq[first + i], 1);
        if (page->tokens)
            __builtin_prefetch(&allocator->tok[first + i], 1);
    }
}

uint32_t
index_run_allocator_take(struct index *index, unsigned class_, bool tokens)
{
    struct index_run_allocator *allocator = &index->allocator;
    const uint32_t number = find_page(index, class_, tokens);
    struct index_page *page;
    struct index_run *run;
    uint32_t at;

    if (number == 0)
        return 0;
    page = &allocator->pages[number];
    if (page->free != 0) {
        at = page->free - 1u;
        run = page_run(allocator, number, at);
        page->free = (uint16_t)run->next;
        run->next = 0;
    } else {
        at = page->fresh++;
    }
    page->used++;
    prefetch_next(allocator, page, number);
    if (page->used == index_classes[page->class_ - 1].runs)
        unlist_page(allocator, number);
    return number * INDEX_PAGE_BLOCKS + at * index_classes[page->class_ - 1].capacity;
}

void
index_run_allocator_give(struct index *index, uint32_t first)
{
    struct index_run_allocator *allocator = &index->allocator;
    const uint32_t number = first >> INDEX_PAGE_SHIFT;
    struct index_page *page = &allocator->pages[number];
    const uint32_t at =
        (first & (INDEX_PAGE_BLOCKS - 1)) / index_classes[page->class_ - 1].capacity;
    struct index_run *run = page_run(allocator, number, at);

    assert(page->used > 0 && atomic_load_explicit(&run->length, memory_order_relaxed) == 0);
    run->next = page->free;
    page->free = (uint16_t)(at + 1);
    page->used--;
    if (!page->listed)
        list_page(allocator, number);
    /* One empty page of a class stays for the next run. */
    if (page->used == 0 && (page->prev != 0 || page->next != 0))
        empty_page(index, number);
}

bool
index_run_allocator_add_tokens(struct index *index, uint32_t number)
{
    return count_page(index, number >> INDEX_PAGE_SHIFT, true);
}

struct index_block_hits *
index_run_allocator_uses(struct index *index, uint32_t number)
{
    _Atomic(struct index_block_hits *) *slot = &index->allocator.uses[number >> INDEX_PAGE_SHIFT];
    struct index_block_hits *uses = atomic_load_explicit(slot, memory_order_relaxed);

    if (uses == NULL) {
        uses = index_memory_take(&index->memory, INDEX_PAGE_BLOCKS, sizeof(*uses));
        atomic_store_explicit(slot, uses, memory_order_release);
    }
    return uses;
}
