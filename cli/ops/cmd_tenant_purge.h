/*
 * cli/ops/cmd_tenant_purge.h -- a purge under way: what gateways found, and what is proven by it.
 *
 * Why: going round until nothing is found, and saying what that proves, are a page each.
 * Ownership: the purge owns its checks; it borrows the context.
 * Threads:   the main thread.
 * Limits:    CLI_PURGE_GATEWAYS_MAX gateways; CLI_PURGE_CHECKS_MAX gateways the advisor may name.
 */
#ifndef CLI_OPS_CMD_TENANT_PURGE_H
#define CLI_OPS_CMD_TENANT_PURGE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/frame/context.h"
#include "kvtier/block.h"
#include "kvtier/error.h"

#define CLI_PURGE_GATEWAYS_MAX 64
#define CLI_PURGE_CHECKS_MAX   160
#define CLI_PURGE_PLACES       9
#define CLI_PURGE_URL_MAX      256
#define CLI_PURGE_LINE_MAX     512
#define CLI_PURGE_WORD_MAX     16

/* What a pass at a gateway found. */
struct cli_purge_pass {
    uint64_t found[CLI_PURGE_PLACES]; /* cli_purge_places */
    uint64_t sum;                     /* of `found` */
    uint64_t removed;
    uint64_t failed;
    char uploads_by[CLI_PURGE_WORD_MAX]; /* gateway/care/purge.h */
    bool versions;
    char text[CLI_PURGE_LINE_MAX]; /* of the first failure */
};

struct cli_purge_gateway {
    char url[CLI_PURGE_URL_MAX];
    char name[KVT_NAME_MAX]; /* as it says itself; "" before it was asked */
    struct cli_purge_pass last;
    struct kvt_error lost; /* why it is asked no more; KVT_OK: it is */
};

struct cli_purge {
    const struct cli_context *context;
    char namespace_[KVT_NAMESPACE_MAX];
    struct cli_purge_gateway gateways[CLI_PURGE_GATEWAYS_MAX];
    size_t gateway_count;
    uint64_t removed;
    unsigned passes;
    bool came_back; /* pass after pass found something new: somebody writes */
    struct json_object *checks;
    size_t unproven;
};

/* The words are gateway/care/purge.h's, the texts for people. */
extern const struct cli_purge_place {
    const char *name;
    const char *text;
} cli_purge_places[CLI_PURGE_PLACES];

/** What the index says, waiting for it as long as the command may. */
void cli_purge_check_index(struct cli_purge *purge);

/** What each gateway's last pass says, and whether any was not asked. */
void cli_purge_check_gateways(struct cli_purge *purge);

/** What a look found, without a proof. */
void cli_purge_check_found(struct cli_purge *purge);

/** All checks, for people or programs. */
void cli_purge_print(const struct cli_purge *purge, bool proven);

#endif /* CLI_OPS_CMD_TENANT_PURGE_H */
