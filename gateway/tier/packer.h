/*
 * gateway/tier/packer.h -- packing the small, cold blocks of the namespaces that are marked for it.
 *
 * Why: somebody has to decide when g4/packed/packed_store.h packs: by order, when people ask, and
 * by itself, when segments hold too little that lives or small objects may have gathered.  Readers
 * and writers need not know: the bucket's store looks for packed blocks by itself.
 *
 * Ownership: owned by the context; borrows the bucket and the counters.
 * Threads:   any for a run and the state; one of its own decides by itself.
 * Limits:    GATEWAY_PACKER_BYTES of bodies under one lock, then it is given back, and while
 *            requests come the next run waits as long as the last one took.  GATEWAY_PACKER_RUNS
 *            runs in a row.
 */
#ifndef GATEWAY_TIER_PACKER_H
#define GATEWAY_TIER_PACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/packed/compaction.h"
#include "g4/packed/packed.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/stats.h"
#include "kvtier/error.h"

#define GATEWAY_PACKER_BYTES   (UINT64_C(64) << 20)
#define GATEWAY_PACKER_RUNS    1024u
#define GATEWAY_PACKER_SHOW_MS 5000 /* how often the gauges are set */

struct gateway_packer;

struct gateway_packer_options {
    struct g4_compaction_settings settings;
    uint64_t interval_ms; /* between two runs that nobody asked for */
};

/** The bucket of `cold` must be a packed store (gateway_bucket_tier_pack()). */
KVT_NODISCARD enum kvt_err gateway_packer_new(struct gateway_packer **out,
                                              struct gateway_bucket_tier *buckets,
                                              struct gateway_stats *stats,
                                              const struct gateway_packer_options *options,
                                              struct kvt_error *err);

/** Begin nothing more, and end what runs at its next step; whoever waits for a packer hears
 *  KVT_AGAIN.  Waits for nobody.  NULL is allowed. */
void gateway_packer_cancel(struct gateway_packer *packer);

/** The same, and wait for its thread.  NULL is allowed. */
void gateway_packer_stop(struct gateway_packer *packer);

/** Stops it.  NULL is allowed. */
void gateway_packer_free(struct gateway_packer *packer);

/** Begin to decide by itself. */
KVT_NODISCARD enum kvt_err gateway_packer_start(struct gateway_packer *packer,
                                                struct kvt_error *err);

/* Who waits for a run, and hears that it is alive. */
struct gateway_packer_asker {
    void (*working)(void *arg);
    void *arg;
};

/**
 * Pack a namespace until nothing is left to do.
 *
 * @param reason      for people: "order", ...; borrowed for ever, so a literal
 * @param asker       told now and then that it still works; NULL: nobody
 * @param[out] total  of all runs; also on failure
 * @return KVT_OK; KVT_NOTFOUND: not a packed namespace; KVT_AGAIN: somebody else packs it, or the
 *         bucket is not known well enough yet; KVT_CANCELLED: the gateway ends; else as
 *         g4_compaction_run()
 */
KVT_NODISCARD enum kvt_err gateway_packer_run(struct gateway_packer *packer, const char *namespace_,
                                              const char *reason,
                                              const struct gateway_packer_asker *asker,
                                              struct g4_compaction_report *total,
                                              struct kvt_error *err);

/**
 * Have it packed soon, by the thread that decides by itself; while somebody else packs it, it is
 * tried again.
 *
 * @param only_look    only find out what packing would do
 * @param[out] ticket  it is done when `answered` of the state is not smaller
 * @return KVT_OK, or KVT_NOTFOUND: not a packed namespace
 */
KVT_NODISCARD enum kvt_err gateway_packer_ask(struct gateway_packer *packer, const char *namespace_,
                                              bool only_look, uint64_t *ticket);

/* One packed namespace, for people. */
struct gateway_packer_state {
    const char *namespace_;
    struct g4_packed_totals totals; /* as last seen: after a run, or GATEWAY_PACKER_SHOW_MS ago */
    uint64_t runs;
    uint64_t last_ms; /* Unix, when the last run ended; 0: there was none */
    uint64_t last_took_ms;
    const char *last_reason;             /* "" */
    char last_error[KVT_ERROR_TEXT_MAX]; /* "": it ended well */
    struct g4_compaction_report last;
    uint64_t answered;                    /* tickets up to this one */
    struct g4_compaction_outlook outlook; /* when it was last asked for */
    char outlook_error[KVT_ERROR_TEXT_MAX];
};

size_t gateway_packer_count(const struct gateway_packer *packer);

/** Asks nobody, so it waits for nobody. */
void gateway_packer_state(struct gateway_packer *packer, size_t index,
                          struct gateway_packer_state *state);

#endif /* GATEWAY_TIER_PACKER_H */
