#include "advisor/store/name_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "advisor/store/number_map.h"
#include "base/core/alloc.h"

struct holder {
    struct index_holder key;
    uint32_t index_number;
    bool spare;
};

struct space {
    char name[KVT_NAMESPACE_MAX];
    uint32_t index_number;
    uint32_t source;
    bool spare;
};

/* Numbers that may go to other names, and those that did since the last save. */
struct spares {
    uint32_t count;
    uint32_t renamed_count;
    uint32_t numbers[ADVISOR_NAME_TABLE_SPARES_MAX];
    uint32_t renamed[ADVISOR_NAME_TABLE_SPARES_MAX];
};

/* Our numbers by the index's. */
struct inverse {
    uint32_t *numbers;
    size_t capacity;
};

struct advisor_name_table {
    struct index *index;
    struct advisor_number_map *by_name; /* of both: the key's first byte tells which */
    struct holder *holders;
    struct space *spaces;
    struct inverse holders_by_index;
    struct inverse spaces_by_index;
    uint32_t holder_count;
    size_t holder_capacity;
    uint32_t holder_saved;
    uint32_t holders_max;
    uint32_t spare_count;
    uint32_t renamed_count;
    uint32_t spares[ADVISOR_NAME_TABLE_SPARES_MAX];
    uint32_t renamed[ADVISOR_NAME_TABLE_SPARES_MAX]; /* since the last save */
    uint32_t space_count;
    size_t space_capacity;
    uint32_t space_saved;
    struct spares space_spares;
    uint64_t space_renames;
    uint32_t shares[ADVISOR_NAMESPACES_SOURCES_MAX]; /* namespaces of each source */
};

struct key {
    uint8_t bytes[ADVISOR_NUMBER_MAP_KEY_MAX];
    size_t size;
};

enum kvt_err
advisor_name_table_new(struct advisor_name_table **out, struct index *index, uint32_t holders_max)
{
    struct advisor_name_table *names = kvt_calloc(1, sizeof(*names));

    *out = NULL;
    if (names == NULL)
        return KVT_NOMEM;
    assert(holders_max <= INDEX_HOLDERS_MAX);
    names->index = index;
    names->holders_max = holders_max;
    if (advisor_number_map_new(&names->by_name) != KVT_OK) {
        advisor_name_table_free(names);
        return KVT_NOMEM;
    }
    *out = names;
    return KVT_OK;
}

void
advisor_name_table_free(struct advisor_name_table *names)
{
    if (names == NULL)
        return;
    advisor_number_map_free(names->by_name);
    kvt_free(names->holders);
    kvt_free(names->spaces);
    kvt_free(names->holders_by_index.numbers);
    kvt_free(names->spaces_by_index.numbers);
    kvt_free(names);
}

static struct key
space_key(const char *name)
{
    struct key key = {.bytes = {'n'}};
    const size_t size = strlen(name);

    assert(size < KVT_NAMESPACE_MAX);
    memcpy(key.bytes + 1, name, size);
    key.size = 1 + size;
    return key;
}

static struct key
holder_key(const struct index_holder *holder)
{
    struct key key = {.bytes = {'h'}};
    const size_t size = strlen(holder->name);

    assert(size < KVT_NAME_MAX);
    key.bytes[1] = (uint8_t)holder->tier;
    memcpy(key.bytes + 2, &holder->dp_rank, sizeof(holder->dp_rank));
    memcpy(key.bytes + 2 + sizeof(holder->dp_rank), holder->name, size);
    key.size = 2 + sizeof(holder->dp_rank) + size;
    return key;
}

/* Room for one more of the index's numbers. */
static enum kvt_err
widen(struct inverse *inverse, uint32_t number)
{
    size_t capacity = inverse->capacity;
    uint32_t *more =
        kvt_grow(inverse->numbers, &capacity, (size_t)number + 1, sizeof(*inverse->numbers));

    if (more == NULL)
        return KVT_NOMEM;
    for (size_t i = inverse->capacity; i < capacity; i++)
        more[i] = ADVISOR_NAME_TABLE_NOBODY;
    inverse->numbers = more;
    inverse->capacity = capacity;
    return KVT_OK;
}

