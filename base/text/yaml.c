#include "base/text/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/text/parse.h"

enum {
    CHOICES_MAX = 256,
    WORDS_MAX = 32,
};

struct kvt_yaml {
    yaml_document_t document;
    bool loaded;
    char *source;
    size_t source_size;
    char path[]; /* as given */
};

/* The end of a long path is what tells files apart, and line and column must not be cut off. */
static void
format_where(const struct kvt_yaml *file, const yaml_mark_t *mark, char where[KVT_YAML_WHERE_MAX])
{
    const size_t size = strlen(file->path);
    const bool cut = size > KVT_YAML_PATH_SHOWN_MAX;

    (void)snprintf(where, KVT_YAML_WHERE_MAX, "%s%s:%zu:%zu", cut ? "..." : "",
                   cut ? file->path + size - KVT_YAML_PATH_SHOWN_MAX : file->path, mark->line + 1,
                   mark->column + 1);
}

const struct yaml_node_s *
kvt_yaml_node(struct kvt_yaml_value value)
{
    return value.node == 0 ? NULL : yaml_document_get_node(&value.file->document, value.node);
}

const char *
kvt_yaml_source(struct kvt_yaml_value value, size_t *size)
{
    *size = value.file->source_size;
    return value.file->source;
}

bool
kvt_yaml_is_null(struct kvt_yaml_value value)
{
    const yaml_node_t *node = kvt_yaml_node(value);
    const char *text;

    if (node == NULL)
        return true;
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    text = (const char *)node->data.scalar.value;
    return text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

void
kvt_yaml_where(struct kvt_yaml_value value, char where[KVT_YAML_WHERE_MAX])
{
    const yaml_node_t *node = kvt_yaml_node(value);
    const yaml_mark_t start = {0};

    format_where(value.file, node == NULL ? &start : &node->start_mark, where);
}

enum kvt_err
kvt_yaml_refuse(struct kvt_yaml_value value, struct kvt_error *err, const char *format, ...)
{
    char text[KVT_ERROR_TEXT_MAX];
    char where[KVT_YAML_WHERE_MAX];
    va_list args;

    kvt_yaml_where(value, where);
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return kvt_error_set(err, KVT_INVALID, "%s: %s", where, text);
}

/* ---- loading ---- */

static enum kvt_err
syntax_error(const struct kvt_yaml *file, const yaml_parser_t *parser, struct kvt_yaml_mark *place,
             struct kvt_error *err)
{
    yaml_mark_t mark = parser->problem_mark;
    char where[KVT_YAML_WHERE_MAX];
    char within[KVT_YAML_WHERE_MAX] = "";

    if (parser->error == YAML_MEMORY_ERROR)
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", file->path);
    if (parser->error == YAML_READER_ERROR) {
        /* The reader knows only how many bytes it had passed. */
        mark = (yaml_mark_t){0};
        for (size_t i = 0; i < file->source_size && i < parser->problem_offset; i++) {
            mark.column = file->source[i] == '\n' ? 0 : mark.column + 1;
            mark.line += file->source[i] == '\n' ? 1 : 0;
        }
    }
    *place = (struct kvt_yaml_mark){mark.line + 1, mark.column + 1};
    format_where(file, &mark, where);
    if (parser->context != NULL && parser->error != YAML_READER_ERROR)
        (void)snprintf(within, sizeof(within), ", %s that begins in line %zu", parser->context,
                       parser->context_mark.line + 1);
    else if (parser->problem != NULL && strncmp(parser->problem, "mapping values", 14) == 0)
        (void)snprintf(within, sizeof(within), ": is a blank missing behind a colon before it?");
    return kvt_error_set(err, KVT_INVALID, "%s: %s%s", where,
                         parser->problem == NULL ? "not YAML" : parser->problem, within);
}

/* ---- limits ---- */

static enum kvt_err refuse_mark(const struct kvt_yaml *file, const yaml_mark_t *mark,
                                struct kvt_yaml_mark *place, struct kvt_error *err,
                                const char *format, ...) KVT_PRINTF(5, 6);

static enum kvt_err
refuse_mark(const struct kvt_yaml *file, const yaml_mark_t *mark, struct kvt_yaml_mark *place,
            struct kvt_error *err, const char *format, ...)
{
    char text[KVT_ERROR_TEXT_MAX];
    char where[KVT_YAML_WHERE_MAX];
    va_list args;

    *place = (struct kvt_yaml_mark){mark->line + 1, mark->column + 1};
    format_where(file, mark, where);
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return kvt_error_set(err, KVT_INVALID, "%s: %s", where, text);
}

/* What the tokens so far add up to. */
struct shape {
    unsigned depth;
    unsigned anchors;
    unsigned aliases;
    unsigned values;
};

static enum kvt_err
count_token(const struct kvt_yaml *file, const yaml_token_t *token, struct shape *shape,
            struct kvt_yaml_mark *place, struct kvt_error *err)
{
    const yaml_mark_t *mark = &token->start_mark;

    switch (token->type) {
    case YAML_TAG_DIRECTIVE_TOKEN:
        return refuse_mark(file, mark, place, err, "%%TAG is not supported: remove the line");
    case YAML_FLOW_SEQUENCE_START_TOKEN:
    case YAML_FLOW_MAPPING_START_TOKEN:
    case YAML_BLOCK_SEQUENCE_START_TOKEN:
    case YAML_BLOCK_MAPPING_START_TOKEN:
        if (++shape->depth > KVT_YAML_DEPTH_MAX)
            return refuse_mark(file, mark, place, err, "nested deeper than %d levels",
                               KVT_YAML_DEPTH_MAX);
        shape->values++;
        break;
    case YAML_FLOW_SEQUENCE_END_TOKEN:
    case YAML_FLOW_MAPPING_END_TOKEN:
    case YAML_BLOCK_END_TOKEN: shape->depth -= shape->depth > 0 ? 1 : 0; break;
    case YAML_ANCHOR_TOKEN: shape->anchors++; break;
    case YAML_ALIAS_TOKEN: shape->aliases++; break;
    case YAML_SCALAR_TOKEN: shape->values++; break;
    /* A key, a value or an element that is left empty becomes a node too. */
    case YAML_KEY_TOKEN:
    case YAML_VALUE_TOKEN:
    case YAML_BLOCK_ENTRY_TOKEN:
    case YAML_FLOW_ENTRY_TOKEN:
    case YAML_TAG_TOKEN:
    case YAML_NO_TOKEN:
    case YAML_STREAM_START_TOKEN:
    case YAML_STREAM_END_TOKEN:
    case YAML_VERSION_DIRECTIVE_TOKEN:
    case YAML_DOCUMENT_START_TOKEN:
    case YAML_DOCUMENT_END_TOKEN: break;
    }
    if (shape->anchors > KVT_YAML_ANCHORS_MAX)
        return refuse_mark(file, mark, place, err, "more than %d anchors", KVT_YAML_ANCHORS_MAX);
    if (shape->values + shape->aliases > KVT_YAML_VALUES_MAX)
        return refuse_mark(file, mark, place, err, "more than %u values", KVT_YAML_VALUES_MAX);
    return KVT_OK;
}

/*
 * Look through the tokens before anything is built of them.  libyaml takes time quadratic in the
 * depth, in the number of anchors and in that of %TAG lines, and copies a tag's prefix for every
 * value; its scanner alone reads at most 1024 characters ahead.  What is no YAML at all is left for
 * the parser to refuse, in its words.
 */
static enum kvt_err
check_tokens(const struct kvt_yaml *file, bool *aliases, struct kvt_yaml_mark *place,
             struct kvt_error *err)
{
    struct shape shape = {0};
    enum kvt_err rc = KVT_OK;
    yaml_parser_t parser;
    bool more = true;

    *aliases = false;
    if (!yaml_parser_initialize(&parser))
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", file->path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)file->source, file->source_size);
    while (more && rc == KVT_OK) {
        yaml_token_t token;

        if (!yaml_parser_scan(&parser, &token))
            break;
        more = token.type != YAML_STREAM_END_TOKEN && token.type != YAML_NO_TOKEN;
        rc = count_token(file, &token, &shape, place, err);
        yaml_token_delete(&token);
    }
    yaml_parser_delete(&parser);
    *aliases = shape.aliases > 0;
    return rc;
}

/* A list that is left off in a key's line counts no level of its own in the tokens. */
enum { LEVELS_MAX = 2 * KVT_YAML_DEPTH_MAX };

/* The node at `at` of a list, or key and value in turn of a section; 0 after the last. */
static int
child_at(const yaml_node_t *node, size_t at)
{
    if (node->type == YAML_SEQUENCE_NODE) {
        const yaml_node_item_t *item = node->data.sequence.items.start + at;

        return item < node->data.sequence.items.top ? *item : 0;
    }
    if (node->type == YAML_MAPPING_NODE) {
        const yaml_node_pair_t *pair = node->data.mapping.pairs.start + at / 2;

        if (pair < node->data.mapping.pairs.top)
            return at % 2 == 0 ? pair->key : pair->value;
    }
    return 0;
}

/* Walk through the document as a reader does, aliases followed: one that contains itself is
 * endless, and a few lines of them can stand for millions of values. */
static enum kvt_err
check_aliases(struct kvt_yaml *file, struct kvt_yaml_mark *place, struct kvt_error *err)
{
    struct {
        const yaml_node_t *node;
        size_t at;
    } levels[LEVELS_MAX] = {{.node = yaml_document_get_root_node(&file->document)}};
    size_t depth = 1;
    size_t values = 0;

    while (depth > 0) {
        const yaml_node_t *node = levels[depth - 1].node;
        const int child = child_at(node, levels[depth - 1].at++);

        if (child == 0) {
            depth--;
            continue;
        }
        if (++values > KVT_YAML_VALUES_MAX)
            return refuse_mark(file, &node->start_mark, place, err,
                               "aliases repeat more than %u values", KVT_YAML_VALUES_MAX);
        if (depth == LEVELS_MAX)
            return refuse_mark(file, &node->start_mark, place, err,
                               "aliases nest deeper than %d levels, or one contains itself",
                               LEVELS_MAX);
        levels[depth].node = yaml_document_get_node(&file->document, child);
        levels[depth++].at = 0;
    }
    return KVT_OK;
}

/* One document, and nothing behind it. */
static enum kvt_err
load_document(struct kvt_yaml *file, yaml_parser_t *parser, struct kvt_yaml_mark *place,
              struct kvt_error *err)
{
    yaml_document_t second;
    const yaml_node_t *root;
    bool aliases;
    enum kvt_err rc = check_tokens(file, &aliases, place, err);

    if (rc != KVT_OK)
        return rc;
    if (!yaml_parser_load(parser, &file->document))
        return syntax_error(file, parser, place, err);
    file->loaded = true;
    if (yaml_document_get_root_node(&file->document) == NULL)
        return KVT_OK;
    if (aliases)
        rc = check_aliases(file, place, err);
    if (rc != KVT_OK)
        return rc;
    if (!yaml_parser_load(parser, &second))
        return syntax_error(file, parser, place, err);
    root = yaml_document_get_root_node(&second);
    if (root != NULL)
        rc = refuse_mark(file, &root->start_mark, place, err, "a second document");
    yaml_document_delete(&second);
    return rc;
}

/* `source` is taken over, whatever comes of it. */
static enum kvt_err
parse_source(struct kvt_yaml **out, const char *name, char *source, size_t size,
             struct kvt_yaml_value *root, struct kvt_yaml_mark *place, struct kvt_error *err)
{
    const size_t name_size = strlen(name) + 1;
    struct kvt_yaml *file = kvt_calloc(1, sizeof(*file) + name_size);
    yaml_parser_t parser;
    enum kvt_err rc;

    if (file == NULL) {
        kvt_free(source);
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", name);
    }
    memcpy(file->path, name, name_size);
    file->source = source;
    file->source_size = size;
    if (!yaml_parser_initialize(&parser)) {
        rc = kvt_error_set(err, KVT_NOMEM, "%s: out of memory", name);
        goto fail;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)source, size);
    rc = load_document(file, &parser, place, err);
    yaml_parser_delete(&parser);
    if (rc != KVT_OK)
        goto fail;
    /* The library numbers nodes from 1, the root first. */
    *root = (struct kvt_yaml_value){file, 0};
    if (yaml_document_get_root_node(&file->document) != NULL)
        root->node = 1;
    *out = file;
    return KVT_OK;

fail:
    kvt_yaml_free(file);
    return rc;
}

