/*
 * bench/gateway/main.c -- bench_gateway: one side of a pair; bench/rows/gateway.py makes the pairs.
 *
 *   bench_gateway raw FOLDER SIZE COUNT         bench/gateway/raw.h, until killed
 *   bench_gateway splice PORT                   bench/gateway/splice.h, until killed
 *   bench_gateway put|get|check|raw-get PORT BUCKET ACCESS SECRET PREFIX SIZE OBJECTS REQUESTS
 *                 CONNECTIONS                   prints "rate <B/s> <p50 us> <p99 us>"
 *   bench_gateway get-part ... WHOLE OFFSET     as get, of parts of objects of WHOLE bytes, which
 *                                               begin at OFFSET; OBJECTS counts parts
 *   bench_gateway list PORT BUCKET ACCESS SECRET PREFIX
 *                                               prints "list <keys> <sum> <keys/s>"
 *
 * `check` is `get` that compares every byte.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"

#include "bench/gateway/listing.h"
#include "bench/gateway/load.h"
#include "bench/gateway/raw.h"
#include "bench/gateway/splice.h"

enum { WRONG_USE = 2 };

static bool
number(const char *text, uint64_t max, unsigned *value)
{
    uint64_t wide = 0;
    const bool ok = kvt_parse_u64(text, &wide) == KVT_OK && wide >= 1 && wide <= max;

    *value = ok ? (unsigned)wide : 0;
    return ok;
}

static bool
read_target(char **argv, struct target *target)
{
    unsigned port;
    const bool ok = number(argv[0], UINT16_MAX, &port);

    *target = (struct target){(uint16_t)port, argv[1], argv[2], argv[3]};
    return ok;
}

static int
finish(enum kvt_err rc, const struct kvt_error *err)
{
    if (rc != KVT_OK)
        (void)fprintf(stderr, "bench_gateway: %s\n", err->text);
    return rc == KVT_OK ? 0 : 1;
}

static int
run_load(const char *verb, char **argv, bool parts)
{
    struct load_options options = {.prefix = argv[4], .thorough = strcmp(verb, "check") == 0};
    struct kvt_error err = {0};
    struct load_result result;
    uint64_t offset = 0;
    unsigned whole = 0;
    unsigned size;
    enum kvt_err rc;

    options.kind = strcmp(verb, "put") == 0       ? LOAD_PUT
                   : strcmp(verb, "raw-get") == 0 ? LOAD_RAW
                                                  : LOAD_GET;
    if (!read_target(argv, &options.target) || !number(argv[5], LOAD_BODY_MAX, &size) ||
        !number(argv[6], LOAD_OBJECTS_MAX, &options.objects) ||
        !number(argv[7], UINT32_MAX, &options.requests) ||
        !number(argv[8], LOAD_CONNECTIONS_MAX, &options.connections))
        return WRONG_USE;
    if (parts &&
        (!number(argv[9], LOAD_BODY_MAX, &whole) || kvt_parse_u64(argv[10], &offset) != KVT_OK ||
         size > whole || offset > whole - size))
        return WRONG_USE;
    options.body_size = size;
    options.whole = whole;
    options.offset = (size_t)offset;
    rc = load_run(&options, &result, &err);
    if (rc == KVT_OK)
        (void)printf("rate %.0f %.1f %.1f\n", result.bytes_per_s, result.p50_us, result.p99_us);
    return finish(rc, &err);
}

static int
run_list(char **argv)
{
    struct listing_result result;
    struct kvt_error err = {0};
    struct target target;
    enum kvt_err rc;

    if (!read_target(argv, &target))
        return WRONG_USE;
    rc = listing_run(&target, argv[4], &result, &err);
    if (rc == KVT_OK)
        (void)printf("list %" PRIu64 " %016" PRIx64 " %.1f\n", result.keys, result.sum,
                     result.keys_per_s);
    return finish(rc, &err);
}

static int
run_raw(char **argv)
{
    struct kvt_error err = {0};
    unsigned count;
    unsigned size;

    if (!number(argv[1], LOAD_BODY_MAX, &size) || !number(argv[2], RAW_FILES_MAX, &count))
        return WRONG_USE;
    return finish(raw_serve(argv[0], size, count, &err), &err);
}

static int
run_splice(char **argv)
{
    struct kvt_error err = {0};
    unsigned port;

    if (!number(argv[0], UINT16_MAX, &port))
        return WRONG_USE;
    return finish(splice_serve((uint16_t)port, &err), &err);
}

int
main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    int code = WRONG_USE;

    if (strcmp(verb, "raw") == 0 && argc == 5)
        code = run_raw(argv + 2);
    else if (strcmp(verb, "splice") == 0 && argc == 3)
        code = run_splice(argv + 2);
    else if (strcmp(verb, "list") == 0 && argc == 7)
        code = run_list(argv + 2);
    else if ((strcmp(verb, "put") == 0 || strcmp(verb, "get") == 0 || strcmp(verb, "check") == 0 ||
              strcmp(verb, "raw-get") == 0) &&
             argc == 11)
        code = run_load(verb, argv + 2, false);
    else if (strcmp(verb, "get-part") == 0 && argc == 13)
        code = run_load(verb, argv + 2, true);
    if (code == WRONG_USE)
        (void)fprintf(stderr, "usage: see bench/gateway/main.c\n");
    return code;
}
