#include "index/table/table.h"

#include <assert.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    WAYS = 10,
    PLACE_BITS = 23, /* a place in a segment; its low 16 bits are the tag */
    DEPTH_MAX = 32,
    STEP = 1024,       /* lines a segment grows by: a unit of the arena */
    BESIDE_SMALL = 8,  /* lines of a segment behind its last bucket, for what does not fit there; */
    BESIDE_LARGE = 64, /* of those that fill units */
    BUCKETS_LARGE = STEP - BESIDE_LARGE,
    BUCKETS_TAGGED = 2048,                   /* from here on tags tell the place */
    BUCKETS_MAX = 8 * STEP - BESIDE_LARGE,   /* then it splits */
    BUCKETS_SPLIT = 5 * STEP - BESIDE_LARGE, /* what the halves begin with */
    EXPECT_FULL = 7,                         /* so full an expected segment will be, */
    EXPECT_PARTS = 10,                       /* of as many parts: none is crowded by chance */
    EXPECT_SHARE = 2,  /* at most such a part of the memory that is left: blocks come too */
    PLENTY_SHARE = 64, /* less than this part of all memory in use: speed for space */
};

#define USED_SHIFT   32
#define USED_MASK    ((1u << WAYS) - 1)
#define PASSED_SHIFT 48
#define PASSED_ONE   (UINT64_C(1) << PASSED_SHIFT)
#define PASSED_MAX   UINT16_MAX

/* A cache line.  Tags of ways 0-7 are in `tags`, four to a word; those of ways 8 and 9 in the low
 * half of `rest`, then the ways in use, then how many entries passed. */
struct bucket {
    _Atomic uint64_t tags[2];
    _Atomic uint64_t rest;
    _Atomic uint32_t numbers[WAYS];
};

_Static_assert(sizeof(struct bucket) == 64, "a bucket is a cache line");

/* Apart from its lines: those begin at multiples of 64 KiB, which caches hold only few of. */
struct index_table_segment {
    struct bucket *lines;
    uint32_t buckets; /* without those behind the last one */
    uint32_t passes;  /* how far behind its own bucket an entry may stand */
    uint32_t depth;   /* highest bits of the hash that all its entries share */
    uint32_t used;
    uint32_t crowded; /* with so many entries it is to grow */
};

struct index_table_directory {
    uint32_t depth;
    _Atomic(struct index_table_segment *) segments[]; /* 1 << depth; neighbours may be the same */
};

static inline struct index_table_directory *
directory_of(const struct index_table *table)
{
    return atomic_load_explicit(&table->directory, memory_order_acquire);
}

static inline size_t
directory_at(const struct index_table_directory *directory, uint64_t mixed)
{
    return (size_t)(mixed >> 1 >> (63 - directory->depth));
}

static inline struct index_table_segment *
segment_of(const struct index_table_directory *directory, uint64_t mixed)
{
    return atomic_load_explicit(&directory->segments[directory_at(directory, mixed)],
                                memory_order_acquire);
}

/* The place in a segment, from its first bucket to its last. */
static inline uint32_t
place_of(const struct index_table_segment *segment, uint64_t mixed)
{
    return (uint32_t)(mixed << segment->depth >> (64 - PLACE_BITS));
}

static inline uint32_t
home_of(const struct index_table_segment *segment, uint32_t place)
{
    return (uint32_t)((uint64_t)place * segment->buckets >> PLACE_BITS);
}

static inline uint16_t
tag_of(uint32_t place)
{
    return (uint16_t)place;
}

static inline uint64_t
load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Bits of the ways in use that have this tag. */
static inline unsigned
ways_with(const struct bucket *bucket, uint64_t rest, uint16_t tag)
{
    const uint64_t low = load(&bucket->tags[0]);
    const uint64_t high = load(&bucket->tags[1]);
    unsigned ways = 0;

#ifdef __SSE2__
    const __m128i tags = _mm_set_epi64x((long long)high, (long long)low);
    const __m128i equal = _mm_cmpeq_epi16(tags, _mm_set1_epi16((short)tag));

    ways = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128()));
