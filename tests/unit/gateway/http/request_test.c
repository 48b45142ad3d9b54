/*
 * What is tested: gateway/http/request.h and xml.h: XML that comes out is well-formed whatever
 * goes in, headers are bounded, fields cannot smuggle lines, every KVTier code has an answer.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/http/request.h"
#include "gateway/http/xml_write.h"

#include "tests/support/seed.h"

static struct gateway_request *
new_request(const char *method)
{
    struct gateway_request *request = kvt_calloc(1, sizeof(*request));

    kvt_buffer_init(&request->answer, 1u << 16);
    memcpy(request->method, method, strlen(method) + 1);
    assert_int_equal(gateway_target_parse("/b/k%3C%26%3E", &request->target, NULL), KVT_OK);
    return request;
}

static void
xml_is_escaped(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {
        {"plain", "plain"},
        {"<a&b>\"'", "&lt;a&amp;b&gt;&quot;&apos;"},
        {"tab\tnl\ncr\r", "tab&#9;nl&#10;cr&#13;"},
        {"\x01\x1f\x7f", "&#1;&#31;\x7f"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xff", "?"},
        {"\xc3", "?"},
        {"\xc0\x80", "??"},      /* overlong */
        {"\xed\xa0\x80", "???"}, /* surrogate */
        {"\xef\xbf\xbf\xef\xbf\xbe\xef\xbf\xbd", "&#65535;&#65534;\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "????"}, /* beyond Unicode */
        {"\xe2\x82<", "??&lt;"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kvt_buffer out;

        kvt_buffer_init(&out, 1024);
        gateway_xml_write_text(&out, rows[i].in);
        assert_string_equal(kvt_buffer_text(&out), rows[i].out);
        kvt_buffer_release(&out);
    }
}

static void
errors_carry_code_and_resource(void **state)
{
    struct gateway_request *request = new_request("GET");
    struct gateway_budget budget = {.max = 10};
    const char *text;

    (void)state;
    gateway_request_field(request, "ETag", "old");
    (void)gateway_request_fail(request, GATEWAY_S3_ERROR_NO_SUCH_KEY);
    text = kvt_buffer_text(&request->answer);
    assert_int_equal(request->status, 404);
    assert_int_equal(request->field_count, 0); /* nothing of the answer that was begun */
    assert_non_null(strstr(text, "<Code>NoSuchKey</Code>"));
    assert_non_null(strstr(text, "<Resource>/b/k&lt;&amp;&gt;</Resource>"));
    assert_int_equal(request->body_size, request->answer.size);
    gateway_request_release(request, &budget);

    request = new_request("HEAD");
    (void)gateway_request_fail(request, GATEWAY_S3_ERROR_NO_SUCH_KEY);
    assert_int_equal(request->body_size, 0);
    gateway_request_release(request, &budget);
}

static void
headers_are_bounded(void **state)
{
    struct gateway_request *request = new_request("GET");
    struct gateway_budget budget = {.max = 10};
    char large[GATEWAY_HEADER_BYTES + 1];

    (void)state;
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    assert_int_equal(gateway_request_header_add(request, "a", large), KVT_RANGE);
    for (int i = 0; i < GATEWAY_HEADERS_MAX; i++)
        assert_int_equal(gateway_request_header_add(request, "X-Same", i == 0 ? "1" : "2"), KVT_OK);
    assert_int_equal(gateway_request_header_add(request, "a", "b"), KVT_RANGE);
    assert_string_equal(gateway_request_header(request, "x-same"), "1");
    assert_null(gateway_request_header(request, "x-sam"));
    gateway_request_release(request, &budget);
}

static void
numbers_are_decimal(void **state)
{
    static const char *const wrong[] = {
        "", " 5", "5 ", "-1", "+1", "0x5", "a", "1.0", "18446744073709551616"};
    uint64_t value = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct gateway_request *request = new_request("GET");

        assert_true(gateway_request_number(request, "X-Size", &value));
        assert_int_equal(value, 7); /* there is none */
        assert_int_equal(gateway_request_header_add(request, "x-size", wrong[i]), KVT_OK);
        if (gateway_request_number(request, "X-Size", &value))
            fail_msg("'%s'", wrong[i]);
        assert_int_equal(gateway_request_header_add(request, "x-max", "18446744073709551615"),
                         KVT_OK);
        assert_true(gateway_request_number(request, "X-Max", &value));
        assert_true(value == UINT64_MAX);
        value = 7;
        gateway_request_release(request, NULL);
    }
}

static void
fields_are_one_line(void **state)
{
    struct gateway_request *request = new_request("GET");
    struct gateway_budget budget = {.max = 10};

    (void)state;
    gateway_request_field(request, "ETag", "%s", "a\r\nSet-Cookie: b");
    assert_string_equal(request->fields[0].value, "a");
    gateway_request_release(request, &budget);
}

static void
every_code_has_an_answer(void **state)
{
    (void)state;
    assert_int_equal(gateway_request_fault_of(KVT_OK), GATEWAY_S3_ERROR_NONE);
    for (int code = KVT_OK + 1; code < KVT_ERR_COUNT; code++)
        assert_int_not_equal(gateway_request_fault_of((enum kvt_err)code), GATEWAY_S3_ERROR_NONE);
    assert_int_equal(gateway_request_fault_of(KVT_UNAVAILABLE), GATEWAY_S3_ERROR_UNAVAILABLE);
    assert_int_equal(gateway_request_fault_of(KVT_FULL), GATEWAY_S3_ERROR_FULL);
}

static void
budget_is_exact(void **state)
{
    struct gateway_budget budget = {.max = 10};

    (void)state;
    assert_true(gateway_budget_take(&budget, 10));
    assert_false(gateway_budget_take(&budget, 1));
    gateway_budget_give(&budget, 4);
    assert_false(gateway_budget_take(&budget, 5));
    assert_true(gateway_budget_take(&budget, 4));
    assert_false(gateway_budget_take(&budget, UINT64_MAX));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xml_is_escaped),      cmocka_unit_test(errors_carry_code_and_resource),
        cmocka_unit_test(headers_are_bounded), cmocka_unit_test(numbers_are_decimal),
        cmocka_unit_test(fields_are_one_line), cmocka_unit_test(every_code_has_an_answer),
        cmocka_unit_test(budget_is_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
