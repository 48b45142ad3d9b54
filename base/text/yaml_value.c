#include <ctype.h>
#include <string.h>
#include <yaml.h>

#include "base/text/yaml.h"

enum kvt_yaml_kind
kvt_yaml_kind(struct kvt_yaml_value value)
{
    const yaml_node_t *node = kvt_yaml_node(value);

    if (node == NULL)
        return KVT_YAML_NONE;
    switch (node->type) {
    case YAML_SCALAR_NODE: return KVT_YAML_SCALAR;
    case YAML_SEQUENCE_NODE: return KVT_YAML_SEQUENCE;
    case YAML_MAPPING_NODE: return KVT_YAML_MAPPING;
    case YAML_NO_NODE: break;
    }
    return KVT_YAML_NONE;
}

const char *
kvt_yaml_text(struct kvt_yaml_value value)
{
    const yaml_node_t *node = kvt_yaml_node(value);

    if (node == NULL || node->type != YAML_SCALAR_NODE ||
        strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
        return NULL;
    return (const char *)node->data.scalar.value;
}

bool
kvt_yaml_pair(struct kvt_yaml_value section, size_t at, struct kvt_yaml_value *key,
              struct kvt_yaml_value *value)
{
    const yaml_node_t *node = kvt_yaml_node(section);

    *key = *value = (struct kvt_yaml_value){section.file, 0};
    if (node == NULL || node->type != YAML_MAPPING_NODE ||
        at >= (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start))
        return false;
    key->node = node->data.mapping.pairs.start[at].key;
    value->node = node->data.mapping.pairs.start[at].value;
    return true;
}

struct kvt_yaml_mark
kvt_yaml_mark(struct kvt_yaml_value value)
{
    const yaml_node_t *node = kvt_yaml_node(value);

    if (node == NULL)
        return (struct kvt_yaml_mark){1, 1};
    return (struct kvt_yaml_mark){node->start_mark.line + 1, node->start_mark.column + 1};
}

/* A walk through the text of the document. */
struct walk {
    const char *source;
    size_t size;
    size_t at;
    struct kvt_yaml_mark mark;
};

static void
step(struct walk *walk)
{
    /* A byte that goes on with a character makes no column. */
    if (walk->source[walk->at] == '\n')
        walk->mark = (struct kvt_yaml_mark){walk->mark.line + 1, 1};
    else if (walk->at + 1 >= walk->size || (walk->source[walk->at + 1] & 0xc0) != 0x80)
        walk->mark.column++;
    walk->at++;
}

static bool
is_blank(char byte)
{
    return isspace((unsigned char)byte) != 0;
}

/* Blanks may be folded, line breaks become blanks; all other bytes of a scalar stand in the
 * document as they are, in their order, but for escapes. */
struct kvt_yaml_mark
kvt_yaml_mark_at(struct kvt_yaml_value value, size_t offset)
{
    const yaml_node_t *node = kvt_yaml_node(value);
    const struct kvt_yaml_mark start = kvt_yaml_mark(value);
    const char *text = kvt_yaml_text(value);
    struct walk walk = {.mark = {1, 1}};
    size_t wanted = 0; /* bytes before it that are no blanks */

    if (node == NULL || text == NULL || offset > strlen(text))
        return start;
    for (size_t i = 0; i < offset; i++)
        wanted += is_blank(text[i]) ? 0 : 1;
    walk.source = kvt_yaml_source(value, &walk.size);
    while (walk.at < walk.size && (walk.mark.line < start.line || walk.mark.column < start.column))
        step(&walk);
    if (node->data.scalar.style == YAML_LITERAL_SCALAR_STYLE ||
        node->data.scalar.style == YAML_FOLDED_SCALAR_STYLE) {
        while (walk.at < walk.size && walk.source[walk.at] != '\n')
            step(&walk);
    } else if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE && walk.at < walk.size) {
        step(&walk);
    }
    while (walk.at < walk.size && wanted > 0) {
        wanted -= is_blank(walk.source[walk.at]) ? 0 : 1;
        step(&walk);
    }
    /* At the end of the text the place is right behind it. */
    while (text[offset] != '\0' && !is_blank(text[offset]) && walk.at < walk.size &&
           is_blank(walk.source[walk.at]))
        step(&walk);
    return walk.at < walk.size || wanted == 0 ? walk.mark : start;
}
