#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "g4/object/check.h"
#include "g4/s3/exchange.h"
#include "g4/s3/s3_internal.h"
#include "g4/s3/s3_xml.h"
#include "g4/s3/sigv4.h"

enum {
    ALIGNMENT = 4096,
    RESTARTS_MAX = 3, /* of a GET whose object changes under it */
    ABORT_MS = 5000,
    ANSWER_MAX = 64 * 1024,
    QUERY_MAX = 4096,
    UPLOAD_ID_MAX = 1024,
    ROW_MAX = 256, /* of a part in the body of the last step */
};

enum phase { FIRST, WHOLE, REST, NOTE, CREATE, SEND, MAKE, ABORT };

/* One transfer of a job. */
struct leg {
    struct job *job;
    struct g4_request request;
    struct g4_exchange_step step;
    char query[QUERY_MAX];
    uint64_t number; /* of the part, from 0 */
    bool busy;
    bool aborts; /* the last one of a job, which nobody else knows any more */
};

/* What is known of a part that was sent. */
struct sent {
    char etag[G4_ETAG_MAX];
    uint32_t crc32c;
};

struct job {
    struct g4_s3_parts parts;
    struct g4_request *parent; /* NULL once it was answered */
    char key[KVT_KEY_MAX];
    uint64_t deadline_ms;
    pthread_mutex_t lock; /* guards what follows */
    enum phase phase;
    uint64_t part_size;
    uint64_t count; /* parts in all */
    uint64_t next;  /* the first that was not begun */
    unsigned in_flight;
    unsigned restarts;
    bool own_buffer;
    enum kvt_err status; /* of the first leg that failed */
    int http;
    struct kvt_error error;
    char etag[G4_ETAG_MAX]; /* of the version that is read */
    char upload_id[UPLOAD_ID_MAX];
    struct sent *sent;
    struct kvt_buffer answer; /* of CREATE and MAKE */
    struct kvt_buffer body;   /* of MAKE */
    struct g4_upload_note_call note;
    bool noted; /* `note` is on the disk */
    bool lost;  /* the bucket may have an upload of it that nobody can name */
    struct leg legs[G4_S3_PARTS_AT_ONCE];
};

static void on_leg(struct g4_request *request, void *arg);

bool
g4_s3_parts_wanted(const struct g4_s3_parts *parts, const struct g4_request *request)
{
    if (parts->part_size == 0)
        return false;
    if (request->verb == G4_PUT)
        return request->body_size > parts->part_size &&
               (!request->meta.present || request->meta.length == request->body_size);
    return request->verb == G4_GET && request->range_size == 0 &&
           request->buffer_capacity > parts->part_size;
}

static void
job_free(struct job *job)
{
    if (job == NULL)
        return;
    kvt_buffer_release(&job->answer);
    kvt_buffer_release(&job->body);
    (void)pthread_mutex_destroy(&job->lock);
    kvt_free(job->sent);
    kvt_free(job);
}

/* Remember the first failure. */
static void
fail(struct job *job, enum kvt_err status, const struct kvt_error *error, int http)
{
    if (job->status != KVT_OK)
        return;
    job->status = status;
    job->http = http;
    if (error != NULL)
        job->error = *error;
}

/* ---- legs ---- */

static struct leg *
free_leg(struct job *job)
{
    for (unsigned i = 0; i < G4_S3_PARTS_AT_ONCE; i++)
        if (!job->legs[i].busy)
            return &job->legs[i];
    return NULL;
}

static struct leg *
new_leg(struct job *job, enum g4_verb verb)
{
    struct leg *leg = free_leg(job);

    assert(leg != NULL);
    memset(leg, 0, sizeof(*leg));
    leg->job = job;
    leg->request = (struct g4_request){
        .verb = verb, .key = job->key, .deadline_ms = job->deadline_ms, .done = on_leg, .arg = leg};
    return leg;
}

