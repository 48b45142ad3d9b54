/*
 * policy/expression/facts.h -- what is known of a block when a policy looks at it.
 *
 * Why: rules ask the advisor's index, a recorded trace and the inline tests of a file the same
 * questions; one table (policy/expression/fact.def) says which there are.
 *
 * Ownership: texts and hashes are borrowed; NULL is the empty text.
 * Threads:   none; plain values.
 * Limits:    POLICY_TEXT_MAX bytes of a text, with its NUL.
 */
#ifndef POLICY_EXPRESSION_FACTS_H
#define POLICY_EXPRESSION_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLICY_TEXT_MAX 256

enum policy_type {
    POLICY_TYPE_BOOL,
    POLICY_TYPE_COUNT,
    POLICY_TYPE_DURATION, /* milliseconds */
    POLICY_TYPE_SIZE,     /* bytes */
    POLICY_TYPE_RATIO,    /* parts per million */
    POLICY_TYPE_TEXT,
};

enum policy_fact {
#define FACT(id, ...) POLICY_FACT_##id,
#include "policy/expression/fact.def"
#undef FACT
    POLICY_FACT_COUNT
};

struct policy_facts {
    uint64_t depth;
    uint64_t fanout;
    uint64_t hits;
    uint64_t cold_hits;
    uint64_t last_access_ms;
    uint64_t age_ms;
    uint64_t size;
    uint64_t fill_ppm;
    const char *tenant;
    const char *namespace_;
    const char *model;
    const char *tier;
    bool pinned;
    /* Of the hashes that prefix() names in the policy, those the block is or comes behind. */
    const uint64_t *prefixes;
    size_t prefix_count;
};

struct policy_fact_row {
    const char *name;
    enum policy_type type;
    size_t offset; /* in struct policy_facts */
    const char *help;
};

extern const struct policy_fact_row policy_fact_rows[POLICY_FACT_COUNT];

/** By name; POLICY_FACT_COUNT when there is none.  `name` need not end. */
enum policy_fact policy_fact_find(const char *name, size_t size);

/** Of any type but TEXT and BOOL. */
uint64_t policy_facts_number(const struct policy_facts *facts, enum policy_fact fact);
/** Never NULL. */
const char *policy_facts_text(const struct policy_facts *facts, enum policy_fact fact);
/** A BOOL. */
bool policy_facts_flag(const struct policy_facts *facts, enum policy_fact fact);

/** "a duration", for messages. */
const char *policy_type_phrase(enum policy_type type);

#define POLICY_VALUE_TEXT_MAX 32

/** As a person would write it, exactly: "90s", "1536MiB", "12.5%". */
void policy_value_format(enum policy_type type, uint64_t value, char text[POLICY_VALUE_TEXT_MAX]);

#endif /* POLICY_EXPRESSION_FACTS_H */
