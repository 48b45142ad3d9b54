#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "cli/frame/interrupt.h"
#include "cli/remote/admin_client.h"
#include "cli/show/cmd_top.h"

enum { KEY_WAIT_MS = 50, COLUMNS_MAX = 1024, FOOT_ROWS = 1 };
enum { COLOUR_GOOD = 1, COLOUR_BAD, COLOUR_HEAD };

struct view {
    const struct cli_context *context;
    struct kvt_buffer lines;
    struct json_object *overview; /* NULL: none came yet */
    struct kvt_error error;       /* of the last question; code KVT_OK: it was answered */
    uint64_t every_ms;
    uint64_t due_ms; /* the next question */
    size_t top;      /* the first line on the screen */
    bool unicode;
    bool paused;
    bool help;
};

static const char help_text[] =
    "=KEYS\n"
    "   q, Ctrl-C    quit\n"
    "   space        stop asking, and go on\n"
    "   r            ask now\n"
    "   up, down     a line; also k and j\n"
    "   page keys    a screen; Home and End\n"
    "   ?            this, and back\n"
    "=WHAT IS SHOWN\n"
    "   A bar is how full a tier is, | in it where draining begins.\n"
    "   A row of steps is the last hour, a minute each, now at the right.\n"
    "   kvtier top --once -o json has all of it.\n";

static void
ask(struct view *view)
{
    struct json_object *overview;

    if (cli_admin_ask(view->context, CLI_ADMIN_ADVISOR, "/v1/overview", NULL, false, &overview,
                      &view->error) == KVT_OK) {
        (void)json_object_put(view->overview);
        view->overview = overview;
        view->error.code = KVT_OK;
    }
    view->due_ms = kvt_clock_mono_ms() + view->every_ms;
}

static void
make_lines(struct view *view)
{
    kvt_buffer_clear(&view->lines);
    if (view->help) {
        kvt_buffer_puts(&view->lines, help_text);
        return;
    }
    if (view->error.code != KVT_OK)
        kvt_buffer_printf(&view->lines, "%c%s\n", (char)CLI_TOP_BAD, view->error.text);
    if (view->overview != NULL)
        cli_top_lines(view->overview, (size_t)COLS, view->unicode, &view->lines);
}

/* ---- drawing ---- */

static attr_t
look_of(char kind)
{
    switch ((enum cli_top_line)kind) {
    case CLI_TOP_PLAIN: return A_NORMAL;
    case CLI_TOP_HEAD: return A_BOLD | (attr_t)COLOR_PAIR(COLOUR_HEAD);
    case CLI_TOP_GOOD: return A_BOLD | (attr_t)COLOR_PAIR(COLOUR_GOOD);
    case CLI_TOP_BAD: return A_BOLD | (attr_t)COLOR_PAIR(COLOUR_BAD);
    }
    return A_NORMAL;
}

/* As much of it as there are columns. */
static void
draw_line(int row, const char *text, size_t size)
{
    char narrow[4 * COLUMNS_MAX];
    wchar_t wide[COLUMNS_MAX];
    size_t count;

    if (size >= sizeof(narrow))
        size = sizeof(narrow) - 1;
    memcpy(narrow, text, size);
    narrow[size] = '\0';
    count = mbstowcs(wide, narrow, COLUMNS_MAX - 1);
    if (count == (size_t)-1) { /* cut within a letter, or no text of this locale */
        (void)mvaddnstr(row, 0, narrow, COLS);
        return;
    }
    for (int columns = 0; count > 0; count--) {
        columns = wcswidth(wide, count);
        if (columns >= 0 && columns <= COLS)
            break;
    }
    (void)mvaddnwstr(row, 0, wide, (int)count);
}

