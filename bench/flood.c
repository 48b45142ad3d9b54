#include "bench/flood.h"

#include <nats/nats.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "wire/message/event_codec.h"
#include "wire/message/subject.h"

enum { NAP_NS = 20000, EVENTS_MAX = 256 };

/* Encoded messages, one behind the other. */
struct load {
    struct kvt_buffer bytes;
    size_t *ends;
    uint64_t count;
    uint64_t run;
};

/* ---- the other process ---- */

static void
fill(struct kvt_event *events, const struct flood_run *run, uint64_t publisher, uint64_t first)
{
    for (uint64_t i = 0; i < run->events; i++) {
        const uint64_t at = first + i;
        uint64_t state = (run->number << 48 | publisher << 40) + at * 4;
        uint64_t before = state - 4;

        events[i] = (struct kvt_event){
            .type = KVT_EVENT_STORE,
            .sequence_hash = kvt_random_next(&state),
            .prefix_hash = state,
            .parent = at % FLOOD_CHAIN == 0 ? 0 : kvt_random_next(&before),
            .position = (uint32_t)(at % FLOOD_CHAIN),
            .block_size = 262144,
            .ranks = 1,
        };
    }
}

static bool
encode(struct load *load, const struct flood_run *run)
{
    struct kvt_event events[EVENTS_MAX];
    struct kvt_event_batch batch = {
        .namespace_ = FLOOD_NAMESPACE, .incarnation = 1, .location_count = 1, .events = events};

    kvt_free(load->ends);
    load->ends = kvt_calloc(run->messages, sizeof(*load->ends));
    kvt_buffer_clear(&load->bytes);
    if (load->ends == NULL || run->events > EVENTS_MAX)
        return false;
    batch.locations[0].tier = KVT_TIER_G2;
    batch.event_count = (uint32_t)run->events;
    for (uint64_t i = 0; i < run->messages; i++) {
        const uint64_t publisher = i % FLOOD_PUBLISHERS;
        const uint64_t first = i / FLOOD_PUBLISHERS * run->events;

        (void)snprintf(batch.worker, sizeof(batch.worker), "w%u-%u", (unsigned)run->number,
                       (unsigned)publisher);
        batch.first_seq = first + 1;
        batch.time_ms = kvt_clock_unix_ms();
        fill(events, run, publisher, first);
        if (wire_event_encode(&batch, &load->bytes) != KVT_OK)
            return false;
        load->ends[i] = load->bytes.size;
    }
    load->count = run->messages;
    load->run = run->number;
    return true;
}

static bool
publish(natsConnection *nats, const struct load *load, struct flood_board *board)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const uint64_t size = load->bytes.size / load->count + 1;
    const uint64_t window =
        FLOOD_WINDOW * size <= FLOOD_WINDOW_BYTES ? FLOOD_WINDOW : FLOOD_WINDOW_BYTES / size;
    char subjects[FLOOD_PUBLISHERS][WIRE_SUBJECT_MAX];
    char worker[32];
    size_t start = 0;

    for (unsigned i = 0; i < FLOOD_PUBLISHERS; i++) {
        (void)snprintf(worker, sizeof(worker), "w%u-%u", (unsigned)load->run, i);
        if (wire_subject_events(subjects[i], sizeof(subjects[i]), FLOOD_NAMESPACE, 0, worker) !=
            KVT_OK)
            return false;
    }
    for (uint64_t i = 0; i < load->count; i++) {
        while (i - atomic_load(&board->consumed) >= window) {
            (void)natsConnection_Flush(nats);
            if (i - atomic_load(&board->consumed) >= window)
                (void)nanosleep(&nap, NULL); /* a millisecond would be too long */
        }
        if (natsConnection_Publish(nats, subjects[i % FLOOD_PUBLISHERS], load->bytes.data + start,
                                   (int)(load->ends[i] - start)) != NATS_OK)
            return false;
        start = load->ends[i];
        atomic_store(&board->sent, i + 1);
    }
    return natsConnection_Flush(nats) == NATS_OK;
}

static void
serve(const char *url, struct flood_board *board, int commands, int answers)
{
    natsConnection *nats = NULL;
    struct load load = {.count = 0};
    struct flood_run run;
    uint64_t answer;

    kvt_buffer_init(&load.bytes, FLOOD_BYTES_MAX);
    if (natsConnection_ConnectTo(&nats, url) != NATS_OK)
        _exit(1);
    while (read(commands, &run, sizeof(run)) == (ssize_t)sizeof(run)) {
        if (run.messages > 0)
            answer = encode(&load, &run) ? load.bytes.size / load.count : 0;
        else
            answer = publish(nats, &load, board);
        if (write(answers, &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
            break;
    }
    _exit(0);
}

/* ---- this one ---- */

bool
flood_start(struct flood *flood, const char *url)
{
    int commands[2];
    int answers[2];

    *flood = (struct flood){.commands = -1, .answers = -1};
    flood->board = mmap(NULL, sizeof(*flood->board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (flood->board == MAP_FAILED || pipe(commands) != 0 || pipe(answers) != 0)
        return false;
    flood->pid = fork();
    if (flood->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(commands[1]);
        (void)close(answers[0]);
        serve(url, flood->board, commands[0], answers[1]);
    }
    (void)close(commands[0]);
    (void)close(answers[1]);
    flood->commands = commands[1];
    flood->answers = answers[0];
    return flood->pid > 0;
}

void
flood_stop(struct flood *flood)
{
    (void)close(flood->commands);
    (void)close(flood->answers);
    if (flood->pid > 0)
        (void)waitpid(flood->pid, NULL, 0);
}

static uint64_t
answer_of(const struct flood *flood)
{
    uint64_t answer;

    return read(flood->answers, &answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? answer : 0;
}

uint64_t
flood_prepare(struct flood *flood, const struct flood_run *run)
{
    atomic_store(&flood->board->consumed, 0);
    atomic_store(&flood->board->sent, 0);
    if (write(flood->commands, run, sizeof(*run)) != (ssize_t)sizeof(*run))
        return 0;
    return answer_of(flood);
}

bool
flood_go(struct flood *flood)
{
    const struct flood_run run = {.messages = 0};

    return write(flood->commands, &run, sizeof(run)) == (ssize_t)sizeof(run);
}

bool
flood_done(struct flood *flood)
{
    return answer_of(flood) != 0;
}