enum kvt_err
kvt_yaml_parse(struct kvt_yaml **out, const char *name, const char *text, size_t size,
               struct kvt_yaml_value *root, struct kvt_yaml_mark *mark, struct kvt_error *err)
{
    struct kvt_yaml_mark unused;
    char *source;

    if (mark == NULL)
        mark = &unused;
    *out = NULL;
    *root = (struct kvt_yaml_value){NULL, 0};
    *mark = (struct kvt_yaml_mark){0, 0};
    if (size > KVT_YAML_FILE_MAX)
        return kvt_error_set(err, KVT_RANGE, "%s: larger than %u bytes", name, KVT_YAML_FILE_MAX);
    source = kvt_calloc(1, size + 1);
    if (source == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", name);
    memcpy(source, text, size);
    return parse_source(out, name, source, size, root, mark, err);
}

enum kvt_err
kvt_yaml_load(struct kvt_yaml **out, const char *path, struct kvt_yaml_value *root,
              struct kvt_error *err)
{
    struct kvt_yaml_mark place;
    char *source;
    enum kvt_err rc;
    size_t size;

    *out = NULL;
    *root = (struct kvt_yaml_value){NULL, 0};
    rc = kvt_file_read(&source, &size, path, KVT_YAML_FILE_MAX, err);
    if (rc != KVT_OK)
        return rc;
    return parse_source(out, path, source, size, root, &place, err);
}

enum kvt_err
kvt_yaml_load_list(struct kvt_yaml **out, const char *path, const char *key,
                   struct kvt_yaml_value *list, struct kvt_error *err)
{
    const struct kvt_yaml_field field = {
        .key = key, .type = KVT_YAML_LIST, .target = list, .required = true};
    struct kvt_yaml_value root;
    enum kvt_err rc = kvt_yaml_load(out, path, &root, err);

