#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"

#include "bench/index/measure.h"

/* What was told, as far as it was read. */
struct story {
    struct subject *subject;
    struct subject_batch *batch;
    struct index_find_result *found;
    struct index_match *matches;
    uint64_t *workers; /* of each holder */
    uint64_t sequence[CORPUS_CHAIN_MAX];
    uint64_t first[CORPUS_CHAIN_MAX]; /* of a line's pairs; or all its numbers */
    uint64_t second[CORPUS_CHAIN_MAX];
    uint64_t head[3];
    uint32_t count;
    size_t finds;
    FILE *answers;
};

/* The next number of a line, in hexadecimal. */
static bool
take(char **at, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(*at, &end, 16);
    if (end == *at || errno != 0)
        return false;
    *at = end;
    return true;
}

/* `heads` numbers, then as many as there are, alone or in pairs. */
static bool
parse(struct story *story, char *at, size_t heads, bool pairs)
{
    for (size_t i = 0; i < heads; i++)
        if (!take(&at, &story->head[i]))
            return false;
    story->count = 0;
    while (story->count < CORPUS_CHAIN_MAX && take(&at, &story->first[story->count])) {
        if (pairs && !take(&at, &story->second[story->count]))
            return false;
        story->count++;
    }
    return story->count > 0 && at[strspn(at, " \n")] == '\0';
}

/* Give the index all that was told so far. */
static enum kvt_err
hand_over(struct story *story)
{
    const enum kvt_err rc =
        subject_apply(story->subject, story->batch, 0, story->batch->event_count);

    subject_batch_clear(story->batch);
    return rc;
}

static enum kvt_err
store(struct story *story)
{
    uint32_t holder;
    enum kvt_err rc = subject_holder(story->subject, story->head[0], &holder);

    if (rc != KVT_OK)
        return rc;
    story->workers[holder] = story->head[0];
    return subject_batch_store(story->batch, story->head[0], story->head[1],
                               (uint32_t)story->head[2], story->first, story->second, story->count);
}

static int
compare_matches(const void *left, const void *right)
{
    const struct index_match *a = left;
    const struct index_match *b = right;

    return (a->holder > b->holder) - (a->holder < b->holder);
}

static enum kvt_err
look_up(struct story *story, enum index_key key, size_t *count)
{
    const struct index_question question = {
        .hashes = key == INDEX_BY_TOKENS ? story->first : story->sequence,
        .count = story->count,
        .ns = story->subject->ns,
        .key = key,
    };
    const enum kvt_err rc = index_find(story->subject->index, &question, story->found);

    *count =
        rc == KVT_OK ? index_find_result_best(story->found, story->matches, INDEX_HOLDERS_MAX) : 0;
    qsort(story->matches, *count, sizeof(*story->matches), compare_matches);
    return rc;
}

/* By token hashes; the answer by sequence hashes must be the same. */
static enum kvt_err
find(struct story *story, struct kvt_error *err)
{
    size_t count = 0;
    size_t other = 0;
    uint64_t sums[2] = {0, 0};
    enum kvt_err rc = hand_over(story);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "the index refuses what find %zu is asked about",
                             story->finds);
    corpus_sequence(story->first, story->count, story->sequence);
    rc = look_up(story, INDEX_BY_SEQUENCE, &other);
    for (size_t i = 0; i < other; i++)
        sums[1] += corpus_mix(story->matches[i].holder) * story->matches[i].blocks;
    if (rc == KVT_OK)
        rc = look_up(story, INDEX_BY_TOKENS, &count);
    for (size_t i = 0; i < count; i++) {
        sums[0] += corpus_mix(story->matches[i].holder) * story->matches[i].blocks;
        (void)fprintf(story->answers, "%" PRIx64 "=%" PRIu32 " ",
                      story->workers[story->matches[i].holder], story->matches[i].blocks);
    }
    (void)fprintf(story->answers, "\n");
    if (rc == KVT_OK && (count != other || sums[0] != sums[1]))
        rc = kvt_error_set(err, KVT_CORRUPT, "find %zu: by sequence hashes the answer is another",
                           story->finds);
    story->finds++;
    return rc;
}

static enum kvt_err
tell(struct story *story, char *line, struct kvt_error *err)
{
    if (strncmp(line, "store ", 6) == 0 && parse(story, line + 6, 3, true))
        return store(story);
    if (strncmp(line, "remove ", 7) == 0 && parse(story, line + 7, 1, false))
        return subject_batch_remove(story->batch, story->head[0], story->first, story->count);
    if (strncmp(line, "find ", 5) == 0 && parse(story, line + 5, 0, false))
        return find(story, err);
    return kvt_error_set(err, KVT_INVALID, "no line of a story: %.60s", line);
}

static enum kvt_err
tell_all(struct story *story, FILE *file, struct kvt_error *err)
{
    char *line = NULL;
    size_t room = 0;
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && getline(&line, &room, file) > 0)
        rc = tell(story, line, err);
    free(line); /* getline's own */
    if (rc == KVT_OK && ferror(file))
        rc = kvt_error_set(err, KVT_IO, "the story cannot be read");
    return rc == KVT_OK ? hand_over(story) : rc;
}

enum kvt_err
measure_story(struct subject *subject, const char *path, const char *answers, size_t *finds,
              struct kvt_error *err)
{
    struct story *story = kvt_calloc(1, sizeof(*story));
    FILE *file = fopen(path, "re");
    enum kvt_err rc = KVT_NOMEM;

    *finds = 0;
    if (story == NULL)
        goto end;
    story->subject = subject;
    story->answers = fopen(answers, "we");
    story->workers = kvt_calloc(INDEX_HOLDERS_MAX, sizeof(*story->workers));
    story->matches = kvt_calloc(INDEX_HOLDERS_MAX, sizeof(*story->matches));
    if (story->workers == NULL || story->matches == NULL ||
        subject_batch_new(&story->batch) != KVT_OK ||
        index_find_result_new(&story->found) != KVT_OK)
        goto end;
    rc = file == NULL || story->answers == NULL
             ? kvt_error_set(err, KVT_IO, "%.100s or %.100s cannot be opened", path, answers)
             : tell_all(story, file, err);
    *finds = story->finds;
end:
    if (file != NULL)
        (void)fclose(file);
    if (story != NULL) {
        if (story->answers != NULL && fclose(story->answers) != 0 && rc == KVT_OK)
            rc = kvt_error_set(err, KVT_IO, "%.100s cannot be written", answers);
        index_find_result_free(story->found);
        subject_batch_free(story->batch);
        kvt_free(story->matches);
        kvt_free(story->workers);
    }
    kvt_free(story);
    return rc;
}
