/*
 * policy/file/policy_schema.h -- the table of keys for editors (JSON Schema) and for people
 * (Markdown).
 *
 * Why: what an editor completes and what the manual says is what the reader accepts.
 * Limits:    POLICY_SCHEMA_MAX bytes.
 */
#ifndef POLICY_FILE_POLICY_SCHEMA_H
#define POLICY_FILE_POLICY_SCHEMA_H

#include "base/core/buffer.h"

#define POLICY_SCHEMA_MAX (1u << 20)

/** JSON Schema, draft 2020-12. */
void policy_schema_print(struct kvt_buffer *out);

/** Tables in Markdown: each section's keys, and the facts. */
void policy_schema_print_markdown(struct kvt_buffer *out);

#endif /* POLICY_FILE_POLICY_SCHEMA_H */
