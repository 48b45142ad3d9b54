/*
 * cli/g4/cmd_g4.h -- `kvtier g4 ls`, `stat`: objects, as the gateway knows them or as the bucket
 * has them.
 *
 * Why: what is in the bucket must be visible without reading the bucket by hand.
 * Threads:   the main thread.
 * Limits:    one page of a listing in memory.
 */
#ifndef CLI_G4_CMD_G4_H
#define CLI_G4_CMD_G4_H

#include <json-c/json.h>
#include <stdbool.h>

#include "cli/frame/context.h"
#include "kvtier/error.h"

struct cli_g4_walk {
    const char *tier;   /* "hot", "cold"; NULL or "" = both */
    const char *prefix; /* a gateway may send other keys all the same */
    const char *after;  /* begin behind this key; "" = at the first */
    bool (*each)(void *arg, struct json_object *line); /* false stops the walk */
};

/** The copies in the gateway's catalog, one line each. */
KVT_NODISCARD enum kvt_err cli_g4_walk(const struct cli_context *context,
                                       const struct cli_g4_walk *walk, void *arg,
                                       struct kvt_error *err);

#endif /* CLI_G4_CMD_G4_H */
