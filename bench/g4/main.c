/*
 * bench/g4/main.c -- bench_g4: libg4's side of a pair; bench/rows/g4.py makes the pairs.
 *
 *   bench_g4 up|down ENDPOINT BUCKET ACCESS SECRET FOLDER PREFIX COUNT SLOTS
 *                                  prints "work <bytes> <CPU s>"
 *   bench_g4 bare-up|bare-down PORT BUCKET ACCESS SECRET FOLDER PREFIX COUNT 1
 *                                  the same with one plain socket (bare.h)
 *   bench_g4 conditional ENDPOINT BUCKET ACCESS SECRET - PREFIX COUNT SIZE
 *                                  prints "pair <p50 us with If-None-Match> <p50 us without>"
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"

#include "bench/g4/bare.h"
#include "bench/g4/work.h"

enum { ARGUMENTS = 9, COUNT_MAX = 1000000, WRONG_USE = 2 };

int
main(int argc, char **argv)
{
    struct work_options options = {.slots = 1};
    struct work_result result = {0};
    struct work_waits waits = {0};
    struct kvt_error err = {0};
    const char *verb = argc > 1 ? argv[1] : "";
    const bool conditional = strcmp(verb, "conditional") == 0;
    const bool bare = strncmp(verb, "bare-", 5) == 0;
    const char *way = verb + (bare ? 5 : 0);
    uint64_t count = 0;
    uint64_t port = 0;
    uint64_t last = 0;
    enum kvt_err rc;

    if (argc != ARGUMENTS + 1 ||
        (strcmp(way, "up") != 0 && strcmp(way, "down") != 0 && !conditional) ||
        (bare && (kvt_parse_u64(argv[2], &port) != KVT_OK || port > UINT16_MAX)) ||
        kvt_parse_u64(argv[8], &count) != KVT_OK || kvt_parse_u64(argv[9], &last) != KVT_OK ||
        count < 1 || count > COUNT_MAX || last < 1 ||
        last > (conditional ? WORK_BODY_MAX : WORK_SLOTS_MAX)) {
        (void)fprintf(stderr, "usage: see bench/g4/main.c\n");
        return WRONG_USE;
    }
    options.endpoint = argv[2];
    options.bucket = argv[3];
    options.access_key = argv[4];
    options.secret_key = argv[5];
    options.folder = argv[6];
    options.prefix = argv[7];
    options.count = (unsigned)count;
    options.up = strcmp(way, "up") == 0;
    if (conditional) {
        rc = work_conditional(&options, (uint32_t)last, &waits, &err);
        if (rc == KVT_OK)
            (void)printf("pair %.1f %.1f\n", waits.conditional_p50_us, waits.plain_p50_us);
    } else {
        options.slots = (unsigned)last;
        rc = bare ? bare_run(&options, (uint16_t)port, &result, &err)
                  : work_run(&options, &result, &err);
        if (rc == KVT_OK)
            (void)printf("work %" PRIu64 " %.6f\n", result.bytes, result.cpu_s);
    }
    if (rc != KVT_OK)
        (void)fprintf(stderr, "bench_g4: %s\n", err.text);
    return rc == KVT_OK ? 0 : 1;
}
