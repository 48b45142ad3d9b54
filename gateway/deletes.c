#include "gateway/deletes.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/auth.h"
#include "gateway/form.h"
#include "gateway/remove.h"
#include "gateway/xml.h"

/* The keys, one behind the other with their NULs. */
struct deletes {
    struct kvt_buffer keys;
    size_t count;
    bool quiet;
    bool versioned;  /* a version was named: there is none but "null" */
    bool particular; /* of the row that is read: only this one of the key's objects is meant */
    bool particulars[GATEWAY_DELETES_MAX];
    char key[GATEWAY_FORM_TEXT_MAX];
};

static bool
on_text(void *arg, bool in_row, const char *name, const char *text)
{
    struct deletes *deletes = arg;

    if (in_row && strcmp(name, "Key") == 0)
        (void)snprintf(deletes->key, sizeof(deletes->key), "%s", text);
    else if (in_row && strcmp(name, "VersionId") == 0)
        deletes->versioned = deletes->versioned || (text[0] != '\0' && strcmp(text, "null") != 0);
    else if (in_row && (strcmp(name, "ETag") == 0 || strcmp(name, "LastModifiedTime") == 0 ||
                        strcmp(name, "Size") == 0))
        deletes->particular = true;
    else if (!in_row && strcmp(name, "Quiet") == 0)
        deletes->quiet = strcmp(text, "true") == 0 || strcmp(text, "True") == 0;
    return true;
}

static bool
on_row(void *arg)
{
    struct deletes *deletes = arg;
    const size_t size = strlen(deletes->key);

    if (size == 0 || ++deletes->count > GATEWAY_DELETES_MAX)
        return false;
    kvt_buffer_append(&deletes->keys, deletes->key, size + 1);
    deletes->key[0] = '\0';
    deletes->particulars[deletes->count - 1] = deletes->particular;
    deletes->particular = false;
    return kvt_buffer_ok(&deletes->keys);
}

static const char *
remove_one(struct gateway_s3 *s3, const struct gateway_request *request, const char *key,
           bool particular)
{
    char stored[KVT_KEY_MAX];
    enum gateway_fault fault;

    if (!gateway_auth_may(request->principal, GATEWAY_DELETE, &request->bucket, key))
        return gateway_request_code(GATEWAY_FAULT_FORBIDDEN);
    if (particular)
        return gateway_request_code(GATEWAY_FAULT_NOT_IMPLEMENTED);
    /* What cannot be a key here is not there, which is what was asked for. */
    if (gateway_bucket_key(&request->bucket, key, stored) != KVT_OK)
        return NULL;
    gateway_stats_add(s3->vault->stats, GATEWAY_STAT_DELETE, 1);
    fault = gateway_request_fault_of(gateway_remove(s3->vault, stored));
    return fault == GATEWAY_FAULT_NONE || fault == GATEWAY_FAULT_NO_SUCH_KEY
               ? NULL
               : gateway_request_code(fault);
}

static enum gateway_fault
remove_all(struct gateway_s3 *s3, struct gateway_request *request, const struct deletes *deletes)
{
    struct kvt_buffer *out = &request->answer;
    const char *const slow_down = gateway_request_code(GATEWAY_FAULT_SLOW_DOWN);
    const char *key = (const char *)deletes->keys.data;
    unsigned waits = 0; /* keys in a row that whoever packs let wait, in vain */

    gateway_xml_begin(out, "DeleteResult");
    for (size_t i = 0; i < deletes->count; i++, key += strlen(key) + 1) {
        const char *code = slow_down;

        if (waits < GATEWAY_DELETES_WAITS)
            code = remove_one(s3, request, key, deletes->particulars[i]);
        waits = code != NULL && strcmp(code, slow_down) == 0 ? waits + 1 : 0;
        if (code == NULL && deletes->quiet)
            continue;
        kvt_buffer_printf(out, code == NULL ? "<Deleted>" : "<Error>");
        gateway_xml_element(out, "Key", key);
        if (code == NULL)
            kvt_buffer_printf(out, "</Deleted>");
        else
            kvt_buffer_printf(out, "<Code>%s</Code><Message>%s</Message></Error>", code, code);
    }
    gateway_xml_end(out, "DeleteResult");
    /* Without room: what is deleted is deleted, and asked again, it is said in full. */
    return gateway_request_answer(request, "application/xml");
}

void
gateway_deletes_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    struct deletes *deletes = kvt_calloc(1, sizeof(*deletes));
    struct gateway_form form = {
        .root = "Delete", .row = "Object", .on_text = on_text, .on_row = on_row, .arg = deletes};
    enum gateway_fault fault;

    if (deletes == NULL) {
        (void)gateway_request_fail(request, GATEWAY_FAULT_SLOW_DOWN);
        return;
    }
    kvt_buffer_init(&deletes->keys, (size_t)GATEWAY_DELETES_MAX * GATEWAY_FORM_TEXT_MAX);
    if (!gateway_form_parse(&form, gateway_request_bytes(request), request->body.size) ||
        deletes->count == 0)
        fault = GATEWAY_FAULT_XML;
    else if (deletes->versioned)
        fault = GATEWAY_FAULT_NOT_IMPLEMENTED;
    else
        fault = remove_all(s3, request, deletes);
    if (fault != GATEWAY_FAULT_NONE)
        (void)gateway_request_fail(request, fault);
    kvt_buffer_release(&deletes->keys);
    kvt_free(deletes);
}
