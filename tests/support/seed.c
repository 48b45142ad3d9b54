#include "tests/support/seed.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

enum { SWEEP_MAX = 100000 };

uint64_t
test_seed(void)
{
    static bool known;
    static uint64_t seed;
    const char *text = getenv("KVT_SEED");

    if (known)
        return seed;
    if (text != NULL)
        seed = strtoull(text, NULL, 0);
    else
        kvt_random_system(&seed, sizeof(seed));
    known = true;
    (void)fprintf(stderr, "KVT_SEED=%" PRIu64 "\n", seed);
    return seed;
}

const char *
test_folder_make(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(path, size, "%s/kvtier-test-XXXXXX", base == NULL ? "/tmp" : base);
    assert_non_null(mkdtemp(path));
    return path;
}

static int
remove_one(const char *path, const struct stat *about, int type, struct FTW *walk)
{
    (void)about;
    (void)type;
    (void)walk;
    return remove(path);
}

void
test_folder_remove(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

size_t
test_sweep_allocations(bool (*attempt)(void *arg), void *arg)
{
    const size_t live = kvt_alloc_live();

    for (size_t n = 0; n < SWEEP_MAX; n++) {
        bool done;

        kvt_alloc_fail_after(n);
        done = attempt(arg);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_int_equal(kvt_alloc_live(), live);
        if (done)
            return n;
    }
    fail_msg("no end of allocations to fail");
    return 0;
}