    *list = (struct kvt_yaml_value){NULL, 0};
    if (rc == KVT_OK)
        rc = kvt_yaml_read(root, &field, 1, err);
    if (rc == KVT_OK)
        return rc;
    *list = (struct kvt_yaml_value){NULL, 0};
    kvt_yaml_free(*out);
    *out = NULL;
    return rc;
}

void
kvt_yaml_free(struct kvt_yaml *file)
{
    if (file == NULL)
        return;
    if (file->loaded)
        yaml_document_delete(&file->document);
    kvt_free(file->source);
    kvt_free(file);
}

/* ---- values ---- */

static enum kvt_err
read_text(struct kvt_yaml_value value, const struct kvt_yaml_field *field, const char *text,
          struct kvt_error *err)
{
    if (strlen(text) >= field->size)
        return kvt_yaml_refuse(value, err, "%s is longer than %zu bytes", field->key,
                               field->size - 1);
    memcpy(field->target, text, strlen(text) + 1);
    return KVT_OK;
}

static enum kvt_err
read_choice(struct kvt_yaml_value value, const struct kvt_yaml_field *field, const char *text,
            struct kvt_error *err)
{
    const char *words[WORDS_MAX];
    char choices[CHOICES_MAX];
    const char *near;
    size_t count = 0;
    char *rest = choices;

