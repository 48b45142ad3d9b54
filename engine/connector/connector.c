#include "engine/connector/connector.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "engine/connector/connector_internal.h"

enum { PREFIX_DEPTH = 8 };

/* ---- requests ---- */

static struct engine_request **
bucket_of(struct engine_connector *connector, const char *id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (const char *at = id; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    return &connector->buckets[hash & (REQUEST_BUCKETS - 1)];
}

struct engine_request *
engine_request_find(struct engine_connector *connector, const char *id)
{
    struct engine_request *request = *bucket_of(connector, id);

    while (request != NULL && strcmp(request->id, id) != 0)
        request = request->next;
    return request;
}

static enum kvt_err
request_new(struct engine_connector *connector, const char *id, struct engine_request **out)
{
    struct engine_request **bucket = bucket_of(connector, id);
    struct engine_request *request;
    enum kvt_err rc;

    *out = NULL;
    if (connector->stats.requests == ENGINE_REQUESTS_MAX)
        return KVT_FULL;
    request = kvt_calloc(1, sizeof(*request));
    if (request == NULL)
        return KVT_NOMEM;
    rc = kvt_sequence_new(&request->sequence, connector->options.block_tokens,
                          connector->options.seed, NULL);
    if (rc != KVT_OK) {
        kvt_free(request);
        return rc;
    }
    memcpy(request->id, id, strlen(id) + 1);
    request->ok = true;
    request->next = *bucket;
    *bucket = request;
    connector->stats.requests++;
    *out = request;
    return KVT_OK;
}

static void
unlist_told(struct engine_connector *connector, struct engine_request *request)
{
    struct engine_request **at = &connector->told;

    if (!request->told_listed)
        return;
    while (*at != request)
        at = &(*at)->told_next;
    *at = request->told_next;
    if (connector->told_last == &request->told_next)
        connector->told_last = at;
    request->told_listed = false;
}

static void
drop_match(struct engine_request *request)
{
    engine_match_release(request->match);
    request->match = NULL;
    request->known = false;
    request->found = 0;
}

static void
request_free(struct engine_connector *connector, struct engine_request *request)
{
    struct engine_request **at = bucket_of(connector, request->id);

    assert(request->transfers == 0);
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    unlist_told(connector, request);
    drop_match(request);
    engine_request_drop_due(connector, request);
    kvt_sequence_free(request->sequence);
    kvt_free(request->table);
    kvt_free(request);
    connector->stats.requests--;
}

void
engine_request_tell(struct engine_connector *connector, struct engine_request *request)
{
    if (request->told_listed)
        return;
    request->told_listed = true;
    request->told_next = NULL;
    *connector->told_last = request;
    connector->told_last = &request->told_next;
}

void
engine_request_drop_due(struct engine_connector *connector, struct engine_request *request)
{
    struct engine_request **at = &connector->due;

    if (!request->due_listed)
        return;
    while (*at != request)
        at = &(*at)->due_next;
    *at = request->due_next;
    if (connector->due_last == &request->due_next)
        connector->due_last = at;
    request->due_listed = false;
    kvbm_pool_drop_all(connector->options.g2, request->due, request->due_count);
    kvt_free(request->due);
    request->due = NULL;
    connector->due_blocks -= request->due_count;
    request->due_count = 0;
}

/* ---- the connector ---- */

enum kvt_err
engine_connector_open(struct engine_connector **out, const struct engine_connector_options *options,
                      struct kvt_error *err)
{
    struct engine_connector *connector;

    *out = NULL;
    if (options->leader == NULL || options->g2 == NULL || options->ranks == 0 ||
        options->ranks > KVT_RANKS_MAX || options->g1_blocks == 0 || options->block_tokens == 0 ||
        options->block_tokens > KVT_BLOCK_TOKENS_MAX)
        return kvt_error_set(err, KVT_INVALID, "a connector needs a leader, ranks and blocks");
    connector = kvt_calloc(1, sizeof(*connector));
    if (connector == NULL)
        return kvt_error_set(err, KVT_NOMEM, "a connector");
    connector->options = *options;
    if (connector->options.prefix_depth == 0)
        connector->options.prefix_depth = PREFIX_DEPTH;
    connector->next_id = 1;
    connector->due_last = &connector->due;
    connector->told_last = &connector->told;
    connector->loading = kvt_calloc(options->g1_blocks, sizeof(*connector->loading));
    if (connector->loading == NULL ||
        kvbm_block_map_init(&connector->saving, ENGINE_SAVES_MAX) != KVT_OK) {
        kvt_free(connector->loading);
        kvt_free(connector);
        return kvt_error_set(err, KVT_NOMEM, "a connector for %u blocks", options->g1_blocks);
    }
    *out = connector;
    return KVT_OK;
}

void
engine_connector_close(struct engine_connector *connector)
{
    if (connector == NULL)
        return;
    for (uint32_t rank = 0; rank < connector->options.ranks; rank++)
        engine_connector_lost(connector, rank);
    assert(connector->stats.transfers == 0);
    for (size_t i = 0; i < REQUEST_BUCKETS; i++)
        while (connector->buckets[i] != NULL)
            request_free(connector, connector->buckets[i]);
    kvbm_block_map_release(&connector->saving);
    kvt_free(connector->loading);
    kvt_free(connector->invalid);
    kvt_free(connector);
}

/* ---- what need not be computed ---- */

/* Its tokens are these: mostly those it has, or some more. */
static enum kvt_err
follow(struct engine_request *request, const uint32_t *tokens, size_t count)
{
    size_t known;
    const uint32_t *old = kvt_sequence_tokens(request->sequence, &known);
    const size_t both = known < count ? known : count;
    size_t same = 0;
    enum kvt_err rc;

    if (both > 0 && memcmp(old, tokens, both * sizeof(*tokens)) == 0)
        same = both;
    if (same < known) {
        rc = kvt_sequence_truncate(request->sequence, same, NULL);
        if (rc != KVT_OK)
            return rc;
        drop_match(request);
        request->saved = 0;
    }
    request->forgotten = false;
    return kvt_sequence_append(request->sequence, tokens + same, count - same, NULL);
}

enum kvt_err
engine_request_label(const struct engine_connector *connector, const struct engine_request *request,
                     uint32_t position, struct kvbm_label *label)
{
    const uint32_t depth = connector->options.prefix_depth;
    size_t count;
    const uint64_t *hashes = kvt_sequence_hashes(request->sequence, &count);
    enum kvt_err rc =
        kvt_sequence_block(request->sequence, position, &label->id, &label->tokens_hash);

    label->prefix_hash = 0;
    if (rc == KVT_OK)
        label->prefix_hash = hashes[position < depth ? position : depth - 1];
    return rc;
}

static enum kvt_err
find(struct engine_connector *connector, struct engine_request *request, uint32_t from,
     uint32_t count)
{
    struct engine_find wanted = {.mode = ENGINE_FULL,
                                 .peers = connector->options.peers,
                                 .objects = connector->options.objects,
                                 .wait_ms = connector->options.find_ms};
    struct kvbm_label *labels;
    enum kvt_err rc = KVT_OK;

    if (count > ENGINE_FIND_MAX)
        count = ENGINE_FIND_MAX;
    labels = kvt_calloc(count, sizeof(*labels));
    if (labels == NULL)
        return KVT_NOMEM;
    for (uint32_t i = 0; i < count && rc == KVT_OK; i++)
        rc = engine_request_label(connector, request, from + i, &labels[i]);
    wanted.labels = labels;
    wanted.count = count;
    if (rc == KVT_OK)
        rc = engine_leader_find(connector->options.leader, &wanted, &request->match);
    if (rc != KVT_OK)
        request->match = NULL;
    else
        connector->stats.asked += count;
    request->from = from;
    kvt_free(labels);
    return rc;
}

/* What has become of the search. */
static void
look(struct engine_connector *connector, struct engine_request *request)
{
    struct engine_match_view view;

    if (request->known || request->match == NULL)
        return;
    engine_match_view(request->match, &view);
    if (view.state < ENGINE_READY)
        return;
    request->found = view.state == ENGINE_READY ? view.ready : 0;
    request->known = true;
    connector->stats.matched += request->found;
    if (request->found == 0) {
        engine_match_release(request->match);
        request->match = NULL;
    }
}

enum kvt_err
engine_connector_get_num_new_matched_tokens(struct engine_connector *connector, const char *id,
                                            const uint32_t *tokens, size_t count, size_t computed,
                                            struct engine_matched *matched)
{
    const uint32_t block_tokens = connector->options.block_tokens;
    struct engine_request *request = engine_request_find(connector, id);
    uint32_t from;
    uint32_t end;
    enum kvt_err rc = KVT_OK;

    *matched = (struct engine_matched){.known = true};
    if (id[0] == '\0' || strlen(id) >= ENGINE_REQUEST_ID_MAX || computed % block_tokens != 0 ||
        computed > count || count == 0 || count > ENGINE_REQUEST_TOKENS_MAX)
        return KVT_INVALID;
    if (request == NULL)
        rc = request_new(connector, id, &request);
    if (rc == KVT_OK && request->over)
        rc = KVT_INVALID;
    if (rc == KVT_OK)
        rc = follow(request, tokens, count);
    if (rc != KVT_OK) {
        if (request != NULL)
            request->forgotten = true;
        return rc;
    }
    engine_request_drop_due(connector, request);
    request->computed = computed;
    from = (uint32_t)(computed / block_tokens);
    end = (uint32_t)((count - 1) / block_tokens); /* the last token is always computed */
    if (from >= end)
        return KVT_OK;
    if ((request->known || request->match != NULL) && from < request->from)
        drop_match(request);
    if (!request->known && request->match == NULL) {
        rc = find(connector, request, from, end - from);
        if (rc != KVT_OK) /* nobody can look now: not a reason to wait */
            return rc == KVT_NOMEM ? rc : KVT_OK;
    }
    look(connector, request);
    matched->known = request->known;
    if (request->from + request->found < end)
        end = request->from + request->found;
    if (!request->known || end <= from)
        return KVT_OK;
    if (connector->due_blocks > 0 && connector->due_blocks + (end - from) > ENGINE_LOADS_MAX) {
        matched->known = false; /* one iteration would have too much to carry */
        return KVT_OK;
    }
    matched->tokens = (end - from) * block_tokens;
    matched->async = connector->options.async;
    return KVT_OK;
}

/* ---- its blocks ---- */

static enum kvt_err
append_table(struct engine_connector *connector, struct engine_request *request,
             const uint32_t *blocks, size_t count)
{
    uint32_t *table;

    for (size_t i = 0; i < count; i++)
        if (blocks[i] >= connector->options.g1_blocks)
            return KVT_INVALID;
    if (request->table_count + count > ENGINE_REQUEST_TOKENS_MAX)
        return KVT_INVALID;
    if (count == 0)
        return KVT_OK;
    table = kvt_grow(request->table, &request->table_capacity, request->table_count + count,
                     sizeof(*table));
    if (table == NULL)
        return KVT_NOMEM;
    request->table = table;
    memcpy(table + request->table_count, blocks, count * sizeof(*table));
    request->table_count += count;
    return KVT_OK;
}

/* From now on the match's blocks [from, from + count) are due. */
static enum kvt_err
take_due(struct engine_connector *connector, struct engine_request *request, uint32_t from,
         uint32_t count)
{
    const uint32_t skip = from - request->from;
    struct kvt_handle *handles = kvt_calloc(skip + count, sizeof(*handles));
    size_t taken;

    if (handles == NULL)
        return KVT_NOMEM;
    taken = engine_match_take(request->match, handles, skip + count);
    assert(taken == skip + count); /* READY does not become less */
    kvbm_pool_drop_all(connector->options.g2, handles, skip);
    memmove(handles, handles + skip, count * sizeof(*handles));
    request->due = handles;
    request->due_from = from;
    request->due_count = count;
    request->due_listed = true;
    request->due_next = NULL;
    *connector->due_last = request;
    connector->due_last = &request->due_next;
    connector->due_blocks += count;
    return KVT_OK;
}

enum kvt_err
engine_connector_update_state_after_alloc(struct engine_connector *connector, const char *id,
                                          const uint32_t *blocks, size_t count, size_t external)
{
    const uint32_t block_tokens = connector->options.block_tokens;
    struct engine_request *request = engine_request_find(connector, id);
    uint32_t from;
    enum kvt_err rc;

    if (request == NULL || request->over)
        return KVT_NOTFOUND;
    engine_request_drop_due(connector, request);
    request->table_count = 0;
    rc = append_table(connector, request, blocks, count);
    if (rc != KVT_OK)
        request->forgotten = true;
    from = (uint32_t)(request->computed / block_tokens);
    if (rc == KVT_OK && external > 0) {
        const size_t wanted = external / block_tokens;

        if (external % block_tokens != 0 || request->match == NULL || !request->known ||
            from < request->from || from + wanted > request->from + request->found ||
            from + wanted > count)
            rc = KVT_INVALID;
        else
            rc = take_due(connector, request, from, (uint32_t)wanted);
    }
    if (rc == KVT_OK && external > 0)
        request->fetching = connector->options.async;
    drop_match(request);
    return rc;
}

void
engine_request_schedule(struct engine_connector *connector, struct engine_request *request,
                        const struct engine_scheduled *scheduled)
{
    request->iteration = connector->iteration;
    if (append_table(connector, request, scheduled->new_blocks, scheduled->new_block_count) !=
            KVT_OK ||
        kvt_sequence_append(request->sequence, scheduled->new_tokens, scheduled->new_token_count,
                            NULL) != KVT_OK)
        request->forgotten = true;
}

/* ---- the end of a request ---- */

void
engine_connector_preempted(struct engine_connector *connector, const char *id)
{
    struct engine_request *request = engine_request_find(connector, id);

    if (request == NULL)
        return;
    drop_match(request);
    engine_request_drop_due(connector, request);
    request->table_count = 0;
    request->saved = 0;
    request->fetching = request->loaded = false;
    if (!request->over)
        unlist_told(connector, request);
    for (size_t i = 0; i < ENGINE_META_TRANSFERS_MAX && request->transfers > 0; i++) {
        struct transfer *transfer = connector->transfers[i];

        if (transfer != NULL && transfer->request == request)
            engine_transfer_fence(connector, transfer);
    }
}

bool
engine_connector_request_finished(struct engine_connector *connector, const char *id)
{
    struct engine_request *request = engine_request_find(connector, id);

    if (request == NULL)
        return false;
    if (request->over)
        return true;
    drop_match(request);
    engine_request_drop_due(connector, request);
    request->fetching = request->loaded = false;
    unlist_told(connector, request);
    if (request->transfers == 0) {
        request_free(connector, request);
        return false;
    }
    request->over = true;
    return true;
}

bool
engine_connector_finished(struct engine_connector *connector, struct engine_finished *finished)
{
    struct engine_request *request = connector->told;

    if (request == NULL)
        return false;
    unlist_told(connector, request);
    memcpy(finished->request, request->id, sizeof(finished->request));
    finished->loaded = !request->over;
    finished->ok = request->over ? request->ok : request->loaded_ok;
    request->loaded = false;
    if (request->over)
        request_free(connector, request);
    return true;
}

size_t
engine_connector_invalid(struct engine_connector *connector, uint32_t *blocks, size_t capacity)
{
    size_t count = 0;

    while (count < capacity && connector->invalid_count > 0)
        blocks[count++] = connector->invalid[--connector->invalid_count];
    return count;
}

void
engine_connector_stats(struct engine_connector *connector, struct engine_connector_stats *stats)
{
    *stats = connector->stats;
    stats->held += connector->due_blocks;
}
