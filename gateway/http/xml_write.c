#include "gateway/http/xml_write.h"

#include "base/core/clock.h"

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

/* Length of the UTF-8 sequence at `at`, 0 when it is none that XML may hold. */
static size_t
utf8_length(const unsigned char *at)
{
    size_t size;
    unsigned code;

    if (at[0] < 0x80)
        return at[0] >= 0x20 || at[0] == '\t' || at[0] == '\n' || at[0] == '\r' ? 1 : 0;
    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    size = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    code = at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    if ((size == 3 && code < 0x800) || (size == 4 && (code < 0x10000 || code > 0x10ffff)) ||
        (code >= 0xd800 && code <= 0xdfff) || code == 0xfffe || code == 0xffff)
        return 0;
    return size;
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

void
gateway_xml_write_text(struct kvt_buffer *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    for (;;) {
        const size_t plain = plain_length(at);
        size_t size;

        kvt_buffer_append(out, at, plain);
        at += plain;
        if (*at == '\0')
            return;
        size = utf8_length(at);

        switch (size == 1 ? *at : 0) {
        case '&': kvt_buffer_append(out, "&amp;", 5); break;
        case '<': kvt_buffer_append(out, "&lt;", 4); break;
        case '>': kvt_buffer_append(out, "&gt;", 4); break;
        case '"': kvt_buffer_append(out, "&quot;", 6); break;
        case '\'': kvt_buffer_append(out, "&apos;", 6); break;
        case '\r': kvt_buffer_append(out, "&#13;", 5); break;
        default:
            if (size == 0)
                kvt_buffer_append(out, "?", 1);
            else
                kvt_buffer_append(out, at, size);
            break;
        }
        at += size == 0 ? 1 : size;
    }
}
