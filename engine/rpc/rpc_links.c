#include "engine/rpc/rpc_links.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

enum { INDEX_BITS = 8 };

_Static_assert(ENGINE_RPC_LINKS_MAX == 1 << INDEX_BITS, "a link's number has its place in it");

enum slot_state {
    SLOT_EMPTY,
    SLOT_GOES_ON,
    SLOT_UNWANTED,  /* goes on, and nobody waits for it */
    SLOT_KEPT,      /* answered */
    SLOT_FORGOTTEN, /* answered, and the answer is not kept; or cancelled before it came */
};

struct slot {
    uint64_t sequence; /* of the last call that came; clients begin with 1 */
    struct engine_rpc_kept *kept;
    enum slot_state state;
};

struct engine_rpc_kept {
    struct engine_rpc_kept *older;
    struct engine_rpc_kept *newer;
    struct slot *slot;
    size_t size;
    uint8_t bytes[];
};

struct link {
    uint64_t number; /* 0: free */
    uint64_t nonce;
    uint64_t heard_ms;
    struct engine_rpc_peer peer;
    struct slot *slots; /* NULL: it has ended */
};

struct engine_rpc_links {
    struct link links[ENGINE_RPC_LINKS_MAX];
    uint64_t next; /* its high bits are this server's own */
    uint64_t silence_ms;
    engine_rpc_send_fn *send;
    void *arg;
    struct engine_rpc_kept *oldest;
    struct engine_rpc_kept *newest;
    size_t kept_bytes;
    uint64_t repeated;
    uint64_t stale;
    uint64_t forgotten;
    uint32_t count;
    bool stopping;
};

enum kvt_err
engine_rpc_links_new(struct engine_rpc_links **out, uint64_t silence_ms, engine_rpc_send_fn *send,
                     void *arg)
{
    struct engine_rpc_links *links = kvt_calloc(1, sizeof(*links));

    *out = links;
    if (links == NULL)
        return KVT_NOMEM;
    links->silence_ms = silence_ms;
    links->send = send;
    links->arg = arg;
    kvt_random_system(&links->next, sizeof(links->next));
    return KVT_OK;
}

/* ---- answers ---- */

struct engine_rpc_kept *
engine_rpc_kept_new(const struct engine_rpc_message *answer)
{
    uint8_t head[ENGINE_RPC_WIRE_HEAD_MAX];
    const size_t head_size = engine_rpc_wire_head(head, answer);
    const size_t size = head_size + answer->size;
    struct engine_rpc_kept *kept = kvt_calloc(1, sizeof(*kept) + size);

    if (kept == NULL)
        return NULL;
    kept->size = size;
    memcpy(kept->bytes, head, head_size);
    if (answer->size > 0)
        memcpy(kept->bytes + head_size, answer->bytes, answer->size);
    return kept;
}

static size_t
weight(const struct engine_rpc_kept *kept)
{
    return sizeof(*kept) + kept->size;
}

static void
forget(struct engine_rpc_links *links, struct engine_rpc_kept *kept)
{
    *(kept->older != NULL ? &kept->older->newer : &links->oldest) = kept->newer;
    *(kept->newer != NULL ? &kept->newer->older : &links->newest) = kept->older;
    links->kept_bytes -= weight(kept);
    kept->slot->kept = NULL;
    kept->slot->state = SLOT_FORGOTTEN;
    kvt_free(kept);
}

static void
keep(struct engine_rpc_links *links, struct slot *slot, struct engine_rpc_kept *kept)
{
    kept->slot = slot;
    kept->older = links->newest;
    *(links->newest != NULL ? &links->newest->newer : &links->oldest) = kept;
    links->newest = kept;
    links->kept_bytes += weight(kept);
    slot->kept = kept;
    slot->state = SLOT_KEPT;
    while (links->kept_bytes > ENGINE_RPC_KEPT_MAX)
        forget(links, links->oldest);
}

/* ---- links ---- */

static struct link *
find(const struct engine_rpc_links *links, uint64_t number)
{
    const struct link *link = &links->links[number & (ENGINE_RPC_LINKS_MAX - 1)];

    return number != 0 && link->number == number && link->slots != NULL
               ? (struct link *)(uintptr_t)link
               : NULL;
}

static void
end_link(struct engine_rpc_links *links, struct link *link)
{
    for (size_t i = 0; i < ENGINE_RPC_CALLS_MAX; i++)
        if (link->slots[i].kept != NULL)
            forget(links, link->slots[i].kept);
    kvt_free(link->slots);
    link->slots = NULL;
    links->count--;
}

void
engine_rpc_links_free(struct engine_rpc_links *links)
{
    if (links == NULL)
        return;
    for (size_t i = 0; i < ENGINE_RPC_LINKS_MAX; i++)
        if (links->links[i].slots != NULL)
            end_link(links, &links->links[i]);
    assert(links->kept_bytes == 0 && links->count == 0);
    kvt_free(links);
}

