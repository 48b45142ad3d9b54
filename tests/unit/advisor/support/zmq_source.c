#include "tests/unit/advisor/support/zmq_source.h"

#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"

#include "tests/support/seed.h"

enum { PATIENCE_MS = 20000, STEP_MS = 50, NAP_MS = 5, QUICK_MS = 2000 };

struct advisor_source_options
test_zmq_source_options(const char *name, const char *endpoints)
{
    struct advisor_source_options options = advisor_source_unset;

    options.endpoints = endpoints;
    (void)snprintf(options.namespace_, sizeof(options.namespace_), "t/m");
    (void)snprintf(options.name, sizeof(options.name), "%s", name);
    return options;
}

struct advisor_source *
test_zmq_source_open(const struct advisor_source_ops *ops,
                     const struct advisor_source_options *options)
{
    struct advisor_source *source;

    assert_int_equal(advisor_source_open(&source, ops, options), KVT_OK);
    return source;
}

struct opening {
    const struct advisor_source_ops *ops;
    const struct advisor_source_options *options;
};

static bool
open_one(void *arg)
{
    const struct opening *opening = arg;
    struct advisor_source *source;
    const enum kvt_err rc = advisor_source_open(&source, opening->ops, opening->options);

    if (rc == KVT_OK)
        advisor_source_close(source);
    else
        assert_int_equal(rc, KVT_NOMEM);
    return rc == KVT_OK;
}

void
test_zmq_source_sweep(const struct advisor_source_ops *ops,
                      const struct advisor_source_options *options)
{
    assert_true(test_sweep_allocations(open_one, &(struct opening){ops, options}) > 3);
}

void
test_zmq_source_close(struct advisor_source *source)
{
    const uint64_t start_ms = kvt_clock_mono_ms();

    advisor_source_close(source);
    assert_true(kvt_clock_mono_ms() - start_ms < QUICK_MS);
}

struct advisor_inbox_item *
test_zmq_source_take(struct advisor_source *source)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct advisor_inbox_item *item;

    while (advisor_source_poll(source, &item, 1, STEP_MS) == 0)
        assert_true(kvt_clock_mono_ms() < until_ms);
    return item;
}

void
test_zmq_source_expect_nothing(struct advisor_source *source)
{
    struct advisor_inbox_item *item;

    assert_int_equal(advisor_source_poll(source, &item, 1, STEP_MS), 0);
}

/* Its state once `reached` says so. */
static struct advisor_source_state
wait_for(struct advisor_source *source,
         bool (*reached)(const struct advisor_source_state *state, const void *arg),
         const void *arg)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + PATIENCE_MS;
    struct advisor_source_state state;

    advisor_source_state(source, &state);
    while (!reached(&state, arg)) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(NAP_MS);
        advisor_source_state(source, &state);
    }
    return state;
}

static bool
refused(const struct advisor_source_state *state, const void *arg)
{
    return state->refused >= *(const uint64_t *)arg;
}

static bool
has_detail(const struct advisor_source_state *state, const void *arg)
{
    return strstr(state->detail, arg) != NULL;
}

static bool
runs(const struct advisor_source_state *state, const void *arg)
{
    return state->running == *(const bool *)arg;
}

void
test_zmq_source_wait_refused(struct advisor_source *source, uint64_t count)
{
    assert_int_equal(wait_for(source, refused, &count).refused, count);
}

void
test_zmq_source_wait_detail(struct advisor_source *source, const char *text)
{
    (void)wait_for(source, has_detail, text);
}

void
test_zmq_source_wait_running(struct advisor_source *source, bool running)
{
    const struct advisor_source_state state = wait_for(source, runs, &running);

    if (!running)
        assert_true(state.detail[0] != '\0');
}
