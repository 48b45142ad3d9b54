/*
 * advisor/names.h -- numbers for namespaces and holders.
 *
 * Why: places are stored by number.  A number is given once, is durable with the first group that
 * uses it, and never changes: the store's rows and the RAM index's numbers hang on it.
 *
 * Ownership: the table owns its names and registers each in the RAM index too (borrowed).
 * Threads:   none; the engine's thread.
 * Limits:    INDEX_NAMESPACES_MAX and INDEX_HOLDERS_MAX; numbers are not given back.
 */
#ifndef ADVISOR_NAMES_H
#define ADVISOR_NAMES_H

#include "advisor/store.h"
#include "index/index.h"
#include "kvtier/error.h"

struct advisor_names;

KVT_NODISCARD enum kvt_err advisor_names_new(struct advisor_names **out, struct index *index);
void advisor_names_free(struct advisor_names *names);

/** Read what the store has. */
KVT_NODISCARD enum kvt_err advisor_names_load(struct advisor_names *names,
                                              const struct advisor_txn *txn);

/** Write what the store has not; call advisor_names_saved() once that is committed. */
KVT_NODISCARD enum kvt_err advisor_names_save(const struct advisor_names *names,
                                              const struct advisor_txn *txn);
void advisor_names_saved(struct advisor_names *names);

/** The number, made on first use.  KVT_OK, KVT_FULL or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_names_namespace(struct advisor_names *names, const char *name,
                                                   uint32_t *ns);
/** For G4 the location's name alone is the holder: its dp_rank is taken as 0. */
KVT_NODISCARD enum kvt_err advisor_names_holder(struct advisor_names *names,
                                                const struct index_holder *key, uint32_t *holder);

const char *advisor_names_namespace_text(const struct advisor_names *names, uint32_t ns);
const struct index_holder *advisor_names_holder_key(const struct advisor_names *names,
                                                    uint32_t holder);
uint32_t advisor_names_holder_count(const struct advisor_names *names);

/** The numbers the RAM index knows them by. */
uint32_t advisor_names_index_namespace(const struct advisor_names *names, uint32_t ns);
uint32_t advisor_names_index_holder(const struct advisor_names *names, uint32_t holder);

/** "hot@<gateway>" and "cold@<bucket>" in G4. */
bool advisor_holder_is_hot(const struct index_holder *key);
bool advisor_holder_is_cold(const struct index_holder *key);

#endif /* ADVISOR_NAMES_H */
