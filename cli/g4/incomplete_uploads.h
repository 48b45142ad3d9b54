/*
 * cli/g4/incomplete_uploads.h -- uploads that were begun in a bucket and not completed.
 *
 * Why: their parts take room that no listing shows.  The gateway begins none in the bucket; other
 * clients do, past it.
 * Ownership: borrows the findings.
 * Threads:   the main thread.
 * Limits:    a page of G4_BUCKET_UPLOADS_MAX in memory.
 */
#ifndef CLI_G4_INCOMPLETE_UPLOADS_H
#define CLI_G4_INCOMPLETE_UPLOADS_H

#include <stddef.h>

#include "cli/frame/context.h"
#include "cli/g4/finding.h"
#include "kvtier/error.h"

/** Tell each that is at least findings->older_ms old as "upload-left", and give it up where
 *  findings say so.  `first`: the command's first row of CLI_OPTIONS_BUCKET. */
KVT_NODISCARD enum kvt_err cli_incomplete_uploads_find(const struct cli_context *context,
                                                       size_t first, struct cli_findings *findings,
                                                       struct kvt_error *err);

#endif /* CLI_G4_INCOMPLETE_UPLOADS_H */
