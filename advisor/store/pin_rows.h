/*
 * advisor/store/pin_rows.h -- pins in the store: (block, gateway) -> when it ends.
 *
 * Why: after a start rules must know what is pinned before the gateways told it again.
 * Ownership: rows are copied.
 * Threads:   as advisor/store/durable_store.h.
 * Limits:    none of its own; a folder of a former version has no such table, and no pins.
 */
#ifndef ADVISOR_STORE_PIN_ROWS_H
#define ADVISOR_STORE_PIN_ROWS_H

#include "advisor/store/durable_store.h"

struct advisor_pin_row {
    uint64_t hash;
    uint64_t until_ms; /* Unix; 0: until it is taken off */
    uint32_t ns;
    char gateway[KVT_NAME_MAX];
};

KVT_NODISCARD enum kvt_err advisor_store_put_pin(const struct advisor_txn *txn,
                                                 const struct advisor_pin_row *row);
/** One that is not there is no error. */
KVT_NODISCARD enum kvt_err advisor_store_delete_pin(const struct advisor_txn *txn,
                                                    const struct advisor_pin_row *row);

typedef enum kvt_err advisor_store_pin_fn(void *arg, const struct advisor_pin_row *row);
/** All of them; KVT_CORRUPT for a row that is none. */
KVT_NODISCARD enum kvt_err advisor_store_pins(const struct advisor_txn *txn,
                                              advisor_store_pin_fn *callback, void *arg);

#endif /* ADVISOR_STORE_PIN_ROWS_H */