/* A source of its own, or the last one for all that are too many. */
static uint32_t
source_of(uint32_t source)
{
    return source < ADVISOR_NAMESPACES_SOURCES_MAX ? source : ADVISOR_NAMESPACES_SOURCES_MAX - 1;
}

static enum kvt_err
add_space(struct advisor_name_table *names, const char *name, uint32_t source, uint32_t *ns)
{
    const struct key key = space_key(name);
    struct space space = {.source = source};
    enum kvt_err rc;
    void *rows;

    rows = kvt_grow(names->spaces, &names->space_capacity, (size_t)names->space_count + 1,
                    sizeof(*names->spaces));
    if (rows == NULL)
        return KVT_NOMEM;
    names->spaces = rows;
    (void)snprintf(space.name, sizeof(space.name), "%s", name);
    rc = index_namespace(names->index, name, &space.index_number);
    if (rc == KVT_OK)
        rc = widen(&names->spaces_by_index, space.index_number);
    if (rc == KVT_OK)
        rc = advisor_number_map_put(names->by_name, key.bytes, key.size, names->space_count);
    if (rc != KVT_OK)
        return rc;
    names->spaces[names->space_count] = space;
    names->spaces_by_index.numbers[space.index_number] = names->space_count;
    names->shares[source]++;
    *ns = names->space_count++;
    return KVT_OK;
}

/* Its name is met again, or its number goes. */
static void
unspare_space(struct advisor_name_table *names, uint32_t ns)
{
    struct spares *spares = &names->space_spares;
    uint32_t at = 0;

    if (!names->spaces[ns].spare)
        return;
    while (spares->numbers[at] != ns)
        at++;
    spares->numbers[at] = spares->numbers[--spares->count];
    names->spaces[ns].spare = false;
}

/* A spare number that the source may have: one of its own where it has its share. */
static uint32_t
spare_for(const struct advisor_name_table *names, uint32_t source)
{
    const struct spares *spares = &names->space_spares;

    if (spares->renamed_count == ADVISOR_NAME_TABLE_SPARES_MAX)
        return ADVISOR_NAME_TABLE_NOBODY;
    for (uint32_t i = spares->count; i > 0; i--)
        if (names->shares[source] < ADVISOR_NAMESPACES_SHARE ||
            names->spaces[spares->numbers[i - 1]].source == source)
            return spares->numbers[i - 1];
    return ADVISOR_NAME_TABLE_NOBODY;
}

static enum kvt_err
reuse_space(struct advisor_name_table *names, const char *name, uint32_t source, uint32_t *ns)
{
    const uint32_t number = spare_for(names, source);
    const struct key key = space_key(name);
    struct space *space;
    struct key former;
    enum kvt_err rc;

    if (number == ADVISOR_NAME_TABLE_NOBODY)
        return KVT_FULL;
    space = &names->spaces[number];
    rc = advisor_number_map_put(names->by_name, key.bytes, key.size, number);
    if (rc != KVT_OK)
        return rc;
    rc = index_namespace_rename(names->index, space->index_number, name);
    if (rc != KVT_OK) {
        advisor_number_map_remove(names->by_name, key.bytes, key.size);
        return rc;
    }
    unspare_space(names, number);
    former = space_key(space->name);
    advisor_number_map_remove(names->by_name, former.bytes, former.size);
    names->shares[space->source]--;
    names->shares[source]++;
    space->source = source;
    memset(space->name, 0, sizeof(space->name));
    (void)snprintf(space->name, sizeof(space->name), "%s", name);
    names->space_spares.renamed[names->space_spares.renamed_count++] = number;
    names->space_renames++;
    *ns = number;
    return KVT_OK;
}

