#include "advisor/source/source_dynamo.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"

/* The folder names the worker's own way of being asked.  Without it, a worker on NATS is asked by
 * the subject its release would use, made from the one its events come by. */

enum { DUMP_SHARE = 2 /* of the time, left for the dump when the worker does not answer */ };

/* What stands behind `label` in a subject, up to the next dot; "" when it is not there. */
static void
part_of(const char *subject, const char *label, char *part, size_t capacity)
{
    const char *at = strstr(subject, label);
    size_t size;

    part[0] = '\0';
    if (at == NULL)
        return;
    at += strlen(label);
    size = strcspn(at, ".");
    if (size >= capacity)
        return;
    for (size_t i = 0; i < size; i++) {
        const char letter = (char)tolower((unsigned char)at[i]);
        const bool plain = isalnum((unsigned char)letter) || letter == '-' || letter == '_';

        part[i] = plain ? letter : '_';
    }
    part[size] = '\0';
}

static bool
guess_target(const struct advisor_ask *ask, struct advisor_discovery_target *target)
{
    char space[128];
    char component[128];
    char name[64];

    memset(target, 0, sizeof(*target));
    if (ask->subject == NULL)
        return false;
    part_of(ask->subject, "namespace.", space, sizeof(space));
    part_of(ask->subject, ".component.", component, sizeof(component));
    if (space[0] == '\0' || component[0] == '\0')
        return false;
    /* Events by endpoint came together with sources of their own, bodies in msgpack too. */
    if (strstr(ask->subject, ".endpoint.") != NULL)
        (void)snprintf(name, sizeof(name), "worker_kv_query_source_%" PRIx64, ask->incarnation);
    else
        (void)snprintf(name, sizeof(name), "worker_kv_indexer_query_dp%" PRIu32, ask->dp_rank);
    target->json = strstr(ask->subject, ".endpoint.") == NULL;
    (void)snprintf(target->nats, sizeof(target->nats), "%s_%s.%s-%" PRIx64, space, component, name,
                   ask->worker_id);
    return true;
}

static enum kvt_err
ask_worker(struct advisor_source *source, const struct advisor_ask *ask, struct kvt_buffer *answer,
           struct kvt_error *err)
{
    const char *folder = source->options.discovery;
    struct advisor_discovery_target target;
    enum kvt_err rc;

    if (folder != NULL && folder[0] != '\0') {
        rc = advisor_discovery_find(folder, ask->worker_id, ask->dp_rank, ask->incarnation, &target,
                                    err);
        if (rc != KVT_OK)
            return rc == KVT_NOTFOUND ? KVT_UNAVAILABLE : rc;
    } else if (source->options.bus == NULL || !guess_target(ask, &target)) {
        return kvt_error_set(err, KVT_UNSUPPORTED, "nothing tells how to reach the worker");
    }
    return advisor_dynamo_query(source, &target, ask, answer, err);
}

enum kvt_err
advisor_dynamo_ask(struct advisor_source *source, const struct advisor_ask *ask,
                   enum advisor_answer_kind *kind, struct kvt_buffer *answer, struct kvt_error *err)
{
    const bool has_dump = source->options.dump_url != NULL && source->options.dump_url[0] != '\0';
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct advisor_ask first = *ask;
    const size_t start = answer->size;
    struct kvt_error why;
    bool there;
    enum kvt_err rc;

    *kind = ADVISOR_ANSWER_QUERY;
    if (has_dump && ask->deadline_ms > now_ms)
        first.deadline_ms = now_ms + (ask->deadline_ms - now_ms) / DUMP_SHARE;
    rc = ask_worker(source, &first, answer, err);
    if (rc == KVT_OK || rc == KVT_CANCELLED || !has_dump)
        return rc;
    there = rc == KVT_AGAIN; /* whatever the dump says */
    answer->size = start;
    answer->failed = false;
    *kind = ADVISOR_ANSWER_DUMP;
    if (err != NULL)
        why = *err;
    rc = advisor_dynamo_dump(source, ask, answer, err);
    if (rc != KVT_OK && there)
        rc = KVT_AGAIN;
    if (rc != KVT_OK && err != NULL) {
        const struct kvt_error last = *err;

        (void)kvt_error_set(err, rc, "%.110s; %.110s", why.text, last.text);
    }
    return rc;
}
