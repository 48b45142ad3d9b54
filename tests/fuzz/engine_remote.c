/*
 * Property: any bytes are refused, or are a message between a leader and a worker that keeps its
 * promises, and writing it and reading it again gives the same.
 */
#include <assert.h>
#include <string.h>

#include "engine/rank/rank_messages.h"
#include "tests/fuzz/target.h"

static void
try_job(const uint8_t *bytes, size_t size)
{
    static struct engine_item items[ENGINE_ITEMS_MAX];
    static struct engine_item again_items[ENGINE_ITEMS_MAX];
    struct engine_rank_message_head head;
    struct engine_rank_message_head again_head;
    struct engine_job job;
    struct engine_job again;
    struct kvt_buffer out;

    if (engine_rank_message_read_job(&head, &job, items, bytes, size) != KVT_OK) {
        assert(job.count == 0 && job.items == NULL && head.number == 0);
        return;
    }
    assert(job.count >= 1 && job.count <= ENGINE_ITEMS_MAX);
    kvt_buffer_init(&out, ENGINE_RANK_MESSAGE_MAX);
    engine_rank_message_write_job(&out, &head, &job);
    assert(kvt_buffer_ok(&out));
    assert(engine_rank_message_read_job(&again_head, &again, again_items, out.data, out.size) ==
           KVT_OK);
    assert(again.count == job.count && again.verb == job.verb && again.wait_ms == job.wait_ms);
    assert(again_head.life == head.life && again_head.number == head.number);
    for (size_t i = 0; i < job.count; i++)
        assert(items[i].source == again_items[i].source &&
               items[i].target == again_items[i].target &&
               items[i].label.id.hash == again_items[i].label.id.hash);
    kvt_buffer_release(&out);
}

static void
try_outcome(const uint8_t *bytes, size_t size)
{
    struct engine_item items[3] = {{.status = KVT_FULL}, {.status = KVT_FULL}};
    struct engine_job job = {.items = items, .count = 3};
    struct engine_outcome outcome;

    if (engine_rank_message_read_outcome(&job, &outcome, bytes, size) != KVT_OK) {
        assert(items[0].status == KVT_FULL && outcome.ranks == 0);
        return;
    }
    assert(outcome.status < KVT_ERR_COUNT && outcome.ranks <= KVT_RANKS_MAX);
    assert(memchr(outcome.error.text, '\0', KVT_ERROR_TEXT_MAX) != NULL);
    for (size_t i = 0; i < 3; i++)
        assert(items[i].status < KVT_ERR_COUNT);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct engine_rank_message_about about;
    struct engine_rank_message_head head;

    try_job(bytes, size);
    try_outcome(bytes, size);
    if (engine_rank_message_read_about(&about, bytes, size) == KVT_OK)
        assert(about.life != 0 && about.ranks >= 1 && about.ranks <= KVT_RANKS_MAX);
    for (int method = ENGINE_RANK_MESSAGE_ABOUT; method <= ENGINE_RANK_MESSAGE_SHARE; method++)
        if (engine_rank_message_read(&head, (enum engine_rank_message_method)method, bytes, size) ==
            KVT_OK)
            assert(head.size <= size && (head.description != NULL || head.size == 0));
    return 0;
}
