#include "index/memory/epoch.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { ADVANCE_EVERY = 64 }; /* retired pieces between two looks at the readers */

_Static_assert((INDEX_EPOCH_RETIRED_MAX & (INDEX_EPOCH_RETIRED_MAX - 1)) == 0, "a ring");

void
index_epoch_init(struct index_epoch *epoch, struct index_memory *memory)
{
    assert(epoch != NULL && memory != NULL);
    memset(epoch, 0, sizeof(*epoch));
    epoch->memory = memory;
    atomic_store(&epoch->now, 1);
}

/* Free the oldest piece. */
static void
free_first(struct index_epoch *epoch)
{
    struct index_epoch_retired *first = &epoch->retired[epoch->retired_head];

    index_memory_give(epoch->memory, first->what, 1, first->bytes);
    epoch->retired_head = (epoch->retired_head + 1) % INDEX_EPOCH_RETIRED_MAX;
    epoch->retired_count--;
}

void
index_epoch_release(struct index_epoch *epoch)
{
    while (epoch->retired_count > 0)
        free_first(epoch);
}

/* A thread begins at a slot of its own, so that readers do not meet on one cache line. */
static unsigned
first_slot(void)
{
    const uint64_t self = (uint64_t)(uintptr_t)pthread_self();

    return (unsigned)(self * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

/*
 * The slot must be seen by the writer before anything is read.  On x86 an exchange is a full
 * barrier; elsewhere it takes a fence, which ThreadSanitizer does not know (and gcc warns about).
 */
static inline void
publish_fence(void)
{
#if defined(__x86_64__) || defined(__SANITIZE_THREAD__)
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

unsigned
index_epoch_enter(struct index_epoch *epoch)
{
    const unsigned first = first_slot();

    for (unsigned tries = 0;; tries++) {
        const unsigned slot = (first + tries) % INDEX_EPOCH_READERS_MAX;
        /* An epoch that has passed meanwhile only keeps memory a little longer. */
        const uint64_t now = atomic_load_explicit(&epoch->now, memory_order_acquire);
        uint64_t free_slot = 0;

        if (atomic_compare_exchange_strong(&epoch->slots[slot].epoch, &free_slot, now)) {
            publish_fence();
            return slot;
        }
        if (tries % INDEX_EPOCH_READERS_MAX == INDEX_EPOCH_READERS_MAX - 1)
            (void)sched_yield();
    }
}

void
index_epoch_leave(struct index_epoch *epoch, unsigned slot)
{
    atomic_store_explicit(&epoch->slots[slot].epoch, 0, memory_order_release);
}

/* Memory retired before the epoch that is returned is seen by nobody. */
static uint64_t
oldest_reader(struct index_epoch *epoch)
{
    /* What is retired was taken out of sight before this, and readers that come after this see
     * the new epoch: the addition orders one before the other. */
    uint64_t oldest = atomic_fetch_add(&epoch->now, 1) + 1;

    for (unsigned i = 0; i < INDEX_EPOCH_READERS_MAX; i++) {
        const uint64_t reader = atomic_load(&epoch->slots[i].epoch);

        if (reader != 0 && reader < oldest)
            oldest = reader;
    }
    return oldest;
}

void
index_epoch_advance(struct index_epoch *epoch)
{
    uint64_t oldest;

    if (epoch->retired_count == 0)
        return;
    oldest = oldest_reader(epoch);
    while (epoch->retired_count > 0 && epoch->retired[epoch->retired_head].epoch < oldest)
        free_first(epoch);
}

void
index_epoch_retire(struct index_epoch *epoch, void *what, size_t count, size_t size)
{
    uint32_t at;

    if (what == NULL)
        return;
    while (epoch->retired_count == INDEX_EPOCH_RETIRED_MAX) {
        index_epoch_advance(epoch);
        if (epoch->retired_count == INDEX_EPOCH_RETIRED_MAX)
            (void)sched_yield();
    }
    at = (epoch->retired_head + epoch->retired_count) % INDEX_EPOCH_RETIRED_MAX;
    epoch->retired[at] = (struct index_epoch_retired){
        .what = what,
        .bytes = (uint64_t)count * size,
        .epoch = atomic_load_explicit(&epoch->now, memory_order_relaxed),
    };
    epoch->retired_count++;
    if (epoch->retired_count % ADVANCE_EVERY == 0)
        index_epoch_advance(epoch);
}
