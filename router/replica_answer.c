#include "router/replica_private.h"

enum { PAGE_BYTES = 64 << 10, PAGE_ROWS = 512 }; /* then it is enough */

struct page {
    struct router_replica *replica;
    uint32_t rows;
    bool stuck; /* no memory for the next one */
};

static bool
put(struct page *page, const struct router_request *request)
{
    enum kvt_err rc;

    if (page->rows >= PAGE_ROWS || page->replica->rows.size >= PAGE_BYTES)
        return false;
    rc = router_replica_put(page->replica, request, request->worker.name[0] != '\0');
    page->rows += rc == KVT_OK;
    page->stuck = rc == KVT_NOMEM;
    return rc == KVT_OK;
}

static bool
put_row(void *arg, const struct router_request *request)
{
    return put(arg, request);
}

static void
table_page(struct page *page, struct wire_route_sync *answer)
{
    answer->next = answer->from;
    if (answer->from == 0)
        router_replica_heard(page->replica, answer);
    if (!router_request_table_each(page->replica->slots, &answer->next, PAGE_ROWS, put_row, page))
        answer->next = 0;
}

/* Whose steps they were; their state of now has it all. */
static void
range_page(struct page *page, struct wire_route_sync *answer, uint64_t through)
{
    const struct router_replica *replica = page->replica;
    uint64_t seq = answer->from > 0 ? answer->from : 1;

    answer->gone = seq <= replica->seq && replica->seq - seq >= ROUTER_STEPS_KEPT;
    while (!answer->gone && seq <= through && seq <= replica->seq) {
        struct router_request request;

        if (router_request_table_get(replica->slots, replica->kept[seq % ROUTER_STEPS_KEPT],
                                     &request) == KVT_OK &&
            !put(page, &request))
            break;
        seq++;
    }
    answer->next = seq;
}

void
router_replica_answer(struct router_replica *replica, const struct wire_route_sync *question)
{
    struct wire_route_sync answer = router_replica_message(replica, WIRE_ROUTE_SYNC_ROWS);
    struct page page = {.replica = replica};

    if (question->what == WIRE_ROUTE_SYNC_TABLE && !replica->ready)
        return; /* ours is not whole yet */
    answer.to = question->router;
    answer.to_incarnation = question->incarnation;
    answer.ask = question->ask;
    answer.what = question->what;
    answer.from = question->from;
    kvt_buffer_clear(&replica->rows);
    if (question->what == WIRE_ROUTE_SYNC_TABLE)
        table_page(&page, &answer);
    else
        range_page(&page, &answer, question->through);
    if (page.stuck && page.rows == 0)
        return; /* it asks again */
    answer.row_count = page.rows;
    replica->stats.pages++;
    router_replica_send(replica, &answer);
}
