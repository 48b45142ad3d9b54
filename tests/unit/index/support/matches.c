#include "tests/unit/index/support/matches.h"

size_t
find_matches(struct index *index, uint32_t ns, const uint64_t *hashes, size_t count,
             struct index_match *matches, size_t capacity)
{
    const struct index_question question = {
        .hashes = hashes, .count = count, .ns = ns, .key = INDEX_BY_SEQUENCE};
    struct index_find_result *found;
    size_t given = 0;

    if (count == 0 || capacity == 0 || index_find_result_new(&found) != KVT_OK)
        return 0;
    if (index_find(index, &question, found) == KVT_OK)
        given = index_find_result_best(found, matches, capacity);
    index_find_result_free(found);
    return given;
}
