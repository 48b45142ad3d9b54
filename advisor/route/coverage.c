#include "advisor/route/coverage.h"

#include <stdio.h>
#include <string.h>

#include "advisor/answer/finder.h"
#include "advisor/index/evicted.h"
#include "advisor/publisher/publishers.h"
#include "advisor/route/worker_set.h"
#include "base/core/alloc.h"

enum {
    OWN_TIERS = 3, /* G1 .. G3 are a worker's own */
    HOLDERS_FIRST = 1024,
    NOBODY = UINT32_MAX,   /* ends a list of rows */
    COLD = UINT32_MAX - 1, /* a volume or bucket: in nobody's own tiers */
};

struct row {
    /* What the worker's own tiers have from the depth that was asked last. */
    uint32_t stamp[OWN_TIERS]; /* which question that was */
    uint32_t blocks[OWN_TIERS];
    uint32_t depth; /* blocks that are counted */
    uint32_t tier;  /* own tiers that are settled */
    uint32_t next;  /* row that waits at the same depth */
};

struct depth {
    uint32_t waiting; /* first row that waits for an answer from here */
    uint32_t cold;    /* blocks that G4 has from here on */
};

struct advisor_coverage_work {
    struct row *rows;
    struct wire_query_holder *doubtful; /* by row */
    size_t row_capacity;
    struct depth *depths; /* one more than there are blocks */
    uint8_t *masks;       /* by block */
    size_t block_capacity;
    struct wire_query_holder *holders;
    size_t holder_capacity;
    uint32_t stamp;
    size_t asked;
    /* What is known of the index's numbers, of one set. */
    struct advisor_worker_set *known;
    struct index_find_result *found;
    struct index_match *matches;
    uint32_t (*numbers)[OWN_TIERS]; /* by row: holder's number + 1; 0: none */
    uint32_t *seats;                /* by number: row * OWN_TIERS + tier; COLD; NOBODY: none here */
    uint32_t seat_count;
    uint64_t renames;
};

/* A look that is under way. */
struct look {
    struct advisor_coverage *coverage;
    struct advisor_coverage_work *work;
    const struct advisor_finder *finder;
    struct advisor_worker_set *set;
    struct wire_query query;
    uint64_t *hashes;
    uint32_t count;
    struct index *index; /* it is all there is; NULL: ask by name */
    bool doubts;         /* some events are missing */
    uint32_t ns;
};

enum kvt_err
advisor_coverage_new(struct advisor_coverage **out)
{
    struct advisor_coverage *coverage = kvt_calloc(1, sizeof(*coverage));

    *out = NULL;
    if (coverage == NULL)
        return KVT_NOMEM;
    coverage->work = kvt_calloc(1, sizeof(*coverage->work));
    if (coverage->work == NULL) {
        kvt_free(coverage);
        return KVT_NOMEM;
    }
    *out = coverage;
    return KVT_OK;
}

static void
release_rows(struct advisor_coverage *coverage)
{
    struct advisor_coverage_work *work = coverage->work;

    kvt_free(coverage->cached[0]);
    kvt_free(coverage->uncertain);
    kvt_free(work->rows);
    kvt_free(work->doubtful);
    memset(coverage->cached, 0, sizeof(coverage->cached));
    coverage->uncertain = NULL;
    work->rows = NULL;
    work->doubtful = NULL;
    work->row_capacity = 0;
}

static void
release_blocks(struct advisor_coverage_work *work)
{
    kvt_free(work->depths);
    kvt_free(work->masks);
    work->depths = NULL;
    work->masks = NULL;
    work->block_capacity = 0;
}

static void
forget_numbers(struct advisor_coverage_work *work)
{
    advisor_worker_set_leave(work->known);
    kvt_free(work->numbers);
    kvt_free(work->seats);
    kvt_free(work->matches);
    work->known = NULL;
    work->numbers = NULL;
    work->seats = NULL;
    work->matches = NULL;
    work->seat_count = 0;
}

void
advisor_coverage_free(struct advisor_coverage *coverage)
{
    if (coverage == NULL)
        return;
    forget_numbers(coverage->work);
    index_find_result_free(coverage->work->found);
    release_rows(coverage);
    release_blocks(coverage->work);
    kvt_free(coverage->work->holders);
    kvt_free(coverage->work);
    kvt_free(coverage);
}

size_t
advisor_coverage_asked(const struct advisor_coverage *coverage)
{
    return coverage->work->asked;
}

/* ---- room ---- */

