#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/archive/index_export.h"
#include "advisor/index/evicted.h"
#include "advisor/index/index_load.h"

/* The whole index: how much there is, and all of it page by page. */

void
advisor_admin_begin(const struct advisor_admin *http, struct kvt_buffer *out)
{
    const struct advisor_index_load_progress *progress = advisor_round_progress(http->round);

    kvt_buffer_printf(out, "{\"schema_version\":1,");
    if (atomic_load(&http->finder.memory->loading))
        kvt_buffer_printf(
            out, "\"loading\":true,\"loaded_bytes\":%" PRIu64 ",\"load_bytes\":%" PRIu64 ",",
            atomic_load(&progress->bytes_done), atomic_load(&progress->bytes_total));
}

bool
advisor_admin_whole(const struct advisor_admin *http)
{
    struct advisor_ram_index *memory = http->finder.memory;

    return advisor_ram_index_whole(memory) &&
           (memory->cold == NULL || advisor_evicted_count(memory->cold) == 0);
}

/* Not all is in memory, and pages of the store's log there are none. */
static void
refuse(const struct advisor_admin *http, struct kvt_http_response *response, enum kvt_err rc)
{
    if (rc == KVT_AGAIN && atomic_load(&http->finder.memory->loading))
        kvt_http_fail(response, 503, rc, "the index is being read into memory: try again soon");
    else if (rc == KVT_AGAIN)
        kvt_http_fail(response, 503, rc,
                      "not all of the index is in memory: read it in its folder (--offline)");
    else
        kvt_http_fail(response, 503, rc, "%s", kvt_err_text(rc));
}

void
advisor_admin_stats(void *arg, const struct kvt_http_request *request,
                    struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct advisor_ram_index *memory = http->finder.memory;
    const uint32_t count = index_holder_count(memory->index);
    struct kvt_buffer *out = &response->body;
    struct index_stats stats;
    const char *comma = "";

    (void)request;
    index_stats(memory->index, &stats);
    advisor_admin_begin(http, out);
    kvt_buffer_printf(out,
                      "\"blocks\":%" PRIu64 ",\"places\":%" PRIu64 ",\"evicted_blocks\":%" PRIu64
                      ",\"namespaces\":%" PRIu64 ",\"collisions\":%" PRId64
                      ",\"whole_in_memory\":%s,\"holders\":[",
                      stats.blocks, stats.places,
                      memory->cold == NULL ? 0 : advisor_evicted_count(memory->cold),
                      stats.namespaces, kvt_metric_get(http->counters->collisions),
                      advisor_ram_index_whole(memory) ? "true" : "false");
    for (uint32_t i = 0; i < count; i++) {
        struct index_holder key;
        uint64_t blocks;
        uint64_t bytes;

        index_holder_info(memory->index, i, &key, &blocks, &bytes);
        if (key.name[0] == '\0')
            continue; /* nobody: see advisor/index/index_load.c */
        kvt_buffer_printf(out, "%s{", comma);
        advisor_admin_text(out, "holder", key.name);
        kvt_buffer_printf(
            out, ",\"dp_rank\":%u,\"tier\":\"%s\",\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
            key.dp_rank, kvt_tier_name(key.tier), blocks, bytes);
        comma = ",";
    }
    kvt_buffer_printf(out, "]}");
}

/* ---- places ---- */

static void
add_row(void *arg, const struct advisor_finder_row *row)
{
    struct kvt_buffer *out = arg;

    kvt_buffer_printf(out, "{");
    advisor_admin_text(out, "namespace", row->namespace_);
    kvt_buffer_printf(out, ",");
    advisor_admin_hash(out, "hash", row->block.id.hash);
    kvt_buffer_printf(out, ",");
    advisor_admin_hash(out, "parent", row->block.id.parent);
    kvt_buffer_printf(out, ",\"position\":%u,\"size\":%" PRIu64 ",", row->block.id.position,
                      row->block.size);
    advisor_admin_text(out, "holder", row->holder.name);
    kvt_buffer_printf(out, ",\"dp_rank\":%u,\"tier\":\"%s\",\"ranks\":%u}\n", row->holder.dp_rank,
                      kvt_tier_name(row->holder.tier), row->block.ranks);
}

void
advisor_admin_dump(void *arg, const struct kvt_http_request *request,
                   struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    uint64_t cursor;
    uint64_t limit;
    uint64_t next;
    enum kvt_err rc;

    if (!advisor_admin_number(request, response, "cursor", 0, UINT64_MAX, &cursor) ||
        !advisor_admin_number(request, response, "limit", 1000, ADVISOR_ADMIN_ROWS_MAX, &limit))
        return;
    rc = advisor_finder_rows(&http->finder, cursor, limit == 0 ? 1 : (size_t)limit, &next, add_row,
                             out);
    if (rc != KVT_OK) {
        kvt_buffer_clear(out);
        refuse(http, response, rc);
        return;
    }
    response->content_type = "application/x-ndjson";
    kvt_buffer_printf(out, "{\"next_cursor\":%" PRIu64 "}\n", next);
}

/* ---- export ---- */

/* A cursor in a question: a letter for the part, and where in it. */
static const char export_parts[] = "brc";

static bool
read_cursor(const char *text, struct advisor_index_export_cursor *cursor)
{
    const char *part;

    *cursor = (struct advisor_index_export_cursor){0};
    if (text == NULL || text[0] == '\0')
        return true;
    part = strchr(export_parts, text[0]);
    if (part == NULL || !kvt_hash_parse(text + 1, &cursor->at))
        return false;
    cursor->part = (enum advisor_index_export_part)(part - export_parts);
    return true;
}

void
advisor_admin_export(void *arg, const struct kvt_http_request *request,
                     struct kvt_http_response *response)
{
    const struct advisor_admin *http = arg;
    struct kvt_buffer *out = &response->body;
    struct advisor_index_export_cursor cursor;
    uint64_t limit;
    enum kvt_err rc;

    if (!advisor_admin_number(request, response, "limit", 1000, ADVISOR_ADMIN_ROWS_MAX, &limit))
        return;
    if (!read_cursor(kvt_http_query(request, "cursor"), &cursor)) {
        kvt_http_fail(response, 400, KVT_INVALID, "cursor: want what the page before gave");
        return;
    }
    rc = advisor_index_export_page(http->store, http->finder.memory, &cursor,
                                   limit == 0 ? 1 : (size_t)limit, out);
    if (rc != KVT_OK) {
        kvt_buffer_clear(out);
        refuse(http, response, rc);
        return;
    }
    response->content_type = "application/x-ndjson";
    if (cursor.part == ADVISOR_INDEX_EXPORT_DONE)
        kvt_buffer_printf(out, "{\"next_cursor\":\"\"}\n");
    else
        kvt_buffer_printf(out, "{\"next_cursor\":\"%c%016" PRIx64 "\"}\n",
                          export_parts[cursor.part], cursor.at);
}
