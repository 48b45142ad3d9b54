#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/config_private.h"
#include "base/file.h"

/* One file being applied. */
struct load {
    struct kvt_config *config;
    const char *path;
    yaml_document_t *document;
    struct kvt_error *err;
    bool seen[KVT_CONFIG_PARAMS_MAX];
};

enum { PATH_SHOWN_MAX = 96, WHERE_MAX = PATH_SHOWN_MAX + 48 };

/* The end of a long path is what tells files apart, and line and column must not be cut off. */
static void
format_where(const struct load *load, const yaml_mark_t *mark, char where[WHERE_MAX])
{
    const size_t size = strlen(load->path);
    const bool cut = size > PATH_SHOWN_MAX;

    (void)snprintf(where, WHERE_MAX, "%s%s:%zu:%zu", cut ? "..." : "",
                   cut ? load->path + size - PATH_SHOWN_MAX : load->path, mark->line + 1,
                   mark->column + 1);
}

static enum kvt_err
refuse(const struct load *load, const yaml_mark_t *mark, const char *what, const char *key)
{
    char where[WHERE_MAX];

    format_where(load, mark, where);
    return kvt_error_set(load->err, KVT_INVALID, "%s: %s%s%s", where, key,
                         key[0] == '\0' ? "" : " ", what);
}