    (void)snprintf(choices, sizeof(choices), "%s", field->choices);
    while (rest != NULL && count < WORDS_MAX)
        words[count++] = strsep(&rest, "|");
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i], text) == 0)
            return read_text(value, field, text, err);
    near = kvt_suggest(text, words, count);
    if (near != NULL)
        return kvt_yaml_refuse(value, err, "%s: \"%s\" is none of %s (did you mean \"%s\"?)",
                               field->key, text, field->choices, near);
    return kvt_yaml_refuse(value, err, "%s: \"%s\" is none of %s", field->key, text,
                           field->choices);
}

static enum kvt_err
read_number(struct kvt_yaml_value value, const struct kvt_yaml_field *field, const char *text,
            struct kvt_error *err)
{
    uint64_t number = 0;
    const char *what = "a number";
    enum kvt_err rc;

    if (field->type == KVT_YAML_SIZE) {
        what = "a size such as 64MiB";
        rc = kvt_parse_size(text, &number);
    } else if (field->type == KVT_YAML_DURATION) {
        what = "a duration such as 500ms";
        rc = kvt_parse_duration(text, &number);
    } else {
        rc = kvt_parse_u64(text, &number);
    }
    if (rc == KVT_INVALID)
        return kvt_yaml_refuse(value, err, "%s: \"%s\" is not %s", field->key, text, what);
    if (rc != KVT_OK || number < field->min || (field->max != 0 && number > field->max))
        return kvt_yaml_refuse(value, err, "%s: \"%s\" is out of bounds", field->key, text);
    memcpy(field->target, &number, sizeof(number));
    return KVT_OK;
}

