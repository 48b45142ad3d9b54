#include "engine/rank/rank_messages.h"

#include <string.h>

#include "engine/rpc/rpc_msgpack.h"

enum {
    HEAD_MEMBERS = 4,
    JOB_MEMBERS = 13,
    ITEM_MEMBERS = 7,
    ABOUT_MEMBERS = 8,
    OUTCOME_MEMBERS = 5
};

/* Requests --------------------------------------------------------------------------------- */

static uint32_t
members_of(enum engine_rank_message_method method)
{
    switch (method) {
    case ENGINE_RANK_MESSAGE_ABOUT: return 2;
    case ENGINE_RANK_MESSAGE_DESCRIBE:
    case ENGINE_RANK_MESSAGE_SHARE: return 3;
    case ENGINE_RANK_MESSAGE_CONNECT: return 5;
    default: return HEAD_MEMBERS;
    }
}

void
engine_rank_message_write(struct kvt_buffer *out, enum engine_rank_message_method method,
                          const struct engine_rank_message_head *head)
{
    const uint32_t members = members_of(method);

    engine_pack_array(out, members);
    engine_pack_number(out, ENGINE_RANK_MESSAGE_VERSION);
    if (members > 2)
        engine_pack_number(out, head->life);
    engine_pack_number(out, head->client);
    if (members > 3)
        engine_pack_number(out, head->number);
    if (members > 4)
        engine_pack_bytes(out, head->description, (uint32_t)head->size);
}

static void
read_version(struct engine_unpack *in)
{
    in->bad = engine_unpack_number(in, UINT32_MAX) != ENGINE_RANK_MESSAGE_VERSION || in->bad;
}

enum kvt_err
engine_rank_message_read(struct engine_rank_message_head *head,
                         enum engine_rank_message_method method, const uint8_t *bytes, size_t size)
{
    struct engine_unpack in = {bytes, size, false};
    const uint32_t members = engine_unpack_array(&in, members_of(method), members_of(method));

    memset(head, 0, sizeof(*head));
    read_version(&in);
    if (members > 2)
        head->life = engine_unpack_number(&in, UINT64_MAX);
    head->client = engine_unpack_number(&in, UINT64_MAX);
    if (members > 3)
        head->number = engine_unpack_number(&in, UINT64_MAX);
    if (members > 4)
        head->description = engine_unpack_bytes(&in, ENGINE_METADATA_MAX, &head->size);
    if (engine_unpack_end(&in))
        return KVT_OK;
    memset(head, 0, sizeof(*head));
    return KVT_INVALID;
}

/* About ------------------------------------------------------------------------------------ */

void
engine_rank_message_write_about(struct kvt_buffer *out,
                                const struct engine_rank_message_about *about)
{
    uint8_t layout[KVBM_LAYOUT_BYTES];

    kvbm_layout_serialize(&about->layout, layout);
    engine_pack_array(out, ABOUT_MEMBERS);
    engine_pack_number(out, ENGINE_RANK_MESSAGE_VERSION);
    engine_pack_number(out, about->life);
    engine_pack_bytes(out, layout, sizeof(layout));
    engine_pack_number(out, about->ranks);
    for (enum kvt_tier tier = KVT_TIER_G1; tier <= KVT_TIER_G3; tier++)
        engine_pack_number(out, about->blocks[tier]);
    engine_pack_number(out, about->objects);
}

enum kvt_err
engine_rank_message_read_about(struct engine_rank_message_about *about, const uint8_t *bytes,
                               size_t size)
{
    struct engine_unpack in = {bytes, size, false};
    const uint8_t *layout;
    size_t layout_size;

    memset(about, 0, sizeof(*about));
    (void)engine_unpack_array(&in, ABOUT_MEMBERS, ABOUT_MEMBERS);
    read_version(&in);
    about->life = engine_unpack_number(&in, UINT64_MAX);
    layout = engine_unpack_bytes(&in, KVBM_LAYOUT_BYTES, &layout_size);
    about->ranks = (uint32_t)engine_unpack_number(&in, KVT_RANKS_MAX);
    for (enum kvt_tier tier = KVT_TIER_G1; tier <= KVT_TIER_G3; tier++)
        about->blocks[tier] = (uint32_t)engine_unpack_number(&in, UINT32_MAX);
    about->objects = engine_unpack_number(&in, 1) == 1;
    if (engine_unpack_end(&in) && about->life != 0 && about->ranks != 0 && layout != NULL &&
        kvbm_layout_deserialize(&about->layout, layout, layout_size, NULL) == KVT_OK)
        return KVT_OK;
    memset(about, 0, sizeof(*about));
    return KVT_INVALID;
}

/* Jobs ------------------------------------------------------------------------------------- */

static void
write_item(struct kvt_buffer *out, const struct engine_item *item)
{
    engine_pack_array(out, ITEM_MEMBERS);
    engine_pack_number(out, item->label.id.hash);
    engine_pack_number(out, item->label.id.parent);
    engine_pack_number(out, item->label.id.position);
    engine_pack_number(out, item->label.prefix_hash);
    engine_pack_number(out, item->label.tokens_hash);
    engine_pack_number(out, item->source);
    engine_pack_number(out, item->target);
}

static void
read_item(struct engine_unpack *in, struct engine_item *item)
{
    (void)engine_unpack_array(in, ITEM_MEMBERS, ITEM_MEMBERS);
    item->label.id.hash = engine_unpack_number(in, UINT64_MAX);
    item->label.id.parent = engine_unpack_number(in, UINT64_MAX);
    item->label.id.position = (uint32_t)engine_unpack_number(in, UINT32_MAX);
    item->label.prefix_hash = engine_unpack_number(in, UINT64_MAX);
    item->label.tokens_hash = engine_unpack_number(in, UINT64_MAX);
    item->source = (uint32_t)engine_unpack_number(in, UINT32_MAX);
    item->target = (uint32_t)engine_unpack_number(in, UINT32_MAX);
    item->status = KVT_IO;
}

