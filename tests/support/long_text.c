#include "tests/support/long_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

uint64_t
test_cpu_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

size_t
test_long_text(char *text, size_t room, const char *head, const char *line)
{
    const char *number = strchr(line, '#');
    size_t size = strlen(head);

    memcpy(text, head, size);
    for (unsigned i = 0; size + strlen(line) + 8 < room; i++) {
        if (number == NULL) {
            memcpy(text + size, line, strlen(line));
            size += strlen(line);
        } else {
            size += (size_t)snprintf(text + size, room - size, "%.*s%06u%s", (int)(number - line),
                                     line, i, number + 1);
        }
    }
    text[size] = '\0';
    return size;
}
