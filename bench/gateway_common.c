#include "bench/gateway_common.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS = 9 };

static bool
number(const char *text, unsigned long max, unsigned long *value)
{
    char *end;

    *value = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && *value >= 1 && *value <= max;
}

bool
gateway_bench_parse(struct gateway_bench *bench, int argc, char **argv)
{
    unsigned long port;
    unsigned long body_size;
    unsigned long objects;
    unsigned long pairs;
    unsigned long connections;

    memset(bench, 0, sizeof(*bench));
    if (argc != ARGUMENTS + 1 || !number(argv[1], UINT16_MAX, &port) ||
        !number(argv[6], LOAD_BODY_MAX, &body_size) || !number(argv[7], 1000000, &objects) ||
        !number(argv[8], 1000, &pairs) || !number(argv[9], LOAD_CONNECTIONS_MAX, &connections) ||
        body_size < 16) {
        (void)fprintf(stderr,
                      "usage: %s PORT BUCKET ACCESS SECRET FOLDER BODY_SIZE OBJECTS PAIRS "
                      "CONNECTIONS\n",
                      argv[0]);
        return false;
    }
    bench->port = (uint16_t)port;
    bench->bucket = argv[2];
    bench->access_key = argv[3];
    bench->secret_key = argv[4];
    bench->folder = argv[5];
    bench->body_size = body_size;
    bench->objects = (unsigned)objects;
    bench->pairs = (unsigned)pairs;
    bench->connections = (unsigned)connections;
    return true;
}

void
gateway_bench_options(const struct gateway_bench *bench, const char *method, uint16_t port,
                      const char *prefix, struct load_options *options)
{
    *options = (struct load_options){
        .method = method,
        .port = port,
        .bucket = bench->bucket,
        .access_key = bench->access_key,
        .secret_key = bench->secret_key,
        .prefix = prefix,
        .connections = bench->connections,
        .body_size = bench->body_size,
        .objects = bench->objects,
        .requests = bench->objects,
    };
}

double
gateway_bench_rate(const struct load_options *options)
{
    struct kvt_error err = {0};
    uint64_t elapsed_ns;

    if (load_run(options, &elapsed_ns, &err) != KVT_OK || elapsed_ns == 0) {
        (void)fprintf(stderr, "%s on port %u: %s\n", options->method, options->port, err.text);
        return 0;
    }
    return (double)options->body_size * options->requests * 1e9 / (double)elapsed_ns;
}
