/*
 * What is tested: commands in hints have the namespace, and a shell reads it as it is.
 * How: texts, letter by letter; the longest namespace that there is.
 */
#include <string.h>

#include "advisor/admin/command_hint.h"

#include "tests/support/seed.h"

static void
assert_hint(const char *namespace_, const char *wanted)
{
    char text[ADVISOR_HINT_MAX];

    advisor_admin_hint(text, "show", "00000000deadbeef", namespace_);
    assert_string_equal(text, wanted);
}

static void
a_namespace_is_quoted_where_it_must_be(void **state)
{
    (void)state;
    assert_hint("", "kvtier block show 00000000deadbeef");
    assert_hint("acme/llama-3", "kvtier block show 00000000deadbeef --namespace acme/llama-3");
    assert_hint("a b;$(c)", "kvtier block show 00000000deadbeef --namespace 'a b;$(c)'");
    assert_hint("it's", "kvtier block show 00000000deadbeef --namespace 'it'\\''s'");
}

/* Also of what no namespace can be: a question may say anything. */
static void
the_longest_has_room(void **state)
{
    char namespace_[4096];
    char text[ADVISOR_HINT_MAX];

    (void)state;
    memset(namespace_, '\'', sizeof(namespace_));
    namespace_[sizeof(namespace_) - 1] = '\0';
    advisor_admin_hint(text, "explain", "00000000deadbeef", namespace_);
    assert_true(strlen(text) < sizeof(text));
    namespace_[KVT_NAMESPACE_MAX - 1] = '\0';
    advisor_admin_hint(text, "explain", "00000000deadbeef", namespace_);
    assert_int_equal(strlen(text), strlen("kvtier block explain 00000000deadbeef --namespace ''") +
                                       4 * (KVT_NAMESPACE_MAX - 1));
    memset(namespace_, 'a', sizeof(namespace_));
    namespace_[sizeof(namespace_) - 1] = '\0';
    advisor_admin_hint(text, "explain", "00000000deadbeef", namespace_);
    assert_int_equal(strlen(text), sizeof(text) - 1);
}

static void
who_gave_none_is_told_to(void **state)
{
    (void)state;
    assert_non_null(strstr(advisor_admin_hint_unknown(""), "give --namespace NS"));
    assert_null(strstr(advisor_admin_hint_unknown("acme"), "give --namespace"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_namespace_is_quoted_where_it_must_be),
        cmocka_unit_test(the_longest_has_room),
        cmocka_unit_test(who_gave_none_is_told_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