static enum kvt_err
read_scalar(struct kvt_yaml_value value, const struct kvt_yaml_field *field, struct kvt_error *err)
{
    const yaml_node_t *node = kvt_yaml_node(value);
    const char *text;
    uint32_t ppm;
    bool is;

    if (node->type != YAML_SCALAR_NODE)
        return kvt_yaml_refuse(value, err, "%s wants one value, not a list or a section",
                               field->key);
    text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length)
        return kvt_yaml_refuse(value, err, "%s has a NUL byte in its value", field->key);
    switch (field->type) {
    case KVT_YAML_STRING:
    case KVT_YAML_STRINGS: return read_text(value, field, text, err);
    case KVT_YAML_CHOICE: return read_choice(value, field, text, err);
    case KVT_YAML_U64:
    case KVT_YAML_SIZE:
    case KVT_YAML_DURATION: return read_number(value, field, text, err);
    case KVT_YAML_RATIO:
        if (kvt_parse_ratio(text, &ppm) != KVT_OK)
            return kvt_yaml_refuse(value, err, "%s: \"%s\" is not a ratio such as 85%%", field->key,
                                   text);
        memcpy(field->target, &ppm, sizeof(ppm));
        return KVT_OK;
    case KVT_YAML_BOOL:
        is = strcmp(text, "true") == 0;
        if (!is && strcmp(text, "false") != 0)
            return kvt_yaml_refuse(value, err, "%s: \"%s\" is neither true nor false", field->key,
                                   text);
        memcpy(field->target, &is, sizeof(is));
        return KVT_OK;
    case KVT_YAML_LIST:
    case KVT_YAML_SECTION: break;
    }
    return kvt_yaml_refuse(value, err, "%s is no scalar", field->key);
}

/* A text, or a list of texts without commas, which become one text with commas between them. */
static enum kvt_err
read_texts(struct kvt_yaml_value value, const struct kvt_yaml_field *field, struct kvt_error *err)
{
    const size_t count = kvt_yaml_count(value);
    char *target = field->target;
    size_t size = 0;

    if (kvt_yaml_node(value)->type == YAML_SCALAR_NODE)
        return read_scalar(value, field, err);
    if (kvt_yaml_node(value)->type != YAML_SEQUENCE_NODE)
        return kvt_yaml_refuse(value, err, "%s wants a text or a list of them", field->key);
    target[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct kvt_yaml_value element = kvt_yaml_at(value, i);
        const struct kvt_yaml_field one = {.key = field->key,
                                           .type = KVT_YAML_STRING,
                                           .target = target + size + (i > 0 ? 1 : 0),
                                           .size = field->size - size - (i > 0 ? 1 : 0)};
        enum kvt_err rc;

        if (size + 1 >= field->size)
            return kvt_yaml_refuse(element, err, "%s has too many texts", field->key);
        rc = read_scalar(element, &one, err);
        if (rc != KVT_OK)
            return rc;
        if (strchr(one.target, ',') != NULL)
            return kvt_yaml_refuse(element, err, "%s: a comma within a text of a list", field->key);
        if (i > 0)
            target[size] = ',';
        size += strlen(target + size);
    }
    return KVT_OK;
}

