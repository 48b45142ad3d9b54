#include "cli/command_table.h"

#include "cli/events/event_commands.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/command.h"
#include "cli/frame/options.h"
#include "cli/g4/g4_commands.h"
#include "cli/help/help_commands.h"
#include "cli/index/index_commands.h"
#include "cli/ops/ops_commands.h"
#include "cli/policy/policy_commands.h"
#include "cli/show/show_commands.h"
#include "cli/workload/workload_commands.h"

/* A constant array of the rows of cli/frame/options.h. */
#define ROWS(name) ((const struct kvt_param[]){CLI_OPTIONS_##name(KVT_PARAM_ROW)})
#define OPTIONS(name)                                                                              \
    .options = ROWS(name), .option_count = sizeof(ROWS(name)) / sizeof(struct kvt_param)

/* In the order of the help. */
static const struct cli_command commands[] = {
    {.path = "dev",
     .arguments = "",
     .summary = "Run NATS, advisor and gateway here until Ctrl-C",
     .details =
         "Starts a NATS server, an advisor and a gateway on free loopback ports, with everything "
         "they keep under one folder, waits until they are ready and prints where they are. Token, "
         "order key and credentials are made in that folder, readable by you alone. Settings in "
         "STATE/advisor.yaml and STATE/gateway.yaml are honoured. When a child dies, all stop.",
     .example = "dev --state /tmp/kvtier-dev",
     .bucket_alone = true,
     OPTIONS(DEV),
     .run = cli_dev_run},
    {.path = "status",
     .arguments = "",
     .summary = "Tiers, events, orders, S3 health and memory at a glance",
     .details = "Asks advisor and gateway. When one of them is away the other's part is shown and "
                "the exit status is 5.",
     .example = "status --watch=1s",
     .bare = "watch",
     .bare_as = "2s",
     OPTIONS(STATUS),
     .run = cli_status_run},
    {.path = "top",
     .arguments = "",
     .summary = "What the advisor's page shows, on this terminal",
     .details =
         "Verdict and troubles with what to type, tiers, where reads are answered, what orders "
         "moved, "
         "ages at reuse and hot prefixes. Keys: q quits, space stops and goes on, arrows and page "
         "keys scroll, ? explains. Without a terminal, and with --once or -o json, it prints once.",
     .example = "top --once",
     OPTIONS(TOP),
     .run = cli_top_run},
    {.path = "doctor",
     .arguments = "",
     .summary = "Check configuration, servers, credentials, clock and disk",
     .details = "Each check prints ok, warn or fail, and what to do about it. The exit status is 1 "
                "when one failed. With --s3 the store's conditional writes are tried on the bucket "
                "of --bucket, under .kvtier-selftest/.",
     .example = "doctor --s3 http://127.0.0.1:9000 --bucket kvtier",
     .bucket_alone = true,
     OPTIONS(DOCTOR),
     .run = cli_doctor_run},
    {.path = "block show",
     .arguments = "HASH",
     .summary = "Where a block is, who holds it and what the policy says",
     .details =
         "HASH is sixteen hex digits, 0x and hex digits, or decimal. With --offline children "
         "and policy are left out: they are the running advisor's.",
     .example = "block show 1f3c9a52b0d7e644",
     OPTIONS(BLOCK_SHOW),
     .run = cli_block_show},
    {.path = "block explain",
     .arguments = "HASH",
     .summary = "What the policy makes of a block, and why",
     .details =
         "For each volume and bucket that has it: the facts that rules ask for, every rule with "
         "every clause and whether it is true, the rule that has the block (>), whether that waits "
         "for its watermark, where the block stands in its tier's ordering, and the nearest "
         "change of a fact that would make a false clause true. What is pinned only its gateway "
         "knows. Exit status 3 when it is in no volume and no bucket.",
     .example = "block explain 1f3c9a52b0d7e644 --on second_cold_hit",
     OPTIONS(BLOCK_EXPLAIN),
     .run = cli_block_explain},
    {.path = "index stats",
     .arguments = "",
     .summary = "Blocks and bytes of each holder in the advisor's index",
     .details =
         "A holder is a worker's pool, or a tier behind a gateway. With --offline all of the "
         "index is read into memory first, which takes a while for millions of blocks.",
     .example = "index stats -o json",
     OPTIONS(INDEX_STATS),
     .run = cli_index_stats},
    {.path = "index match",
     .arguments = "HASH...",
     .summary = "Where these blocks are, and who has the longest prefix",
     .details = "Hashes are those of one prompt, root first.",
     .example = "index match 1f3c9a52b0d7e644 77aa01c3d2e4f590",
     OPTIONS(INDEX_MATCH),
     .run = cli_index_match},
    {.path = "index dump",
     .arguments = "",
     .summary = "Every place the advisor knows, one line each",
     .details = "With -o json the lines are JSON objects. With --offline all of the index is read "
                "into memory first.",
     .example = "index dump -o json",
     OPTIONS(INDEX_DUMP),
     .run = cli_index_dump},
    {.path = "index verify",
     .arguments = "",
     .summary = "Check that memory, store and its tables say the same",
     .details =
         "Walks the store in --offline DIR: each place in G4 must be reported by somebody, each "
         "report must have its block, each row of the log its checksum, each number its name. When "
         "the advisor answers, every place it has in memory is compared with the store too; what "
         "differs while events are applied must differ again a moment later. With --log the store "
         "is also compared with a recording of the events it came from. Exit status 1 when "
         "something is wrong.",
     .example = "index verify --offline /var/lib/kvtier/advisor",
     OPTIONS(INDEX_VERIFY),
     .run = cli_index_verify},
    {.path = "index export",
     .arguments = "FILE",
     .summary = "Write the durable index to a file of JSON lines",
     .details =
         "FILE may be - for standard output. Asks the advisor, or with --offline reads the folder "
         "of one, running or not. The file has all that an import needs: blocks with places and "
         "statistics, publishers with their last sequences, orders. Publishers of foreign event "
         "planes and what they hold are in it with --offline; an advisor that runs leaves them "
         "out: they are asked again.",
     .example = "index export /tmp/index.jsonl --offline /var/lib/kvtier/advisor",
     .words = "FILE",
     OPTIONS(INDEX_EXPORT),
     .run = cli_index_copy_export},
    {.path = "index import",
     .arguments = "FILE",
     .summary = "Make an advisor's durable index from an export",
     .details =
         "FILE may be - for standard input. The advisor of --state DIR must not run, and its index "
         "must be empty unless --force is given. The index takes its place when all of FILE was "
         "read and is whole; else nothing changes. Run it as the user of the advisor.",
     .example = "index import /tmp/index.jsonl --state /tmp/kvtier-new",
     .words = "FILE",
     OPTIONS(INDEX_IMPORT),
     .run = cli_index_copy_import},
    {.path = "sources ls",
     .arguments = "",
     .summary = "Where events come from: rate, lag, gaps, errors",
     .details = "Each source of the advisor, with how far behind it is, how many of its publishers "
                "are uncertain, and the last thing that was wrong with it.",
     .example = "sources ls",
     .lists = "sources:name,kind,namespace,state,detail",
     .run = cli_sources_ls},
    {.path = "sources show",
     .arguments = "NAME",
     .summary = "One source: counters, publishers and what is uncertain",
     .details = "Exit status 3 when there is none of that name.",
     .example = "sources show kvtier",
     .run = cli_sources_show},
    {.path = "events tail",
     .arguments = "",
     .summary = "Store and Remove events as they pass on NATS",
     .details =
         "One line an event; with -o json one JSON object a line. Messages of another --dialect "
         "are shown in their producer's words; events that are not for us show the reason. With "
         "--from-recording the events of a file that events record made.",
     .example = "events tail --from-start --limit 20",
     OPTIONS(EVENTS_TAIL),
     .run = cli_events_tail},
    {.path = "events record",
     .arguments = "FILE",
     .summary = "Keep messages as they pass, byte for byte, in a file",
     .details =
         "Listens to --subject, or reads --stream, until Ctrl-C or a limit. The messages are kept "
         "as they came: --dialect only notes how they are to be read. docs/formats.md has the "
         "format of FILE. Exit status 4 when messages came faster than they could be written.",
     .example = "events record /tmp/events.rec --duration 1m",
     .words = "FILE",
     OPTIONS(EVENTS_RECORD),
     .run = cli_record_run},
    {.path = "events replay",
     .arguments = "FILE",
     .summary = "Publish a recording again, in its order and time",
     .details =
         "FILE may be - for standard input. The messages keep what they say, also sequences and "
         "incarnations: an advisor that knows them already drops them as seen. Exit status 4 when "
         "FILE ends inside a record, 8 at a damaged one.",
     .example = "events replay /tmp/events.rec --speed max",
     .words = "FILE",
     OPTIONS(EVENTS_REPLAY),
     .run = cli_replay_run},
    {.path = "events inject",
     .arguments = "",
     .summary = "Publish events of your own, as a worker of your own",
     .details =
         "Each line is a JSON object: type (store, remove, clear, bye), hash, parent, position, "
         "size, tier, dp_rank, location, ranks, tokens_hash, prefix_hash; what is left out is 0, "
         "the tier G1. The worker is gone when this command is: the advisor drops what it holds "
         "after publishers.gone_after.",
     .example = "events inject --file /tmp/events.jsonl --dry-run",
     OPTIONS(EVENTS_INJECT),
     .run = cli_inject_run},
    {.path = "g4 ls",
     .arguments = "[PREFIX]",
     .summary = "Objects in the gateway's catalog, or in the bucket itself",
     .details =
         "PREFIX limits the list to keys that begin with it. With --s3 the bucket is listed, with "
         "all that is in it: blocks, locks, commit records, and the objects of others. Lines come "
         "as the pages do; --after goes on behind a key.",
     .example = "g4 ls 0/ --tier hot",
     OPTIONS(G4_LS),
     .run = cli_g4_ls},
    {.path = "g4 stat",
     .arguments = "KEY",
     .summary = "Length, checksum, fingerprint and copies of one object",
     .details =
         "With --s3 what the bucket has: its kind (block, tombstone, lock, meta, own, opaque), "
         "what it was written as, and what is wrong with it as far as its head tells. Exit status "
         "3 when there is none, 8 when it is damaged.",
     .example = "g4 stat 0/0:11Fu2GZ",
     OPTIONS(G4_STAT),
     .run = cli_g4_stat},
    {.path = "g4 get",
     .arguments = "KEY [FILE]",
     .summary = "Read one object and check it",
     .details =
         "FILE may be - for standard output, which is also without FILE. What fails its check is "
         "not written: exit status 8; 3 when there is none, or a tombstone.",
     .example = "g4 get 0/0:11Fu2GZ /tmp/block --s3 http://127.0.0.1:9000",
     .bucket_alone = true,
     OPTIONS(G4_GET),
     .run = cli_g4_get},
    {.path = "g4 put",
     .arguments = "KEY FILE",
     .summary = "Store a file under a key, with its checksum",
     .details =
         "A key that reads as a block's is written only when there is nothing: exit status 6 "
         "otherwise. At a store past its gateway, g4 fsck --repair makes the gateway count it.",
     .example = "g4 put notes/a.txt /tmp/a.txt --s3 http://127.0.0.1:9480",
     .bucket_alone = true,
     OPTIONS(G4_PUT),
     .run = cli_g4_put},
    {.path = "g4 verify",
     .arguments = "[PREFIX]",
     .summary = "Read objects and check their bytes",
     .details =
         "Through the gateway every copy is compared with the catalog, which needs the admin "
         "token; a bad one has been moved to quarantine when the command ends. With --s3 each "
         "object of the bucket is compared with what was written beside it, and nothing is "
         "changed. Exit status 8 when one is bad, 3 when no key begins with PREFIX. --state FILE "
         "lets a run that was interrupted go on.",
     .example = "g4 verify --all",
     OPTIONS(G4_VERIFY),
     .run = cli_g4_verify},
    {.path = "g4 usage",
     .arguments = "[PREFIX]",
     .summary = "Objects and bytes of each namespace, by kind and tier",
     .details =
         "As the gateway counts them, or with --s3 as the bucket lists them, the objects of others "
         "included: what counts against a cap is the first, what is paid for the second.",
     .example = "g4 usage",
     OPTIONS(G4_USAGE),
     .run = cli_g4_usage},
    {.path = "g4 fsck",
     .arguments = "",
     .summary = "Compare catalog, bucket and hot volume",
     .details =
         "Lists all three through the gateway, side by side, and asks about each key that does not "
         "fit: rows without object, objects without row, damage, foreign keys, hot files, locks "
         "past their lease, commit records of KVBM without data and data without them. Nothing is "
         "changed without --repair, which needs the admin token; no whole block is ever removed. "
         "Exit status 8 when a reader could meet what was found, 4 when a repair failed. "
         "docs/operations.md tells the findings one by one.",
     .example = "g4 fsck",
     OPTIONS(G4_FSCK),
     .run = cli_g4_fsck},
    {.path = "g4 adopt",
     .arguments = "",
     .summary = "Count what others put into the bucket, and watch it",
     .details =
         "The gateway walks its bucket and gives each object that it does not count a row: blocks "
         "of other gateways, blocks without checksum (KVBM's), which are counted and not served, "
         "and all other keys. Until such a walk came to its end once, cold.capacity of a bucket "
         "that was not empty is not kept. The walk goes on in the gateway, over restarts of it, "
         "from the last key; Ctrl-C only ends the watching, --stop the walk. Nothing in the bucket "
         "is changed. Needs the admin token. Exit status 4 when some objects could not be counted, "
         "7 when the catalog is full, 10 when it goes on or was stopped.",
     .example = "g4 adopt --rate 500",
     OPTIONS(G4_ADOPT),
     .run = cli_g4_adopt},
    {.path = "g4 compact",
     .arguments = "NAMESPACE",
     .summary = "Have the gateway pack a namespace's small objects",
     .details =
         "The gateway packs the small, cold blocks of a namespace in packed.namespaces into "
         "segment "
         "objects, and copies forward what lives of segments of which too little does; it does so "
         "by itself, too. --dry-run lists the namespace and says how many objects and bytes that "
         "would be, and how much of the segments lives, and changes nothing. While somebody else "
         "packs the namespace it is tried again; Ctrl-C ends the watching only. Needs the admin "
         "token. Exit status 3 when the namespace is not among packed.namespaces, 4 when it "
         "failed, "
         "10 when it goes on.",
     .example = "g4 compact acme/llama --dry-run",
     OPTIONS(G4_COMPACT),
     .run = cli_g4_compact},
    {.path = "g4 gc",
     .arguments = "",
     .summary = "Remove tombstones, free locks whose lease is over",
     .details =
         "Says what it would do; --yes does it, and needs the admin token. A lock is freed by its "
         "own protocol: the object stays, so that epochs go on. With --s3 also gives up uploads "
         "that nobody completed. Never removes a block.",
     .example = "g4 gc --older-than 7d",
     OPTIONS(G4_GC),
     .run = cli_g4_gc},
    {.path = "g4 quarantine",
     .arguments = "[ls|show|restore|drop] [ID|KEY]",
     .summary = "What the gateway found damaged, and why",
     .details =
         "Newest first. The bytes lie in quarantine/ of the gateway's state.dir, in the file that "
         "show names, until newer damage needs the room. restore stores a block anew whose bytes "
         "are what was written under its key, and no other: there is no way to force it. drop "
         "deletes the evidence. Both take an ID, a KEY (all of its entries) or --all, only say "
         "what they would do without --yes, and need the admin token. Exit status 3 when there is "
         "no such entry, 4 when one was left.",
     .example = "g4 quarantine ls",
     .lists = "entries:key,tier,reason,size,time_ms,file",
     .words = "ls|show|restore|drop",
     OPTIONS(G4_QUARANTINE),
     .run = cli_g4_quarantine},
    {.path = "g4 locks",
     .arguments = "[ls|show|break] [KEY]",
     .summary = "Lock objects in the bucket: holder, age, over or not",
     .details =
         "Asks the bucket of --bucket at --s3, no gateway. ls takes a prefix; show and break take "
         "a "
         "key, with or without .lock. Whether a lock is over is judged by the server's clock. "
         "break "
         "frees one that is over, with --force any: what its holder does next with it fails, but "
         "what it is doing goes on, so make sure that it is gone. Exit status 3 when there is no "
         "such lock, 6 when it is held.",
     .example = "g4 locks ls --s3 http://127.0.0.1:9000",
     .words = "ls|show|break",
     OPTIONS(G4_LOCKS),
     .run = cli_locks_run},
#include "cli/command_stored.def"

/* After what is stored, in the order of the help: the blank line keeps them unsorted. */
#include "cli/command_route.def"
    {.path = "orders ls",
     .arguments = "",
     .summary = "Orders the advisor gave, and what came of them",
     .details = "Newest first.",
     .example = "orders ls --limit 10",
     .lists = "orders:epoch,id,gateway,namespace,verb,from,to,keep,reason,items,bytes,"
              "issued_ms,expires_ms,state,done,failed,bytes_moved,text",
     OPTIONS(ORDERS_LS),
     .run = cli_orders_ls},
    {.path = "migrate status",
     .arguments = "[JOB]",
     .summary = "Jobs of moves: how far they are, and what failed",
     .details = "A job is what a plan, a purge or a pin of many blocks became; it goes on after a "
                "restart. With JOB its times, and each batch of which something failed.",
     .example = "migrate status 12 --watch",
     .lists = "jobs:id,kind,title,key,state,blocks,done,failed,batches,batches_done,bytes,"
              "bytes_moved,parts,suspend_ppm,policy_version,created_ms,finished_ms,text",
     .bare = "watch",
     .bare_as = "2s",
     OPTIONS(MIGRATE_STATUS),
     .run = cli_migrate_status},
    {.path = "migrate pause",
     .arguments = "[JOB]",
     .summary = "Pause a job, or stop all orders",
     .details =
         "Without JOB no order leaves any more, of the policy or of a job, until kvtier migrate "
         "resume, also over restarts. Orders that gateways have already come to their end.",
     .example = "migrate pause",
     .run = cli_migrate_pause},
    {.path = "migrate resume",
     .arguments = "[JOB]",
     .summary = "Go on with a job, or with all orders",
     .details = "With JOB that job, and what failed of it is tried again. Without it the stop of "
                "kvtier migrate pause ends; jobs that are paused themselves stay so.",
     .example = "migrate resume 12",
     .run = cli_migrate_resume},
    {.path = "migrate cancel",
     .arguments = "JOB",
     .summary = "End a job where it is",
     .details = "What was done stays done; orders that gateways have already come to their end.",
     .example = "migrate cancel 12",
     .run = cli_migrate_cancel},
    {.path = "policy show",
     .arguments = "[FILE]",
     .summary = "The policy in force, or what a policy file comes out as",
     .details =
         "Without FILE what the advisor follows: version, mode, ordering, watermarks, rules; "
         "with --text as it was written. With FILE every value, in one spelling, with the "
         "defaults and where each comes from.",
     .example = "policy show policy.yaml",
     .words = "FILE",
     OPTIONS(POLICY_SHOW),
     .run = cli_policy_show},
    {.path = "policy plan",
     .arguments = "[FILE]",
     .summary = "What a policy would move and delete now",
     .details =
         "Of the policy in FILE, or the one in force: what rules with a watermark drain, what "
         "rules without one move or delete, and what pin rules keep, block by block. Not what "
         "rules do on events, nor what leaves for quotas. Nothing is changed. What --out saves is "
         "signed by its content; kvtier policy apply does it. Needs the admin token: meanwhile no "
         "tier is drained.",
     .example = "policy plan policy.yaml --out plan.json",
     .words = "FILE",
     OPTIONS(POLICY_PLAN),
     .run = cli_plan_make},
    {.path = "policy apply",
     .arguments = "PLAN",
     .summary = "Do what a plan says",
     .details =
         "Gives the moves to the advisor as one job, puts the policy in force and waits for the "
         "end. The moves are made in the mode observe too, which only keeps rules from acting. It "
         "can be killed and run again: nothing is done twice. Exit status 4 when some "
         "blocks failed; 6 when it is stale (another version in force, older than a day, over 5% "
         "of its blocks moved) or its job was stopped; 7 when it deletes too much; 8 when it was "
         "changed; 10 without --yes.",
     .example = "policy apply plan.json --yes",
     .words = "FILE",
     OPTIONS(POLICY_APPLY),
     .run = cli_plan_apply},
    {.path = "policy install",
     .arguments = "FILE",
     .summary = "Put a policy in force",
     .details =
         "Needs the admin token. All mistakes are told as by policy validate, and nothing is sent "
         "then. The new version is durable when the command ends; the text that already is in "
         "force changes nothing. It goes as far as its own modes.mode (observe, unless it says "
         "more) and kvtier policy mode both allow. Exit status 6 when --if-version is not in "
         "force.",
     .example = "policy install policy.yaml",
     .words = "FILE",
     OPTIONS(POLICY_CHANGE),
     .run = cli_policy_install},
    {.path = "policy history",
     .arguments = "",
     .summary = "Versions of the policy, the newest first",
     .details = "The first is in force; the last 100 are kept.",
     .example = "policy history",
     .run = cli_policy_history},
    {.path = "policy rollback",
     .arguments = "[VERSION]",
     .summary = "Put an earlier version of the policy in force again",
     .details = "Needs the admin token. Without VERSION the one before this. It becomes a new "
                "version with the old text, so that this can be taken back too. Exit status 3 when "
                "it is not kept, 6 when --if-version is not in force.",
     .example = "policy rollback 3",
     OPTIONS(POLICY_CHANGE),
     .run = cli_policy_rollback},
    {.path = "policy validate",
     .arguments = "FILE",
     .summary = "Check a policy before the advisor sees it",
     .details =
         "FILE is a policy (docs/policies.md), or YAML with a policy: section, which is the "
         "advisor's settings. All mistakes of a policy are told at once, with line, column and the "
         "nearest word that is known. Nothing is sent anywhere. Exit status 1 when there is a "
         "mistake, 3 without the file.",
     .example = "policy validate policy.yaml",
     .words = "FILE",
     .run = cli_policy_validate},
    {.path = "policy test",
     .arguments = "FILE",
     .summary = "Run a policy's own tests",
     .details = "Of a test that fails: what was expected, which rule won, and every rule that was "
                "asked with each clause's truth and what would have made it true. Exit status 1 "
                "when one fails.",
     .example = "policy test policy.yaml",
     .words = "FILE",
     .run = cli_policy_test},
    {.path = "policy diff",
     .arguments = "OLD NEW",
     .summary = "What two policies do differently",
     .details =
         "Values that mean the same do not differ, however they are written, and neither "
         "does the order of keys; the order of rules does. Tests are left out without --tests. "
         "The policy in force is written to a file by kvtier policy show --text.",
     .example = "policy diff old.yaml new.yaml --detailed-exitcode",
     .words = "FILE",
     OPTIONS(POLICY_DIFF),
     .run = cli_policy_file_diff},
    {.path = "policy schema",
     .arguments = "",
     .summary = "The JSON Schema of a policy",
     .details = "Draft 2020-12. Editors complete keys by it and underline mistakes.",
     .example = "policy schema",
     OPTIONS(POLICY_SCHEMA),
     .run = cli_policy_file_schema},
    {.path = "policy mode",
     .arguments = "MODE",
     .summary = "Switch the advisor to off, observe or enforce",
     .details =
         "Needs the admin token. In observe the rules decide and report, and give no order; plans "
         "and jobs that you give are carried out all the same. In off neither is: jobs "
         "wait. The mode stays over restarts of the advisor, whatever its file says.",
     .example = "policy mode observe",
     .words = "off|observe|enforce",
     .run = cli_policy_mode},
    {.path = "policy simulate",
     .arguments = "[FILE]",
     .summary = "What a policy, or sizes of a hot tier, make of a workload",
     .details =
         "FILE is a recording of events record, or a trace as workload generate writes it, which "
         "may come as - from standard input; no policy, which --policy takes. "
         "Without FILE a trace is generated. Every ordering is run at every size, beside the best "
         "there could be (Belady) and with what moves, requests and storage cost; at the end it "
         "says which ordering and size it would pick, and why. With --policy it is that file's "
         "tiers, "
         "rules and quotas instead: what each tier serves, what moves between which two, and what "
         "that costs. Nothing is asked of any daemon.",
     .example = "policy simulate --requests 2000 --orderings rhi,lru --sizes 2%,10%",
     .words = "FILE",
     OPTIONS(SIMULATE),
     .run = cli_policy_simulate},
    {.path = "workload generate",
     .arguments = "",
     .summary = "Write a seeded multi-turn workload",
     .details = "JSON lines with timestamp, input_length, output_length and hash_ids, as "
                "kvtier-worker and public traces have them. docs/workload.md describes the shape.",
     .example = "workload generate --seed 7 --requests 1000 --out /tmp/workload.jsonl",
     OPTIONS(GENERATE),
     .run = cli_workload_generate},
    {.path = "workload stats",
     .arguments = "FILE",
     .summary = "Measure a workload or trace",
     .details = "FILE may be - for standard input. Counts requests, tokens, blocks, reuse and the "
                "time between uses.",
     .example = "workload stats /tmp/workload.jsonl",
     .words = "FILE",
     .run = cli_workload_stats},
    {.path = "context add",
     .arguments = "NAME",
     .summary = "Keep addresses and files of an installation under a name",
     .details =
         "What is kept are the flags of this command line: addresses of advisor and gateway, the "
         "bucket, NATS, and the names of files with tokens and credentials; no secret itself. The "
         "file is kvtier/contexts.yaml in $XDG_CONFIG_HOME or ~/.config. Exit status 6 when there "
         "is one of that name, without --replace.",
     .example = "context add prod --advisor-url http://advisor:9471",
     .bucket_alone = true,
     OPTIONS(CONTEXT_ADD),
     .run = cli_context_command_add},
    {.path = "context use",
     .arguments = "NAME",
     .summary = "Ask this installation from now on",
     .details = "Flags and KVTIER_* still come first, the settings file afterwards. --context NAME "
                "or KVTIER_CONTEXT choose one for a single call; NAME - is none. A call with "
                "--config FILE asks what FILE says: no context counts then unless it is chosen "
                "for that call.",
     .example = "context use prod",
     .words = "CONTEXT",
     .run = cli_context_command_use},
    {.path = "context ls",
     .arguments = "",
     .summary = "Contexts, and which one is in use",
     .details = "-o wide shows all that they hold.",
     .example = "context ls",
     .lists = "contexts:name",
     OPTIONS(CONTEXT_LS),
     .run = cli_context_command_ls},
    {.path = "context rm",
     .arguments = "NAME",
     .summary = "Forget a context",
     .details = "Exit status 3 when there is none of that name.",
     .example = "context rm prod",
     .words = "CONTEXT",
     .run = cli_context_command_rm},
    {.path = "key new",
     .arguments = "",
     .summary = "Make a master key for orders.key_file",
     .details = "32 random bytes as hex digits. Only the advisor has the master; each gateway "
                "gets keys of its own from 'key derive'. docs/operations.md has the steps that "
                "change it.",
     .example = "key new --out orders.key",
     OPTIONS(KEY_NEW),
     .run = cli_key_new},
    {.path = "key derive",
     .arguments = "FILE",
     .summary = "The keys of one gateway, from the master in FILE",
     .details = "A gateway with such a file can verify orders to it and sign its own reports. It "
                "cannot sign orders, nor reports of another gateway.",
     .example = "key derive --gateway gw0 --out gw0.key orders.key",
     OPTIONS(KEY_DERIVE),
     .run = cli_key_derive},
    {.path = "config show",
     .arguments = "",
     .summary = "The settings of this program as they come out",
     .details = "Flag before KVTIER_* before the context in use before " CLI_SETTINGS_FILE
                " before default. With --config FILE the context in use does not count.",
     .example = "config show --origin",
     OPTIONS(CONFIG_SHOW),
     .run = cli_config_show},
    {.path = "config example",
     .arguments = "",
     .summary = "A commented configuration file",
     .details = "Every setting with its default.",
     .example = "config example",
     .run = cli_config_example},
    {.path = "completion",
     .arguments = "SHELL",
     .summary = "Completion for bash, zsh or fish",
     .details =
         "For bash: source <(kvtier completion bash). For zsh: write it to a file _kvtier in "
         "$fpath. For fish: kvtier completion fish | source.",
     .example = "completion bash",
     .words = "bash|zsh|fish",
     .run = cli_completion_run},
    {.path = "manual",
     .arguments = "[COMMAND...]",
     .argument_max = 2,
     .summary = "The manual page, for man -l -",
     .details = "Without COMMAND: the page of the program; else of the command.",
     .example = "manual status",
     .run = cli_manual_run},
    {.path = "version",
     .arguments = "",
     .summary = "The version",
     .details = "The same as --version.",
     .example = "version",
     .run = cli_help_version},
    {.path = "help",
     .arguments = "[COMMAND...]",
     .argument_max = 2,
     .summary = "This list, or the help of one command",
     .details = "The same as COMMAND --help.",
     .example = "help status",
     .run = cli_help_run},
};

const struct cli_command_list cli_command_table = {commands,
                                                   sizeof(commands) / sizeof(commands[0])};
