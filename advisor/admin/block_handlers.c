#include <inttypes.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/selection/tier_kind.h"
#include "base/core/alloc.h"

/* What hangs below a block, which blocks of a tier are used least or most, what happened to one. */

enum {
    CANDIDATES_MAX = 10000,
    CHANGES_MAX = 1000,
    SUBTREE_BLOCKS_MAX = 10000000,
};

/* The block a question is about.  False: answered already. */
static bool
read_block(const struct advisor_admin *http, const struct kvt_http_request *request,
           struct kvt_http_response *response, uint32_t *ns, uint64_t *hash)
{
    const char *namespace_ = kvt_http_query(request, "namespace");
    const char *text = kvt_http_query(request, "hash");

    *ns = 0;
    *hash = 0;
    if (namespace_ == NULL)
        namespace_ = "";
    if (text == NULL || !kvt_hash_parse(text, hash)) {
        kvt_http_fail(response, 400, KVT_INVALID, "hash: want sixteen hex digits");
        return false;
    }
    if (index_namespace_find(http->finder.memory->index, namespace_, ns) != KVT_OK) {
        kvt_http_fail(
            response, 404, KVT_NOTFOUND,
            "the index knows no namespace \"%.80s\"; which there are: kvtier tenant usage",
            namespace_);
        return false;
    }
    return true;
}

/* RAM answers these; while it does not hold everything, or something was evicted, that is said. */
static void
begin(const struct advisor_admin *http, struct kvt_buffer *out)
{
    advisor_admin_begin(http, out);
    kvt_buffer_printf(out, "\"whole\":%s,", advisor_admin_whole(http) ? "true" : "false");
}

