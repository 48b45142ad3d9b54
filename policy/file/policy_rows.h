/*
 * policy/file/policy_rows.h -- a policy as lines "path = value", each with where it comes from.
 *
 * Why: showing a policy with its defaults and comparing two of them are the same walk: what is
 * written in another way or order and means the same makes the same rows.
 *
 * Ownership: rows belong to the caller until policy_rows_release(); they outlive the policy.
 * Limits:    POLICY_ROW_MAX bytes of a value.
 */
#ifndef POLICY_FILE_POLICY_ROWS_H
#define POLICY_FILE_POLICY_ROWS_H

#include "policy/file/policy_file.h"

#define POLICY_ROW_MAX (1u << 16)

struct policy_row {
    char *path; /* "rules.demote-idle.trigger.start" */
    char *value;
    const char *help; /* of the key; static */
    struct policy_place place;
};

struct policy_rows {
    struct policy_row *list;
    size_t count;
    size_t capacity;
};

/** KVT_OK or KVT_NOMEM; `rows` can be released in both cases. */
KVT_NODISCARD enum kvt_err policy_rows_make(struct policy_rows *rows, const struct policy *policy);
void policy_rows_release(struct policy_rows *rows);

/** "written", "inherited", "inferred" or "built in". */
const char *policy_origin_text(enum policy_origin origin);

/* One difference: a row of the first, of the second, or of both with other values. */
struct policy_difference {
    const struct policy_row *before; /* NULL: added */
    const struct policy_row *after;  /* NULL: removed */
};

/** The next difference between two policies, in the order of their rows; false behind the last.
 *  Start with a `cursor` of 0 and leave it alone. */
bool policy_rows_differ(const struct policy_rows *before, const struct policy_rows *after,
                        size_t *cursor, struct policy_difference *difference);

#endif /* POLICY_FILE_POLICY_ROWS_H */
