/*
 * advisor/plan/plan_document.h -- what a policy would do now, as a document that can be approved
 * and applied.
 *
 * Why: a policy that moves a million blocks is looked at before it does.  What was looked at must
 * be what is done: the document names every block, and is signed by its content (docs/formats.md,
 * "Plans").  The same moves at the same time make the same document; those of another
 * time are another plan, with a signature and a job of its own.
 *
 * Ownership: the plan owns its moves and copies all texts.
 * Threads:   one owner.
 * Limits:    ADVISOR_PLAN_MOVES_MAX moves, ADVISOR_PLAN_GROUPS_MAX kinds of them (gateway, tier,
 *            namespace, rule and verb), and what one job can do (advisor/job/jobs.h); beyond them
 *            the plan is cut, and says so.
 */
#ifndef ADVISOR_PLAN_PLAN_DOCUMENT_H
#define ADVISOR_PLAN_PLAN_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/rule/rulebook.h"
#include "base/core/buffer.h"
#include "kvtier/order.h"

#define ADVISOR_PLAN_MOVES_MAX  524288
#define ADVISOR_PLAN_GROUPS_MAX 4096
#define ADVISOR_PLAN_TOP        10 /* of each kind of "biggest" */
#define ADVISOR_PLAN_BLOCK_MAX  96 /* bytes of a block's text */
#define ADVISOR_PLAN_DIGEST_MAX 65

struct advisor_plan;

struct advisor_plan_move {
    enum kvt_order_verb verb;
    const char *gateway;
    const char *tier; /* holder it is in: "hot@gw0" */
    const char *goes; /* holder it goes to; "": between hot volume and bucket, or deleted */
    const char *namespace_;
    const char *rule;
    struct kvt_order_item item;
    uint64_t size; /* of a shard */
    int32_t from;  /* tiers of the policy, for prices; -1: none */
    int32_t to;
};

KVT_NODISCARD enum kvt_err advisor_plan_new(struct advisor_plan **out);
/** NULL is allowed. */
void advisor_plan_free(struct advisor_plan *plan);

/** The next move.  KVT_OK, KVT_FULL (it is cut here) or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_plan_append(struct advisor_plan *plan,
                                               const struct advisor_plan_move *move);

/* Blocks that have a name in common. */
struct advisor_plan_sum {
    const char *name;
    uint64_t blocks;
    uint64_t bytes;
};

/* What a tenant has, and may have. */
struct advisor_plan_quota {
    const char *tenant;
    const char *tier; /* "": of all together */
    uint64_t soft;    /* bytes, as what follows; the hard quota where there is none */
    uint64_t hard;
    uint64_t before;
    uint64_t after;  /* all moves of the plan */
    uint64_t blocks; /* that leave for it */
    uint64_t bytes;
    uint64_t refused_blocks; /* that it keeps from coming up */
    uint64_t refused_bytes;
};

struct advisor_plan_frame {
    const struct advisor_rules *rules; /* planned under */
    uint64_t base_version;             /* in force when it was planned */
    const char *base_digest;
    uint64_t created_ms;
    uint64_t bytes_per_s;                   /* as earlier jobs went; 0: not known */
    bool cut;                               /* there is more */
    const struct advisor_plan_sum *classes; /* what of each class of the policy moves */
    size_t class_count;
    const struct advisor_plan_sum *pins; /* what each rule pins, and so stays */
    size_t pin_count;
    const struct advisor_plan_quota *quotas; /* all of the policy; written are those that matter */
    size_t quota_count;
    const char *const *warnings;
    size_t warning_count;
};

/** The document, as JSON; KVT_OK, KVT_NOMEM or KVT_RANGE (larger than the buffer may become). */
KVT_NODISCARD enum kvt_err advisor_plan_write(const struct advisor_plan *plan,
                                              const struct advisor_plan_frame *frame,
                                              struct kvt_buffer *out);

/* ---- a block in one text: "hash parent position ranks size" ---- */

void advisor_plan_block_format(const struct kvt_order_item *item, uint64_t size,
                               char text[ADVISOR_PLAN_BLOCK_MAX]);
bool advisor_plan_block_parse(const char *text, struct kvt_order_item *item, uint64_t *size);

/* ---- the signature: of each text its length, a colon, itself and a newline ---- */

struct advisor_plan_digest;
struct json_object;

/** NULL: no memory. */
struct advisor_plan_digest *advisor_plan_digest_new(void);
void advisor_plan_digest_text(struct advisor_plan_digest *digest, const char *text);
void advisor_plan_digest_number(struct advisor_plan_digest *digest, uint64_t number);
/** Any value, with all that is in it; what another program wrote differently counts as the same. */
void advisor_plan_digest_json(struct advisor_plan_digest *digest, struct json_object *value);
/** Ends it; "" when memory was short. */
void advisor_plan_digest_end(struct advisor_plan_digest *digest, char hex[ADVISOR_PLAN_DIGEST_MAX]);

#endif /* ADVISOR_PLAN_PLAN_DOCUMENT_H */