enum kvt_err
advisor_name_table_namespace(struct advisor_name_table *names, const char *name, uint32_t source,
                             uint32_t *ns)
{
    const struct key key = space_key(name);
    const uint32_t from = source_of(source);

    if (advisor_number_map_get(names->by_name, key.bytes, key.size, ns)) {
        unspare_space(names, *ns);
        return KVT_OK;
    }
    if (names->space_count >= INDEX_NAMESPACES_MAX ||
        names->shares[from] >= ADVISOR_NAMESPACES_SHARE)
        return reuse_space(names, name, from, ns);
    return add_space(names, name, from, ns);
}

/* Its name is met again, or its number goes: no longer spare. */
static void
unspare(struct advisor_name_table *names, uint32_t number)
{
    uint32_t at = 0;

    if (!names->holders[number].spare)
        return;
    while (names->spares[at] != number)
        at++;
    names->spares[at] = names->spares[--names->spare_count];
    names->holders[number].spare = false;
}

/* Give a spare number to `wanted`. */
static enum kvt_err
reuse(struct advisor_name_table *names, const struct index_holder *wanted, const struct key *key,
      uint32_t *number)
{
    struct key former;
    enum kvt_err rc;

    if (names->spare_count == 0)
        return KVT_FULL;
    *number = names->spares[names->spare_count - 1];
    rc = advisor_number_map_put(names->by_name, key->bytes, key->size, *number);
    if (rc != KVT_OK)
        return rc;
    rc = index_holder_rename(names->index, names->holders[*number].index_number, wanted);
    if (rc != KVT_OK) {
        advisor_number_map_remove(names->by_name, key->bytes, key->size);
        return rc;
    }
    unspare(names, *number);
    former = holder_key(&names->holders[*number].key);
    advisor_number_map_remove(names->by_name, former.bytes, former.size);
    names->holders[*number].key = *wanted;
    assert(names->renamed_count < ADVISOR_NAME_TABLE_SPARES_MAX);
    names->renamed[names->renamed_count++] = *number;
    return KVT_OK;
}

enum kvt_err
advisor_name_table_holder(struct advisor_name_table *names, const struct index_holder *wanted,
                          uint32_t *number)
{
    struct holder holder = {0};
    struct key key;
    enum kvt_err rc;
    void *rows;

    /* Copied member by member: the row goes to disk as it lies in memory, padding and all. */
    memcpy(holder.key.name, wanted->name, strlen(wanted->name));
    holder.key.tier = wanted->tier;
    holder.key.dp_rank = wanted->tier == KVT_TIER_G4 ? 0 : wanted->dp_rank;
    key = holder_key(&holder.key);
    if (advisor_number_map_get(names->by_name, key.bytes, key.size, number)) {
        unspare(names, *number);
        return KVT_OK;
    }
    if (names->holder_count >= names->holders_max)
        return reuse(names, &holder.key, &key, number);
    rows = kvt_grow(names->holders, &names->holder_capacity, (size_t)names->holder_count + 1,
                    sizeof(*names->holders));
    if (rows == NULL)
        return KVT_NOMEM;
    names->holders = rows;
    rc = index_holder(names->index, &holder.key, &holder.index_number);
    if (rc == KVT_FULL) /* others have numbers of the index too */
        return reuse(names, &holder.key, &key, number);
    if (rc == KVT_OK)
        rc = widen(&names->holders_by_index, holder.index_number);
    if (rc == KVT_OK)
        rc = advisor_number_map_put(names->by_name, key.bytes, key.size, names->holder_count);
    if (rc != KVT_OK)
        return rc;
    names->holders[names->holder_count] = holder;
    names->holders_by_index.numbers[holder.index_number] = names->holder_count;
    *number = names->holder_count++;
    return KVT_OK;
}

bool
advisor_name_table_meet(struct advisor_name_table *names, uint32_t holder, const char *name,
                        uint32_t dp_rank, enum kvt_tier tier)
{
    const struct index_holder *key = &names->holders[holder].key;

    if (key->tier != tier || key->dp_rank != dp_rank || strcmp(key->name, name) != 0)
        return false;
    unspare(names, holder);
    return true;
}

