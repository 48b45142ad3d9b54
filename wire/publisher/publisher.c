#include "kvtier/publisher.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "wire/nats/bus.h"
#include "wire/publisher/event_publisher.h"
#include "wire/publisher/held_blocks.h"

/*
 * kvtier/publisher.h: a connection, a publisher, and the table of what is held.
 *
 * `lock` is held while the table changes and the event of the change gets its number, so that a
 * dump shows no less than its number says and the events of a block are in the order of its
 * changes.  Inside it only the publisher's own leaf lock is taken; the sender takes `lock` (for a
 * dump) with none.
 */

#define BLOCKS_DEFAULT (UINT32_C(1) << 20)

struct kvt_publisher {
    struct wire_bus *bus;
    struct wire_event_publisher *events;
    uint32_t location_count;
    pthread_mutex_t lock; /* guards what follows */
    struct wire_held_blocks *holding;
    uint64_t repeated;
};

static size_t
snapshot(void *arg, uint64_t *cursor, struct kvt_event *events, size_t capacity)
{
    struct kvt_publisher *publisher = arg;
    size_t count;

    (void)pthread_mutex_lock(&publisher->lock);
    count = wire_held_blocks_walk(publisher->holding, cursor, events, capacity);
    (void)pthread_mutex_unlock(&publisher->lock);
    return count;
}

/* The caller's options in the size that we know; what it does not have is 0. */
static enum kvt_err
read_options(struct kvt_publisher_options *known, const struct kvt_publisher_options *given,
             struct kvt_error *err)
{
    const size_t least = offsetof(struct kvt_publisher_options, mode);
    const unsigned char *bytes = (const unsigned char *)given;

    *known = (struct kvt_publisher_options){.size = sizeof(*known)};
    if (given->size < least)
        return kvt_error_set(err, KVT_INVALID, "publisher: options.size is %zu, not their size",
                             given->size);
    /* A newer caller may have asked for what is not here. */
    for (size_t i = sizeof(*known); i < given->size; i++)
        if (bytes[i] != 0)
            return kvt_error_set(err, KVT_UNSUPPORTED,
                                 "publisher: an option this library is too "
                                 "old for");
    memcpy(known, given, given->size < sizeof(*known) ? given->size : sizeof(*known));
    if (known->namespace_ == NULL)
        known->namespace_ = "";
    if (known->url == NULL || known->worker == NULL || known->locations == NULL)
        return kvt_error_set(err, KVT_INVALID, "publisher: url, worker and locations are needed");
    if (known->mode > KVT_PUBLISHER_CORE)
        return kvt_error_set(err, KVT_INVALID, "publisher: no mode %u", known->mode);
    if (known->blocks_max == 0)
        known->blocks_max = BLOCKS_DEFAULT;
    if (known->blocks_max > WIRE_HELD_BLOCKS_BLOCKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "publisher: blocks_max is at most %u",
                             WIRE_HELD_BLOCKS_BLOCKS_MAX);
    return KVT_OK;
}

static enum kvt_err
start(struct kvt_publisher *publisher, const struct kvt_publisher_options *options,
      struct kvt_error *err)
{
    const struct wire_bus_options bus = {
        .url = options->url,
        .name = options->worker,
        .user_file = options->user_file,
        .token_file = options->token_file,
        .creds_file = options->creds_file,
        .ca_file = options->ca_file,
        .connect_now = options->connect_now != 0,
    };
    enum kvt_err rc = wire_bus_open(&publisher->bus, &bus, err);

    if (rc != KVT_OK)
        return rc;
    return wire_event_publisher_open(&publisher->events,
                                     &(struct wire_event_publisher_options){
                                         .bus = publisher->bus,
                                         .namespace_ = options->namespace_,
                                         .worker = options->worker,
                                         .mode = options->mode == KVT_PUBLISHER_CORE
                                                     ? WIRE_EVENT_PUBLISHER_CORE
                                                     : WIRE_EVENT_PUBLISHER_JETSTREAM,
                                         .locations = options->locations,
                                         .location_count = options->location_count,
                                         .partitions = options->partitions,
                                         .flush_events = options->flush_events,
                                         .flush_ms = options->flush_ms,
                                         .heartbeat_ms = options->heartbeat_ms,
                                         .ring_events = options->ring_events,
                                         .buffer_events = options->buffer_events,
                                         .snapshot = snapshot,
                                         .snapshot_arg = publisher,
                                     },
                                     err);
}

enum kvt_err
kvt_publisher_open(struct kvt_publisher **out, const struct kvt_publisher_options *given,
                   struct kvt_error *err)
{
    struct kvt_publisher_options options;
    struct kvt_publisher *publisher;
    enum kvt_err rc;

