/*
 * policy/decide/tier_blocks_private.h -- what the files roster*.c share.
 *
 * Why: who is there, and what the ordering hears of it, are a page each.
 * Ownership: as policy/decide/tier_blocks.h.
 * Limits:    as policy/decide/tier_blocks.h.
 */
#ifndef POLICY_DECIDE_TIER_BLOCKS_PRIVATE_H
#define POLICY_DECIDE_TIER_BLOCKS_PRIVATE_H

#include "policy/decide/promotion.h"
#include "policy/decide/tier_blocks.h"
#include "policy/ordering/block_queues.h"

#define POLICY_TOLD_MAX 65536 /* before it is passed on, whoever asks */

/* Queues of seats; one in the tier is in none, unless it was set aside. */
enum { POLICY_TIER_BLOCKS_COLD, POLICY_TIER_BLOCKS_FREE, POLICY_TIER_BLOCKS_PASSED };

enum policy_tier_blocks_flag {
    POLICY_TIER_BLOCKS_KNOWN = 1 << 0, /* the ordering heard of it */
    POLICY_TIER_BLOCKS_IN = 1 << 1,    /* in the tier, as far as the ordering knows */
    POLICY_TIER_BLOCKS_TAKEN = 1 << 2, /* as a victim */
    POLICY_TIER_BLOCKS_CLAIMED = 1
                                 << 3, /* taken out by name, which the ordering does not know yet */
    POLICY_TIER_BLOCKS_IMPLIED = 1 << 4, /* its last use is only known from what comes behind it */
    POLICY_TIER_BLOCKS_ENDED = 1 << 5, /* the ordering heard that its last request ended with it */
};

/* One block's number in the ordering is its seat's. */
struct policy_seat {
    struct policy_block block; /* `ranks` 0: cold */
    uint32_t uses;
    uint32_t stamp; /* tick of the last use */
    uint32_t next;  /* in its bucket */
    uint16_t inner; /* tick of the last use of what comes behind it; what comes around again after
                       65536 ticks hides an end in one of a thousand, which does no harm */
    uint8_t flags;
};

struct policy_told {
    uint64_t tick;
    uint32_t seat;
    uint32_t position; /* of its block */
    uint32_t number;   /* in the order of telling */
    uint32_t uses;     /* so far; 0: it only came or went */
    uint32_t ranks;    /* behind it */
    bool again;        /* the use before it goes on */
    bool loose;        /* what comes before it was not known yet */
};

struct policy_tier_blocks {
    const struct kvt_ordering *ordering;
    void *state;
    uint64_t bytes_max;
    uint32_t request_ticks;
    struct policy_seat *seats;
    uint32_t *buckets;
    uint32_t seats_max;
    uint32_t bucket_count; /* a power of two, at least seats_max */
    uint32_t known;
    uint32_t in_tier; /* with shards, whatever the ordering knows by now */
    uint32_t taken;
    bool restoring;
    uint64_t newest;                   /* tick that was told */
    uint64_t now;                      /* tick that was passed on */
    struct policy_block_queues queues; /* of cold seats, the longest cold first; of others */
    struct kvt_ordering_prices prices;
    struct policy_promotion_price price; /* of a place in the tier */
    struct policy_told *told;
    size_t told_count;
    size_t told_capacity;
};

/** What is next in the order that the ordering wants. */
void policy_tier_blocks_pass_on(struct policy_tier_blocks *roster, const struct policy_told *told,
                                uint32_t flags);

/** POLICY_NONE when there is none. */
uint32_t policy_tier_blocks_find(const struct policy_tier_blocks *roster, uint32_t ns,
                                 uint64_t hash);

#endif /* POLICY_DECIDE_TIER_BLOCKS_PRIVATE_H */
