/*
 * What is tested: base/core/log.h and base/core/log_limiter.h: the shape of a line, that a line is
 * always whole and always valid JSON, and that a storm is cut down but counted.
 */
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/core/log.h"
#include "base/core/log_limiter.h"

#include "tests/support/seed.h"

/* What was written to stderr between start and stop; free with kvt_free(). */
struct capture {
    char folder[200];
    char path[256];
    int saved_fd;
};

static void
capture_start(struct capture *capture)
{
    int fd;

    (void)test_folder_make(capture->folder, sizeof(capture->folder));
    (void)snprintf(capture->path, sizeof(capture->path), "%s/log", capture->folder);
    fd = open(capture->path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    capture->saved_fd = dup(STDERR_FILENO);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    (void)close(fd);
}

static char *
capture_stop(struct capture *capture)
{
    size_t size;
    char *text;

    assert_true(dup2(capture->saved_fd, STDERR_FILENO) >= 0);
    (void)close(capture->saved_fd);
    assert_int_equal(kvt_file_read(&text, &size, capture->path, 1u << 20, NULL), KVT_OK);
    test_folder_remove(capture->folder);
    return text;
}

static unsigned
count_lines(const char *text)
{
    unsigned count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n' ? 1 : 0;
    return count;
}

static void
text_lines_are_logfmt(void **state)
{
    struct capture capture;
    char *text;

    (void)state;
    kvt_log_setup("kvtier-x", KVT_LOG_INFO, KVT_LOG_TEXT);
    capture_start(&capture);
    kvt_log_debug("test.a", "hidden", "not written");
    kvt_log_warn("test.a", "shape", "say \"%s\"\n%d", "hi", 3);
    text = capture_stop(&capture);
    assert_int_equal(count_lines(text), 1);
    assert_int_equal(strncmp(text, "time=20", 7), 0);
    assert_non_null(strstr(text, "Z level=warn program=kvtier-x area=test.a event=shape "
                                 "msg=\"say \\\"hi\\\"\\n3\"\n"));
    kvt_free(text);
}

static void
json_lines_parse_even_when_cut(void **state)
{
    char longest[4 * KVT_LOG_LINE_MAX];
    struct json_object *line;
    struct json_object *member;
    struct capture capture;
    char *text;

    (void)state;
    /* Escapes and characters of several bytes, so that a careless cut would land inside one. */
    for (size_t i = 0; i + 4 < sizeof(longest); i += 4)
        memcpy(longest + i, "\"\xe2\x82\xac", 4);
    longest[sizeof(longest) - 4] = '\0';
    kvt_log_setup("kvtier-x", KVT_LOG_DEBUG, KVT_LOG_JSON);
    for (size_t skip = 0; skip < 4; skip++) {
        capture_start(&capture);
        kvt_log_error("test.b", "cut", "%s",
                      longest + (skip == 0 ? 0 : sizeof(longest) - 5 - skip));
        text = capture_stop(&capture);
        assert_true(strlen(text) <= KVT_LOG_LINE_MAX);
        assert_int_equal(count_lines(text), 1);
        line = json_tokener_parse(text);
        assert_non_null(line);
        assert_true(json_object_object_get_ex(line, "level", &member));
        assert_string_equal(json_object_get_string(member), "error");
        assert_true(json_object_object_get_ex(line, "event", &member));
        assert_string_equal(json_object_get_string(member), "cut");
        json_object_put(line);
        kvt_free(text);
    }
}

static void
a_storm_is_cut_down_and_summed_up(void **state)
{
    struct capture capture;
    char *text;

    (void)state;
    kvt_log_setup("kvtier-x", KVT_LOG_INFO, KVT_LOG_TEXT);
    capture_start(&capture);
    for (int i = 0; i < 1000; i++)
        kvt_log_info("test.c", "storm", "number %d", i);
    kvt_log_info("test.c", "other", "another kind is not held back");
    kvt_log_flush(false); /* the window still runs */
    text = capture_stop(&capture);
    assert_int_equal(count_lines(text), KVT_LOG_REPEAT_MAX + 1);
    kvt_free(text);

    capture_start(&capture);
    kvt_log_flush(true);
    kvt_log_flush(true);
    text = capture_stop(&capture);
    assert_int_equal(count_lines(text), 1);
    assert_non_null(strstr(text, "event=storm msg=\"995 more lines like this were not written\""));
    kvt_free(text);
}

static void
a_window_lets_pass_then_counts_then_starts_again(void **state)
{
    static struct kvt_log_limiter limiter = {.passes = 2, .window_ms = 100};
    struct kvt_log_limiter_row sum;
    uint64_t held;

    (void)state;
    assert_true(kvt_log_limiter_pass(&limiter, "a", "e", 1000, &held));
    assert_true(kvt_log_limiter_pass(&limiter, "a", "e", 1001, &held));
    assert_false(kvt_log_limiter_pass(&limiter, "a", "e", 1002, &held));
    assert_false(kvt_log_limiter_pass(&limiter, "a", "e", 1099, &held));
    assert_int_equal(held, 0);
    assert_true(kvt_log_limiter_pass(&limiter, "a", "f", 1099, &held)); /* another kind */
    assert_false(kvt_log_limiter_sum(&limiter, 1099, false, &sum));
    assert_true(kvt_log_limiter_pass(&limiter, "a", "e", 1100, &held));
    assert_int_equal(held, 2);
    assert_true(kvt_log_limiter_pass(&limiter, "a", "e", 1101, &held));
    assert_int_equal(held, 0); /* told once */
    assert_false(kvt_log_limiter_pass(&limiter, "a", "e", 1102, &held));
    assert_true(kvt_log_limiter_sum(&limiter, 1200, false, &sum));
    assert_string_equal(sum.event, "e");
    assert_int_equal(sum.held, 1);
    assert_false(kvt_log_limiter_sum(&limiter, 1200, false, &sum));
}

static void
more_kinds_than_rows_share_one(void **state)
{
    enum { KINDS = 2 * KVT_LOG_LIMITER_ROWS };
    static struct kvt_log_limiter limiter = {.passes = 3, .window_ms = 100};
    static char names[KINDS][16];
    unsigned passed_count = 0;
    uint64_t held;

    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "kind%zu", i);
        passed_count += kvt_log_limiter_pass(&limiter, "a", names[i], 5, &held) ? 1 : 0;
    }
    assert_int_equal(passed_count, KVT_LOG_LIMITER_ROWS - 1 + 3);
    /* The kinds that have a row keep it. */
    assert_true(kvt_log_limiter_pass(&limiter, "a", names[0], 5, &held));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines_are_logfmt),
        cmocka_unit_test(json_lines_parse_even_when_cut),
        cmocka_unit_test(a_storm_is_cut_down_and_summed_up),
        cmocka_unit_test(a_window_lets_pass_then_counts_then_starts_again),
        cmocka_unit_test(more_kinds_than_rows_share_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
