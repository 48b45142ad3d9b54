#include "advisor/index/index_load_private.h"
#include "base/core/alloc.h"

enum {
    LOOK_ROWS = 16,  /* together, then */
    SKIP_ROWS = 240, /* so many are passed over */

    EXPECT_BYTES = 10,            /* of the index's tables, for a block that is expected, */
    EXPECT_BYTES_LEAST = 1 << 16, /* and for a namespace */
    EXPECT_SHARE = 8, /* no more than this part of the index: a guess that is twice what there is
                        * must cost less than the evictor keeps free */
};

/* What the rows that were looked at have of a namespace. */
struct guess {
    uint64_t blocks;  /* of runs */
    uint64_t pairs;   /* of holds */
    uint64_t stored;  /* by the journal */
    uint64_t removed; /* */
};

struct look {
    const struct advisor_ram_index *memory;
    struct guess *guesses; /* by namespace */
    uint64_t run;          /* first hash of the last run: one with many holders comes again */
    uint64_t rows[2];      /* of the snapshot, of the journal */
    bool in_journal;
};

static void
look_at(struct look *look, const struct advisor_event_log_op *op)
{
    struct guess *guess;

    if (op->place.ns >= advisor_name_table_namespace_count(look->memory->names))
        return;
    guess = &look->guesses[op->place.ns];
    if (op->kind == ADVISOR_EVENT_LOG_RUN && op->hashes[0] != look->run) {
        look->run = op->hashes[0];
        guess->blocks += op->count;
    }
    if (op->kind == ADVISOR_EVENT_LOG_STORE)
        *(look->in_journal ? &guess->stored : &guess->pairs) += op->count;
    if (op->kind == ADVISOR_EVENT_LOG_REMOVE)
        guess->removed += op->count;
}

static enum kvt_err
look_at_row(void *arg, const void *row, size_t size)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    struct look *look = arg;
    enum kvt_err rc = advisor_event_log_open(&reader, row, size);

    while (rc == KVT_OK) {
        rc = advisor_event_log_next(&reader, &op);
        if (rc == KVT_OK)
            look_at(look, &op);
    }
    look->rows[look->in_journal]++;
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* Some rows of both parts. */
static enum kvt_err
look_around(struct look *look, const struct advisor_txn *txn, const struct advisor_store_log *state)
{
    struct advisor_store_log_cursor cursor = {0};
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && !cursor.done) {
        rc = advisor_store_log_rows(txn, &cursor, LOOK_ROWS, look_at_row, look, NULL);
        if (rc == KVT_OK && !cursor.done && cursor.in_journal == look->in_journal) {
            const uint64_t end = cursor.in_journal ? state->next : state->runs_rows;

            cursor.row = end - cursor.row > SKIP_ROWS ? cursor.row + SKIP_ROWS : end - 1;
        }
        look->in_journal = cursor.in_journal;
    }
    return rc;
}

/* `part` of what was looked at, in all rows. */
static uint64_t
in_all(uint64_t part, uint64_t rows, uint64_t looked)
{
    return looked == 0 ? 0 : (uint64_t)((double)part * (double)rows / (double)looked);
}

/* Blocks of the snapshot, and of what the journal adds the same part: others may hold the rest. The
 * journal may also repeat itself, so it counts for no more than there is. */
static uint64_t
blocks_of(const struct look *look, const struct guess *guess, const struct advisor_store_log *state)
{
    const uint64_t blocks = in_all(guess->blocks, state->runs_rows, look->rows[0]);
    const uint64_t net = guess->stored > guess->removed ? guess->stored - guess->removed : 0;
    uint64_t more = in_all(net, state->next - state->from, look->rows[1]);

    if (guess->pairs > guess->blocks)
        more = in_all(more, guess->blocks, guess->pairs);
    return blocks + (more < blocks ? more : blocks);
}

/* As much as it takes, the index may be short of later: it must not be much. */
static bool
is_little(const struct look *look, const struct advisor_store_log *state, uint32_t count)
{
    struct index_stats stats;
    uint64_t bytes = 0;

    for (uint32_t ns = 0; ns < count; ns++)
        bytes += EXPECT_BYTES_LEAST + EXPECT_BYTES * blocks_of(look, &look->guesses[ns], state);
    index_stats(look->memory->index, &stats);
    return bytes <= stats.bytes_max / EXPECT_SHARE;
}

void
advisor_index_load_expect(const struct advisor_ram_index *memory, const struct advisor_txn *txn,
                          const struct advisor_store_log *state)
{
    const uint32_t count = advisor_name_table_namespace_count(memory->names);
    struct look look = {.memory = memory};

    if (state->whole == 0 || count == 0)
        return;
    look.guesses = kvt_calloc(count, sizeof(*look.guesses));
    if (look.guesses != NULL && look_around(&look, txn, state) == KVT_OK &&
        is_little(&look, state, count))
        for (uint32_t ns = 0; ns < count; ns++)
            index_expect(memory->index, advisor_name_table_index_namespace(memory->names, ns),
                         blocks_of(&look, &look.guesses[ns], state));
    kvt_free(look.guesses);
}
