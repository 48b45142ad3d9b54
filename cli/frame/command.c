#include "cli/frame/command.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"

enum { WORD_MAX = 64, NEAR_MAX = 128 };

const struct cli_command *
cli_command_find(const struct cli_command_list *list, const char *first, const char *second,
                 size_t *words)
{
    char both[WORD_MAX];

    *words = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->rows[i].path, first) == 0) {
            *words = 1;
            return &list->rows[i];
        }
    }
    if (second == NULL)
        return NULL;
    (void)snprintf(both, sizeof(both), "%s %s", first, second);
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->rows[i].path, both) == 0) {
            *words = 2;
            return &list->rows[i];
        }
    }
    return NULL;
}

bool
cli_command_is_noun(const struct cli_command_list *list, const char *noun)
{
    const size_t size = strlen(noun);

    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->rows[i].path, noun, size) == 0 && list->rows[i].path[size] == ' ')
            return true;
    return false;
}

/* Compare verbs under a right noun, and whole paths or nouns otherwise. */
const char *
cli_command_suggest(const struct cli_command_list *list, const char *first, const char *second)
{
    char nouns[NEAR_MAX][WORD_MAX];
    const char *words[NEAR_MAX];
    const char *paths[NEAR_MAX];
    const bool noun = cli_command_is_noun(list, first);
    const char *near;
    size_t count = 0;

    assert(list->count <= NEAR_MAX);
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->rows[i].path;
        const char *blank = strchr(path, ' ');
        const size_t size = blank == NULL ? strlen(path) : (size_t)(blank - path);

        if (noun && (strncmp(path, first, size) != 0 || first[size] != '\0' || blank == NULL))
            continue;
        if (noun)
            (void)snprintf(nouns[count], WORD_MAX, "%s", blank + 1);
        else
            (void)snprintf(nouns[count], WORD_MAX, "%.*s", (int)size, path);
        words[count] = nouns[count];
        paths[count++] = path;
    }
    near = kvt_suggest(noun ? (second == NULL ? "" : second) : first, words, count);
    for (size_t i = 0; near != NULL && i < count; i++)
        if (words[i] == near)
            return paths[i];
    return NULL;
}

void
cli_command_arguments(const struct cli_command *command, size_t *min, size_t *max)
{
    *min = 0;
    *max = 0;
    for (const char *word = command->arguments; *word != '\0'; word += strspn(word, " ")) {
        *min += word[0] != '[';
        ++*max;
        word += strcspn(word, " ");
    }
    if (strstr(command->arguments, "...") != NULL)
        *max = command->argument_max > 0 ? command->argument_max : SIZE_MAX;
}
