#include "index/memory/address_space.h"

#include <stdint.h>
#include <sys/mman.h>

static size_t
round_up(size_t bytes)
{
    return (bytes + INDEX_ADDRESS_SPACE_CHUNK - 1) / INDEX_ADDRESS_SPACE_CHUNK *
           INDEX_ADDRESS_SPACE_CHUNK;
}

void *
index_address_space_reserve(size_t bytes, bool usable)
{
    const size_t size = round_up(bytes);
    char *at =
        mmap(NULL, size + INDEX_ADDRESS_SPACE_CHUNK, usable ? PROT_READ | PROT_WRITE : PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;

    if (at == MAP_FAILED)
        return NULL;
    before = (INDEX_ADDRESS_SPACE_CHUNK - (uintptr_t)at % INDEX_ADDRESS_SPACE_CHUNK) %
             INDEX_ADDRESS_SPACE_CHUNK;
    if (before > 0)
        (void)munmap(at, before);
    (void)munmap(at + before + size, INDEX_ADDRESS_SPACE_CHUNK - before);
    /* Advice: without huge pages all of it works, slower. */
    if (!usable)
        (void)madvise(at + before, size, MADV_HUGEPAGE);
    return at + before;
}

void
index_address_space_release(void *at, size_t bytes)
{
    if (at != NULL)
        (void)munmap(at, round_up(bytes));
}

bool
index_address_space_commit(void *at, size_t bytes)
{
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

void
index_address_space_decommit(void *at, size_t bytes)
{
    (void)madvise(at, bytes, MADV_DONTNEED);
}
