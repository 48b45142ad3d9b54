#include "gateway/s3/listing_prefetch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

enum state { FREE, FLYING, READY };

struct page {
    struct gateway_listing_prefetch *prefetch;
    enum state state;
    bool wanted;       /* somebody waits for it, so it is nobody else's */
    uint64_t asked_ms; /* when the store was, */
    uint64_t changes;  /* and behind how many of them */
    char prefix[KVT_KEY_MAX];
    char token[G4_TOKEN_MAX];
    struct g4_request request;
};

struct gateway_listing_prefetch {
    pthread_mutex_t lock; /* guards the pages; of one that flies the request is the store's */
    pthread_cond_t landed;
    uint64_t changes;
    struct page pages[GATEWAY_LISTING_PREFETCH_MAX];
};

enum kvt_err
gateway_listing_prefetch_new(struct gateway_listing_prefetch **out)
{
    struct gateway_listing_prefetch *prefetch = kvt_calloc(1, sizeof(*prefetch));

    *out = NULL;
    if (prefetch == NULL || pthread_mutex_init(&prefetch->lock, NULL) != 0) {
        kvt_free(prefetch);
        return KVT_NOMEM;
    }
    if (pthread_cond_init(&prefetch->landed, NULL) != 0) {
        (void)pthread_mutex_destroy(&prefetch->lock);
        kvt_free(prefetch);
        return KVT_NOMEM;
    }
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++)
        prefetch->pages[i].prefetch = prefetch;
    *out = prefetch;
    return KVT_OK;
}

void
gateway_listing_prefetch_free(struct gateway_listing_prefetch *prefetch)
{
    if (prefetch == NULL)
        return;
    (void)pthread_mutex_lock(&prefetch->lock);
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++)
        while (prefetch->pages[i].state == FLYING)
            (void)pthread_cond_wait(&prefetch->landed, &prefetch->lock);
    (void)pthread_mutex_unlock(&prefetch->lock);
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++)
        kvt_free(prefetch->pages[i].request.listed);
    (void)pthread_cond_destroy(&prefetch->landed);
    (void)pthread_mutex_destroy(&prefetch->lock);
    kvt_free(prefetch);
}

static void
on_done(struct g4_request *request, void *arg)
{
    struct page *page = arg;

    (void)request;
    (void)pthread_mutex_lock(&page->prefetch->lock);
    page->state = READY;
    /* Inside the lock: whoever frees it may be waiting. */
    (void)pthread_cond_broadcast(&page->prefetch->landed);
    (void)pthread_mutex_unlock(&page->prefetch->lock);
}

static bool
is_stale(const struct page *page)
{
    return kvt_clock_mono_ms() - page->asked_ms > GATEWAY_LISTING_PREFETCH_MS ||
           page->changes != page->prefetch->changes;
}

/* A page that nobody needs, with its memory; NULL: none. */
static struct page *
find_room(struct gateway_listing_prefetch *prefetch)
{
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++) {
        struct page *page = &prefetch->pages[i];

        if (page->wanted || (page->state != FREE && (page->state != READY || !is_stale(page))))
            continue;
        if (page->request.listed == NULL)
            page->request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*page->request.listed));
        return page->request.listed == NULL ? NULL : page;
    }
    return NULL;
}

static void
begin(struct page *page, const char *prefix, const char *token)
{
    page->state = FLYING;
    page->asked_ms = kvt_clock_mono_ms();
    page->changes = page->prefetch->changes;
    (void)snprintf(page->prefix, sizeof(page->prefix), "%s", prefix);
    (void)snprintf(page->token, sizeof(page->token), "%s", token);
    page->request =
        (struct g4_request){.verb = G4_LIST,
                            .key = page->prefix,
                            .listed = page->request.listed,
                            .deadline_ms = page->asked_ms + GATEWAY_LISTING_PREFETCH_PATIENCE_MS,
                            .done = on_done,
                            .arg = page};
    memcpy(page->request.token, page->token, sizeof(page->token));
}

void
gateway_listing_prefetch_fetch(struct gateway_listing_prefetch *prefetch, struct g4_store *store,
                               const char *prefix, const char *token)
{
    struct page *page;

    (void)pthread_mutex_lock(&prefetch->lock);
    page = find_room(prefetch);
    if (page != NULL)
        begin(page, prefix, token);
    (void)pthread_mutex_unlock(&prefetch->lock);
    if (page == NULL || g4_store_submit(store, &page->request) == KVT_OK)
        return;
    (void)pthread_mutex_lock(&prefetch->lock);
    page->state = FREE;
    (void)pthread_cond_broadcast(&prefetch->landed);
    (void)pthread_mutex_unlock(&prefetch->lock);
}

void
gateway_listing_prefetch_change(struct gateway_listing_prefetch *prefetch)
{
    (void)pthread_mutex_lock(&prefetch->lock);
    prefetch->changes++;
    (void)pthread_mutex_unlock(&prefetch->lock);
}

static struct page *
find(struct gateway_listing_prefetch *prefetch, const struct g4_request *request)
{
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++) {
        struct page *page = &prefetch->pages[i];

        if (page->state != FREE && !page->wanted && strcmp(page->prefix, request->key) == 0 &&
            strcmp(page->token, request->token) == 0)
            return page;
    }
    return NULL;
}

bool
gateway_listing_prefetch_take(struct gateway_listing_prefetch *prefetch, struct g4_request *request)
{
    struct page *page;
    bool good = false;

    (void)pthread_mutex_lock(&prefetch->lock);
    page = find(prefetch, request);
    if (page != NULL) {
        page->wanted = true;
        while (page->state == FLYING)
            (void)pthread_cond_wait(&prefetch->landed, &prefetch->lock);
        good = page->state == READY && !is_stale(page) && page->request.status == KVT_OK;
        if (good) {
            memcpy(request->listed, page->request.listed,
                   page->request.listed_count * sizeof(*request->listed));
            request->listed_count = page->request.listed_count;
            memcpy(request->token, page->request.token, sizeof(request->token));
        }
        page->wanted = false;
        page->state = FREE;
    }
    (void)pthread_mutex_unlock(&prefetch->lock);
    return good;
}
