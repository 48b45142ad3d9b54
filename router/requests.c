#include "router/requests.h"

#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

enum { BITS_FIRST = 6, BITS_MAX = 32 };

static uint64_t
key_of(const struct router_requests *requests, const char *id)
{
    return XXH3_64bits_withSeed(id, strlen(id), requests->seed);
}

static struct router_row **
head_of(const struct router_requests *requests, uint64_t key)
{
    return &requests->heads[key >> (64 - requests->bits)];
}

/* Where the first row of a key stands, or would. */
static struct router_row **
link_of(const struct router_requests *requests, uint64_t key)
{
    struct router_row **link = head_of(requests, key);

    while (*link != NULL && (*link)->key < key)
        link = &(*link)->next;
    return link;
}

bool
router_requests_init(struct router_requests *requests)
{
    *requests = (struct router_requests){.bits = BITS_FIRST};
    kvt_random_system(&requests->seed, sizeof(requests->seed));
    requests->heads = kvt_calloc((size_t)1 << BITS_FIRST, sizeof(requests->heads[0]));
    return requests->heads != NULL;
}

void
router_requests_release(struct router_requests *requests)
{
    for (size_t i = 0; requests->heads != NULL && i < (size_t)1 << requests->bits; i++) {
        while (requests->heads[i] != NULL) {
            struct router_row *row = requests->heads[i];

            requests->heads[i] = row->next;
            kvt_free(row);
        }
    }
    kvt_free(requests->heads);
    *requests = (struct router_requests){0};
}

struct router_row *
router_requests_find(const struct router_requests *requests, const char *id)
{
    const uint64_t key = key_of(requests, id);
    struct router_row *row = *link_of(requests, key);

    while (row != NULL && row->key == key && strcmp(row->id, id) != 0)
        row = row->next;
    return row != NULL && row->key == key ? row : NULL;
}

/* Twice the heads, where there is memory; without, the lists are longer.  Rows are in order, so
 * each list is cut in two. */
static void
spread(struct router_requests *requests)
{
    const unsigned bits = requests->bits + 1;
    struct router_row **heads;

    if (requests->count < (size_t)1 << requests->bits || bits > BITS_MAX)
        return;
    heads = kvt_calloc((size_t)1 << bits, sizeof(heads[0]));
    if (heads == NULL)
        return;
    for (size_t i = 0; i < (size_t)1 << requests->bits; i++) {
        struct router_row **link = &requests->heads[i];

        while (*link != NULL && (*link)->key >> (64 - bits) == 2 * i)
            link = &(*link)->next;
        heads[2 * i + 1] = *link;
        *link = NULL;
        heads[2 * i] = requests->heads[i];
    }
    kvt_free(requests->heads);
    requests->heads = heads;
    requests->bits = bits;
}

struct router_row *
router_requests_add(struct router_requests *requests, const char *id)
{
    const size_t size = strlen(id) + 1;
    struct router_row *row = kvt_calloc(1, sizeof(*row) + size);
    struct router_row **link;

    if (row == NULL)
        return NULL;
    memcpy(row->id, id, size);
    row->key = key_of(requests, id);
    requests->count++;
    spread(requests);
    link = link_of(requests, row->key);
    row->next = *link;
    *link = row;
    return row;
}

void
router_requests_remove(struct router_requests *requests, struct router_row *row)
{
    struct router_row **link = link_of(requests, row->key);

    while (*link != row)
        link = &(*link)->next;
    *link = row->next;
    requests->count--;
    kvt_free(row);
}

struct router_row *
router_requests_from(const struct router_requests *requests, uint64_t key)
{
    const size_t heads = (size_t)1 << requests->bits;
    struct router_row *row = *link_of(requests, key);

    for (size_t i = (size_t)(key >> (64 - requests->bits)) + 1; row == NULL && i < heads; i++)
        row = requests->heads[i];
    return row;
}
