#include "router/request_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"

#include "router/deadlines.h"
#include "router/prompt_tree.h"
#include "router/requests.h"
#include "router/worker_load.h"

struct router_request_table {
    struct router_request_table_options options;
    uint64_t now_ms;
    struct router_requests requests;
    struct router_prompt_tree prefixes;
    struct router_worker_load columns;
    struct router_deadlines live;       /* requests, by when they expire */
    struct router_deadlines remembered; /* the others, by when they are forgotten */
    uint64_t blocks;
    uint64_t digest;
    uint64_t expired;
    uint64_t untracked;
    uint64_t *hashes; /* of the request shown last */
};

enum kvt_err
router_request_table_new(struct router_request_table **out,
                         const struct router_request_table_options *options)
{
    struct router_request_table *slots = kvt_calloc(1, sizeof(*slots));

    *out = NULL;
    if (slots == NULL)
        return KVT_NOMEM;
    slots->options = *options;
    if (!router_requests_init(&slots->requests) || !router_prompt_tree_init(&slots->prefixes) ||
        !router_worker_load_init(&slots->columns))
        goto fail;
    slots->hashes = kvt_calloc(ROUTER_REQUEST_HASHES_MAX, sizeof(slots->hashes[0]));
    if (slots->hashes == NULL)
        goto fail;
    *out = slots;
    return KVT_OK;

fail:
    router_request_table_free(slots);
    return KVT_NOMEM;
}

void
router_request_table_free(struct router_request_table *slots)
{
    if (slots == NULL)
        return;
    router_requests_release(&slots->requests);
    router_prompt_tree_release(&slots->prefixes);
    router_worker_load_release(&slots->columns);
    router_deadlines_release(&slots->live);
    router_deadlines_release(&slots->remembered);
    kvt_free(slots->hashes);
    kvt_free(slots);
}

enum kvt_err
router_request_table_bind(struct router_request_table *slots, const struct router_worker_row *rows,
                          size_t count)
{
    return router_worker_load_bind(&slots->columns, rows, count);
}

static uint64_t
advance(struct router_request_table *slots, uint64_t now_ms)
{
    if (now_ms > slots->now_ms)
        slots->now_ms = now_ms;
    return slots->now_ms;
}

static struct router_row *
row_of(struct router_deadline *deadline)
{
    return (struct router_row *)(void *)deadline; /* its first member */
}

static uint32_t
hash_count_of(const struct router_request *request)
{
    assert(request->hash_count <= request->blocks);
    return request->hash_count < ROUTER_REQUEST_HASHES_MAX ? request->hash_count
                                                           : ROUTER_REQUEST_HASHES_MAX;
}

/* The same on every replica, and another for another request of the same id. */
static uint64_t
content_of(const struct router_request *request)
{
    const uint32_t hash_count = hash_count_of(request);
    const uint64_t members[] = {
        XXH3_64bits(request->id, strlen(request->id)),
        XXH3_64bits(request->worker.name, strlen(request->worker.name)),
        XXH3_64bits(request->hashes, hash_count * sizeof(request->hashes[0])),
        request->worker.dp_rank,
        request->router,
        request->added_ms,
        request->prefill_tokens,
        hash_count,
        request->blocks,
    };

    return XXH3_64bits(members, sizeof(members));
}

/* What a live row adds to the digest. */
static uint64_t
share_of(const struct router_row *row)
{
    const uint64_t members[] = {row->content, (uint64_t)row->state};

    return XXH3_64bits(members, sizeof(members));
}

/* Of two requests of one id the same one stays on every replica. */
static bool
comes_first(const struct router_request *request, uint64_t content, const struct router_row *row)
{
    if (request->added_ms != row->added_ms)
        return request->added_ms < row->added_ms;
    if (request->router != row->router)
        return request->router < row->router;
    return content < row->content;
}

