#include "engine/rank/rank_client.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/deadline.h"
#include "base/core/random.h"

#include "engine/rank/rank_messages.h"
#include "engine/rpc/rpc.h"

#define GRACE_MS 2000 /* the server's answer to something that has its own deadline */

struct remote_job {
    struct engine_remote *remote;
    struct engine_job *job;
    struct remote_job *next;
    uint64_t number;
};

struct engine_remote {
    struct engine_worker head;
    struct engine_rpc_client *rpc;
    void (*restarted)(void *arg);
    void *arg;
    uint64_t client;

    pthread_mutex_t lock; /* guards what follows; a leaf */
    uint64_t life;        /* of the process that jobs are for; 0: not known yet */
    uint64_t last;        /* number of a job */
    bool sure;            /* it is the one there is a link to */
    bool asking;
    struct remote_job *jobs;
    uint64_t stuck[ENGINE_PEERS_MAX]; /* peers it was not heard to have parted from; 0: none */
};

static struct engine_remote *
remote_of(struct engine_worker *worker)
{
    return (struct engine_remote *)worker;
}

/* Who is there ------------------------------------------------------------------------------ */

/* Another rank has the same layout, but for its number, and other bytes under every name. */
static bool
takes_its_place(const struct engine_worker *before, const struct engine_rank_message_about *about)
{
    return kvbm_layout_compatible(&before->layout, &about->layout, NULL) == KVT_OK &&
           before->layout.geometry.tp_rank == about->layout.geometry.tp_rank &&
           before->ranks == about->ranks && before->objects == about->objects &&
           memcmp(before->blocks, about->blocks, sizeof(about->blocks)) == 0;
}

/* Jobs for the process before end badly until whoever stands on it knows: what was in its memory is
 * gone.  One of another shape is nobody we can use. */
static void
told_about(struct engine_remote *remote, const struct engine_rank_message_about *about)
{
    const bool same_shape = takes_its_place(&remote->head, about);
    bool other;

    (void)pthread_mutex_lock(&remote->lock);
    other = remote->life != about->life;
    remote->sure = !other;
    (void)pthread_mutex_unlock(&remote->lock);
    if (!other)
        return;
    if (remote->restarted != NULL)
        remote->restarted(remote->arg);
    (void)pthread_mutex_lock(&remote->lock);
    remote->life = same_shape ? about->life : UINT64_MAX;
    remote->sure = true;
    memset(remote->stuck, 0, sizeof(remote->stuck)); /* a process that is gone has no peers */
    (void)pthread_mutex_unlock(&remote->lock);
}

static void
about_came(void *arg, const struct engine_rpc_reply *reply)
{
    struct engine_remote *remote = arg;
    struct engine_rank_message_about about;

    (void)pthread_mutex_lock(&remote->lock);
    remote->asking = false;
    (void)pthread_mutex_unlock(&remote->lock);
    if (reply->status == KVT_OK &&
        engine_rank_message_read_about(&about, reply->bytes, reply->size) == KVT_OK)
        told_about(remote, &about);
}

static enum kvt_err
make_request(const struct engine_remote *remote, struct kvt_buffer *out,
             enum engine_rank_message_method method, struct engine_rank_message_head head)
{
    head.client = remote->client;
    kvt_buffer_init(out, ENGINE_RANK_MESSAGE_MAX);
    engine_rank_message_write(out, method, &head);
    return kvt_buffer_ok(out) ? KVT_OK : KVT_NOMEM;
}