#else
    for (unsigned i = 0; i < 4; i++) {
        ways |= (unsigned)((uint16_t)(low >> 16 * i) == tag) << i;
        ways |= (unsigned)((uint16_t)(high >> 16 * i) == tag) << (i + 4);
    }
#endif
    ways |= (unsigned)((uint16_t)rest == tag) << 8;
    ways |= (unsigned)((uint16_t)(rest >> 16) == tag) << 9;
    return ways & (unsigned)(rest >> USED_SHIFT) & USED_MASK;
}

static inline uint32_t
number_of(const struct bucket *bucket, unsigned way)
{
    return atomic_load_explicit(&bucket->numbers[way], memory_order_relaxed);
}

/* The number of a hash in its segment, or 0. */
static inline uint32_t
find_in(const struct index_table_segment *segment, uint32_t place, const _Atomic uint64_t *seq,
        uint64_t hash)
{
    const struct bucket *bucket = &segment->lines[home_of(segment, place)];

    for (unsigned pass = 0; pass <= segment->passes; pass++, bucket++) {
        const uint64_t rest = atomic_load_explicit(&bucket->rest, memory_order_acquire);

        for (unsigned ways = ways_with(bucket, rest, tag_of(place)); ways != 0; ways &= ways - 1) {
            const uint32_t number = number_of(bucket, (unsigned)__builtin_ctz(ways));

            if (load(&seq[number]) == hash)
                return number;
        }
        if (rest >> PASSED_SHIFT == 0)
            break;
    }
    return 0;
}

uint32_t
index_table_find(const struct index_table *table, const _Atomic uint64_t *seq, uint64_t hash,
                 uint64_t mixed)
{
    const struct index_table_directory *directory = directory_of(table);
    const struct index_table_segment *segment;

    if (directory == NULL)
        return 0;
    segment = segment_of(directory, mixed);
    return find_in(segment, place_of(segment, mixed), seq, hash);
}

void
index_table_prefetch(const struct index_table *table, uint64_t mixed)
{
    const struct index_table_directory *directory = directory_of(table);

    if (directory != NULL) {
        const struct index_table_segment *segment = segment_of(directory, mixed);

        __builtin_prefetch(&segment->lines[home_of(segment, place_of(segment, mixed))]);
    }
}

void
index_table_prefetch_all(const struct index_table *table, const uint64_t *mixed, uint32_t count)
{
    const struct index_table_directory *directory = directory_of(table);

    for (uint32_t i = 0; i < count && directory != NULL; i++) {
        const struct index_table_segment *segment = segment_of(directory, mixed[i]);

        __builtin_prefetch(&segment->lines[home_of(segment, place_of(segment, mixed[i]))], 1);
    }
}

void
index_table_spot(const struct index_table *table, uint64_t mixed, struct index_table_spot *spot)
{
    const struct index_table_directory *directory = directory_of(table);
    const struct index_table_segment *segment;
    uint32_t place;

    spot->bucket = NULL;
    if (directory == NULL)
        return;
    segment = segment_of(directory, mixed);
    place = place_of(segment, mixed);
    spot->bucket = &segment->lines[home_of(segment, place)];
    spot->passes = segment->passes;
    spot->tag = tag_of(place);
    __builtin_prefetch(spot->bucket);
}

uint32_t
index_table_guess_at(const struct index_table_spot *spot)
{
    const struct bucket *bucket = spot->bucket;

    for (uint32_t pass = 0; bucket != NULL && pass <= spot->passes; pass++, bucket++) {
        const uint64_t rest = atomic_load_explicit(&bucket->rest, memory_order_acquire);
        const unsigned ways = ways_with(bucket, rest, (uint16_t)spot->tag);

        if (ways != 0)
            return number_of(bucket, (unsigned)__builtin_ctz(ways));
        if (rest >> PASSED_SHIFT == 0)
            break;
    }
    return 0;
}