/* The row's load counts, or does no more. */
static void
count_tokens(struct router_request_table *slots, const struct router_row *row, bool up)
{
    const uint32_t place = slots->columns.places[row->worker];
    const uint64_t tokens = row->state == ROUTER_ADDED ? row->prefill_tokens : 0;

    if (up)
        slots->columns.prefill_tokens[place] += tokens;
    else
        slots->columns.prefill_tokens[place] -= tokens;
}

static void
link_row(struct router_request_table *slots, struct router_row *row)
{
    void **mark = router_worker_load_mark(&slots->columns, row->worker);
    struct router_row *next = *mark;

    row->worker_before = NULL;
    row->worker_next = next;
    if (next != NULL)
        next->worker_before = row;
    *mark = row;
}

static void
unlink_row(struct router_request_table *slots, struct router_row *row)
{
    if (row->worker_next != NULL)
        row->worker_next->worker_before = row->worker_before;
    if (row->worker_before != NULL)
        row->worker_before->worker_next = row->worker_next;
    else
        *router_worker_load_mark(&slots->columns, row->worker) = row->worker_next;
}

/* Where a request's blocks are entered, before its row is touched. */
struct booking {
    uint32_t worker;
    uint32_t end;
    uint32_t fresh;
};

static enum kvt_err
book(struct router_request_table *slots, const struct router_request *request,
     struct booking *booking)
{
    enum kvt_err rc = router_worker_load_reach(&slots->columns, &request->worker, &booking->worker);

    if (rc != KVT_OK)
        return rc;
    if (!router_prompt_tree_enter(&slots->prefixes, request->hashes, hash_count_of(request),
                                  booking->worker, &booking->end, &booking->fresh)) {
        rc = KVT_NOMEM;
    } else if (slots->blocks + booking->fresh > slots->options.blocks_max) {
        (void)router_prompt_tree_leave(&slots->prefixes, booking->end, booking->worker);
        rc = KVT_FULL;
    }
    if (rc != KVT_OK)
        router_worker_load_tidy(&slots->columns, booking->worker);
    return rc;
}

/* The row is this request now, and counts. */
static void
settle(struct router_request_table *slots, struct router_row *row,
       const struct router_request *request, uint64_t content, const struct booking *booking)
{
    const uint32_t place = slots->columns.places[booking->worker];

    row->worker = booking->worker;
    row->end = booking->end;
    row->hash_count = hash_count_of(request);
    row->blocks = request->blocks;
    row->router = request->router;
    row->added_ms = request->added_ms;
    row->prefill_tokens = request->prefill_tokens;
    row->content = content;
    row->live = true;
    slots->blocks += booking->fresh;
    slots->columns.blocks[place] += booking->fresh + (row->blocks - row->hash_count);
    slots->columns.requests[place]++;
    count_tokens(slots, row, true);
    slots->digest += share_of(row);
    link_row(slots, row);
}

/* The row counts no more; its worker is to be tidied. */
static void
unsettle(struct router_request_table *slots, struct router_row *row)
{
    const uint32_t place = slots->columns.places[row->worker];
    const uint32_t gone = router_prompt_tree_leave(&slots->prefixes, row->end, row->worker);

    slots->digest -= share_of(row);
    count_tokens(slots, row, false);
    slots->columns.requests[place]--;
    slots->columns.blocks[place] -= gone + (row->blocks - row->hash_count);
    slots->blocks -= gone;
    unlink_row(slots, row);
    row->live = false;
}

/* Remember the row's id and state from now on, in the place of the oldest one when there are too
 * many; not at all where there is no memory. */
static void
remember(struct router_request_table *slots, struct router_row *row, uint64_t at_ms)
{
    if (slots->remembered.count >= slots->options.requests_max) {
        struct router_deadline *oldest = router_deadlines_first(&slots->remembered);

        if (oldest == NULL) {
            router_requests_remove(&slots->requests, row);
            return;
        }
        router_deadlines_remove(&slots->remembered, oldest);
        router_requests_remove(&slots->requests, row_of(oldest));
    }
    row->deadline.at_ms = at_ms;
    if (!router_deadlines_add(&slots->remembered, &row->deadline))
        router_requests_remove(&slots->requests, row);
}

