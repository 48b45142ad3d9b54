#include "tests/unit/advisor/support/log_model.h"

#include <string.h>

#include "base/core/random.h"

#include "tests/support/seed.h"

/* Odd times odd: no two blocks have the same hash, and none has 0. */
static const uint64_t MIX = UINT64_C(0x9e3779b97f4a7c15);

uint64_t
log_model_hash(uint32_t block)
{
    return ((uint64_t)block + 1) * MIX;
}

/* Each chain but the first hangs on a block of the first; a third of them does not say on which. */
uint64_t
log_model_parent(uint32_t block)
{
    const uint32_t chain = block / LOG_MODEL_LENGTH;

    if (block % LOG_MODEL_LENGTH != 0)
        return log_model_hash(block - 1);
    return chain % 3 == 0 ? 0 : log_model_hash(chain * 7);
}

uint32_t
log_model_position(uint32_t block)
{
    const uint32_t chain = block / LOG_MODEL_LENGTH;

    return block % LOG_MODEL_LENGTH + (chain == 0 ? 0 : chain * 7 + 1);
}

/* Every other chain has none. */
uint64_t
log_model_tokens(uint32_t block)
{
    return block / LOG_MODEL_LENGTH % 2 == 0 ? 0 : ~log_model_hash(block);
}

static void
fill(struct log_step *step, uint32_t first, uint32_t count, bool tokens)
{
    step->first = first;
    step->op.parent = log_model_parent(first);
    step->op.position = log_model_position(first);
    step->op.count = count;
    step->op.hashes = step->hashes;
    step->op.tokens = tokens ? step->tokens : NULL;
    for (uint32_t i = 0; i < count; i++) {
        step->hashes[i] = log_model_hash(first + i);
        step->tokens[i] = log_model_tokens(first + i);
    }
}

static struct advisor_event_log_place
random_place(uint64_t *random)
{
    return (struct advisor_event_log_place){
        .size = UINT64_C(4096) << kvt_random_below(random, 3),
        .holder = (uint32_t)kvt_random_below(random, LOG_MODEL_HOLDERS),
        .ns = (uint32_t)kvt_random_below(random, LOG_MODEL_NAMESPACES),
        .ranks = 1u << kvt_random_below(random, 2),
        .time_s = (uint32_t)kvt_random_below(random, 2),
    };
}

/* A piece of a chain: often short, sometimes all of it, at most `max`. */
static void
fill_some(struct log_step *step, uint64_t *random, uint32_t max)
{
    const uint32_t first = (uint32_t)kvt_random_below(random, LOG_MODEL_BLOCKS);
    uint32_t room = LOG_MODEL_LENGTH - first % LOG_MODEL_LENGTH;

    if (room > max)
        room = max;
    if (room > 4 && kvt_random_below(random, 2) == 0)
        room = 4;
    fill(step, first, 1 + (uint32_t)kvt_random_below(random, room),
         kvt_random_below(random, 4) != 0);
}

/* The block behind the last one, at the same place, as events of one block each say it. */
static bool
go_on(struct log_step *step)
{
    const uint32_t next = step->first + step->op.count;

    if (step->call != ADVISOR_EVENT_LOG_STORE || next % LOG_MODEL_LENGTH == 0)
        return false;
    fill(step, next, 1, true);
    return true;
}

static void
next_hold(struct log_step *step, uint64_t *random)
{
    const uint32_t from = (uint32_t)kvt_random_below(random, step->run_count);

    fill(step, step->run_first + from,
         1 + (uint32_t)kvt_random_below(random, step->run_count - from), step->run_tokens);
    step->op.kind = ADVISOR_EVENT_LOG_STORE;
    step->op.place.size = step->run_place.size;
    step->op.place.ns = step->run_place.ns;
    step->op.place.time_s = step->run_place.time_s;
}

static void
next_run(struct log_step *step, uint64_t *random)
{
    fill_some(step, random, ADVISOR_EVENT_LOG_BLOCKS_MAX);
    step->op.place.holder = 0;
    step->op.place.ranks = 0;
    step->run_first = step->first;
    step->run_count = step->op.count;
    step->run_tokens = step->op.tokens != NULL;
    step->run_place = step->op.place;
}

