#include "advisor/index/evicted_filter.h"

#include <assert.h>
#include <pthread.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

enum {
    BITS_MIN = 10,
    BITS_MAX = 31,
    PRINT_BITS = 32,
};

/* Linear probing: a print lies at its home, or behind it with nothing free between; 0: free. */
struct advisor_evicted_filter {
    pthread_rwlock_t lock; /* readers beside the one thread that changes all below */
    uint32_t *slots;       /* NULL: nothing was ever added */
    uint64_t seed[2];
    uint64_t count; /* in `slots` */
    uint64_t bytes_max;
    unsigned bits;
    bool blind; /* something that was added is not in `slots` */
};

enum kvt_err
advisor_evicted_filter_new(struct advisor_evicted_filter **out, uint64_t bytes_max)
{
    struct advisor_evicted_filter *filter = kvt_calloc(1, sizeof(*filter));

    *out = NULL;
    if (filter == NULL)
        return KVT_NOMEM;
    if (pthread_rwlock_init(&filter->lock, NULL) != 0) {
        kvt_free(filter);
        return KVT_NOMEM;
    }
    filter->bytes_max = bytes_max;
    kvt_random_system(filter->seed, sizeof(filter->seed));
    filter->seed[1] |= 1;
    *out = filter;
    return KVT_OK;
}

void
advisor_evicted_filter_free(struct advisor_evicted_filter *filter)
{
    if (filter == NULL)
        return;
    (void)pthread_rwlock_destroy(&filter->lock);
    kvt_free(filter->slots);
    kvt_free(filter);
}

uint32_t
advisor_evicted_filter_print(const struct advisor_evicted_filter *filter, uint32_t ns,
                             uint64_t hash)
{
    uint64_t state = hash ^ filter->seed[0] ^ (uint64_t)ns * filter->seed[1];
    const uint32_t print = (uint32_t)(kvt_random_next(&state) >> PRINT_BITS);

    return print == 0 ? 1 : print;
}

static uint64_t
capacity_of(unsigned bits)
{
    return bits == 0 ? 0 : UINT64_C(1) << bits;
}

static uint64_t
home_of(uint32_t print, unsigned bits)
{
    return print >> (PRINT_BITS - bits);
}

static void
enter(uint32_t *slots, unsigned bits, uint32_t print)
{
    const uint64_t mask = capacity_of(bits) - 1;
    uint64_t at = home_of(print, bits);

    while (slots[at] != 0)
        at = (at + 1) & mask;
    slots[at] = print;
}

/* Twice the slots, made beside those that are read.  Without memory, or beyond the bound, it fills
 * up further. */
static void
grow(struct advisor_evicted_filter *filter)
{
    const unsigned bits = filter->bits == 0 ? BITS_MIN : filter->bits + 1;
    uint32_t *former = filter->slots;
    uint32_t *slots;

    if (bits > BITS_MAX || capacity_of(bits) * sizeof(*slots) > filter->bytes_max)
        return;
    slots = kvt_calloc(capacity_of(bits), sizeof(*slots));
    if (slots == NULL)
        return;
    for (uint64_t i = 0; i < capacity_of(filter->bits); i++)
        if (former[i] != 0)
            enter(slots, bits, former[i]);
    (void)pthread_rwlock_wrlock(&filter->lock);
    filter->slots = slots;
    filter->bits = bits;
    (void)pthread_rwlock_unlock(&filter->lock);
    kvt_free(former);
}

void
advisor_evicted_filter_add(struct advisor_evicted_filter *filter, const uint32_t *prints,
                           size_t count)
{
    while ((filter->count + count) * 4 > capacity_of(filter->bits) * 3) {
        const unsigned bits = filter->bits;

        grow(filter);
        if (filter->bits == bits)
            break;
    }
    (void)pthread_rwlock_wrlock(&filter->lock);
    for (size_t i = 0; i < count && !filter->blind; i++) {
        if ((filter->count + 1) * 8 > capacity_of(filter->bits) * 7) {
            filter->blind = true;
            break;
        }
        enter(filter->slots, filter->bits, prints[i]);
        filter->count++;
    }
    (void)pthread_rwlock_unlock(&filter->lock);
}

/* What lies behind the free slot moves up to it, unless that would be in front of its home. */
static void
close_gap(struct advisor_evicted_filter *filter, uint64_t gap)
{
    const uint64_t mask = capacity_of(filter->bits) - 1;

    for (uint64_t at = (gap + 1) & mask; filter->slots[at] != 0; at = (at + 1) & mask) {
        const uint64_t home = home_of(filter->slots[at], filter->bits);

        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        filter->slots[gap] = filter->slots[at];
        gap = at;
    }
    filter->slots[gap] = 0;
}

static void
leave(struct advisor_evicted_filter *filter, uint32_t print)
{
    const uint64_t mask = capacity_of(filter->bits) - 1;
    uint64_t at = home_of(print, filter->bits);

    while (filter->slots[at] != print) {
        assert(filter->slots[at] != 0);
        at = (at + 1) & mask;
    }
    close_gap(filter, at);
    filter->count--;
}

void
advisor_evicted_filter_remove(struct advisor_evicted_filter *filter, const uint32_t *prints,
                              size_t count)
{
    (void)pthread_rwlock_wrlock(&filter->lock);
    /* What a blind one has nobody knows. */
    for (size_t i = 0; i < count && !filter->blind; i++)
        leave(filter, prints[i]);
    (void)pthread_rwlock_unlock(&filter->lock);
}

static bool
has(const struct advisor_evicted_filter *filter, uint32_t print)
{
    const uint64_t mask = capacity_of(filter->bits) - 1;

    if (filter->slots == NULL)
        return false;
    for (uint64_t at = home_of(print, filter->bits); filter->slots[at] != 0; at = (at + 1) & mask)
        if (filter->slots[at] == print)
            return true;
    return false;
}

bool
advisor_evicted_filter_has(struct advisor_evicted_filter *filter, uint32_t ns,
                           const uint64_t *hashes, size_t count, bool *may)
{
    bool any = false;

    (void)pthread_rwlock_rdlock(&filter->lock);
    for (size_t i = 0; i < count; i++) {
        may[i] = filter->blind || has(filter, advisor_evicted_filter_print(filter, ns, hashes[i]));
        any = any || may[i];
    }
    (void)pthread_rwlock_unlock(&filter->lock);
    return any;
}

bool
advisor_evicted_filter_blind(struct advisor_evicted_filter *filter)
{
    bool blind;

    (void)pthread_rwlock_rdlock(&filter->lock);
    blind = filter->blind;
    (void)pthread_rwlock_unlock(&filter->lock);
    return blind;
}
