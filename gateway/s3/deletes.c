#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/block/removal.h"
#include "gateway/http/auth.h"
#include "gateway/http/xml_read.h"
#include "gateway/http/xml_write.h"
#include "gateway/s3/conditional_delete.h"
#include "gateway/s3/s3_handlers.h"

enum { KEYS_MAX = 1000 };

/* The keys, one behind the other with their NULs. */
struct deletes {
    struct kvt_buffer keys;
    size_t count;
    bool quiet;
    bool versioned; /* a version was named: there is none but "null" */
    /* Of each row, the one that is read among them: only this one of the key's objects is meant. */
    struct gateway_conditional_delete conditions[KEYS_MAX + 1];
    char key[GATEWAY_XML_READ_TEXT_MAX];
};

static bool
on_text(void *arg, bool in_row, const char *name, const char *text)
{
    struct deletes *deletes = arg;

    if (in_row && strcmp(name, "Key") == 0)
        (void)snprintf(deletes->key, sizeof(deletes->key), "%s", text);
    else if (in_row && strcmp(name, "VersionId") == 0)
        deletes->versioned = deletes->versioned || (text[0] != '\0' && strcmp(text, "null") != 0);
    else if (in_row && deletes->count <= KEYS_MAX &&
             gateway_conditional_delete_element(name, text, &deletes->conditions[deletes->count]))
        return true;
    else if (!in_row && strcmp(name, "Quiet") == 0)
        deletes->quiet = strcmp(text, "true") == 0 || strcmp(text, "True") == 0;
    return true;
}

static bool
on_row(void *arg)
{
    struct deletes *deletes = arg;
    const size_t size = strlen(deletes->key);

    if (size == 0 || ++deletes->count > KEYS_MAX)
        return false;
    kvt_buffer_append(&deletes->keys, deletes->key, size + 1);
    deletes->key[0] = '\0';
    return kvt_buffer_ok(&deletes->keys);
}

/* Keys that go together, and what becomes of each. */
struct together {
    const char *codes[GATEWAY_REMOVAL_TOGETHER]; /* NULL: deleted */
    struct g4_object_name stored[GATEWAY_REMOVAL_TOGETHER];
    const char *keys[GATEWAY_REMOVAL_TOGETHER]; /* of those that may be removed */
    size_t places[GATEWAY_REMOVAL_TOGETHER];
    enum kvt_err statuses[GATEWAY_REMOVAL_TOGETHER];
    size_t count; /* of them */
};

/* Is there anything to do for it?  Else its code is known. */
static bool
may_go(const struct gateway_request *request, const char *key, struct g4_object_name *stored,
       const char **code)
{
    *code = NULL;
    if (!gateway_auth_may(request->principal, GATEWAY_DELETE, &request->bucket, key))
        *code = gateway_request_code(GATEWAY_S3_ERROR_FORBIDDEN);
    /* What cannot be a key here is not there, which is what was asked for. */
    return *code == NULL && gateway_client_bucket_key(&request->bucket, key, stored) == KVT_OK;
}

static const char *
code_of(enum gateway_s3_error fault)
{
    return fault == GATEWAY_S3_ERROR_NONE ? NULL : gateway_request_code(fault);
}

/* False: one has to be asked for again. */
static bool
remove_together(struct gateway_s3 *s3, const struct gateway_request *request, const char *key,
                const struct gateway_conditional_delete *conditions, size_t count,
                struct together *together)
{
    bool all = true;
    enum gateway_s3_error one;

