#include <inttypes.h>
#include <stdio.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/admin/command_hint.h"
#include "base/core/alloc.h"
#include "base/text/json.h"

enum { CHILDREN_MAX = 64 };

/* ---- questions ---- */

static void
release(struct wire_query *question)
{
    kvt_free(question->hashes);
}

#define WANTED                                                                                     \
    "body: want {\"namespace\": text, \"hashes\": [sixteen hex digits, ...]}, or "                 \
    "\"tokens_hashes\" to find by local token hashes"

/* {"namespace": "...", "hashes": ["...", ...]}, find also {"tokens_hashes": [...], "early_exit"};
 * false: answered already. */
static bool
read_question(const struct kvt_http_request *request, struct kvt_http_response *response,
              struct wire_query *question)
{
    struct json_object *json = NULL;
    struct json_object *array;
    const char *namespace_ = "";
    struct kvt_error err;
    enum kvt_err rc;
    size_t count;

    *question = (struct wire_query){.namespace_ = ""};
    rc = kvt_json_parse(&json, (const char *)request->body, request->body_size, "body", &err);
    if (rc != KVT_OK) {
        kvt_http_fail(response, rc == KVT_NOMEM ? 503 : 400, rc, "%s", err.text);
        return false;
    }
    array = kvt_json_array(json, "hashes");
    if (array == NULL) {
        array = kvt_json_array(json, "tokens_hashes");
        question->by_tokens = true;
    }
    if (kvt_json_member(json, "namespace") != NULL)
        namespace_ = kvt_json_string(json, "namespace");
    if (array == NULL || namespace_ == NULL ||
        (kvt_json_member(json, "early_exit") != NULL &&
         !kvt_json_bool(json, "early_exit", &question->early_exit))) {
        kvt_http_fail(response, 400, KVT_INVALID, WANTED);
        goto fail;
    }
    if ((size_t)snprintf(question->namespace_, sizeof(question->namespace_), "%s", namespace_) >=
        sizeof(question->namespace_)) {
        kvt_http_fail(response, 400, KVT_RANGE, "namespace: at most %d bytes",
                      KVT_NAMESPACE_MAX - 1);
        goto fail;
    }
    count = json_object_array_length(array);
    if (count > WIRE_QUERY_HASHES_MAX) {
        kvt_http_fail(response, 413, KVT_RANGE, "%zu hashes; at most %d in one question", count,
                      WIRE_QUERY_HASHES_MAX);
        goto fail;
    }
    question->hash_count = (uint32_t)count;
    question->hashes = kvt_calloc(count + 1, sizeof(*question->hashes));
    if (question->hashes == NULL) {
        kvt_http_fail(response, 503, KVT_NOMEM, "no memory for %zu hashes", count);
        goto fail;
    }
    for (size_t i = 0; i < count; i++) {
        if (kvt_json_to_hash(json_object_array_get_idx(array, i), &question->hashes[i]))
            continue;
        kvt_http_fail(response, 400, KVT_INVALID, "%s[%zu]: want sixteen hex digits",
                      question->by_tokens ? "tokens_hashes" : "hashes", i);
        goto fail;
    }
    json_object_put(json);
    return true;

fail:
    json_object_put(json);
    release(question);
    return false;
}

static void
fail_find(struct kvt_http_response *response, enum kvt_err rc)
{
    kvt_http_fail(response, rc == KVT_NOTFOUND ? 404 : 503, rc, "%s", kvt_err_text(rc));
}

void
advisor_admin_find(void *arg, const struct kvt_http_request *request,
                   struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct wire_query_holder *holders;
    struct wire_query question;
    size_t count = 0;
    enum kvt_err rc = KVT_NOMEM;

    if (!read_question(request, response, &question))
        return;
    holders = kvt_calloc(WIRE_QUERY_HOLDERS_MAX, sizeof(*holders));
    if (holders != NULL)
        rc = advisor_finder_matches(&http->finder, &question, holders, WIRE_QUERY_HOLDERS_MAX,
                                    &count);
    if (rc != KVT_OK) {
        fail_find(response, rc);
    } else {
        advisor_admin_begin(http, out);
        kvt_buffer_printf(out, "\"matches\":[");
        for (size_t i = 0; i < count; i++) {
            kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
            advisor_admin_text(out, "holder", holders[i].name);
            kvt_buffer_printf(out,
                              ",\"dp_rank\":%u,\"tier\":\"%s\",\"blocks\":%u,\"uncertain\":%s}",
                              holders[i].dp_rank, kvt_tier_name(holders[i].tier), holders[i].blocks,
                              holders[i].uncertain ? "true" : "false");
        }
        kvt_buffer_printf(out, "]}");
        kvt_metric_inc(http->counters->queries, 1);
    }
    kvt_free(holders);
    release(&question);
}

static void
add_mask(struct kvt_buffer *out, unsigned mask)
{
    const char *comma = "";

    for (unsigned tier = KVT_TIER_G1; tier <= KVT_TIER_G4; tier++)
        if ((mask & KVT_TIER_MASK(tier)) != 0) {
            kvt_buffer_printf(out, "%s\"%s\"", comma, kvt_tier_name((enum kvt_tier)tier));
            comma = ",";
        }
}