static enum kvt_err
load_space(void *arg, uint32_t number, const char *name)
{
    struct advisor_name_table *names = arg;
    uint32_t ns;
    uint32_t source;

    if (number >= INDEX_NAMESPACES_MAX || number != names->space_count ||
        advisor_name_table_find_namespace(names, name) != ADVISOR_NAME_TABLE_NOBODY)
        return KVT_CORRUPT;
    /* The row's last bytes, behind the name's end; a name that reaches there has none. */
    source = advisor_store_namespace_source(name);
    return add_space(names, name, source_of(source), &ns);
}

static enum kvt_err
load_holder(void *arg, uint32_t number, const struct index_holder *key)
{
    struct advisor_name_table *names = arg;
    uint32_t holder;
    enum kvt_err rc;

    if (memchr(key->name, '\0', sizeof(key->name)) == NULL)
        return KVT_CORRUPT;
    rc = advisor_name_table_holder(names, key, &holder);
    if (rc == KVT_OK && holder != number)
        return KVT_CORRUPT;
    return rc;
}

enum kvt_err
advisor_name_table_load(struct advisor_name_table *names, const struct advisor_txn *txn)
{
    enum kvt_err rc = advisor_store_namespaces(txn, load_space, names);

    if (rc == KVT_OK)
        rc = advisor_store_holders(txn, load_holder, names);
    advisor_name_table_saved(names);
    return rc;
}

enum kvt_err
advisor_name_table_save(const struct advisor_name_table *names, const struct advisor_txn *txn)
{
    enum kvt_err rc = KVT_OK;

    for (uint32_t i = names->space_saved; i < names->space_count && rc == KVT_OK; i++)
        rc = advisor_store_put_namespace(txn, i, names->spaces[i].name, names->spaces[i].source);
    for (uint32_t i = 0; i < names->space_spares.renamed_count && rc == KVT_OK; i++) {
        const uint32_t ns = names->space_spares.renamed[i];

        rc = advisor_store_put_namespace(txn, ns, names->spaces[ns].name, names->spaces[ns].source);
    }
    for (uint32_t i = names->holder_saved; i < names->holder_count && rc == KVT_OK; i++)
        rc = advisor_store_put_holder(txn, i, &names->holders[i].key);
    for (uint32_t i = 0; i < names->renamed_count && rc == KVT_OK; i++)
        rc = advisor_store_put_holder(txn, names->renamed[i],
                                      &names->holders[names->renamed[i]].key);
    return rc;
}

void
advisor_name_table_saved(struct advisor_name_table *names)
{
    names->space_saved = names->space_count;
    names->holder_saved = names->holder_count;
    names->renamed_count = 0;
    names->space_spares.renamed_count = 0;
}

bool
advisor_name_table_dirty(const struct advisor_name_table *names)
{
    return names->space_saved != names->space_count || names->holder_saved != names->holder_count ||
           names->renamed_count > 0 || names->space_spares.renamed_count > 0;
}

const char *
advisor_name_table_namespace_text(const struct advisor_name_table *names, uint32_t ns)
{
    assert(ns < names->space_count);
    return names->spaces[ns].name;
}

const struct index_holder *
advisor_name_table_holder_key(const struct advisor_name_table *names, uint32_t holder)
{
    assert(holder < names->holder_count);
    return &names->holders[holder].key;
}

uint32_t
advisor_name_table_holder_count(const struct advisor_name_table *names)
{
    return names->holder_count;
}

uint32_t
advisor_name_table_namespace_count(const struct advisor_name_table *names)
{
    return names->space_count;
}

bool
advisor_name_table_short(const struct advisor_name_table *names)
{
    const uint32_t quarter = names->holders_max / 4;
    const uint32_t wanted =
        quarter < ADVISOR_NAME_TABLE_SPARES_MAX ? quarter : ADVISOR_NAME_TABLE_SPARES_MAX;

    return names->holders_max - names->holder_count + names->spare_count < wanted;
}

