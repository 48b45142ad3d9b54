#include "tests/unit/engine/leader/session_child.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/text/parse.h"

#include "tests/support/seed.h"

enum { TICK_MS = 2 };

static const size_t pages_size = CHILDREN_MAX * sizeof(struct child_page);

/* ---- in the test ---- */

void
child_endpoint(const struct children *children, uint64_t number, char *text, size_t size)
{
    (void)snprintf(text, size, "ipc://%s/%llu", children->folder, (unsigned long long)number);
}

void
children_open(struct children *children)
{
    memset(children, 0, sizeof(*children));
    (void)test_folder_make(children->folder, sizeof(children->folder));
    children->file = memfd_create("pages", 0);
    assert_true(children->file >= 0);
    assert_int_equal(ftruncate(children->file, (off_t)pages_size), 0);
    children->pages = mmap(NULL, pages_size, PROT_READ | PROT_WRITE, MAP_SHARED, children->file, 0);
    assert_true(children->pages != MAP_FAILED);
}

struct child_page *
child_begin(struct children *children, enum child_kind kind, uint64_t number, bool far)
{
    const size_t at = children->count++;
    char instance[] = "instance";
    char words[5][24];

    assert_true(at < CHILDREN_MAX);
    (void)snprintf(words[0], sizeof(words[0]), "%d", (int)kind);
    (void)snprintf(words[1], sizeof(words[1]), "%llu", (unsigned long long)number);
    (void)snprintf(words[2], sizeof(words[2]), "%d", far);
    (void)snprintf(words[3], sizeof(words[3]), "%d", children->file);
    (void)snprintf(words[4], sizeof(words[4]), "%zu", at);
    /* No fork: what libraries do then is not meant for a process with threads of theirs. */
    assert_int_equal(posix_spawn(&children->processes[at], "/proc/self/exe", NULL, NULL,
                                 (char *const[]){instance, children->folder, words[0], words[1],
                                                 words[2], words[3], words[4], NULL},
                                 environ),
                     0);
    return &children->pages[at];
}

void
child_signal(struct children *children, const struct child_page *page, int signal)
{
    const size_t at = (size_t)(page - children->pages);
    int status;

    assert_int_equal(kill(children->processes[at], signal), 0);
    if (signal == SIGCONT)
        return;
    assert_int_equal(waitpid(children->processes[at], &status, WUNTRACED), children->processes[at]);
    assert_true(signal == SIGSTOP ? WIFSTOPPED(status) : WIFSIGNALED(status));
    if (signal == SIGKILL)
        children->processes[at] = 0;
}

void
children_close(struct children *children)
{
    for (size_t i = 0; i < children->count; i++)
        if (children->processes[i] != 0)
            child_signal(children, &children->pages[i], SIGKILL);
    (void)munmap(children->pages, pages_size);
    (void)close(children->file);
    test_folder_remove(children->folder);
}

/* ---- in a child ---- */

static void
must(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "instance: %s\n", what);
    _exit(1);
}

static void
tell(struct node *node, struct child_page *page)
{
    static enum engine_verb shut;
    const enum engine_verb wanted = (enum engine_verb)atomic_load(&page->shut);

    if (wanted != shut)
        node_gate(node, wanted);
    shut = wanted;
    atomic_store(&page->gated, (uint32_t)node_gated(node));
    atomic_store(&page->idle, node_is_idle(node, 0));
    atomic_store(&page->up, 1);
    kvt_clock_sleep_ms(TICK_MS);
}

static void
join(struct node *node, const char *folder)
{
    char endpoint[256];

    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s/%d", folder, CHILD_TEST);
    must(engine_leader_add_peer(node->leader, CHILD_TEST, endpoint, CHILD_PATIENCE, NULL) == KVT_OK,
         "the test is not there");
}

static struct engine_match *
find(struct node *node, uint64_t chain, size_t count, enum engine_mode mode)
{
    struct kvbm_label labels[NODE_CHAIN];
    struct engine_match *match;

    node_labels(labels, chain, count);
    must(engine_leader_find(node->leader,
                            &(struct engine_find){.labels = labels,
                                                  .count = count,
                                                  .mode = mode,
                                                  .peers = true,
                                                  .wait_ms = CHILD_FIND_MS},
                            &match) == KVT_OK,
         "find");
    return match;
}

