/*
 * What is tested: base/core/metrics.h: the exposition byte for byte, and what happens when there
 * is no room.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/metrics.h"

#include "tests/support/seed.h"

static const char refused_head[] =
    "# HELP kvtier_metrics_refused_total Series that were not registered: the registry was full or "
    "memory was short.\n# TYPE kvtier_metrics_refused_total counter\n";

static void
the_exposition_groups_by_name(void **state)
{
    struct kvt_metrics *metrics;
    struct kvt_metric *hot;
    struct kvt_buffer text;
    char expected[1000];

    (void)state;
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    hot = kvt_metrics_add(metrics, KVT_METRIC_COUNTER, "x_puts_total", "tier=\"hot\"", "Puts.");
    kvt_metric_set(kvt_metrics_add(metrics, KVT_METRIC_GAUGE, "x_used_bytes", "", "a\\b\nc"), -5);
    kvt_metric_inc(
        kvt_metrics_add(metrics, KVT_METRIC_COUNTER, "x_puts_total", "tier=\"cold\"", "Puts."), 2);
    kvt_metric_inc(hot, 40);
    kvt_metric_inc(hot, 2);
    assert_int_equal(kvt_metric_get(hot), 42);
    /* The same series again is the same series. */
    assert_ptr_equal(
        kvt_metrics_add(metrics, KVT_METRIC_COUNTER, "x_puts_total", "tier=\"hot\"", "Puts."), hot);
    kvt_buffer_init(&text, 100000);
    kvt_metrics_format(metrics, &text);
    (void)snprintf(expected, sizeof(expected),
                   "# HELP x_puts_total Puts.\n# TYPE x_puts_total counter\n"
                   "x_puts_total{tier=\"hot\"} 42\nx_puts_total{tier=\"cold\"} 2\n"
                   "# HELP x_used_bytes a\\\\b\\nc\n# TYPE x_used_bytes gauge\nx_used_bytes -5\n"
                   "%skvtier_metrics_refused_total 0\n",
                   refused_head);
    assert_string_equal(kvt_buffer_text(&text), expected);
    kvt_buffer_release(&text);
    kvt_metrics_free(metrics);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
a_histogram_counts_up(void **state)
{
    static const uint64_t bounds[] = {1, 60, 3600};
    struct kvt_histogram ages = {.bounds = bounds, .bound_count = 3};
    struct kvt_metrics *metrics;
    struct kvt_buffer text;
    char expected[1000];

    (void)state;
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    kvt_metrics_add_histogram(metrics, &ages, "x_age_seconds", "Ages.");
    kvt_histogram_add(&ages, 0);
    kvt_histogram_add(&ages, 1);
    kvt_histogram_add(&ages, 2);
    kvt_histogram_add(&ages, 3600);
    kvt_histogram_add(&ages, 3601);
    kvt_buffer_init(&text, 100000);
    kvt_metrics_format(metrics, &text);
    (void)snprintf(expected, sizeof(expected),
                   "# HELP x_age_seconds Ages.\n# TYPE x_age_seconds histogram\n"
                   "x_age_seconds_bucket{le=\"1\"} 2\nx_age_seconds_bucket{le=\"60\"} 3\n"
                   "x_age_seconds_bucket{le=\"3600\"} 4\nx_age_seconds_bucket{le=\"+Inf\"} 5\n"
                   "x_age_seconds_sum 7204\nx_age_seconds_count 5\n"
                   "%skvtier_metrics_refused_total 0\n",
                   refused_head);
    assert_string_equal(kvt_buffer_text(&text), expected);
    kvt_buffer_release(&text);
    kvt_metrics_free(metrics);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
a_full_registry_counts_what_it_refuses(void **state)
{
    struct kvt_metrics *metrics;
    struct kvt_metric *over;
    struct kvt_buffer text;

    (void)state;
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    for (int i = 0; i < KVT_METRICS_MAX; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "m%d", i);
        (void)kvt_metrics_add(metrics, KVT_METRIC_GAUGE, name, "", "h");
    }
    over = kvt_metrics_add(metrics, KVT_METRIC_GAUGE, "one_more", "", "h");
    assert_non_null(over);
    assert_ptr_equal(kvt_metrics_add(metrics, KVT_METRIC_GAUGE, "two_more", "", "h"), over);
    kvt_metric_inc(over, 5);
    kvt_buffer_init(&text, 1000000);
    kvt_metrics_format(metrics, &text);
    assert_null(strstr(kvt_buffer_text(&text), "one_more"));
    assert_non_null(strstr(kvt_buffer_text(&text), "\nkvtier_metrics_refused_total 2\n"));
    kvt_buffer_release(&text);
    kvt_metrics_free(metrics);
}

static bool
build_once(void *arg)
{
    struct kvt_metrics *metrics;
    struct kvt_metric *metric;
    struct kvt_buffer text;
    bool whole;

    (void)arg;
    if (kvt_metrics_new(&metrics) != KVT_OK) {
        assert_null(metrics);
        kvt_metrics_free(metrics);
        return false;
    }
    metric = kvt_metrics_add(metrics, KVT_METRIC_GAUGE, "a", "l=\"1\"", "h");
    assert_non_null(metric);
    kvt_metric_inc(metric, 1); /* also where it is the shared one */
    kvt_buffer_init(&text, 10000);
    kvt_metrics_format(metrics, &text);
    whole = kvt_buffer_ok(&text) && strstr(kvt_buffer_text(&text), "a{l=\"1\"} 1\n") != NULL;
    kvt_buffer_release(&text);
    kvt_metrics_free(metrics);
    return whole;
}

static void
survives_every_allocation_failure(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(build_once, NULL) >= 5);
}

static void *
count_many(void *arg)
{
    for (int i = 0; i < 100000; i++)
        kvt_metric_inc(arg, 1);
    return NULL;
}

static void
threads_count_exactly(void **state)
{
    struct kvt_metrics *metrics;
    struct kvt_metric *metric;
    pthread_t threads[4];

    (void)state;
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    metric = kvt_metrics_add(metrics, KVT_METRIC_COUNTER, "a", "", "h");
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_many, metric), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(kvt_metric_get(metric), 400000);
    kvt_metrics_free(metrics);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exposition_groups_by_name),
        cmocka_unit_test(a_histogram_counts_up),
        cmocka_unit_test(a_full_registry_counts_what_it_refuses),
        cmocka_unit_test(survives_every_allocation_failure),
        cmocka_unit_test(threads_count_exactly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
