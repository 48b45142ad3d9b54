#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "worker/instances/supervisor_internal.h"

enum { LIST_MAX = 32 }; /* bytes of "0, 1, 2", all instances */

static char *
add(struct worker_supervisor_reasons *reasons)
{
    return reasons->lines[reasons->count++];
}

/* The instances of which this figure is not 0, "0, 2", and its sum. */
static uint64_t
list(const struct worker_supervisor *supervisor, size_t figure, char out[LIST_MAX])
{
    uint64_t sum = 0;
    size_t size = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < supervisor->plan->instances; i++) {
        const void *stats = &supervisor->instances[i].stats;
        const uint64_t more = *(const uint64_t *)((const char *)stats + figure);

        if (more > 0)
            size +=
                (size_t)snprintf(out + size, LIST_MAX - size, "%s%" PRIu32, sum > 0 ? ", " : "", i);
        sum += more;
    }
    return sum;
}

void
worker_supervisor_reasons(const struct worker_supervisor *supervisor,
                          struct worker_supervisor_reasons *reasons)
{
    const bool bucket = supervisor->plan->settings->s3.endpoint != NULL &&
                        supervisor->plan->settings->s3.endpoint[0] != '\0';
    const size_t size = sizeof(reasons->lines[0]);
    char who[LIST_MAX];
    uint64_t ranks;

    *reasons = (struct worker_supervisor_reasons){.ready = true};
    for (uint32_t i = 0; i < supervisor->plan->instances; i++) {
        if (supervisor->instances[i].up)
            continue;
        (void)snprintf(add(reasons), size, "instance %" PRIu32 " is being started", i);
        reasons->ready = false;
    }
    if (list(supervisor, offsetof(struct worker_instance_stats, nats_away), who) > 0)
        (void)snprintf(add(reasons), size,
                       "NATS is away: the advisor does not hear what instances %s hold", who);
    ranks = list(supervisor, offsetof(struct worker_instance_stats, objects_away), who);
    if (ranks > 0)
        (void)snprintf(add(reasons), size,
                       "the %s is away: its blocks are misses and none are stored, for %" PRIu64
                       " ranks of instances %s",
                       bucket ? "bucket" : "gateway", ranks, who);
}
