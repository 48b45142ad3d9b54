#include "g4/directory/file_name.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "g4/object/sha256.h"

enum { ESCAPED = 3, HASHED_SIZE = 1 + G4_SHA256_HEX_MAX };

static bool
kept(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-_.:=@+,", c) != NULL);
}

/* Write one byte as it stands in names; returns how long that is. */
static size_t
put_byte(char *out, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";

    if (kept(c)) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = '%';
    out[1] = digits[c >> 4];
    out[2] = digits[c & 15];
    return ESCAPED;
}

static int
digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Read one byte of a name and step over it; -1 when it is not written as put_byte() does. */
static int
take_byte(const char **at)
{
    const char *text = *at;
    int value;

    if (*text != '%') {
        if (!kept((unsigned char)*text))
            return -1;
        (*at)++;
        return (unsigned char)*text;
    }
    if (digit_of(text[1]) < 0 || digit_of(text[2]) < 0)
        return -1;
    value = digit_of(text[1]) * 16 + digit_of(text[2]);
    if (value == 0 || kept((unsigned char)value))
        return -1;
    *at += ESCAPED;
    return value;
}

void
g4_file_name_format(const char *key, char out[G4_FILE_NAME_MAX])
{
    size_t at = 1;

    out[0] = '=';
    for (const char *c = key; *c != '\0'; c++) {
        if (at + ESCAPED >= G4_FILE_NAME_MAX) {
            char hex[G4_SHA256_HEX_MAX];

            g4_sha256_hex(key, strlen(key), hex);
            out[0] = '#';
            memcpy(out + 1, hex, sizeof(hex));
            return;
        }
        at += put_byte(out + at, (unsigned char)*c);
    }
    out[at] = '\0';
}

bool
g4_file_name_parse(const char *name, char key[KVT_KEY_MAX])
{
    const char *at = name + 1;
    size_t size = 0;

    key[0] = '\0';
    if (name[0] == '#')
        return strlen(name) == HASHED_SIZE - 1 && strspn(at, "0123456789abcdef") == HASHED_SIZE - 2;
    if (name[0] != '=')
        return false;
    while (*at != '\0') {
        const int byte = take_byte(&at);

        if (byte < 0 || size + 1 >= KVT_KEY_MAX) {
            key[0] = '\0';
            return false;
        }
        key[size++] = (char)byte;
    }
    key[size] = '\0';
    return size > 0;
}

int
g4_file_name_folder_parse(const char *name)
{
    const char *at = name + 1;
    int byte;

    if (name[0] != '+')
        return -1;
    byte = take_byte(&at);
    return *at == '\0' ? byte : -1;
}

void
g4_file_name_path(const char *key, size_t depth, char out[G4_PATH_MAX], size_t *ends)
{
    size_t at = 1;

    assert(depth <= G4_DEPTH_MAX);
    out[0] = '.';
    if (ends != NULL)
        ends[0] = 1;
    if (depth > 0)
        at = 0;
    for (size_t i = 0; i < depth; i++) {
        if (i > 0)
            out[at++] = '/';
        out[at++] = '+';
        at += put_byte(out + at, (unsigned char)key[i]);
        if (ends != NULL)
            ends[i + 1] = at;
    }
    out[at] = '\0';
}