    assert(out != NULL && given != NULL);
    *out = NULL;
    rc = read_options(&options, given, err);
    if (rc != KVT_OK)
        return rc;
    publisher = kvt_calloc(1, sizeof(*publisher));
    if (publisher == NULL || pthread_mutex_init(&publisher->lock, NULL) != 0) {
        kvt_free(publisher);
        return kvt_error_set(err, KVT_NOMEM, "publisher %s: out of memory", options.worker);
    }
    publisher->location_count = options.location_count;
    rc = wire_held_blocks_new(&publisher->holding, (uint32_t)options.blocks_max);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "publisher %s: out of memory", options.worker);
    else
        rc = start(publisher, &options, err);
    if (rc != KVT_OK) {
        kvt_publisher_close(publisher, false);
        return rc;
    }
    *out = publisher;
    return KVT_OK;
}

void
kvt_publisher_close(struct kvt_publisher *publisher, bool bye)
{
    if (publisher == NULL)
        return;
    wire_event_publisher_close(publisher->events, bye);
    wire_bus_close(publisher->bus);
    wire_held_blocks_free(publisher->holding);
    (void)pthread_mutex_destroy(&publisher->lock);
    kvt_free(publisher);
}

static const struct kvt_event *
held_anywhere(struct kvt_publisher *publisher, uint64_t hash)
{
    const struct kvt_event *event = NULL;

    for (uint32_t at = 0; event == NULL && at < publisher->location_count; at++)
        event = wire_held_blocks_find(publisher->holding, at, hash);
    return event;
}

/* The prefix hash of a block behind `before` (whose prefix hash is `before_prefix`), or 0. */
static uint64_t
prefix_of(struct kvt_publisher *publisher, const struct kvt_publisher_block *block,
          const struct kvt_publisher_block *before, uint64_t before_prefix)
{
    const struct kvt_event *parent;

    if (block->prefix_hash != 0)
        return block->prefix_hash;
    if (block->position < KVT_PUBLISHER_PREFIX_DEPTH)
        return block->sequence_hash;
    if (before != NULL && before->sequence_hash == block->parent &&
        before->position + 1 == block->position)
        return before_prefix;
    parent = held_anywhere(publisher, block->parent);
    return parent != NULL && parent->position + 1 == block->position ? parent->prefix_hash : 0;
}

static enum kvt_err
check_blocks(struct kvt_publisher *publisher, const struct kvt_publisher_block *blocks,
             size_t count)
{
    uint64_t prefix = 0;

    for (size_t i = 0; i < count; i++) {
        if (blocks[i].sequence_hash == 0 || blocks[i].position > KVT_POSITION_MAX ||
            (blocks[i].position == 0 && blocks[i].parent != 0))
            return KVT_INVALID;
        prefix = prefix_of(publisher, &blocks[i], i > 0 ? &blocks[i - 1] : NULL, prefix);
        if (prefix == 0)
            return KVT_INVALID;
    }
    return KVT_OK;
}

static void
store_block(struct kvt_publisher *publisher, const struct kvt_event *event)
{
    struct kvt_event *held =
        wire_held_blocks_find(publisher->holding, event->location, event->sequence_hash);
    struct kvt_event news = *event;

    if (held == NULL) {
        wire_held_blocks_put(publisher->holding, event);
    } else {
        news.ranks &= ~held->ranks;
        if (news.ranks == 0) {
            publisher->repeated++;
            return;
        }
        held->ranks |= news.ranks;
    }
    wire_event_publisher_publish(publisher->events, &news);
}

enum kvt_err
kvt_publisher_stored(struct kvt_publisher *publisher, uint32_t location,
                     const struct kvt_publisher_block *blocks, size_t count)
{
    uint64_t prefix = 0;
    size_t fresh = 0; /* one that is there twice in the call counts twice */
    enum kvt_err rc;

    assert(publisher != NULL && (blocks != NULL || count == 0));
    if (location >= publisher->location_count)
        return KVT_INVALID;
    if (count > KVT_PUBLISHER_BLOCKS_MAX)
        return KVT_RANGE;
    (void)pthread_mutex_lock(&publisher->lock);
    rc = check_blocks(publisher, blocks, count);
    for (size_t i = 0; rc == KVT_OK && i < count; i++)
        fresh +=
            wire_held_blocks_find(publisher->holding, location, blocks[i].sequence_hash) == NULL;
    if (rc == KVT_OK && fresh > 0)
        rc = wire_held_blocks_reserve(publisher->holding, fresh);
    for (size_t i = 0; rc == KVT_OK && i < count; i++) {
        prefix = prefix_of(publisher, &blocks[i], i > 0 ? &blocks[i - 1] : NULL, prefix);
        store_block(publisher, &(struct kvt_event){
                                   .sequence_hash = blocks[i].sequence_hash,
                                   .prefix_hash = prefix,
                                   .parent = blocks[i].parent,
                                   .tokens_hash = blocks[i].tokens_hash,
                                   .block_size = blocks[i].bytes,
                                   .position = blocks[i].position,
                                   .ranks = blocks[i].ranks == 0 ? 1 : blocks[i].ranks,
                                   .location = (uint16_t)location,
                                   .type = KVT_EVENT_STORE,
                               });
    }
    (void)pthread_mutex_unlock(&publisher->lock);
    return rc;
}

