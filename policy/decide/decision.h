/*
 * policy/decide/decision.h -- which rule has a block, and why.
 *
 * Why: planner, tests, simulation and `explain` must agree to the letter, so one function decides.
 *
 * Rules are asked in their order and the first that matches has the block.  A rule matches when
 *
 *   - the block lies in a tier that the rule looks at,
 *   - the rule is for no event, or for the one that happened,
 *   - it does not move or delete a block that is pinned or was used within protect_recent, nor keep
 *     one that was not used for longer than pin.ttl,
 *   - and its condition is true.
 *
 * A trigger does not choose: a block is its rule's, also while the rule waits for its watermark.
 *
 * Ownership: a decision belongs to the caller until policy_decision_free(); it is for one policy.
 * Threads:   one owner; the policy may be shared.
 * Limits:    those of policy/file/policy_file.h.
 */
#ifndef POLICY_DECIDE_DECISION_H
#define POLICY_DECIDE_DECISION_H

#include "base/core/buffer.h"

#include "policy/file/policy_file.h"

/* Why a rule does not match: bits. */
enum policy_refusal {
    POLICY_REFUSES_TIER = 1 << 0,
    POLICY_REFUSES_EVENT = 1 << 1,
    POLICY_REFUSES_PINNED = 1 << 2,
    POLICY_REFUSES_RECENT = 1 << 3,
    POLICY_REFUSES_WHEN = 1 << 4,
    POLICY_REFUSES_TTL = 1 << 5,
};

struct policy_verdict {
    uint32_t refusals; /* 0: it matches */
    const bool *trace; /* of its condition; NULL where it has none */
};

struct policy_decision {
    int32_t rule;                    /* that has the block; -1: none */
    bool waits;                      /* the rule has a trigger that the tier's fill is below */
    int32_t to;                      /* tier the block goes to; -1: nowhere */
    struct policy_verdict *verdicts; /* one a rule */
    bool classes[POLICY_CLASSES_MAX];
    bool *traces;
};

/** KVT_OK or KVT_NOMEM; nothing after it fails. */
KVT_NODISCARD enum kvt_err policy_decision_new(struct policy_decision **out,
                                               const struct policy *policy);
/** NULL is allowed. */
void policy_decision_free(struct policy_decision *decision);

/** Ask every rule, also those behind the one that has the block. */
void policy_decide(const struct policy *policy, const struct policy_facts *facts,
                   enum policy_event event, struct policy_decision *decision);

/** The rule alone, and not asking further: the same as policy_decide()'s. */
int32_t policy_match(const struct policy *policy, const struct policy_facts *facts,
                     enum policy_event event);

/** The next rule behind `former` (-1: of all) that matches; -1: none. */
int32_t policy_match_behind(const struct policy *policy, const struct policy_facts *facts,
                            enum policy_event event, int32_t former);

/** Is a block of this hash in the share for which the policy is enforced (modes.canary)? */
bool policy_is_enforced(const struct policy *policy, uint64_t hash);

/** Which classes a block of those facts is in, by number. */
void policy_classes_of(const struct policy *policy, const struct policy_facts *facts,
                       bool classes[POLICY_CLASSES_MAX]);

/** Each rule up to the one that has the block, each clause of its condition with its truth, and the
 *  nearest change of a fact for each clause that stands in the way. */
void policy_explain(const struct policy *policy, const struct policy_facts *facts,
                    const struct policy_decision *decision, struct kvt_buffer *out);

/** The facts of a test; they borrow from it. */
struct policy_facts policy_test_facts(const struct policy_test *test);
enum policy_event policy_test_event(const struct policy_test *test);

/** Does the decision fulfil what the test expects? */
bool policy_test_holds(const struct policy *policy, const struct policy_test *test,
                       const struct policy_decision *decision);

#endif /* POLICY_DECIDE_DECISION_H */
