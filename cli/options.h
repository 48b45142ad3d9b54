/*
 * cli/options.h -- the flags of each command, next to one another.
 *
 * Why: a row is the same as in config/<program>.def, so parsing, limits, suggestions, --help,
 * completion and the manual come from it; the first column is its number in the command's code.
 * Ownership: static.
 * Threads:   read-only.
 * Limits:    as base/config.h.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/config.h"

/* X(id, key, type, default, min, max, env, help); a key "a.b" is the flag --a-b. */
#define CLI_OPTIONS_STATUS(X)                                                                      \
    X(CLI_STATUS_WATCH, "watch", DURATION, "", "100ms", "1h", "",                                  \
      "Show it again and again, each 2s or as given (--watch=500ms), until Ctrl-C.")

#define CLI_OPTION_OFFLINE(X, id)                                                                  \
    X(id, "offline", PATH, "", "", "", "",                                                         \
      "Read the index in this folder, the advisor's state.dir, instead of asking the advisor.")

#define CLI_OPTIONS_BLOCK_SHOW(X)                                                                  \
    CLI_OPTION_OFFLINE(X, CLI_BLOCK_OFFLINE)                                                       \
    X(CLI_BLOCK_NAMESPACE, "namespace", STRING, "", "", "", "",                                    \
      "Namespace of the block; empty is the KVBM-compatible one.")

#define CLI_OPTIONS_INDEX_STATS(X) CLI_OPTION_OFFLINE(X, CLI_INDEX_STATS_OFFLINE)

#define CLI_OPTIONS_INDEX_MATCH(X)                                                                 \
    CLI_OPTION_OFFLINE(X, CLI_INDEX_MATCH_OFFLINE)                                                 \
    X(CLI_INDEX_NAMESPACE, "namespace", STRING, "", "", "", "",                                    \
      "Namespace of the blocks; empty is the KVBM-compatible one.")

#define CLI_OPTIONS_INDEX_DUMP(X)                                                                  \
    CLI_OPTION_OFFLINE(X, CLI_INDEX_DUMP_OFFLINE)                                                  \
    X(CLI_INDEX_LIMIT, "limit", INT, "0", "", "", "", "Stop after this many places; 0 is all.")

#define CLI_OPTIONS_EVENTS_TAIL(X)                                                                 \
    X(CLI_EVENTS_FROM_START, "from.start", BOOL, "false", "", "", "",                              \
      "Begin with the oldest event the stream still holds instead of the next one.")               \
    X(CLI_EVENTS_LIMIT, "limit", INT, "0", "", "", "", "Stop after this many events; 0 is never.") \
    X(CLI_EVENTS_NO_FOLLOW, "no.follow", BOOL, "false", "", "", "",                                \
      "With --from-start: stop at the newest event instead of waiting for more.")                  \
    X(CLI_EVENTS_HEARTBEATS, "heartbeats", BOOL, "false", "", "", "",                              \
      "Also show the empty batches that publishers send to say they are alive.")

#define CLI_OPTIONS_G4_LS(X)                                                                       \
    X(CLI_G4_LS_TIER, "tier", ENUM, "any", "", "any|hot|cold", "", "Only copies in this tier.")    \
    X(CLI_G4_LS_LIMIT, "limit", INT, "1000", "", "", "", "Stop after this many; 0 is all.")

#define CLI_OPTIONS_G4_VERIFY(X)                                                                   \
    X(CLI_G4_VERIFY_ALL, "all", BOOL, "false", "", "", "", "Every object the gateway knows.")

#define CLI_OPTIONS_ORDERS_LS(X)                                                                   \
    X(CLI_ORDERS_LIMIT, "limit", INT, "50", "1", "10000", "", "At most this many, newest first.")

