/*
 * kvtier/error.h -- what can go wrong, as values.
 *
 * Why: a caller must be able to act on a failure without reading text, and a person must be able to
 * read what happened without a debugger.  So every fallible call returns one code from the table
 * below, and calls whose failure a person will read also fill a `struct kvt_error` with one line.
 *
 * Ownership: `struct kvt_error` lives with the caller and has a fixed size; reporting never
 *            allocates.
 * Threads:   no shared state.
 * Limits:    a message is cut at KVT_ERROR_TEXT_MAX - 1 bytes.
 */
#ifndef KVTIER_ERROR_H
#define KVTIER_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_NODISCARD        __attribute__((warn_unused_result))
#define KVT_PRINTF(fmt, arg) __attribute__((format(printf, fmt, arg)))

/* X(name, retry, text): one row per meaning a caller can act on.  `retry`: the same call may
 * succeed later without anybody changing anything. */
#define KVT_ERR_MAP(X)                                                                             \
    X(OK, false, "success")                                                                        \
    X(AGAIN, true, "no room right now")                                                            \
    X(TIMEOUT, true, "deadline passed")                                                            \
    X(UNAVAILABLE, true, "peer is away")                                                           \
    X(IO, true, "input/output error")                                                              \
    X(NOMEM, true, "out of memory")                                                                \
    X(BUSY, true, "held by another owner")                                                         \
    X(FULL, false, "capacity limit reached")                                                       \
    X(NOTFOUND, false, "not found")                                                                \
    X(EXISTS, false, "already exists")                                                             \
    X(PRECONDITION, false, "precondition failed")                                                  \
    X(INVALID, false, "invalid argument or input")                                                 \
    X(RANGE, false, "larger than the limit")                                                       \
    X(CORRUPT, false, "stored data failed its check")                                              \
    X(DENIED, false, "not allowed")                                                                \
    X(UNSUPPORTED, false, "not supported here")                                                    \
    X(CANCELLED, false, "cancelled")

enum kvt_err {
#define X(name, retry, text) KVT_##name,
    KVT_ERR_MAP(X)
#undef X
        KVT_ERR_COUNT
};

#define KVT_ERROR_TEXT_MAX 256

struct kvt_error {
    enum kvt_err code;
    int sys; /* errno, or 0 */
    char text[KVT_ERROR_TEXT_MAX];
};

/** Short stable name ("NOTFOUND"), for logs, metrics labels and JSON. */
const char *kvt_err_name(enum kvt_err code);

/** One lower-case phrase for people. */
const char *kvt_err_text(enum kvt_err code);

/** True where the same call may succeed later by itself. */
bool kvt_err_retryable(enum kvt_err code);

/**
 * Fill `err` (NULL is allowed: then only the code is returned).
 *
 * @return `code`, so that a caller can write `return kvt_error_set(err, KVT_INVALID, ...)`
 */
enum kvt_err kvt_error_set(struct kvt_error *err, enum kvt_err code, const char *format, ...)
    KVT_PRINTF(3, 4);

/** The same for a failed system call: `sys` gives the code, and ": <strerror>" is appended. */
enum kvt_err kvt_error_sys(struct kvt_error *err, int sys, const char *format, ...)
    KVT_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_ERROR_H */