void
advisor_admin_subtree(void *arg, const struct kvt_http_request *request,
                      struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    static const char *const names[INDEX_PARTS] = {"hot", "warm", "cold", "far"};
    struct advisor_tier_kinds kinds;
    struct index_totals totals;
    const char *comma = "";
    uint64_t hash;
    uint32_t ns;
    enum kvt_err rc;

    if (!read_block(http, request, response, &ns, &hash))
        return;
    rc = advisor_planner_tier_kinds(http->planner, &kinds);
    if (rc == KVT_OK) {
        const struct index_far far = {.names = kinds.far, .count = kinds.far_count};

        rc = index_subtree(http->finder.memory->index, ns, hash, SUBTREE_BLOCKS_MAX, &far, &totals);
    }
    advisor_tier_kinds_release(&kinds);
    if (rc == KVT_NOMEM) {
        kvt_http_fail(response, 503, rc, "%s", kvt_err_text(rc));
        return;
    }
    if (rc == KVT_NOTFOUND) {
        kvt_http_fail(response, 404, rc,
                      "%s in namespace \"%.80s\": nobody holds this block; blocks that are read: "
                      "kvtier prefix top",
                      kvt_http_query(request, "hash"),
                      kvt_http_query(request, "namespace") == NULL
                          ? ""
                          : kvt_http_query(request, "namespace"));
        return;
    }
    begin(http, out);
    kvt_buffer_printf(out,
                      "\"complete\":%s,\"blocks\":%" PRIu64 ",\"places\":%" PRIu64 ",\"tiers\":[",
                      rc == KVT_OK ? "true" : "false", totals.blocks, totals.places);
    for (unsigned tier = KVT_TIER_G1; tier <= KVT_TIER_G4; tier++) {
        if (totals.tier_blocks[tier] == 0)
            continue;
        kvt_buffer_printf(out, "%s{\"tier\":\"%s\",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                          comma, kvt_tier_name((enum kvt_tier)tier), totals.tier_blocks[tier],
                          totals.tier_bytes[tier]);
        comma = ",";
    }
    kvt_buffer_printf(out, "]");
    for (unsigned part = 0; part < INDEX_PARTS; part++)
        kvt_buffer_printf(out, ",\"%s\":{\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                          names[part], totals.part_blocks[part], totals.part_bytes[part]);
    kvt_buffer_printf(out, "}");
}

static void
add_candidate(const struct advisor_admin *http, struct kvt_buffer *out,
              const struct index_candidate *candidate)
{
    char namespace_[KVT_NAMESPACE_MAX];
    char text[KVT_HASH_TEXT_MAX];

    index_namespace_name(http->finder.memory->index, candidate->ns, namespace_);
    kvt_hash_format(candidate->hash, text);
    kvt_buffer_printf(out, "{");
    advisor_admin_text(out, "namespace", namespace_);
    kvt_buffer_printf(out, ",\"hash\":\"%s\",\"used_ms\":%" PRIu64 ",\"hits\":%u}", text,
                      candidate->used_ms, candidate->hits);
}

void
advisor_admin_candidates(void *arg, const struct kvt_http_request *request,
                         struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    const char *order = kvt_http_query(request, "order");
    const char *name = kvt_http_query(request, "tier");
    struct kvt_buffer *out = &response->body;
    struct index_candidate *candidates;
    enum kvt_tier tier;
    uint64_t limit;
    size_t count;

    if (!advisor_admin_number(request, response, "limit", 100, CANDIDATES_MAX, &limit))
        return;
    if (name == NULL || !kvt_tier_parse(name, &tier)) {
        kvt_http_fail(response, 400, KVT_INVALID, "tier: want G1, G2, G3 or G4");
        return;
    }
    if (order == NULL || (strcmp(order, "coldest") != 0 && strcmp(order, "hottest") != 0)) {
        kvt_http_fail(response, 400, KVT_INVALID, "order: want coldest or hottest");
        return;
    }
    candidates = kvt_calloc((size_t)limit + 1, sizeof(*candidates));
    if (candidates == NULL) {
        kvt_http_fail(response, 503, KVT_NOMEM, "no memory for %" PRIu64 " candidates", limit);
        return;
    }
    count = index_candidates(http->finder.memory->index, tier, strcmp(order, "coldest") == 0,
                             candidates, (size_t)limit);
    begin(http, out);
    kvt_buffer_printf(out, "\"candidates\":[");
    for (size_t i = 0; i < count; i++) {
        kvt_buffer_printf(out, "%s", i > 0 ? "," : "");
        add_candidate(http, out, &candidates[i]);
    }
    kvt_buffer_printf(out, "]}");
    kvt_free(candidates);
}

void
advisor_admin_history(void *arg, const struct kvt_http_request *request,
                      struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct index *index = http->finder.memory->index;
    struct kvt_buffer *out = &response->body;
    struct index_past *past;
    uint64_t limit;
    uint64_t hash;
    uint32_t ns;
    size_t count;

    if (!advisor_admin_number(request, response, "limit", 100, CHANGES_MAX, &limit) ||
        !read_block(http, request, response, &ns, &hash))
        return;
    past = kvt_calloc((size_t)limit + 1, sizeof(*past));
    if (past == NULL) {
        kvt_http_fail(response, 503, KVT_NOMEM, "no memory for %" PRIu64 " changes", limit);
        return;
    }
    count = index_history(index, ns, hash, past, (size_t)limit);
    begin(http, out);
    kvt_buffer_printf(out, "\"remembered\":%u,\"changes\":[", INDEX_HISTORY_CHANGES);
    for (size_t i = 0; i < count; i++) {
        struct index_holder holder;
        uint64_t blocks;
        uint64_t bytes;

        index_holder_info(index, past[i].holder, &holder, &blocks, &bytes);
        kvt_buffer_printf(out, "%s{\"time_ms\":%" PRIu64 ",\"change\":\"%s\",", i > 0 ? "," : "",
                          past[i].time_ms, past[i].kind == INDEX_STORE ? "store" : "remove");
        advisor_admin_text(out, "holder", holder.name);
        kvt_buffer_printf(out, ",\"dp_rank\":%u,\"tier\":\"%s\"}", holder.dp_rank,
                          kvt_tier_name(holder.tier));
    }
    kvt_buffer_printf(out, "]}");
    kvt_free(past);
}
