/*
 * advisor/store/name_table.h -- numbers for namespaces and holders.
 *
 * Why: places are stored by number: the store's rows and the RAM index's numbers hang on it.  A
 * number is durable with the first group that uses it and stays, except that a worker's that holds
 * nothing any more may go to another holder when numbers run short: workers come with new names for
 * ever.  So may a namespace's that has no block and no publisher.
 *
 * Ownership: the table owns its names and registers each in the RAM index too (borrowed).
 * Threads:   none; the engine's thread.
 * Limits:    INDEX_NAMESPACES_MAX, of which one source may have ADVISOR_NAMESPACES_SHARE, and
 *            `holders_max` (INDEX_HOLDERS_MAX at most).
 */
#ifndef ADVISOR_STORE_NAME_TABLE_H
#define ADVISOR_STORE_NAME_TABLE_H

#include "advisor/store/durable_store.h"
#include "index/index.h"
#include "kvtier/error.h"

#define ADVISOR_NAME_TABLE_SPARES_MAX  256
#define ADVISOR_NAMESPACES_SHARE       (INDEX_NAMESPACES_MAX / 2) /* of one source */
#define ADVISOR_NAMESPACES_SOURCES_MAX 257 /* numbers of sources, from 0 on */

struct advisor_name_table;

KVT_NODISCARD enum kvt_err advisor_name_table_new(struct advisor_name_table **out,
                                                  struct index *index, uint32_t holders_max);
void advisor_name_table_free(struct advisor_name_table *names);

/** Read what the store has. */
KVT_NODISCARD enum kvt_err advisor_name_table_load(struct advisor_name_table *names,
                                                   const struct advisor_txn *txn);

/** Write what the store has not; call advisor_name_table_saved() once that is committed. */
KVT_NODISCARD enum kvt_err advisor_name_table_save(const struct advisor_name_table *names,
                                                   const struct advisor_txn *txn);
void advisor_name_table_saved(struct advisor_name_table *names);
bool advisor_name_table_dirty(const struct advisor_name_table *names);

/** The number, made on first use for a message of `source`.  KVT_OK, KVT_FULL (all numbers are in
 *  use, or the source has its share) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_name_table_namespace(struct advisor_name_table *names,
                                                        const char *name, uint32_t source,
                                                        uint32_t *ns);
/** For G4 the location's name alone is the holder: its dp_rank is taken as 0. */
KVT_NODISCARD enum kvt_err advisor_name_table_holder(struct advisor_name_table *names,
                                                     const struct index_holder *key,
                                                     uint32_t *holder);

/** Is this still the number of that holder, not of G4?  Then it is met, as by
 *  advisor_name_table_holder(). */
bool advisor_name_table_meet(struct advisor_name_table *names, uint32_t holder, const char *name,
                             uint32_t dp_rank, enum kvt_tier tier);

const char *advisor_name_table_namespace_text(const struct advisor_name_table *names, uint32_t ns);
/** The number of a namespace that has one; ADVISOR_NAME_TABLE_NOBODY. */
uint32_t advisor_name_table_find_namespace(const struct advisor_name_table *names,
                                           const char *text);
const struct index_holder *advisor_name_table_holder_key(const struct advisor_name_table *names,
                                                         uint32_t holder);
uint32_t advisor_name_table_holder_count(const struct advisor_name_table *names);
uint32_t advisor_name_table_namespace_count(const struct advisor_name_table *names);

/** Few numbers are left to give, and more spare ones would be remembered. */
bool advisor_name_table_short(const struct advisor_name_table *names);
/** This holder, not of G4, holds nothing: its number may go to another unless its name is met again
 *  before.  Only while nothing is unsaved. */
void advisor_name_table_spare(struct advisor_name_table *names, uint32_t holder);

/** The same two for namespaces.  A spare one's number may go to another unless its name is met
 *  again before; the caller forgets its publishers. */
bool advisor_name_table_namespaces_short(const struct advisor_name_table *names);
void advisor_name_table_spare_namespace(struct advisor_name_table *names, uint32_t ns);
/** Grows when a namespace's number goes to another name. */
uint64_t advisor_name_table_namespace_renames(const struct advisor_name_table *names);

struct advisor_namespace_use {
    uint32_t used;
    bool full; /* a new name is refused, from one source at least */
};

void advisor_name_table_namespace_use(const struct advisor_name_table *names,
                                      struct advisor_namespace_use *use);

/** The numbers the RAM index knows them by: they stay when a holder gets another name. */
uint32_t advisor_name_table_index_namespace(const struct advisor_name_table *names, uint32_t ns);
uint32_t advisor_name_table_index_holder(const struct advisor_name_table *names, uint32_t holder);

#define ADVISOR_NAME_TABLE_NOBODY UINT32_MAX

/** And back; ADVISOR_NAME_TABLE_NOBODY: the index has it from somebody else. */
uint32_t advisor_name_table_store_namespace(const struct advisor_name_table *names,
                                            uint32_t number);
uint32_t advisor_name_table_store_holder(const struct advisor_name_table *names, uint32_t number);

/** "hot@<gateway>", "warm@<gateway>" (its second volume) and "cold@<bucket>" in G4. */
bool advisor_holder_is_hot(const struct index_holder *key);
bool advisor_holder_is_warm(const struct index_holder *key);
bool advisor_holder_is_cold(const struct index_holder *key);

#endif /* ADVISOR_STORE_NAME_TABLE_H */