#define CLI_OPTIONS_DOCTOR(X)                                                                      \
    X(CLI_DOCTOR_S3, "s3", STRING, "", "", "", "",                                                 \
      "Also test the S3 store at this address directly: credentials, bucket, conditions, clock.")  \
    X(CLI_DOCTOR_S3_CREDENTIALS, "s3.credentials_file", SECRET, "", "", "", "",                    \
      "File with access:secret[:token] for --s3; unset: AWS_ACCESS_KEY_ID and so on.")             \
    X(CLI_DOCTOR_S3_REGION, "s3.region", STRING, "", "", "", "AWS_REGION",                         \
      "Region for --s3; unset: us-east-1.")                                                        \
    X(CLI_DOCTOR_STATE, "state", PATH, "/var/lib/kvtier", "", "", "",                              \
      "Folder whose free space is checked.")

#define CLI_OPTIONS_GENERATE(X)                                                                    \
    X(CLI_GENERATE_SEED, "seed", INT, "1", "", "", "", "Same seed and flags, same bytes.")         \
    X(CLI_GENERATE_REQUESTS, "requests", INT, "10000", "1", "10000000", "", "Lines to write.")     \
    X(CLI_GENERATE_DURATION, "duration", DURATION, "1h", "1s", "30d", "",                          \
      "About the time between the first and the last request.")                                    \
    X(CLI_GENERATE_SESSIONS, "sessions", INT, "200", "1", "100000", "",                            \
      "Conversations going on at the same time; one that ends is followed by a new one.")          \
    X(CLI_GENERATE_MEAN_TURNS, "mean.turns", INT, "3", "1", "1000", "",                            \
      "Requests of a conversation, on average (geometric).")                                       \
    X(CLI_GENERATE_PROMPTS, "system.prompts", INT, "20", "1", "100000", "",                        \
      "Different system prompts; a conversation takes one by Zipf rank.")                          \
    X(CLI_GENERATE_PROMPT_TOKENS, "system.tokens", INT, "2048", "0", "1000000", "",                \
      "Tokens of a system prompt, on average (1/2 to 3/2, whole blocks).")                         \
    X(CLI_GENERATE_DOCUMENTS, "documents", INT, "200", "0", "1000000", "",                         \
      "Different shared documents; 0 is none.")                                                    \
    X(CLI_GENERATE_DOCUMENT_SHARE, "document.share", RATIO, "30%", "0%", "100%", "",               \
      "Conversations that begin with a document, chosen by Zipf rank.")                            \
    X(CLI_GENERATE_DOCUMENT_TOKENS, "document.tokens", INT, "6144", "0", "1000000", "",            \
      "Tokens of a document, on average (1/2 to 3/2, whole blocks).")                              \
    X(CLI_GENERATE_ZIPF, "zipf", STRING, "1.0", "", "", "",                                        \
      "Exponent of the popularity of prompts and documents, 0 (equal) to 4.")                      \
    X(CLI_GENERATE_FIRST_TOKENS, "first.tokens", INT, "6000", "1", "1000000", "",                  \
      "New tokens the first turn of a conversation brings, on average (exponential): text that "   \
      "was pasted in and is shared with nobody.")                                                  \
    X(CLI_GENERATE_INPUT_TOKENS, "input.tokens", INT, "600", "1", "1000000", "",                   \
      "New tokens a later turn brings, on average (exponential).")                                 \
    X(CLI_GENERATE_OUTPUT_TOKENS, "output.tokens", INT, "350", "1", "1000000", "",                 \
      "Tokens of an answer, on average (exponential); they join the history.")                     \
    X(CLI_GENERATE_CONTEXT_TOKENS, "context.tokens", INT, "131072", "1024", "16000000", "",        \
      "A conversation that would grow beyond this ends.")                                          \
    X(CLI_GENERATE_BLOCK_TOKENS, "block.tokens", INT, "512", "1", "65536", "",                     \
      "Tokens of a block: one id in hash_ids.")                                                    \
    X(CLI_GENERATE_IDLE_SHARE, "idle.share", RATIO, "5%", "0%", "100%", "",                        \
      "Turns that come after a long pause instead of a short one.")                                \
    X(CLI_GENERATE_IDLE_FACTOR, "idle.factor", INT, "20", "1", "10000", "",                        \
      "How many times longer a long pause is.")                                                    \
    X(CLI_GENERATE_OUT, "out", PATH, "-", "", "", "", "File to write; - is standard output.")