static void
say(struct engine_rpc_links *links, const struct engine_rpc_peer *peer,
    const struct engine_rpc_message *message)
{
    uint8_t head[ENGINE_RPC_WIRE_HEAD_MAX];

    links->send(links->arg, peer, head, engine_rpc_wire_head(head, message));
}

static void
say_kind(struct engine_rpc_links *links, const struct link *link, enum engine_rpc_kind kind,
         uint64_t number)
{
    const uint64_t wait_ms =
        links->silence_ms < ENGINE_RPC_WAIT_MAX ? links->silence_ms : ENGINE_RPC_WAIT_MAX;
    const struct engine_rpc_message message = {
        .kind = kind,
        .link = link->number,
        .number = number,
        .wait_ms = kind == ENGINE_RPC_WELCOME ? (uint32_t)wait_ms : 0};

    say(links, &link->peer, &message);
}

static void
say_bye(struct engine_rpc_links *links, const struct engine_rpc_peer *peer, uint64_t link,
        uint64_t nonce, enum kvt_err why)
{
    const struct engine_rpc_message message = {
        .kind = ENGINE_RPC_BYE, .link = link, .number = nonce, .code = why};

    say(links, peer, &message);
}

/* A free place; of one that ended nobody may have been told yet. */
static struct link *
find_room(struct engine_rpc_links *links)
{
    for (size_t i = 0; i < ENGINE_RPC_LINKS_MAX; i++)
        if (links->links[i].number == 0)
            return &links->links[i];
    return NULL;
}

static enum kvt_err
begin_link(struct engine_rpc_links *links, struct link *link, uint64_t nonce)
{
    const uint64_t place = (uint64_t)(link - links->links);

    if (links->stopping)
        return KVT_UNAVAILABLE;
    link->slots = kvt_calloc(ENGINE_RPC_CALLS_MAX, sizeof(*link->slots));
    if (link->slots == NULL)
        return KVT_NOMEM;
    do
        link->number = links->next++ << INDEX_BITS | place;
    while (link->number == 0);
    link->nonce = nonce;
    links->count++;
    return KVT_OK;
}

static void
take_hello(struct engine_rpc_links *links, const struct engine_rpc_peer *peer,
           const struct engine_rpc_message *message, uint64_t now_ms)
{
    struct link *link = find(links, message->link);
    enum kvt_err rc = KVT_OK;

    if (link != NULL && link->nonce != message->number)
        end_link(links, link); /* its client has given it up */
    link = NULL;
    for (size_t i = 0; i < ENGINE_RPC_LINKS_MAX && link == NULL; i++)
        if (links->links[i].slots != NULL && links->links[i].nonce == message->number)
            link = &links->links[i];
    if (link == NULL) {
        link = find_room(links);
        rc = link == NULL ? KVT_FULL : begin_link(links, link, message->number);
    }
    if (rc != KVT_OK) {
        say_bye(links, peer, 0, message->number, rc);
        return;
    }
    link->peer = *peer;
    link->heard_ms = now_ms;
    say_kind(links, link, ENGINE_RPC_WELCOME, message->number);
}

/* ---- calls ---- */

/* It came before. */
static void
take_again(struct engine_rpc_links *links, struct link *link, const struct slot *slot,
           uint64_t number)
{
    const struct engine_rpc_message lost = {.kind = ENGINE_RPC_REFUSED,
                                            .link = link->number,
                                            .number = number,
                                            .code = KVT_UNAVAILABLE};

    switch (slot->state) {
    case SLOT_GOES_ON:
    case SLOT_UNWANTED: say_kind(links, link, ENGINE_RPC_TAKEN, number); return;
    case SLOT_KEPT:
        links->send(links->arg, &link->peer, slot->kept->bytes, slot->kept->size);
        return;
    case SLOT_EMPTY:
    case SLOT_FORGOTTEN:
        links->forgotten++;
        say(links, &link->peer, &lost);
        return;
    }
}

static void
begin_slot(struct engine_rpc_links *links, struct slot *slot, uint64_t sequence,
           enum slot_state state)
{
    if (slot->kept != NULL)
        forget(links, slot->kept);
    slot->sequence = sequence;
    slot->state = state;
}

static void
take_cancel(struct engine_rpc_links *links, struct slot *slot, uint64_t sequence)
{
    if (sequence > slot->sequence)
        begin_slot(links, slot, sequence, SLOT_FORGOTTEN); /* should it come yet, it is not run */
    else if (sequence == slot->sequence && slot->state == SLOT_GOES_ON)
        slot->state = SLOT_UNWANTED;
    else if (sequence == slot->sequence && slot->kept != NULL)
        forget(links, slot->kept);
}

