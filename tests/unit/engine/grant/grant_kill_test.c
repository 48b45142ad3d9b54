/*
 * What is tested: a process fills blocks of another, by either rail: what it committed is there
 * when it is gone.  A writer that is killed when it has a grant, amid its puts or before
 * its commit holds nothing and leaves no block; one that is stopped until its places are others'
 * and goes on then is told that it is late, and the others' blocks are right.  A second writer goes
 * on all the time.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/text/parse.h"

#include "tests/unit/engine/grant/grant_bed.h"
#include "tests/unit/engine/support/owner_process.h"

enum { BLOCKS = 4, LONG = 20000, HOLD = 1000, TEXT = 160 };

/* How far a child goes by itself; then it waits for a byte, and commits. */
enum stage { GRANTED, PUTTING, PUT, STAGES };

/* What it says at its end. */
struct told {
    enum kvt_err put;
    enum kvt_err commit;
};

/* The writer's process ------------------------------------------------------------------------ */

static void
read_description(const char *path, uint8_t *bytes, size_t *size)
{
    FILE *file = fopen(path, "rb");

    owner_need(file != NULL, "description");
    *size = fread(bytes, 1, ENGINE_BLOCKSET_DESCRIPTION_MAX, file);
    (void)fclose(file);
}

/* child writer RAIL FOLDER STAGE FIRST-NAME */
static void
child_main(int argc, char **argv)
{
    const size_t none = 0;
    uint8_t description[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    uint64_t names[BLOCKS];
    struct engine_grant grant;
    struct grant_hand hand;
    struct told told = {KVT_OK, KVT_OK};
    char text[TEXT];
    uint64_t stage;
    uint64_t first;
    bool near;
    size_t size;
    char byte;

    if (argc != 6 || strcmp(argv[1], "writer") != 0)
        return;
    owner_follow();
    near = strcmp(argv[2], "near") == 0;
    owner_need(kvt_parse_u64(argv[4], &stage) == KVT_OK && kvt_parse_u64(argv[5], &first) == KVT_OK,
               "arguments");
    (void)snprintf(text, sizeof(text), "%s/set", argv[3]);
    read_description(text, description, &size);
    (void)snprintf(text, sizeof(text), "ipc://%s/grants", argv[3]);
    owner_need(grant_hand_open(&hand, near, text, description, size) == KVT_OK, "hand");
    for (size_t i = 0; i < BLOCKS; i++)
        names[i] = first + i;
    owner_need(grant_hand_acquire(&hand, names, BLOCKS, HOLD, &grant) == KVT_OK, "acquire");
    if (stage >= PUTTING)
        owner_need(grant_hand_put(&hand, &grant) == KVT_OK, "put");
    owner_say(&none, sizeof(none));
    while (stage == PUTTING && grant_hand_put(&hand, &grant) == KVT_OK)
        continue;
    owner_need(read(STDIN_FILENO, &byte, 1) == 1, "go");
    told.put = grant_hand_put(&hand, &grant);
    told.commit = engine_writer_commit(hand.writer, &grant, NULL, NULL);
    owner_say(&told, sizeof(told));
    grant_hand_close(&hand);
    exit(0);
}

/* The test's -------------------------------------------------------------------------------- */

static void
child_start(struct owner *child, const struct grant_bed *bed, enum stage stage, uint64_t first)
{
    char name[] = "writer";
    char rail[8];
    char folder[TEXT];
    char stage_text[8];
    char first_text[32];
    char *const argv[] = {name, name, rail, folder, stage_text, first_text, NULL};

    (void)snprintf(rail, sizeof(rail), "%s", bed->near ? "near" : "far");
    (void)snprintf(folder, sizeof(folder), "%s", bed->folder);
    (void)snprintf(stage_text, sizeof(stage_text), "%d", (int)stage);
    (void)snprintf(first_text, sizeof(first_text), "%" PRIu64, first);
    owner_spawn(child, argv);
}

static void
child_go(struct owner *child, struct told *told)
{
    assert_int_equal(write(child->out, "g", 1), 1);
    owner_hear(child, told, sizeof(*told));
}

static void
begin(struct grant_bed *bed, struct grant_hand *hand, bool near, uint64_t hold_ms, uint64_t rest_ms)
{
    char path[TEXT];
    FILE *file;

    grant_bed_open(bed, near, hold_ms, rest_ms);
    (void)snprintf(path, sizeof(path), "%s/set", bed->folder);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bed->description, 1, bed->size, file), bed->size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(grant_hand_open(hand, near, bed->endpoint, bed->description, bed->size),
                     KVT_OK);
}

