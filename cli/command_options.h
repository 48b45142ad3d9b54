/*
 * cli/command_options.h -- the options of each command, as rows for the table in
 * cli/command_table.c.
 *
 * Why: the table is long enough without them.
 * Ownership: static.
 * Threads:   read-only.
 * Limits:    included by cli/command_table.c alone.
 */
#ifndef CLI_COMMAND_OPTIONS_H
#define CLI_COMMAND_OPTIONS_H

#include "base/config/config.h"
#include "cli/frame/options.h"

static const struct kvt_param status_options[] = {CLI_OPTIONS_STATUS(KVT_PARAM_ROW)};
static const struct kvt_param top_options[] = {CLI_OPTIONS_TOP(KVT_PARAM_ROW)};
static const struct kvt_param block_show_options[] = {CLI_OPTIONS_BLOCK_SHOW(KVT_PARAM_ROW)};
static const struct kvt_param block_explain_options[] = {CLI_OPTIONS_BLOCK_EXPLAIN(KVT_PARAM_ROW)};
static const struct kvt_param index_stats_options[] = {CLI_OPTIONS_INDEX_STATS(KVT_PARAM_ROW)};
static const struct kvt_param index_match_options[] = {CLI_OPTIONS_INDEX_MATCH(KVT_PARAM_ROW)};
static const struct kvt_param index_dump_options[] = {CLI_OPTIONS_INDEX_DUMP(KVT_PARAM_ROW)};
static const struct kvt_param index_verify_options[] = {CLI_OPTIONS_INDEX_VERIFY(KVT_PARAM_ROW)};
static const struct kvt_param index_export_options[] = {CLI_OPTIONS_INDEX_EXPORT(KVT_PARAM_ROW)};
static const struct kvt_param index_import_options[] = {CLI_OPTIONS_INDEX_IMPORT(KVT_PARAM_ROW)};
static const struct kvt_param events_record_options[] = {CLI_OPTIONS_EVENTS_RECORD(KVT_PARAM_ROW)};
static const struct kvt_param events_replay_options[] = {CLI_OPTIONS_EVENTS_REPLAY(KVT_PARAM_ROW)};
static const struct kvt_param events_inject_options[] = {CLI_OPTIONS_EVENTS_INJECT(KVT_PARAM_ROW)};
static const struct kvt_param events_tail_options[] = {CLI_OPTIONS_EVENTS_TAIL(KVT_PARAM_ROW)};
static const struct kvt_param g4_ls_options[] = {CLI_OPTIONS_G4_LS(KVT_PARAM_ROW)};
static const struct kvt_param g4_stat_options[] = {CLI_OPTIONS_G4_STAT(KVT_PARAM_ROW)};
static const struct kvt_param g4_usage_options[] = {CLI_OPTIONS_G4_USAGE(KVT_PARAM_ROW)};
static const struct kvt_param g4_verify_options[] = {CLI_OPTIONS_G4_VERIFY(KVT_PARAM_ROW)};
static const struct kvt_param g4_get_options[] = {CLI_OPTIONS_G4_GET(KVT_PARAM_ROW)};
static const struct kvt_param g4_put_options[] = {CLI_OPTIONS_G4_PUT(KVT_PARAM_ROW)};
static const struct kvt_param g4_fsck_options[] = {CLI_OPTIONS_G4_FSCK(KVT_PARAM_ROW)};
static const struct kvt_param g4_adopt_options[] = {CLI_OPTIONS_G4_ADOPT(KVT_PARAM_ROW)};
static const struct kvt_param g4_compact_options[] = {CLI_OPTIONS_G4_COMPACT(KVT_PARAM_ROW)};
static const struct kvt_param g4_gc_options[] = {CLI_OPTIONS_G4_GC(KVT_PARAM_ROW)};
static const struct kvt_param g4_quarantine_options[] = {CLI_OPTIONS_G4_QUARANTINE(KVT_PARAM_ROW)};
static const struct kvt_param g4_locks_options[] = {CLI_OPTIONS_G4_LOCKS(KVT_PARAM_ROW)};
static const struct kvt_param route_ask_options[] = {CLI_OPTIONS_ROUTE_ASK(KVT_PARAM_ROW)};
static const struct kvt_param route_requests_options[] = {
    CLI_OPTIONS_ROUTE_REQUESTS(KVT_PARAM_ROW)};
static const struct kvt_param orders_ls_options[] = {CLI_OPTIONS_ORDERS_LS(KVT_PARAM_ROW)};
static const struct kvt_param migrate_status_options[] = {
    CLI_OPTIONS_MIGRATE_STATUS(KVT_PARAM_ROW)};
static const struct kvt_param doctor_options[] = {CLI_OPTIONS_DOCTOR(KVT_PARAM_ROW)};
static const struct kvt_param simulate_options[] = {CLI_OPTIONS_SIMULATE(KVT_PARAM_ROW)};
static const struct kvt_param generate_options[] = {CLI_OPTIONS_GENERATE(KVT_PARAM_ROW)};
static const struct kvt_param dev_options[] = {CLI_OPTIONS_DEV(KVT_PARAM_ROW)};
static const struct kvt_param policy_show_options[] = {CLI_OPTIONS_POLICY_SHOW(KVT_PARAM_ROW)};
static const struct kvt_param policy_change_options[] = {CLI_OPTIONS_POLICY_CHANGE(KVT_PARAM_ROW)};
static const struct kvt_param policy_plan_options[] = {CLI_OPTIONS_POLICY_PLAN(KVT_PARAM_ROW)};
static const struct kvt_param policy_apply_options[] = {CLI_OPTIONS_POLICY_APPLY(KVT_PARAM_ROW)};
static const struct kvt_param policy_diff_options[] = {CLI_OPTIONS_POLICY_DIFF(KVT_PARAM_ROW)};
static const struct kvt_param policy_schema_options[] = {CLI_OPTIONS_POLICY_SCHEMA(KVT_PARAM_ROW)};
static const struct kvt_param prefix_top_options[] = {CLI_OPTIONS_PREFIX_TOP(KVT_PARAM_ROW)};
static const struct kvt_param prefix_tree_options[] = {CLI_OPTIONS_PREFIX_TREE(KVT_PARAM_ROW)};
static const struct kvt_param prefix_pin_options[] = {CLI_OPTIONS_PREFIX_PIN(KVT_PARAM_ROW)};
static const struct kvt_param prefix_unpin_options[] = {CLI_OPTIONS_PREFIX_UNPIN(KVT_PARAM_ROW)};
static const struct kvt_param prefix_warm_options[] = {CLI_OPTIONS_PREFIX_WARM(KVT_PARAM_ROW)};
static const struct kvt_param prefix_purge_options[] = {CLI_OPTIONS_PREFIX_PURGE(KVT_PARAM_ROW)};
static const struct kvt_param tenant_purge_options[] = {CLI_OPTIONS_TENANT_PURGE(KVT_PARAM_ROW)};
static const struct kvt_param context_add_options[] = {CLI_OPTIONS_CONTEXT_ADD(KVT_PARAM_ROW)};
static const struct kvt_param context_ls_options[] = {CLI_OPTIONS_CONTEXT_LS(KVT_PARAM_ROW)};
static const struct kvt_param config_show_options[] = {CLI_OPTIONS_CONFIG_SHOW(KVT_PARAM_ROW)};

#endif /* CLI_COMMAND_OPTIONS_H */
