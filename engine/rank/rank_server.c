#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "engine/rank/rank_client.h"
#include "engine/rank/rank_messages.h"
#include "engine/rpc/rpc.h"

#define SLOW_THREADS 2 /* for what waits: describe, share, connect, disconnect */
#define WAIT_MAX_MS  (ENGINE_RPC_CLOSE_MS / 3)

/* A job somebody else asked for. */
struct served {
    struct engine_rank_server *serve;
    struct engine_rpc_call *call;
    uint64_t client;
    uint64_t link;
    uint64_t number;
    struct engine_job job;
    bool started;
    bool cancelled; /* somebody saw to it */
    bool over;
    unsigned users; /* the job itself until it is over, who starts it, who cancels it */
    struct served *next;
    struct engine_item items[ENGINE_ITEMS_MAX];
};

/* Somebody whom the worker was connected to. */
struct met {
    uint64_t client; /* who asked for it; 0: free */
    uint64_t peer;
};

struct engine_rank_server {
    struct engine_worker *worker;
    struct engine_rpc_server *rpc;
    uint64_t life;
    pthread_mutex_t lock; /* guards what follows; a leaf */
    pthread_cond_t ended;
    uint64_t owner; /* the newest client; 0: none */
    struct served *jobs;
    struct met met[ENGINE_PEERS_MAX];
};

/* KVT_OK; KVT_UNAVAILABLE: meant for a process before this; KVT_DENIED: there is a newer client. */
static enum kvt_err
admit_locked(struct engine_rank_server *serve, const struct engine_rank_message_head *head)
{
    if (head->life != serve->life)
        return KVT_UNAVAILABLE;
    return head->client == serve->owner ? KVT_OK : KVT_DENIED;
}

static enum kvt_err
admit(struct engine_rank_server *serve, const struct engine_rank_message_head *head)
{
    enum kvt_err rc;

    (void)pthread_mutex_lock(&serve->lock);
    rc = admit_locked(serve, head);
    (void)pthread_mutex_unlock(&serve->lock);
    return rc;
}

static enum kvt_err
read_head(struct engine_rpc_call *call, enum engine_rank_message_method method,
          struct engine_rank_message_head *head)
{
    size_t size;
    const uint8_t *bytes = engine_rpc_call_bytes(call, &size);

    return engine_rank_message_read(head, method, bytes, size);
}

/* Jobs -------------------------------------------------------------------------------------- */

/* Whether by its client, or because its client is gone. */
typedef bool wanted_fn(const struct served *job, uint64_t client, uint64_t link, uint64_t number);

static bool
is_number(const struct served *job, uint64_t client, uint64_t link, uint64_t number)
{
    (void)link;
    return job->client == client && job->number == number;
}

static bool
is_link(const struct served *job, uint64_t client, uint64_t link, uint64_t number)
{
    (void)client;
    (void)number;
    return job->link == link;
}

/* Of a client that is not the newest, or of a link that it has no more. */
static bool
is_old(const struct served *job, uint64_t client, uint64_t link, uint64_t number)
{
    (void)number;
    return job->client != client || job->link != link;
}

static bool
is_any(const struct served *job, uint64_t client, uint64_t link, uint64_t number)
{
    (void)job;
    (void)client;
    (void)link;
    (void)number;
    return true;
}

static void
unlink_locked(struct engine_rank_server *serve, const struct served *job)
{
    for (struct served **at = &serve->jobs; *at != NULL; at = &(*at)->next)
        if (*at == job) {
            *at = job->next;
            return;
        }
}

/* One user fewer; the last of a job that is over frees it. */
static void
drop_locked(struct served *job)
{
    struct engine_rank_server *serve = job->serve;

    if (--job->users > 0 || !job->over)
        return;
    unlink_locked(serve, job);
    kvt_free(job);
    (void)pthread_cond_broadcast(&serve->ended);
}

/* One that is not even started is cancelled by who starts it. */
static void
cancel_all(struct engine_rank_server *serve, wanted_fn *wanted, uint64_t client, uint64_t link,
           uint64_t number)
{
    struct served *job;

    (void)pthread_mutex_lock(&serve->lock);
    do {
        job = serve->jobs;
        while (job != NULL && (job->cancelled || job->over || !wanted(job, client, link, number)))
            job = job->next;
        if (job != NULL) {
            const bool started = job->started;

            job->cancelled = true;
            job->users++;
            (void)pthread_mutex_unlock(&serve->lock);
            if (started)
                engine_worker_cancel(serve->worker, &job->job);
            (void)pthread_mutex_lock(&serve->lock);
            drop_locked(job);
        }
    } while (job != NULL);
    (void)pthread_mutex_unlock(&serve->lock);
}

