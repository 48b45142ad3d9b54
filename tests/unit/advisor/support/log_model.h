/*
 * tests/unit/advisor/support/log_model.h -- random changes for a log, and what they come to, told
 * naively.
 *
 * Why: the log, its tables and its readers are held against the same model.  Blocks are those of a
 * small forest, so that a hash always has the same parent and position.
 * Threads:   one.
 * Limits:    the numbers below.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_LOG_MODEL_H
#define TESTS_UNIT_ADVISOR_SUPPORT_LOG_MODEL_H

#include "advisor/store/event_log.h"

enum {
    LOG_MODEL_CHAINS = 6,
    LOG_MODEL_LENGTH = 300, /* of a chain; more than an operation takes */
    LOG_MODEL_BLOCKS = LOG_MODEL_CHAINS * LOG_MODEL_LENGTH,
    LOG_MODEL_HOLDERS = 5,
    LOG_MODEL_NAMESPACES = 2,
};

uint64_t log_model_hash(uint32_t block);
uint64_t log_model_parent(uint32_t block);
uint32_t log_model_position(uint32_t block);
uint64_t log_model_tokens(uint32_t block);

/* One call of the log's writer, with what its reader must say of it. */
struct log_step {
    struct advisor_event_log_op op;   /* HOLD is a STORE here */
    enum advisor_event_log_kind call; /* 0: none yet */
    uint32_t first;                   /* block, of all but DROP */
    uint32_t run_first;               /* of the last RUN */
    uint32_t run_count;               /* 0: there was none */
    struct advisor_event_log_place run_place;
    bool run_tokens;
    uint64_t hashes[LOG_MODEL_LENGTH];
    uint64_t tokens[LOG_MODEL_LENGTH];
};

/** The next step, often one that goes on where `step` ended.  Begin with all 0.  `runs`: RUN and
 *  HOLD too. */
void log_step_next(struct log_step *step, uint64_t *random, bool runs);
enum kvt_err log_step_put(const struct log_step *step, struct advisor_event_log *log);

/* Who has which shards of what. */
struct log_set {
    uint32_t ranks[LOG_MODEL_NAMESPACES][LOG_MODEL_BLOCKS][LOG_MODEL_HOLDERS];
};

void log_set_apply(struct log_set *set, const struct advisor_event_log_op *op);
/** All operations of all rows, which must be good. */
void log_set_apply_log(struct log_set *set, const struct advisor_event_log *log);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_LOG_MODEL_H */
