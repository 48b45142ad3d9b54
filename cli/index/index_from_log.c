#include "cli/index/index_from_log.h"

#include <stdio.h>
#include <string.h>

#include "advisor/store/number_map.h"
#include "base/core/alloc.h"
#include "kvtier/event.h"
#include "wire/dialect/dialect.h"
#include "wire/message/event_codec.h"

enum { CAPACITY_MIN = 1024 };

/* A place that was ever held; ranks 0: not now. */
struct place {
    uint64_t hash;
    uint32_t ns;
    uint32_t holder;
    uint32_t publisher; /* who stored it last */
    uint32_t ranks;
    uint32_t tier;
    bool used;
};

struct publisher {
    uint64_t incarnation;
    uint64_t next_seq;
};

struct cli_index_from_log {
    struct advisor_number_map *namespaces;
    struct advisor_number_map *holders;
    struct advisor_number_map *publishers; /* slots in `lives` */
    struct publisher *lives;
    struct place *places; /* open addressing */
    size_t capacity;
    size_t used;
    struct kvt_event_batch batch;
    struct cli_index_from_log_counts counts;
};

enum kvt_err
cli_index_from_log_new(struct cli_index_from_log **out)
{
    struct cli_index_from_log *log = kvt_calloc(1, sizeof(*log));

    *out = NULL;
    if (log == NULL)
        return KVT_NOMEM;
    log->capacity = CAPACITY_MIN;
    log->places = kvt_calloc(log->capacity, sizeof(*log->places));
    log->batch.events = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*log->batch.events));
    if (log->places == NULL || log->batch.events == NULL ||
        advisor_number_map_new(&log->namespaces) != KVT_OK ||
        advisor_number_map_new(&log->holders) != KVT_OK ||
        advisor_number_map_new(&log->publishers) != KVT_OK) {
        cli_index_from_log_free(log);
        return KVT_NOMEM;
    }
    *out = log;
    return KVT_OK;
}

void
cli_index_from_log_free(struct cli_index_from_log *log)
{
    if (log == NULL)
        return;
    advisor_number_map_free(log->namespaces);
    advisor_number_map_free(log->holders);
    advisor_number_map_free(log->publishers);
    kvt_free(log->lives);
    kvt_free(log->places);
    kvt_free(log->batch.events);
    kvt_free(log);
}

/* ---- places ---- */

static struct place *
slot(struct place *places, size_t capacity, uint64_t hash, uint32_t ns, uint32_t holder)
{
    size_t at = (size_t)((hash ^ ((uint64_t)holder << 32 | ns)) * 0x9e3779b97f4a7c15u);

    for (at = (at ^ at >> 32) & (capacity - 1);; at = (at + 1) & (capacity - 1)) {
        struct place *place = &places[at];

        if (!place->used || (place->hash == hash && place->ns == ns && place->holder == holder))
            return place;
    }
}

static enum kvt_err
grow(struct cli_index_from_log *log)
{
    const size_t capacity = log->capacity * 2;
    struct place *places;

    if (log->used * 2 < log->capacity)
        return KVT_OK;
    if (capacity > CLI_INDEX_FROM_LOG_PLACES_MAX)
        return KVT_FULL;
    places = kvt_calloc(capacity, sizeof(*places));
    if (places == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < log->capacity; i++)
        if (log->places[i].used)
            *slot(places, capacity, log->places[i].hash, log->places[i].ns, log->places[i].holder) =
                log->places[i];
    kvt_free(log->places);
    log->places = places;
    log->capacity = capacity;
    return KVT_OK;
}

/* ---- names ---- */

static enum kvt_err
number(struct advisor_number_map *map, const void *key, size_t size, uint32_t *value)
{
    if (advisor_number_map_get(map, key, size, value))
        return KVT_OK;
    *value = (uint32_t)advisor_number_map_count(map);
    return advisor_number_map_put(map, key, size, *value);
}

/* G1 to G3 belong to the worker; in G4 the location's name is the holder. */
static struct index_holder
holder_of(const struct kvt_event_batch *batch, const struct kvt_location *location)
{
    struct index_holder holder;

    memset(&holder, 0, sizeof(holder));
    holder.tier = location->tier;
    holder.dp_rank = location->tier == KVT_TIER_G4 ? 0 : location->dp_rank;
    (void)snprintf(holder.name, sizeof(holder.name), "%s",
                   location->tier == KVT_TIER_G4 ? location->name : batch->worker);
    return holder;
}

/* ---- events ---- */

/* What a publisher stored goes: at one holder, or everywhere in G1 to G3. */
static void
drop(struct cli_index_from_log *log, uint32_t publisher, const uint32_t *holder)
{
    for (size_t i = 0; i < log->capacity; i++) {
        struct place *place = &log->places[i];

        if (place->used && place->publisher == publisher &&
            (holder == NULL ? place->tier != KVT_TIER_G4 : place->holder == *holder))
            place->ranks = 0;
    }
}