/* Unless somebody does already. */
static void
ask_about(struct engine_remote *remote)
{
    struct kvt_buffer bytes;
    enum kvt_err rc;
    bool mine;

    (void)pthread_mutex_lock(&remote->lock);
    mine = remote->life != 0 && !remote->sure && !remote->asking;
    remote->asking = remote->asking || mine;
    (void)pthread_mutex_unlock(&remote->lock);
    if (!mine)
        return;
    rc = make_request(remote, &bytes, ENGINE_RANK_MESSAGE_ABOUT,
                      (struct engine_rank_message_head){0});
    if (rc == KVT_OK)
        rc = engine_rpc_start(remote->rpc,
                              &(struct engine_rpc_request){
                                  .method = ENGINE_RANK_MESSAGE_ABOUT,
                                  .bytes = bytes.data,
                                  .size = bytes.size,
                                  .wait_ms = GRACE_MS,
                                  .done = about_came,
                                  .arg = remote,
                              },
                              NULL);
    kvt_buffer_release(&bytes);
    if (rc != KVT_OK) { /* the next job asks again */
        (void)pthread_mutex_lock(&remote->lock);
        remote->asking = false;
        (void)pthread_mutex_unlock(&remote->lock);
    }
}

static void
link_changed(void *arg, uint64_t link)
{
    struct engine_remote *remote = arg;

    (void)pthread_mutex_lock(&remote->lock);
    remote->sure = false;
    (void)pthread_mutex_unlock(&remote->lock);
    if (link != 0)
        ask_about(remote);
}

/* Jobs -------------------------------------------------------------------------------------- */

static void
forget(struct remote_job *made)
{
    struct engine_remote *remote = made->remote;

    (void)pthread_mutex_lock(&remote->lock);
    for (struct remote_job **at = &remote->jobs; *at != NULL; at = &(*at)->next)
        if (*at == made) {
            *at = made->next;
            break;
        }
    (void)pthread_mutex_unlock(&remote->lock);
    kvt_free(made);
}

/* Nobody who ran it said how it ended. */
static void
fail_all(const struct engine_remote *remote, struct engine_job *job, enum kvt_err status,
         struct engine_outcome *outcome)
{
    engine_job_fail(job, status);
    *outcome = (struct engine_outcome){.status = status, .ranks = remote->head.ranks};
    for (uint32_t i = 0; i < outcome->ranks; i++)
        outcome->by_rank[i] = status;
    (void)kvt_error_set(&outcome->error, status, "rank %" PRIu32 " in another process: %s: %s",
                        remote->head.layout.geometry.tp_rank, engine_verb_name(job->verb),
                        kvt_err_text(status));
}

static void
end_job(struct remote_job *made, enum kvt_err rc, const uint8_t *bytes, size_t size)
{
    struct engine_remote *remote = made->remote;
    struct engine_job *job = made->job;
    struct engine_outcome outcome;

    if (rc == KVT_OK) {
        rc = engine_rank_message_read_outcome(job, &outcome, bytes, size);
        rc = rc == KVT_OK ? rc : KVT_CORRUPT;
    }
    if (rc != KVT_OK)
        fail_all(remote, job, rc, &outcome);
    forget(made);
    engine_job_finish(&remote->head, job, &outcome);
}

static void
job_ended(void *arg, const struct engine_rpc_reply *reply)
{
    end_job(arg, reply->status, reply->bytes, reply->size);
}

/* A job that is to be sent, and how it is written.  NULL: why not, in `*why`; nothing is left. */
static struct remote_job *
make_job(struct engine_remote *remote, struct engine_job *job, struct kvt_buffer *bytes,
         enum kvt_err *why)
{
    struct engine_rank_message_head head = {.client = remote->client};
    struct remote_job *made;

    *why = engine_job_check(&remote->head, job, NULL);
    if (*why != KVT_OK)
        return NULL;
    ask_about(remote);
    *why = KVT_NOMEM;
    made = kvt_calloc(1, sizeof(*made));
    if (made == NULL)
        return NULL;
    made->remote = remote;
    made->job = job;
    (void)pthread_mutex_lock(&remote->lock);
    head.life = remote->life;
    head.number = made->number = ++remote->last;
    made->next = remote->jobs;
    remote->jobs = made;
    (void)pthread_mutex_unlock(&remote->lock);
    engine_rank_message_write_job(bytes, &head, job);
    if (kvt_buffer_ok(bytes)) {
        *why = KVT_OK;
        return made;
    }
    forget(made);
    return NULL;
}

/* The call ends when the job has, or with the process: its deadline is kept over there, where it is
 * known when nothing is written any more. */
