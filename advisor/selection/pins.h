/*
 * advisor/selection/pins.h -- which blocks somebody pinned, as gateways tell it.
 *
 * Why: a gateway refuses orders for what is pinned; rules that know leave it alone instead of
 * asking again and again, and people see it.  Gateways tell all their pins together
 * (kvtier/report.h, struct kvt_report_pins), so that a lost report is mended by the next round.
 *
 * A pin counts until its end, and for ADVISOR_PINS_SILENT_MS after its gateway told its pins last
 * (or the advisor began): one that is gone for good keeps nothing in a bucket that others share,
 * and takes no room.
 *
 * Ownership: advisor_pins_new() makes it, advisor_pins_free() ends it.
 * Threads:   the writer's; advisor_pins_has() any.
 * Limits:    ADVISOR_PINS_MAX pins of 48 bytes; more are not known, and refused as before.
 */
#ifndef ADVISOR_SELECTION_PINS_H
#define ADVISOR_SELECTION_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/store/durable_store.h"
#include "kvtier/error.h"
#include "kvtier/report.h"

#define ADVISOR_PINS_MAX       1048576
#define ADVISOR_PINS_SILENT_MS UINT64_C(3600000)

struct advisor_pins;

KVT_NODISCARD enum kvt_err advisor_pins_new(struct advisor_pins **out);
/** NULL is allowed. */
void advisor_pins_free(struct advisor_pins *pins);

/** A pin of a former life.  KVT_OK, KVT_FULL or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_pins_restore(struct advisor_pins *pins, uint32_t gateway,
                                                const struct advisor_pin_row *row, uint64_t now_ms);

/** What a gateway (by its number) told of namespace `ns`.  True: pins went, by this. */
bool advisor_pins_take(struct advisor_pins *pins, uint32_t gateway, uint64_t incarnation,
                       uint32_t ns, const struct kvt_report_pins *told, uint64_t now_ms);

/** Forget the pins of gateways that were silent for too long.  True: pins went, by this. */
bool advisor_pins_forget(struct advisor_pins *pins, uint64_t now_ms);

/** Is the block pinned by anybody?  `until_ms` (may be NULL): until then, 0 where nobody knows. */
bool advisor_pins_has(struct advisor_pins *pins, uint32_t ns, uint64_t hash, uint64_t now_ms,
                      uint64_t *until_ms);
size_t advisor_pins_count(struct advisor_pins *pins);

/* ---- durable, as the other tables ---- */

/** The gateway's name by its number. */
typedef const char *advisor_pins_name_fn(const void *arg, uint32_t gateway);

bool advisor_pins_dirty(const struct advisor_pins *pins);
KVT_NODISCARD enum kvt_err advisor_pins_save(const struct advisor_pins *pins,
                                             const struct advisor_txn *txn,
                                             advisor_pins_name_fn *name, const void *arg);
void advisor_pins_saved(struct advisor_pins *pins);

#endif /* ADVISOR_SELECTION_PINS_H */
