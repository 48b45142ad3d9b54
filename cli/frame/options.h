/*
 * cli/frame/options.h -- the flags of each command, next to one another.
 *
 * Why: a row is the same as in config/<program>.def, so parsing, limits, suggestions, --help,
 * completion and the manual come from it; the first column is its number in the command's code.
 * Ownership: static.
 * Threads:   read-only.
 * Limits:    as base/config/config.h.
 */
#ifndef CLI_FRAME_OPTIONS_H
#define CLI_FRAME_OPTIONS_H

#include "base/config/config.h"

/* X(id, key, type, default, min, max, env, help); a key "a.b" is the flag --a-b. */
#define CLI_OPTIONS_STATUS(X)                                                                      \
    X(CLI_STATUS_WATCH, "watch", DURATION, "", "100ms", "1h", "",                                  \
      "Show it again and again, each 2s or as given (--watch=500ms), until Ctrl-C.")

#define CLI_OPTIONS_TOP(X)                                                                         \
    X(CLI_TOP_EVERY, "every", DURATION, "1s", "100ms", "1h", "", "Ask again after this long.")     \
    X(CLI_TOP_ONCE, "once", BOOL, "false", "", "", "", "Print it once, as without a terminal.")

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

#define CLI_OPTIONS_INDEX_VERIFY(X)                                                                \
    X(CLI_INDEX_VERIFY_OFFLINE, "offline", PATH, "", "", "", "",                                   \
      "Folder of the index: the advisor's state.dir. The advisor may be running.")                 \
    X(CLI_INDEX_VERIFY_STORE_ONLY, "store.only", BOOL, "false", "", "", "",                        \
      "Do not compare the store with what the running advisor has in memory.")                     \
    X(CLI_INDEX_VERIFY_LOG, "log", PATH, "", "", "", "",                                           \
      "Compare the store with this recording of all events it came from (events record "           \
      "--stream KVTIER_EVENTS --no-follow), reckoned anew.")

#define CLI_OPTIONS_INDEX_EXPORT(X)                                                                \
    CLI_OPTION_OFFLINE(X, CLI_EXPORT_OFFLINE)                                                      \
    X(CLI_EXPORT_FORCE, "force", BOOL, "false", "", "", "", "Begin an existing FILE anew.")

#define CLI_OPTIONS_INDEX_IMPORT(X)                                                                \
    X(CLI_IMPORT_STATE, "state", PATH, "", "", "", "",                                             \
      "Folder the index is made in: the state.dir of an advisor that is not running.")             \
    X(CLI_IMPORT_DB_MAX, "db.max", SIZE, "8GiB", "1MiB", "", "",                                   \
      "What the database may grow to: the advisor's db.max.")                                      \
    X(CLI_IMPORT_FORCE, "force", BOOL, "false", "", "", "", "Throw away the index that is there.")

#define CLI_DIALECTS "kvtier|dynamo|engine|kvbm|minio"

#define CLI_OPTION_DIALECT(X, id)                                                                  \
    X(id, "dialect", ENUM, "kvtier", "", CLI_DIALECTS, "", "How the messages are written.")
#define CLI_OPTION_SUBJECT(X, id)                                                                  \
    X(id, "subject", STRING, "", "", "", "",                                                       \
      "What to listen to, with commas between several; unset: the dialect's own.")
#define CLI_OPTION_STREAM(X, id)                                                                   \
    X(id, "stream", STRING, "", "", "", "", "Read this JetStream stream instead of listening.")
#define CLI_OPTION_ZMQ(X, id)                                                                      \
    X(id, "zmq", STRING, "", "", "", "",                                                           \
      "Listen to these ZMQ publishers instead of NATS: tcp://HOST:PORT, with commas between "      \
      "several. --dialect says which kind: engine (vLLM, SGLang), dynamo or kvbm.")
#define CLI_OPTION_ZMQ_BIND(X, id)                                                                 \
    X(id, "zmq.bind", BOOL, "false", "", "", "", "With --zmq: the publishers connect to us.")
#define CLI_OPTION_SKIP_BAD(X, id)                                                                 \
    X(id, "skip.bad", BOOL, "false", "", "", "", "Go on behind a damaged record of a recording.")

