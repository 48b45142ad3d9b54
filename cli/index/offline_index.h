/*
 * cli/index/offline_index.h -- the advisor's index read from its folder, when nobody answers.
 *
 * Why: when the advisor is down, what it knew is exactly what one wants to see.  Answers have the
 * shape of the admin interface's (docs/api.md), so that commands print both the same way.
 *
 * Ownership: an answer belongs to the caller (json_object_put()).
 * Threads:   the main thread.
 * Limits:    read-only.  A question is one read transaction, which ends before anything is printed:
 *            stats and dump read the whole index into memory in it, which takes as long as a start
 *            of the advisor, and beside a running one keeps its file from reusing pages meanwhile.
 *            A copy of the index that was cut short ends the program: LMDB reads through a map.
 */
#ifndef CLI_INDEX_OFFLINE_INDEX_H
#define CLI_INDEX_OFFLINE_INDEX_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/frame/context.h"
#include "kvtier/error.h"

#define CLI_OFFLINE_INDEX_PAGE 1000

/* `folder` is the advisor's state.dir everywhere.  All give KVT_NOTFOUND when there is no index,
 * KVT_DENIED when it may not be read, KVT_CORRUPT or KVT_UNSUPPORTED (another format). */

/** As GET /v1/index/stats, with committed_seq, epoch, publishers, db_bytes and db_max_bytes. */
KVT_NODISCARD enum kvt_err cli_offline_index_stats(const char *folder, struct json_object **stats,
                                                   struct kvt_error *err);

/** As POST /v1/match, with the "matches" of POST /v1/find_matches. */
KVT_NODISCARD enum kvt_err cli_offline_index_match(const char *folder, const char *namespace_,
                                                   uint64_t *hashes, size_t count,
                                                   struct json_object **match,
                                                   struct kvt_error *err);

/** As GET /v1/blocks/<hash>, without children and policy: those are the running advisor's. */
KVT_NODISCARD enum kvt_err cli_offline_index_block(const char *folder, const char *namespace_,
                                                   uint64_t hash, struct json_object **block,
                                                   struct kvt_error *err);

/** As the lines of GET /v1/index/dump; `each` returns false to stop. */
KVT_NODISCARD enum kvt_err cli_offline_index_dump(const char *folder,
                                                  bool (*each)(void *arg, struct json_object *line),
                                                  void *arg, struct kvt_error *err);

/** Report `err` of one of these, and what to do about it. */
enum cli_exit cli_offline_index_fail(const struct cli_context *context,
                                     const struct kvt_error *err);

#endif /* CLI_INDEX_OFFLINE_INDEX_H */
