#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "bench/index/measure.h"

enum {
    SLICE_BLOCKS = 2048, /* handed over at once */
    CAPACITY_ROUNDS = 3,
};

/* All chains come, in slices, then all go: a round.  Both halves are built beforehand. */
struct measure_writer {
    struct subject *subject;
    struct subject_batch *halves[2];
    size_t slice_events;
    size_t slices; /* of one half */
    double rate;
    pthread_t thread;
    _Atomic bool stop;
    double wrote;
    enum kvt_err failed;
};

static enum kvt_err
write_slice(struct measure_writer *writer, size_t number)
{
    struct subject_batch *half = writer->halves[number / writer->slices % 2];
    const size_t from = number % writer->slices * writer->slice_events;

    return subject_apply(writer->subject, half, from, from + writer->slice_events);
}

static enum kvt_err
build(struct measure_writer *writer, const struct corpus *corpus)
{
    uint64_t locals[CORPUS_CHAIN_MAX];
    uint64_t hashes[CORPUS_CHAIN_MAX];
    enum kvt_err rc = KVT_OK;

    writer->slice_events = SLICE_BLOCKS / corpus->length;
    writer->slices = corpus->chains / writer->slice_events;
    for (uint32_t i = 0; i < corpus->chains && rc == KVT_OK; i++) {
        const uint32_t chain = corpus->order[i];
        const uint64_t worker = corpus_worker_id(corpus_worker(corpus, chain));
        const uint32_t count = corpus_locals(corpus, chain, locals);

        corpus_sequence(locals, count, hashes);
        rc = subject_batch_store(writer->halves[0], worker, 0, 0, hashes, locals, count);
        if (rc == KVT_OK)
            rc = subject_batch_remove(writer->halves[1], worker, hashes, count);
    }
    return rc;
}

enum kvt_err
measure_writer_new(struct measure_writer **out, struct subject *subject, uint64_t seed,
                   double *capacity, struct kvt_error *err)
{
    struct measure_writer *writer = kvt_calloc(1, sizeof(*writer));
    struct corpus corpus = {.order = NULL};
    uint64_t start_ns;
    size_t slices;
    enum kvt_err rc;

    *out = NULL;
    *capacity = 0;
    if (writer == NULL)
        return KVT_NOMEM;
    writer->subject = subject;
    rc = corpus_churn(&corpus, seed);
    for (int i = 0; i < 2 && rc == KVT_OK; i++)
        rc = subject_batch_new(&writer->halves[i]);
    if (rc == KVT_OK)
        rc = build(writer, &corpus);
    corpus_release(&corpus);
    start_ns = kvt_clock_mono_ns();
    slices = 2 * writer->slices * CAPACITY_ROUNDS;
    for (size_t i = 0; i < slices && rc == KVT_OK; i++)
        rc = write_slice(writer, i);
    if (rc != KVT_OK) {
        measure_writer_free(writer);
        return kvt_error_set(err, rc, "the index refused what the writer writes");
    }
    *capacity = (double)(slices * SLICE_BLOCKS) * 1e9 / (double)(kvt_clock_mono_ns() - start_ns);
    *out = writer;
    return KVT_OK;
}

void
measure_writer_free(struct measure_writer *writer)
{
    if (writer == NULL)
        return;
    for (int i = 0; i < 2; i++)
        subject_batch_free(writer->halves[i]);
    kvt_free(writer);
}

static void
sleep_until(uint64_t due_ns)
{
    const struct timespec time = {.tv_sec = (time_t)(due_ns / 1000000000),
                                  .tv_nsec = (long)(due_ns % 1000000000)};

    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void *
run(void *arg)
{
    struct measure_writer *writer = arg;
    const double pause_ns = SLICE_BLOCKS * 1e9 / writer->rate;
    const uint64_t start_ns = kvt_clock_mono_ns();
    size_t number = 0;

    /* Whole rounds, so that nothing of it stays behind. */
    while (writer->failed == KVT_OK &&
           (!atomic_load_explicit(&writer->stop, memory_order_relaxed) ||
            number % (2 * writer->slices) != 0)) {
        const uint64_t due_ns = start_ns + (uint64_t)(pause_ns * (double)(number + 1));

        writer->failed = write_slice(writer, number++);
        if (kvt_clock_mono_ns() < due_ns)
            sleep_until(due_ns);
    }
    writer->wrote =
        (double)(number * SLICE_BLOCKS) * 1e9 / (double)(kvt_clock_mono_ns() - start_ns);
    return NULL;
}

enum kvt_err
measure_writer_start(struct measure_writer *writer, double rate, struct kvt_error *err)
{
    writer->rate = rate;
    writer->failed = KVT_OK;
    atomic_store(&writer->stop, false);
    if (pthread_create(&writer->thread, NULL, run, writer) != 0)
        return kvt_error_set(err, KVT_NOMEM, "cannot start the writer");
    return KVT_OK;
}

enum kvt_err
measure_writer_stop(struct measure_writer *writer, double *rate, struct kvt_error *err)
{
    atomic_store(&writer->stop, true);
    (void)pthread_join(writer->thread, NULL);
    *rate = writer->wrote;
    if (writer->failed != KVT_OK)
        return kvt_error_set(err, writer->failed, "the index refused what the writer writes");
    return KVT_OK;
}