static void
remove_block(struct kvt_publisher *publisher, uint32_t location, uint64_t hash, uint32_t ranks)
{
    struct kvt_event *held = wire_held_blocks_find(publisher->holding, location, hash);
    struct kvt_event event;

    if (held == NULL || (held->ranks & ranks) == 0) {
        publisher->repeated++;
        return;
    }
    event = *held;
    event.type = KVT_EVENT_REMOVE;
    event.ranks = held->ranks & ranks;
    held->ranks &= ~ranks;
    if (held->ranks == 0)
        wire_held_blocks_remove(publisher->holding, location, hash);
    wire_event_publisher_publish(publisher->events, &event);
}

enum kvt_err
kvt_publisher_removed(struct kvt_publisher *publisher, uint32_t location,
                      const uint64_t *sequence_hashes, size_t count, uint32_t ranks)
{
    assert(publisher != NULL && (sequence_hashes != NULL || count == 0));
    if (location >= publisher->location_count)
        return KVT_INVALID;
    (void)pthread_mutex_lock(&publisher->lock);
    for (size_t i = 0; i < count; i++)
        remove_block(publisher, location, sequence_hashes[i], ranks == 0 ? UINT32_MAX : ranks);
    (void)pthread_mutex_unlock(&publisher->lock);
    return KVT_OK;
}

enum kvt_err
kvt_publisher_cleared(struct kvt_publisher *publisher, uint32_t location)
{
    const struct kvt_event event = {
        .location = (uint16_t)location, .ranks = 1, .type = KVT_EVENT_CLEAR};

    assert(publisher != NULL);
    if (location >= publisher->location_count)
        return KVT_INVALID;
    (void)pthread_mutex_lock(&publisher->lock);
    wire_held_blocks_clear(publisher->holding, location);
    wire_event_publisher_publish(publisher->events, &event);
    (void)pthread_mutex_unlock(&publisher->lock);
    return KVT_OK;
}

uint32_t
kvt_publisher_holds(struct kvt_publisher *publisher, uint32_t location, uint64_t sequence_hash)
{
    const struct kvt_event *held;
    uint32_t ranks;

    assert(publisher != NULL);
    (void)pthread_mutex_lock(&publisher->lock);
    held = wire_held_blocks_find(publisher->holding, location, sequence_hash);
    ranks = held == NULL ? 0 : held->ranks;
    (void)pthread_mutex_unlock(&publisher->lock);
    return ranks;
}

enum kvt_err
kvt_publisher_flush(struct kvt_publisher *publisher, uint64_t timeout_ms)
{
    assert(publisher != NULL);
    return wire_event_publisher_flush(publisher->events, timeout_ms);
}

void
kvt_publisher_stats(struct kvt_publisher *publisher, struct kvt_publisher_stats *stats)
{
    struct kvt_publisher_stats known = {.size = stats->size};
    struct wire_event_publisher_stats events;

    assert(publisher != NULL && stats->size >= sizeof(stats->size));
    wire_event_publisher_stats(publisher->events, &events);
    known.incarnation = events.incarnation;
    known.next_seq = events.next_seq;
    known.acked_seq = events.acked_seq;
    known.lost = events.lost;
    known.buffered = events.buffered;
    known.batches = events.batches;
    known.connected = events.connected;
    (void)pthread_mutex_lock(&publisher->lock);
    known.blocks = wire_held_blocks_count(publisher->holding);
    known.repeated = publisher->repeated;
    (void)pthread_mutex_unlock(&publisher->lock);
    /* What a newer caller would like to know besides is 0. */
    memset(stats, 0, known.size);
    memcpy(stats, &known, known.size < sizeof(known) ? known.size : sizeof(known));
}