/* A live request is over. */
static void
finish(struct router_request_table *slots, struct router_row *row, uint64_t at_ms)
{
    unsettle(slots, row);
    router_worker_load_tidy(&slots->columns, row->worker);
    router_deadlines_remove(&slots->live, &row->deadline);
    row->state = ROUTER_FREED;
    remember(slots, row, at_ms);
}

/* When what is `age_ms` old is expired, or forgotten. */
static uint64_t
due(const struct router_request_table *slots, uint64_t age_ms)
{
    const uint64_t expiry_ms = slots->options.expiry_ms;

    return slots->now_ms + (age_ms < expiry_ms ? expiry_ms - age_ms : 0);
}

/* A step without the request.  KVT_NOTFOUND: the request is not live, nor known to have ended. */
static enum kvt_err
step(struct router_request_table *slots, struct router_row *row, const char *id,
     enum router_state state, uint64_t age_ms, bool *changed)
{
    if (row == NULL) {
        if (age_ms >= slots->options.expiry_ms)
            return KVT_NOTFOUND;
        row = router_requests_add(&slots->requests, id);
        if (row == NULL)
            return KVT_NOTFOUND;
        row->state = state;
        *changed = true;
        remember(slots, row, due(slots, age_ms));
        return KVT_NOTFOUND;
    }
    if (!row->live) {
        const uint64_t at_ms = due(slots, age_ms);

        *changed = state > row->state;
        if (state > row->state) {
            row->state = state;
            router_deadlines_remove(&slots->remembered, &row->deadline);
            remember(slots, row, at_ms);
        } else if (state == row->state && at_ms < row->deadline.at_ms) {
            router_deadlines_advance(&slots->remembered, &row->deadline, at_ms);
        }
        /* Whoever says again that it ended, or that it was prefilled, hears that it is over. */
        return row->state == ROUTER_FREED && !*changed ? KVT_OK : KVT_NOTFOUND;
    }
    *changed = state > row->state;
    if (state <= row->state)
        return KVT_OK;
    if (state == ROUTER_FREED) {
        finish(slots, row, due(slots, age_ms));
        return KVT_OK;
    }
    slots->digest -= share_of(row);
    count_tokens(slots, row, false);
    row->state = state;
    count_tokens(slots, row, true);
    slots->digest += share_of(row);
    return KVT_OK;
}

/* A request whose id is not live.  `row` is what is remembered of it, or NULL. */
static enum kvt_err
begin(struct router_request_table *slots, struct router_row *row,
      const struct router_request *request)
{
    const bool fresh = row == NULL;
    struct booking booking;
    enum kvt_err rc;

    if (slots->live.count >= slots->options.requests_max)
        return KVT_FULL;
    rc = book(slots, request, &booking);
    if (rc != KVT_OK)
        return rc;
    if (fresh)
        row = router_requests_add(&slots->requests, request->id);
    if (row == NULL)
        goto fail;
    if (!fresh)
        router_deadlines_remove(&slots->remembered, &row->deadline);
    row->deadline.at_ms = due(slots, request->age_ms);
    if (!router_deadlines_add(&slots->live, &row->deadline)) {
        /* What was remembered is forgotten: a step of a request that is not tracked. */
        router_requests_remove(&slots->requests, row);
        goto fail;
    }
    row->state = row->state > request->state ? row->state : request->state;
    settle(slots, row, request, content_of(request), &booking);
    return KVT_OK;

fail:
    (void)router_prompt_tree_leave(&slots->prefixes, booking.end, booking.worker);
    router_worker_load_tidy(&slots->columns, booking.worker);
    return KVT_NOMEM;
}

