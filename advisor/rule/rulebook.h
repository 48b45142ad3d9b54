/*
 * advisor/rule/rulebook.h -- the policy in force, and those that were.
 *
 * Why: a policy is installed, changed and taken back while the advisor runs, and what decides, what
 * explains and what people see must be of one version.  So whoever looks takes a version, which
 * does not change while it is held.  Where nothing was installed the settings are written down as a
 * policy: the planner always follows one.
 *
 * A version is durable before anybody can take it, and no version is lost by a crash.  The policy
 * of a file is installed when it differs from the file that was installed last: what came over the
 * API meanwhile stays in force until somebody changes the file.
 *
 * Ownership: versions belong to the rulebook; each take needs its give, before the rulebook goes.
 * Threads:   advisor_rulebook_open() before there are others; then any thread.  A change is written
 *            on the writer's thread, by a writer call.
 * Limits:    KVT_YAML_FILE_MAX bytes of a text, ADVISOR_POLICIES_KEPT versions in the store.
 */
#ifndef ADVISOR_RULE_RULEBOOK_H
#define ADVISOR_RULE_RULEBOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/store/durable_store.h"
#include "advisor/store/policy_version_rows.h"

#include "policy/file/policy_file.h"

#define ADVISOR_RULES_PREFIXES_MAX 256 /* hashes that prefix() asks for in one policy */

/* How far a policy may go. */
enum advisor_mode { ADVISOR_MODE_OFF, ADVISOR_MODE_OBSERVE, ADVISOR_MODE_ENFORCE };

struct advisor_writer_calls;
struct advisor_rulebook;

/* One version; it does not change. */
struct advisor_rules {
    const struct policy *policy;
    uint64_t version; /* grows with every change, over restarts */
    uint64_t since_ms;
    const char *text; /* as written, and a NUL behind it */
    size_t size;
    char source[ADVISOR_POLICY_SOURCE_MAX]; /* "settings", "file", "api", "rollback of 3" */
    char digest[ADVISOR_POLICY_DIGEST_MAX]; /* of the text */
    const uint64_t *prefixes;               /* that prefix() asks for, each once */
    size_t prefix_count;
};

/* What the settings say, for where nothing is installed. */
struct advisor_rulebook_settings {
    const char *ordering;
    uint32_t hot_start_ppm;
    uint32_t hot_stop_ppm;
    uint32_t cold_start_ppm;
    uint32_t cold_stop_ppm;
    bool promotes;
};

struct advisor_rulebook_options {
    struct advisor_store *store;
    struct advisor_rulebook_settings settings;
    const char *file; /* NULL or "": none */
};

/** The version in force, after what the file and the settings change.  KVT_INVALID: all that is
 *  wrong with the file is in the log, and `err` says what to do. */
KVT_NODISCARD enum kvt_err advisor_rulebook_open(struct advisor_rulebook **out,
                                                 const struct advisor_rulebook_options *options,
                                                 struct kvt_error *err);
/** NULL is allowed. */
void advisor_rulebook_free(struct advisor_rulebook *book);

/** A policy that is not in force, as a version without a number: to plan with.  As
 *  advisor_rulebook_install() in what it refuses. */
KVT_NODISCARD enum kvt_err advisor_rules_new(struct advisor_rules **out, const char *text,
                                             size_t size, struct policy_problems *problems,
                                             struct kvt_error *err);
/** NULL is allowed. */
void advisor_rules_free(struct advisor_rules *rules);

/** The version in force; never NULL. */
const struct advisor_rules *advisor_rulebook_take(struct advisor_rulebook *book);
/** NULL is allowed. */
void advisor_rulebook_give(struct advisor_rulebook *book, const struct advisor_rules *rules);

/** The tier of the policy that a holder ("hot@gw0", "cold@models") belongs to; -1: none. */
int32_t advisor_rules_tier(const struct advisor_rules *rules, const char *holder);

/** How far the policy may go where the operator allows `allowed`: the lower of both. */
enum advisor_mode advisor_rules_mode(const struct advisor_rules *rules, enum advisor_mode allowed);

/* ---- changes: by the writer's thread, durable when they return ---- */

struct advisor_rulebook_change {
    const char *text;
    size_t size;
    const char *source;
    uint64_t expected; /* only if this version is in force; 0: whichever is */
};

/**
 * Put a policy in force.  The text that already is in force changes nothing.
 *
 * @param calls         NULL: this is the writer's thread
 * @param[out] problems   all that is wrong, when KVT_INVALID is returned
 * @param[out] version    the version in force then
 * @return KVT_OK, KVT_INVALID, KVT_RANGE (too long), KVT_PRECONDITION (another version is in
 *         force), KVT_TIMEOUT or KVT_AGAIN (the writer's thread is busy), or what the store says;
 *         nothing is changed then, but where only its sync failed: it is in force, as `err` says
 */
KVT_NODISCARD enum kvt_err advisor_rulebook_install(struct advisor_rulebook *book,
                                                    struct advisor_writer_calls *calls,
                                                    const struct advisor_rulebook_change *change,
                                                    struct policy_problems *problems,
                                                    uint64_t *version, struct kvt_error *err);

/** Put an earlier version in force again, as a new one; `to` 0 is the one before this.
 *  KVT_NOTFOUND: it is not kept. */
KVT_NODISCARD enum kvt_err advisor_rulebook_rollback(struct advisor_rulebook *book,
                                                     struct advisor_writer_calls *calls,
                                                     uint64_t to, uint64_t expected,
                                                     uint64_t *version, struct kvt_error *err);

/** Read the file again, as at a start.  Whatever is wrong is in the log and in `err`, and what was
 *  in force stays; as advisor_rulebook_install() in what it returns. */
KVT_NODISCARD enum kvt_err advisor_rulebook_reload(struct advisor_rulebook *book,
                                                   struct advisor_writer_calls *calls,
                                                   const char *path, struct kvt_error *err);
/** Why the file was not taken when it was read last; "": it was.  Any thread. */
void advisor_rulebook_file_error(struct advisor_rulebook *book, struct kvt_error *why);

/** "off", "observe" or "enforce". */
const char *advisor_mode_name(enum advisor_mode mode);
bool advisor_mode_parse(const char *text, enum advisor_mode *mode);

/* ---- rulebook_text.c ---- */

/** The settings as a policy. */
void advisor_rulebook_text(const struct advisor_rulebook_settings *settings,
                           struct kvt_buffer *out);
/** sha256 in hex; KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_rulebook_digest(const char *text, size_t size,
                                                   char digest[ADVISOR_POLICY_DIGEST_MAX]);

#endif /* ADVISOR_RULE_RULEBOOK_H */
