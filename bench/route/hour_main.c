/*
 * bench/route/hour_main.c -- a recorded hour, given to workers in several ways.
 *
 *     bench_route_hour json TRACE     one JSON object a way, fleet, capacity, G4 and setting
 *     bench_route_hour table TRACE    the same as tables, for docs/routing.md
 *
 * bench/route/fleet.h says what the model is.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/route/fleet.h"

enum { SEED = 1 };

static const struct setting {
    const char *name;
    double prefill_rate;
    double load_rate;
    uint64_t decode_us;
} settings[] = {
    {"fast", 10000, 50000, 20000},
    {"slow", 6000, 20000, 50000},
};

static const struct way {
    const char *name;
    enum fleet_way way;
    double temperature;
    bool blind; /* with G4 only */
} ways[] = {
    {"KVTier's cost", FLEET_COST, 0, false},
    {"KVTier's cost, temperature 0.1", FLEET_COST, 0.1, false},
    {"KVTier's cost, G4 not counted", FLEET_COST, 0, true},
    {"round robin", FLEET_ROUND_ROBIN, 0, false},
    {"least active blocks", FLEET_LOAD, 0, false},
};

static const uint32_t fleets[] = {8, 16, 32};
static const uint32_t capacities[] = {1000, 4000};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void
stop(const char *what)
{
    (void)fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static double
percent(uint64_t part, uint64_t whole)
{
    return 100.0 * (double)part / (double)whole;
}

static void
print_json(const struct hour *hour, const struct setting *setting, const struct way *way,
           const struct fleet_options *options, const struct fleet_result *result)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < hour->count; i++)
        tokens += hour->requests[i].input_tokens;
    (void)printf("{\"name\":\"route-hour\",\"setting\":\"%s\",\"way\":\"%s\",\"workers\":%" PRIu32
                 ",\"capacity\":%" PRIu32 ",\"g4\":%s,\"hit_percent\":%.2f,"
                 "\"g4_percent\":%.2f,\"computed_percent\":%.2f,\"tokens_max\":%.3f,"
                 "\"tokens_cv\":%.3f,\"requests_max\":%.3f,\"requests_cv\":%.3f,"
                 "\"wait_mean_s\":%.3f,\"wait_p99_s\":%.3f,\"first_mean_s\":%.3f,"
                 "\"first_p99_s\":%.3f,\"seed\":%d}\n",
                 setting->name, way->name, options->workers, options->capacity,
                 options->g4 ? "true" : "false", percent(result->found, result->blocks),
                 percent(result->loaded, result->blocks), percent(result->computed, tokens),
                 result->tokens_most, result->tokens_cv, result->requests_most, result->requests_cv,
                 result->wait_mean_s, result->wait_p99_s, result->first_mean_s, result->first_p99_s,
                 SEED);
}

static void
print_row(const struct way *way, const struct fleet_options *options,
          const struct fleet_result *result)
{
    (void)printf("| %" PRIu32 " | %s | %.1f |", options->workers, way->name,
                 percent(result->found, result->blocks));
    if (options->g4)
        (void)printf(" %.1f |", percent(result->loaded, result->blocks));
    (void)printf(" %.2f, %.2f | %.2f, %.2f | %.2f, %.1f | %.2f, %.1f |\n", result->tokens_most,
                 result->tokens_cv, result->requests_most, result->requests_cv, result->wait_mean_s,
                 result->wait_p99_s, result->first_mean_s, result->first_p99_s);
}

static void
print_head(const struct setting *setting, const struct fleet_options *options)
{
    (void)printf("\n%s G4, caches of %" PRIu32 " blocks, %.0f tokens computed a second",
                 options->g4 ? "With" : "Without", options->capacity, setting->prefill_rate);
    if (options->g4)
        (void)printf(" (%.0f loaded)", setting->load_rate);
    (void)printf(", %.0f ms a token decoded:\n\n", (double)setting->decode_us / 1000);
    (void)printf(
        "| workers | way | hits, %% |%s tokens computed: max, cv | requests: max, cv | "
        "wait, s: mean, p99 | first token, s: mean, p99 |\n|---|---|---|%s---|---|---|---|\n",
        options->g4 ? " from G4, % |" : "", options->g4 ? "---|" : "");
}

static void
compare_ways(const struct hour *hour, const struct setting *setting, uint32_t capacity, bool g4,
             bool table)
{
    struct fleet_options options = {
        .capacity = capacity,
        .g4 = g4,
        .prefill_rate = setting->prefill_rate,
        .load_rate = setting->load_rate,
        .decode_us = setting->decode_us,
        .seed = SEED,
    };
    struct fleet_result result;

    if (table)
        print_head(setting, &options);
    for (size_t f = 0; f < LENGTH(fleets); f++) {
        for (size_t w = 0; w < LENGTH(ways); w++) {
            if (ways[w].blind && !g4)
                continue;
            options.blind = ways[w].blind;
            options.workers = fleets[f];
            options.way = ways[w].way;
            options.temperature = ways[w].temperature;
            if (fleet_run(hour, &options, &result) != KVT_OK)
                stop("no memory");
            if (table)
                print_row(&ways[w], &options, &result);
            else
                print_json(hour, setting, &ways[w], &options, &result);
        }
    }
}

/* One worker that forgets nothing finds what came before: otherwise the model is wrong. */
static void
check(const struct hour *hour)
{
    const struct fleet_options options = {
        .way = FLEET_ROUND_ROBIN,
        .workers = 1,
        .capacity = hour->distinct,
        .prefill_rate = 1e9,
        .load_rate = 1e9,
    };
    struct fleet_result result;

    if (fleet_run(hour, &options, &result) != KVT_OK)
        stop("no memory");
    if (result.found != hour->accesses - hour->distinct)
        stop("one worker that forgets nothing does not find all that came before");
}

int
main(int argc, char **argv)
{
    struct kvt_error err = {0};
    struct hour hour;
    bool table = argc > 1 && strcmp(argv[1], "table") == 0;

    if (argc != 3 || (!table && strcmp(argv[1], "json") != 0))
        stop("usage: bench_route_hour json|table TRACE");
    if (hour_read(&hour, argv[2], &err) != KVT_OK)
        stop(err.text);
    if (hour.count == 0)
        stop("the trace is empty");
    check(&hour);
    if (table)
        (void)printf("%zu requests, %zu blocks, of which %.1f %% came before.\n", hour.count,
                     hour.accesses, percent(hour.accesses - hour.distinct, hour.accesses));
    /* The tables are of the first setting with small caches, and of the second with large ones. */
    for (size_t s = 0; s < LENGTH(settings); s++)
        for (size_t c = 0; c < LENGTH(capacities); c++)
            for (int g4 = 0; g4 < 2; g4++)
                if (!table || s == c)
                    compare_ways(&hour, &settings[s], capacities[c], g4 == 1, table);
    hour_release(&hour);
    return 0;
}
