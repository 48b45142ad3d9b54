#include "bench/route/hour.h"

#include <stdbool.h>
#include <string.h>

#include "base/core/alloc.h"
#include "wire/message/trace.h"

/* Hashes and the numbers they were given; 0 is a free place. */
struct numbers {
    uint64_t *hashes;
    uint32_t *numbers;
    size_t mask;
    uint32_t count;
};

void
hour_release(struct hour *hour)
{
    kvt_free(hour->requests);
    kvt_free(hour->blocks);
    kvt_free(hour->hashes);
    memset(hour, 0, sizeof *hour);
}

struct rooms {
    size_t requests;
    size_t hashes;
};

static enum kvt_err
add(struct hour *hour, const struct wire_trace_request *request, struct rooms *rooms)
{
    struct hour_request *requests =
        kvt_grow(hour->requests, &rooms->requests, hour->count + 1, sizeof(*requests));
    uint64_t *hashes;
    struct hour_request *one;

    if (requests == NULL)
        return KVT_NOMEM;
    hour->requests = requests;
    hashes = kvt_grow(hour->hashes, &rooms->hashes, hour->accesses + request->hash_count + 1,
                      sizeof(*hashes));
    if (hashes == NULL)
        return KVT_NOMEM;
    hour->hashes = hashes;
    one = &hour->requests[hour->count++];
    *one = (struct hour_request){
        .at_us = request->timestamp_ms * 1000,
        .input_tokens = request->input_length,
        .output_tokens = request->output_length,
        .first = hour->accesses,
        .count = request->hash_count,
    };
    wire_trace_chain(request, 0, hour->hashes + hour->accesses);
    hour->accesses += request->hash_count;
    if (hour->count > 1 && one->at_us < one[-1].at_us)
        return KVT_INVALID;
    return KVT_OK;
}

static uint32_t
number_of(struct numbers *numbers, uint64_t hash)
{
    size_t at = hash & numbers->mask;

    while (numbers->numbers[at] != 0 && numbers->hashes[at] != hash)
        at = (at + 1) & numbers->mask;
    if (numbers->numbers[at] == 0) {
        numbers->hashes[at] = hash;
        numbers->numbers[at] = ++numbers->count;
    }
    return numbers->numbers[at] - 1;
}

static enum kvt_err
number_blocks(struct hour *hour)
{
    struct numbers numbers = {.mask = 1024 - 1};
    enum kvt_err rc = KVT_NOMEM;

    while (numbers.mask < 2 * hour->accesses)
        numbers.mask = 2 * numbers.mask + 1;
    numbers.hashes = kvt_calloc(numbers.mask + 1, sizeof(*numbers.hashes));
    numbers.numbers = kvt_calloc(numbers.mask + 1, sizeof(*numbers.numbers));
    hour->blocks = kvt_calloc(hour->accesses + 1, sizeof(*hour->blocks));
    if (numbers.hashes != NULL && numbers.numbers != NULL && hour->blocks != NULL) {
        for (size_t i = 0; i < hour->accesses; i++)
            hour->blocks[i] = number_of(&numbers, hour->hashes[i]);
        hour->distinct = numbers.count;
        rc = KVT_OK;
    }
    kvt_free(numbers.hashes);
    kvt_free(numbers.numbers);
    return rc;
}

enum kvt_err
hour_read(struct hour *hour, const char *path, struct kvt_error *err)
{
    struct wire_trace_request request;
    struct wire_trace *trace = NULL;
    struct rooms rooms = {0};
    enum kvt_err rc;

    memset(hour, 0, sizeof *hour);
    rc = wire_trace_open(&trace, path, err);
    if (rc != KVT_OK)
        return rc;
    while ((rc = wire_trace_next(trace, &request, err)) == KVT_OK) {
        rc = add(hour, &request, &rooms);
        if (rc != KVT_OK) {
            rc = kvt_error_set(err, rc, "%s: request %zu: no room, or out of order", path,
                               hour->count);
            break;
        }
    }
    wire_trace_close(trace);
    if (rc == KVT_NOTFOUND)
        rc = number_blocks(hour);
    if (rc != KVT_OK)
        hour_release(hour);
    return rc;
}