static enum kvt_err
read_field(struct kvt_yaml_value value, const struct kvt_yaml_field *field, struct kvt_error *err)
{
    const yaml_node_t *node = kvt_yaml_node(value);

    if (field->type == KVT_YAML_STRINGS)
        return read_texts(value, field, err);
    if (field->type != KVT_YAML_LIST && field->type != KVT_YAML_SECTION)
        return read_scalar(value, field, err);
    if (field->type == KVT_YAML_LIST && node->type != YAML_SEQUENCE_NODE)
        return kvt_yaml_refuse(value, err, "%s wants a list", field->key);
    if (field->type == KVT_YAML_SECTION && node->type != YAML_MAPPING_NODE)
        return kvt_yaml_refuse(value, err, "%s is a section: indent its keys under it", field->key);
    memcpy(field->target, &value, sizeof(value));
    return KVT_OK;
}

static enum kvt_err
unknown_key(struct kvt_yaml_value key, const char *text, const struct kvt_yaml_field *fields,
            size_t count, struct kvt_error *err)
{
    const char *words[KVT_YAML_FIELDS_MAX];
    const char *near;

    for (size_t i = 0; i < count; i++)
        words[i] = fields[i].key;
    near = kvt_suggest(text, words, count);
    if (near != NULL)
        return kvt_yaml_refuse(key, err, "unknown key \"%s\" (did you mean \"%s\"?)", text, near);
    return kvt_yaml_refuse(key, err, "unknown key \"%s\"", text);
}

/* One line of a section. */
static enum kvt_err
read_pair(struct kvt_yaml *file, const yaml_node_pair_t *pair, const struct kvt_yaml_field *fields,
          size_t count, bool *seen, struct kvt_error *err)
{
    const struct kvt_yaml_value key = {file, pair->key};
    const struct kvt_yaml_value value = {file, pair->value};
    const yaml_node_t *key_node = kvt_yaml_node(key);
    const char *text;
    size_t at = 0;

    if (key_node->type != YAML_SCALAR_NODE)
        return kvt_yaml_refuse(key, err, "a key must be a word");
    text = (const char *)key_node->data.scalar.value;
    while (at < count && strcmp(fields[at].key, text) != 0)
        at++;
    if (at == count)
        return unknown_key(key, text, fields, count, err);
    if (seen[at])
        return kvt_yaml_refuse(key, err, "%s is given twice", text);
    if (kvt_yaml_is_null(value))
        return KVT_OK; /* "port:" alone leaves what was there */
    seen[at] = true;
    return read_field(value, &fields[at], err);
}

enum kvt_err
kvt_yaml_read(struct kvt_yaml_value section, const struct kvt_yaml_field *fields, size_t count,
              struct kvt_error *err)
{
    const yaml_node_t *node = kvt_yaml_node(section);
    bool seen[KVT_YAML_FIELDS_MAX] = {false};
    enum kvt_err rc = KVT_OK;

    if (node == NULL || node->type != YAML_MAPPING_NODE)
        return kvt_yaml_refuse(section, err, "\"key: value\" lines are wanted here");
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top && rc == KVT_OK; pair++)
        rc = read_pair(section.file, pair, fields, count, seen, err);
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        if (fields[i].given != NULL)
            *fields[i].given = seen[i];
        if (fields[i].required && !seen[i])
            rc = kvt_yaml_refuse(section, err, "%s is missing", fields[i].key);
    }
    return rc;
}

size_t
kvt_yaml_count(struct kvt_yaml_value list)
{
    const yaml_node_t *node = kvt_yaml_node(list);

    if (node == NULL || node->type != YAML_SEQUENCE_NODE)
        return 0;
    return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

struct kvt_yaml_value
kvt_yaml_at(struct kvt_yaml_value list, size_t at)
{
    const yaml_node_t *node = kvt_yaml_node(list);

    return (struct kvt_yaml_value){list.file, node->data.sequence.items.start[at]};
}
