#include "advisor/index/index_load.h"

#include <inttypes.h>
#include <stdlib.h>

#include "advisor/index/index_load_private.h"
#include "base/core/alloc.h"

enum {
    PAGE_ROWS = 4096,     /* of the log, between two looks at `cancel` */
    PAGE_BLOCKS = 65536,  /* rows of G4 blocks, likewise */
    ORDER_COUNTED = 4096, /* positions; 65,536 tokens at 16 a block */
    WORD_BITS = 64,
    WORDS = (ADVISOR_EVENT_LOG_BLOCKS_MAX + WORD_BITS - 1) / WORD_BITS,
};

/* What is filled, from what. */
struct load {
    struct advisor_ram_index *memory;
    const struct advisor_txn *txn;
    struct advisor_index_load_progress *progress;
    struct advisor_index_load_progress unseen; /* the progress when nobody asks for it */
    uint32_t parts;                            /* of the holders; the log is read once for each */
    uint32_t part;

    /* A RUN, and which of its blocks somebody has. */
    struct advisor_event_log_op run; /* count 0: there is none */
    uint64_t held[WORDS];
    uint32_t ghosts; /* the index's holder of blocks that nobody has; UINT32_MAX: none yet */

    bool damaged; /* the row that was read last */
    uint64_t blocks;
};

/* KVT_OK, or why there is no use in reading on: what nobody is answered from must be whole. */
static enum kvt_err
go_on(const struct load *load, struct kvt_error *err)
{
    if (atomic_load_explicit(&load->progress->cancel, memory_order_relaxed))
        return kvt_error_set(err, KVT_CANCELLED, "no time to read the index");
    if (load->memory->quiet && atomic_load(&load->memory->spilled))
        return kvt_error_set(err, KVT_FULL, "it does not fit in memory");
    return KVT_OK;
}

static void
tell_blocks(struct load *load)
{
    atomic_store_explicit(&load->progress->blocks, load->blocks, memory_order_relaxed);
}

/* ---- blocks that nobody has ---- */

/* A block that nobody has stays while others hang on it.  So that it does, whatever comes first,
 * somebody has it until all of the snapshot is there.  Publishers have names. */
static bool
find_ghosts(struct load *load)
{
    const struct index_holder key = {.name = "", .tier = KVT_TIER_G1};

    return load->ghosts != UINT32_MAX ||
           index_holder(load->memory->index, &key, &load->ghosts) == KVT_OK;
}

/* What cannot be kept so is only a link that is missing: its children name their parent anyway. */
static void
store_ghosts(struct load *load)
{
    const struct advisor_event_log_op *run = &load->run;
    struct index_change change = {
        .kind = INDEX_STORE,
        .hashes = run->hashes,
        .tokens = run->tokens,
        .parent = run->parent,
        .size = run->place.size,
        .time_ms = (uint64_t)run->place.time_s * 1000,
        .position = run->position,
        .count = run->count,
        .ranks = 1,
    };

    if (!find_ghosts(load))
        return;
    change.ns = advisor_name_table_index_namespace(load->memory->names, run->place.ns);
    change.holder = load->ghosts;
    index_apply(load->memory->index, &change, 1);
}

static void
drop_ghosts(struct load *load)
{
    uint64_t cursor = 0;
    uint64_t pairs;

    if (load->ghosts == UINT32_MAX)
        return;
    advisor_ram_index_flush(load->memory); /* what hangs on them may be on its way */
    while (index_drop(load->memory->index, load->ghosts, INDEX_NAMESPACE_ALL, &cursor, &pairs)) {
    }
    load->ghosts = UINT32_MAX;
}

static void
begin_run(struct load *load, const struct advisor_event_log_op *run)
{
    load->run = *run;
    for (size_t i = 0; i < WORDS; i++)
        load->held[i] = 0;
}

/* A piece of the run is held. */
static void
mark_held(struct load *load, const struct advisor_event_log_op *piece)
{
    const size_t from = (size_t)(piece->hashes - load->run.hashes);

    if (piece->count == load->run.count) {
        load->run.count = 0; /* all are: there is nothing to find out any more */
        return;
    }
    for (size_t i = from; i < from + piece->count; i++)
        load->held[i / WORD_BITS] |= UINT64_C(1) << (i % WORD_BITS);
}

static void
end_run(struct load *load)
{
    bool all = true;

    for (uint32_t i = 0; i < load->run.count; i++)
        all &= load->held[i / WORD_BITS] >> (i % WORD_BITS) & 1;
    if (!all)
        store_ghosts(load);
    load->run.count = 0;
}

/* ---- the log ---- */