uint32_t
index_table_guess(const struct index_table *table, uint64_t mixed)
{
    struct index_table_spot spot;

    index_table_spot(table, mixed, &spot);
    return index_table_guess_at(&spot);
}

static uint32_t
beside(uint32_t buckets)
{
    return buckets < BUCKETS_LARGE ? BESIDE_SMALL : BESIDE_LARGE;
}

static size_t
segment_lines(uint32_t buckets)
{
    return (size_t)buckets + beside(buckets);
}

/* With tags, places that far apart must differ in them. */
static uint32_t
passes_of(uint32_t buckets)
{
    const uint32_t most = beside(buckets) - 1;
    const uint32_t told = (buckets >> (PLACE_BITS - 16)) - 1;

    return buckets >= BUCKETS_TAGGED && told < most ? told : most;
}

static struct index_table_segment *
make_segment(struct index_memory *memory, uint32_t buckets, uint32_t depth)
{
    struct index_table_segment *segment = index_memory_take(memory, 1, sizeof(*segment));

    if (segment == NULL)
        return NULL;
    segment->lines = index_memory_take_lines(memory, segment_lines(buckets), sizeof(struct bucket));
    if (segment->lines == NULL) {
        index_memory_give(memory, segment, 1, sizeof(*segment));
        return NULL;
    }
    segment->buckets = buckets;
    segment->passes = passes_of(buckets);
    segment->depth = depth;
    /* Seven eighths of the ways: beyond, entries stand far from home. */
    segment->crowded = (buckets * WAYS * 7 + 7) / 8;
    return segment;
}

static inline void
put_tag(struct bucket *bucket, uint64_t rest, unsigned way, uint16_t tag)
{
    const uint64_t used = UINT64_C(1) << (USED_SHIFT + way);

    if (way < 8) {
        const unsigned shift = 16 * (way & 3);
        const uint64_t word = load(&bucket->tags[way >> 2]);

        atomic_store_explicit(&bucket->tags[way >> 2],
                              (word & ~(UINT64_C(0xffff) << shift)) | (uint64_t)tag << shift,
                              memory_order_relaxed);
    } else {
        const unsigned shift = 16 * (way - 8);

        rest = (rest & ~(UINT64_C(0xffff) << shift)) | (uint64_t)tag << shift;
    }
    atomic_store_explicit(&bucket->rest, rest | used, memory_order_release);
}

/* False: no way is free where the entry may stand. */
static bool
put(struct index_table_segment *segment, uint32_t home, uint16_t tag, uint32_t number)
{
    struct bucket *const first = &segment->lines[home];
    struct bucket *bucket = first;
    uint64_t rest = load(&bucket->rest);
    unsigned free;

    for (unsigned pass = 0; (~(rest >> USED_SHIFT) & USED_MASK) == 0; rest = load(&bucket->rest)) {
        if (pass++ == segment->passes || rest >> PASSED_SHIFT == PASSED_MAX)
            return false;
        bucket++;
    }
    for (struct bucket *passed = first; passed < bucket; passed++)
        atomic_store_explicit(&passed->rest, load(&passed->rest) + PASSED_ONE,
                              memory_order_relaxed);
    free = (unsigned)__builtin_ctz((unsigned)(~(rest >> USED_SHIFT) & USED_MASK));
    atomic_store_explicit(&bucket->numbers[free], number, memory_order_relaxed);
    put_tag(bucket, rest, free, tag);
    segment->used++;
    return true;
}

/* The place of an entry, from its tag and where it stands. */
static uint32_t
place_from_tag(const struct index_table_segment *segment, uint32_t bucket, uint16_t tag)
{
    /* The first place behind the bucket; the entry's is one of the 65,536 before it. */
    const uint64_t end =
        ((((uint64_t)bucket + 1) << PLACE_BITS) + segment->buckets - 1) / segment->buckets;
    const uint32_t last = (uint32_t)end - 1;

    return last - (uint16_t)((uint16_t)last - tag);
}