static struct engine_rpc_request
request_of(struct remote_job *made, const struct kvt_buffer *bytes)
{
    return (struct engine_rpc_request){
        .method = ENGINE_RANK_MESSAGE_JOB,
        .bytes = bytes->data,
        .size = bytes->size,
        .wait_ms = ENGINE_RPC_WAIT_MAX,
        .done = job_ended,
        .arg = made,
    };
}

static enum kvt_err
start(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_remote *remote = remote_of(worker);
    struct engine_rpc_request request;
    struct remote_job *made;
    struct kvt_buffer bytes;
    enum kvt_err rc;

    kvt_buffer_init(&bytes, ENGINE_RANK_MESSAGE_MAX);
    made = make_job(remote, job, &bytes, &rc);
    if (made != NULL) {
        request = request_of(made, &bytes);
        rc = engine_rpc_start(remote->rpc, &request, NULL);
        if (rc != KVT_OK)
            forget(made);
    }
    kvt_buffer_release(&bytes);
    return rc;
}

/* The thread that waits reads the answer itself: two wake-ups fewer than start, and a wait. */
static enum kvt_err
run(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_remote *remote = remote_of(worker);
    struct engine_rpc_request request;
    struct remote_job *made;
    struct kvt_buffer answer;
    struct kvt_buffer bytes;
    enum kvt_err rc;

    kvt_buffer_init(&answer, ENGINE_RANK_MESSAGE_MAX);
    kvt_buffer_init(&bytes, ENGINE_RANK_MESSAGE_MAX);
    made = make_job(remote, job, &bytes, &rc);
    if (made != NULL) {
        request = request_of(made, &bytes);
        rc = engine_rpc_run(remote->rpc, &request, &answer, NULL);
        end_job(made, rc, answer.data, answer.size);
        rc = KVT_OK;
    }
    kvt_buffer_release(&answer);
    kvt_buffer_release(&bytes);
    return rc;
}

static void
nothing(void *arg, const struct engine_rpc_reply *reply)
{
    (void)arg;
    (void)reply;
}

static void
cancel(struct engine_worker *worker, struct engine_job *job)
{
    struct engine_remote *remote = remote_of(worker);
    struct engine_rank_message_head head = {0};
    const struct remote_job *made;
    struct kvt_buffer bytes;

    (void)pthread_mutex_lock(&remote->lock);
    made = remote->jobs;
    while (made != NULL && made->job != job)
        made = made->next;
    head.number = made == NULL ? 0 : made->number;
    head.life = remote->life;
    (void)pthread_mutex_unlock(&remote->lock);
    if (head.number == 0)
        return;
    /* One that is lost is a job that ends by itself. */
    if (make_request(remote, &bytes, ENGINE_RANK_MESSAGE_CANCEL, head) == KVT_OK) {
        const enum kvt_err rc = engine_rpc_start(remote->rpc,
                                                 &(struct engine_rpc_request){
                                                     .method = ENGINE_RANK_MESSAGE_CANCEL,
                                                     .bytes = bytes.data,
                                                     .size = bytes.size,
                                                     .wait_ms = GRACE_MS,
                                                     .done = nothing,
                                                 },
                                                 NULL);

        (void)rc;
    }
    kvt_buffer_release(&bytes);
}

/* Calls that are waited for ----------------------------------------------------------------- */

static enum kvt_err
call(struct engine_remote *remote, enum engine_rank_message_method method,
     struct engine_rank_message_head head, struct kvt_buffer *answer, uint64_t wait_ms)
{
    struct kvt_buffer bytes;
    enum kvt_err rc;

    (void)pthread_mutex_lock(&remote->lock);
    head.life = remote->life;
    (void)pthread_mutex_unlock(&remote->lock);
    rc = make_request(remote, &bytes, method, head);
    if (rc == KVT_OK)
        rc = engine_rpc_run(remote->rpc,
                            &(struct engine_rpc_request){
                                .method = method,
                                .bytes = bytes.data,
                                .size = bytes.size,
                                .wait_ms = wait_ms == 0 ? 1 : wait_ms,
                            },
                            answer, NULL);
    kvt_buffer_release(&bytes);
    return rc;
}