static enum kvt_err
apply(struct cli_index_from_log *log, uint32_t ns, uint32_t publisher,
      const struct kvt_event *event)
{
    const struct kvt_location *location = &log->batch.locations[event->location];
    const struct index_holder key = holder_of(&log->batch, location);
    struct place *place;
    uint32_t holder;
    enum kvt_err rc;

    if (event->type == KVT_EVENT_BYE) {
        drop(log, publisher, NULL);
        return KVT_OK;
    }
    rc = number(log->holders, &key, sizeof(key), &holder);
    if (rc == KVT_OK)
        rc = grow(log);
    if (rc != KVT_OK)
        return rc;
    if (event->type == KVT_EVENT_CLEAR) {
        drop(log, publisher, &holder);
        return KVT_OK;
    }
    place = slot(log->places, log->capacity, event->sequence_hash, ns, holder);
    if (event->type == KVT_EVENT_REMOVE) {
        place->ranks &= ~event->ranks; /* of an unused slot there is nothing to take away */
        return KVT_OK;
    }
    log->used += place->used ? 0 : 1;
    *place = (struct place){.hash = event->sequence_hash,
                            .ns = ns,
                            .holder = holder,
                            .publisher = publisher,
                            .ranks = place->ranks | event->ranks,
                            .tier = location->tier,
                            .used = true};
    return KVT_OK;
}

/* Where the publisher is in its numbers; KVT_AGAIN: the batch is of a life that is over. */
static enum kvt_err
follow(struct cli_index_from_log *log, uint32_t *publisher)
{
    const struct kvt_event_batch *batch = &log->batch;
    char key[KVT_NAMESPACE_MAX + KVT_NAME_MAX];
    const size_t known = advisor_number_map_count(log->publishers);
    struct publisher *life;
    int size;

    size = snprintf(key, sizeof(key), "%s\n%s", batch->namespace_, batch->worker);
    if (number(log->publishers, key, (size_t)size, publisher) != KVT_OK)
        return KVT_NOMEM;
    if (*publisher == known) {
        struct publisher *more = kvt_realloc(log->lives, known + 1, sizeof(*more));

        if (more == NULL)
            return KVT_NOMEM;
        more[known] = (struct publisher){batch->incarnation, batch->first_seq};
        log->lives = more;
        log->counts.gaps += batch->first_seq > 1 ? 1 : 0;
    }
    life = &log->lives[*publisher];
    if (batch->incarnation < life->incarnation)
        return KVT_AGAIN;
    if (batch->incarnation > life->incarnation) {
        drop(log, *publisher, NULL);
        *life = (struct publisher){batch->incarnation, 1};
    }
    if (batch->first_seq > life->next_seq) {
        log->counts.gaps++;
        life->next_seq = batch->first_seq;
    }
    return KVT_OK;
}

enum kvt_err
cli_index_from_log_take(struct cli_index_from_log *log, const struct wire_recording *message)
{
    struct kvt_event_batch *batch = &log->batch;
    uint32_t publisher = 0;
    uint32_t skipped = 0;
    uint32_t ns = 0;
    enum kvt_err rc;

    log->counts.messages++;
    if (strcmp(message->dialect, wire_dialect_name(WIRE_DIALECT_KVTIER)) != 0 ||
        wire_event_decode(message->bytes, message->size, batch, KVT_EVENTS_PER_BATCH_MAX, &skipped,
                          NULL) != KVT_OK) {
        log->counts.others++;
        return KVT_OK;
    }
    rc = follow(log, &publisher);
    if (rc == KVT_AGAIN)
        return KVT_OK;
    if (rc == KVT_OK)
        rc = number(log->namespaces, batch->namespace_, strlen(batch->namespace_) + 1, &ns);
    for (uint32_t i = 0; i < batch->event_count && rc == KVT_OK; i++)
        if (skipped > 0 || batch->first_seq + i >= log->lives[publisher].next_seq)
            rc = apply(log, ns, publisher, &batch->events[i]);
    if (rc == KVT_OK &&
        batch->first_seq + batch->event_count + skipped > log->lives[publisher].next_seq)
        log->lives[publisher].next_seq = batch->first_seq + batch->event_count + skipped;
    return rc;
}

uint32_t
cli_index_from_log_ranks(const struct cli_index_from_log *log, const char *namespace_,
                         const struct index_holder *holder, uint64_t hash)
{
    uint32_t number_of_holder;
    uint32_t ns;

    if (!advisor_number_map_get(log->namespaces, namespace_, strlen(namespace_) + 1, &ns) ||
        !advisor_number_map_get(log->holders, holder, sizeof(*holder), &number_of_holder))
        return 0;
    return slot(log->places, log->capacity, hash, ns, number_of_holder)->ranks;
}

void
cli_index_from_log_count(const struct cli_index_from_log *log,
                         struct cli_index_from_log_counts *counts)
{
    *counts = log->counts;
    for (size_t i = 0; i < log->capacity; i++)
        counts->places += log->places[i].used && log->places[i].ranks != 0 ? 1 : 0;
}