void
advisor_name_table_spare(struct advisor_name_table *names, uint32_t holder)
{
    assert(holder < names->holder_count && names->holders[holder].key.tier != KVT_TIER_G4);
    assert(!advisor_name_table_dirty(names));
    if (names->holders[holder].spare || names->spare_count == ADVISOR_NAME_TABLE_SPARES_MAX)
        return;
    names->holders[holder].spare = true;
    names->spares[names->spare_count++] = holder;
}

bool
advisor_name_table_namespaces_short(const struct advisor_name_table *names)
{
    uint32_t left = INDEX_NAMESPACES_MAX - names->space_count;

    for (uint32_t i = 0; i < ADVISOR_NAMESPACES_SOURCES_MAX; i++) {
        const uint32_t of_source = names->shares[i] < ADVISOR_NAMESPACES_SHARE
                                       ? ADVISOR_NAMESPACES_SHARE - names->shares[i]
                                       : 0;

        left = of_source < left ? of_source : left;
    }
    return left + names->space_spares.count < ADVISOR_NAME_TABLE_SPARES_MAX;
}

void
advisor_name_table_spare_namespace(struct advisor_name_table *names, uint32_t ns)
{
    assert(ns < names->space_count && !advisor_name_table_dirty(names));
    if (names->spaces[ns].spare || names->space_spares.count == ADVISOR_NAME_TABLE_SPARES_MAX)
        return;
    names->spaces[ns].spare = true;
    names->space_spares.numbers[names->space_spares.count++] = ns;
}

uint64_t
advisor_name_table_namespace_renames(const struct advisor_name_table *names)
{
    return names->space_renames;
}

void
advisor_name_table_namespace_use(const struct advisor_name_table *names,
                                 struct advisor_namespace_use *use)
{
    *use = (struct advisor_namespace_use){.used = names->space_count - names->space_spares.count,
                                          .full = names->space_count >= INDEX_NAMESPACES_MAX &&
                                                  names->space_spares.count == 0};
    for (uint32_t i = 0; i < ADVISOR_NAMESPACES_SOURCES_MAX; i++)
        if (names->shares[i] >= ADVISOR_NAMESPACES_SHARE &&
            spare_for(names, i) == ADVISOR_NAME_TABLE_NOBODY)
            use->full = true;
}

uint32_t
advisor_name_table_index_namespace(const struct advisor_name_table *names, uint32_t ns)
{
    assert(ns < names->space_count);
    return names->spaces[ns].index_number;
}

uint32_t
advisor_name_table_index_holder(const struct advisor_name_table *names, uint32_t holder)
{
    assert(holder < names->holder_count);
    return names->holders[holder].index_number;
}

static uint32_t
invert(const struct inverse *inverse, uint32_t number)
{
    return number < inverse->capacity ? inverse->numbers[number] : ADVISOR_NAME_TABLE_NOBODY;
}

uint32_t
advisor_name_table_store_namespace(const struct advisor_name_table *names, uint32_t number)
{
    return invert(&names->spaces_by_index, number);
}

uint32_t
advisor_name_table_store_holder(const struct advisor_name_table *names, uint32_t number)
{
    return invert(&names->holders_by_index, number);
}

uint32_t
advisor_name_table_find_namespace(const struct advisor_name_table *names, const char *text)
{
    const struct key key = space_key(text);
    uint32_t ns;

    return advisor_number_map_get(names->by_name, key.bytes, key.size, &ns)
               ? ns
               : ADVISOR_NAME_TABLE_NOBODY;
}

bool
advisor_holder_is_hot(const struct index_holder *key)
{
    return key->tier == KVT_TIER_G4 && strncmp(key->name, "hot@", 4) == 0;
}

bool
advisor_holder_is_warm(const struct index_holder *key)
{
    return key->tier == KVT_TIER_G4 && strncmp(key->name, "warm@", 5) == 0;
}

bool
advisor_holder_is_cold(const struct index_holder *key)
{
    return key->tier == KVT_TIER_G4 && strncmp(key->name, "cold@", 5) == 0;
}
