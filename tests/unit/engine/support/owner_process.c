#include "tests/unit/engine/support/owner_process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/random.h"
#include "base/text/parse.h"

#include "tests/support/seed.h"

enum { TEXT_MAX = 32 };

uint8_t
owner_byte(uint64_t seed, size_t at)
{
    uint64_t state = seed ^ (at / 8 * UINT64_C(0x9e3779b97f4a7c15));

    return (uint8_t)(kvt_random_next(&state) >> (at % 8 * 8));
}

static void
fill(struct engine_region *region, size_t size, uint64_t seed)
{
    uint8_t *bytes = engine_region_address(region);

    for (size_t i = 0; i < size; i++)
        bytes[i] = owner_byte(seed, i);
}

void
owner_need(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "owner: %s\n", what);
    _exit(1);
}

void
owner_follow(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void
owner_say(const void *bytes, size_t size)
{
    owner_need(write(STDOUT_FILENO, bytes, size) == (ssize_t)size, "write");
}

/* owner NEAR FAR BYTES SEED; then one seed a line to change to, until the end of its input. */
void
owner_main(int argc, char **argv)
{
    struct engine_fabric_options options;
    uint8_t description[ENGINE_FABRIC_DESCRIPTION_MAX];
    struct engine_fabric *fabric;
    struct engine_region *region;
    struct kvt_error err;
    uint64_t bytes;
    uint64_t seed = 0;
    size_t size;

    if (argc != 6 || strcmp(argv[1], "owner") != 0)
        return;
    owner_follow();
    options = (struct engine_fabric_options){.near = argv[2], .far = argv[3]};
    owner_need(kvt_parse_u64(argv[4], &bytes) == KVT_OK && kvt_parse_u64(argv[5], &seed) == KVT_OK,
               "arguments");
    owner_need(engine_fabric_open(&fabric, &options, &err) == KVT_OK, "fabric");
    owner_need(engine_region_open(&region, fabric, bytes, &err) == KVT_OK, "region");
    fill(region, bytes, seed);
    engine_region_describe(region, description, &size);
    owner_say(&size, sizeof(size));
    owner_say(description, size);
    while (read(STDIN_FILENO, &seed, sizeof(seed)) == (ssize_t)sizeof(seed)) {
        fill(region, bytes, seed);
        engine_region_describe(region, description, &size);
        owner_say(&size, sizeof(size));
    }
    engine_region_close(region);
    engine_fabric_close(fabric);
    exit(0);
}

void
owner_hear(struct owner *owner, void *bytes, size_t size)
{
    uint8_t *at = bytes;

    while (size > 0) {
        const ssize_t got = read(owner->in, at, size);

        assert_true(got > 0);
        at += got;
        size -= (size_t)got;
    }
}

void
owner_spawn(struct owner *owner, char *const *arguments)
{
    posix_spawn_file_actions_t actions;
    int down[2];
    int up[2];

    assert_int_equal(pipe2(down, O_CLOEXEC), 0); /* not for those that are spawned next */
    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn(&owner->pid, "/proc/self/exe", &actions, NULL, arguments, environ),
                     0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(down[0]);
    (void)close(up[1]);
    owner->in = up[0];
    owner->out = down[1];
    owner_hear(owner, &owner->size, sizeof(owner->size));
    assert_true(owner->size <= sizeof(owner->description));
    owner_hear(owner, owner->description, owner->size);
}

void
owner_start(struct owner *owner, const char *near, const char *far, size_t bytes, uint64_t seed)
{
    char count[TEXT_MAX];
    char start[TEXT_MAX];
    char rails[2][TEXT_MAX];
    char name[] = "owner";
    char *const argv[] = {name, name, rails[0], rails[1], count, start, NULL};

    (void)snprintf(rails[0], sizeof(rails[0]), "%s", near);
    (void)snprintf(rails[1], sizeof(rails[1]), "%s", far);
    (void)snprintf(count, sizeof(count), "%zu", bytes);
    (void)snprintf(start, sizeof(start), "%" PRIu64, seed);
    owner_spawn(owner, argv);
}

void
owner_change(struct owner *owner, uint64_t seed)
{
    size_t done;

    assert_int_equal(write(owner->out, &seed, sizeof(seed)), sizeof(seed));
    owner_hear(owner, &done, sizeof(done));
}

void
owner_stop(struct owner *owner)
{
    int status;

    assert_int_equal(kill(owner->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(owner->pid, &status, WUNTRACED), owner->pid);
    assert_true(WIFSTOPPED(status));
}

void
owner_resume(struct owner *owner)
{
    assert_int_equal(kill(owner->pid, SIGCONT), 0);
}

void
owner_end(struct owner *owner)
{
    int status;

    (void)close(owner->out);
    assert_int_equal(waitpid(owner->pid, &status, 0), owner->pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    (void)close(owner->in);
}