/* A request whose id is live. */
static enum kvt_err
join(struct router_request_table *slots, struct router_row *row,
     const struct router_request *request, bool *changed)
{
    const uint64_t content = content_of(request);
    struct booking booking;
    uint32_t before;
    enum kvt_err rc;

    if (content != row->content) {
        if (!comes_first(request, content, row)) {
            (void)step(slots, row, request->id, request->state, request->age_ms, changed);
            return KVT_EXISTS;
        }
        rc = book(slots, request, &booking);
        if (rc != KVT_OK)
            return rc;
        before = row->worker;
        unsettle(slots, row);
        settle(slots, row, request, content, &booking);
        router_worker_load_tidy(&slots->columns, before);
        *changed = true;
    }
    if (due(slots, request->age_ms) < row->deadline.at_ms)
        router_deadlines_advance(&slots->live, &row->deadline, due(slots, request->age_ms));
    if (request->state > row->state)
        return step(slots, row, request->id, request->state, request->age_ms, changed);
    return KVT_OK;
}

enum kvt_err
router_request_table_merge(struct router_request_table *slots, const struct router_request *request,
                           uint64_t now_ms, bool *changed)
{
    struct router_row *row = router_requests_find(&slots->requests, request->id);
    bool ignored;
    enum kvt_err rc = KVT_OK;

    if (changed == NULL)
        changed = &ignored;
    *changed = false;
    assert(request->id[0] != '\0');
    assert(request->state >= ROUTER_ADDED && request->state <= ROUTER_FREED);
    (void)advance(slots, now_ms);
    if (request->state == ROUTER_FREED || request->worker.name[0] == '\0') {
        (void)step(slots, row, request->id, request->state, request->age_ms, changed);
        return KVT_OK;
    }
    if (row != NULL && row->live) {
        rc = join(slots, row, request, changed);
    } else if ((row == NULL || row->state < ROUTER_FREED) &&
               request->age_ms < slots->options.expiry_ms) {
        rc = begin(slots, row, request);
        *changed = rc == KVT_OK;
    }
    slots->untracked += rc == KVT_FULL;
    return rc;
}

static enum kvt_err
take_step(struct router_request_table *slots, const char *id, enum router_state state,
          uint64_t now_ms, bool *changed)
{
    bool ignored;

    if (changed == NULL)
        changed = &ignored;
    *changed = false;
    assert(id[0] != '\0' && strlen(id) < ROUTER_REQUEST_ID_MAX);
    (void)advance(slots, now_ms);
    return step(slots, router_requests_find(&slots->requests, id), id, state, 0, changed);
}

enum kvt_err
router_request_table_prefilled(struct router_request_table *slots, const char *id, uint64_t now_ms,
                               bool *changed)
{
    return take_step(slots, id, ROUTER_PREFILLED, now_ms, changed);
}

enum kvt_err
router_request_table_end(struct router_request_table *slots, const char *id, uint64_t now_ms,
                         bool *changed)
{
    return take_step(slots, id, ROUTER_FREED, now_ms, changed);
}

/* The earliest of the heap if it is due. */
static struct router_row *
due_row(const struct router_request_table *slots, const struct router_deadlines *deadlines)
{
    struct router_deadline *first = router_deadlines_first(deadlines);

    return first != NULL && first->at_ms <= slots->now_ms ? row_of(first) : NULL;
}

void
router_request_table_expire(struct router_request_table *slots, uint64_t now_ms)
{
    struct router_row *row;

    (void)advance(slots, now_ms);
    for (int i = 0; i < ROUTER_REQUEST_TABLE_EXPIRE_MAX; i++) {
        row = due_row(slots, &slots->remembered);
        if (row == NULL)
            break;
        router_deadlines_remove(&slots->remembered, &row->deadline);
        router_requests_remove(&slots->requests, row);
    }
    for (int i = 0; i < ROUTER_REQUEST_TABLE_EXPIRE_MAX; i++) {
        row = due_row(slots, &slots->live);
        if (row == NULL)
            break;
        finish(slots, row, due(slots, 0));
        slots->expired++;
    }
}

/* Since it was added; of what is remembered, since it ended. */
static uint64_t
age_of(const struct router_request_table *slots, const struct router_row *row)
{
    const uint64_t at_ms = row->deadline.at_ms;

    /* The time it began may lie before the clock did. */
    return at_ms > slots->now_ms ? slots->options.expiry_ms - (at_ms - slots->now_ms)
                                 : slots->options.expiry_ms + (slots->now_ms - at_ms);
}