static bool
is_null(const yaml_node_t *node)
{
    const char *text;

    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    text = (const char *)node->data.scalar.value;
    return text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

static bool
find_key(const struct load *load, const char *key, size_t *index)
{
    for (*index = 0; *index < load->config->count; ++*index)
        if (strcmp(load->config->params[*index].key, key) == 0)
            return true;
    return false;
}

static bool
is_section(const struct load *load, const char *key)
{
    const size_t size = strlen(key);

    for (size_t i = 0; i < load->config->count; i++)
        if (strncmp(load->config->params[i].key, key, size) == 0 &&
            load->config->params[i].key[size] == '.')
            return true;
    return false;
}

/* The nearest of what could stand here: every key, cut to as many parts as `key` has. */
static enum kvt_err
unknown_key(const struct load *load, const yaml_mark_t *mark, const char *key)
{
    char names[KVT_CONFIG_PARAMS_MAX][KVT_CONFIG_KEY_MAX];
    const char *words[KVT_CONFIG_PARAMS_MAX];
    char where[WHERE_MAX];
    const char *near;
    size_t dots = 0;

    for (const char *at = key; *at != '\0'; at++)
        dots += *at == '.' ? 1 : 0;
    for (size_t i = 0; i < load->config->count; i++) {
        char *at = names[i];

        (void)snprintf(names[i], sizeof(names[i]), "%s", load->config->params[i].key);
        for (size_t left = dots + 1; *at != '\0'; at++) {
            if (*at == '.' && --left == 0) {
                *at = '\0';
                break;
            }
        }
        words[i] = names[i];
    }
    format_where(load, mark, where);
    near = kvt_suggest(key, words, load->config->count);
    if (near != NULL)
        return kvt_error_set(load->err, KVT_INVALID,
                             "%s: unknown key \"%s\" (did you mean \"%s\"?)", where, key, near);
    return kvt_error_set(load->err, KVT_INVALID, "%s: unknown key \"%s\"", where, key);
}

static enum kvt_err
apply_value(struct load *load, size_t index, const yaml_node_t *key_node, const yaml_node_t *value)
{
    const char *key = load->config->params[index].key;
    char where[WHERE_MAX];

    if (load->seen[index])
        return refuse(load, &key_node->start_mark, "is given twice", key);
    load->seen[index] = true;
    if (value->type != YAML_SCALAR_NODE)
        return refuse(load, &value->start_mark, "wants one value, not a list or a section", key);
    if (is_null(value))
        return KVT_OK; /* "port:" alone leaves what was there */
    if (strlen((const char *)value->data.scalar.value) != value->data.scalar.length)
        return refuse(load, &value->start_mark, "has a NUL byte in its value", key);
    format_where(load, &value->start_mark, where);
    return kvt_config_assign(load->config, index, (const char *)value->data.scalar.value,
                             KVT_ORIGIN_FILE, where, load->err);
}

/* Every section is the start of a known key, so the recursion is as deep as the table's longest key
 * has dots, whatever anchors and aliases the file plays with. */
static enum kvt_err
apply_section(struct load *load, const yaml_node_t *section, const char *prefix)
{
    const yaml_node_pair_t *pair = section->data.mapping.pairs.start;

    for (; pair < section->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key_node = yaml_document_get_node(load->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(load->document, pair->value);
        char key[KVT_CONFIG_KEY_MAX];
        enum kvt_err rc;
        size_t index;

        if (key_node->type != YAML_SCALAR_NODE)
            return refuse(load, &key_node->start_mark, "a key must be a word", "");
        if (snprintf(key, sizeof(key), "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".",
                     (const char *)key_node->data.scalar.value) >= (int)sizeof(key))
            return refuse(load, &key_node->start_mark, "unknown key, and a very long one", "");
        if (find_key(load, key, &index)) {
            rc = apply_value(load, index, key_node, value);
        } else if (!is_section(load, key)) {
            rc = unknown_key(load, &key_node->start_mark, key);
        } else if (value->type == YAML_MAPPING_NODE) {
            rc = apply_section(load, value, key);
        } else if (is_null(value)) {
            rc = KVT_OK; /* a section with every line commented out */
        } else {
            rc = refuse(load, &value->start_mark, "is a section: indent its keys under it", key);
        }
        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

/* What libyaml says about text that is no YAML. */
static enum kvt_err
syntax_error(const struct load *load, const yaml_parser_t *parser, const char *bytes, size_t size)
{
    yaml_mark_t mark = parser->problem_mark;

    if (parser->error == YAML_MEMORY_ERROR)
        return kvt_error_set(load->err, KVT_NOMEM, "%s: out of memory", load->path);
    if (parser->error == YAML_READER_ERROR) {
        /* The reader knows only how many bytes it had passed. */
        mark = (yaml_mark_t){0};
        for (size_t i = 0; i < size && i < parser->problem_offset; i++) {
            mark.column = bytes[i] == '\n' ? 0 : mark.column + 1;
            mark.line += bytes[i] == '\n' ? 1 : 0;
        }
    }
    return refuse(load, &mark, parser->problem == NULL ? "not YAML" : parser->problem, "");
}

static enum kvt_err
apply_documents(struct load *load, yaml_parser_t *parser, const char *bytes, size_t size)
{
    yaml_document_t document;
    const yaml_node_t *root;
    enum kvt_err rc = KVT_OK;

    load->document = &document;
    for (int i = 0; rc == KVT_OK; i++) {
        if (!yaml_parser_load(parser, &document)) {
            rc = syntax_error(load, parser, bytes, size);
            break;
        }
        root = yaml_document_get_root_node(&document);
        if (root == NULL) {
            yaml_document_delete(&document);
            break; /* the end; at once for an empty file */
        }
        if (i > 0)
            rc = refuse(load, &root->start_mark, "a second document", "");
        else if (root->type == YAML_MAPPING_NODE)
            rc = apply_section(load, root, "");
        else if (!is_null(root))
            rc = refuse(load, &root->start_mark, "a settings file is made of \"key: value\" lines",
                        "");
        yaml_document_delete(&document);
    }
    load->document = NULL;
    return rc;
}

enum kvt_err
kvt_config_load_file(struct kvt_config *config, const char *path, struct kvt_error *err)
{
    struct load load = {.config = config, .path = path, .err = err};
    yaml_parser_t parser;
    enum kvt_err rc;
    size_t size;
    char *bytes;

    rc = kvt_file_read(&bytes, &size, path, KVT_CONFIG_FILE_MAX, err);
    if (rc != KVT_OK)
        return rc;
    if (!yaml_parser_initialize(&parser)) {
        kvt_free(bytes);
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", path);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, size);
    rc = apply_documents(&load, &parser, bytes, size);
    yaml_parser_delete(&parser);
    kvt_free(bytes);
    return rc;
}