/* Submit it; a queue that is full is no failure while others are under way. */
static bool
send_leg(struct job *job, struct leg *leg)
{
    enum kvt_err rc;

    leg->busy = true;
    job->in_flight++;
    rc = job->parts.submit(job->parts.arg, &leg->request);
    if (rc == KVT_OK)
        return true;
    leg->busy = false;
    job->in_flight--;
    if (rc == KVT_AGAIN && job->in_flight > 0)
        return false;
    (void)kvt_error_set(&leg->request.error, rc, "%s: %s", job->key, kvt_err_text(rc));
    fail(job, rc, &leg->request.error, 0);
    return false;
}

/* A step of an upload: its method and its query. */
static void
set_step(struct job *job, struct leg *leg, const char *method, const char *query)
{
    struct kvt_buffer text;

    kvt_buffer_init(&text, QUERY_MAX - 1);
    kvt_buffer_printf(&text, "%s", query);
    if (job->upload_id[0] != '\0') {
        kvt_buffer_printf(&text, "uploadId=");
        g4_sigv4_encode(&text, job->upload_id, false);
    }
    (void)snprintf(leg->query, sizeof(leg->query), "%s", kvt_buffer_text(&text));
    kvt_buffer_release(&text);
    leg->step.method = method;
    leg->step.query = leg->query;
    leg->request.store_private = &leg->step;
}

/* ---- GET ---- */

static void
begin_get(struct job *job)
{
    struct g4_request *parent = job->parent;
    struct leg *leg = new_leg(job, G4_GET);

    job->phase = FIRST;
    job->next = 1;
    leg->request.range_size = (size_t)job->part_size;
    leg->request.buffer_capacity = (size_t)job->part_size;
    leg->request.buffer = parent->buffer;
    leg->request.attributes = parent->attributes;
    leg->request.condition = parent->condition;
    memcpy(leg->request.etag, job->etag, sizeof(job->etag));
    (void)send_leg(job, leg);
}

/* An object without bytes has no first part; a server without ranges has only the whole. */
static void
begin_whole(struct job *job)
{
    struct leg *leg = new_leg(job, G4_GET);
    struct g4_request *parent = job->parent;

    job->phase = WHOLE;
    leg->request.buffer = parent->buffer;
    leg->request.buffer_capacity = parent->buffer_capacity;
    leg->request.attributes = parent->attributes;
    leg->request.condition = parent->condition;
    memcpy(leg->request.etag, job->etag, sizeof(job->etag));
    (void)send_leg(job, leg);
}

static void
send_get(struct job *job)
{
    struct g4_request *parent = job->parent;

    while (job->status == KVT_OK && job->next < job->count && free_leg(job) != NULL) {
        struct leg *leg = new_leg(job, G4_GET);
        struct g4_request *request = &leg->request;
        const uint64_t left = parent->object_size - job->next * job->part_size;

        leg->number = job->next;
        request->range_at = job->next * job->part_size;
        request->range_size = (size_t)(left < job->part_size ? left : job->part_size);
        request->buffer = (uint8_t *)parent->buffer + request->range_at;
        request->buffer_capacity = request->range_size;
        request->condition = G4_IF_MATCH;
        memcpy(request->etag, job->etag, sizeof(request->etag));
        if (!send_leg(job, leg))
            return;
        job->next++;
    }
}

/* What the first part, or the whole, says of the object. */
static void
take_head(struct g4_request *to, const struct g4_request *from)
{
    to->http = from->http;
    to->meta = from->meta;
    to->modified_ms = from->modified_ms;
    to->server_ms = from->server_ms;
    to->object_size = from->object_size;
    to->buffer_size = from->buffer_size;
    memcpy(to->etag, from->etag, sizeof(to->etag));
}

/* Room for all parts; the first one is in it. */
static enum kvt_err
make_room(struct job *job, struct g4_request *first)
{
    struct g4_request *parent = job->parent;

    if (parent->object_size > parent->buffer_capacity)
        return kvt_error_set(&job->error, KVT_RANGE, "%s: larger than %zu bytes", job->key,
                             parent->buffer_capacity);
    if (!job->own_buffer)
        return KVT_OK;
    parent->buffer = kvt_aligned(ALIGNMENT, (size_t)parent->object_size);
    if (parent->buffer == NULL)
        return kvt_error_set(&job->error, KVT_NOMEM, "%s", job->key);
    memcpy(parent->buffer, first->buffer, first->buffer_size);
    return KVT_OK;
}

