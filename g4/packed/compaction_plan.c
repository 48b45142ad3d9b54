#include "g4/packed/compaction_plan.h"

#include <string.h>

enum { PPM = 1000000, SMALL_TOGETHER = 4 }; /* so many halves make two whole ones */

struct g4_compaction_settings
g4_compaction_defaults(void)
{
    return (struct g4_compaction_settings){
        .block_max = UINT64_C(1) << 20,
        .age_ms = 600000,
        .mean_max = UINT64_C(1) << 20,
        .bytes_min = UINT64_C(4) << 20,
        .segment_bytes = UINT64_C(16) << 20,
        .segment_blocks = G4_SEGMENT_BLOCKS_MAX,
        .live_min_ppm = 800000,
        .bytes_max = UINT64_C(1) << 30,
    };
}

enum kvt_err
g4_compaction_settings_check(const struct g4_compaction_settings *settings, struct kvt_error *err)
{
    const uint64_t around =
        G4_SEGMENT_HEADER_SIZE + G4_SEGMENT_ENTRY_SIZE + G4_SEGMENT_TRAILER_SIZE;

    if (settings->segment_bytes > G4_SEGMENT_BYTES_MAX || settings->segment_bytes <= around)
        return kvt_error_set(err, KVT_RANGE, "segments of %zu bytes; up to %zu",
                             (size_t)settings->segment_bytes, (size_t)G4_SEGMENT_BYTES_MAX);
    if (settings->block_max == 0 || settings->block_max > settings->segment_bytes - around)
        return kvt_error_set(err, KVT_RANGE, "blocks of %zu bytes in segments of %zu",
                             (size_t)settings->block_max, (size_t)settings->segment_bytes);
    if (settings->segment_blocks == 0 || settings->segment_blocks > G4_SEGMENT_BLOCKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "segments of %u blocks; 1 to %d",
                             settings->segment_blocks, G4_SEGMENT_BLOCKS_MAX);
    if (settings->live_min_ppm > PPM)
        return kvt_error_set(err, KVT_RANGE, "a live share of %u ppm; up to %d",
                             settings->live_min_ppm, PPM);
    return KVT_OK;
}

bool
g4_compaction_plan_pack(const struct g4_compaction_settings *settings, uint64_t blocks,
                        uint64_t bytes)
{
    return blocks > 0 && bytes >= settings->bytes_min && bytes / blocks <= settings->mean_max;
}

/* Live bytes per million of its bodies: what index and ends take up is no waste. */
static uint64_t
share_ppm(const struct g4_manifest_segment *segment)
{
    const uint64_t bodies = segment->size - G4_SEGMENT_HEADER_SIZE - G4_SEGMENT_TRAILER_SIZE -
                            (uint64_t)segment->blocks * G4_SEGMENT_ENTRY_SIZE;

    return segment->live_bytes * PPM / bodies;
}

/* No larger than half of what one can be. */
static bool
is_small(const struct g4_compaction_settings *settings, const struct g4_manifest_segment *segment)
{
    return segment->size <= settings->segment_bytes / 2 &&
           segment->blocks <= settings->segment_blocks / 2;
}

/* Choose every segment below `limit_ppm` that the budget still has room for. */
static size_t
choose_below(const struct g4_manifest *manifest, uint64_t limit_ppm, uint64_t *budget, bool *chosen)
{
    size_t count = 0;

    for (size_t i = 0; i < manifest->segment_count; i++) {
        const struct g4_manifest_segment *segment = &manifest->segments[i];

        if (chosen[i] || segment->pending > 0 || share_ppm(segment) >= limit_ppm ||
            segment->live_bytes > *budget)
            continue;
        *budget -= segment->live_bytes;
        chosen[i] = true;
        count++;
    }
    return count;
}

/* Count small segments that fit into the budget; with `choose`, they are chosen too. */
static size_t
small_ones(const struct g4_compaction_settings *settings, const struct g4_manifest *manifest,
           uint64_t budget, bool *chosen, bool choose)
{
    size_t count = 0;

    for (size_t i = 0; i < manifest->segment_count; i++) {
        const struct g4_manifest_segment *segment = &manifest->segments[i];

        if (chosen[i] || segment->pending > 0 || !is_small(settings, segment) ||
            segment->live_bytes > budget)
            continue;
        budget -= segment->live_bytes;
        chosen[i] = choose;
        count++;
    }
    return count;
}

size_t
g4_compaction_plan_forward(const struct g4_compaction_settings *settings,
                           const struct g4_manifest *manifest, uint64_t budget, bool *chosen)
{
    size_t count;

    memset(chosen, 0, manifest->segment_count * sizeof(*chosen));
    count = choose_below(manifest, settings->live_min_ppm / 2, &budget, chosen);
    count += choose_below(manifest, settings->live_min_ppm, &budget, chosen);
    if (small_ones(settings, manifest, budget, chosen, false) >= SMALL_TOGETHER)
        count += small_ones(settings, manifest, budget, chosen, true);
    return count;
}