static uint16_t
tag_at(const struct bucket *bucket, unsigned way)
{
    const uint64_t word = way < 8 ? load(&bucket->tags[way >> 2]) : load(&bucket->rest);

    return (uint16_t)(word >> 16 * (way & 3));
}

static uint32_t
lines_of(const struct index_table_segment *segment)
{
    return segment->buckets + segment->passes;
}

/* Enter all of `from` into `to`; false: it does not fit. */
static bool
copy_by_tags(const struct index_table_segment *from, struct index_table_segment *to)
{
    for (uint32_t at = 0; at < lines_of(from); at++) {
        const struct bucket *bucket = &from->lines[at];
        unsigned ways = (unsigned)(load(&bucket->rest) >> USED_SHIFT) & USED_MASK;

        for (; ways != 0; ways &= ways - 1) {
            const unsigned way = (unsigned)__builtin_ctz(ways);
            const uint16_t tag = tag_at(bucket, way);
            const uint32_t place = place_from_tag(from, at, tag);

            if (!put(to, home_of(to, place), tag, number_of(bucket, way)))
                return false;
        }
    }
    return true;
}

static void
prefetch_hashes(const struct bucket *bucket, const _Atomic uint64_t *seq)
{
    unsigned ways = (unsigned)(load(&bucket->rest) >> USED_SHIFT) & USED_MASK;

    for (; ways != 0; ways &= ways - 1)
        __builtin_prefetch(&seq[number_of(bucket, (unsigned)__builtin_ctz(ways))]);
}

/* The same by their hashes, into the half of each; they may be one. */
static bool
copy_by_hashes(const struct index_table_segment *from, struct index_table_segment *to[2],
               const struct index_table_context *context)
{
    enum { AHEAD = 4 };

    for (uint32_t at = 0; at < lines_of(from); at++) {
        const struct bucket *bucket = &from->lines[at];
        unsigned ways = (unsigned)(load(&bucket->rest) >> USED_SHIFT) & USED_MASK;

        if (at + AHEAD < lines_of(from))
            prefetch_hashes(&from->lines[at + AHEAD], context->seq);
        for (; ways != 0; ways &= ways - 1) {
            const uint32_t number = number_of(bucket, (unsigned)__builtin_ctz(ways));
            const uint64_t mixed = index_table_mix(context->seed, load(&context->seq[number]));
            struct index_table_segment *half = to[mixed << from->depth >> 63];
            const uint32_t place = place_of(half, mixed);

            if (!put(half, home_of(half, place), tag_of(place), number))
                return false;
        }
    }
    return true;
}

static void
retire_segment(const struct index_table_context *context, struct index_table_segment *segment)
{
    const size_t lines = segment_lines(segment->buckets);

    index_epoch_retire(context->epoch, segment->lines, lines, sizeof(struct bucket));
    index_epoch_retire(context->epoch, segment, 1, sizeof(*segment));
    /* It may be gone by now.  It is large: not kept longer than readers need it. */
    if (lines >= STEP)
        index_epoch_advance(context->epoch);
}

static void
give_segment(struct index_memory *memory, struct index_table_segment *segment)
{
    if (segment == NULL)
        return;
    index_memory_give(memory, segment->lines, segment_lines(segment->buckets),
                      sizeof(struct bucket));
    index_memory_give(memory, segment, 1, sizeof(*segment));
}

/* Point the directory's entries from `at` on, `count` of them, at a segment. */
static void
publish(struct index_table_directory *directory, size_t at, size_t count,
        struct index_table_segment *segment)
{
    for (size_t i = at; i < at + count; i++)
        atomic_store_explicit(&directory->segments[i], segment, memory_order_release);
}

/* While little memory is in use, tables grow in few large steps and not in many small ones: entries
 * are moved once, not seven times. */
