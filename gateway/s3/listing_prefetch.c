#include "gateway/s3/listing_prefetch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

enum state { FREE, FLYING, READY };

struct page {
    struct gateway_listing_prefetch *ahead;
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
    struct gateway_listing_prefetch *ahead = kvt_calloc(1, sizeof(*ahead));

    *out = NULL;
    if (ahead == NULL || pthread_mutex_init(&ahead->lock, NULL) != 0) {
        kvt_free(ahead);
        return KVT_NOMEM;
    }
    if (pthread_cond_init(&ahead->landed, NULL) != 0) {
        (void)pthread_mutex_destroy(&ahead->lock);
        kvt_free(ahead);
        return KVT_NOMEM;
    }
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++)
        ahead->pages[i].ahead = ahead;
    *out = ahead;
    return KVT_OK;
}

void
gateway_listing_prefetch_free(struct gateway_listing_prefetch *ahead)
{
    if (ahead == NULL)
        return;
    (void)pthread_mutex_lock(&ahead->lock);
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++)
        while (ahead->pages[i].state == FLYING)
            (void)pthread_cond_wait(&ahead->landed, &ahead->lock);
    (void)pthread_mutex_unlock(&ahead->lock);
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++)
        kvt_free(ahead->pages[i].request.listed);
    (void)pthread_cond_destroy(&ahead->landed);
    (void)pthread_mutex_destroy(&ahead->lock);
    kvt_free(ahead);
}

static void
on_done(struct g4_request *request, void *arg)
{
    struct page *page = arg;

    (void)request;
    (void)pthread_mutex_lock(&page->ahead->lock);
    page->state = READY;
    /* Inside the lock: whoever frees it may be waiting. */
    (void)pthread_cond_broadcast(&page->ahead->landed);
    (void)pthread_mutex_unlock(&page->ahead->lock);
}

static bool
is_stale(const struct page *page)
{
    return kvt_clock_mono_ms() - page->asked_ms > GATEWAY_LISTING_PREFETCH_MS ||
           page->changes != page->ahead->changes;
}

/* A page that nobody needs, with its memory; NULL: none. */
static struct page *
find_room(struct gateway_listing_prefetch *ahead)
{
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++) {
        struct page *page = &ahead->pages[i];

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
    page->changes = page->ahead->changes;
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
gateway_listing_prefetch_fetch(struct gateway_listing_prefetch *ahead, struct g4_store *store,
                               const char *prefix, const char *token)
{
    struct page *page;

    (void)pthread_mutex_lock(&ahead->lock);
    page = find_room(ahead);
    if (page != NULL)
        begin(page, prefix, token);
    (void)pthread_mutex_unlock(&ahead->lock);
    if (page == NULL || g4_store_submit(store, &page->request) == KVT_OK)
        return;
    (void)pthread_mutex_lock(&ahead->lock);
    page->state = FREE;
    (void)pthread_cond_broadcast(&ahead->landed);
    (void)pthread_mutex_unlock(&ahead->lock);
}

void
gateway_listing_prefetch_change(struct gateway_listing_prefetch *ahead)
{
    (void)pthread_mutex_lock(&ahead->lock);
    ahead->changes++;
    (void)pthread_mutex_unlock(&ahead->lock);
}

static struct page *
find(struct gateway_listing_prefetch *ahead, const struct g4_request *request)
{
    for (int i = 0; i < GATEWAY_LISTING_PREFETCH_MAX; i++) {
        struct page *page = &ahead->pages[i];

        if (page->state != FREE && !page->wanted && strcmp(page->prefix, request->key) == 0 &&
            strcmp(page->token, request->token) == 0)
            return page;
    }
    return NULL;
}

bool
gateway_listing_prefetch_take(struct gateway_listing_prefetch *ahead, struct g4_request *request)
{
    struct page *page;
    bool good = false;

    (void)pthread_mutex_lock(&ahead->lock);
    page = find(ahead, request);
    if (page != NULL) {
        page->wanted = true;
        while (page->state == FLYING)
            (void)pthread_cond_wait(&ahead->landed, &ahead->lock);
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
    (void)pthread_mutex_unlock(&ahead->lock);
    return good;
}
