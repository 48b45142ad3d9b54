#include <string.h>

#include "advisor/archive/index_export_private.h"
#include "advisor/store/policy_version_rows.h"
#include "base/core/alloc.h"

/* Versions of the policy, newest first, and which file was installed last. */

/* In a page, which is one answer: versions beyond it are left out, the oldest ones. */
enum { PAGE_BYTES_MAX = 2 << 20 };

static enum kvt_err
add_policy(void *arg, const struct advisor_policy_row *row)
{
    const struct advisor_index_export *export = arg;
    struct kvt_buffer *out = export->out;
    struct advisor_policy_row same;
    char *copy;
    const char *text;
    enum kvt_err rc = advisor_store_policy(export->txn, row->version, &same, &text);

    if (rc != KVT_OK)
        return rc == KVT_NOTFOUND ? KVT_CORRUPT : rc;
    if (export->take == NULL && out->size - export->start + same.size > PAGE_BYTES_MAX)
        return KVT_OK;
    copy = kvt_calloc(1, (size_t)same.size + 1);
    if (copy == NULL)
        return KVT_NOMEM;
    memcpy(copy, text, (size_t)same.size);
    kvt_buffer_printf(out, "{\"row\":\"policy\"");
    advisor_index_export_number(out, "version", same.version);
    advisor_index_export_number(out, "since_ms", same.since_ms);
    advisor_index_export_text(out, "source", same.source);
    advisor_index_export_text(out, "digest", same.digest);
    advisor_index_export_text(out, "text", copy);
    kvt_buffer_printf(out, "}\n");
    kvt_free(copy);
    return advisor_index_export_flush(export, false);
}

enum kvt_err
advisor_index_export_policies(struct advisor_index_export *export)
{
    char digest[ADVISOR_POLICY_DIGEST_MAX];
    enum kvt_err rc = advisor_store_policies(export->txn, add_policy, export);

    if (rc == KVT_OK)
        rc = advisor_store_policy_file(export->txn, digest);
    if (rc != KVT_OK || digest[0] == '\0')
        return rc;
    kvt_buffer_printf(export->out, "{\"row\":\"policy_file\"");
    advisor_index_export_text(export->out, "digest", digest);
    kvt_buffer_printf(export->out, "}\n");
    return KVT_OK;
}
