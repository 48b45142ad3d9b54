/*
 * bench/gateway_put.c -- bytes a second of acknowledged PUTs, against the floor of bench/sink.h.
 *
 * Prints one line a pair: "pair <ours> <floor>", in bytes a second.  Every object is new.
 */
#include <stdbool.h>
#include <stdio.h>

#include "bench/gateway_common.h"
#include "bench/sink.h"

int
main(int argc, char **argv)
{
    struct gateway_bench bench;
    struct kvt_error err = {0};
    bool ok = true;

    if (!gateway_bench_parse(&bench, argc, argv))
        return 2;
    for (unsigned i = 0; i < bench.pairs && ok; i++) {
        struct load_options options;
        struct sink *sink;
        char prefix[32];
        double floor;
        double ours;

        if (sink_start(&sink, bench.folder, &err) != KVT_OK) {
            (void)fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        (void)snprintf(prefix, sizeof(prefix), "bench/put%u", i);
        gateway_bench_options(&bench, "PUT", sink_port(sink), prefix, &options);
        floor = gateway_bench_rate(&options);
        sink_stop(sink);
        gateway_bench_options(&bench, "PUT", bench.port, prefix, &options);
        ours = gateway_bench_rate(&options);
        ok = floor > 0 && ours > 0;
        if (ok)
            (void)printf("pair %.0f %.0f\n", ours, floor);
    }
    return ok ? 0 : 1;
}