#define CLI_OPTIONS_EVENTS_RECORD(X)                                                               \
    CLI_OPTION_DIALECT(X, CLI_RECORD_DIALECT)                                                      \
    CLI_OPTION_SUBJECT(X, CLI_RECORD_SUBJECT)                                                      \
    CLI_OPTION_STREAM(X, CLI_RECORD_STREAM)                                                        \
    CLI_OPTION_ZMQ(X, CLI_RECORD_ZMQ)                                                              \
    CLI_OPTION_ZMQ_BIND(X, CLI_RECORD_ZMQ_BIND)                                                    \
    X(CLI_RECORD_FROM_SEQ, "from.seq", INT, "1", "1", "", "",                                      \
      "With --stream: begin with this sequence; 1 is the oldest that is still there.")             \
    X(CLI_RECORD_NO_FOLLOW, "no.follow", BOOL, "false", "", "", "",                                \
      "With --stream: stop at the newest message instead of waiting for more.")                    \
    X(CLI_RECORD_COUNT, "count", INT, "0", "", "", "",                                             \
      "Stop after this many messages; 0 is never.")                                                \
    X(CLI_RECORD_DURATION, "duration", DURATION, "", "100ms", "30d", "", "Stop after this time.")  \
    X(CLI_RECORD_SIZE, "size", SIZE, "1GiB", "0", "", "",                                          \
      "Bytes the file may have; 0 is no limit. A message that does not fit ends the recording, "   \
      "with exit status 7.")                                                                       \
    X(CLI_RECORD_FORCE, "force", BOOL, "false", "", "", "", "Begin an existing FILE anew.")

#define CLI_OPTIONS_EVENTS_REPLAY(X)                                                               \
    X(CLI_REPLAY_SPEED, "speed", STRING, "1", "", "", "",                                          \
      "1 is as it was, 10 ten times as fast, max without waiting.")                                \
    X(CLI_REPLAY_SUBJECT_AS, "subject.as", STRING, "RECORDED", "", "", "",                         \
      "Publish all to this subject; RECORDED is each message's own.")                              \
    X(CLI_REPLAY_JETSTREAM, "jetstream", BOOL, "false", "", "", "",                                \
      "Wait for a stream's acknowledgement of each message.")                                      \
    X(CLI_REPLAY_COUNT, "count", INT, "0", "", "", "", "Stop after this many messages; 0 is all.") \
    CLI_OPTION_SKIP_BAD(X, CLI_REPLAY_SKIP_BAD)

#define CLI_OPTIONS_EVENTS_INJECT(X)                                                               \
    X(CLI_INJECT_FILE, "file", PATH, "-", "", "", "", "JSON lines; - is standard input.")          \
    X(CLI_INJECT_WORKER, "worker", STRING, "kvtier-inject", "", "", "",                            \
      "Name of the publisher; unique on the bus.")                                                 \
    X(CLI_INJECT_NAMESPACE, "namespace", STRING, "", "", "", "",                                   \
      "Namespace of the blocks; empty is the KVBM-compatible one.")                                \
    X(CLI_INJECT_INCARNATION, "incarnation", INT, "0", "", "", "",                                 \
      "Life of the publisher; a larger one ends the smaller. 0 is the time now.")                  \
    X(CLI_INJECT_FIRST_SEQ, "first.seq", INT, "1", "1", "", "",                                    \
      "Sequence of the first event; not 1 to go on with a life, or to make a gap.")                \
    X(CLI_INJECT_BATCH, "batch", INT, "256", "1", "4096", "", "Events in a message, at most.")     \
    X(CLI_INJECT_CORE, "core", BOOL, "false", "", "", "",                                          \
      "Publish without waiting for the stream's acknowledgement.")                                 \
    X(CLI_INJECT_BYE, "bye", BOOL, "false", "", "", "",                                            \
      "End with a Bye: the advisor drops what this worker holds.")                                 \
    X(CLI_INJECT_DRY_RUN, "dry.run", BOOL, "false", "", "", "",                                    \
      "Publish nothing: print each message's subject and bytes in hex.")

