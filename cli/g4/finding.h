/*
 * cli/g4/finding.h -- what is wrong with keys, as the gateway judges it: asked, shown, repaired.
 *
 * Why: g4 fsck and g4 gc find keys in different ways and then do the same with them.
 *
 * Ownership: the caller owns the tally.
 * Threads:   the main thread.
 * Limits:    CLI_FINDING_KINDS kinds are counted one by one; a newer gateway's further ones are
 *            counted as one.
 */
#ifndef CLI_G4_FINDING_H
#define CLI_G4_FINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/frame/context.h"
#include "kvtier/error.h"

#define CLI_FINDING_KINDS    24
#define CLI_FINDING_WORD_MAX 32

struct cli_findings {
    const struct cli_context *context;
    bool act;          /* do what is safe, instead of only saying it */
    const char *only;  /* "|adopt|forget|": the remedies to do */
    uint64_t older_ms; /* as gateway's remedy */
    bool alone;        /* the same */
    struct {
        char word[CLI_FINDING_WORD_MAX];
        uint64_t count;
    } kinds[CLI_FINDING_KINDS];
    uint64_t found;
    uint64_t young;     /* to be collected, but not for older_ms */
    uint64_t integrity; /* of them: what a reader could have met, and was not repaired */
    uint64_t repaired;
    uint64_t failed; /* repairs that were tried in vain */
};

/**
 * Ask the gateway about a key; show and repair what is wrong.
 *
 * @return KVT_OK, also when something is wrong, or why the gateway could not be asked
 */
KVT_NODISCARD enum kvt_err cli_finding_ask(struct cli_findings *findings, const char *key,
                                           struct kvt_error *err);

/** Show one that was found without the gateway; nothing is done about it. */
void cli_finding_show(struct cli_findings *findings, const char *finding, const char *key,
                      const char *text);

/** The same, about which something can be done, or was: `why_not` "" = it was, NULL = not tried. */
void cli_finding_report(struct cli_findings *findings, const char *finding, const char *key,
                        const char *text, const char *remedy, const char *why_not);

/** "3 damaged, 1 tombstone" and what came of it, on the error stream; with JSON the last object. */
void cli_finding_summary(const struct cli_findings *findings, uint64_t keys, const char *advice);

/** INTEGRITY, PARTIAL or DONE. */
enum cli_exit cli_finding_exit(const struct cli_findings *findings);

#endif /* CLI_G4_FINDING_H */
