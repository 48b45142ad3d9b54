#include "kvtier/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/redact.h"

struct row {
    const char *name;
    const char *text;
    bool retry;
};

static const struct row rows[] = {
#define X(name, retry, text) {#name, text, retry},
    KVT_ERR_MAP(X)
#undef X
};

static const struct row unknown_row = {"UNKNOWN", "unknown error", false};

static const struct row *
row_of(enum kvt_err code)
{
    return (size_t)code < sizeof(rows) / sizeof(rows[0]) ? &rows[code] : &unknown_row;
}

const char *
kvt_err_name(enum kvt_err code)
{
    return row_of(code)->name;
}

const char *
kvt_err_text(enum kvt_err code)
{
    return row_of(code)->text;
}

bool
kvt_err_retryable(enum kvt_err code)
{
    return row_of(code)->retry;
}

/* Into a buffer of our own first: a caller that adds to a message passes err->text as an argument,
 * and printing a buffer into itself is undefined. */
static void fill(struct kvt_error *err, enum kvt_err code, int sys, const char *format,
                 va_list args) KVT_PRINTF(4, 0);

static void
fill(struct kvt_error *err, enum kvt_err code, int sys, const char *format, va_list args)
{
    char text[KVT_ERROR_TEXT_MAX];
    size_t size;

    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    if (sys != 0) {
        char buffer[64];
        const char *why = strerror_r(sys, buffer, sizeof(buffer));

        size = strlen(text);
        (void)snprintf(text + size, sizeof(text) - size, ": %s", why);
    }
    kvt_redact(text);
    err->code = code;
    err->sys = sys;
    memcpy(err->text, text, sizeof(text));
    err->text[sizeof(err->text) - 1] = '\0';
}

enum kvt_err
kvt_error_set(struct kvt_error *err, enum kvt_err code, const char *format, ...)
{
    va_list args;

    if (err == NULL)
        return code;
    va_start(args, format);
    fill(err, code, 0, format, args);
    va_end(args);
    return code;
}

static enum kvt_err
code_of(int sys)
{
    switch (sys) {
    case EAGAIN: return KVT_AGAIN;
    case ETIMEDOUT: return KVT_TIMEOUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH: return KVT_UNAVAILABLE;
    case ENOMEM: return KVT_NOMEM;
    case EBUSY:
    case EADDRINUSE:
    case ETXTBSY: return KVT_BUSY;
    case ENOSPC:
    case EDQUOT: return KVT_FULL;
    case ENOENT: return KVT_NOTFOUND;
    case EEXIST: return KVT_EXISTS;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP: return KVT_INVALID;
    case EFBIG:
    case E2BIG:
    case ERANGE:
    case EOVERFLOW: return KVT_RANGE;
    case EACCES:
    case EPERM:
    case EROFS: return KVT_DENIED;
    case ENOSYS:
    case EOPNOTSUPP: return KVT_UNSUPPORTED;
    case ECANCELED: return KVT_CANCELLED;
    default: return KVT_IO;
    }
}

enum kvt_err
kvt_error_sys(struct kvt_error *err, int sys, const char *format, ...)
{
    const enum kvt_err code = code_of(sys);
    va_list args;

    assert(sys != 0);
    if (err == NULL)
        return code;
    va_start(args, format);
    fill(err, code, sys, format, args);
    va_end(args);
    return code;
}