/* What was answered where it failed says why. */
static enum kvt_err
say(struct kvt_error *err, enum kvt_err rc, struct kvt_buffer *answer)
{
    const bool told = answer->size > 0 && kvt_buffer_ok(answer);

    return kvt_error_set(err, rc, "worker in another process: %s",
                         told ? kvt_buffer_text(answer) : kvt_err_text(rc));
}

static enum kvt_err
ask_bytes(struct engine_worker *worker, enum engine_rank_message_method method,
          struct kvt_buffer *out, uint64_t wait_ms, struct kvt_error *err)
{
    struct engine_remote *remote = remote_of(worker);
    struct kvt_buffer answer;
    enum kvt_err rc;

    kvt_buffer_init(&answer, ENGINE_METADATA_MAX);
    rc = call(remote, method, (struct engine_rank_message_head){0}, &answer, wait_ms);
    if (rc != KVT_OK) {
        (void)say(err, rc, &answer);
    } else {
        kvt_buffer_append(out, answer.data, answer.size);
        if (!kvt_buffer_ok(out))
            rc = kvt_error_set(err, KVT_NOMEM, "description of %zu bytes", answer.size);
    }
    kvt_buffer_release(&answer);
    return rc;
}

static enum kvt_err
describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
         struct kvt_error *err)
{
    return ask_bytes(worker, ENGINE_RANK_MESSAGE_DESCRIBE, out, wait_ms, err);
}

static enum kvt_err
share(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms, struct kvt_error *err)
{
    return ask_bytes(worker, ENGINE_RANK_MESSAGE_SHARE, out, wait_ms, err);
}

static bool
is_unheard(enum kvt_err rc)
{
    return rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT || rc == KVT_AGAIN || rc == KVT_NOMEM;
}

/* Nobody said that it was done: that peer's place over there may still be taken. */
static void
keep_stuck(struct engine_remote *remote, uint64_t peer)
{
    (void)pthread_mutex_lock(&remote->lock);
    for (size_t i = 0; i < ENGINE_PEERS_MAX; i++)
        if (remote->stuck[i] == 0 || remote->stuck[i] == peer) {
            remote->stuck[i] = peer;
            break;
        }
    (void)pthread_mutex_unlock(&remote->lock);
}

/* It is to stay now. */
static void
forget_stuck(struct engine_remote *remote, uint64_t peer)
{
    (void)pthread_mutex_lock(&remote->lock);
    for (size_t i = 0; i < ENGINE_PEERS_MAX; i++)
        if (remote->stuck[i] == peer)
            remote->stuck[i] = 0;
    (void)pthread_mutex_unlock(&remote->lock);
}

/* One of them, which is none any more; 0: there is none. */
static uint64_t
take_stuck(struct engine_remote *remote)
{
    uint64_t peer = 0;

    (void)pthread_mutex_lock(&remote->lock);
    for (size_t i = 0; i < ENGINE_PEERS_MAX && peer == 0; i++) {
        peer = remote->stuck[i];
        remote->stuck[i] = 0;
    }
    (void)pthread_mutex_unlock(&remote->lock);
    return peer;
}

static enum kvt_err
part(struct engine_remote *remote, uint64_t peer, uint64_t wait_ms)
{
    const struct engine_rank_message_head head = {.number = peer};
    const enum kvt_err rc = call(remote, ENGINE_RANK_MESSAGE_DISCONNECT, head, NULL, wait_ms);

    if (is_unheard(rc))
        keep_stuck(remote, peer);
    return rc;
}

/* Before a place is taken those are given back that should have been; until one does not answer. */
static void
part_again(struct engine_remote *remote, uint64_t deadline_ms)
{
    uint64_t peer = take_stuck(remote);

    while (peer != 0 && !is_unheard(part(remote, peer, kvt_deadline_left(deadline_ms))))
        peer = take_stuck(remote);
}

