/* Which other instances there are, and where they find this one. */
#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"

#include "engine/leader/session_internal.h"

/* Something that is done on the leader's thread while its caller waits. */
struct errand {
    struct engine_message message;
    struct engine_sessions *sessions;
    struct engine_peer *peer; /* to add, or that was taken out */
    uint64_t instance;
    enum kvt_err rc;
    bool done;
};

static void
end_errand(struct engine_leader *leader, struct errand *errand)
{
    (void)pthread_mutex_lock(&leader->shared.lock);
    errand->done = true;
    (void)pthread_cond_broadcast(&leader->shared.moved);
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

static void
run_errand(struct engine_leader *leader, struct errand *errand,
           void (*run)(struct engine_leader *leader, struct engine_message *message))
{
    errand->message.run = run;
    errand->sessions = leader->sessions;
    engine_leader_post(leader, &errand->message);
    (void)pthread_mutex_lock(&leader->shared.lock);
    while (!errand->done)
        (void)pthread_cond_wait(&leader->shared.moved, &leader->shared.lock);
    (void)pthread_mutex_unlock(&leader->shared.lock);
}

/* ---- on the leader's thread ---- */

static void
add(struct engine_leader *leader, struct engine_message *message)
{
    struct errand *errand = (struct errand *)message;
    struct engine_sessions *sessions = errand->sessions;
    unsigned count = 0;

    for (const struct engine_peer *peer = sessions->peers; peer != NULL; peer = peer->next) {
        count++;
        if (peer->instance == errand->instance)
            errand->rc = KVT_EXISTS;
    }
    if (errand->rc == KVT_OK && count >= ENGINE_PEERS_MAX)
        errand->rc = KVT_FULL;
    if (errand->rc == KVT_OK) {
        errand->peer->next = sessions->peers;
        sessions->peers = errand->peer;
    }
    end_errand(leader, errand);
}

/* The one of this number, or (0) any. */
static void
take_out(struct engine_leader *leader, struct engine_message *message)
{
    struct errand *errand = (struct errand *)message;
    struct engine_peer **link = &errand->sessions->peers;

    while (*link != NULL && errand->instance != 0 && (*link)->instance != errand->instance)
        link = &(*link)->next;
    errand->peer = *link;
    if (errand->peer != NULL) {
        *link = errand->peer->next;
        engine_session_lose(errand->sessions, errand->peer);
    }
    end_errand(leader, errand);
}

static void
clear(struct engine_leader *leader, struct engine_message *message)
{
    struct errand *errand = (struct errand *)message;

    errand->sessions->closing = true;
    engine_responder_clear(errand->sessions);
    end_errand(leader, errand);
}

/* ---- peers ---- */

static void
free_peer(struct engine_leader *leader, struct engine_peer *peer, bool connected)
{
    engine_rpc_client_close(peer->client);
    if (connected)
        engine_worker_disconnect(leader->options.worker, peer->instance);
    kvt_free(peer);
}

/* What it says of itself: [version, instance] and its worker's metadata. */
static enum kvt_err
meet(struct engine_leader *leader, struct engine_peer *peer, uint64_t wait_ms,
     struct kvt_error *err)
{
    const uint64_t version = ENGINE_SESSION_VERSION;
    struct kvt_buffer question;
    struct kvt_buffer answer;
    struct engine_session_words words;
    enum kvt_err rc;

    kvt_buffer_init(&question, 64);
    kvt_buffer_init(&answer, ENGINE_METADATA_MAX + 64);
    engine_session_words_put(&question, &version, 1);
    rc = engine_rpc_run(peer->client,
                        &(struct engine_rpc_request){.method = ENGINE_SESSION_DESCRIBE,
                                                     .bytes = question.data,
                                                     .size = question.size,
                                                     .wait_ms = wait_ms},
                        &answer, NULL);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "instance %llu was not heard: %s",
                            (unsigned long long)peer->instance, kvt_err_text(rc));
        goto out;
    }
    engine_session_words_read(&words, answer.data, answer.size);
    if (engine_session_words_next(&words, UINT64_MAX) != ENGINE_SESSION_VERSION)
        rc = kvt_error_set(err, KVT_UNSUPPORTED, "instance %llu speaks another version",
                           (unsigned long long)peer->instance);
    else if (engine_session_words_next(&words, UINT64_MAX) != peer->instance || words.in.bad)
        rc = kvt_error_set(err, KVT_NOTFOUND, "another instance answers in place of %llu",
                           (unsigned long long)peer->instance);
    else
        rc = engine_worker_connect(leader->options.worker, peer->instance, words.in.bytes,
                                   words.in.size, wait_ms, err);