static void
on_first(struct job *job, struct g4_request *first)
{
    struct g4_request *parent = job->parent;
    void *buffer = first->buffer;
    struct kvt_error cause;

    if (first->status == KVT_RANGE ||
        (first->status == KVT_IO && (first->http == 200 || first->http == 206))) {
        begin_whole(job);
        return;
    }
    take_head(parent, first); /* of a bad object too: it is replaced by its ETag */
    if (first->status != KVT_OK) {
        fail(job, first->status, &first->error, first->http);
        return;
    }
    if (parent->object_size <= first->buffer_size) {
        parent->buffer = first->buffer;
        return;
    }
    if (first->buffer_size != job->part_size || first->etag[0] == '\0') {
        begin_whole(job); /* parts that cannot be told from another version's; ends `first` */
    } else if (make_room(job, first) != KVT_OK) {
        cause = job->error;
        fail(job, cause.code, &cause, first->http);
    } else {
        job->phase = REST;
        memcpy(job->etag, first->etag, sizeof(job->etag));
        job->count = (parent->object_size + job->part_size - 1) / job->part_size;
    }
    if (job->own_buffer)
        kvt_free(buffer);
}

static void
on_part(struct job *job, struct leg *leg)
{
    struct g4_request *request = &leg->request;

    const bool cut = request->status == KVT_IO && request->etag[0] != '\0';

    /* Whatever the server makes of If-Match; a part of another version may be of another size. */
    if ((request->status == KVT_OK || cut) && strcmp(request->etag, job->etag) != 0)
        fail(job, KVT_PRECONDITION, NULL, request->http);
    else if (request->status != KVT_OK)
        fail(job, request->status, &request->error, request->http);
    else if (request->object_size != job->parent->object_size)
        fail(job, KVT_PRECONDITION, NULL, request->http);
    else if (request->buffer_size != request->range_size)
        fail(job, KVT_IO, NULL, request->http);
}

static void
drop_buffer(struct job *job)
{
    if (job->own_buffer && job->parent->buffer != NULL) {
        kvt_free(job->parent->buffer);
        job->parent->buffer = NULL;
    }
    job->parent->buffer_size = 0;
}

/* All legs are back and something is wrong: once more, when it is only that the object changed. */
static bool
read_again(struct job *job)
{
    if (job->phase != REST || job->status != KVT_PRECONDITION ||
        job->parent->condition == G4_IF_MATCH)
        return false;
    if (job->restarts >= RESTARTS_MAX) { /* nobody asked for a version */
        job->status = kvt_error_set(&job->error, KVT_BUSY, "%s: changed %u times while it was read",
                                    job->key, job->restarts + 1);
        return false;
    }
    job->restarts++;
    job->status = KVT_OK;
    memset(job->etag, 0, sizeof(job->etag));
    drop_buffer(job);
    begin_get(job);
    return job->status == KVT_OK;
}

/* ---- PUT ---- */

static void
begin_put(struct job *job)
{
    struct leg *leg = new_leg(job, G4_PUT);

    job->phase = CREATE;
    set_step(job, leg, "POST", "uploads=");
    leg->step.creates = true;
    leg->step.answer = &job->answer;
    leg->request.meta = job->parent->meta;
    leg->request.attributes = job->parent->attributes;
    (void)send_leg(job, leg);
}

static void
send_put(struct job *job)
{
    const struct g4_request *parent = job->parent;

    while (job->status == KVT_OK && job->next < job->count && free_leg(job) != NULL) {
        struct leg *leg = new_leg(job, G4_PUT);
        const uint64_t at = job->next * job->part_size;
        const uint64_t left = parent->body_size - at;
        char query[64];

        leg->number = job->next;
        leg->request.body = (const uint8_t *)parent->body + at;
        leg->request.body_size = (size_t)(left < job->part_size ? left : job->part_size);
        (void)snprintf(query, sizeof(query), "partNumber=%" PRIu64 "&", job->next + 1);
        set_step(job, leg, "PUT", query);
        job->sent[job->next].crc32c = g4_check_crc32c(leg->request.body, leg->request.body_size);
        if (!send_leg(job, leg))
            return;
        job->next++;
    }
}