void
engine_rank_message_write_job(struct kvt_buffer *out, const struct engine_rank_message_head *head,
                              const struct engine_job *job)
{
    engine_pack_array(out, JOB_MEMBERS);
    engine_pack_number(out, ENGINE_RANK_MESSAGE_VERSION);
    engine_pack_number(out, head->life);
    engine_pack_number(out, head->client);
    engine_pack_number(out, head->number);
    engine_pack_number(out, job->verb);
    engine_pack_number(out, job->from);
    engine_pack_number(out, job->to);
    engine_pack_number(out, job->layer);
    engine_pack_number(out, job->layers);
    engine_pack_number(out, job->peer);
    engine_pack_number(out, job->priority);
    engine_pack_number(out, job->wait_ms);
    engine_pack_array(out, (uint32_t)job->count);
    for (size_t i = 0; i < job->count; i++)
        write_item(out, &job->items[i]);
}

enum kvt_err
engine_rank_message_read_job(struct engine_rank_message_head *head, struct engine_job *job,
                             struct engine_item *items, const uint8_t *bytes, size_t size)
{
    struct engine_unpack in = {bytes, size, false};

    memset(head, 0, sizeof(*head));
    memset(job, 0, sizeof(*job));
    (void)engine_unpack_array(&in, JOB_MEMBERS, JOB_MEMBERS);
    read_version(&in);
    head->life = engine_unpack_number(&in, UINT64_MAX);
    head->client = engine_unpack_number(&in, UINT64_MAX);
    head->number = engine_unpack_number(&in, UINT64_MAX);
    job->verb = (enum engine_verb)engine_unpack_number(&in, ENGINE_VERB_END - 1);
    job->from = (enum kvt_tier)engine_unpack_number(&in, KVT_TIER_G4);
    job->to = (enum kvt_tier)engine_unpack_number(&in, KVT_TIER_G4);
    job->layer = (uint32_t)engine_unpack_number(&in, UINT32_MAX);
    job->layers = (uint32_t)engine_unpack_number(&in, UINT32_MAX);
    job->peer = engine_unpack_number(&in, UINT64_MAX);
    job->priority = (enum kvt_priority)engine_unpack_number(&in, KVT_PRIORITY_COUNT - 1);
    job->wait_ms = engine_unpack_number(&in, UINT64_MAX);
    job->count = engine_unpack_array(&in, 1, ENGINE_ITEMS_MAX);
    job->items = items;
    memset(items, 0, job->count * sizeof(*items));
    for (size_t i = 0; i < job->count && !in.bad; i++)
        read_item(&in, &items[i]);
    if (engine_unpack_end(&in))
        return KVT_OK;
    memset(head, 0, sizeof(*head));
    memset(job, 0, sizeof(*job));
    return KVT_INVALID;
}

/* Outcomes --------------------------------------------------------------------------------- */

void
engine_rank_message_write_outcome(struct kvt_buffer *out, const struct engine_job *job,
                                  const struct engine_outcome *outcome)
{
    const char *text = outcome->error.text;

    engine_pack_array(out, OUTCOME_MEMBERS);
    engine_pack_number(out, ENGINE_RANK_MESSAGE_VERSION);
    engine_pack_number(out, outcome->status);
    engine_pack_bytes(out, text, (uint32_t)strnlen(text, KVT_ERROR_TEXT_MAX - 1));
    engine_pack_array(out, outcome->ranks);
    for (uint32_t i = 0; i < outcome->ranks; i++)
        engine_pack_number(out, outcome->by_rank[i]);
    engine_pack_array(out, (uint32_t)job->count);
    for (size_t i = 0; i < job->count; i++)
        engine_pack_number(out, job->items[i].status);
}

/* Twice: nothing is touched by what is not whole. */
static void
read_statuses(struct engine_unpack in, struct engine_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        job->items[i].status = (enum kvt_err)engine_unpack_number(&in, KVT_ERR_COUNT - 1);
}

enum kvt_err
engine_rank_message_read_outcome(struct engine_job *job, struct engine_outcome *outcome,
                                 const uint8_t *bytes, size_t size)
{
    struct engine_unpack in = {bytes, size, false};
    const uint32_t count = (uint32_t)job->count;
    struct engine_unpack statuses;
    const uint8_t *text;
    size_t length;

    memset(outcome, 0, sizeof(*outcome));
    (void)engine_unpack_array(&in, OUTCOME_MEMBERS, OUTCOME_MEMBERS);
    read_version(&in);
    outcome->status = (enum kvt_err)engine_unpack_number(&in, KVT_ERR_COUNT - 1);
    text = engine_unpack_bytes(&in, KVT_ERROR_TEXT_MAX - 1, &length);
    if (text != NULL)
        memcpy(outcome->error.text, text, length);
    outcome->error.code = outcome->status;
    outcome->ranks = engine_unpack_array(&in, 0, KVT_RANKS_MAX);
    for (uint32_t i = 0; i < outcome->ranks; i++)
        outcome->by_rank[i] = (enum kvt_err)engine_unpack_number(&in, KVT_ERR_COUNT - 1);
    (void)engine_unpack_array(&in, count, count);
    statuses = in;
    for (uint32_t i = 0; i < count && !in.bad; i++)
        (void)engine_unpack_number(&in, KVT_ERR_COUNT - 1);
    if (engine_unpack_end(&in)) {
        read_statuses(statuses, job);
        return KVT_OK;
    }
    memset(outcome, 0, sizeof(*outcome));
    return KVT_INVALID;
}
