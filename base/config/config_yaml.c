#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/config/config_private.h"
#include "base/text/yaml.h"

/* One file being applied. */
struct load {
    struct kvt_config *config;
    struct kvt_error *err;
    bool seen[KVT_CONFIG_PARAMS_MAX];
};

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
unknown_key(const struct load *load, struct kvt_yaml_value place, const char *key)
{
    char names[KVT_CONFIG_PARAMS_MAX][KVT_CONFIG_KEY_MAX];
    const char *words[KVT_CONFIG_PARAMS_MAX];
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
    near = kvt_suggest(key, words, load->config->count);
    if (near != NULL)
        return kvt_yaml_refuse(place, load->err, "unknown key \"%s\" (did you mean \"%s\"?)", key,
                               near);
    return kvt_yaml_refuse(place, load->err, "unknown key \"%s\"", key);
}

static enum kvt_err
apply_value(struct load *load, size_t index, struct kvt_yaml_value name,
            struct kvt_yaml_value value)
{
    const char *key = load->config->params[index].key;
    const yaml_node_t *node = kvt_yaml_node(value);
    char where[KVT_YAML_WHERE_MAX];
    const char *text;

    if (load->seen[index])
        return kvt_yaml_refuse(name, load->err, "%s is given twice", key);
    load->seen[index] = true;
    if (node->type != YAML_SCALAR_NODE)
        return kvt_yaml_refuse(value, load->err, "%s wants one value, not a list or a section",
                               key);
    if (kvt_yaml_is_null(value))
        return KVT_OK; /* "port:" alone leaves what was there */
    text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length)
        return kvt_yaml_refuse(value, load->err, "%s has a NUL byte in its value", key);
    kvt_yaml_where(value, where);
    return kvt_config_assign(load->config, index, text, KVT_ORIGIN_FILE, where, load->err);
}

/* Every section is the start of a known key, so the recursion is as deep as the table's longest key
 * has dots, whatever anchors and aliases the file plays with. */
static enum kvt_err
apply_section(struct load *load, struct kvt_yaml_value section, const char *prefix)
{
    const yaml_node_t *node = kvt_yaml_node(section);

    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const struct kvt_yaml_value name = {section.file, pair->key};
        const struct kvt_yaml_value value = {section.file, pair->value};
        const yaml_node_t *name_node = kvt_yaml_node(name);
        char key[KVT_CONFIG_KEY_MAX];
        enum kvt_err rc;
        size_t index;

        if (name_node->type != YAML_SCALAR_NODE)
            return kvt_yaml_refuse(name, load->err, "a key must be a word");
        if (snprintf(key, sizeof(key), "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".",
                     (const char *)name_node->data.scalar.value) >= (int)sizeof(key))
            return kvt_yaml_refuse(name, load->err, "unknown key, and a very long one");
        if (find_key(load, key, &index)) {
            rc = apply_value(load, index, name, value);
        } else if (!is_section(load, key)) {
            rc = unknown_key(load, name, key);
        } else if (kvt_yaml_node(value)->type == YAML_MAPPING_NODE) {
            rc = apply_section(load, value, key);
        } else if (kvt_yaml_is_null(value)) {
            rc = KVT_OK; /* a section with every line commented out */
        } else {
            rc =
                kvt_yaml_refuse(value, load->err, "%s is a section: indent its keys under it", key);
        }
        if (rc != KVT_OK)
            return rc;
    }
    return KVT_OK;
}

enum kvt_err
kvt_config_load_file(struct kvt_config *config, const char *path, struct kvt_error *err)
{
    struct load load = {.config = config, .err = err};
    struct kvt_yaml_value root;
    struct kvt_yaml *file;
    enum kvt_err rc;

    rc = kvt_yaml_load(&file, path, &root, err);
    if (rc != KVT_OK)
        return rc;
    if (root.node == 0 || kvt_yaml_is_null(root))
        rc = KVT_OK; /* every line is commented out */
    else if (kvt_yaml_node(root)->type == YAML_MAPPING_NODE)
        rc = apply_section(&load, root, "");
    else
        rc = kvt_yaml_refuse(root, err, "a settings file is made of \"key: value\" lines");
    kvt_yaml_free(file);
    return rc;
}