static bool
is_known(const struct load *load, const struct advisor_event_log_op *op)
{
    const struct advisor_name_table *names = load->memory->names;

    return op->place.ns < advisor_name_table_namespace_count(names) &&
           (op->kind == ADVISOR_EVENT_LOG_RUN ||
            op->place.holder < advisor_name_table_holder_count(names));
}

static enum kvt_err
load_op(struct load *load, const struct advisor_event_log_op *op)
{
    if (!is_known(load, op))
        return KVT_CORRUPT;
    if (op->kind == ADVISOR_EVENT_LOG_RUN) {
        end_run(load);
        begin_run(load, op);
        return KVT_OK;
    }
    if (op->kind == ADVISOR_EVENT_LOG_STORE && load->run.count > 0)
        mark_held(load, op);
    if (op->place.holder % load->parts != load->part)
        return KVT_OK;
    if (op->kind == ADVISOR_EVENT_LOG_STORE)
        load->blocks += op->count;
    advisor_ram_index_op(load->memory, op);
    return KVT_OK;
}

static enum kvt_err
load_row(void *arg, const void *row, size_t size)
{
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    struct load *load = arg;
    enum kvt_err rc = advisor_event_log_open(&reader, row, size);

    while (rc == KVT_OK) {
        rc = advisor_event_log_next(&reader, &op);
        if (rc == KVT_OK)
            rc = load_op(load, &op);
    }
    end_run(load);
    load->damaged = rc == KVT_CORRUPT;
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

static enum kvt_err
load_part(struct load *load, uint64_t bytes_before, struct kvt_error *err)
{
    struct advisor_store_log_cursor cursor = {0};
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && !cursor.done) {
        /* The journal was written beside an index where these could go. */
        if (cursor.in_journal)
            drop_ghosts(load);
        rc = go_on(load, err);
        if (rc == KVT_OK)
            rc = advisor_store_log_rows(load->txn, &cursor, PAGE_ROWS, load_row, load, err);
        if (load->damaged)
            rc = kvt_error_set(err, rc,
                               "row %" PRIu64 " of the index's %s is damaged; move the folder away "
                               "to build it anew from the workers",
                               cursor.row, cursor.in_journal ? "journal" : "snapshot");
        atomic_store_explicit(&load->progress->bytes_done, bytes_before + cursor.bytes,
                              memory_order_relaxed);
        tell_blocks(load);
    }
    advisor_ram_index_flush(load->memory);
    drop_ghosts(load);
    return rc;
}

static enum kvt_err
load_log(struct load *load, uint64_t bytes, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    for (load->part = 0; load->part < load->parts && rc == KVT_OK; load->part++)
        rc = load_part(load, load->part * bytes, err);
    return rc;
}

/* ---- rows of G4 blocks ---- */

/* By position, so that a parent is there before its children: counted up to a position that few
 * blocks are beyond, and those that are, sorted. */
struct order {
    uint64_t starts[ORDER_COUNTED + 2]; /* of each position in `keys`; the last: of all beyond */
    struct order_key {
        uint64_t hash;
        uint32_t ns;
        uint32_t position;
    } * keys;
};

static size_t
bucket_of(uint32_t position)
{
    return position < ORDER_COUNTED ? position : ORDER_COUNTED;
}

static enum kvt_err
count_position(void *arg, const struct advisor_store_block *row)
{
    struct order *order = arg;

    order->starts[bucket_of(row->position) + 1]++;
    return KVT_OK;
}

static enum kvt_err
place_key(void *arg, const struct advisor_store_block *row)
{
    struct order *order = arg;

    order->keys[order->starts[bucket_of(row->position)]++] =
        (struct order_key){row->hash, row->ns, row->position};
    return KVT_OK;
}

static int
compare_positions(const void *a, const void *b)
{
    const struct order_key *first = a;
    const struct order_key *second = b;

    return (first->position > second->position) - (first->position < second->position);
}

static enum kvt_err
walk_blocks(const struct load *load, advisor_store_block_fn *callback, void *arg)
{
    uint64_t next = 0;
    enum kvt_err rc;

    do {
        rc = go_on(load, NULL);
        if (rc == KVT_OK)
            rc = advisor_store_blocks(load->txn, next, PAGE_BLOCKS, &next, callback, arg);
    } while (rc == KVT_OK && next != 0);
    return rc;
}

