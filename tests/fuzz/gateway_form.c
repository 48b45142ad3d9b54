/*
 * Property: any bytes as the XML of a request are refused or read; texts are within their limit, no
 * row ends that has no element, nothing is told after a refusal; and read again they say the same.
 * The first byte chooses the form, the second when a function refuses.
 */
#include <assert.h>
#include <string.h>

#include "base/core/buffer.h"
#include "gateway/http/xml_read.h"

#include "tests/fuzz/target.h"

enum { HEARD_MAX = 1 << 20 };

/* What was told, one behind the other. */
struct heard {
    struct kvt_buffer text;
    unsigned calls;
    unsigned refused_at; /* 0: never */
    bool refused;
};

static bool
answer(struct heard *heard)
{
    assert(!heard->refused);
    heard->refused = ++heard->calls == heard->refused_at;
    return !heard->refused;
}

static bool
on_text(void *arg, bool in_row, const char *name, const char *text)
{
    struct heard *heard = arg;

    assert(name[0] != '\0' && strlen(text) < GATEWAY_XML_READ_TEXT_MAX);
    kvt_buffer_printf(&heard->text, "%c%s=%s\n", in_row ? 'r' : 'o', name, text);
    return answer(heard);
}

static bool
on_row(void *arg)
{
    struct heard *heard = arg;

    kvt_buffer_printf(&heard->text, "row\n");
    return answer(heard);
}

static bool
hear(struct heard *heard, struct gateway_xml_read form, const uint8_t *bytes, size_t size)
{
    bool fits;

    kvt_buffer_init(&heard->text, HEARD_MAX);
    form.on_text = on_text;
    form.on_row = on_row;
    form.arg = heard;
    fits = gateway_xml_read_parse(&form, bytes, size);
    assert(!fits || !heard->refused);
    return fits;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct gateway_xml_read forms[] = {
        {.root = "Delete", .row = "Object"},
        {.root = "CompleteMultipartUpload", .row = "Part"},
        {.root = "CreateBucketConfiguration", .row = ""},
    };
    struct heard first = {.calls = 0};
    struct heard again = {.calls = 0};
    const struct gateway_xml_read *form;
    bool fits;

    if (size < 2)
        return 0;
    form = &forms[bytes[0] % (sizeof(forms) / sizeof(forms[0]))];
    first.refused_at = again.refused_at = bytes[1];
    fits = hear(&first, *form, bytes + 2, size - 2);
    assert(hear(&again, *form, bytes + 2, size - 2) == fits);
    assert(first.calls == again.calls && first.text.size == again.text.size);
    assert(first.text.size == 0 || memcmp(first.text.data, again.text.data, first.text.size) == 0);
    kvt_buffer_release(&first.text);
    kvt_buffer_release(&again.text);
    return 0;
}
