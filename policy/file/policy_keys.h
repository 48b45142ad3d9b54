/*
 * policy/file/policy_keys.h -- the table of policy/file/key.def, and values of its types as text.
 *
 * Why: reading, showing, comparing, the schema and the reference walk over the same rows.
 * Ownership: static; values are in the caller's structs.
 * Threads:   read-only.
 * Limits:    POLICY_KEYS_MAX rows a section.
 */
#ifndef POLICY_FILE_POLICY_KEYS_H
#define POLICY_FILE_POLICY_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/buffer.h"

#include "policy/file/policy_file.h"

enum policy_section {
#define SECTION(id, tag, title, help) POLICY_SECTION_##id,
#define KEY(...)
#define SYNONYM(...)
#include "policy/file/key.def"
#undef SECTION
#undef KEY
#undef SYNONYM
    POLICY_SECTION_COUNT,
    POLICY_SECTION_NONE = POLICY_SECTION_COUNT,
};

enum policy_key_type {
    POLICY_KEY_BOOL,     /* bool */
    POLICY_KEY_COUNT,    /* uint64_t, as all to PRICE */
    POLICY_KEY_DURATION, /* milliseconds */
    POLICY_KEY_SIZE,
    POLICY_KEY_RATIO,   /* parts per million */
    POLICY_KEY_RATE,    /* bytes a second */
    POLICY_KEY_PRICE,   /* billionths */
    POLICY_KEY_SHARE,   /* struct policy_share */
    POLICY_KEY_TEXT,    /* char[POLICY_TEXT_MAX] */
    POLICY_KEY_WORD,    /* char[POLICY_NAME_MAX] */
    POLICY_KEY_CHOICE,  /* uint32_t: number of the word */
    POLICY_KEY_CHOICES, /* uint32_t: a bit a word */
    POLICY_KEY_TIER,    /* struct policy_name, as RULE and ORDERING */
    POLICY_KEY_RULE,
    POLICY_KEY_ORDERING,
    POLICY_KEY_TIERS,   /* struct policy_names */
    POLICY_KEY_WHEN,    /* struct policy_expression * */
    POLICY_KEY_TIMES,   /* struct policy_times */
    POLICY_KEY_HASHES,  /* struct policy_hashes */
    POLICY_KEY_SECTION, /* the nested section's struct */
    POLICY_KEY_LIST,    /* struct policy_list of it */
    POLICY_KEY_MAP,     /* the same, by name */
};

struct policy_key {
    enum policy_section section; /* it stands in */
    const char *key;
    enum policy_key_type type;
    enum policy_section nested;
    size_t offset;
    const char *fallback;
    const char *min;
    const char *max; /* or words */
    bool required;
    const char *help;
};

struct policy_section_row {
    const char *title;
    const char *help;
    size_t size;
};

extern const struct policy_section_row policy_section_rows[POLICY_SECTION_COUNT];

/** Row number `at` of a section; NULL behind the last. */
const struct policy_key *policy_key_at(enum policy_section section, size_t at);

/** The row of a key, and its number; NULL when there is none. */
const struct policy_key *policy_key_find(enum policy_section section, const char *key, size_t *at);

/** Our word for one of another system, where it is a key or word here; NULL otherwise. */
const char *policy_synonym(const char *word, size_t at);

/** Word number `at` of "a|b|c"; false behind the last. */
bool policy_word(const char *words, size_t at, char word[POLICY_NAME_MAX]);

/** Read a number as its type is written.  KVT_OK, KVT_INVALID or KVT_RANGE. */
KVT_NODISCARD enum kvt_err policy_number_parse(enum policy_key_type type, const char *text,
                                               uint64_t *value);

/** "a size such as 64MiB". */
const char *policy_key_phrase(enum policy_key_type type);

/** A value as a person would write it; sections, lists and maps are none. */
void policy_key_format(const struct policy_key *key, const void *section, struct kvt_buffer *out);

#endif /* POLICY_FILE_POLICY_KEYS_H */
