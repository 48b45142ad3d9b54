#include "base/text/json_pull.h"

#include <assert.h>
#include <string.h>

#include "base/text/hex.h"

void
kvt_json_pull_init(struct kvt_json_pull *pull, const char *text, size_t size)
{
    assert(text != NULL || size == 0);
    *pull = (struct kvt_json_pull){.text = text, .size = size};
}

void
kvt_json_pull_fail(struct kvt_json_pull *pull, size_t offset, enum kvt_err code, const char *wanted)
{
    assert(code != KVT_OK);
    if (pull->code != KVT_OK)
        return;
    pull->code = code;
    pull->failed_at = offset;
    pull->wanted = wanted;
    /* Nothing is left to read: every loop over the text ends by itself. */
    pull->at = pull->size;
}

static void
invalid(struct kvt_json_pull *pull, const char *wanted)
{
    kvt_json_pull_fail(pull, pull->at, KVT_INVALID, wanted);
}

static void
skip_blanks(struct kvt_json_pull *pull)
{
    while (pull->at < pull->size) {
        const char c = pull->text[pull->at];

        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
        pull->at++;
    }
}

/* The next character that is no blank, or NUL at the end (a NUL is no JSON either). */
static char
next_char(struct kvt_json_pull *pull)
{
    skip_blanks(pull);
    return pull->at < pull->size ? pull->text[pull->at] : '\0';
}

enum kvt_json_kind
kvt_json_pull_peek(struct kvt_json_pull *pull)
{
    switch (next_char(pull)) {
    case 'n': return KVT_JSON_NULL;
    case 't':
    case 'f': return KVT_JSON_BOOL;
    case '"': return KVT_JSON_STRING;
    case '[': return KVT_JSON_ARRAY;
    case '{': return KVT_JSON_OBJECT;
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9': return KVT_JSON_NUMBER;
    default: return KVT_JSON_NOTHING;
    }
}

/* ---- scalars ---- */

static bool
literal(struct kvt_json_pull *pull, const char *word)
{
    const size_t size = strlen(word);

    if (pull->size - pull->at < size || memcmp(pull->text + pull->at, word, size) != 0) {
        invalid(pull, "a value");
        return false;
    }
    pull->at += size;
    return true;
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool
digit_here(const struct kvt_json_pull *pull)
{
    return pull->at < pull->size && is_digit(pull->text[pull->at]);
}

static void
skip_digits(struct kvt_json_pull *pull)
{
    if (!digit_here(pull))
        invalid(pull, "a digit");
    while (digit_here(pull))
        pull->at++;
}

/* Add up the digits from `at` on; false in `whole` once they are more than 64 bits hold. */
static size_t
sum_digits(const char *text, size_t at, size_t size, uint64_t *sum, bool *whole)
{
    /* So many digits always fit. */
    const size_t safe = size - at < 19 ? size : at + 19;
    uint64_t value = 0;

    for (; at < safe && is_digit(text[at]); at++)
        value = value * 10 + (uint64_t)(text[at] - '0');
    for (; at < size && is_digit(text[at]); at++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[at] - '0'), &value))
            *whole = false;
    *sum = value;
    return at;
}

/* Step over a number; true and its value when it is whole, not negative and fits. */
static bool
number(struct kvt_json_pull *pull, uint64_t *value)
{
    bool whole = true;
    uint64_t sum = 0;

    *value = 0;
    if (pull->text[pull->at] == '-') {
        whole = false;
        pull->at++;
    }
    if (digit_here(pull) && pull->text[pull->at] == '0') {
        pull->at++;
        if (digit_here(pull))
            invalid(pull, "no digit behind a leading zero");
    } else {
        if (!digit_here(pull))
            invalid(pull, "a digit");
        pull->at = sum_digits(pull->text, pull->at, pull->size, &sum, &whole);
    }
    if (pull->at < pull->size && pull->text[pull->at] == '.') {
        whole = false;
        pull->at++;
        skip_digits(pull);
    }
    if (pull->at < pull->size && (pull->text[pull->at] | 0x20) == 'e') {
        whole = false;
        pull->at++;
        if (pull->at < pull->size && (pull->text[pull->at] == '+' || pull->text[pull->at] == '-'))
            pull->at++;
        skip_digits(pull);
    }
    if (!whole || pull->code != KVT_OK)
        return false;
    *value = sum;
    return true;
}

/* ---- strings ---- */

