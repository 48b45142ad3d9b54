#include "policy/file/policy_rows.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/file/policy_keys.h"

enum { PATH_MAX_BYTES = 512 };

/* ---- making them ---- */

struct maker {
    struct policy_rows *rows;
    struct kvt_buffer text;
    enum kvt_err rc;
};

static void
add(struct maker *maker, const char *path, const struct policy_key *key,
    const struct policy_place *place)
{
    struct policy_row row = {.help = key->help, .place = *place};
    struct policy_row *grown;

    if (maker->rc != KVT_OK)
        return;
    grown =
        kvt_grow(maker->rows->list, &maker->rows->capacity, maker->rows->count + 1, sizeof(*grown));
    if (grown != NULL)
        maker->rows->list = grown;
    row.path = grown == NULL ? NULL : kvt_strdup(path);
    row.value = row.path == NULL || !kvt_buffer_ok(&maker->text)
                    ? NULL
                    : kvt_strdup(kvt_buffer_text(&maker->text));
    if (row.value == NULL) {
        kvt_free(row.path);
        maker->rc = KVT_NOMEM;
        return;
    }
    maker->rows->list[maker->rows->count++] = row;
}

static void make_section(struct maker *maker, const char *path, enum policy_section which,
                         const void *section);

/* What an item of a list is called by: its id, its tenant, or its number. */
static void
name_item(enum policy_section which, const void *item, size_t at, char name[PATH_MAX_BYTES])
{
    const struct policy_quota *quota = item;

    if (which == POLICY_SECTION_RULE)
        (void)snprintf(name, PATH_MAX_BYTES, "%s", ((const struct policy_rule *)item)->id);
    else if (which == POLICY_SECTION_QUOTA)
        (void)snprintf(name, PATH_MAX_BYTES, "%s%s%s", quota->tenant,
                       quota->tier.text[0] == '\0' ? "" : "@", quota->tier.text);
    else if (which == POLICY_SECTION_TEST)
        (void)snprintf(name, PATH_MAX_BYTES, "%zu", at + 1);
    else
        (void)snprintf(name, PATH_MAX_BYTES, "%s", (const char *)item + sizeof(struct policy_head));
}

/* Their names in their order, which means something, and then each. */
static void
make_list(struct maker *maker, const char *path, const struct policy_key *key,
          const struct policy_list *list, const struct policy_place *place)
{
    const size_t size = policy_section_rows[key->nested].size;
    char name[PATH_MAX_BYTES];
    char below[PATH_MAX_BYTES];

    kvt_buffer_clear(&maker->text);
    for (size_t i = 0; i < list->count; i++) {
        name_item(key->nested, (const char *)list->items + i * size, i, name);
        kvt_buffer_printf(&maker->text, "%s%s", i == 0 ? "" : ", ", name);
    }
    if (key->nested == POLICY_SECTION_TIER || key->nested == POLICY_SECTION_RULE)
        add(maker, path, key, place);
    for (size_t i = 0; i < list->count; i++) {
        const char *item = (const char *)list->items + i * size;

        name_item(key->nested, item, i, name);
        if (snprintf(below, sizeof(below), "%s.%s", path, name) < (int)sizeof(below))
            make_section(maker, below, key->nested, item);
    }
}

/* Defaults of a section that is not there say nothing, but for those that hold all the same. */
static bool
is_shown(const struct policy_key *key, const struct policy_head *head)
{
    return head->place.line != 0 || key->section == POLICY_SECTION_FILE ||
           key->nested == POLICY_SECTION_LIMITS;
}