#define CLI_OPTIONS_DEV(X)                                                                         \
    X(CLI_DEV_STATE, "state", PATH, "", "", "", "",                                                \
      "Folder for everything; unset: kvtier/dev in $XDG_STATE_HOME or ~/.local/state.")            \
    X(CLI_DEV_S3, "s3", STRING, "", "", "", "",                                                    \
      "Keep blocks in the S3 store at this address instead of a folder.")                          \
    X(CLI_DEV_CREATE_BUCKET, "create.bucket", BOOL, "false", "", "", "",                           \
      "Create the bucket at --s3 when it is missing.")                                             \
    X(CLI_DEV_S3_CREDENTIALS, "s3.credentials_file", SECRET, "", "", "", "",                       \
      "File with access:secret[:token] for --s3; unset: AWS_ACCESS_KEY_ID and so on.")             \
    X(CLI_DEV_S3_REGION, "s3.region", STRING, "", "", "", "AWS_REGION",                            \
      "Region for --s3; unset: us-east-1.")                                                        \
    X(CLI_DEV_HOT_CAPACITY, "hot.capacity", SIZE, "1GiB", "", "", "",                              \
      "Bytes of the hot volume; 0 is none.")                                                       \
    X(CLI_DEV_COLD_CAPACITY, "cold.capacity", SIZE, "0", "", "", "",                               \
      "Cap of the cold store; 0 is none.")                                                         \
    X(CLI_DEV_POLICY_MODE, "policy.mode", ENUM, "enforce", "", "off|observe|enforce", "",          \
      "What the advisor does about its decisions.")                                                \
    X(CLI_DEV_NATS_SERVER, "nats.server", PATH, "nats-server", "", "", "",                         \
      "The nats-server program.")                                                                  \
    X(CLI_DEV_READY_WAIT, "ready.wait", DURATION, "60s", "1s", "10m", "",                          \
      "How long the children may take to become ready.")

#define CLI_OPTIONS_CONFIG_SHOW(X)                                                                 \
    X(CLI_CONFIG_ORIGIN, "origin", BOOL, "false", "", "", "", "Say where each value comes from.")

#define CLI_OPTION_ID(id, key, type, fallback, min, max, env, help) id,

enum cli_status_option { CLI_OPTIONS_STATUS(CLI_OPTION_ID) CLI_STATUS_COUNT };
enum cli_block_show_option { CLI_OPTIONS_BLOCK_SHOW(CLI_OPTION_ID) CLI_BLOCK_SHOW_COUNT };
enum cli_index_stats_option { CLI_OPTIONS_INDEX_STATS(CLI_OPTION_ID) CLI_INDEX_STATS_COUNT };
enum cli_index_match_option { CLI_OPTIONS_INDEX_MATCH(CLI_OPTION_ID) CLI_INDEX_MATCH_COUNT };
enum cli_index_dump_option { CLI_OPTIONS_INDEX_DUMP(CLI_OPTION_ID) CLI_INDEX_DUMP_COUNT };
enum cli_events_tail_option { CLI_OPTIONS_EVENTS_TAIL(CLI_OPTION_ID) CLI_EVENTS_TAIL_COUNT };
enum cli_g4_ls_option { CLI_OPTIONS_G4_LS(CLI_OPTION_ID) CLI_G4_LS_COUNT };
enum cli_g4_verify_option { CLI_OPTIONS_G4_VERIFY(CLI_OPTION_ID) CLI_G4_VERIFY_COUNT };
enum cli_orders_ls_option { CLI_OPTIONS_ORDERS_LS(CLI_OPTION_ID) CLI_ORDERS_LS_COUNT };
enum cli_doctor_option { CLI_OPTIONS_DOCTOR(CLI_OPTION_ID) CLI_DOCTOR_COUNT };
enum cli_generate_option { CLI_OPTIONS_GENERATE(CLI_OPTION_ID) CLI_GENERATE_COUNT };
enum cli_dev_option { CLI_OPTIONS_DEV(CLI_OPTION_ID) CLI_DEV_COUNT };
enum cli_config_show_option { CLI_OPTIONS_CONFIG_SHOW(CLI_OPTION_ID) CLI_CONFIG_SHOW_COUNT };

#endif /* CLI_OPTIONS_H */