/* The four digits of a \u escape at `text`, or -1. */
static int32_t
hex4(const char *text, size_t size)
{
    int32_t value = 0;

    if (size < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        const int digit = kvt_hex_digit(text[i]);

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/*
 * The character that the escape at `text` (behind its backslash) stands for, and how many bytes the
 * escape has there; -1 when it is none.  Half a surrogate pair is none.
 */
static int32_t
unescape(const char *text, size_t size, size_t *used)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    int32_t high;
    int32_t low;

    *used = 1;
    if (size == 0)
        return -1;
    if (text[0] != 'u') {
        const char *letter = text[0] == '\0' ? NULL : strchr(letters, text[0]);

        return letter == NULL ? -1 : meanings[letter - letters];
    }
    high = hex4(text + 1, size - 1);
    *used = 5;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (high > 0xdbff || size < 11 || text[5] != '\\' || text[6] != 'u')
        return -1;
    low = hex4(text + 7, size - 7);
    if (low < 0xdc00 || low > 0xdfff)
        return -1;
    *used = 11;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

size_t
kvt_json_utf8(const char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)text;
    const uint8_t lead = bytes[0];
    uint8_t least = 0x80;
    uint8_t most = 0xbf;
    size_t count;

    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    count = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (size < count)
        return 0;
    if (lead == 0xe0)
        least = 0xa0;
    else if (lead == 0xed)
        most = 0x9f;
    else if (lead == 0xf0)
        least = 0x90;
    else if (lead == 0xf4)
        most = 0x8f;
    if (bytes[1] < least || bytes[1] > most)
        return 0;
    for (size_t i = 2; i < count; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    return count;
}

/* Behind the plain ASCII that begins at `at`: nearly all of nearly every string. */
static size_t
skip_plain(const char *text, size_t at, size_t size)
{
    while (at < size && (signed char)text[at] >= 0x20 && text[at] != '"' && text[at] != '\\')
        at++;
    return at;
}

/* The string whose opening quote is here. */
static bool
string(struct kvt_json_pull *pull, struct kvt_json_slice *out)
{
    const size_t start = pull->at + 1;
    bool escaped = false;

    *out = (struct kvt_json_slice){.bytes = ""};
    pull->at = start;
    for (;;) {
        const char *here;
        size_t used;

        pull->at = skip_plain(pull->text, pull->at, pull->size);
        if (pull->at == pull->size)
            break;
        here = pull->text + pull->at;
        if (*here == '"') {
            *out = (struct kvt_json_slice){pull->text + start, pull->at - start, escaped};
            pull->at++;
            return true;
        }
        if (*here == '\\') {
            escaped = true;
            if (unescape(here + 1, pull->size - pull->at - 1, &used) < 0)
                break;
            used++;
        } else {
            /* A character beyond ASCII, or one below the blank, which no string may have. */
            used = (unsigned char)*here < 0x20 ? 0 : kvt_json_utf8(here, pull->size - pull->at);
            if (used == 0)
                break;
        }
        pull->at += used;
    }
    invalid(pull, "a character of a string, or its end");
    return false;
}

/* ---- containers ---- */

static void
enter(struct kvt_json_pull *pull, bool array)
{
    uint64_t bit;

    if (pull->depth == KVT_JSON_PULL_DEPTH_MAX) {
        kvt_json_pull_fail(pull, pull->at, KVT_RANGE, "fewer values within each other");
        return;
    }
    bit = UINT64_C(1) << pull->depth++;
    pull->arrays = array ? pull->arrays | bit : pull->arrays & ~bit;
    pull->filled &= ~bit;
    pull->at++;
}

bool
kvt_json_pull_object(struct kvt_json_pull *pull)
{
    if (next_char(pull) != '{') {
        kvt_json_pull_skip(pull);
        return false;
    }
    enter(pull, false);
    return pull->code == KVT_OK;
}

bool
kvt_json_pull_array(struct kvt_json_pull *pull)
{
    if (next_char(pull) != '[') {
        kvt_json_pull_skip(pull);
        return false;
    }
    enter(pull, true);
    return pull->code == KVT_OK;
}

/* To where the innermost container's next member starts; false when it has no more. */
static bool
advance(struct kvt_json_pull *pull, char closing)
{
    const uint64_t bit = UINT64_C(1) << (pull->depth - 1);
    char c = next_char(pull);

    if (c == closing) {
        pull->at++;
        pull->depth--;
        return false;
    }
    if ((pull->filled & bit) != 0) {
        if (c != ',') {
            invalid(pull, "a comma, or the end of the array or object");
            return false;
        }
        pull->at++;
        c = next_char(pull);
    }
    pull->filled |= bit;
    return pull->code == KVT_OK;
}

bool
kvt_json_pull_element(struct kvt_json_pull *pull)
{
    if (pull->code != KVT_OK)
        return false;
    assert(pull->depth > 0 && (pull->arrays >> (pull->depth - 1) & 1) != 0);
    return advance(pull, ']');
}

bool
kvt_json_pull_member(struct kvt_json_pull *pull, struct kvt_json_slice *key)
{
    *key = (struct kvt_json_slice){.bytes = ""};
    if (pull->code != KVT_OK)
        return false;
    assert(pull->depth > 0 && (pull->arrays >> (pull->depth - 1) & 1) == 0);
    if (!advance(pull, '}'))
        return false;
    if (next_char(pull) != '"') {
        invalid(pull, "a member's name");
        return false;
    }
    if (!string(pull, key))
        return false;
    if (next_char(pull) != ':') {
        invalid(pull, "a colon");
        return false;
    }
    pull->at++;
    return true;
}

/* Step over a scalar; false when a container begins here. */
static bool
skip_scalar(struct kvt_json_pull *pull)
{
    struct kvt_json_slice slice;
    uint64_t value;

    switch (kvt_json_pull_peek(pull)) {
    case KVT_JSON_ARRAY:
    case KVT_JSON_OBJECT: return false;
    case KVT_JSON_STRING: (void)string(pull, &slice); break;
    case KVT_JSON_NUMBER: (void)number(pull, &value); break;
    case KVT_JSON_NULL: (void)literal(pull, "null"); break;
    case KVT_JSON_BOOL: (void)literal(pull, pull->text[pull->at] == 't' ? "true" : "false"); break;
    case KVT_JSON_NOTHING: invalid(pull, "a value"); break;
    }
    return true;
}

void
kvt_json_pull_skip(struct kvt_json_pull *pull)
{
    const unsigned outside = pull->depth;
    struct kvt_json_slice key;

    if (pull->code != KVT_OK)
        return;
    if (skip_scalar(pull))
        return;
    enter(pull, pull->text[pull->at] == '[');
    while (pull->depth > outside && pull->code == KVT_OK) {
        const bool array = (pull->arrays >> (pull->depth - 1) & 1) != 0;

        if (array ? !kvt_json_pull_element(pull) : !kvt_json_pull_member(pull, &key))
            continue;
        if (!skip_scalar(pull))
            enter(pull, pull->text[pull->at] == '[');
    }
}

/* ---- values ---- */

bool
kvt_json_pull_u64(struct kvt_json_pull *pull, uint64_t *out)
{
    *out = 0;
    if (kvt_json_pull_peek(pull) == KVT_JSON_NUMBER)
        return number(pull, out);
    kvt_json_pull_skip(pull);
    return false;
}

bool
kvt_json_pull_bool(struct kvt_json_pull *pull, bool *out)
{
    *out = false;
    if (kvt_json_pull_peek(pull) == KVT_JSON_BOOL) {
        *out = pull->text[pull->at] == 't';
        return literal(pull, *out ? "true" : "false");
    }
    kvt_json_pull_skip(pull);
    return false;
}

bool
kvt_json_pull_string(struct kvt_json_pull *pull, struct kvt_json_slice *out)
{
    *out = (struct kvt_json_slice){.bytes = ""};
    if (kvt_json_pull_peek(pull) == KVT_JSON_STRING)
        return string(pull, out);
    kvt_json_pull_skip(pull);
    return false;
}

bool
kvt_json_pull_null(struct kvt_json_pull *pull)
{
    return kvt_json_pull_peek(pull) == KVT_JSON_NULL && literal(pull, "null");
}

enum kvt_err
kvt_json_pull_end(struct kvt_json_pull *pull, const char *name, struct kvt_error *err)
{
    if (next_char(pull) != '\0' || pull->at < pull->size)
        invalid(pull, "the end");
    else if (pull->depth > 0)
        invalid(pull, "more text");
    if (pull->code == KVT_OK)
        return KVT_OK;
    return kvt_error_set(err, pull->code, "%s of %zu bytes: at byte %zu expected %s", name,
                         pull->size, pull->failed_at, pull->wanted);
}

/* ---- slices ---- */

static size_t
put_utf8(int32_t character, char out[4])
{
    const uint32_t c = (uint32_t)character;

    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Bytes of text in the escape or character at `*at`, which moves behind it. */
static size_t
next_bytes(const struct kvt_json_slice *slice, size_t *at, char out[4])
{
    size_t used;
    int32_t character;

    if (slice->bytes[*at] != '\\') {
        out[0] = slice->bytes[(*at)++];
        return 1;
    }
    character = unescape(slice->bytes + *at + 1, slice->size - *at - 1, &used);
    assert(character >= 0);
    *at += 1 + used;
    return put_utf8(character, out);
}

bool
kvt_json_slice_is_slow(const struct kvt_json_slice *slice, const char *text)
{
    const size_t size = strlen(text);
    size_t done = 0;
    char bytes[4];

    for (size_t at = 0; at < slice->size;) {
        const size_t count = next_bytes(slice, &at, bytes);

        if (count > size - done || memcmp(bytes, text + done, count) != 0)
            return false;
        done += count;
    }
    return done == size;
}

bool
kvt_json_slice_copy(const struct kvt_json_slice *slice, char *out, size_t capacity, size_t *size)
{
    size_t done = 0;
    char bytes[4];

    assert(capacity > 0);
    out[0] = '\0';
    if (size != NULL)
        *size = 0;
    for (size_t at = 0; at < slice->size;) {
        const size_t count = next_bytes(slice, &at, bytes);

        if (count >= capacity - done || (size == NULL && bytes[0] == '\0')) {
            out[0] = '\0';
            return false;
        }
        memcpy(out + done, bytes, count);
        done += count;
    }
    out[done] = '\0';
    if (size != NULL)
        *size = done;
    return true;
}