static bool
has_right_bytes(struct node *node, struct engine_match *match, uint64_t chain)
{
    struct kvt_handle handles[NODE_CHAIN];

    return node_are(node, chain, handles, engine_match_blocks(match, handles, NODE_CHAIN));
}

static void
run_holder(struct node *node, struct child_page *page, uint64_t number)
{
    must(node_make(node, KVT_TIER_G2, number, 0, CHILD_BLOCKS / 2) &&
             node_make(node, KVT_TIER_G3, number, CHILD_BLOCKS / 2, CHILD_BLOCKS / 2),
         "blocks");
    for (;;)
        tell(node, page);
}

static void
run_asker(struct node *node, struct child_page *page, uint64_t number)
{
    struct engine_match_view view;
    struct engine_match *match = NULL;

    for (;;) {
        const uint32_t wanted = atomic_load(&page->find);

        tell(node, page);
        if (match == NULL && wanted != 0 && atomic_load(&page->released) == 0)
            match = find(node, number, CHILD_BLOCKS, (enum engine_mode)(wanted - 1));
        if (match == NULL)
            continue;
        engine_match_view(match, &view);
        atomic_store(&page->ready, view.ready);
        atomic_store(&page->why, view.shortened ? (uint32_t)view.why : 0);
        atomic_store(&page->state, 1 + (uint32_t)view.state);
        if (atomic_load(&page->release) == 0 || view.state == ENGINE_SEARCHING ||
            view.state == ENGINE_STAGING)
            continue;
        if (!has_right_bytes(node, match, number) || node_has(node, number) == SIZE_MAX)
            atomic_fetch_add(&page->failed, 1);
        engine_match_release(match);
        match = NULL;
        atomic_store(&page->released, 1);
    }
}

static void
run_puller(struct node *node, struct child_page *page)
{
    for (;;) {
        struct engine_match_view view;
        struct engine_match *match;

        tell(node, page);
        while (!node_is_idle(node, 0))
            kvt_clock_sleep_ms(TICK_MS);
        for (unsigned tier = KVT_TIER_G2; tier < KVT_TIER_G4; tier++)
            (void)kvbm_pool_clear(node->pools[tier]);
        atomic_store(&page->paused, atomic_load(&page->pause));
        if (atomic_load(&page->pause) != 0)
            continue;
        match = find(node, CHILD_TEST, CHILD_OWN, ENGINE_FULL);
        must(engine_match_wait(match, ENGINE_STATE_BIT(ENGINE_READY), CHILD_PATIENCE, &view) ==
                 KVT_OK,
             "a match without an end");
        if (view.state == ENGINE_READY && view.ready == CHILD_OWN && !view.shortened &&
            has_right_bytes(node, match, CHILD_TEST))
            atomic_fetch_add(&page->rounds, 1);
        else if (atomic_fetch_add(&page->failed, 1) == 0)
            (void)fprintf(stderr, "instance: state %d, %u of %u found and ready, %s\n", view.state,
                          view.ready, view.found, view.text);
        engine_match_release(match);
    }
}

void
child_main(int argc, char **argv)
{
    struct child_page *pages;
    uint64_t numbers[5];
    char endpoint[256];
    struct node node;

    if (argc != 7 || strcmp(argv[0], "instance") != 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < 5; i++)
        must(kvt_parse_u64(argv[i + 2], &numbers[i]) == KVT_OK, "arguments");
    pages = mmap(NULL, pages_size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)numbers[3], 0);
    must(pages != MAP_FAILED, "pages");
    (void)snprintf(endpoint, sizeof(endpoint), "ipc://%s/%llu", argv[1],
                   (unsigned long long)numbers[1]);
    must(node_open(&node, &(struct node_options){.number = numbers[1],
                                                 .endpoint = endpoint,
                                                 .far = numbers[2] != 0,
                                                 .hold_ms = CHILD_HOLD_MS}) == KVT_OK,
         "it does not open");
    if (numbers[0] == CHILD_HOLDER)
        run_holder(&node, &pages[numbers[4]], numbers[1]);
    join(&node, argv[1]);
    if (numbers[0] == CHILD_ASKER)
        run_asker(&node, &pages[numbers[4]], numbers[1]);
    run_puller(&node, &pages[numbers[4]]);
}
