#include "advisor/index/departed_blocks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

enum {
    WORDS = 2048, /* of a segment */
    HEAD = 2,     /* of a piece: how many blocks, and its parent */
};

_Static_assert(INDEX_DROPPED_MAX + HEAD <= WORDS, "a piece fits a segment");

struct segment {
    struct segment *next;
    uint32_t from; /* what was given is before it */
    uint32_t to;
    uint64_t words[WORDS];
};

struct leaver {
    struct leaver *next;
    struct segment *first; /* NULL: all was given */
    struct segment *last;
    uint32_t ns;
    char worker[KVT_NAME_MAX];
};

struct advisor_departed_blocks {
    struct leaver *first; /* whose turn it is */
    struct leaver *last;
    struct segment *given; /* that the last piece was of, and nothing more is */
    size_t leavers;
    size_t words;
    uint64_t left_out;
};

enum kvt_err
advisor_departed_blocks_new(struct advisor_departed_blocks **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

static void
free_leaver(struct leaver *leaver)
{
    while (leaver->first != NULL) {
        struct segment *next = leaver->first->next;

        kvt_free(leaver->first);
        leaver->first = next;
    }
    kvt_free(leaver);
}

void
advisor_departed_blocks_clear(struct advisor_departed_blocks *departed)
{
    while (departed->first != NULL) {
        struct leaver *next = departed->first->next;

        free_leaver(departed->first);
        departed->first = next;
    }
    kvt_free(departed->given);
    *departed = (struct advisor_departed_blocks){.left_out = departed->left_out};
}

void
advisor_departed_blocks_free(struct advisor_departed_blocks *departed)
{
    if (departed == NULL)
        return;
    advisor_departed_blocks_clear(departed);
    kvt_free(departed);
}

/* ---- what comes ---- */

static void
put_last(struct advisor_departed_blocks *departed, struct leaver *leaver)
{
    leaver->next = NULL;
    if (departed->last == NULL)
        departed->first = leaver;
    else
        departed->last->next = leaver;
    departed->last = leaver;
}

/* Known, or made; NULL: there is no room. */
static struct leaver *
find(struct advisor_departed_blocks *departed, const char *worker, uint32_t ns)
{
    struct leaver *leaver = departed->last;

    /* Who left last is mostly who goes on leaving. */
    if (leaver != NULL && leaver->ns == ns && strcmp(leaver->worker, worker) == 0)
        return leaver;
    for (leaver = departed->first; leaver != NULL; leaver = leaver->next)
        if (leaver->ns == ns && strcmp(leaver->worker, worker) == 0)
            return leaver;
    if (departed->leavers == ADVISOR_LEAVERS_MAX)
        return NULL;
    leaver = kvt_calloc(1, sizeof(*leaver));
    if (leaver == NULL)
        return NULL;
    leaver->ns = ns;
    (void)snprintf(leaver->worker, sizeof(leaver->worker), "%s", worker);
    put_last(departed, leaver);
    departed->leavers++;
    return leaver;
}

/* Where so many words more go; NULL: no memory. */
static uint64_t *
extend(struct leaver *leaver, uint32_t words)
{
    struct segment *last = leaver->last;

    if (last == NULL || last->to + words > WORDS) {
        struct segment *fresh = kvt_calloc(1, sizeof(*fresh));

        if (fresh == NULL)
            return NULL;
        if (last == NULL)
            leaver->first = fresh;
        else
            last->next = fresh;
        leaver->last = last = fresh;
    }
    last->to += words;
    return &last->words[last->to - words];
}

void
advisor_departed_blocks_add(struct advisor_departed_blocks *departed, const char *worker,
                            const struct advisor_departed_blocks_piece *piece)
{
    struct leaver *leaver = NULL;
    uint64_t *words = NULL;

    assert(piece->count <= INDEX_DROPPED_MAX);
    if (departed->words + HEAD + piece->count <= ADVISOR_DEPARTED_BLOCKS_MAX)
        leaver = find(departed, worker, piece->ns);
    if (leaver != NULL)
        words = extend(leaver, HEAD + piece->count);
    if (words == NULL) {
        departed->left_out += piece->count;
        return;
    }
    words[0] = piece->count;
    words[1] = piece->parent;
    memcpy(words + HEAD, piece->hashes, piece->count * sizeof(*words));
    departed->words += HEAD + piece->count;
}

size_t
advisor_departed_blocks_count(const struct advisor_departed_blocks *departed)
{
    return departed->words;
}

uint64_t
advisor_departed_blocks_left_out(struct advisor_departed_blocks *departed)
{
    const uint64_t count = departed->left_out;

    departed->left_out = 0;
    return count;
}

/* ---- what is given ---- */

static struct leaver *
take_first(struct advisor_departed_blocks *departed)
{
    struct leaver *leaver = departed->first;

    departed->first = leaver->next;
    if (departed->first == NULL)
        departed->last = NULL;
    return leaver;
}

bool
advisor_departed_blocks_turn(struct advisor_departed_blocks *departed,
                             advisor_departed_blocks_settled_fn *settled, void *arg)
{
    const struct leaver *leaver = departed->first;

    if (leaver == NULL || settled(arg, leaver->ns, leaver->worker))
        return leaver != NULL;
    put_last(departed, take_first(departed));
    return false;
}

bool
advisor_departed_blocks_next(struct advisor_departed_blocks *departed,
                             struct advisor_departed_blocks_piece *piece)
{
    struct leaver *leaver = departed->first;
    struct segment *segment;

    *piece = (struct advisor_departed_blocks_piece){.count = 0};
    kvt_free(departed->given);
    departed->given = NULL;
    if (leaver != NULL && leaver->first == NULL) {
        kvt_free(take_first(departed));
        departed->leavers--;
        return false;
    }
    if (leaver == NULL)
        return false;
    segment = leaver->first;
    *piece = (struct advisor_departed_blocks_piece){
        .hashes = &segment->words[segment->from + HEAD],
        .parent = segment->words[segment->from + 1],
        .count = (uint32_t)segment->words[segment->from],
        .ns = leaver->ns,
    };
    segment->from += HEAD + piece->count;
    departed->words -= HEAD + piece->count;
    if (segment->from == segment->to) {
        departed->given = segment;
        leaver->first = segment->next;
        leaver->last = leaver->first == NULL ? NULL : leaver->last;
    }
    return true;
}