static enum kvt_err
reserve_rows(struct advisor_coverage *coverage, size_t count)
{
    struct advisor_coverage_work *work = coverage->work;
    const size_t room = count + 1;

    if (room <= work->row_capacity)
        return KVT_OK;
    release_rows(coverage);
    coverage->cached[0] = kvt_calloc(room * ROUTER_TIERS, sizeof(**coverage->cached));
    coverage->uncertain = kvt_calloc(room, sizeof(*coverage->uncertain));
    work->rows = kvt_calloc(room, sizeof(*work->rows));
    work->doubtful = kvt_calloc(room, sizeof(*work->doubtful));
    if (coverage->cached[0] == NULL || coverage->uncertain == NULL || work->rows == NULL ||
        work->doubtful == NULL) {
        release_rows(coverage);
        return KVT_NOMEM;
    }
    for (size_t i = 1; i < ROUTER_TIERS; i++)
        coverage->cached[i] = coverage->cached[0] + i * room;
    work->row_capacity = room;
    return KVT_OK;
}

static enum kvt_err
reserve_blocks(struct advisor_coverage_work *work, size_t count)
{
    const size_t room = count + 1;

    if (room <= work->block_capacity)
        return KVT_OK;
    release_blocks(work);
    work->depths = kvt_calloc(room, sizeof(*work->depths));
    work->masks = kvt_calloc(room, sizeof(*work->masks));
    if (work->depths == NULL || work->masks == NULL) {
        release_blocks(work);
        return KVT_NOMEM;
    }
    work->block_capacity = room;
    return KVT_OK;
}

/* ---- answers by number ---- */

/* Learn whose the numbers from `from` on are. */
static void
learn_numbers(struct look *look, uint32_t from)
{
    struct advisor_coverage_work *work = look->work;

    for (uint32_t i = from; i < work->seat_count; i++) {
        struct index_holder key;
        size_t row;

        work->seats[i] = NOBODY;
        index_holder_info(look->index, i, &key, NULL, NULL);
        if (key.tier == KVT_TIER_G4) {
            work->seats[i] = COLD;
            continue;
        }
        row = advisor_worker_set_find(look->set, key.name, key.dp_rank);
        if (row == look->set->count)
            continue;
        work->seats[i] = (uint32_t)row * OWN_TIERS + (uint32_t)(key.tier - KVT_TIER_G1);
        work->numbers[row][key.tier - KVT_TIER_G1] = i + 1;
    }
}

/* A volume or bucket was met: are events of it missing?  Asked until one is in doubt. */
static void
meet_cold(struct look *look, uint32_t number)
{
    struct wire_query_holder holder = {.name = ""};
    struct index_holder key;

    if (!look->doubts || look->coverage->cold_uncertain)
        return;
    index_holder_info(look->index, number, &key, NULL, NULL);
    advisor_finder_name(&holder, &key, 0);
    advisor_publishers_mark(look->finder->publishers, &holder, 1);
    look->coverage->cold_uncertain = holder.uncertain;
}

/* Know the numbers of the set's holders.  What comes to be while this goes on is of later. */
static enum kvt_err
know_numbers(struct look *look)
{
    struct advisor_coverage_work *work = look->work;
    const uint64_t renames = index_holder_renames(look->index);
    const uint32_t count = index_holder_count(look->index);
    const uint32_t from =
        work->known == look->set && work->renames == renames ? work->seat_count : 0;
    uint32_t *seats;
    struct index_match *matches;

    if (work->found == NULL && index_find_result_new(&work->found) != KVT_OK)
        return KVT_NOMEM;
    if (from == count && from > 0)
        return KVT_OK;
    if (from == 0) {
        forget_numbers(work);
        work->numbers = kvt_calloc(look->set->count + 1, sizeof(*work->numbers));
        if (work->numbers == NULL)
            return KVT_NOMEM;
        work->known = advisor_worker_set_keep(look->set);
        work->renames = renames;
    }
    seats = kvt_realloc(work->seats, (size_t)count + 1, sizeof(*seats));
    if (seats == NULL)
        return KVT_NOMEM;
    work->seats = seats;
    matches = kvt_realloc(work->matches, (size_t)count + 1, sizeof(*matches));
    if (matches == NULL)
        return KVT_NOMEM;
    work->matches = matches;
    work->seat_count = count;
    learn_numbers(look, from);
    return KVT_OK;
}