static bool
is_plenty(const struct index_memory *memory)
{
    return memory->used < memory->max / PLENTY_SHARE;
}

/* Small ones double; then whole units are filled. */
static uint32_t
next_buckets(uint32_t buckets, bool plenty)
{
    if (buckets < STEP / 2)
        return buckets * 2;
    if (buckets == STEP / 2)
        return BUCKETS_LARGE;
    return plenty ? BUCKETS_MAX : buckets + STEP;
}

static bool
grow_segment(struct index_table_directory *directory, const struct index_table_context *context,
             uint64_t mixed, struct index_table_segment *segment)
{
    struct index_table_segment *grown =
        make_segment(context->memory, next_buckets(segment->buckets, is_plenty(context->memory)),
                     segment->depth);
    const size_t count = (size_t)1 << (directory->depth - segment->depth);
    bool fits;

    if (grown == NULL)
        return false;
    if (segment->buckets >= BUCKETS_TAGGED) {
        fits = copy_by_tags(segment, grown);
    } else {
        struct index_table_segment *to[2] = {grown, grown};

        fits = copy_by_hashes(segment, to, context);
    }
    if (!fits) {
        give_segment(context->memory, grown);
        return false;
    }
    publish(directory, directory_at(directory, mixed) & ~(count - 1), count, grown);
    retire_segment(context, segment);
    return true;
}

static struct index_table_directory *
make_directory(struct index_memory *memory, uint32_t depth)
{
    struct index_table_directory *directory =
        index_memory_take(memory, 1, sizeof(*directory) + (sizeof(void *) << depth));

    if (directory != NULL)
        directory->depth = depth;
    return directory;
}

/* Twice as many entries; NULL: no memory. */
static struct index_table_directory *
grow_directory(struct index_table *table, const struct index_table_context *context)
{
    struct index_table_directory *old = directory_of(table);
    struct index_table_directory *directory;

    if (old->depth == DEPTH_MAX)
        return NULL;
    directory = make_directory(context->memory, old->depth + 1);
    if (directory == NULL)
        return NULL;
    for (size_t i = 0; i < (size_t)1 << old->depth; i++)
        publish(directory, 2 * i, 2, atomic_load_explicit(&old->segments[i], memory_order_relaxed));
    atomic_store_explicit(&table->directory, directory, memory_order_release);
    index_epoch_retire(context->epoch, old, 1, sizeof(*old) + (sizeof(void *) << old->depth));
    return directory;
}

static bool
split_segment(struct index_table *table, const struct index_table_context *context, uint64_t mixed,
              struct index_table_segment *segment)
{
    struct index_table_directory *directory = directory_of(table);
    struct index_table_segment *halves[2] = {NULL, NULL};
    const uint32_t buckets = is_plenty(context->memory) ? BUCKETS_MAX : BUCKETS_SPLIT;
    size_t count;
    size_t at;

    if (directory->depth == segment->depth)
        directory = grow_directory(table, context);
    if (directory == NULL)
        return false;
    for (int i = 0; i < 2; i++) {
        halves[i] = make_segment(context->memory, buckets, segment->depth + 1);
        if (halves[i] == NULL)
            goto fail;
    }
    if (!copy_by_hashes(segment, halves, context))
        goto fail;
    count = (size_t)1 << (directory->depth - segment->depth);
    at = directory_at(directory, mixed) & ~(count - 1);
    publish(directory, at, count / 2, halves[0]);
    publish(directory, at + count / 2, count / 2, halves[1]);
    retire_segment(context, segment);
    return true;

fail:
    give_segment(context->memory, halves[0]);
    give_segment(context->memory, halves[1]);
    return false;
}