#define CLI_OPTIONS_EVENTS_TAIL(X)                                                                 \
    CLI_OPTION_DIALECT(X, CLI_EVENTS_DIALECT)                                                      \
    CLI_OPTION_SUBJECT(X, CLI_EVENTS_SUBJECT)                                                      \
    CLI_OPTION_STREAM(X, CLI_EVENTS_STREAM)                                                        \
    CLI_OPTION_ZMQ(X, CLI_EVENTS_ZMQ)                                                              \
    CLI_OPTION_ZMQ_BIND(X, CLI_EVENTS_ZMQ_BIND)                                                    \
    X(CLI_EVENTS_FROM_RECORDING, "from.recording", PATH, "", "", "", "",                           \
      "Show the events of this recording; - is standard input.")                                   \
    CLI_OPTION_SKIP_BAD(X, CLI_EVENTS_SKIP_BAD)                                                    \
    X(CLI_EVENTS_FROM_START, "from.start", BOOL, "false", "", "", "",                              \
      "Begin with the oldest event the stream still holds instead of the next one.")               \
    X(CLI_EVENTS_LIMIT, "limit", INT, "0", "", "", "", "Stop after this many events; 0 is never.") \
    X(CLI_EVENTS_NO_FOLLOW, "no.follow", BOOL, "false", "", "", "",                                \
      "With --from-start: stop at the newest event instead of waiting for more.")                  \
    X(CLI_EVENTS_HEARTBEATS, "heartbeats", BOOL, "false", "", "", "",                              \
      "Also show the empty batches that publishers send to say they are alive.")

/* The first rows of every command that may ask the bucket itself: cli/remote/cli_bucket.h counts
 * on their order. */