out:
    kvt_buffer_release(&question);
    kvt_buffer_release(&answer);
    return rc;
}

enum kvt_err
engine_leader_add_peer(struct engine_leader *leader, uint64_t instance, const char *endpoint,
                       uint64_t wait_ms, struct kvt_error *err)
{
    struct engine_peer *peer = kvt_calloc(1, sizeof(*peer));
    struct errand errand = {.peer = peer, .instance = instance};
    enum kvt_err rc;

    if (peer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "peer");
    peer->instance = instance;
    rc = engine_rpc_client_open(&peer->client,
                                &(struct engine_rpc_client_options){.endpoint = endpoint}, err);
    if (rc == KVT_OK)
        rc = meet(leader, peer, wait_ms == 0 ? 1 : wait_ms, err);
    if (rc != KVT_OK) {
        free_peer(leader, peer, false);
        return rc;
    }
    run_errand(leader, &errand, add);
    if (errand.rc == KVT_OK)
        return KVT_OK;
    free_peer(leader, peer, errand.rc == KVT_FULL);
    return kvt_error_set(err, errand.rc, "instance %llu: %s", (unsigned long long)instance,
                         kvt_err_text(errand.rc));
}

void
engine_leader_remove_peer(struct engine_leader *leader, uint64_t instance)
{
    struct errand errand = {.instance = instance};

    assert(instance != 0);
    run_errand(leader, &errand, take_out);
    if (errand.peer != NULL)
        free_peer(leader, errand.peer, true);
}

/* ---- open and close ---- */

enum kvt_err
engine_sessions_open(struct engine_leader *leader, struct kvt_error *err)
{
    struct engine_sessions *sessions = kvt_calloc(1, sizeof(*sessions));
    const struct engine_rpc_server_options options = {
        .endpoint = leader->endpoint,
        .methods = engine_responder_methods,
        .method_count = engine_responder_method_count,
        .arg = sessions,
        .gone = engine_responder_link_gone,
        .threads = 1,
    };

    if (sessions == NULL)
        return kvt_error_set(err, KVT_NOMEM, "sessions");
    sessions->leader = leader;
    leader->sessions = sessions;
    leader->origins[ENGINE_PLACE_PEER] = &engine_origin_peer;
    if (leader->endpoint == NULL)
        return KVT_OK;
    return engine_rpc_server_open(&sessions->server, &options, err);
}

/* The leader's thread still runs: calls under way are answered by it. */
void
engine_sessions_close(struct engine_leader *leader)
{
    struct engine_sessions *sessions = leader->sessions;
    struct errand errand;

    if (sessions == NULL)
        return;
    if (sessions->server != NULL)
        engine_rpc_server_stop(sessions->server);
    if (leader->thread_runs) {
        errand = (struct errand){.instance = 0};
        run_errand(leader, &errand, clear);
        do {
            errand = (struct errand){.instance = 0};
            run_errand(leader, &errand, take_out);
            if (errand.peer != NULL)
                free_peer(leader, errand.peer, true);
        } while (errand.peer != NULL);
    }
    engine_rpc_server_close(sessions->server);
}

void
engine_sessions_free(struct engine_leader *leader)
{
    assert(leader->sessions == NULL ||
           (leader->sessions->asking == NULL && leader->sessions->responder == NULL));
    kvt_free(leader->sessions);
}