void
log_step_next(struct log_step *step, uint64_t *random, bool runs)
{
    const uint64_t kind = kvt_random_below(random, runs ? 20 : 10);

    if (kvt_random_below(random, 2) == 0 && go_on(step))
        return;
    step->op = (struct advisor_event_log_op){.place = random_place(random)};
    if (kind < 6)
        step->call = ADVISOR_EVENT_LOG_STORE;
    else if (kind < 9)
        step->call = ADVISOR_EVENT_LOG_REMOVE;
    else if (kind < 10)
        step->call = ADVISOR_EVENT_LOG_DROP;
    else if (kind < 13 || step->run_count == 0)
        step->call = ADVISOR_EVENT_LOG_RUN;
    else
        step->call = ADVISOR_EVENT_LOG_HOLD;
    step->op.kind = step->call;
    switch (step->call) {
    case ADVISOR_EVENT_LOG_STORE: fill_some(step, random, LOG_MODEL_LENGTH); break;
    case ADVISOR_EVENT_LOG_REMOVE:
        fill_some(step, random, LOG_MODEL_LENGTH);
        step->op.parent = 0;
        step->op.position = 0;
        step->op.tokens = NULL;
        step->op.place.size = 0;
        break;
    case ADVISOR_EVENT_LOG_DROP:
        step->op.place = (struct advisor_event_log_place){.holder = step->op.place.holder,
                                                          .ns = step->op.place.ns};
        break;
    case ADVISOR_EVENT_LOG_RUN: next_run(step, random); break;
    case ADVISOR_EVENT_LOG_HOLD: next_hold(step, random); break;
    }
}

enum kvt_err
log_step_put(const struct log_step *step, struct advisor_event_log *log)
{
    const struct advisor_event_log_op *op = &step->op;

    switch (step->call) {
    case ADVISOR_EVENT_LOG_STORE:
        return advisor_event_log_store(log, &op->place, op->parent, op->position, op->hashes,
                                       op->tokens, op->count);
    case ADVISOR_EVENT_LOG_REMOVE:
        return advisor_event_log_remove(log, &op->place, op->hashes, op->count);
    case ADVISOR_EVENT_LOG_DROP: return advisor_event_log_drop(log, op->place.holder, op->place.ns);
    case ADVISOR_EVENT_LOG_RUN:
        return advisor_event_log_run(log, &op->place, op->parent, op->position, op->hashes,
                                     op->tokens, op->count);
    case ADVISOR_EVENT_LOG_HOLD:
        return advisor_event_log_hold(log, op->place.holder, op->place.ranks,
                                      step->first - step->run_first, op->count);
    }
    return KVT_INVALID;
}

static uint32_t
block_of(uint64_t hash)
{
    for (uint32_t i = 0; i < LOG_MODEL_BLOCKS; i++)
        if (log_model_hash(i) == hash)
            return i;
    fail_msg("a hash that nobody stored");
    return 0;
}

void
log_set_apply(struct log_set *set, const struct advisor_event_log_op *op)
{
    const uint32_t holder = op->place.holder;
    const uint32_t ns = op->place.ns;

    assert_true(holder < LOG_MODEL_HOLDERS && ns < LOG_MODEL_NAMESPACES);
    if (op->kind == ADVISOR_EVENT_LOG_DROP)
        for (uint32_t i = 0; i < LOG_MODEL_BLOCKS; i++)
            set->ranks[ns][i][holder] = 0;
    for (uint32_t i = 0; i < op->count; i++) {
        uint32_t *ranks = &set->ranks[ns][block_of(op->hashes[i])][holder];

        if (op->kind == ADVISOR_EVENT_LOG_STORE)
            *ranks |= op->place.ranks;
        if (op->kind == ADVISOR_EVENT_LOG_REMOVE)
            *ranks &= ~op->place.ranks;
    }
}

void
log_set_apply_log(struct log_set *set, const struct advisor_event_log *log)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    const void *row;
    size_t size;

    for (size_t at = 0; advisor_event_log_row(log, at, &row, &size); at++) {
        assert_int_equal(advisor_event_log_open(&reader, row, size), KVT_OK);
        while (advisor_event_log_next(&reader, &op) == KVT_OK)
            log_set_apply(set, &op);
    }
}
