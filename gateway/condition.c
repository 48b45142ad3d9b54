#include "gateway/condition.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "g4/store.h"

bool
gateway_condition_lists(const char *list, const char *etag)
{
    const char *at;
    size_t size;

    while ((at = gateway_request_item(&list, &size)) != NULL) {
        if (size > 2 && at[0] == 'W' && at[1] == '/') {
            at += 2;
            size -= 2;
        }
        if (size >= 2 && at[0] == '"' && at[size - 1] == '"') {
            at++;
            size -= 2;
        }
        if ((size == 1 && *at == '*') || (size == strlen(etag) && memcmp(at, etag, size) == 0))
            return true;
    }
    return false;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", the one form that is still sent. */
bool
gateway_condition_date(const char *text, int64_t *seconds)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = {0};
    char month[4];
    const char *found;

    *seconds = 0;
    if (sscanf(text, "%*3s, %2d %3s %4d %2d:%2d:%2d GMT", &tm.tm_mday, month, &tm.tm_year,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
        return false;
    found = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (found == NULL || (found - months) % 3 != 0 || tm.tm_year < 1970 || tm.tm_mday < 1 ||
        tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return false;
    tm.tm_mon = (int)(found - months) / 3;
    tm.tm_year -= 1900;
    *seconds = (int64_t)timegm(&tm);
    return true;
}

/* Was it changed after the date?  A header that is not there, or no date, says nothing. */
static bool
changed_since(const char *date, uint64_t modified_ms, bool *changed)
{
    int64_t seconds;

    *changed = false;
    if (date == NULL || !gateway_condition_date(date, &seconds))
        return false;
    *changed = (int64_t)(modified_ms / 1000) > seconds;
    return true;
}

/* The four headers of one read: each may be NULL. */
struct asked {
    const char *match;
    const char *none_match;
    const char *modified;
    const char *unmodified;
};

static enum gateway_fault
judge(const struct asked *asked, const char *etag, uint64_t modified_ms)
{
    bool changed;

    if (asked->match != NULL) {
        if (!gateway_condition_lists(asked->match, etag))
            return GATEWAY_FAULT_PRECONDITION;
    } else if (changed_since(asked->unmodified, modified_ms, &changed) && changed) {
        return GATEWAY_FAULT_PRECONDITION;
    }
    if (asked->none_match != NULL)
        return gateway_condition_lists(asked->none_match, etag) ? GATEWAY_FAULT_NOT_MODIFIED
                                                                : GATEWAY_FAULT_NONE;
    if (changed_since(asked->modified, modified_ms, &changed) && !changed)
        return GATEWAY_FAULT_NOT_MODIFIED;
    return GATEWAY_FAULT_NONE;
}

enum gateway_fault
gateway_condition_read(const struct gateway_request *request, const char *etag,
                       uint64_t modified_ms)
{
    const struct asked asked = {
        .match = gateway_request_header(request, "if-match"),
        .none_match = gateway_request_header(request, "if-none-match"),
        .modified = gateway_request_header(request, "if-modified-since"),
        .unmodified = gateway_request_header(request, "if-unmodified-since"),
    };

    return judge(&asked, etag, modified_ms);
}

enum gateway_fault
gateway_condition_copy(const struct gateway_request *request, const char *etag,
                       uint64_t modified_ms)
{
    const struct asked asked = {
        .match = gateway_request_header(request, "x-amz-copy-source-if-match"),
        .none_match = gateway_request_header(request, "x-amz-copy-source-if-none-match"),
        .modified = gateway_request_header(request, "x-amz-copy-source-if-modified-since"),
        .unmodified = gateway_request_header(request, "x-amz-copy-source-if-unmodified-since"),
    };

    return judge(&asked, etag, modified_ms) == GATEWAY_FAULT_NONE ? GATEWAY_FAULT_NONE
                                                                  : GATEWAY_FAULT_PRECONDITION;
}

enum gateway_fault
gateway_condition_write(const struct gateway_request *request, const char *etag)
{
    const char *match = gateway_request_header(request, "if-match");
    const char *none = gateway_request_header(request, "if-none-match");

    if (match != NULL && etag == NULL)
        return GATEWAY_FAULT_NO_SUCH_KEY;
    if (match != NULL && !gateway_condition_lists(match, etag))
        return GATEWAY_FAULT_PRECONDITION;
    if (none != NULL && etag != NULL && gateway_condition_lists(none, etag))
        return GATEWAY_FAULT_PRECONDITION;
    return GATEWAY_FAULT_NONE;
}
