/*
 * worker/replay/replay_app.h -- the worker program: what is started, in which order, and how it
 * ends.
 *
 * Why: main.c says what the program is called; this is what it does.
 * Ownership: everything lives within worker_app_run().
 * Threads:   runs on the main thread and watches over the others.
 * Limits:    none of its own.
 */
#ifndef WORKER_REPLAY_REPLAY_APP_H
#define WORKER_REPLAY_REPLAY_APP_H

#include "base/config/config.h"
#include "kvtier/error.h"

/** Replay, report, stay if asked to.  Non-OK: nothing was replayed, the trace had bad lines, or a
 *  byte was wrong. */
KVT_NODISCARD enum kvt_err worker_app_run(const struct kvt_config *config, struct kvt_error *err);

#endif /* WORKER_REPLAY_REPLAY_APP_H */