/* From here on nobody cancels it. */
static void
let_go(struct served *job)
{
    struct engine_rank_server *serve = job->serve;

    (void)pthread_mutex_lock(&serve->lock);
    job->over = true;
    drop_locked(job);
    (void)pthread_mutex_unlock(&serve->lock);
}

static void
job_ended(void *arg, const struct engine_outcome *outcome)
{
    struct served *job = arg;
    struct engine_rpc_call *call = job->call;
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, ENGINE_RANK_MESSAGE_MAX);
    engine_rank_message_write_outcome(&bytes, &job->job, outcome);
    let_go(job);
    if (kvt_buffer_ok(&bytes))
        engine_rpc_answer(call, KVT_OK, bytes.data, bytes.size);
    else
        engine_rpc_answer(call, KVT_NOMEM, NULL, 0);
    kvt_buffer_release(&bytes);
}

/* What an older link or client has still under way may write where this job is to: not before that
 * has ended. */
static enum kvt_err
enter(struct engine_rank_server *serve, struct served *job,
      const struct engine_rank_message_head *head)
{
    enum kvt_err rc;
    bool old = false;

    (void)pthread_mutex_lock(&serve->lock);
    rc = admit_locked(serve, head);
    for (const struct served *at = serve->jobs; rc == KVT_OK && at != NULL; at = at->next)
        old = old || is_old(at, job->client, job->link, 0);
    if (old)
        rc = KVT_AGAIN;
    if (rc == KVT_OK) {
        job->next = serve->jobs;
        serve->jobs = job;
    }
    (void)pthread_mutex_unlock(&serve->lock);
    if (old)
        cancel_all(serve, is_old, job->client, job->link, 0);
    return rc;
}

/* It may be over already, or somebody may want it to be. */
static void
started(struct served *job)
{
    struct engine_rank_server *serve = job->serve;
    bool cancelled;

    (void)pthread_mutex_lock(&serve->lock);
    job->started = true;
    cancelled = job->cancelled && !job->over;
    (void)pthread_mutex_unlock(&serve->lock);
    if (cancelled)
        engine_worker_cancel(serve->worker, &job->job);
    (void)pthread_mutex_lock(&serve->lock);
    drop_locked(job);
    (void)pthread_mutex_unlock(&serve->lock);
}

static void
take_job(void *arg, struct engine_rpc_call *call)
{
    struct engine_rank_server *serve = arg;
    struct served *job = kvt_calloc(1, sizeof(*job));
    struct engine_rank_message_head head;
    const uint8_t *bytes;
    enum kvt_err rc;
    size_t size;

    if (job == NULL) {
        engine_rpc_answer(call, KVT_NOMEM, NULL, 0);
        return;
    }
    bytes = engine_rpc_call_bytes(call, &size);
    rc = engine_rank_message_read_job(&head, &job->job, job->items, bytes, size);
    if (rc == KVT_OK) {
        job->serve = serve;
        job->call = call;
        job->client = head.client;
        job->link = engine_rpc_call_link(call);
        job->number = head.number;
        job->users = 2;
        job->job.done = job_ended;
        job->job.arg = job;
        rc = enter(serve, job, &head);
    }
    if (rc != KVT_OK) {
        kvt_free(job);
        engine_rpc_answer(call, rc, NULL, 0);
        return;
    }
    rc = engine_worker_start(serve->worker, &job->job);
    if (rc != KVT_OK) {
        let_go(job);
        engine_rpc_answer(call, rc, NULL, 0);
    }
    started(job);
}

static void
take_cancel(void *arg, struct engine_rpc_call *call)
{
    struct engine_rank_server *serve = arg;
    struct engine_rank_message_head head;
    enum kvt_err rc = read_head(call, ENGINE_RANK_MESSAGE_CANCEL, &head);

    if (rc == KVT_OK)
        rc = admit(serve, &head);
    if (rc == KVT_OK)
        cancel_all(serve, is_number, head.client, 0, head.number);
    engine_rpc_answer(call, rc, NULL, 0);
}

static void
link_gone(void *arg, uint64_t link)
{
    cancel_all(arg, is_link, 0, link, 0);
}

/* The rest ---------------------------------------------------------------------------------- */