/* Returns how many lines there are. */
static size_t
draw_lines(struct view *view)
{
    const size_t rows = LINES > FOOT_ROWS ? (size_t)(LINES - FOOT_ROWS) : 0;
    size_t number = 0;

    for (const char *text = kvt_buffer_text(&view->lines); *text != '\0'; number++) {
        const char *end = strchr(text, '\n');

        if (number >= view->top && number < view->top + rows) {
            (void)attrset((int)look_of(*text));
            draw_line((int)(number - view->top), text + 1, (size_t)(end - text - 1));
        }
        text = end + 1;
    }
    return number;
}

static void
draw(struct view *view)
{
    const size_t rows = LINES > FOOT_ROWS ? (size_t)(LINES - FOOT_ROWS) : 0;
    size_t count;

    make_lines(view);
    (void)erase();
    count = draw_lines(view);
    if (view->top > 0 && view->top + rows > count) { /* the screen grew, or there is less */
        view->top = count > rows ? count - rows : 0;
        (void)erase();
        (void)draw_lines(view);
    }
    (void)attrset(A_REVERSE);
    if (LINES > 0)
        draw_line(LINES - 1,
                  view->paused ? " STOPPED   space goes on   q quits   ? explains "
                               : " q quits   space stops   arrows scroll   ? explains ",
                  view->paused ? 47 : 51);
    (void)attrset(A_NORMAL);
    (void)refresh();
}

/* ---- keys ---- */

static void
scroll_by(struct view *view, long rows)
{
    if (rows < 0 && (size_t)-rows > view->top)
        view->top = 0;
    else
        view->top = (size_t)((long)view->top + rows);
}

/* False: quit. */
static bool
on_key(struct view *view, int key)
{
    const long page = LINES > 2 ? LINES - 2 : 1;

    switch (key) {
    case 'q': return false;
    case ' ': view->paused = !view->paused; break;
    case 'r': view->due_ms = 0; break;
    case '?': view->help = !view->help, view->top = 0; break;
    case KEY_UP:
    case 'k': scroll_by(view, -1); break;
    case KEY_DOWN:
    case 'j': scroll_by(view, 1); break;
    case KEY_PPAGE: scroll_by(view, -page); break;
    case KEY_NPAGE: scroll_by(view, page); break;
    case KEY_HOME: view->top = 0; break;
    case KEY_END: scroll_by(view, CLI_TOP_TEXT_MAX); break; /* draw() stops at the last */
    default: break;                                         /* KEY_RESIZE: drawn anew */
    }
    return true;
}

static void
follow(struct view *view)
{
    bool dirty = true;

    for (;;) {
        int key;

        if (view->due_ms == 0 || (!view->paused && kvt_clock_mono_ms() >= view->due_ms)) {
            ask(view);
            dirty = true;
        }
        if (dirty)
            draw(view);
        key = getch(); /* waits KEY_WAIT_MS */
        dirty = key != ERR;
        if ((dirty && !on_key(view, key)) || cli_interrupt_wait(0))
            return;
    }
}

enum cli_exit
cli_top_screen(const struct cli_context *context, uint64_t every_ms)
{
    struct view view = {.context = context, .every_ms = every_ms};
    SCREEN *screen;

    (void)setlocale(LC_CTYPE, "");
    view.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    cli_interrupt_begin();
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return cli_context_usage(context, "cannot draw on a terminal of type \"%s\": use --once",
                                 getenv("TERM") == NULL ? "" : getenv("TERM"));
    kvt_buffer_init(&view.lines, CLI_TOP_TEXT_MAX);
    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, true);
    (void)curs_set(0);
    (void)set_escdelay(25);
    if (has_colors()) {
        (void)start_color();
        (void)use_default_colors();
        (void)init_pair(COLOUR_GOOD, COLOR_GREEN, -1);
        (void)init_pair(COLOUR_BAD, COLOR_RED, -1);
        (void)init_pair(COLOUR_HEAD, COLOR_CYAN, -1);
    }
    timeout(KEY_WAIT_MS);
    follow(&view);
    (void)endwin();
    delscreen(screen);
    (void)json_object_put(view.overview);
    kvt_buffer_release(&view.lines);
    return CLI_EXIT_DONE;
}
