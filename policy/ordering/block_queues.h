/*
 * policy/ordering/block_queues.h -- several queues over one set of block numbers.
 *
 * Why: most orderings are queues that a block moves between in constant time.  A number is in one
 * queue or in none, so two links and a byte a block are enough for all queues of an ordering.
 *
 * Ownership: policy_block_queues_release() frees the arrays; the structure is the caller's.
 * Threads:   none; one owner.
 * Limits:    POLICY_BLOCK_QUEUES_MAX queues.
 */
#ifndef POLICY_ORDERING_BLOCK_QUEUES_H
#define POLICY_ORDERING_BLOCK_QUEUES_H

#include <stdint.h>

#include "kvtier/error.h"

#define POLICY_BLOCK_QUEUES_MAX 32
#define POLICY_NONE             UINT32_MAX /* no block */

enum { POLICY_BLOCK_QUEUE_NONE = 0xff }; /* of a block that is in no queue */

struct policy_link {
    uint32_t older;
    uint32_t newer;
};

struct policy_block_queue {
    uint32_t oldest;
    uint32_t newest;
    uint32_t count;
};

struct policy_block_queues {
    struct policy_link *links;
    uint8_t *queue_of;
    uint32_t count; /* numbers there is room for */
    struct policy_block_queue queues[POLICY_BLOCK_QUEUES_MAX];
};

void policy_block_queues_init(struct policy_block_queues *queues);
void policy_block_queues_release(struct policy_block_queues *queues);

/** Room for numbers below `count`.  KVT_OK, or KVT_NOMEM with everything as it was. */
KVT_NODISCARD enum kvt_err policy_block_queues_reserve(struct policy_block_queues *queues,
                                                       uint32_t count);

/** The block is in no queue before, and the newest (oldest) of `queue` after. */
void policy_block_queues_add(struct policy_block_queues *queues, uint32_t queue, uint32_t block);
void policy_block_queues_add_oldest(struct policy_block_queues *queues, uint32_t queue,
                                    uint32_t block);

/** Out of the queue it is in; it must be in one. */
void policy_block_queues_remove(struct policy_block_queues *queues, uint32_t block);

/** Bytes for each number. */
#define POLICY_BLOCK_QUEUES_BLOCK_BYTES (sizeof(struct policy_link) + 1)

#endif /* POLICY_ORDERING_BLOCK_QUEUES_H */
