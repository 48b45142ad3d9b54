#include <stdio.h>
#include <string.h>

#include "advisor/source/source_dynamo.h"
#include "base/core/clock.h"
#include "base/http/fetch.h"

/* What an indexer that stands beside the routers knows of every worker, in one JSON answer. */

enum { URL_MAX = 1024, STATUS_OK = 200 };

enum kvt_err
advisor_dynamo_dump(struct advisor_source *source, const struct advisor_ask *ask,
                    struct kvt_buffer *answer, struct kvt_error *err)
{
    const char *base = source->options.dump_url;
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_fetch fetch = {.timeout_ms = 0};
    char url[URL_MAX];
    unsigned status;
    size_t size;
    enum kvt_err rc;

    if (base == NULL || base[0] == '\0')
        return kvt_error_set(err, KVT_UNSUPPORTED, "there is no dump_url");
    if (now_ms >= ask->deadline_ms)
        return kvt_error_set(err, KVT_TIMEOUT, "no time is left for %s", base);
    size = strlen(base);
    while (size > 0 && base[size - 1] == '/')
        size--;
    if (snprintf(url, sizeof(url), "%.*s/dump", (int)size, base) >= (int)sizeof(url))
        return kvt_error_set(err, KVT_RANGE, "dump_url is longer than %d bytes", URL_MAX - 6);
    fetch.url = url;
    fetch.timeout_ms = ask->deadline_ms - now_ms;
    rc = kvt_fetch(&fetch, &status, answer, err);
    if (rc == KVT_OK && status != STATUS_OK)
        rc = kvt_error_set(err, KVT_UNAVAILABLE, "%s answers %u", url, status);
    return rc;
}
