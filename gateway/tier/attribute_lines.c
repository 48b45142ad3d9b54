#include "gateway/tier/attribute_lines.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_SIZE = 256 };

static bool
starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static size_t
count_lines(const char *text)
{
    size_t lines = 0;

    for (; *text != '\0'; text++)
        lines += *text == '\n' ? 1 : 0;
    return lines;
}

static bool
is_printable(const char *value)
{
    for (; *value != '\0'; value++)
        if ((unsigned char)*value < 0x20 || *value == 0x7f)
            return false;
    return true;
}

/* Nor is a name with a blank one. */
static bool
is_name(const char *name)
{
    return name[0] != '\0' && is_printable(name) && strchr(name, ' ') == NULL;
}

bool
gateway_attribute_lines_valid(const char *name, const char *value)
{
    return is_name(name) && is_printable(value);
}

bool
gateway_attribute_lines_add(char text[G4_ATTRIBUTES_MAX], const char *name, const char *value)
{
    const size_t used = strlen(text);
    const size_t room = G4_ATTRIBUTES_MAX - used;

    if (!gateway_attribute_lines_valid(name, value) || strlen(name) + strlen(value) + 4 > room ||
        count_lines(text) == G4_ATTRIBUTE_LINES)
        return false;
    (void)snprintf(text + used, room, "%s: %s\n", name, value);
    return true;
}

bool
gateway_attribute_lines_get(const char *text, const char *name, char *value, size_t size)
{
    const size_t name_size = strlen(name);

    while (*text != '\0') {
        const size_t line = strcspn(text, "\n");

        if (line >= name_size + 2 && text[name_size] == ':' && starts_with(text, name)) {
            const size_t length = line - name_size - 2;

            if (length >= size)
                return false;
            memcpy(value, text + name_size + 2, length);
            value[length] = '\0';
            return true;
        }
        text += line + (text[line] == '\n' ? 1 : 0);
    }
    return false;
}

/* Keep the lines that do not start like this. */
static void
drop_lines(char *text, const char *start)
{
    char *out = text;

    while (*text != '\0') {
        const size_t line = strcspn(text, "\n") + 1;
        const bool keep = !starts_with(text, start);

        if (keep)
            memmove(out, text, line);
        out += keep ? line : 0;
        text += line;
    }
    *out = '\0';
}

void
gateway_attribute_lines_drop(char text[G4_ATTRIBUTES_MAX], const char *name)
{
    char start[NAME_MAX_SIZE];

    (void)snprintf(start, sizeof(start), "%s: ", name);
    drop_lines(text, start);
}

void
gateway_attribute_lines_strip(char text[G4_ATTRIBUTES_MAX])
{
    drop_lines(text, GATEWAY_ATTRIBUTE_OURS);
}
