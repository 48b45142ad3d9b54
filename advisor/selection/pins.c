#include "advisor/selection/pins.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "advisor/selection/planner_types.h"
#include "advisor/store/number_map.h"
#include "base/core/alloc.h"

#define NONE     UINT32_MAX
#define NO_ROUND UINT64_MAX /* that names nothing */

/* One gateway's pin of one block; further gateways' of the same block hang on it. */
struct pin {
    uint64_t hash;
    uint64_t until_ms;
    uint64_t round; /* that it was told in last; 0: in a former life */
    uint32_t ns;
    uint32_t gateway;
    uint32_t next; /* of the block's; of a free one the next that is free */
    bool gone;     /* to be deleted from the store */
    bool dirty;    /* it is in `changed` */
};

struct teller {
    uint64_t incarnation;
    uint64_t round;
    uint64_t received; /* rows of it */
    uint64_t told_ms;  /* when it told something last; of a former life: at the start */
};

struct advisor_pins {
    pthread_mutex_t lock; /* guards everything */
    struct advisor_number_map *blocks;
    struct pin *rows;
    size_t count; /* used and free ones */
    size_t capacity;
    uint32_t free;
    size_t pinned; /* rows that are not gone */
    uint32_t *changed;
    size_t changed_count;
    size_t changed_capacity;
    struct teller tellers[ADVISOR_GATEWAYS_MAX];
};

struct key {
    uint64_t hash;
    uint64_t ns;
};

enum kvt_err
advisor_pins_new(struct advisor_pins **out)
{
    struct advisor_pins *pins = kvt_calloc(1, sizeof(*pins));

    *out = NULL;
    if (pins == NULL)
        return KVT_NOMEM;
    pins->free = NONE;
    if (advisor_number_map_new(&pins->blocks) != KVT_OK) {
        kvt_free(pins);
        return KVT_NOMEM;
    }
    if (pthread_mutex_init(&pins->lock, NULL) != 0) {
        advisor_number_map_free(pins->blocks);
        kvt_free(pins);
        return KVT_NOMEM;
    }
    *out = pins;
    return KVT_OK;
}

void
advisor_pins_free(struct advisor_pins *pins)
{
    if (pins == NULL)
        return;
    advisor_number_map_free(pins->blocks);
    kvt_free(pins->rows);
    kvt_free(pins->changed);
    (void)pthread_mutex_destroy(&pins->lock);
    kvt_free(pins);
}

/* ---- rows ---- */

static uint32_t
first_of(const struct advisor_pins *pins, uint32_t ns, uint64_t hash)
{
    const struct key key = {hash, ns};
    uint32_t first;

    return advisor_number_map_get(pins->blocks, &key, sizeof(key), &first) ? first : NONE;
}

static uint32_t
find(const struct advisor_pins *pins, uint32_t gateway, uint32_t ns, uint64_t hash)
{
    uint32_t at = first_of(pins, ns, hash);

    while (at != NONE && pins->rows[at].gateway != gateway)
        at = pins->rows[at].next;
    return at;
}

/* It is to be written, or deleted. */
static enum kvt_err
note(struct advisor_pins *pins, uint32_t at)
{
    uint32_t *changed;

    if (pins->rows[at].dirty)
        return KVT_OK;
    changed =
        kvt_grow(pins->changed, &pins->changed_capacity, pins->changed_count + 1, sizeof(*changed));
    if (changed == NULL)
        return KVT_NOMEM;
    pins->changed = changed;
    changed[pins->changed_count++] = at;
    pins->rows[at].dirty = true;
    return KVT_OK;
}