static bool
grow(struct index_table *table, const struct index_table_context *context, uint64_t mixed)
{
    struct index_table_directory *directory = directory_of(table);
    struct index_table_segment *segment;

    if (directory == NULL) {
        directory = make_directory(context->memory, 0);
        segment = directory == NULL ? NULL : make_segment(context->memory, 1, 0);
        if (segment == NULL) {
            index_memory_give(context->memory, directory, 1, sizeof(*directory) + sizeof(void *));
            return false;
        }
        publish(directory, 0, 1, segment);
        atomic_store_explicit(&table->directory, directory, memory_order_release);
        return true;
    }
    segment = segment_of(directory, mixed);
    if (segment->buckets < BUCKETS_MAX)
        return grow_segment(directory, context, mixed, segment);
    return split_segment(table, context, mixed, segment);
}

static inline bool
is_crowded(const struct index_table_segment *segment)
{
    return segment->used >= segment->crowded;
}

/* Enter what is not there. */
static uint32_t
add(struct index_table *table, const struct index_table_context *context, uint64_t mixed,
    uint32_t number)
{
    for (int tries = 0; tries < 3; tries++) {
        const struct index_table_directory *directory = directory_of(table);
        struct index_table_segment *segment;
        uint32_t place;
        bool grown = false;

        if (directory == NULL || is_crowded(segment_of(directory, mixed)))
            grown = grow(table, context, mixed);
        directory = directory_of(table);
        if (directory == NULL)
            return INDEX_TABLE_NONE;
        segment = segment_of(directory, mixed);
        place = place_of(segment, mixed);
        /* Without memory for a larger segment this one is filled further. */
        if (put(segment, home_of(segment, place), tag_of(place), number))
            return 0;
        if (!grown && !grow(table, context, mixed))
            return INDEX_TABLE_NONE;
    }
    return INDEX_TABLE_NONE;
}

/* The usual case: no such tag, nothing passed, and room.  False: it is another, and nothing was
 * changed. */
static inline bool
enter_at_home(struct index_table_segment *segment, uint64_t mixed, uint32_t number)
{
    const uint32_t place = place_of(segment, mixed);
    struct bucket *bucket = &segment->lines[home_of(segment, place)];
    const uint64_t rest = load(&bucket->rest);
    const unsigned free = (unsigned)(~(rest >> USED_SHIFT) & USED_MASK);
    unsigned way;

    if (rest >> PASSED_SHIFT != 0 || free == 0 || is_crowded(segment) ||
        ways_with(bucket, rest, tag_of(place)) != 0)
        return false;
    way = (unsigned)__builtin_ctz(free);
    atomic_store_explicit(&bucket->numbers[way], number, memory_order_relaxed);
    put_tag(bucket, rest, way, tag_of(place));
    segment->used++;
    return true;
}

uint32_t
index_table_enter_all(struct index_table *table, const struct index_table_context *context,
                      const uint64_t *hashes, const uint64_t *mixed, uint32_t first, uint32_t count,
                      uint32_t *stop)
{
    const struct index_table_directory *directory = directory_of(table);

    *stop = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (directory != NULL &&
            enter_at_home(segment_of(directory, mixed[i]), mixed[i], first + i))
            continue;
        *stop = index_table_enter(table, context, hashes[i], mixed[i], first + i);
        if (*stop != 0)
            return i;
        directory = directory_of(table); /* it may have grown */
    }
    return count;
}

uint32_t
index_table_enter(struct index_table *table, const struct index_table_context *context,
                  uint64_t hash, uint64_t mixed, uint32_t number)
{
    const struct index_table_directory *directory = directory_of(table);
    struct index_table_segment *segment;
    uint32_t place;
    uint32_t found;

    if (directory == NULL)
        return add(table, context, mixed, number);
    segment = segment_of(directory, mixed);
    if (enter_at_home(segment, mixed, number))
        return 0;
    place = place_of(segment, mixed);
    found = find_in(segment, place, context->seq, hash);
    if (found != 0)
        return found;
    if (!is_crowded(segment) && put(segment, home_of(segment, place), tag_of(place), number))
        return 0;
    return add(table, context, mixed, number);
}