static void
end(struct grant_bed *bed, struct grant_hand *hand)
{
    grant_hand_close(hand);
    grant_bed_wait_idle(bed);
    grant_bed_close(bed);
}

static void
write_all(struct grant_hand *hand, uint64_t first, size_t count)
{
    uint64_t names[GRANT_BED_PLACES] = {0};
    struct engine_grant grant;

    for (size_t i = 0; i < count; i++)
        names[i] = first + i;
    assert_int_equal(grant_hand_acquire(hand, names, count, LONG, &grant), KVT_OK);
    assert_int_equal(grant_hand_put(hand, &grant), KVT_OK);
    assert_int_equal(engine_writer_commit(hand->writer, &grant, NULL, NULL), KVT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(grant.blocks[i].status, KVT_OK);
}

static void
what_a_process_committed_outlives_it(void **state)
{
    struct grant_hand hand;
    struct grant_bed bed;
    struct owner child;
    struct told told;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        begin(&bed, &hand, near != 0, LONG, LONG);
        child_start(&child, &bed, PUT, 1);
        child_go(&child, &told);
        assert_int_equal(told.put, KVT_OK);
        assert_int_equal(told.commit, KVT_OK);
        owner_end(&child);
        assert_int_equal(grant_bed_names(&bed, &hand), BLOCKS);
        end(&bed, &hand);
    }
}

static void
a_killed_writer_holds_nothing(void **state)
{
    struct grant_hand hand;
    struct grant_bed bed;
    struct owner child;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        begin(&bed, &hand, near != 0, LONG, 1);
        for (enum stage stage = 0; stage < STAGES; stage++) {
            child_start(&child, &bed, stage, 1);
            assert_int_equal(engine_grants_stats(bed.grants).held, BLOCKS);
            kvt_clock_sleep_ms(stage == PUTTING ? 30 : 0);
            assert_int_equal(kill(child.pid, SIGKILL), 0);
            write_all(&hand, 100 + 10 * stage, 2);
            owner_end(&child);
            grant_bed_wait_idle(&bed);
            assert_int_equal(engine_grants_stats(bed.grants).lost, BLOCKS * (stage + 1));
            assert_int_equal(grant_bed_names(&bed, &hand), 2 * (stage + 1));
        }
        write_all(&hand, 1, BLOCKS);
        end(&bed, &hand);
    }
}

/* Its link and its deadline are over, its places are somebody else's, and then it goes on. */
static void
a_stopped_writer_is_late(void **state)
{
    struct grant_hand hand;
    struct grant_bed bed;
    struct owner child;
    struct told told;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        begin(&bed, &hand, near != 0, LONG, 1);
        child_start(&child, &bed, PUTTING, 1); /* stopped wherever it is */
        kvt_clock_sleep_ms(5);
        owner_stop(&child);
        grant_bed_wait_idle(&bed);
        kvt_clock_sleep_ms(5); /* its places rest */
        write_all(&hand, 100, GRANT_BED_PLACES);
        owner_resume(&child);
        kvt_clock_sleep_ms(30);
        assert_int_equal(grant_bed_names(&bed, &hand), GRANT_BED_PLACES);
        assert_int_equal(kill(child.pid, SIGKILL), 0);
        owner_end(&child);
        child_start(&child, &bed, PUT, 1);
        owner_stop(&child);
        grant_bed_wait_idle(&bed);
        owner_resume(&child);
        child_go(&child, &told);
        assert_int_equal(told.put, KVT_TIMEOUT);
        assert_int_equal(told.commit, KVT_NOTFOUND);
        owner_end(&child);
        assert_int_equal(grant_bed_names(&bed, &hand), GRANT_BED_PLACES);
        end(&bed, &hand);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_process_committed_outlives_it),
        cmocka_unit_test(a_killed_writer_holds_nothing),
        cmocka_unit_test(a_stopped_writer_is_late),
    };

    child_main(argc, argv);
    return cmocka_run_group_tests_name("engine/grant_kill", tests, NULL, NULL);
}
