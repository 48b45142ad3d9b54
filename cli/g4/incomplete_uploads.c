#include "cli/g4/incomplete_uploads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "cli/frame/cli_settings.h"
#include "cli/remote/cli_bucket.h"
#include "g4/s3/bucket.h"

static void
handle(const struct cli_context *context, const struct g4_endpoint *endpoint,
       const struct g4_bucket_upload *upload, struct cli_findings *findings)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    const uint64_t age_ms = now_ms > upload->begun_ms ? now_ms - upload->begun_ms : 0;
    const bool act = findings->act && strstr(findings->only, "|abort|") != NULL;
    char text[KVT_ERROR_TEXT_MAX];
    struct kvt_error err = {.code = KVT_OK};

    if (upload->begun_ms == 0 || age_ms < findings->older_ms) {
        findings->young++;
        return;
    }
    (void)snprintf(text, sizeof(text), "an upload begun %" PRIu64 " s ago and not completed",
                   age_ms / 1000);
    if (act && g4_bucket_abort(endpoint, kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT),
                               upload, &err) != KVT_OK)
        cli_finding_report(findings, "upload-left", upload->key, text, "abort", err.text);
    else
        cli_finding_report(findings, "upload-left", upload->key, text, "abort", act ? "" : NULL);
}

enum kvt_err
cli_incomplete_uploads_find(const struct cli_context *context, size_t first,
                            struct cli_findings *findings, struct kvt_error *err)
{
    struct g4_bucket_uploads *page = kvt_calloc(1, sizeof(*page));
    struct g4_endpoint *endpoint = NULL;
    enum kvt_err rc;

    if (page == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    rc = cli_bucket_endpoint(context, first, &endpoint, err);
    while (rc == KVT_OK) {
        rc = g4_bucket_uploads(endpoint, kvt_config_u64(context->settings, CLI_SETTING_TIMEOUT),
                               page, err);
        for (size_t i = 0; rc == KVT_OK && i < page->count; i++)
            handle(context, endpoint, &page->rows[i], findings);
        if (page->key_marker[0] == '\0')
            break;
    }
    g4_endpoint_free(endpoint);
    kvt_free(page);
    return rc;
}
