/*
 * advisor/rule/block_facts.h -- what is known of one block in one tier, as a policy asks for it.
 *
 * Why: what decides and what explains must see the same facts, made of the same rows.
 *
 * Ownership: the facts borrow from their struct, the source and the rules: they must stay.
 * Threads:   any; reads the index as index_get() does.
 * Limits:    ADVISOR_BLOCK_FACTS_ANCESTORS_MAX blocks before this one are looked at for prefix().
 */
#ifndef ADVISOR_RULE_BLOCK_FACTS_H
#define ADVISOR_RULE_BLOCK_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/rule/rulebook.h"
#include "advisor/store/durable_store.h"
#include "index/index.h"

#include "policy/expression/facts.h"

#define ADVISOR_BLOCK_FACTS_ANCESTORS_MAX 16384

struct advisor_block_facts {
    struct policy_facts facts;
    char tenant[KVT_NAMESPACE_MAX];
    char model[KVT_NAMESPACE_MAX];
    uint64_t prefixes[ADVISOR_RULES_PREFIXES_MAX];
};

struct advisor_block_facts_source {
    const struct advisor_store_block *block;
    const struct advisor_rules *rules;
    const char *namespace_;
    const char *tier;    /* its name in the policy */
    uint32_t ranks;      /* shards of it that are there */
    uint64_t fill_ppm;   /* advisor_block_facts_fill() */
    struct index *index; /* NULL: no fanout, and only the block itself for prefix() */
    uint32_t index_ns;
    bool pinned;
    bool no_fanout;  /* nobody asks for it: it is 0 */
    uint64_t now_ms; /* Unix */
};

void advisor_block_facts_of(struct advisor_block_facts *out,
                            const struct advisor_block_facts_source *source);

/** Parts per million; a tier without a cap is empty. */
uint64_t advisor_block_facts_fill(uint64_t used_bytes, uint64_t capacity_bytes);

#endif /* ADVISOR_RULE_BLOCK_FACTS_H */