#define CLI_OPTIONS_BUCKET(X, id, what)                                                            \
    X(id##_S3, "s3", STRING, "", "", "", "", what)                                                 \
    X(id##_S3_CREDENTIALS, "s3.credentials_file", SECRET, "", "", "", "",                          \
      "File with access:secret[:token] for --s3; unset: AWS_ACCESS_KEY_ID and so on.")             \
    X(id##_S3_REGION, "s3.region", STRING, "", "", "", "AWS_REGION",                               \
      "Region for --s3; unset: us-east-1.")                                                        \
    X(id##_S3_CA, "s3.ca_file", PATH, "", "", "", "AWS_CA_BUNDLE",                                 \
      "Certificates to trust for an https address of --s3; unset: the system's.")

#define CLI_BUCKET_INSTEAD                                                                         \
    "Ask the bucket of --bucket at this S3 address itself, instead of the gateway."
#define CLI_OPTION_AFTER(X, id) X(id, "after", STRING, "", "", "", "", "Begin behind this key.")

#define CLI_OPTIONS_G4_LS(X)                                                                       \
    CLI_OPTIONS_BUCKET(X, CLI_G4_LS, CLI_BUCKET_INSTEAD)                                           \
    X(CLI_G4_LS_TIER, "tier", ENUM, "any", "", "any|hot|cold|warm|far", "",                        \
      "Only copies in this tier of the gateway.")                                                  \
    X(CLI_G4_LS_LIMIT, "limit", INT, "1000", "", "", "", "Stop after this many; 0 is all.")        \
    CLI_OPTION_AFTER(X, CLI_G4_LS_AFTER)

#define CLI_OPTIONS_G4_STAT(X) CLI_OPTIONS_BUCKET(X, CLI_G4_STAT, CLI_BUCKET_INSTEAD)

#define CLI_OPTIONS_G4_VERIFY(X)                                                                   \
    CLI_OPTIONS_BUCKET(X, CLI_G4_VERIFY, CLI_BUCKET_INSTEAD)                                       \
    X(CLI_G4_VERIFY_ALL, "all", BOOL, "false", "", "", "", "Every object there is.")               \
    CLI_OPTION_AFTER(X, CLI_G4_VERIFY_AFTER)                                                       \
    X(CLI_G4_VERIFY_STATE, "state", PATH, "", "", "", "",                                          \
      "Keep in this file how far it came, and go on from there when it is run again.")

#define CLI_OPTIONS_G4_USAGE(X) CLI_OPTIONS_BUCKET(X, CLI_G4_USAGE, CLI_BUCKET_INSTEAD)

#define CLI_BUCKET_UPLOADS                                                                         \
    "Also ask the bucket of --bucket at this S3 address for uploads that nobody completed."

#define CLI_OPTIONS_G4_FSCK(X)                                                                     \
    CLI_OPTIONS_BUCKET(X, CLI_FSCK, CLI_BUCKET_UPLOADS)                                            \
    X(CLI_FSCK_REPAIR, "repair", BOOL, "false", "", "", "",                                        \
      "Do what is safe about each finding, instead of only saying it.")                            \
    CLI_OPTION_AFTER(X, CLI_FSCK_AFTER)                                                            \
    X(CLI_FSCK_STATE, "state", PATH, "", "", "", "",                                               \
      "Keep in this file how far it came, and go on from there when it is run again.")

#define CLI_OPTIONS_G4_ADOPT(X)                                                                    \
    X(CLI_ADOPT_RATE, "rate", INT, "1000", "1", "1000000", "",                                     \
      "Objects a second that the gateway looks at.")                                               \
    X(CLI_ADOPT_DETACH, "detach", BOOL, "false", "", "", "", "Start it and do not wait.")          \
    X(CLI_ADOPT_STOP, "stop", BOOL, "false", "", "", "", "Stop it; the next run goes on there.")   \
    X(CLI_ADOPT_SHOW, "show", BOOL, "false", "", "", "", "Only say how far it is.")

#define CLI_OPTIONS_G4_COMPACT(X)                                                                  \
    X(CLI_COMPACT_DRY_RUN, "dry.run", BOOL, "false", "", "", "", "Only say what would be packed.")

#define CLI_OPTIONS_G4_GC(X)                                                                       \
    CLI_OPTIONS_BUCKET(X, CLI_GC, CLI_BUCKET_UPLOADS)                                              \
    X(CLI_GC_YES, "yes", BOOL, "false", "", "", "", "Do it, instead of only saying what.")         \
    X(CLI_GC_OLDER_THAN, "older.than", DURATION, "24h", "0s", "", "",                              \
      "Leave tombstones and uploads that are younger.")                                            \
    X(CLI_GC_ALONE, "alone", BOOL, "false", "", "", "",                                            \
      "No other gateway writes to the bucket: delete tombstones.")

#define CLI_BUCKET_ANY                                                                             \
    "Address of the S3 store; unset: the gateway's S3 port (gateway.data_url, "                    \
    "gateway.credentials_file)."

#define CLI_OPTIONS_G4_GET(X) CLI_OPTIONS_BUCKET(X, CLI_G4_GET, CLI_BUCKET_ANY)

#define CLI_OPTIONS_G4_PUT(X)                                                                      \
    CLI_OPTIONS_BUCKET(X, CLI_G4_PUT, CLI_BUCKET_ANY)                                              \
    X(CLI_G4_PUT_FINGERPRINT, "fingerprint", STRING, "0000000000000000", "", "", "",               \
      "Of a block's layout, as g4 stat shows it.")

#define CLI_OPTIONS_G4_QUARANTINE(X)                                                               \
    X(CLI_QUARANTINE_LIMIT, "limit", INT, "100", "1", "2000", "",                                  \
      "At most this many, newest first.")                                                          \
    X(CLI_QUARANTINE_ALL, "all", BOOL, "false", "", "", "", "Restore or drop every entry.")        \
    X(CLI_QUARANTINE_YES, "yes", BOOL, "false", "", "", "", "Do it, instead of only saying what.")

#define CLI_OPTIONS_G4_LOCKS(X)                                                                    \
    CLI_OPTIONS_BUCKET(X, CLI_LOCKS, "Address of the S3 store.")                                   \
    X(CLI_LOCKS_LIMIT, "limit", INT, "1000", "", "", "", "Stop after this many; 0 is all.")        \
    X(CLI_LOCKS_FORCE, "force", BOOL, "false", "", "", "", "Break a lock whose lease is not over.")

#define CLI_OPTIONS_ORDERS_LS(X)                                                                   \
    X(CLI_ORDERS_LIMIT, "limit", INT, "50", "1", "10000", "", "At most this many, newest first.")

#define CLI_OPTIONS_MIGRATE_STATUS(X)                                                              \
    X(CLI_MIGRATE_WATCH, "watch", DURATION, "", "100ms", "1h", "",                                 \
      "Show it again and again, each 2s or as given, until the job ends or Ctrl-C.")

#define CLI_OPTIONS_DOCTOR(X)                                                                      \
    CLI_OPTIONS_BUCKET(X, CLI_DOCTOR,                                                              \
                       "Also test the S3 store at this address directly: credentials, bucket, "    \
                       "conditions, clock, and settings of the bucket.")                           \
    X(CLI_DOCTOR_STATE, "state", PATH, "/var/lib/kvtier", "", "", "",                              \
      "Folder whose free space is checked.")

#define CLI_OPTIONS_KEY_NEW(X)                                                                     \
    X(CLI_KEY_NEW_OUT, "out", PATH, "", "", "", "",                                                \
      "Write it to this new file, which only its owner can read.")

#define CLI_OPTIONS_KEY_DERIVE(X)                                                                  \
    X(CLI_KEY_DERIVE_GATEWAY, "gateway", STRING, "", "", "", "",                                   \
      "Keys that verify the orders to this gateway and sign its reports.")                         \
    X(CLI_KEY_DERIVE_OUT, "out", PATH, "", "", "", "",                                             \
      "Write them to this new file, which only its owner can read.")

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

#define CLI_OPTIONS_SIMULATE(X)                                                                    \
    X(CLI_SIMULATE_ORDERINGS, "orderings", STRING, "all", "", "", "",                              \
      "Orderings side by side, as rhi,lru; all is every one there is.")                            \
    X(CLI_SIMULATE_POLICY, "policy", PATH, "", "", "", "",                                         \
      "Simulate this policy with all its tiers, instead of orderings and sizes of one.")           \
    X(CLI_SIMULATE_CAPACITY, "capacity", STRING, "", "", "", "",                                   \
      "Of the policy's tiers, in place of what it says: ssd=200GiB,near=2TiB; 0B is endless.")     \
    X(CLI_SIMULATE_PLUGIN, "plugin", PATH, "", "", "", "",                                         \
      "One more ordering, out of this shared object (kvtier/ordering.h).")                         \
    X(CLI_SIMULATE_SIZES, "sizes", STRING, "1%,2%,5%,10%,20%,30%,50%", "", "", "",                 \
      "Sizes of the hot tier: shares of the different blocks (5%), sizes (2TiB), or numbers of "   \
      "blocks.")                                                                                   \
    X(CLI_SIMULATE_BLOCK_SIZE, "block.size", SIZE, "160MiB", "1", "", "",                          \
      "Bytes of a block; 160 MiB are 512 tokens of a model that takes 320 KiB a token.")           \
    X(CLI_SIMULATE_PROMOTION, "promotion", ENUM, "price", "", "always|never|second-read|price",    \
      "",                                                                                          \
      "When a block that was read cold comes back: at once, never, at the second cold read, "      \
      "or when what it is expected to save exceeds two moves.")                                    \
    X(CLI_SIMULATE_SECOND, "second.requests", INT, "1000", "1", "", "",                            \
      "For second-read: requests between two cold reads at most.")                                 \
    X(CLI_SIMULATE_IDLE, "idle.requests", INT, "100", "1", "", "",                                 \
      "For the ordering idle: requests after which a block leaves.")                               \
    X(CLI_SIMULATE_COLD_COST, "cold.read.cost", STRING, "10", "", "", "",                          \
      "What a cold read costs, in hot reads (in time, usually).")                                  \
    X(CLI_SIMULATE_MOVE_COST, "move.cost", STRING, "1", "", "", "",                                \
      "What moving a block up or down costs, in hot reads.")                                       \
    X(CLI_SIMULATE_PRICE_PUT, "price.put", STRING, "0.005", "", "", "",                            \
      "Money for 1,000 PUTs of the bucket.")                                                       \
    X(CLI_SIMULATE_PRICE_GET, "price.get", STRING, "0.0004", "", "", "", "Money for 1,000 GETs.")  \
    X(CLI_SIMULATE_PRICE_HOT, "price.hot", STRING, "0.08", "", "", "",                             \
      "Money for a GiB in the hot tier for a month.")                                              \
    X(CLI_SIMULATE_PRICE_COLD, "price.cold", STRING, "0.023", "", "", "",                          \
      "Money for a GiB in the bucket for a month.")                                                \
    X(CLI_SIMULATE_PRICE_TRANSFER, "price.transfer", STRING, "0", "", "", "",                      \
      "Money for a GiB read out of the bucket.")                                                   \
    X(CLI_SIMULATE_SEED, "seed", INT, "1", "", "", "", "Without FILE: of the generated workload.") \
    X(CLI_SIMULATE_REQUESTS, "requests", INT, "10000", "1", "10000000", "",                        \
      "Without FILE: requests of the generated workload.")                                         \
    X(CLI_SIMULATE_REPORT, "report", PATH, "", "", "", "",                                         \
      "Also write a page (.html) or a picture (.svg) that needs nothing else.")

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
    X(CLI_DEV_S3_CA, "s3.ca_file", PATH, "", "", "", "AWS_CA_BUNDLE",                              \
      "Certificates to trust for an https address of --s3; unset: the system's.")                  \
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

#define CLI_OPTIONS_BLOCK_EXPLAIN(X)                                                               \
    X(CLI_BLOCK_EXPLAIN_NAMESPACE, "namespace", STRING, "", "", "", "", "Namespace of the block.") \
    X(CLI_BLOCK_EXPLAIN_ON, "on", ENUM, "nothing", "",                                             \
      "nothing|stored|last_holder_removed|second_cold_hit|session_end|fragmentation", "",          \
      "What if this happened to it.")

#define CLI_OPTIONS_POLICY_SHOW(X)                                                                 \
    X(CLI_POLICY_SHOW_TEXT, "text", BOOL, "false", "", "", "",                                     \
      "The policy in force as it was written, and nothing else.")

#define CLI_OPTIONS_POLICY_CHANGE(X)                                                               \
    X(CLI_POLICY_IF_VERSION, "if_version", INT, "0", "0", "9223372036854775807", "",               \
      "Only while this version is in force; 0: whichever is.")

#define CLI_OPTIONS_POLICY_PLAN(X)                                                                 \
    X(CLI_PLAN_OUT, "out", PATH, "", "", "", "", "Also save the plan here, to be applied.")

#define CLI_OPTIONS_POLICY_APPLY(X)                                                                \
    X(CLI_APPLY_YES, "yes", BOOL, "false", "", "", "",                                             \
      "Do it; without it, say what would be done.")                                                \
    X(CLI_APPLY_MAX_DELETE, "max_delete", INT, "", "0", "9223372036854775807", "",                 \
      "Blocks it may delete; unset: the policy's modes.max_delete.")                               \
    X(CLI_APPLY_DETACH, "detach", BOOL, "false", "", "", "",                                       \
      "End when the advisor has all of it, not when all is done.")

#define CLI_OPTIONS_POLICY_DIFF(X)                                                                 \
    X(CLI_POLICY_DIFF_DETAILED, "detailed_exitcode", BOOL, "false", "", "", "",                    \
      "Exit status 10 when there is a difference.")                                                \
    X(CLI_POLICY_DIFF_TESTS, "tests", BOOL, "false", "", "", "",                                   \
      "The policies' own tests count too.")

#define CLI_OPTIONS_POLICY_SCHEMA(X)                                                               \
    X(CLI_POLICY_SCHEMA_AS, "as", ENUM, "json-schema", "", "json-schema|markdown", "",             \
      "JSON Schema for editors, or the reference of the manual.")

#define CLI_OPTION_NAMESPACE(X, id)                                                                \
    X(id, "namespace", STRING, "", "", "", "",                                                     \
      "Namespace of the block; empty is the KVBM-compatible one.")

/* The first three are the same for all that is done with a prefix. */
#define CLI_OPTIONS_PREFIX_ACT(X, name)                                                            \
    CLI_OPTION_NAMESPACE(X, CLI_PREFIX_##name##_NAMESPACE)                                         \
    X(CLI_PREFIX_##name##_DRY_RUN, "dry_run", BOOL, "false", "", "", "", "Only say what it is.")   \
    X(CLI_PREFIX_##name##_WAIT, "wait", BOOL, "false", "", "", "", "Stay until it is done.")

#define CLI_OPTIONS_PREFIX_TOP(X)                                                                  \
    X(CLI_PREFIX_TOP_LIMIT, "limit", INT, "20", "1", "64", "", "How many prefixes.")

#define CLI_OPTIONS_PREFIX_TREE(X)                                                                 \
    CLI_OPTION_NAMESPACE(X, CLI_PREFIX_TREE_NAMESPACE)                                             \
    X(CLI_PREFIX_TREE_DEPTH, "depth", INT, "3", "0", "32", "", "Levels below the block.")          \
    X(CLI_PREFIX_TREE_WIDTH, "width", INT, "8", "1", "64", "", "Children of a block.")

#define CLI_OPTIONS_PREFIX_PIN(X)                                                                  \
    CLI_OPTIONS_PREFIX_ACT(X, PIN)                                                                 \
    X(CLI_PREFIX_PIN_FOR, "for", DURATION, "", "1s", "36500d", "",                                 \
      "End it after this time; without it kvtier prefix unpin does.")

#define CLI_OPTIONS_PREFIX_UNPIN(X) CLI_OPTIONS_PREFIX_ACT(X, UNPIN)

#define CLI_OPTIONS_PREFIX_WARM(X)                                                                 \
    CLI_OPTIONS_PREFIX_ACT(X, WARM)                                                                \
    X(CLI_PREFIX_WARM_TO, "to", ENUM, "hot", "", "hot|warm|cold", "", "The tier to bring it up to.")

#define CLI_OPTIONS_PREFIX_PURGE(X)                                                                \
    CLI_OPTIONS_PREFIX_ACT(X, PURGE)                                                               \
    X(CLI_PREFIX_PURGE_YES, "yes", BOOL, "false", "", "", "", "Do not ask.")

#define CLI_OPTIONS_TENANT_PURGE(X)                                                                \
    X(CLI_TENANT_PURGE_MODEL, "model", STRING, "", "", "", "",                                     \
      "Only this model of the tenant: the namespaces TENANT/MODEL and below.")                     \
    X(CLI_TENANT_PURGE_YES, "yes", BOOL, "false", "", "", "", "Do not ask.")                       \
    X(CLI_TENANT_PURGE_DRY_RUN, "dry_run", BOOL, "false", "", "", "", "Only say what there is.")   \
    X(CLI_TENANT_PURGE_SETTLE, "settle", DURATION, "30s", "0s", "1h", "",                          \
      "How long the index may take to hear of what was removed.")

#define CLI_OPTIONS_CONTEXT_ADD(X)                                                                 \
    X(CLI_CONTEXT_ADD_REPLACE, "replace", BOOL, "false", "", "", "",                               \
      "Change the context of that name: flags that are given replace what it holds.")

#define CLI_OPTIONS_CONTEXT_LS(X)                                                                  \
    X(CLI_CONTEXT_LS_NAMES, "names", BOOL, "false", "", "", "", "Only the names, one a line.")

#define CLI_OPTIONS_CONFIG_SHOW(X)                                                                 \
    X(CLI_CONFIG_ORIGIN, "origin", BOOL, "false", "", "", "", "Say where each value comes from.")

#define CLI_ROUTE_OR_SET "; unset: as the advisor's settings say."

#define CLI_OPTIONS_ROUTE_ASK(X)                                                                   \
    X(CLI_ROUTE_NAMESPACE, "namespace", STRING, "", "", "", "",                                    \
      "Namespace of the blocks; empty is the KVBM-compatible one.")                                \
    X(CLI_ROUTE_TOKEN_HASHES, "token.hashes", BOOL, "false", "", "", "",                           \
      "The hashes are local ones, of each block's own tokens (Dynamo's).")                         \
    X(CLI_ROUTE_TOKENS, "tokens", PATH, "", "", "", "",                                            \
      "Read the prompt's tokens from this file, numbers with blanks or commas between, instead "   \
      "of hashes.")                                                                                \
    X(CLI_ROUTE_BLOCK_TOKENS, "block.tokens", INT, "", "1", "65536", "",                           \
      "Tokens of a block" CLI_ROUTE_OR_SET)                                                        \
    X(CLI_ROUTE_ISL_TOKENS, "isl.tokens", INT, "", "1", "", "",                                    \
      "Tokens of the prompt; unset: as many as the blocks have.")                                  \
    X(CLI_ROUTE_WORKERS, "workers", STRING, "", "", "", "", "Only these, with commas between.")    \
    X(CLI_ROUTE_OVERLAP, "overlap.score_weight", RATIO, "", "0", "1000", "",                       \
      "What computing a block weighs against keeping one" CLI_ROUTE_OR_SET)                        \
    X(CLI_ROUTE_TEMPERATURE, "temperature", RATIO, "", "0", "1000", "",                            \
      "0: the lowest cost; above: drawn" CLI_ROUTE_OR_SET)                                         \
    X(CLI_ROUTE_G1, "g1.weight", RATIO, "", "0", "1000", "",                                       \
      "What a block in the worker's GPU saves of computing it" CLI_ROUTE_OR_SET)                   \
    X(CLI_ROUTE_G2, "g2.weight", RATIO, "", "0", "1000", "", "In its host memory.")                \
    X(CLI_ROUTE_G3, "g3.weight", RATIO, "", "0", "1000", "", "On its disk.")                       \
    X(CLI_ROUTE_G4, "g4.weight", RATIO, "", "0", "1000", "", "In volumes and buckets.")            \
    X(CLI_ROUTE_ACTIVE, "active.request_weight", RATIO, "", "0", "1000", "",                       \
      "What a running request weighs beside its blocks" CLI_ROUTE_OR_SET)                          \
    X(CLI_ROUTE_REQUEST_ID, "request.id", STRING, "", "", "", "",                                  \
      "Give the request out under this id: what it does weighs until route free. Needs the admin " \
      "token.")

#define CLI_OPTIONS_ROUTE_REQUESTS(X)                                                              \
    X(CLI_ROUTE_LIMIT, "limit", INT, "100", "1", "10000", "", "At most this many.")

/* T(NAME): the rows CLI_OPTIONS_NAME are the flags of a command or of several. */
/* clang-format off */
#define CLI_OPTION_TABLES(T)                                                                       \
    T(STATUS) T(TOP) T(BLOCK_SHOW) T(INDEX_STATS) T(INDEX_MATCH) T(INDEX_DUMP) T(INDEX_VERIFY)     \
    T(INDEX_EXPORT) T(INDEX_IMPORT) T(EVENTS_RECORD) T(EVENTS_REPLAY) T(EVENTS_INJECT)             \
    T(EVENTS_TAIL) T(G4_LS) T(G4_STAT) T(G4_USAGE) T(G4_VERIFY) T(G4_FSCK) T(G4_ADOPT)             \
    T(G4_COMPACT) T(G4_GC) T(G4_GET) T(G4_PUT) T(G4_QUARANTINE) T(G4_LOCKS) T(ROUTE_ASK)           \
    T(ROUTE_REQUESTS) T(ORDERS_LS) T(MIGRATE_STATUS) T(DOCTOR) T(GENERATE) T(SIMULATE) T(DEV)      \
    T(BLOCK_EXPLAIN) T(POLICY_SHOW) T(POLICY_CHANGE) T(POLICY_PLAN) T(POLICY_APPLY)                \
    T(POLICY_DIFF) T(POLICY_SCHEMA) T(PREFIX_TOP) T(PREFIX_TREE) T(PREFIX_PIN) T(PREFIX_UNPIN)     \
    T(PREFIX_WARM) T(PREFIX_PURGE) T(TENANT_PURGE) T(CONTEXT_ADD) T(CONTEXT_LS) T(KEY_NEW)      \
    T(KEY_DERIVE) T(CONFIG_SHOW)

/* The numbers of the rows of each: CLI_STATUS_WATCH, ... */
#define CLI_OPTION_ID(id, key, type, fallback, min, max, env, help) id,

#define CLI_OPTION_IDS(name)                                                                       \
    enum { CLI_OPTIONS_##name(CLI_OPTION_ID) };

CLI_OPTION_TABLES(CLI_OPTION_IDS)
/* clang-format on */

#endif /* CLI_FRAME_OPTIONS_H */
