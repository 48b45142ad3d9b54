/*
 * policy/file/policy_file.h -- a policy as it was written: tiers, classes, rules, quotas, modes,
 * tests.
 *
 * Why: what is kept, moved and deleted is for people to say, in a file that is checked before
 * anything acts on it.  policy/file/key.def has every key with its type, limits and help.
 *
 * Ownership: policy_parse() makes a policy (policy/file/policy_parse.h); policy_free() ends it and
 *            all that is reached from it.
 * Threads:   read-only after policy_parse(); then any thread.
 * Limits:    KVT_YAML_FILE_MAX bytes of text; those of policy/file/key.def for each list.
 */
#ifndef POLICY_FILE_POLICY_FILE_H
#define POLICY_FILE_POLICY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/expression/expression.h"
#include "policy/expression/facts.h"
#include "policy/file/problems.h"

#define POLICY_NAME_MAX    64
#define POLICY_TIERS_MAX   16
#define POLICY_CLASSES_MAX 64
#define POLICY_TIMES_MAX   24
#define POLICY_HASHES_MAX  16
#define POLICY_KEYS_MAX    20 /* in a section */

enum policy_origin {
    POLICY_UNSET,
    POLICY_BUILT_IN,  /* the table's default */
    POLICY_INHERITED, /* from the file's section defaults */
    POLICY_INFERRED,  /* from what stands beside it */
    POLICY_WRITTEN,
    POLICY_BROKEN, /* written, and no such value; nothing that is read whole has it */
};

struct policy_place {
    uint32_t line; /* 0: nowhere */
    uint32_t column;
    enum policy_origin origin;
    int node; /* of the document while it is read; then it means nothing */
};

/* What every section begins with. */
struct policy_head {
    struct policy_place place; /* line 0: it is not there */
    struct policy_place keys[POLICY_KEYS_MAX];
};

/* A name of something in the file, and which it is. */
struct policy_name {
    char text[POLICY_NAME_MAX];
    int32_t index; /* -1: none */
};

struct policy_names {
    struct policy_name list[POLICY_TIERS_MAX];
    struct policy_place places[POLICY_TIERS_MAX];
    uint32_t count;
};

struct policy_share {
    uint64_t value; /* bytes, or parts per million */
    bool is_ratio;
};

struct policy_times {
    uint16_t minutes[POLICY_TIMES_MAX]; /* of the day */
    uint32_t count;
};

struct policy_hashes {
    uint64_t list[POLICY_HASHES_MAX];
    uint32_t count;
};

/* Of structs of the section that policy/file/key.def names. */
struct policy_list {
    void *items;
    size_t count;
};

enum policy_level { POLICY_G2, POLICY_G3, POLICY_G4 };
enum policy_kind { POLICY_MEMORY, POLICY_VOLUME, POLICY_BUCKET };

enum policy_verb {
    POLICY_PIN,
    POLICY_DEMOTE,
    POLICY_PROMOTE,
    POLICY_EXPIRE,
    POLICY_COMPACT,
    POLICY_EXCLUDE,
};

/* Bits of `on`, in the order of the words. */
enum policy_event {
    POLICY_ON_NOTHING = 0,
    POLICY_ON_STORED = 1 << 0,
    POLICY_ON_LAST_HOLDER_REMOVED = 1 << 1,
    POLICY_ON_SECOND_COLD_HIT = 1 << 2,
    POLICY_ON_SESSION_END = 1 << 3,
    POLICY_ON_FRAGMENTATION = 1 << 4,
};

enum policy_promote_by { POLICY_BY_READS, POLICY_BY_PRICE };

enum policy_mode { POLICY_MODE_OFF, POLICY_MODE_OBSERVE, POLICY_MODE_ENFORCE };

struct policy_prices {
    struct policy_head head;
    uint64_t gib_month; /* prices in billionths */
    uint64_t put_1k;
    uint64_t get_1k;
    uint64_t egress_gib;
    uint64_t latency;
};

struct policy_tier {
    struct policy_head head;
    char name[POLICY_NAME_MAX];
    uint32_t level;
    uint32_t kind;
    uint64_t capacity;
    struct policy_name next;
    char storage_class[POLICY_NAME_MAX];
    char holders[POLICY_TEXT_MAX]; /* pattern of their names; "": see policy_tier_of_holder() */
    struct policy_prices prices;
};

struct policy_class {
    struct policy_head head;
    char name[POLICY_NAME_MAX];
    struct policy_expression *when;
};