/* CALL, ASK or CANCEL. */
static bool
take_call(struct engine_rpc_links *links, struct link *link,
          const struct engine_rpc_message *message)
{
    const uint64_t sequence = message->number / ENGINE_RPC_CALLS_MAX;
    struct slot *slot = &link->slots[message->number % ENGINE_RPC_CALLS_MAX];

    if (message->kind == ENGINE_RPC_CANCEL) {
        take_cancel(links, slot, sequence);
        return false;
    }
    if (sequence < slot->sequence || sequence == 0) {
        links->stale++;
        return false;
    }
    if (sequence == slot->sequence) {
        links->repeated += message->kind == ENGINE_RPC_CALL ? 1 : 0;
        take_again(links, link, slot, message->number);
        return false;
    }
    if (message->kind == ENGINE_RPC_ASK) {
        say_kind(links, link, ENGINE_RPC_MISSING, message->number);
        return false;
    }
    begin_slot(links, slot, sequence, SLOT_GOES_ON);
    return true;
}

bool
engine_rpc_links_take(struct engine_rpc_links *links, const struct engine_rpc_peer *peer,
                      const struct engine_rpc_message *message, uint64_t now_ms)
{
    struct link *link = find(links, message->link);

    if (message->kind == ENGINE_RPC_HELLO) {
        take_hello(links, peer, message, now_ms);
        return false;
    }
    if (link == NULL) {
        links->stale += message->kind == ENGINE_RPC_CALL ? 1 : 0;
        if (message->kind != ENGINE_RPC_BYE)
            say_bye(links, peer, message->link, 0, KVT_UNAVAILABLE);
        return false;
    }
    link->peer = *peer;
    link->heard_ms = now_ms;
    switch (message->kind) {
    case ENGINE_RPC_CALL:
    case ENGINE_RPC_ASK:
    case ENGINE_RPC_CANCEL: return take_call(links, link, message);
    case ENGINE_RPC_PING: say_kind(links, link, ENGINE_RPC_PONG, message->number); return false;
    case ENGINE_RPC_BYE: end_link(links, link); return false;
    default: return false; /* only servers say that */
    }
}

void
engine_rpc_links_answer(struct engine_rpc_links *links, const struct engine_rpc_message *answer,
                        struct engine_rpc_kept *kept)
{
    struct link *link = find(links, answer->link);
    struct slot *slot;
    bool goes_on;

    if (link == NULL) {
        kvt_free(kept);
        return;
    }
    slot = &link->slots[answer->number % ENGINE_RPC_CALLS_MAX];
    goes_on = slot->sequence == answer->number / ENGINE_RPC_CALLS_MAX;
    if (goes_on && slot->state == SLOT_GOES_ON) {
        struct engine_rpc_message bare = *answer;

        slot->state = SLOT_FORGOTTEN;
        if (kept != NULL) {
            links->send(links->arg, &link->peer, kept->bytes, kept->size);
            keep(links, slot, kept);
            return;
        }
        bare.size = 0;
        if (bare.code == KVT_OK)
            bare.code = KVT_NOMEM;
        say(links, &link->peer, &bare);
        return;
    }
    if (goes_on && slot->state == SLOT_UNWANTED)
        slot->state = SLOT_FORGOTTEN;
    kvt_free(kept);
}

bool
engine_rpc_links_wanted(const struct engine_rpc_links *links, uint64_t number, uint64_t call)
{
    const struct link *link = find(links, number);
    const struct slot *slot;

    if (link == NULL)
        return false;
    slot = &link->slots[call % ENGINE_RPC_CALLS_MAX];
    return slot->sequence == call / ENGINE_RPC_CALLS_MAX && slot->state == SLOT_GOES_ON;
}

/* ---- ends ---- */

uint64_t
engine_rpc_links_expire(struct engine_rpc_links *links, uint64_t now_ms)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < ENGINE_RPC_LINKS_MAX; i++) {
        struct link *link = &links->links[i];

        if (link->slots == NULL)
            continue;
        if (now_ms - link->heard_ms >= links->silence_ms) {
            say_bye(links, &link->peer, link->number, 0, KVT_TIMEOUT);
            end_link(links, link);
        } else if (link->heard_ms + links->silence_ms < next) {
            next = link->heard_ms + links->silence_ms;
        }
    }
    return next;
}

uint64_t
engine_rpc_links_next_gone(struct engine_rpc_links *links)
{
    for (size_t i = 0; i < ENGINE_RPC_LINKS_MAX; i++) {
        struct link *link = &links->links[i];
        const uint64_t number = link->number;

        if (number != 0 && link->slots == NULL) {
            link->number = 0;
            return number;
        }
    }
    return 0;
}

void
engine_rpc_links_bye(struct engine_rpc_links *links)
{
    for (size_t i = 0; i < ENGINE_RPC_LINKS_MAX; i++) {
        struct link *link = &links->links[i];

        if (link->slots == NULL)
            continue;
        say_bye(links, &link->peer, link->number, 0, KVT_UNAVAILABLE);
        end_link(links, link);
    }
}

void
engine_rpc_links_stop(struct engine_rpc_links *links)
{
    links->stopping = true;
}

void
engine_rpc_links_stats(const struct engine_rpc_links *links, struct engine_rpc_server_stats *stats)
{
    stats->repeated = links->repeated;
    stats->stale = links->stale;
    stats->forgotten = links->forgotten;
    stats->links = links->count;
    stats->kept_bytes = links->kept_bytes;
}