    together->count = 0;
    for (size_t i = 0; i < count; i++, key += strlen(key) + 1)
        if (!may_go(request, key, &together->stored[i], &together->codes[i])) {
            if (together->codes[i] == NULL && conditions[i].asked)
                together->codes[i] = gateway_request_code(GATEWAY_S3_ERROR_NO_SUCH_KEY);
        } else if (conditions[i].asked) { /* in its turn: the others go together */
            one = gateway_conditional_delete_run(s3, together->stored[i].text, &conditions[i]);
            together->codes[i] = code_of(one);
            all = all && one != GATEWAY_S3_ERROR_SLOW_DOWN;
        } else {
            together->keys[together->count] = together->stored[i].text;
            together->places[together->count++] = i;
        }
    gateway_stats_add(s3->context->stats, GATEWAY_STAT_DELETE, together->count);
    gateway_removal_all(s3->context, together->keys, together->count, together->statuses);
    for (size_t i = 0; i < together->count; i++) {
        const enum gateway_s3_error fault = gateway_request_fault_of(together->statuses[i]);

        if (fault != GATEWAY_S3_ERROR_NONE && fault != GATEWAY_S3_ERROR_NO_SUCH_KEY)
            together->codes[together->places[i]] = gateway_request_code(fault);
        all = all && fault != GATEWAY_S3_ERROR_SLOW_DOWN;
    }
    return all;
}

static void
tell(struct kvt_buffer *out, const struct deletes *deletes, const char *key, const char *code)
{
    if (code == NULL && deletes->quiet)
        return;
    kvt_buffer_printf(out, code == NULL ? "<Deleted>" : "<Error>");
    gateway_xml_write_element(out, "Key", key);
    if (code == NULL)
        kvt_buffer_printf(out, "</Deleted>");
    else
        kvt_buffer_printf(out, "<Code>%s</Code><Message>%s</Message></Error>", code, code);
}

static enum gateway_s3_error
remove_all(struct gateway_s3 *s3, struct gateway_request *request, const struct deletes *deletes)
{
    struct together *together = kvt_calloc(1, sizeof(*together));
    struct kvt_buffer *out = &request->answer;
    const char *key = (const char *)deletes->keys.data;
    bool tries = true;

    if (together == NULL)
        return GATEWAY_S3_ERROR_SLOW_DOWN;
    gateway_xml_write_begin(out, "DeleteResult");
    for (size_t at = 0; at < deletes->count; at += GATEWAY_REMOVAL_TOGETHER) {
        const size_t rest = deletes->count - at;
        const size_t count = rest < GATEWAY_REMOVAL_TOGETHER ? rest : GATEWAY_REMOVAL_TOGETHER;

        for (size_t i = 0; i < count; i++)
            together->codes[i] = gateway_request_code(GATEWAY_S3_ERROR_SLOW_DOWN);
        if (tries)
            tries = remove_together(s3, request, key, deletes->conditions + at, count, together);
        for (size_t i = 0; i < count; i++, key += strlen(key) + 1)
            tell(out, deletes, key, together->codes[i]);
    }
    gateway_xml_write_end(out, "DeleteResult");
    kvt_free(together);
    /* Without room: what is deleted is deleted, and asked again, it is said in full. */
    return gateway_request_answer(request, "application/xml");
}

void
gateway_deletes_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct deletes *deletes = kvt_calloc(1, sizeof(*deletes));
    struct gateway_xml_read form = {
        .root = "Delete", .row = "Object", .on_text = on_text, .on_row = on_row, .arg = deletes};
    enum gateway_s3_error fault;

    if (deletes == NULL) {
        (void)gateway_request_fail(request, GATEWAY_S3_ERROR_SLOW_DOWN);
        return;
    }
    kvt_buffer_init(&deletes->keys, (size_t)KEYS_MAX * GATEWAY_XML_READ_TEXT_MAX);
    if (!gateway_xml_read_parse(&form, gateway_request_bytes(request), request->body.size) ||
        deletes->count == 0)
        fault = GATEWAY_S3_ERROR_XML;
    else if (deletes->versioned)
        fault = GATEWAY_S3_ERROR_NOT_IMPLEMENTED;
    else
        fault = remove_all(s3, request, deletes);
    if (fault != GATEWAY_S3_ERROR_NONE)
        (void)gateway_request_fail(request, fault);
    kvt_buffer_release(&deletes->keys);
    kvt_free(deletes);
}