/* The last step names every part; the object appears with it, or does not. */
static void
begin_make(struct job *job)
{
    struct leg *leg = new_leg(job, G4_PUT);

    job->phase = MAKE;
    kvt_buffer_clear(&job->answer);
    kvt_buffer_printf(&job->body, "<CompleteMultipartUpload>");
    for (uint64_t i = 0; i < job->count; i++) {
        char crc[G4_CHECK_CRC32C_TEXT_MAX];

        g4_check_crc32c_text(job->sent[i].crc32c, crc);
        kvt_buffer_printf(&job->body,
                          "<Part><PartNumber>%" PRIu64 "</PartNumber><ETag>\"%s\"</ETag>"
                          "<ChecksumCRC32C>%s</ChecksumCRC32C></Part>",
                          i + 1, job->sent[i].etag, crc);
    }
    kvt_buffer_printf(&job->body, "</CompleteMultipartUpload>");
    if (!kvt_buffer_ok(&job->body)) {
        fail(job, KVT_NOMEM, NULL, 0);
        return;
    }
    set_step(job, leg, "POST", "");
    leg->step.bare = true;
    leg->step.answer = &job->answer;
    leg->request.body = job->body.data;
    leg->request.body_size = job->body.size;
    leg->request.condition = job->parent->condition;
    memcpy(leg->request.etag, job->etag, sizeof(leg->request.etag));
    (void)send_leg(job, leg);
}

/* An attempt whose answer nobody has may have begun one, too. */
static void
on_created(struct job *job, const struct leg *leg)
{
    const struct g4_request *request = &leg->request;
    const bool refused = request->http >= 400 && request->http < 500;
    struct kvt_error cause;

    job->lost = leg->step.attempts > 1 || (request->status != KVT_OK && !refused);
    if (request->status != KVT_OK) {
        fail(job, request->status, &request->error, request->http);
    } else if (!g4_s3_xml_element((const char *)job->answer.data, job->answer.size, "<UploadId>",
                                  job->upload_id, sizeof(job->upload_id)) ||
               job->upload_id[0] == '\0') {
        job->upload_id[0] = '\0';
        job->lost = true;
        (void)kvt_error_set(&cause, KVT_IO, "%s: an upload began without a name", job->key);
        fail(job, KVT_IO, &cause, request->http);
    } else {
        job->phase = SEND;
    }
}

static void
on_sent(struct job *job, struct leg *leg)
{
    struct g4_request *request = &leg->request;
    struct kvt_error cause;

    if (request->status == KVT_OK && request->etag[0] == '\0') {
        (void)kvt_error_set(&cause, KVT_IO, "%s: a part was taken without an ETag", job->key);
        fail(job, KVT_IO, &cause, request->http);
    } else if (request->status != KVT_OK) {
        /* A part that has nowhere to go says nothing about the object. */
        fail(job, request->status == KVT_NOTFOUND ? KVT_IO : request->status, &request->error,
             request->http);
    } else {
        memcpy(job->sent[leg->number].etag, request->etag, sizeof(request->etag));
    }
}

/* "abc-2" out of "&quot;abc-2&quot;", "&#34;abc-2&#34;" or "\"abc-2\"". */
static void
take_etag(const struct job *job, char etag[G4_ETAG_MAX])
{
    char text[2 * G4_ETAG_MAX];
    const char *at = text;

    etag[0] = '\0';
    if (!g4_s3_xml_element((const char *)job->answer.data, job->answer.size, "<ETag>", text,
                           sizeof(text)))
        return;
    if (strncmp(at, "&quot;", 6) == 0)
        at += 6;
    else if (strncmp(at, "&#34;", 5) == 0)
        at += 5;
    else if (*at == '"')
        at++;
    g4_s3_xml_etag(at, strcspn(at, "&\""), etag);
}