/* A row for a pin that is not there. */
static enum kvt_err
add(struct advisor_pins *pins, uint32_t gateway, uint32_t ns, uint64_t hash, uint32_t *at)
{
    const struct key key = {hash, ns};
    const uint32_t first = first_of(pins, ns, hash);
    struct pin *rows;
    uint32_t next_free;

    *at = pins->free;
    if (*at == NONE) {
        if (pins->count == ADVISOR_PINS_MAX)
            return KVT_FULL;
        rows = kvt_grow(pins->rows, &pins->capacity, pins->count + 1, sizeof(*rows));
        if (rows == NULL)
            return KVT_NOMEM;
        pins->rows = rows;
        *at = (uint32_t)pins->count;
        rows[*at].next = NONE;
    }
    next_free = pins->rows[*at].next;
    if (advisor_number_map_put(pins->blocks, &key, sizeof(key), *at) != KVT_OK)
        return KVT_NOMEM;
    if (*at == pins->count)
        pins->count++;
    else
        pins->free = next_free;
    pins->rows[*at] = (struct pin){.hash = hash, .ns = ns, .gateway = gateway, .next = first};
    pins->pinned++;
    return KVT_OK;
}

/* Nothing is left of it. */
static void
drop(struct advisor_pins *pins, uint32_t at)
{
    struct pin *pin = &pins->rows[at];
    const struct key key = {pin->hash, pin->ns};
    uint32_t former = first_of(pins, pin->ns, pin->hash);

    if (former == at && pin->next == NONE) {
        advisor_number_map_remove(pins->blocks, &key, sizeof(key));
    } else if (former == at) {
        const enum kvt_err rc = advisor_number_map_put(pins->blocks, &key, sizeof(key), pin->next);

        assert(rc == KVT_OK); /* the key is there already */
        (void)rc;
    } else {
        while (pins->rows[former].next != at)
            former = pins->rows[former].next;
        pins->rows[former].next = pin->next;
    }
    *pin = (struct pin){.gone = true, .gateway = NONE, .next = pins->free};
    pins->free = at;
}

enum kvt_err
advisor_pins_restore(struct advisor_pins *pins, uint32_t gateway, const struct advisor_pin_row *row,
                     uint64_t now_ms)
{
    uint32_t at;
    enum kvt_err rc;

    assert(gateway < ADVISOR_GATEWAYS_MAX);
    (void)pthread_mutex_lock(&pins->lock);
    rc = add(pins, gateway, row->ns, row->hash, &at);
    if (rc == KVT_OK) {
        pins->rows[at].until_ms = row->until_ms;
        pins->tellers[gateway].told_ms = now_ms;
    }
    (void)pthread_mutex_unlock(&pins->lock);
    return rc;
}

/* ---- what is told ---- */

/* Of several shards of a block the pin that ends last counts. */
static void
take_pin(struct advisor_pins *pins, uint32_t gateway, uint32_t ns,
         const struct kvt_report_pin *told, uint64_t round)
{
    uint32_t at = find(pins, gateway, ns, told->hash);
    bool changes = at == NONE;
    struct pin *pin;

    if (at == NONE && add(pins, gateway, ns, told->hash, &at) != KVT_OK)
        return; /* the gateway refuses what is ordered for it, as one that tells no pins */
    pin = &pins->rows[at];
    if (pin->gone) {
        pin->gone = false;
        pins->pinned++;
        changes = true;
    }
    if (changes || pin->round != round ||
        (pin->until_ms != 0 && (told->until_ms == 0 || told->until_ms > pin->until_ms))) {
        changes = changes || pin->until_ms != told->until_ms;
        pin->until_ms = told->until_ms;
    }
    pin->round = round;
    if (changes)
        (void)note(pins, at); /* without memory it is known until the next start */
}

/* The round is whole: what it did not name is pinned no more. */
static bool
end_round(struct advisor_pins *pins, uint32_t gateway, uint64_t round)
{
    bool any = false;

    for (uint32_t i = 0; i < pins->count; i++) {
        struct pin *pin = &pins->rows[i];

        if (pin->gateway != gateway || pin->gone || pin->round == round || note(pins, i) != KVT_OK)
            continue;
        pin->gone = any = true;
        pins->pinned--;
    }
    return any;
}

