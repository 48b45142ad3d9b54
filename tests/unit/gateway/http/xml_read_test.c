/*
 * What is tested: gateway/http/xml_read.h: what it refuses, and that no body takes long.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gateway/http/xml_read.h"

#include "tests/support/long_text.h"
#include "tests/support/seed.h"

static bool
count_text(void *arg, bool in_row, const char *name, const char *text)
{
    (void)name;
    (void)text;
    *(unsigned *)arg += in_row ? 1 : 0;
    return true;
}

static bool
keep_row(void *arg)
{
    (void)arg;
    return true;
}

static bool
parse(const char *text, size_t size, unsigned *texts)
{
    const struct gateway_xml_read form = {"Delete", "Object", count_text, keep_row, texts};

    *texts = 0;
    return gateway_xml_read_parse(&form, text, size);
}

static void
bodies_that_are_refused(void **state)
{
    static const char *const refused[] = {
        "",
        "<Other/>",
        "<Delete><Object><Key>a</Key></Object>",
        "<!DOCTYPE Delete [<!ENTITY a \"b\">]><Delete><Object><Key>&a;</Key></Object></Delete>",
        "<!DOCTYPE Delete SYSTEM \"http://127.0.0.1:1/\"><Delete/>",
        "<Delete><Object><Key>&a;</Key></Object></Delete>",
        "<Delete><a><a><a><a><a><a><a><a></a></a></a></a></a></a></a></a></Delete>",
    };
    static const char good[] = "<Delete><Object><Key>a</Key></Object></Delete>";
    unsigned texts;

    (void)state;
    assert_true(parse(good, strlen(good), &texts));
    assert_int_equal(texts, 1);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (parse(refused[i], strlen(refused[i]), &texts))
            fail_msg("%s", refused[i]);
}

static void
no_body_takes_long(void **state)
{
    static const char *const texts[][2] = {
        {"", "<Delete>"},
        {"<Delete>", "<a>"},
        {"<Delete>", "<a/>"},
        {"<Delete>", "<Object><Key>a</Key></Object>"},
        {"<Delete>", "&amp;"},
        {"<Delete>", "&#x41;"},
        {"<Delete><Object><Key>", "a"},
        {"<Delete ", "a# = 'x' "},
        {"<Delete a='", "x"},
        {"<Delete xmlns:a='b' ", "xmlns:a#='x' "},
        {"<!DOCTYPE Delete [", "<!ENTITY a# 'x'>"},
        {"<!DOCTYPE ", "x"},
        {"<Delete><!-- ", "- "},
        {"<Delete>", "<?a b?>"},
        {"<Delete><![CDATA[", "]"},
        {"<", "a"},
        {"", " "},
        {"<?xml ", "a"},
    };
    static const size_t sizes[] = {100u << 10, 1u << 20, 8u << 20};
    char *text = test_malloc(8u << 20);

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            const size_t size = test_long_text(text, sizes[j], texts[i][0], texts[i][1]);
            const uint64_t start = test_cpu_ms();
            uint64_t took;
            unsigned rows;

            assert_false(parse(text, size, &rows));
            took = test_cpu_ms() - start;
            if (took > 3000)
                fail_msg("\"%s\" of %zu bytes took %" PRIu64 " ms", texts[i][1], size, took);
        }
    }
    test_free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_that_are_refused),
        cmocka_unit_test(no_body_takes_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