/* What a rule has from defaults that means nothing for what it does. */
static bool
is_idle(enum policy_section which, const void *section, const struct policy_key *key,
        const struct policy_place *place)
{
    const struct policy_rule *rule = section;
    bool drains;
    bool moves;

    if (which != POLICY_SECTION_RULE || place->origin == POLICY_WRITTEN)
        return false;
    drains = rule->verb == POLICY_DEMOTE || rule->verb == POLICY_EXPIRE;
    moves = drains || rule->verb == POLICY_PROMOTE;
    if (strcmp(key->key, "protect_recent") == 0)
        return !drains;
    if (strcmp(key->key, "promote_by") == 0)
        return rule->verb != POLICY_PROMOTE;
    if (strcmp(key->key, "order_by") == 0)
        return !moves;
    return key->nested == POLICY_SECTION_LIMITS && !moves && rule->verb != POLICY_COMPACT;
}

static void
make_section(struct maker *maker, const char *path, enum policy_section which, const void *section)
{
    const struct policy_head *head = section;
    const struct policy_key *key;
    char below[PATH_MAX_BYTES];

    for (size_t i = 0; (key = policy_key_at(which, i)) != NULL; i++) {
        const void *value = (const char *)section + key->offset;

        if (is_idle(which, section, key, &head->keys[i]))
            continue;
        if (which == POLICY_SECTION_CLASS)
            (void)snprintf(below, sizeof(below), "%s", path);
        else if (snprintf(below, sizeof(below), "%s%s%s", path, path[0] == '\0' ? "" : ".",
                          key->key) >= (int)sizeof(below))
            continue;
        if (key->type == POLICY_KEY_LIST || key->type == POLICY_KEY_MAP) {
            make_list(maker, below, key, value, &head->keys[i]);
        } else if (key->type == POLICY_KEY_SECTION) {
            if (is_shown(key, value))
                make_section(maker, below, key->nested, value);
        } else if (head->keys[i].origin != POLICY_UNSET) {
            kvt_buffer_clear(&maker->text);
            policy_key_format(key, section, &maker->text);
            add(maker, below, key, &head->keys[i]);
        }
    }
}

enum kvt_err
policy_rows_make(struct policy_rows *rows, const struct policy *policy)
{
    struct maker maker = {.rows = rows, .rc = KVT_OK};

    *rows = (struct policy_rows){.list = NULL};
    kvt_buffer_init(&maker.text, POLICY_ROW_MAX);
    make_section(&maker, "", POLICY_SECTION_FILE, policy);
    kvt_buffer_release(&maker.text);
    return maker.rc;
}

void
policy_rows_release(struct policy_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        kvt_free(rows->list[i].path);
        kvt_free(rows->list[i].value);
    }
    kvt_free(rows->list);
    *rows = (struct policy_rows){.list = NULL};
}

const char *
policy_origin_text(enum policy_origin origin)
{
    static const char *const texts[] = {
        [POLICY_UNSET] = "unset",         [POLICY_BUILT_IN] = "built in",
        [POLICY_INHERITED] = "inherited", [POLICY_INFERRED] = "inferred",
        [POLICY_WRITTEN] = "written",     [POLICY_BROKEN] = "broken",
    };

    return texts[origin];
}

/* ---- comparing them ---- */

static const struct policy_row *
find(const struct policy_rows *rows, const char *path)
{
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->list[i].path, path) == 0)
            return &rows->list[i];
    return NULL;
}

/* First what the first has, then what only the second has. */
bool
policy_rows_differ(const struct policy_rows *before, const struct policy_rows *after,
                   size_t *cursor, struct policy_difference *difference)
{
    for (; *cursor < before->count; ++*cursor) {
        const struct policy_row *row = &before->list[*cursor];
        const struct policy_row *other = find(after, row->path);

        if (other != NULL && strcmp(row->value, other->value) == 0)
            continue;
        *difference = (struct policy_difference){row, other};
        ++*cursor;
        return true;
    }
    for (; *cursor < before->count + after->count; ++*cursor) {
        const struct policy_row *row = &after->list[*cursor - before->count];

        if (find(before, row->path) != NULL)
            continue;
        *difference = (struct policy_difference){NULL, row};
        ++*cursor;
        return true;
    }
    *difference = (struct policy_difference){NULL, NULL};
    return false;
}