bool
advisor_pins_take(struct advisor_pins *pins, uint32_t gateway, uint64_t incarnation, uint32_t ns,
                  const struct kvt_report_pins *told, uint64_t now_ms)
{
    struct teller *teller;
    bool went = false;

    if (gateway >= ADVISOR_GATEWAYS_MAX || told->round == 0)
        return false;
    (void)pthread_mutex_lock(&pins->lock);
    teller = &pins->tellers[gateway];
    if (teller->incarnation != incarnation || teller->round != told->round) {
        teller->incarnation = incarnation;
        teller->round = told->round;
        teller->received = 0;
        /* Rounds of another life may have had this number. */
        for (uint32_t i = 0; i < pins->count; i++)
            if (pins->rows[i].gateway == gateway && pins->rows[i].round == told->round)
                pins->rows[i].round = 0;
    }
    teller->received += told->count;
    teller->told_ms = now_ms;
    for (uint32_t i = 0; i < told->count; i++)
        take_pin(pins, gateway, ns, &told->rows[i], told->round);
    if (told->last && teller->received == told->told)
        went = end_round(pins, gateway, told->round);
    (void)pthread_mutex_unlock(&pins->lock);
    return went;
}

/* Who comes back tells its pins anew, within a minute. */
bool
advisor_pins_forget(struct advisor_pins *pins, uint64_t now_ms)
{
    bool any = false;

    (void)pthread_mutex_lock(&pins->lock);
    for (uint32_t gateway = 0; gateway < ADVISOR_GATEWAYS_MAX; gateway++) {
        struct teller *teller = &pins->tellers[gateway];

        if (teller->told_ms == 0 || now_ms <= teller->told_ms + ADVISOR_PINS_SILENT_MS)
            continue;
        any = end_round(pins, gateway, NO_ROUND) || any;
        *teller = (struct teller){.told_ms = 0}; /* looked at once */
    }
    (void)pthread_mutex_unlock(&pins->lock);
    return any;
}

bool
advisor_pins_has(struct advisor_pins *pins, uint32_t ns, uint64_t hash, uint64_t now_ms,
                 uint64_t *until_ms)
{
    uint64_t until = 0;
    bool any = false;

    (void)pthread_mutex_lock(&pins->lock);
    for (uint32_t at = pins->pinned == 0 ? NONE : first_of(pins, ns, hash); at != NONE;
         at = pins->rows[at].next) {
        const struct pin *pin = &pins->rows[at];

        if (pin->gone || (pin->until_ms != 0 && pin->until_ms <= now_ms) ||
            now_ms > pins->tellers[pin->gateway].told_ms + ADVISOR_PINS_SILENT_MS)
            continue;
        until = !any ? pin->until_ms
                     : (until == 0 || pin->until_ms == 0 ? 0
                        : pin->until_ms > until          ? pin->until_ms
                                                         : until);
        any = true;
    }
    (void)pthread_mutex_unlock(&pins->lock);
    if (until_ms != NULL)
        *until_ms = until;
    return any;
}

size_t
advisor_pins_count(struct advisor_pins *pins)
{
    size_t count;

    (void)pthread_mutex_lock(&pins->lock);
    count = pins->pinned;
    (void)pthread_mutex_unlock(&pins->lock);
    return count;
}

/* ---- durable ---- */

bool
advisor_pins_dirty(const struct advisor_pins *pins)
{
    return pins->changed_count > 0;
}

enum kvt_err
advisor_pins_save(const struct advisor_pins *pins, const struct advisor_txn *txn,
                  advisor_pins_name_fn *name, const void *arg)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < pins->changed_count && rc == KVT_OK; i++) {
        const struct pin *pin = &pins->rows[pins->changed[i]];
        struct advisor_pin_row row = {.hash = pin->hash, .until_ms = pin->until_ms, .ns = pin->ns};

        (void)snprintf(row.gateway, sizeof(row.gateway), "%s", name(arg, pin->gateway));
        rc = pin->gone ? advisor_store_delete_pin(txn, &row) : advisor_store_put_pin(txn, &row);
    }
    return rc;
}

void
advisor_pins_saved(struct advisor_pins *pins)
{
    (void)pthread_mutex_lock(&pins->lock);
    for (size_t i = 0; i < pins->changed_count; i++) {
        pins->rows[pins->changed[i]].dirty = false;
        if (pins->rows[pins->changed[i]].gone)
            drop(pins, pins->changed[i]);
    }
    pins->changed_count = 0;
    (void)pthread_mutex_unlock(&pins->lock);
}
