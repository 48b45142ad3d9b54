/*
 * base/text/yaml_node.h -- nodes of a document, for the reader of settings
 * (base/config/config_yaml.c).
 *
 * Why: its keys are paths through sections, which no table of fields can say.
 * Ownership: as base/text/yaml.h.
 * Threads:   as base/text/yaml.h.
 * Limits:    a place names the last KVT_YAML_PATH_SHOWN_MAX bytes of the path.
 */
#ifndef BASE_TEXT_YAML_NODE_H
#define BASE_TEXT_YAML_NODE_H

#include <yaml.h>

#include "base/text/yaml.h"

#define KVT_YAML_PATH_SHOWN_MAX 96
#define KVT_YAML_WHERE_MAX      (KVT_YAML_PATH_SHOWN_MAX + 48)

/** NULL for none. */
const yaml_node_t *kvt_yaml_node(struct kvt_yaml_value value);

/** The whole text of the document. */
const char *kvt_yaml_source(struct kvt_yaml_value value, size_t *size);

/** "file:line:column". */
void kvt_yaml_where(struct kvt_yaml_value value, char where[KVT_YAML_WHERE_MAX]);

#endif /* BASE_TEXT_YAML_NODE_H */