static enum kvt_err
ask_by_number(struct look *look, uint32_t depth)
{
    struct advisor_coverage_work *work = look->work;
    const struct index_question question = {.hashes = look->hashes + depth,
                                            .count = look->count - depth,
                                            .ns = look->ns,
                                            .key = INDEX_BY_SEQUENCE};
    const enum kvt_err rc = index_find(look->index, &question, work->found);
    const size_t count =
        rc == KVT_OK ? index_find_result_best(work->found, work->matches, work->seat_count) : 0;

    for (size_t i = 0; i < count; i++) {
        const uint32_t number = work->matches[i].holder;
        const uint32_t seat = number < work->seat_count ? work->seats[number] : NOBODY;

        if (seat == COLD)
            meet_cold(look, number);
        if (seat >= COLD)
            continue;
        work->rows[seat / OWN_TIERS].stamp[seat % OWN_TIERS] = work->stamp;
        work->rows[seat / OWN_TIERS].blocks[seat % OWN_TIERS] = work->matches[i].blocks;
    }
    return rc;
}

/* May RAM alone say who has what, by number? */
static bool
is_by_number(const struct advisor_finder *finder)
{
    return advisor_finder_from_ram(finder) &&
           (finder->memory->cold == NULL || advisor_evicted_count(finder->memory->cold) == 0);
}

/* ---- answers of the finder ---- */

/* All holders from `depth` on; there may be more than there was room for. */
static enum kvt_err
find_from(struct look *look, uint32_t depth, size_t *count)
{
    struct advisor_coverage_work *work = look->work;
    size_t capacity = work->holder_capacity;

    look->query.hashes = look->hashes + depth;
    look->query.hash_count = look->count - depth;
    for (;;) {
        enum kvt_err rc;

        if (capacity > work->holder_capacity || work->holders == NULL) {
            void *more;

            capacity = capacity == 0 ? HOLDERS_FIRST : capacity;
            more = kvt_realloc(work->holders, capacity, sizeof(*work->holders));
            if (more == NULL)
                return KVT_NOMEM;
            work->holders = more;
            work->holder_capacity = capacity;
        }
        rc = advisor_finder_matches(look->finder, &look->query, work->holders, capacity, count);
        if (rc != KVT_OK || *count < capacity || capacity >= INDEX_HOLDERS_MAX)
            return rc;
        capacity *= 4;
    }
}

static enum kvt_err
ask_from(struct look *look, uint32_t depth)
{
    struct advisor_coverage_work *work = look->work;
    size_t count;
    enum kvt_err rc;

    if (++work->stamp == 0) {
        for (size_t i = 0; i < work->row_capacity; i++)
            memset(work->rows[i].stamp, 0, sizeof(work->rows[i].stamp));
        work->stamp = 1;
    }
    work->asked++;
    if (look->index != NULL)
        return ask_by_number(look, depth);
    rc = find_from(look, depth, &count);
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        const struct wire_query_holder *holder = &work->holders[i];
        size_t row;

        if (holder->tier == KVT_TIER_G4) {
            look->coverage->cold_uncertain |= holder->uncertain;
            continue;
        }
        row = advisor_worker_set_find(look->set, holder->name, holder->dp_rank);
        if (row == look->set->count)
            continue;
        work->rows[row].stamp[holder->tier - KVT_TIER_G1] = work->stamp;
        work->rows[row].blocks[holder->tier - KVT_TIER_G1] = holder->blocks;
    }
    return rc;
}

/* ---- one worker ---- */

/* May this tier of somebody have the block at this depth? */
static bool
may_go_on(const struct look *look, uint32_t depth, unsigned tier)
{
    return depth < look->count &&
           (look->work->masks[depth] & KVT_TIER_MASK(KVT_TIER_G1 + tier)) != 0;
}

/* May this one's? */
static bool
may_have(const struct look *look, uint32_t row, uint32_t depth, unsigned tier)
{
    if (!may_go_on(look, depth, tier))
        return false;
    if (look->index == NULL)
        return true;
    return look->work->numbers[row][tier] != 0 &&
           index_has(look->index, look->ns, look->hashes[depth],
                     look->work->numbers[row][tier] - 1);
}

/* Count what the answer from depth `from` says of a worker, tier after tier; then it waits for the
 * answer from where it got to, or is done. */
static void
count_row(struct look *look, uint32_t row, uint32_t from)
{
    struct advisor_coverage_work *work = look->work;
    struct row *of = &work->rows[row];
    uint32_t tier = of->tier;
    uint32_t depth = of->depth;

    for (; tier < OWN_TIERS; tier++) {
        const bool known = of->stamp[tier] == work->stamp;
        const uint32_t end = from + (known ? of->blocks[tier] : 0);

        /* One that ended before here may have more from here on. */
        if (end < depth && may_have(look, row, depth, tier))
            break;
        if (end <= depth)
            continue;
        look->coverage->cached[tier][row] = end - depth;
        depth = end;
    }
    of->tier = tier;
    of->depth = depth;
    if (tier == OWN_TIERS) {
        look->coverage->cached[OWN_TIERS][row] = work->depths[depth].cold;
        return;
    }
    of->next = work->depths[depth].waiting;
    work->depths[depth].waiting = row;
}