struct policy_limits {
    struct policy_head head;
    uint64_t rate;
    uint64_t per_run;
    uint64_t suspend_if_errors;
};

struct policy_defaults {
    struct policy_head head;
    struct policy_name order_by;
    uint64_t protect_recent;
    struct policy_limits limits;
};

struct policy_pin {
    struct policy_head head;
    struct policy_names tiers;
    uint64_t ttl;
    struct policy_share budget;
};

struct policy_trigger {
    struct policy_head head;
    uint64_t start;
    uint64_t stop;
    uint64_t prestage;
};

struct policy_schedule {
    struct policy_head head;
    uint64_t every;
    struct policy_times at;
    uint32_t days; /* bits, Monday the first; 0: all */
};

struct policy_rule {
    struct policy_head head;
    char id[POLICY_NAME_MAX];
    uint32_t verb;
    struct policy_name from;
    struct policy_name to;
    struct policy_name in;
    struct policy_expression *when;
    struct policy_pin pin;
    struct policy_trigger trigger;
    uint32_t on; /* enum policy_event */
    struct policy_schedule schedule;
    struct policy_limits limits;
    struct policy_name order_by;
    uint64_t protect_recent;
    uint32_t promote_by; /* enum policy_promote_by */
};

struct policy_quota {
    struct policy_head head;
    char tenant[POLICY_TEXT_MAX];
    struct policy_name tier;
    uint64_t soft;
    uint64_t hard;
};

struct policy_modes {
    struct policy_head head;
    uint32_t mode;
    uint64_t canary;
    uint64_t max_delete;
};

#define POLICY_GIVEN_BOOL(member)     bool member;
#define POLICY_GIVEN_COUNT(member)    uint64_t member;
#define POLICY_GIVEN_DURATION(member) uint64_t member;
#define POLICY_GIVEN_SIZE(member)     uint64_t member;
#define POLICY_GIVEN_RATIO(member)    uint64_t member;
#define POLICY_GIVEN_TEXT(member)     char member[POLICY_TEXT_MAX];

struct policy_given {
    struct policy_head head;
#define FACT(id, name, type, member, help) POLICY_GIVEN_##type(member)
#include "policy/expression/fact.def"
#undef FACT
    struct policy_hashes prefix;
};

struct policy_expect {
    struct policy_head head;
    struct policy_name rule; /* -1 also for "none" */
    struct policy_name to;
    uint32_t verb;
};

struct policy_test {
    struct policy_head head;
    char name[POLICY_TEXT_MAX];
    struct policy_given given;
    uint32_t on; /* number of the word; unset: nothing happens */
    struct policy_expect expect;
};

struct policy {
    struct policy_head head;
    uint64_t version;
    struct policy_list tiers;
    struct policy_list classes; /* each behind those it uses: see `order` */
    struct policy_list rules;
    struct policy_list quotas;
    struct policy_list tests;
    struct policy_defaults defaults;
    struct policy_modes modes;
    uint32_t class_order[POLICY_CLASSES_MAX]; /* in which classes can be evaluated */
};

static inline struct policy_tier *
policy_tier_at(const struct policy *policy, size_t at)
{
    return (struct policy_tier *)policy->tiers.items + at;
}

static inline struct policy_class *
policy_class_at(const struct policy *policy, size_t at)
{
    return (struct policy_class *)policy->classes.items + at;
}

static inline struct policy_rule *
policy_rule_at(const struct policy *policy, size_t at)
{
    return (struct policy_rule *)policy->rules.items + at;
}

static inline struct policy_quota *
policy_quota_at(const struct policy *policy, size_t at)
{
    return (struct policy_quota *)policy->quotas.items + at;
}

static inline struct policy_test *
policy_test_at(const struct policy *policy, size_t at)
{
    return (struct policy_test *)policy->tests.items + at;
}

/** The tier below; -1 for the last. */
int32_t policy_tier_below(const struct policy *policy, size_t tier);

/** The tier that a volume ("hot@NAME", "warm@NAME") or bucket ("cold@NAME") is: whose pattern fits,
 *  or the first of its level without a pattern; -1: none. */
int32_t policy_tier_of_holder(const struct policy *policy, const char *holder);

/** Of a rule's blocks: the tier it looks at, -1 for all. */
int32_t policy_rule_tier(const struct policy_rule *rule);

const char *policy_verb_text(enum policy_verb verb);

#endif /* POLICY_FILE_POLICY_FILE_H */