static enum kvt_err
connect(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes, size_t size,
        uint64_t wait_ms, struct kvt_error *err)
{
    const struct engine_rank_message_head head = {
        .number = peer, .description = bytes, .size = size};
    const uint64_t deadline_ms = kvt_deadline_in(wait_ms);
    struct kvt_buffer answer;
    enum kvt_err rc;

    part_again(remote_of(worker), deadline_ms);
    kvt_buffer_init(&answer, ENGINE_RANK_MESSAGE_MAX);
    rc = call(remote_of(worker), ENGINE_RANK_MESSAGE_CONNECT, head, &answer,
              kvt_deadline_left(deadline_ms));
    if (rc != KVT_OK)
        (void)say(err, rc, &answer);
    else
        forget_stuck(remote_of(worker), peer);
    kvt_buffer_release(&answer);
    return rc;
}

static void
disconnect(struct engine_worker *worker, uint64_t peer)
{
    /* What is not heard is said again before the next connect. */
    (void)part(remote_of(worker), peer, 10 * GRACE_MS);
}

/* Opening ----------------------------------------------------------------------------------- */

static void
close_remote(struct engine_worker *worker)
{
    struct engine_remote *remote = remote_of(worker);

    assert(remote->jobs == NULL); /* none goes on */
    engine_rpc_client_close(remote->rpc);
    (void)pthread_mutex_destroy(&remote->lock);
    kvt_free(remote);
}

static const struct engine_worker_ops remote_ops = {
    .kind = "remote",
    .start = start,
    .run = run,
    .cancel = cancel,
    .describe = describe,
    .connect = connect,
    .disconnect = disconnect,
    .share = share,
    .close = close_remote,
};

static enum kvt_err
first_about(struct engine_remote *remote, uint64_t wait_ms, struct kvt_error *err)
{
    struct engine_rank_message_about about = {0};
    const uint64_t deadline = kvt_deadline_in(wait_ms);
    struct kvt_buffer answer;
    enum kvt_err rc = engine_rpc_client_wait(remote->rpc, wait_ms);

    kvt_buffer_init(&answer, ENGINE_RANK_MESSAGE_MAX);
    if (rc == KVT_OK)
        rc = call(remote, ENGINE_RANK_MESSAGE_ABOUT, (struct engine_rank_message_head){0}, &answer,
                  kvt_deadline_left(deadline));
    if (rc == KVT_OK)
        rc = engine_rank_message_read_about(&about, answer.data, answer.size);
    kvt_buffer_release(&answer);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "worker in another process: %s", kvt_err_text(rc));
    remote->head.layout = about.layout;
    remote->head.ranks = about.ranks;
    remote->head.objects = about.objects;
    memcpy(remote->head.blocks, about.blocks, sizeof(about.blocks));
    (void)pthread_mutex_lock(&remote->lock);
    remote->life = about.life;
    (void)pthread_mutex_unlock(&remote->lock);
    ask_about(remote); /* a link that came meanwhile is to somebody else, perhaps */
    return KVT_OK;
}

enum kvt_err
engine_rank_client_open(struct engine_worker **out,
                        const struct engine_rank_client_options *options, struct kvt_error *err)
{
    struct engine_remote *remote = kvt_calloc(1, sizeof(*remote));
    uint64_t random;
    enum kvt_err rc;

    *out = NULL;
    if (remote == NULL)
        return kvt_error_set(err, KVT_NOMEM, "remote worker");
    kvt_random_system(&random, sizeof(random));
    remote->head.ops = &remote_ops;
    remote->client = (kvt_clock_unix_ms() << 20) | (random & 0xfffff);
    remote->restarted = options->restarted;
    remote->arg = options->arg;
    (void)pthread_mutex_init(&remote->lock, NULL);
    rc = engine_rpc_client_open(&remote->rpc,
                                &(struct engine_rpc_client_options){
                                    .endpoint = options->endpoint,
                                    .changed = link_changed,
                                    .arg = remote,
                                },
                                err);
    if (rc == KVT_OK)
        rc = first_about(remote, options->wait_ms, err);
    if (rc != KVT_OK) {
        close_remote(&remote->head);
        return rc;
    }
    *out = &remote->head;
    return KVT_OK;
}
