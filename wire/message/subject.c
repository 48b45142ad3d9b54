#include "wire/message/subject.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kvtier/error.h"

struct subject {
    char *out;
    size_t size;
    size_t used;
    bool overflow;
};

static void
put(struct subject *subject, const char *text, size_t length)
{
    if (subject->overflow || length >= subject->size - subject->used) {
        subject->overflow = true;
        return;
    }
    memcpy(subject->out + subject->used, text, length);
    subject->used += length;
}

static bool
is_plain(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '/';
}

static void
put_token(struct subject *subject, const char *token)
{
    char code[4];

    for (const char *c = token; *c != '\0'; c++) {
        if (is_plain(*c)) {
            put(subject, c, 1);
        } else {
            (void)snprintf(code, sizeof(code), "%%%02X", (unsigned)(unsigned char)*c);
            put(subject, code, 3);
        }
    }
}

static void
put_text(struct subject *subject, const char *text)
{
    put(subject, text, strlen(text));
}

static void
begin(struct subject *subject, char *out, size_t size)
{
    assert(out != NULL && size > 0);
    *subject = (struct subject){.out = out, .size = size};
    out[0] = '\0';
}

static enum kvt_err
finish(struct subject *subject)
{
    if (subject->overflow) {
        subject->out[0] = '\0';
        return KVT_RANGE;
    }
    subject->out[subject->used] = '\0';
    return KVT_OK;
}

static const char *const prefixes[] = {
    [WIRE_SUBJECT_ORDERS] = "kvtier.v1.orders.",
    [WIRE_SUBJECT_REPORTS] = "kvtier.v1.reports.",
    [WIRE_SUBJECT_DUMP] = "kvtier.v1.query.dump.",
    [WIRE_SUBJECT_RANGE] = "kvtier.v1.query.range.",
    [WIRE_SUBJECT_ROUTE_SYNC] = "kvtier.v1.route.sync.",
};

enum kvt_err
wire_subject_named(enum wire_subject kind, char *out, size_t size, const char *name)
{
    struct subject subject;

    begin(&subject, out, size);
    if (name[0] == '\0')
        return KVT_INVALID;
    put_text(&subject, prefixes[kind]);
    put_token(&subject, name);
    return finish(&subject);
}

/* May the name stand in a subject as it is, and is that another subject?  One with '%' may be what
 * another name is encoded to. */
static bool
is_bare(const char *name)
{
    bool differs = false;
    char before = '.';

    for (const char *c = name; *c != '\0'; before = *c++) {
        if (*c <= ' ' || *c > '~' || *c == '*' || *c == '>' || *c == '%' ||
            (*c == '.' && before == '.'))
            return false;
        differs = differs || !is_plain(*c);
    }
    return differs && before != '.';
}

enum kvt_err
wire_subject_bare(enum wire_subject kind, char *out, size_t size, const char *name)
{
    struct subject subject;

    begin(&subject, out, size);
    if (!is_bare(name))
        return KVT_INVALID;
    put_text(&subject, prefixes[kind]);
    put_text(&subject, name);
    return finish(&subject);
}

enum kvt_err
wire_subject_events(char *out, size_t size, const char *namespace_, uint32_t partition,
                    const char *worker)
{
    struct subject subject;
    char number[16];

    begin(&subject, out, size);
    if (worker[0] == '\0')
        return KVT_INVALID;
    put_text(&subject, "kvtier.v1.events.");
    if (namespace_[0] == '\0')
        put_text(&subject, "_");
    else if (strcmp(namespace_, "_") == 0)
        put_text(&subject, "%5F");
    else
        put_token(&subject, namespace_);
    (void)snprintf(number, sizeof(number), ".%" PRIu32 ".", partition);
    put_text(&subject, number);
    put_token(&subject, worker);
    return finish(&subject);
}