/* Buckets that so many entries leave some room in: whole units. */
static uint32_t
buckets_for(uint64_t entries)
{
    const uint64_t wanted = entries * EXPECT_PARTS / (EXPECT_FULL * WAYS);

    for (uint32_t buckets = BUCKETS_LARGE; buckets < BUCKETS_MAX; buckets += STEP)
        if (buckets >= wanted)
            return buckets;
    return BUCKETS_MAX;
}

void
index_table_expect(struct index_table *table, const struct index_table_context *context,
                   uint64_t count)
{
    const uint64_t most = (uint64_t)BUCKETS_MAX * WAYS * EXPECT_FULL / EXPECT_PARTS;
    const struct index_memory *memory = context->memory;
    struct index_table_directory *directory;
    uint32_t depth = 0;
    size_t made = 0;
    uint64_t bytes;

    while (depth < DEPTH_MAX && count >> depth > most)
        depth++;
    bytes = segment_lines(buckets_for(count >> depth)) * sizeof(struct bucket) << depth;
    if (directory_of(table) != NULL || count < BUCKETS_LARGE || memory->used > memory->max ||
        bytes > (memory->max - memory->used) / EXPECT_SHARE)
        return;
    directory = make_directory(context->memory, depth);
    if (directory == NULL)
        return;
    for (; made < (size_t)1 << depth; made++) {
        struct index_table_segment *segment =
            make_segment(context->memory, buckets_for(count >> depth), depth);

        if (segment == NULL)
            goto fail;
        publish(directory, made, 1, segment);
    }
    atomic_store_explicit(&table->directory, directory, memory_order_release);
    return;

fail:
    while (made-- > 0)
        give_segment(context->memory,
                     atomic_load_explicit(&directory->segments[made], memory_order_relaxed));
    index_memory_give(context->memory, directory, 1,
                      sizeof(*directory) + (sizeof(void *) << depth));
}

void
index_table_remove(struct index_table *table, uint64_t mixed, uint32_t number)
{
    struct index_table_segment *segment = segment_of(directory_of(table), mixed);
    const uint32_t place = place_of(segment, mixed);
    struct bucket *const first = &segment->lines[home_of(segment, place)];

    for (struct bucket *bucket = first; bucket <= first + segment->passes; bucket++) {
        const uint64_t rest = load(&bucket->rest);

        for (unsigned ways = ways_with(bucket, rest, tag_of(place)); ways != 0; ways &= ways - 1) {
            const unsigned way = (unsigned)__builtin_ctz(ways);

            if (number_of(bucket, way) != number)
                continue;
            atomic_store_explicit(&bucket->rest, rest & ~(UINT64_C(1) << (USED_SHIFT + way)),
                                  memory_order_release);
            for (struct bucket *passed = first; passed < bucket; passed++)
                atomic_store_explicit(&passed->rest, load(&passed->rest) - PASSED_ONE,
                                      memory_order_release);
            segment->used--;
            return;
        }
    }
    assert(false); /* an entry that was made is there */
}

bool
index_table_is_empty(const struct index_table *table)
{
    const struct index_table_directory *directory = directory_of(table);

    for (size_t i = 0; directory != NULL && i < (size_t)1 << directory->depth; i++)
        if (atomic_load_explicit(&directory->segments[i], memory_order_acquire)->used != 0)
            return false;
    return true;
}

void
index_table_release(struct index_table *table, struct index_memory *memory)
{
    struct index_table_directory *directory = directory_of(table);
    struct index_table_segment *last = NULL;

    if (directory == NULL)
        return;
    for (size_t i = 0; i < (size_t)1 << directory->depth; i++) {
        struct index_table_segment *segment =
            atomic_load_explicit(&directory->segments[i], memory_order_relaxed);

        if (segment != last)
            give_segment(memory, segment);
        last = segment;
    }
    index_memory_give(memory, directory, 1,
                      sizeof(*directory) + (sizeof(void *) << directory->depth));
    atomic_store_explicit(&table->directory, NULL, memory_order_relaxed);
}