/* "200" may be sent before the work is done: then only the body says how it ended. */
static void
fail_in_body(struct job *job, const struct g4_request *request)
{
    char code[G4_S3_XML_CODE_MAX];
    char message[G4_S3_XML_MESSAGE_MAX];
    enum kvt_err rc = KVT_IO;
    struct kvt_error cause;

    g4_s3_xml_trouble((const char *)job->answer.data, job->answer.size, code, message);
    if (strcmp(code, "PreconditionFailed") == 0)
        rc = request->condition == G4_IF_ABSENT ? KVT_EXISTS : KVT_PRECONDITION;
    (void)kvt_error_set(&cause, rc, "%.80s: the upload did not become an object: %s: %s", job->key,
                        code, message);
    fail(job, rc, &cause, request->http);
}

static void
on_made(struct job *job, struct g4_request *request)
{
    struct g4_request *parent = job->parent;
    const struct kvt_error *error = &request->error;

    if (request->status == KVT_OK) {
        take_etag(job, parent->etag);
        parent->http = request->http;
        parent->server_ms = request->server_ms;
        if (parent->etag[0] == '\0')
            fail_in_body(job, request);
        else
            job->upload_id[0] = '\0'; /* nothing is left to abort */
    } else if (request->status == KVT_NOTFOUND) {
        /* An answer was lost: the first time made the object, or somebody aborted us.  Whoever set
         * a condition reads back whose object is there. */
        fail(job,
             parent->condition == G4_IF_ABSENT  ? KVT_EXISTS
             : parent->condition == G4_IF_MATCH ? KVT_PRECONDITION
                                                : KVT_IO,
             error, request->http);
    } else {
        fail(job, request->status, error, request->http);
    }
}

/* ---- jobs ---- */

/* Hand the result to whoever waits for it. */
static void
answer_parent(struct job *job)
{
    struct g4_request *parent = job->parent;

    job->parent = NULL;
    if (parent == NULL)
        return;
    parent->status = job->status;
    if (job->status != KVT_OK) {
        parent->http = job->http;
        parent->error = job->error;
        if (parent->error.text[0] == '\0')
            (void)kvt_error_set(&parent->error, job->status, "%s: %s", job->key,
                                kvt_err_text(job->status));
    } else if (parent->verb == G4_GET) {
        parent->buffer_size = (size_t)parent->object_size;
        memcpy(parent->etag, job->etag[0] == '\0' ? parent->etag : job->etag, G4_ETAG_MAX);
    }
    parent->done(parent, parent->arg);
}

/* Nothing is under way: what comes next?  True: the job is over. */
static bool
advance(struct job *job)
{
    if (job->status == KVT_OK && job->phase == REST)
        send_get(job);
    else if (job->status == KVT_OK && job->phase == SEND && job->next < job->count)
        send_put(job);
    else if (job->status == KVT_OK && job->phase == SEND && job->in_flight == 0)
        begin_make(job);
    if (job->in_flight > 0)
        return false;
    return job->status == KVT_OK || !read_again(job);
}

static void
on_note_gone(enum kvt_err status, void *arg)
{
    (void)status; /* one that stays is looked after by who reads them */
    job_free(arg);
}

/* The note goes when the bucket has nothing of the upload any more. */
static void
forget(struct job *job)
{
    if (job->noted && !job->lost && job->upload_id[0] == '\0')
        g4_upload_notes_end(&job->note, on_note_gone, job);
    else
        job_free(job);
}

/* The parent is answered first: an abort may take longer than it can wait. */
static void
end(struct job *job)
{
    struct leg *leg;

    if (job->parent != NULL && job->parent->verb == G4_GET && job->status != KVT_OK)
        drop_buffer(job);
    answer_parent(job);
    if (job->upload_id[0] == '\0' || job->phase == ABORT) {
        forget(job);
        return;
    }
    job->phase = ABORT;
    job->deadline_ms = kvt_clock_mono_ms() + ABORT_MS;
    leg = new_leg(job, G4_DELETE);
    set_step(job, leg, "DELETE", "");
    leg->aborts = true;
    if (job->parts.submit(job->parts.arg, &leg->request) != KVT_OK)
        forget(job); /* it is listed among the left-overs */
}

