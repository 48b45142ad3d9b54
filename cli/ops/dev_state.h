/*
 * cli/ops/dev_state.h -- the folder of `kvtier dev`.
 *
 * Why: everything a run makes is in one folder that can be looked at, kept or deleted: data of the
 * three children, their logs, secrets (0600), and the files that tell other programs where they
 * are.
 *
 *   lock  dev.json  cli.yaml  worker.yaml  advisor.yaml  gateway.yaml
 *   nats/ advisor/ gateway/ hot/ cold/ worker/ run/ log/ secrets/
 *
 * Ownership: cli_dev_state_close() unlocks; files stay.
 * Threads:   the main thread.
 * Limits:    paths of CLI_DEV_PATH_MAX bytes.
 */
#ifndef CLI_OPS_DEV_STATE_H
#define CLI_OPS_DEV_STATE_H

#include <stdint.h>

#include "kvtier/error.h"

#define CLI_DEV_PATH_MAX 4096
#define CLI_DEV_URL_MAX  128
#define CLI_DEV_ROOM     64 /* what is put behind the folder at most */

struct cli_dev_state {
    char folder[CLI_DEV_PATH_MAX - CLI_DEV_ROOM]; /* absolute */
    int lock;                                     /* file descriptor, -1 = none */
};

/* Where everything is, once it runs. */
struct cli_dev_endpoints {
    char nats_url[CLI_DEV_URL_MAX];
    char advisor_url[CLI_DEV_URL_MAX];
    char gateway_url[CLI_DEV_URL_MAX];
    char data_url[CLI_DEV_URL_MAX];
    const char *bucket;
};

/** Make and lock the folder `path` ("" = the usual one), and the secrets that are missing.
 *  KVT_BUSY: another run has it. */
KVT_NODISCARD enum kvt_err cli_dev_state_open(struct cli_dev_state *state, const char *path,
                                              struct kvt_error *err);
void cli_dev_state_close(struct cli_dev_state *state);

/** "<folder>/<name>". */
void cli_dev_state_path(const struct cli_dev_state *state, const char *name,
                        char path[CLI_DEV_PATH_MAX]);

/** Write cli.yaml, worker.yaml and, last, dev.json. */
KVT_NODISCARD enum kvt_err cli_dev_state_publish(const struct cli_dev_state *state,
                                                 const struct cli_dev_endpoints *endpoints,
                                                 struct kvt_error *err);

/** Take dev.json away: nothing runs any more. */
void cli_dev_state_withdraw(const struct cli_dev_state *state);

#endif /* CLI_OPS_DEV_STATE_H */
