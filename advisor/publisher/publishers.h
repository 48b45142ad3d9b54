/*
 * advisor/publisher/publishers.h -- all publishers: found by name, kept by number, shown to people.
 *
 * Why: the engine follows them without a lock, while HTTP threads want to list them.  Our own are
 * found by (namespace, worker), those of other systems by (source, namespace, worker, rank).
 *
 * Ownership: the table owns its publishers; their pointers are valid until they are evicted, which
 *            only advisor_publishers_get() does.
 * Threads:   the engine's thread, except _views(), _doubts() and _mark(): any.
 * Limits:    ADVISOR_PUBLISHERS_MAX; a new one beyond takes the place of the one that is gone
 *            longest.
 */
#ifndef ADVISOR_PUBLISHER_PUBLISHERS_H
#define ADVISOR_PUBLISHER_PUBLISHERS_H

#include "advisor/publisher/own_publisher.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/name_table.h"

#define ADVISOR_PUBLISHERS_MAX 16384

struct advisor_publishers;

KVT_NODISCARD enum kvt_err advisor_publishers_new(struct advisor_publishers **out);
void advisor_publishers_free(struct advisor_publishers *table);

KVT_NODISCARD enum kvt_err advisor_publishers_load(struct advisor_publishers *table,
                                                   const struct advisor_txn *txn,
                                                   const struct advisor_name_table *names,
                                                   uint64_t now_ms);
/** Write rows that changed; advisor_publishers_saved() once that is committed. */
KVT_NODISCARD enum kvt_err advisor_publishers_save(struct advisor_publishers *table,
                                                   const struct advisor_txn *txn);
void advisor_publishers_saved(struct advisor_publishers *table);
bool advisor_publishers_dirty(const struct advisor_publishers *table);

/** Known, or made on the spot.  KVT_OK, KVT_FULL (all live) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_publishers_get(struct advisor_publishers *table, uint32_t ns,
                                                  const char *namespace_, const char *worker,
                                                  struct advisor_publisher **out);
/** One that was got not long ago, or NULL: what each message asks first. */
struct advisor_publisher *advisor_publishers_recall(struct advisor_publishers *table,
                                                    const char *namespace_, const char *worker);
/* Who speaks in a message of another system. */
struct advisor_foreign_key {
    const char *namespace_;
    const char *worker;
    uint64_t worker_id;
    uint32_t source;
    uint32_t ns;
    uint32_t dp_rank;
    bool messages; /* its messages are numbered, not its events */
    bool any_rank; /* it speaks for all its ranks */
};

/** The same for publishers of other systems. */
KVT_NODISCARD enum kvt_err advisor_publishers_get_foreign(struct advisor_publishers *table,
                                                          const struct advisor_foreign_key *key,
                                                          struct advisor_publisher **out);

/* Namespaces, a bit each. */
struct advisor_namespace_bits {
    uint64_t bits[INDEX_NAMESPACES_MAX / 64];
};

static inline void
advisor_namespace_bits_set(struct advisor_namespace_bits *set, uint32_t ns)
{
    set->bits[ns / 64] |= UINT64_C(1) << ns % 64;
}

static inline bool
advisor_namespace_bits_has(const struct advisor_namespace_bits *set, uint32_t ns)
{
    return (set->bits[ns / 64] >> ns % 64 & 1) != 0;
}

/** Add the namespaces of all publishers that are not gone. */
void advisor_publishers_add_live(const struct advisor_publishers *table,
                                 struct advisor_namespace_bits *live);
/** Forget those that are gone, of these namespaces: their numbers may go to others. */
void advisor_publishers_forget_gone(struct advisor_publishers *table,
                                    const struct advisor_namespace_bits *of);

/** NULL when there is none of that number. */
struct advisor_publisher *advisor_publishers_by_number(struct advisor_publishers *table,
                                                       uint32_t number);
size_t advisor_publishers_count(const struct advisor_publishers *table);
struct advisor_publisher *advisor_publishers_at(const struct advisor_publishers *table, size_t at);

/*
 * A round must not cost what thousands of idle publishers would: those who have something to do are
 * on a list.  Whoever is found by name or number is put there; after a walk over all that may have
 * changed any, advisor_publishers_wake() looks for more.  At the end of a round,
 * advisor_publishers_rest() lets those go that have nothing to write, show, ask or apply.
 */
void advisor_publishers_wake(struct advisor_publishers *table);
void advisor_publishers_rest(struct advisor_publishers *table);
size_t advisor_publishers_active_count(const struct advisor_publishers *table);
struct advisor_publisher *advisor_publishers_active(const struct advisor_publishers *table,
                                                    size_t at);

/** Oldest sequence of a source's stream that is held back by anyone; 0 = none. */
uint64_t advisor_publishers_held_seq(const struct advisor_publishers *table, uint32_t source);

/** A publisher reported a place of this G4 holder: what it misses, the holder's places lack.
 *  Locations are told apart by one of 24 bits, so that one may share another's doubts. */
void advisor_publishers_reported(struct advisor_publishers *table, uint32_t number,
                                 const char *holder);

/* ---- for people ---- */

enum advisor_publisher_state { ADVISOR_LIVE, ADVISOR_UNCERTAIN, ADVISOR_GONE };

struct advisor_publisher_view {
    struct advisor_publisher_row row;
    char namespace_[KVT_NAMESPACE_MAX];
    struct advisor_foreign_row foreign; /* all 0: one of our own */
    enum advisor_publisher_state state;
    uint64_t conflicts; /* numbers seen twice with other content */
    bool silent;
    char error[KVT_ERROR_TEXT_MAX];
};

/** Bring what is shown up to date. */
void advisor_publishers_show(struct advisor_publishers *table);

/** Copy out; `views` is made (kvt_free() it), NULL when there are none or no memory. */
size_t advisor_publishers_views(struct advisor_publishers *table,
                                struct advisor_publisher_view **views);

/** Set `uncertain` of those holders that a publisher with missing events speaks for. */
struct wire_query_holder;
void advisor_publishers_mark(struct advisor_publishers *table, struct wire_query_holder *holders,
                             size_t count);

/** How many are uncertain, and how many silent. */
void advisor_publishers_doubts(struct advisor_publishers *table, size_t *live, size_t *uncertain,
                               size_t *silent);

#endif /* ADVISOR_PUBLISHER_PUBLISHERS_H */