void
router_request_table_drop(struct router_request_table *slots, const struct router_worker *worker,
                          router_request_table_over_fn *is_over, void *arg, uint64_t now_ms)
{
    const uint32_t number = router_worker_load_find(&slots->columns, worker);
    struct router_row *row;
    struct router_row *next;

    (void)advance(slots, now_ms);
    if (number == ROUTER_WORKER_LOAD_NONE)
        return;
    for (row = *router_worker_load_mark(&slots->columns, number); row != NULL; row = next) {
        const struct router_given given = {.id = row->id,
                                           .router = row->router,
                                           .added_ms = row->added_ms,
                                           .age_ms = age_of(slots, row)};

        next = row->worker_next;
        if (is_over == NULL || is_over(arg, &given))
            finish(slots, row, due(slots, 0));
    }
}

void
router_request_table_project(struct router_request_table *slots, const uint64_t *hashes,
                             uint32_t hash_count, uint32_t blocks,
                             struct router_candidates *candidates)
{
    struct router_worker_load *columns = &slots->columns;

    assert(hash_count <= blocks);
    if (hash_count > ROUTER_REQUEST_HASHES_MAX)
        hash_count = ROUTER_REQUEST_HASHES_MAX;
    for (uint32_t i = 0; i < columns->bound; i++)
        columns->scratch[i] = columns->blocks[i] + blocks;
    router_prompt_tree_subtract(&slots->prefixes, hashes, hash_count, columns->places,
                                columns->scratch);
    candidates->count = columns->bound;
    candidates->active_prefill_tokens = columns->prefill_tokens;
    candidates->decode_blocks = columns->scratch;
    candidates->active_requests = columns->requests;
}

static void
show(const struct router_request_table *slots, const struct router_row *row,
     struct router_request *request)
{
    *request = (struct router_request){.state = row->state, .age_ms = age_of(slots, row)};
    (void)snprintf(request->id, sizeof(request->id), "%s", row->id);
    if (!row->live)
        return;
    request->worker = *router_worker_load_name(&slots->columns, row->worker);
    request->router = row->router;
    request->added_ms = row->added_ms;
    request->prefill_tokens = row->prefill_tokens;
    request->hash_count = row->hash_count;
    request->blocks = row->blocks;
    request->hashes = slots->hashes;
    router_prompt_tree_read(&slots->prefixes, row->end, slots->hashes);
}

enum kvt_err
router_request_table_get(const struct router_request_table *slots, const char *id,
                         struct router_request *request)
{
    const struct router_row *row = router_requests_find(&slots->requests, id);

    *request = (struct router_request){0};
    if (row == NULL)
        return KVT_NOTFOUND;
    show(slots, row, request);
    return KVT_OK;
}

bool
router_request_table_each(const struct router_request_table *slots, uint64_t *cursor, size_t max,
                          router_request_table_fn *callback, void *arg)
{
    const struct router_row *row = router_requests_from(&slots->requests, *cursor);
    struct router_request request;

    for (size_t shown = 0; row != NULL; shown++) {
        *cursor = row->key;
        if (shown >= max)
            return true;
        show(slots, row, &request);
        if (!callback(arg, &request))
            return true;
        if (row->next != NULL)
            row = row->next;
        else if (row->key == UINT64_MAX)
            row = NULL;
        else
            row = router_requests_from(&slots->requests, row->key + 1);
    }
    return false;
}

uint64_t
router_request_table_digest(const struct router_request_table *slots)
{
    return slots->digest;
}

struct router_request_table_stats
router_request_table_stats(const struct router_request_table *slots)
{
    return (struct router_request_table_stats){
        .requests = slots->live.count,
        .tombstones = slots->remembered.count,
        .blocks = slots->blocks,
        .expired = slots->expired,
        .untracked = slots->untracked,
    };
}
