#include "g4/s3/latency.h"

#include <stdlib.h>
#include <string.h>

enum { EVERY = 8 }; /* answers between two sortings */

static int
compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

void
g4_latency_add(struct g4_latency *latency, uint64_t took_ms)
{
    uint32_t sorted[G4_LATENCY_SAMPLES];
    size_t known;

    latency->samples[latency->count % G4_LATENCY_SAMPLES] =
        took_ms < UINT32_MAX ? (uint32_t)took_ms : UINT32_MAX - 1;
    latency->count++;
    known = latency->count < G4_LATENCY_SAMPLES ? (size_t)latency->count : G4_LATENCY_SAMPLES;
    if (known < G4_LATENCY_LEAST || (latency->count % EVERY != 0 && latency->p95_ms != 0))
        return;
    memcpy(sorted, latency->samples, known * sizeof(sorted[0]));
    qsort(sorted, known, sizeof(sorted[0]), compare);
    latency->p95_ms = sorted[(known * 19 - 1) / 20];
}

uint32_t
g4_latency_p95_ms(const struct g4_latency *latency)
{
    return latency->count < G4_LATENCY_LEAST ? UINT32_MAX : latency->p95_ms;
}