static void
take_about(void *arg, struct engine_rpc_call *call)
{
    struct engine_rank_server *serve = arg;
    const struct engine_worker *worker = serve->worker;
    struct engine_rank_message_about about = {
        .life = serve->life,
        .layout = worker->layout,
        .ranks = worker->ranks,
        .objects = worker->objects,
    };
    struct engine_rank_message_head head;
    struct kvt_buffer bytes;
    enum kvt_err rc = read_head(call, ENGINE_RANK_MESSAGE_ABOUT, &head);

    if (rc == KVT_OK) {
        (void)pthread_mutex_lock(&serve->lock);
        if (head.client >= serve->owner)
            serve->owner = head.client;
        else
            rc = KVT_DENIED;
        (void)pthread_mutex_unlock(&serve->lock);
    }
    memcpy(about.blocks, worker->blocks, sizeof(about.blocks));
    kvt_buffer_init(&bytes, ENGINE_RANK_MESSAGE_MAX);
    if (rc == KVT_OK)
        engine_rank_message_write_about(&bytes, &about);
    if (!kvt_buffer_ok(&bytes))
        rc = KVT_NOMEM;
    engine_rpc_answer(call, rc, bytes.data, rc == KVT_OK ? bytes.size : 0);
    kvt_buffer_release(&bytes);
}

/* What takes longer would be waited for when this is closed (engine_rpc_server_close()). */
static uint64_t
may_take_ms(const struct engine_rpc_call *call)
{
    const uint64_t wait_ms = engine_rpc_call_wait_ms(call);

    return wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS;
}

static void
answer_error(struct engine_rpc_call *call, enum kvt_err rc, const struct kvt_error *err)
{
    engine_rpc_answer(call, rc, err->text, rc == KVT_OK ? 0 : strlen(err->text));
}

typedef enum kvt_err bytes_fn(struct engine_worker *worker, struct kvt_buffer *out,
                              uint64_t wait_ms, struct kvt_error *err);

static void
answer_bytes(struct engine_rank_server *serve, struct engine_rpc_call *call,
             enum engine_rank_message_method method, bytes_fn *ask)
{
    struct engine_rank_message_head head;
    struct kvt_error err = {.text = ""};
    struct kvt_buffer bytes;
    enum kvt_err rc = read_head(call, method, &head);

    kvt_buffer_init(&bytes, ENGINE_METADATA_MAX);
    if (rc == KVT_OK)
        rc = admit(serve, &head);
    if (rc == KVT_OK)
        rc = ask(serve->worker, &bytes, may_take_ms(call), &err);
    if (rc == KVT_OK)
        engine_rpc_answer(call, rc, bytes.data, bytes.size);
    else
        answer_error(call, rc, &err);
    kvt_buffer_release(&bytes);
}

static void
take_describe(void *arg, struct engine_rpc_call *call)
{
    answer_bytes(arg, call, ENGINE_RANK_MESSAGE_DESCRIBE, engine_worker_describe);
}

static void
take_share(void *arg, struct engine_rpc_call *call)
{
    answer_bytes(arg, call, ENGINE_RANK_MESSAGE_SHARE, engine_worker_share);
}

/* What a leader before this one was connected to it knows nothing of, and cannot part from. */
static void
leave_old_peers(struct engine_rank_server *serve, uint64_t client)
{
    (void)pthread_mutex_lock(&serve->lock);
    for (size_t i = 0; i < ENGINE_PEERS_MAX; i++) {
        const struct met met = serve->met[i];

        if (met.client == 0 || met.client == client)
            continue;
        serve->met[i] = (struct met){0, 0};
        (void)pthread_mutex_unlock(&serve->lock);
        engine_worker_disconnect(serve->worker, met.peer);
        (void)pthread_mutex_lock(&serve->lock);
    }
    (void)pthread_mutex_unlock(&serve->lock);
}

static struct met *
met_locked(struct engine_rank_server *serve, uint64_t client, uint64_t peer)
{
    for (size_t i = 0; i < ENGINE_PEERS_MAX; i++)
        if (serve->met[i].client == client && serve->met[i].peer == peer)
            return &serve->met[i];
    return NULL;
}

/* KVT_OK; KVT_EXISTS: it did before; KVT_FULL. */
static enum kvt_err
meet(struct engine_rank_server *serve, uint64_t client, uint64_t peer)
{
    enum kvt_err rc = KVT_EXISTS;

    (void)pthread_mutex_lock(&serve->lock);
    if (met_locked(serve, client, peer) == NULL) {
        struct met *place = met_locked(serve, 0, 0);

        rc = place == NULL ? KVT_FULL : KVT_OK;
        if (place != NULL)
            *place = (struct met){client, peer};
    }
    (void)pthread_mutex_unlock(&serve->lock);
    return rc;
}

static void
part(struct engine_rank_server *serve, uint64_t client, uint64_t peer)
{
    struct met *met;

    (void)pthread_mutex_lock(&serve->lock);
    met = met_locked(serve, client, peer);
    if (met != NULL)
        *met = (struct met){0, 0};
    (void)pthread_mutex_unlock(&serve->lock);
}

