/*
 * bench/gateway_get.c -- bytes a second of GETs, against the floor of bench/sink.h (sendfile).
 *
 * Prints one line a pair: "pair <ours> <floor>", in bytes a second.  The objects are put once, then
 * read ROUNDS times over, so both sides serve them from the page cache.
 */
#include <stdbool.h>
#include <stdio.h>

#include "bench/gateway_common.h"
#include "bench/sink.h"

enum { ROUNDS = 4 };

/* Both sides get the same objects before anything is measured. */
static bool
fill(const struct gateway_bench *bench, uint16_t port)
{
    struct load_options options;

    gateway_bench_options(bench, "PUT", port, "bench/get", &options);
    return gateway_bench_rate(&options) > 0;
}

static double
read_rate(const struct gateway_bench *bench, uint16_t port)
{
    struct load_options options;

    gateway_bench_options(bench, "GET", port, "bench/get", &options);
    options.requests = bench->objects * ROUNDS;
    return gateway_bench_rate(&options);
}

int
main(int argc, char **argv)
{
    struct gateway_bench bench;
    struct kvt_error err = {0};
    struct sink *sink;
    bool ok;

    if (!gateway_bench_parse(&bench, argc, argv))
        return 2;
    if (sink_start(&sink, bench.folder, &err) != KVT_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    ok = fill(&bench, sink_port(sink)) && fill(&bench, bench.port);
    for (unsigned i = 0; i < bench.pairs && ok; i++) {
        const double floor = read_rate(&bench, sink_port(sink));
        const double ours = read_rate(&bench, bench.port);

        ok = floor > 0 && ours > 0;
        if (ok)
            (void)printf("pair %.0f %.0f\n", ours, floor);
    }
    sink_stop(sink);
    return ok ? 0 : 1;
}
