/*
 * policy/file/section_reader.h -- what the files that read a policy share.
 *
 * Why: walking through sections, reading one value and checking what all of it means are each a
 * page of their own.
 * Ownership: as policy/file/policy_file.h.
 * Threads:   as policy/file/policy_file.h.
 * Limits:    as policy/file/policy_file.h.
 */
#ifndef POLICY_FILE_SECTION_READER_H
#define POLICY_FILE_SECTION_READER_H

#include "base/text/yaml.h"

#include "policy/file/policy_file.h"
#include "policy/file/policy_keys.h"

#define POLICY_LINES_MAX 65536 /* "key: value" in a file; what an alias repeats counts again */

struct policy_reader {
    struct policy_problems *problems;
    size_t lines;
    enum kvt_err rc; /* KVT_NOMEM, or KVT_OK whatever was found to be wrong */
};

/** Set every value of a section that has a default. */
void policy_section_init(enum policy_section section, void *target);

/** Free what the values of a section own. */
void policy_section_release(enum policy_section section, void *target);

/** Read a section's lines into `target`, which was initialised. */
void policy_section_read(struct policy_reader *reader, struct kvt_yaml_value section,
                         enum policy_section which, void *target);

/** Read one value that is no section, list or map; false when it is wrong, which was told. */
bool policy_value_read(struct policy_reader *reader, struct kvt_yaml_value value,
                       const struct policy_key *key, void *target);

/** "(did you mean ...)" or "", from a list of words and the synonyms. */
void policy_hint(const char *word, const char *const *words, size_t count,
                 char hint[POLICY_NAME_MAX + 24]);

/** Give rules what defaults has, and find what names stand for; `file` is what was read. */
void policy_resolve(struct policy *policy, struct kvt_yaml *file, struct policy_problems *problems);

/* Tell what makes no sense. */
void policy_check_tiers(const struct policy *policy, struct policy_problems *problems);
void policy_check_holders(const struct policy *policy, struct policy_problems *problems);
void policy_check_rules(const struct policy *policy, struct policy_problems *problems);
void policy_check_pairs(const struct policy *policy, struct policy_problems *problems);
void policy_check_quotas(const struct policy *policy, struct policy_problems *problems);
void policy_check_tests(const struct policy *policy, struct policy_problems *problems);

/** Where a key of a section was written, or the section where it was not. */
struct kvt_yaml_mark policy_mark(enum policy_section section, const void *target, const char *key);

/** Is the key there, whatever its value? */
bool policy_is_given(enum policy_section section, const void *target, const char *key);
/** Is it there, with a value that could be read? */
bool policy_is_written(enum policy_section section, const void *target, const char *key);
/** ... or has it a value from elsewhere? */
bool policy_is_set(enum policy_section section, const void *target, const char *key);

#endif /* POLICY_FILE_SECTION_READER_H */