static void
leave_peer(struct engine_rank_server *serve, const struct engine_rank_message_head *head)
{
    engine_worker_disconnect(serve->worker, head->number);
    part(serve, head->client, head->number);
}

static enum kvt_err
connect_peer(struct engine_rank_server *serve, const struct engine_rank_message_head *head,
             const struct engine_rpc_call *call, struct kvt_error *err)
{
    enum kvt_err known;
    enum kvt_err rc;

    leave_old_peers(serve, head->client);
    known = meet(serve, head->client, head->number);
    if (known == KVT_FULL)
        return kvt_error_set(err, known, "%d peers", ENGINE_PEERS_MAX);
    rc = engine_worker_connect(serve->worker, head->number, head->description, head->size,
                               may_take_ms(call), err);
    if (known == KVT_EXISTS)
        return rc;
    if (rc != KVT_OK)
        part(serve, head->client, head->number);
    else if (engine_rpc_call_is_over(call))
        leave_peer(serve, head); /* who asked for it believes that it failed */
    return rc;
}

static void
take_connect(void *arg, struct engine_rpc_call *call)
{
    struct engine_rank_server *serve = arg;
    struct engine_rank_message_head head;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc = read_head(call, ENGINE_RANK_MESSAGE_CONNECT, &head);

    if (rc == KVT_OK)
        rc = admit(serve, &head);
    if (rc == KVT_OK)
        rc = connect_peer(serve, &head, call, &err);
    answer_error(call, rc, &err);
}

static void
take_disconnect(void *arg, struct engine_rpc_call *call)
{
    struct engine_rank_server *serve = arg;
    struct engine_rank_message_head head;
    enum kvt_err rc = read_head(call, ENGINE_RANK_MESSAGE_DISCONNECT, &head);

    if (rc == KVT_OK)
        rc = admit(serve, &head);
    if (rc == KVT_OK)
        leave_peer(serve, &head);
    engine_rpc_answer(call, rc, NULL, 0);
}

enum kvt_err
engine_rank_server_open(struct engine_rank_server **out, struct engine_worker *worker,
                        const char *endpoint, struct kvt_error *err)
{
    static const struct engine_rpc_method methods[] = {
        {ENGINE_RANK_MESSAGE_ABOUT, "about", take_about, false},
        {ENGINE_RANK_MESSAGE_JOB, "job", take_job, false},
        {ENGINE_RANK_MESSAGE_CANCEL, "cancel", take_cancel, false},
        {ENGINE_RANK_MESSAGE_DESCRIBE, "describe", take_describe, true},
        {ENGINE_RANK_MESSAGE_CONNECT, "connect", take_connect, true},
        {ENGINE_RANK_MESSAGE_DISCONNECT, "disconnect", take_disconnect, true},
        {ENGINE_RANK_MESSAGE_SHARE, "share", take_share, true},
    };
    struct engine_rank_server *serve = kvt_calloc(1, sizeof(*serve));
    enum kvt_err rc;

    *out = NULL;
    if (serve == NULL)
        return kvt_error_set(err, KVT_NOMEM, "worker's server");
    serve->worker = worker;
    do
        kvt_random_system(&serve->life, sizeof(serve->life));
    while (serve->life == 0 || serve->life == UINT64_MAX);
    (void)pthread_mutex_init(&serve->lock, NULL);
    (void)pthread_cond_init(&serve->ended, NULL);
    rc = engine_rpc_server_open(&serve->rpc,
                                &(struct engine_rpc_server_options){
                                    .endpoint = endpoint,
                                    .methods = methods,
                                    .method_count = sizeof(methods) / sizeof(methods[0]),
                                    .arg = serve,
                                    .gone = link_gone,
                                    .threads = SLOW_THREADS,
                                },
                                err);
    if (rc != KVT_OK) {
        engine_rank_server_close(serve);
        return rc;
    }
    *out = serve;
    return KVT_OK;
}

void
engine_rank_server_close(struct engine_rank_server *serve)
{
    if (serve == NULL)
        return;
    if (serve->rpc != NULL) {
        engine_rpc_server_stop(serve->rpc);
        (void)pthread_mutex_lock(&serve->lock);
        serve->owner = UINT64_MAX; /* a job that is just coming is denied */
        (void)pthread_mutex_unlock(&serve->lock);
        cancel_all(serve, is_any, 0, 0, 0);
        (void)pthread_mutex_lock(&serve->lock);
        while (serve->jobs != NULL)
            (void)pthread_cond_wait(&serve->ended, &serve->lock);
        (void)pthread_mutex_unlock(&serve->lock);
        engine_rpc_server_close(serve->rpc);
    }
    (void)pthread_cond_destroy(&serve->ended);
    (void)pthread_mutex_destroy(&serve->lock);
    kvt_free(serve);
}
