#include "advisor/plan/plan_document.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/job/jobs.h"
#include "base/core/alloc.h"
#include "base/text/json.h"

struct move {
    struct kvt_order_item item;
    uint64_t size;
    uint32_t next; /* of its group; UINT32_MAX: the last */
};

/* Moves of one kind, in the order in which they came. */
struct group {
    enum kvt_order_verb verb;
    char gateway[KVT_NAME_MAX];
    char tier[KVT_NAME_MAX];
    char goes[KVT_NAME_MAX];
    char namespace_[KVT_NAMESPACE_MAX];
    char rule[POLICY_NAME_MAX];
    int32_t from;
    int32_t to;
    uint32_t first;
    uint32_t last;
    uint64_t blocks;
    uint64_t shards;
    uint64_t bytes;
    /* Of its last row of moves. */
    uint32_t row_blocks;
    uint64_t row_bytes;
};

struct advisor_plan {
    struct move *moves;
    size_t count;
    size_t capacity;
    struct group *groups;
    size_t group_count;
    size_t group_capacity;
    size_t recent;  /* group of the last move */
    size_t batches; /* of the job that does it */
};

enum kvt_err
advisor_plan_new(struct advisor_plan **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

void
advisor_plan_free(struct advisor_plan *plan)
{
    if (plan == NULL)
        return;
    kvt_free(plan->moves);
    kvt_free(plan->groups);
    kvt_free(plan);
}

static void
add_text(struct kvt_buffer *out, const char *key, const char *text)
{
    kvt_buffer_printf(out, "\"%s\":", key);
    kvt_buffer_json_string(out, text);
}

/* ---- taking moves ---- */

static bool
is_of(const struct group *group, const struct advisor_plan_move *move)
{
    return group->verb == move->verb && strcmp(group->gateway, move->gateway) == 0 &&
           strcmp(group->tier, move->tier) == 0 && strcmp(group->goes, move->goes) == 0 &&
           strcmp(group->namespace_, move->namespace_) == 0 && strcmp(group->rule, move->rule) == 0;
}

/* The group of the move, made on first use; NULL: no memory, or no more of them. */
static struct group *
group_of(struct advisor_plan *plan, const struct advisor_plan_move *move)
{
    struct group *group;
    void *more;

    if (plan->recent < plan->group_count && is_of(&plan->groups[plan->recent], move))
        return &plan->groups[plan->recent];
    for (size_t i = 0; i < plan->group_count; i++)
        if (is_of(&plan->groups[i], move)) {
            plan->recent = i;
            return &plan->groups[i];
        }
    more =
        kvt_grow(plan->groups, &plan->group_capacity, plan->group_count + 1, sizeof(*plan->groups));
    if (more == NULL)
        return NULL;
    plan->groups = more;
    plan->recent = plan->group_count;
    group = &plan->groups[plan->group_count++];
    *group = (struct group){.verb = move->verb,
                            .from = move->from,
                            .to = move->to,
                            .first = UINT32_MAX,
                            .last = UINT32_MAX};
    (void)snprintf(group->gateway, sizeof(group->gateway), "%s", move->gateway);
    (void)snprintf(group->tier, sizeof(group->tier), "%s", move->tier);
    (void)snprintf(group->goes, sizeof(group->goes), "%s", move->goes);
    (void)snprintf(group->namespace_, sizeof(group->namespace_), "%s", move->namespace_);
    (void)snprintf(group->rule, sizeof(group->rule), "%s", move->rule);
    return group;
}

/* What a job makes of the group's last row. */
static size_t
row_batches(const struct group *group)
{
    return group->row_blocks == 0 ? 0 : advisor_jobs_batches(group->row_bytes, group->row_blocks);
}

/* Count a move to its row, as write_batch() cuts them.  False: no job could have so many batches,
 * and nothing is counted. */
static bool
count_batches(struct advisor_plan *plan, struct group *group, uint64_t bytes)
{
    const struct group former = *group;
    size_t batches = plan->batches - row_batches(group);

    if (group->row_blocks == KVT_ORDER_ITEMS_MAX) { /* another row */
        batches = plan->batches;
        group->row_blocks = 0;
        group->row_bytes = 0;
    }
    group->row_blocks++;
    group->row_bytes += bytes;
    batches += row_batches(group);
    if (batches > ADVISOR_JOB_BATCHES_MAX) {
        *group = former;
        return false;
    }
    plan->batches = batches;
    return true;
}

enum kvt_err
advisor_plan_append(struct advisor_plan *plan, const struct advisor_plan_move *move)
{
    const uint32_t shards = (uint32_t)__builtin_popcount(move->item.ranks);
    struct group *group;
    void *more;

    if (plan->count == ADVISOR_PLAN_MOVES_MAX)
        return KVT_FULL;
    more = kvt_grow(plan->moves, &plan->capacity, plan->count + 1, sizeof(*plan->moves));
    if (more == NULL)
        return KVT_NOMEM;
    plan->moves = more;
    group = group_of(plan, move);
    if (group == NULL)
        return KVT_NOMEM;
    if (plan->group_count > ADVISOR_PLAN_GROUPS_MAX ||
        !count_batches(plan, group, move->size * shards)) {
        plan->group_count -= group->first == UINT32_MAX ? 1 : 0;
        return KVT_FULL;
    }
    plan->moves[plan->count] =
        (struct move){.item = move->item, .size = move->size, .next = UINT32_MAX};
    if (group->last == UINT32_MAX)
        group->first = (uint32_t)plan->count;
    else
        plan->moves[group->last].next = (uint32_t)plan->count;
    group->last = (uint32_t)plan->count++;
    group->blocks++;
    group->shards += shards;
    group->bytes += move->size * shards;
    return KVT_OK;
}

/* ---- the summary ---- */

struct sum {
    char name[KVT_NAMESPACE_MAX];
    uint64_t blocks;
    uint64_t bytes;
};

static void
tenant_of(const struct group *group, char name[KVT_NAMESPACE_MAX])
{
    (void)snprintf(name, KVT_NAMESPACE_MAX, "%.*s", (int)strcspn(group->namespace_, "/"),
                   group->namespace_);
}

static void
rule_of(const struct group *group, char name[KVT_NAMESPACE_MAX])
{
    (void)snprintf(name, KVT_NAMESPACE_MAX, "%s", group->rule);
}

static void
tier_of(const struct group *group, char name[KVT_NAMESPACE_MAX])
{
    (void)snprintf(name, KVT_NAMESPACE_MAX, "%s", group->tier);
}

static int
by_bytes(const void *left, const void *right)
{
    const struct sum *a = left;
    const struct sum *b = right;

    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The biggest first. */
static void
write_sums(const char *key, struct sum *sums, size_t count, struct kvt_buffer *out)
{
    qsort(sums, count, sizeof(*sums), by_bytes);
    kvt_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count && i < ADVISOR_PLAN_TOP; i++) {
        kvt_buffer_printf(out, "%s{", i == 0 ? "" : ",");
        add_text(out, "name", sums[i].name);
        kvt_buffer_printf(out, ",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", sums[i].blocks,
                          sums[i].bytes);
    }
    kvt_buffer_printf(out, "]");
}

static enum kvt_err
write_biggest(const struct advisor_plan *plan, const char *key,
              void (*name_of)(const struct group *group, char name[KVT_NAMESPACE_MAX]),
              struct kvt_buffer *out)
{
    struct sum *sums = kvt_calloc(plan->group_count + 1, sizeof(*sums));
    size_t count = 0;

    if (sums == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < plan->group_count; i++) {
        char name[KVT_NAMESPACE_MAX];
        size_t at = 0;

        name_of(&plan->groups[i], name);
        while (at < count && strcmp(sums[at].name, name) != 0)
            at++;
        if (at == count)
            memcpy(sums[count++].name, name, sizeof(name));
        sums[at].blocks += plan->groups[i].blocks;
        sums[at].bytes += plan->groups[i].bytes;
    }
    write_sums(key, sums, count, out);
    kvt_free(sums);
    return KVT_OK;
}

/* Of those that have any. */
static enum kvt_err
write_given(const struct advisor_plan_sum *given, size_t given_count, const char *key,
            struct kvt_buffer *out)
{
    struct sum *sums = kvt_calloc(given_count + 1, sizeof(*sums));
    size_t count = 0;

    if (sums == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < given_count; i++) {
        if (given[i].blocks == 0)
            continue;
        (void)snprintf(sums[count].name, sizeof(sums[count].name), "%s", given[i].name);
        sums[count].blocks = given[i].blocks;
        sums[count++].bytes = given[i].bytes;
    }
    write_sums(key, sums, count, out);
    kvt_free(sums);
    return KVT_OK;
}

static int
by_quota(const void *left, const void *right)
{
    const struct advisor_plan_quota *a = left;
    const struct advisor_plan_quota *b = right;
    const int tenants = strcmp(a->tenant, b->tenant);

    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return tenants != 0 ? tenants : strcmp(a->tier, b->tier);
}

static void
write_quota(const struct advisor_plan_quota *quota, struct kvt_buffer *out)
{
    kvt_buffer_puts(out, "{");
    add_text(out, "tenant", quota->tenant);
    kvt_buffer_puts(out, ",");
    add_text(out, "tier", quota->tier);
    kvt_buffer_printf(out,
                      ",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"soft_bytes\":%" PRIu64
                      ",\"hard_bytes\":%" PRIu64 ",\"used_bytes\":%" PRIu64
                      ",\"left_bytes\":%" PRIu64 ",\"refused_blocks\":%" PRIu64
                      ",\"refused_bytes\":%" PRIu64 "}",
                      quota->blocks, quota->bytes, quota->soft, quota->hard, quota->before,
                      quota->after, quota->refused_blocks, quota->refused_bytes);
}

/* Those for which something leaves or may not come, and those that stay above; biggest first. */
static enum kvt_err
write_quotas(const struct advisor_plan_frame *frame, struct kvt_buffer *out)
{
    struct advisor_plan_quota *list = kvt_calloc(frame->quota_count + 1, sizeof(*list));
    size_t count = 0;

    if (list == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < frame->quota_count; i++)
        if (frame->quotas[i].blocks > 0 || frame->quotas[i].refused_blocks > 0 ||
            frame->quotas[i].after > frame->quotas[i].soft)
            list[count++] = frame->quotas[i];
    qsort(list, count, sizeof(*list), by_quota);
    kvt_buffer_puts(out, ",\"quotas\":[");
    for (size_t i = 0; i < count && i < ADVISOR_PLAN_TOP; i++) {
        kvt_buffer_puts(out, i == 0 ? "" : ",");
        write_quota(&list[i], out);
    }
    kvt_buffer_puts(out, "]");
    kvt_free(list);
    return KVT_OK;
}

/* Requests, and what they cost by the tiers' prices, in billionths. */
static void
price_of(const struct group *group, const struct policy *policy, uint64_t *requests,
         uint64_t *billionths)
{
    const struct policy_prices *from =
        group->from < 0 ? NULL : &policy_tier_at(policy, (size_t)group->from)->prices;
    const struct policy_prices *to =
        group->to < 0 ? NULL : &policy_tier_at(policy, (size_t)group->to)->prices;
    unsigned __int128 cost = 0;

    *requests = 0;
    switch (group->verb) {
    case KVT_ORDER_DEMOTE:
    case KVT_ORDER_PROMOTE:
    case KVT_ORDER_WARM:
        *requests = group->shards;
        if (from != NULL)
            cost += (unsigned __int128)group->shards * from->get_1k / 1000 +
                    (unsigned __int128)group->bytes * from->egress_gib / (UINT64_C(1) << 30);
        if (to != NULL)
            cost += (unsigned __int128)group->shards * to->put_1k / 1000;
        break;
    case KVT_ORDER_DELETE: *requests = group->shards; break;
    case KVT_ORDER_NONE:
    case KVT_ORDER_COMPACT:
    case KVT_ORDER_PIN:
    case KVT_ORDER_UNPIN: break;
    }
    *billionths = (uint64_t)cost;
}

static void
write_verbs(const struct advisor_plan *plan, struct kvt_buffer *out)
{
    bool any = false;

    kvt_buffer_printf(out, ",\"verbs\":{");
    for (int verb = 1; verb <= KVT_ORDER_VERB_LAST; verb++) {
        uint64_t blocks = 0;
        uint64_t bytes = 0;

        for (size_t i = 0; i < plan->group_count; i++) {
            blocks +=
                plan->groups[i].verb == (enum kvt_order_verb)verb ? plan->groups[i].blocks : 0;
            bytes += plan->groups[i].verb == (enum kvt_order_verb)verb ? plan->groups[i].bytes : 0;
        }
        if (blocks == 0)
            continue;
        kvt_buffer_printf(out, "%s\"%s\":{\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                          any ? "," : "", kvt_order_verb_name((enum kvt_order_verb)verb), blocks,
                          bytes);
        any = true;
    }
    kvt_buffer_printf(out, "}");
}

static enum kvt_err
write_summary(const struct advisor_plan *plan, const struct advisor_plan_frame *frame,
              struct kvt_buffer *out)
{
    uint64_t billionths = 0;
    uint64_t requests = 0;
    uint64_t bytes = 0;
    enum kvt_err rc;

    for (size_t i = 0; i < plan->group_count; i++) {
        uint64_t some;
        uint64_t price;

        price_of(&plan->groups[i], frame->rules->policy, &some, &price);
        requests += some;
        billionths += price;
        bytes += plan->groups[i].bytes;
    }
    kvt_buffer_printf(out, "{\"blocks\":%zu,\"bytes\":%" PRIu64 ",\"requests\":%" PRIu64,
                      plan->count, bytes, requests);
    if (frame->bytes_per_s == 0)
        kvt_buffer_printf(out, ",\"eta_s\":null");
    else
        kvt_buffer_printf(out, ",\"eta_s\":%" PRIu64, bytes / frame->bytes_per_s + 1);
    kvt_buffer_printf(out, ",\"cost\":%" PRIu64 ".%09" PRIu64, billionths / 1000000000,
                      billionths % 1000000000);
    write_verbs(plan, out);
    rc = write_biggest(plan, "tiers", tier_of, out);
    if (rc == KVT_OK)
        rc = write_biggest(plan, "rules", rule_of, out);
    if (rc == KVT_OK)
        rc = write_biggest(plan, "tenants", tenant_of, out);
    if (rc == KVT_OK)
        rc = write_given(frame->classes, frame->class_count, "classes", out);
    if (rc == KVT_OK)
        rc = write_given(frame->pins, frame->pin_count, "pins", out);
    if (rc == KVT_OK)
        rc = write_quotas(frame, out);
    kvt_buffer_printf(out, ",\"cut\":%s,\"warnings\":[", frame->cut ? "true" : "false");
    for (size_t i = 0; i < frame->warning_count; i++) {
        kvt_buffer_puts(out, i == 0 ? "" : ",");
        kvt_buffer_json_string(out, frame->warnings[i]);
    }
    kvt_buffer_printf(out, "]}");
    return rc;
}

/* ---- the document ---- */

/* People agree to the summary, so it is signed as whoever applies the plan will read it. */
static enum kvt_err
sign_summary(struct advisor_plan_digest *digest, const char *text, size_t size)
{
    struct json_object *summary;
    struct kvt_error err = {0};

    if (kvt_json_parse(&summary, text, size, "summary", &err) != KVT_OK)
        return KVT_NOMEM;
    advisor_plan_digest_json(digest, summary);
    (void)json_object_put(summary);
    return KVT_OK;
}

/* A batch: the next moves of a group, as far as an order goes.  Returns where it goes on. */
static uint32_t
write_batch(const struct advisor_plan *plan, const struct group *group, uint32_t at,
            struct advisor_plan_digest *digest, struct kvt_buffer *out)
{
    const char *verb = kvt_order_verb_name(group->verb);
    uint32_t count = 0;

    advisor_plan_digest_text(digest, verb);
    advisor_plan_digest_text(digest, group->gateway);
    advisor_plan_digest_text(digest, group->tier);
    advisor_plan_digest_text(digest, group->namespace_);
    advisor_plan_digest_text(digest, group->rule);
    if (group->goes[0] != '\0')
        advisor_plan_digest_text(digest, group->goes);
    kvt_buffer_printf(out, "{\"verb\":\"%s\",", verb);
    add_text(out, "gateway", group->gateway);
    kvt_buffer_puts(out, ",");
    add_text(out, "tier", group->tier);
    kvt_buffer_puts(out, ",");
    add_text(out, "namespace", group->namespace_);
    kvt_buffer_puts(out, ",");
    add_text(out, "rule", group->rule);
    if (group->goes[0] != '\0') {
        kvt_buffer_puts(out, ",");
        add_text(out, "to", group->goes);
    }
    kvt_buffer_printf(out, ",\"blocks\":[");
    for (; at != UINT32_MAX && count < KVT_ORDER_ITEMS_MAX; at = plan->moves[at].next, count++) {
        char text[ADVISOR_PLAN_BLOCK_MAX];

        advisor_plan_block_format(&plan->moves[at].item, plan->moves[at].size, text);
        advisor_plan_digest_text(digest, text);
        kvt_buffer_printf(out, "%s\"%s\"", count == 0 ? "" : ",", text);
    }
    kvt_buffer_puts(out, "]}");
    return at;
}

enum kvt_err
advisor_plan_write(const struct advisor_plan *plan, const struct advisor_plan_frame *frame,
                   struct kvt_buffer *out)
{
    struct advisor_plan_digest *digest = advisor_plan_digest_new();
    char hex[ADVISOR_PLAN_DIGEST_MAX];
    bool any = false;
    size_t at_summary;
    enum kvt_err rc;

    if (digest == NULL)
        return KVT_NOMEM;
    kvt_buffer_printf(out,
                      "{\"schema_version\":1,\"kind\":\"kvtier-plan\",\"created_ms\":%" PRIu64
                      ",\"base_version\":%" PRIu64 ",",
                      frame->created_ms, frame->base_version);
    add_text(out, "base_digest", frame->base_digest);
    kvt_buffer_puts(out, ",");
    add_text(out, "policy_digest", frame->rules->digest);
    kvt_buffer_puts(out, ",");
    add_text(out, "policy", frame->rules->text);
    kvt_buffer_puts(out, ",\"summary\":");
    at_summary = out->size;
    rc = write_summary(plan, frame, out);
    advisor_plan_digest_text(digest, "kvtier-plan 2");
    advisor_plan_digest_number(digest, frame->created_ms);
    advisor_plan_digest_number(digest, frame->base_version);
    advisor_plan_digest_text(digest, frame->base_digest);
    advisor_plan_digest_text(digest, frame->rules->digest);
    if (rc == KVT_OK && kvt_buffer_ok(out)) /* else it is told below */
        rc = sign_summary(digest, kvt_buffer_text(out) + at_summary, out->size - at_summary);
    kvt_buffer_printf(out, ",\"moves\":[");
    for (size_t i = 0; i < plan->group_count; i++)
        for (uint32_t at = plan->groups[i].first; at != UINT32_MAX; any = true) {
            kvt_buffer_puts(out, any ? "," : "");
            at = write_batch(plan, &plan->groups[i], at, digest, out);
        }
    advisor_plan_digest_end(digest, hex);
    kvt_buffer_printf(out, "],\"digest\":\"%s\"}", hex);
    if (rc != KVT_OK || hex[0] == '\0')
        return KVT_NOMEM;
    return kvt_buffer_ok(out) ? KVT_OK : KVT_RANGE;
}