void
advisor_admin_match(void *arg, const struct kvt_http_request *request,
                    struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct wire_query question;
    enum kvt_err rc = KVT_NOMEM;
    uint8_t *masks;

    if (!read_question(request, response, &question))
        return;
    if (question.by_tokens) {
        kvt_http_fail(response, 400, KVT_INVALID, "body: match takes hashes, not tokens_hashes");
        release(&question);
        return;
    }
    masks = kvt_calloc((size_t)question.hash_count + 1, 1);
    if (masks != NULL)
        rc = advisor_finder_masks(&http->finder, question.namespace_, question.hashes,
                                  question.hash_count, masks);
    if (rc != KVT_OK) {
        fail_find(response, rc);
    } else {
        advisor_admin_begin(http, out);
        kvt_buffer_printf(out, "\"blocks\":[");
        for (size_t i = 0; i < question.hash_count; i++) {
            char hash[KVT_HASH_TEXT_MAX];

            kvt_hash_format(question.hashes[i], hash);
            kvt_buffer_printf(out, "%s{\"hash\":\"%s\",\"tiers\":[", i > 0 ? "," : "", hash);
            add_mask(out, masks[i]);
            kvt_buffer_printf(out, "]}");
        }
        kvt_buffer_printf(out, "]}");
        kvt_metric_inc(http->counters->queries, 1);
    }
    kvt_free(masks);
    release(&question);
}

/* ---- one block ---- */

static void
add_places(struct kvt_buffer *out, const struct advisor_finder_block *block)
{
    kvt_buffer_printf(out, "\"places\":[");
    for (uint32_t i = 0; i < block->place_count && i < ADVISOR_FINDER_PLACES_MAX; i++) {
        const struct advisor_finder_place *place = &block->places[i];

        kvt_buffer_printf(out, "%s{", i > 0 ? "," : "");
        advisor_admin_text(out, "holder", place->holder.name);
        kvt_buffer_printf(out, ",\"dp_rank\":%u,\"tier\":\"%s\",\"ranks\":%u}",
                          place->holder.dp_rank, kvt_tier_name(place->holder.tier), place->ranks);
    }
    kvt_buffer_printf(out, "],\"place_count\":%u", block->place_count);
}

/* Where it is, in a word, and who says more: what becomes of it depends on the tier. */
static void
add_policy(struct kvt_buffer *out, const struct advisor_finder_block *block, uint64_t hash,
           const char *namespace_)
{
    char text[KVT_HASH_TEXT_MAX];
    char hint[ADVISOR_HINT_MAX];
    char why[ADVISOR_HINT_MAX + 64] = "only workers hold it: policies are not about those";
    bool hot = false;
    bool warm = false;
    bool cold = false;

    for (uint32_t i = 0; i < block->place_count && i < ADVISOR_FINDER_PLACES_MAX; i++) {
        hot = hot || advisor_holder_is_hot(&block->places[i].holder);
        warm = warm || advisor_holder_is_warm(&block->places[i].holder);
        cold = cold || advisor_holder_is_cold(&block->places[i].holder);
    }
    kvt_hash_format(hash, text);
    advisor_admin_hint(hint, "explain", text, namespace_);
    if (hot || warm || cold)
        (void)snprintf(why, sizeof(why), "which rule has it, and why: %s", hint);
    kvt_buffer_printf(out, "\"policy\":{\"verdict\":\"%s\",\"why\":[",
                      hot    ? "hot"
                      : warm ? "warm"
                      : cold ? "cold"
                             : "not-stored");
    kvt_buffer_json_string(out, why);
    kvt_buffer_printf(out, "]}");
}

void
advisor_admin_block(void *arg, const struct kvt_http_request *request,
                    struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    const char *namespace_ = kvt_http_query(request, "namespace");
    struct kvt_buffer *out = &response->body;
    struct advisor_finder_block *block;
    uint64_t children[CHILDREN_MAX];
    size_t child_count;
    uint64_t hash;
    enum kvt_err rc;

    if (namespace_ == NULL)
        namespace_ = "";
    if (!kvt_hash_parse(request->tail, &hash)) {
        kvt_http_fail(response, 400, KVT_INVALID, "\"%s\" is no hash", request->tail);
        return;
    }
    block = kvt_calloc(1, sizeof(*block));
    rc = block == NULL ? KVT_NOMEM : advisor_finder_block(&http->finder, namespace_, hash, block);
    if (rc != KVT_OK) {
        if (rc == KVT_NOTFOUND)
            kvt_http_fail(response, 404, rc, "nobody holds %s in namespace \"%s\"%s", request->tail,
                          namespace_, advisor_admin_hint_unknown(namespace_));
        else
            fail_find(response, rc);
        kvt_free(block);
        return;
    }
    advisor_admin_begin(http, out);
    advisor_admin_hash(out, "hash", hash);
    kvt_buffer_printf(out, ",");
    advisor_admin_hash(out, "parent", block->id.parent);
    kvt_buffer_printf(out, ",\"position\":%u,", block->id.position);
    advisor_admin_text(out, "namespace", namespace_);
    kvt_buffer_printf(out, ",");
    advisor_admin_hash(out, "tokens_hash", block->tokens_hash);
    kvt_buffer_printf(out, ",\"size\":%" PRIu64 ",\"ranks\":%u,", block->size, block->ranks);
    add_places(out, block);
    kvt_buffer_printf(out,
                      ",\"hits\":%" PRIu64 ",\"cold_hits\":%" PRIu64 ",\"last_access_ms\":%" PRIu64
                      ",\"children\":[",
                      block->hits, block->cold_hits, block->last_access_ms);
    child_count = advisor_finder_children(&http->finder, namespace_, hash, children, CHILDREN_MAX);
    for (size_t i = 0; i < child_count && i < CHILDREN_MAX; i++) {
        char text[KVT_HASH_TEXT_MAX];

        kvt_hash_format(children[i], text);
        kvt_buffer_printf(out, "%s\"%s\"", i > 0 ? "," : "", text);
    }
    kvt_buffer_printf(out, "],\"child_count\":%zu,\"children_whole\":%s,", child_count,
                      advisor_admin_whole(http) ? "true" : "false");
    add_policy(out, block, hash, namespace_);
    kvt_buffer_printf(out, "}");
    kvt_free(block);
}
