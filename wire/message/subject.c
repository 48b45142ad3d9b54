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

/* A subject with one name at its end.  A token may not be empty. */
static enum kvt_err
named(char *out, size_t size, const char *prefix, const char *name)
{
    struct subject subject;

    begin(&subject, out, size);
    if (name[0] == '\0')
        return KVT_INVALID;
    put_text(&subject, prefix);
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

static enum kvt_err
bare(char *out, size_t size, const char *prefix, const char *name)
{
    struct subject subject;

    begin(&subject, out, size);
    if (!is_bare(name))
        return KVT_INVALID;
    put_text(&subject, prefix);
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

enum kvt_err
wire_subject_orders(char *out, size_t size, const char *gateway)
{
    return named(out, size, "kvtier.v1.orders.", gateway);
}

enum kvt_err
wire_subject_reports(char *out, size_t size, const char *gateway)
{
    return named(out, size, "kvtier.v1.reports.", gateway);
}

enum kvt_err
wire_subject_dump(char *out, size_t size, const char *worker)
{
    return named(out, size, "kvtier.v1.query.dump.", worker);
}

enum kvt_err
wire_subject_range(char *out, size_t size, const char *worker)
{
    return named(out, size, "kvtier.v1.query.range.", worker);
}

enum kvt_err
wire_subject_bare_dump(char *out, size_t size, const char *worker)
{
    return bare(out, size, "kvtier.v1.query.dump.", worker);
}

enum kvt_err
wire_subject_bare_range(char *out, size_t size, const char *worker)
{
    return bare(out, size, "kvtier.v1.query.range.", worker);
}

enum kvt_err
wire_subject_route_sync(char *out, size_t size, const char *group)
{
    return named(out, size, "kvtier.v1.route.sync.", group);
}
