/*
 * index/answer/find_result.h -- how far each holder has followed a question.
 *
 * Why: thousands of holders follow a question through a few runs.  They go as a set, which one run
 * after another narrows; who leaves is noted once, with the depth it reached.
 *
 * A set is a bitmap with a summary above it: a word counts only where its summary bit is set, so
 * that three holders among 65,536 cost three words.
 *
 * Ownership: whoever asks; kept from question to question, it grows rarely.
 * Threads:   one at a time.
 * Limits:    INDEX_HOLDERS_MAX holders.
 */
#ifndef INDEX_ANSWER_FIND_RESULT_H
#define INDEX_ANSWER_FIND_RESULT_H

#include "index/holder/holder_list.h"
#include "index/holder/run_holders.h"

struct index_find_result_set {
    uint64_t summary[INDEX_HOLDER_SET_WORDS_MAX / 64];
    uint64_t words[INDEX_HOLDER_SET_WORDS_MAX];
};

struct index_find_result {
    uint32_t depth;    /* blocks that the set has followed */
    uint32_t length;   /* of the longest prefix */
    uint32_t upper;    /* words of `summary` that may be in use */
    uint32_t followed; /* which of `sets` */
    uint32_t left_count;
    uint32_t left_tried; /* with those of a run that is being read */
    uint32_t left_capacity;
    uint32_t step_count;
    uint32_t step_capacity;
    bool mixed;       /* those who leave the run that is being read are in no order */
    uint64_t *left;   /* ~depth << 32 | holder: in the order of numbers, in each step, best first */
    uint64_t *sorted; /* as many; scratch */
    uint32_t *steps;  /* the first of `left` of each run, the deepest last */
    uint64_t
        rest[INDEX_HOLDER_SET_WORDS_MAX]; /* followers not met yet, where the old summary says so */
    struct index_find_result_set sets[2];
};

static inline uint64_t
index_find_result_word(const struct index_find_result_set *set, uint32_t at)
{
    return (set->summary[at / 64] >> at % 64 & 1) != 0 ? set->words[at] : 0;
}

/** How many are in the set. */
size_t index_find_result_members(const struct index_find_result *found,
                                 const struct index_find_result_set *set);

/** Room for one more step, and for `more` that leave; false: no memory. */
bool index_find_result_reserve(struct index_find_result *found, size_t more);

/** A new question. */
void index_find_result_begin(struct index_find_result *found);

/**
 * Those who have block `from` of a run go on; up to block `to`, or they leave where they end.
 * `depth` blocks were before.  The holders may be changing: nothing is changed for good before
 * index_find_result_accept(), and this may be called again instead.
 *
 * @return KVT_OK or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err index_find_result_narrow(struct index_find_result *found,
                                                    const struct index_run_holders *holders,
                                                    uint32_t from, uint32_t to, uint32_t depth);
/** What was narrowed last holds; `depth` blocks were followed with it. */
void index_find_result_accept(struct index_find_result *found, uint32_t depth);

/** How many are still there: 0, 1, or 2 for more. */
unsigned index_find_result_followers(const struct index_find_result *found);

#endif /* INDEX_ANSWER_FIND_RESULT_H */
