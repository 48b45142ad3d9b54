#include "advisor/index/byte_sums.h"

#include <string.h>

#include "base/core/alloc.h"

enum { SLOTS_MIN = 64 };

struct advisor_byte_sums {
    struct advisor_byte_sums_row *rows;
    size_t count;
    size_t capacity;
    uint32_t *slots;   /* number of a row, plus 1; 0: free */
    size_t slot_count; /* a power of two, at least twice the rows */
};

enum kvt_err
advisor_byte_sums_new(struct advisor_byte_sums **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

void
advisor_byte_sums_free(struct advisor_byte_sums *ledger)
{
    if (ledger == NULL)
        return;
    kvt_free(ledger->rows);
    kvt_free(ledger->slots);
    kvt_free(ledger);
}

void
advisor_byte_sums_clear(struct advisor_byte_sums *ledger)
{
    if (ledger->count > 0)
        memset(ledger->slots, 0, ledger->slot_count * sizeof(*ledger->slots));
    ledger->count = 0;
}

/* The slot of that row, or the free one where it belongs. */
static uint32_t *
slot_of(const struct advisor_byte_sums *ledger, uint32_t ns, uint32_t place)
{
    const uint64_t mixed = ((uint64_t)ns << 32 | place) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(mixed >> 32) & (ledger->slot_count - 1);

    while (ledger->slots[at] != 0 && (ledger->rows[ledger->slots[at] - 1].ns != ns ||
                                      ledger->rows[ledger->slots[at] - 1].place != place))
        at = (at + 1) & (ledger->slot_count - 1);
    return &ledger->slots[at];
}

/* Room for one row more. */
static enum kvt_err
reserve(struct advisor_byte_sums *ledger)
{
    const size_t wanted = ledger->slot_count == 0 ? SLOTS_MIN : ledger->slot_count * 2;
    struct advisor_byte_sums_row *rows =
        kvt_grow(ledger->rows, &ledger->capacity, ledger->count + 1, sizeof(*rows));
    uint32_t *slots;

    if (rows == NULL)
        return KVT_NOMEM;
    ledger->rows = rows;
    if ((ledger->count + 1) * 2 <= ledger->slot_count)
        return KVT_OK;
    slots = kvt_calloc(wanted, sizeof(*slots));
    if (slots == NULL)
        return KVT_NOMEM;
    kvt_free(ledger->slots);
    ledger->slots = slots;
    ledger->slot_count = wanted;
    for (size_t i = 0; i < ledger->count; i++)
        *slot_of(ledger, rows[i].ns, rows[i].place) = (uint32_t)i + 1;
    return KVT_OK;
}

enum kvt_err
advisor_byte_sums_add(struct advisor_byte_sums *ledger, uint32_t ns, uint32_t place, int64_t bytes,
                      size_t *at)
{
    uint32_t *slot;

    *at = 0;
    if (reserve(ledger) != KVT_OK)
        return KVT_NOMEM;
    slot = slot_of(ledger, ns, place);
    if (*slot == 0) {
        ledger->rows[ledger->count++] = (struct advisor_byte_sums_row){.ns = ns, .place = place};
        *slot = (uint32_t)ledger->count;
    }
    *at = *slot - 1;
    ledger->rows[*at].bytes += bytes;
    return KVT_OK;
}

const struct advisor_byte_sums_row *
advisor_byte_sums_rows(const struct advisor_byte_sums *ledger, size_t *count)
{
    *count = ledger->count;
    return ledger->rows;
}