static void
on_leg(struct g4_request *request, void *arg)
{
    struct leg *leg = arg;
    struct job *job = leg->job;
    bool over;

    if (leg->aborts) {
        if (request->status == KVT_OK || request->status == KVT_NOTFOUND)
            job->upload_id[0] = '\0';
        forget(job);
        return;
    }
    (void)pthread_mutex_lock(&job->lock);
    leg->busy = false;
    job->in_flight--;
    switch (job->phase) {
    case FIRST: on_first(job, request); break;
    case WHOLE:
        take_head(job->parent, request);
        if (request->status == KVT_OK)
            job->parent->buffer = request->buffer;
        else
            fail(job, request->status, &request->error, request->http);
        break;
    case REST: on_part(job, leg); break;
    case NOTE: break;
    case CREATE: on_created(job, leg); break;
    case SEND: on_sent(job, leg); break;
    case MAKE: on_made(job, request); break;
    case ABORT: break;
    }
    over = job->in_flight == 0 || job->status == KVT_OK ? advance(job) : false;
    (void)pthread_mutex_unlock(&job->lock);
    if (over)
        end(job);
}

/* The key is on the disk: the bucket may hear of it. */
static void
on_noted(enum kvt_err status, void *arg)
{
    struct job *job = arg;
    struct kvt_error cause;
    bool over;

    (void)pthread_mutex_lock(&job->lock);
    job->noted = status == KVT_OK;
    if (job->noted) {
        begin_put(job);
    } else {
        (void)kvt_error_set(&cause, status, "%.80s: its upload cannot be written down: %s",
                            job->key, kvt_err_text(status));
        fail(job, status, &cause, 0);
    }
    over = job->in_flight == 0;
    (void)pthread_mutex_unlock(&job->lock);
    if (over)
        end(job);
}

static enum kvt_err
prepare_put(struct job *job)
{
    const uint64_t size = job->parent->body_size;
    const uint64_t least = (size + G4_S3_PARTS_MAX - 1) / G4_S3_PARTS_MAX;

    if (job->part_size < least)
        job->part_size = least;
    job->count = (size + job->part_size - 1) / job->part_size;
    job->sent = kvt_calloc((size_t)job->count, sizeof(*job->sent));
    kvt_buffer_init(&job->body, (size_t)job->count * ROW_MAX + ROW_MAX);
    return job->sent == NULL ? KVT_NOMEM : KVT_OK;
}

enum kvt_err
g4_s3_parts_start(const struct g4_s3_parts *parts, struct g4_request *request)
{
    struct job *job = kvt_calloc(1, sizeof(*job));
    enum kvt_err rc = KVT_OK;
    bool over;

    if (job == NULL)
        return KVT_NOMEM;
    job->parts = *parts;
    job->parent = request;
    job->part_size = parts->part_size;
    job->own_buffer = request->verb == G4_GET && request->buffer == NULL;
    job->deadline_ms =
        request->deadline_ms != 0 ? request->deadline_ms : kvt_clock_mono_ms() + parts->timeout_ms;
    (void)snprintf(job->key, sizeof(job->key), "%s", request->key);
    memcpy(job->etag, request->etag, sizeof(job->etag));
    (void)pthread_mutex_init(&job->lock, NULL);
    kvt_buffer_init(&job->answer, ANSWER_MAX);
    if (request->verb == G4_PUT)
        rc = prepare_put(job);
    if (rc != KVT_OK) {
        job_free(job);
        return rc;
    }
    if (request->verb == G4_PUT && parts->notes != NULL) {
        job->phase = NOTE;
        rc = g4_upload_notes_begin(parts->notes, &job->note, job->key, on_noted, job);
        if (rc != KVT_OK)
            job_free(job);
        return rc;
    }
    (void)pthread_mutex_lock(&job->lock);
    if (request->verb == G4_PUT)
        begin_put(job);
    else
        begin_get(job);
    over = job->in_flight == 0;
    rc = job->status;
    (void)pthread_mutex_unlock(&job->lock);
    if (over)
        job_free(job); /* nothing was begun */
    return over ? rc : KVT_OK;
}