static enum kvt_err
sort_blocks(const struct load *load, struct order **out, uint64_t count)
{
    struct order *order = kvt_calloc(1, sizeof(*order));
    uint64_t beyond;
    enum kvt_err rc;

    *out = order;
    if (order == NULL)
        return KVT_NOMEM;
    rc = walk_blocks(load, count_position, order);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 1; i < ORDER_COUNTED + 2; i++)
        order->starts[i] += order->starts[i - 1];
    beyond = order->starts[ORDER_COUNTED];
    order->keys = kvt_calloc(count, sizeof(*order->keys));
    rc = order->keys == NULL ? KVT_NOMEM : walk_blocks(load, place_key, order);
    if (rc == KVT_OK)
        qsort(order->keys + beyond, count - beyond, sizeof(*order->keys), compare_positions);
    return rc;
}

static void
order_free(struct order *order)
{
    if (order != NULL)
        kvt_free(order->keys);
    kvt_free(order);
}

static enum kvt_err
load_block(struct load *load, const struct advisor_store_block *row)
{
    const struct advisor_name_table *names = load->memory->names;

    if (row->ns >= advisor_name_table_namespace_count(names))
        return KVT_CORRUPT;
    for (uint32_t i = 0; i < row->place_count; i++) {
        if (row->places[i].holder >= advisor_name_table_holder_count(names))
            return KVT_CORRUPT;
        advisor_ram_index_place(load->memory, row, &row->places[i]);
    }
    load->blocks += row->place_count;
    return KVT_OK;
}

static enum kvt_err
load_reads(void *arg, const struct advisor_store_block *row)
{
    const struct advisor_ram_index *memory = arg;

    if (row->hits > 0)
        index_touch(memory->index, advisor_name_table_index_namespace(memory->names, row->ns),
                    row->hash, row->hits, row->last_access_ms);
    return KVT_OK;
}

static enum kvt_err
load_blocks(struct load *load, struct kvt_error *err)
{
    const uint64_t count = advisor_store_block_count(load->txn);
    struct advisor_store_block row = {.places = NULL};
    struct order *order = NULL;
    enum kvt_err rc = count == 0 ? KVT_OK : sort_blocks(load, &order, count);

    for (uint64_t i = 0; i < count && rc == KVT_OK; i++) {
        rc = advisor_store_get_block(load->txn, order->keys[i].ns, order->keys[i].hash, &row);
        if (rc == KVT_OK)
            rc = load_block(load, &row);
        if (i % PAGE_BLOCKS == 0) {
            tell_blocks(load);
            if (rc == KVT_OK)
                rc = go_on(load, NULL);
        }
    }
    advisor_ram_index_flush(load->memory);
    if (rc == KVT_OK && count > 0)
        rc = walk_blocks(load, load_reads, load->memory);
    advisor_store_block_release(&row);
    order_free(order);
    return rc == KVT_OK
               ? KVT_OK
               : kvt_error_set(err, rc, "read the index's G4 blocks: %s", kvt_err_text(rc));
}

/* ---- all ---- */

/* What is read is for a while more than what there is in the end: the snapshot has what came while
 * it was written, and the journal takes what went meanwhile out of it later.  Where blocks are
 * evicted, those above the ceiling go next. */
static uint64_t
raise_ceiling(const struct advisor_ram_index *memory)
{
    struct index_stats stats;

    index_stats(memory->index, &stats);
    if (memory->cold != NULL)
        index_limit(memory->index, stats.bytes_max + stats.bytes_max / INDEX_LIMIT_SHARE);
    return stats.bytes_max;
}

enum kvt_err
advisor_index_load(struct advisor_ram_index *memory, const struct advisor_txn *txn,
                   struct advisor_index_load_progress *progress, struct kvt_error *err)
{
    return advisor_index_load_parts(memory, txn, 1, progress, err);
}

enum kvt_err
advisor_index_load_parts(struct advisor_ram_index *memory, const struct advisor_txn *txn,
                         uint32_t parts, struct advisor_index_load_progress *progress,
                         struct kvt_error *err)
{
    struct load load = {
        .memory = memory, .txn = txn, .progress = progress, .parts = parts, .ghosts = UINT32_MAX};
    struct advisor_store_log state;
    uint64_t bytes;
    uint64_t ceiling;
    enum kvt_err rc = advisor_store_log_get(txn, &state);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "read where the index's log is: %s", kvt_err_text(rc));
    if (progress == NULL)
        load.progress = &load.unseen;
    bytes = state.runs_bytes + state.bytes;
    atomic_store_explicit(&load.progress->bytes_total, parts * bytes, memory_order_relaxed);
    advisor_index_load_expect(memory, txn, &state);
    ceiling = raise_ceiling(memory);
    rc = load_log(&load, bytes, err);
    if (rc == KVT_OK)
        rc = load_blocks(&load, err);
    index_limit(memory->index, ceiling);
    tell_blocks(&load);
    return rc;
}
