#include "gateway/http/xml_write.h"

#include <string.h>

#include "base/core/clock.h"
#include "base/text/json_pull.h"

enum { UTF8_MAX = 4 };

void
gateway_xml_write_begin(struct kvt_buffer *out, const char *root)
{
    kvt_buffer_printf(out,
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<%s xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
                      root);
}

void
gateway_xml_write_end(struct kvt_buffer *out, const char *root)
{
    gateway_xml_write_close(out, root);
    kvt_buffer_puts(out, "\n");
}

/* Rows of listings are made of these, a thousand at a time: they go without printf. */
void
gateway_xml_write_open(struct kvt_buffer *out, const char *name)
{
    kvt_buffer_puts(out, "<");
    kvt_buffer_puts(out, name);
    kvt_buffer_puts(out, ">");
}

void
gateway_xml_write_close(struct kvt_buffer *out, const char *name)
{
    kvt_buffer_puts(out, "</");
    kvt_buffer_puts(out, name);
    kvt_buffer_puts(out, ">");
}

void
gateway_xml_write_element(struct kvt_buffer *out, const char *name, const char *text)
{
    gateway_xml_write_open(out, name);
    gateway_xml_write_text(out, text);
    gateway_xml_write_close(out, name);
}

void
gateway_xml_write_time(struct kvt_buffer *out, const char *name, uint64_t unix_ms)
{
    char text[KVT_CLOCK_TEXT_MAX];

    kvt_clock_format(unix_ms - unix_ms % 1000, text);
    gateway_xml_write_open(out, name);
    kvt_buffer_puts(out, text);
    gateway_xml_write_close(out, name);
}

void
gateway_xml_write_owner(struct kvt_buffer *out, const char *name, const char *owner)
{
    gateway_xml_write_open(out, name);
    gateway_xml_write_element(out, "ID", owner);
    gateway_xml_write_element(out, "DisplayName", owner);
    gateway_xml_write_close(out, name);
}

void
gateway_xml_write_checksum(struct kvt_buffer *out, enum gateway_body_checksum checksum,
                           const char *value)
{
    if (value[0] == '\0')
        return;
    kvt_buffer_printf(out, "<Checksum%s>", gateway_body_checksum_word(checksum));
    gateway_xml_write_text(out, value);
    kvt_buffer_printf(out, "</Checksum%s>", gateway_body_checksum_word(checksum));
}

/* How much of it is ASCII that stands for itself: all of most keys. */
static size_t
plain_length(const unsigned char *at)
{
    size_t size = 0;

    while (at[size] >= 0x20 && at[size] < 0x80 && at[size] != '&' && at[size] != '<' &&
           at[size] != '>' && at[size] != '"' && at[size] != '\'')
        size++;
    return size;
}

/* What must not stand for itself: control characters, line ends that a parser would change, and
 * U+FFFE and U+FFFF.  XML 1.0 has no way to hold some of them; S3 gives their numbers all the same.
 * 0: it stands for itself. */
static unsigned
number_of(const unsigned char *at, size_t size)
{
    if (size == 1)
        return at[0] < 0x20 ? at[0] : 0;
    return size == 3 && at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe ? 0xffc0u | (at[2] & 0x3f)
                                                                        : 0;
}

void
gateway_xml_write_text(struct kvt_buffer *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    for (;;) {
        const size_t plain = plain_length(at);
        unsigned number;
        size_t size;

        kvt_buffer_append(out, at, plain);
        at += plain;
        if (*at == '\0')
            return;
        size = kvt_json_utf8((const char *)at, strnlen((const char *)at, UTF8_MAX));
        number = number_of(at, size);
        switch (size == 1 ? *at : 0) {
        case '&': kvt_buffer_append(out, "&amp;", 5); break;
        case '<': kvt_buffer_append(out, "&lt;", 4); break;
        case '>': kvt_buffer_append(out, "&gt;", 4); break;
        case '"': kvt_buffer_append(out, "&quot;", 6); break;
        case '\'': kvt_buffer_append(out, "&apos;", 6); break;
        default:
            if (size == 0)
                kvt_buffer_append(out, "?", 1);
            else if (number != 0)
                kvt_buffer_printf(out, "&#%u;", number);
            else
                kvt_buffer_append(out, at, size);
            break;
        }
        at += size == 0 ? 1 : size;
    }
}
