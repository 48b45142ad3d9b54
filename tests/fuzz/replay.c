/*
 * tests/fuzz/replay.c -- run a fuzz target over a folder of inputs, each with seeded mutations.
 *
 * What once broke a decoder stays in the corpus and is tried by every test run, also where no
 * fuzzer is installed.  KVT_SEED=n repeats the mutations.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/random.h"

#include "tests/fuzz/target.h"

#ifdef __SANITIZE_THREAD__
enum { MUTATIONS = 1000 }; /* each takes ten times as long */
#else
enum { MUTATIONS = 20000 };
#endif
enum { GROWTH_MAX = 64, INPUT_MAX = 1 << 20 };

/* Give the target memory of exactly the input's size: a sanitizer sees what is read behind it. */
static bool
try_input(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = kvt_calloc(size > 0 ? size : 1, 1);

    if (copy == NULL)
        return false;
    if (size > 0)
        memcpy(copy, bytes, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    kvt_free(copy);
    return true;
}

/* Change 1 to 8 places of bytes[0, *size); there is room for GROWTH_MAX more. */
static void
mutate(uint8_t *bytes, size_t *size, uint64_t *random)
{
    const uint64_t changes = 1 + kvt_random_below(random, 8);

    for (uint64_t i = 0; i<changes && * size> 0; i++) {
        const size_t at = kvt_random_below(random, *size);

        switch (kvt_random_below(random, 5)) {
        case 0: bytes[at] = (uint8_t)kvt_random_next(random); break;
        case 1: bytes[at] ^= (uint8_t)(1u << kvt_random_below(random, 8)); break;
        case 2: *size = at; break;
        case 3:
            memmove(bytes + at, bytes + at + 1, *size - at - 1);
            (*size)--;
            break;
        default:
            memmove(bytes + at + 1, bytes + at, *size - at);
            bytes[at] = (uint8_t)kvt_random_next(random);
            (*size)++;
            break;
        }
    }
}

static bool
try_file(const char *path, uint64_t *random)
{
    uint8_t *changed = NULL;
    char *bytes = NULL;
    size_t size;
    bool ok = kvt_file_read(&bytes, &size, path, INPUT_MAX, NULL) == KVT_OK;

    if (ok) {
        changed = kvt_calloc(size + GROWTH_MAX, 1);
        ok = changed != NULL && try_input((const uint8_t *)bytes, size);
    }
    for (int i = 0; i < MUTATIONS && ok; i++) {
        size_t changed_size = size;

        memcpy(changed, bytes, size);
        mutate(changed, &changed_size, random);
        ok = try_input(changed, changed_size);
    }
    kvt_free(changed);
    kvt_free(bytes);
    return ok;
}

int
main(int argc, char **argv)
{
    const char *text = getenv("KVT_SEED");
    unsigned files = 0;
    uint64_t random;
    bool ok = true;
    DIR *folder;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    if (text != NULL)
        random = strtoull(text, NULL, 0);
    else
        kvt_random_system(&random, sizeof(random));
    (void)fprintf(stderr, "KVT_SEED=%" PRIu64 "\n", random);
    folder = opendir(argv[1]);
    if (folder == NULL) {
        (void)fprintf(stderr, "%s: no such folder\n", argv[1]);
        return 2;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL && ok; entry = readdir(folder)) {
        char path[4096];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        ok = try_file(path, &random);
        files++;
    }
    (void)closedir(folder);
    (void)fprintf(stderr, "%u files, %u inputs\n", files, files * (MUTATIONS + 1u));
    return ok && files > 0 ? 0 : 1;
}
