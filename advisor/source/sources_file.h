/*
 * advisor/source/sources_file.h -- sources.file: which event planes to follow.
 *
 * Why: one advisor stands beside clusters of several kinds; which they are is the operator's list,
 * not a setting a kind (docs/operations.md, "Sources").
 *
 * Ownership: the list owns its texts; the options it gives point into it.
 * Threads:   none; one owner.
 * Limits:    ADVISOR_SOURCES_MAX sources.
 */
#ifndef ADVISOR_SOURCE_SOURCES_FILE_H
#define ADVISOR_SOURCE_SOURCES_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "advisor/source/sources.h"
#include "wire/nats/bus.h"

struct advisor_sources_file;

/* One entry. */
struct advisor_source_entry {
    const struct advisor_source_ops *ops;
    struct advisor_source_options options; /* without bus and position */
    struct wire_bus_options bus;           /* url "": the daemon's own server */
    bool over_nats;
};

/** KVT_INVALID: the file is wrong; `err` says where. */
KVT_NODISCARD enum kvt_err advisor_sources_file_load(struct advisor_sources_file **out,
                                                     const char *path, struct kvt_error *err);
/** NULL is allowed. */
void advisor_sources_file_free(struct advisor_sources_file *file);

size_t advisor_sources_file_count(const struct advisor_sources_file *file);
const struct advisor_source_entry *advisor_sources_file_at(const struct advisor_sources_file *file,
                                                           size_t at);

/** Canonical kinds read what KVTier's own workers send; one of them may be listed. */
bool advisor_source_is_canonical(const struct advisor_source_ops *ops);

#endif /* ADVISOR_SOURCE_SOURCES_FILE_H */