/* ---- the look ---- */

static void
mark_uncertain(struct look *look)
{
    struct wire_query_holder *doubtful = look->work->doubtful;
    const size_t count = look->set->count;
    size_t live;
    size_t uncertain;
    size_t silent;

    memset(look->coverage->uncertain, 0, count * sizeof(*look->coverage->uncertain));
    if (look->finder->publishers == NULL)
        return;
    advisor_publishers_doubts(look->finder->publishers, &live, &uncertain, &silent);
    look->doubts = uncertain > 0;
    if (!look->doubts)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct router_worker *worker = &look->set->rows[i].worker;

        doubtful[i] = (struct wire_query_holder){.dp_rank = worker->dp_rank, .tier = KVT_TIER_G1};
        memcpy(doubtful[i].name, worker->name, sizeof(doubtful[i].name));
    }
    advisor_publishers_mark(look->finder->publishers, doubtful, count);
    for (size_t i = 0; i < count; i++)
        look->coverage->uncertain[i] = doubtful[i].uncertain;
}

static enum kvt_err
look_at_blocks(struct look *look)
{
    struct advisor_coverage_work *work = look->work;
    const enum kvt_err rc = advisor_finder_masks(look->finder, look->query.namespace_, look->hashes,
                                                 look->count, work->masks);

    if (rc != KVT_OK)
        return rc;
    work->depths[look->count] = (struct depth){.waiting = NOBODY, .cold = 0};
    for (uint32_t i = look->count; i-- > 0;) {
        const bool has = (work->masks[i] & KVT_TIER_MASK(KVT_TIER_G4)) != 0;

        work->depths[i] =
            (struct depth){.waiting = NOBODY, .cold = has ? work->depths[i + 1].cold + 1 : 0};
    }
    return KVT_OK;
}

/* A depth after the other; who waits there gets further each time. */
static enum kvt_err
descend(struct look *look)
{
    struct advisor_coverage_work *work = look->work;

    for (uint32_t depth = 0; depth < look->count; depth++) {
        uint32_t row = work->depths[depth].waiting;
        enum kvt_err rc;

        if (row == NOBODY)
            continue;
        rc = ask_from(look, depth);
        if (rc != KVT_OK)
            return rc;
        work->depths[depth].waiting = NOBODY;
        while (row != NOBODY) {
            const uint32_t next = work->rows[row].next;

            count_row(look, row, depth);
            row = next;
        }
    }
    return KVT_OK;
}

enum kvt_err
advisor_coverage_look(struct advisor_coverage *coverage, const struct advisor_finder *finder,
                      struct advisor_worker_set *set, const char *namespace_, uint64_t *hashes,
                      size_t count)
{
    struct look look = {.coverage = coverage,
                        .work = coverage->work,
                        .finder = finder,
                        .set = set,
                        .hashes = hashes,
                        .count = (uint32_t)count};
    enum kvt_err rc;
    bool any;

    if (count > WIRE_QUERY_HASHES_MAX)
        return KVT_RANGE;
    coverage->cold_uncertain = false;
    look.work->asked = 0;
    (void)snprintf(look.query.namespace_, sizeof(look.query.namespace_), "%s", namespace_);
    if (!coverage->by_name && is_by_number(finder) &&
        index_namespace_find(finder->memory->index, namespace_, &look.ns) == KVT_OK)
        look.index = finder->memory->index;
    rc = look.index == NULL ? KVT_OK : know_numbers(&look);
    if (rc == KVT_OK)
        rc = reserve_rows(coverage, set->count);
    if (rc == KVT_OK)
        rc = reserve_blocks(look.work, count);
    if (rc == KVT_OK)
        rc = look_at_blocks(&look);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < ROUTER_TIERS; i++)
        memset(coverage->cached[i], 0, set->count * sizeof(**coverage->cached));
    mark_uncertain(&look);
    any = may_go_on(&look, 0, 0) || may_go_on(&look, 0, 1) || may_go_on(&look, 0, 2);
    for (size_t i = 0; i < set->count; i++) {
        look.work->rows[i].depth = 0;
        look.work->rows[i].tier = 0;
        if (any) {
            look.work->rows[i].next = look.work->depths[0].waiting;
            look.work->depths[0].waiting = (uint32_t)i;
        } else {
            coverage->cached[OWN_TIERS][i] = look.work->depths[0].cold;
        }
    }
    return descend(&look);
}
