/*
 * base/core/file.h -- whole files and folders.
 *
 * Why: what is read is bounded, and what is written as a file is there after a power cut, whole or
 * not at all.
 * Ownership: see each call.
 * Limits:    the caller's `limit`.
 */
#ifndef BASE_CORE_FILE_H
#define BASE_CORE_FILE_H

#include <stddef.h>

#include "kvtier/error.h"

/**
 * Read a whole file of at most `limit` bytes; the result has a NUL after it.
 *
 * @param[out] out  receives the bytes (free with kvt_free()), NULL on failure
 * @return KVT_OK, KVT_NOTFOUND, KVT_RANGE (larger than limit), KVT_DENIED, KVT_INVALID (a
 *         folder), KVT_NOMEM or KVT_IO
 */
KVT_NODISCARD enum kvt_err kvt_file_read(char **out, size_t *size, const char *path, size_t limit,
                                         struct kvt_error *err);

/** Write `path` atomically and durably (temporary file, fsync, rename, fsync of the folder); what
 *  is no regular file, as a device or a pipe, is written to as it is. */
KVT_NODISCARD enum kvt_err kvt_file_write(const char *path, const void *bytes, size_t size,
                                          unsigned mode, struct kvt_error *err);

/** Write all of it to an open file, from where that stands.  0 or errno. */
int kvt_file_put(int fd, const void *bytes, size_t size);

/** Make a file's name durable in the folder that holds it. */
KVT_NODISCARD enum kvt_err kvt_file_sync_name(const char *path, struct kvt_error *err);

/** As `mkdir -p`, 0700 for folders it makes; each is durable in its parent. */
KVT_NODISCARD enum kvt_err kvt_folder_make(const char *path, struct kvt_error *err);

/** Make the names in a folder durable. */
KVT_NODISCARD enum kvt_err kvt_folder_sync(const char *path, struct kvt_error *err);

#endif /* BASE_CORE_FILE_H */
