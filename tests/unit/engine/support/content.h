/*
 * tests/unit/engine/support/content.h -- bytes that say whose they are, in any layout and TP size.
 *
 * Why: what a block means does not depend on where its bytes lie.  Content number n has its own
 * bytes for every layer, outer part, head of the model and token; whoever has a block of whatever
 * layout and rank can say whether it is content n.
 *
 * Ownership: bytes are borrowed: the packed bytes of one block (kvbm/layout/block_layout.h).
 * Threads:   no shared state.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_CONTENT_H
#define TESTS_UNIT_ENGINE_SUPPORT_CONTENT_H

#include <stdbool.h>

#include "kvbm/layout/block_layout.h"

/** Layers [layer, layer + layers) of content `number`. */
void content_fill_layers(const struct kvbm_layout *layout, void *block, uint64_t number,
                         uint32_t layer, uint32_t layers);
bool content_is_layers(const struct kvbm_layout *layout, const void *block, uint64_t number,
                       uint32_t layer, uint32_t layers);

/** All of them. */
void content_fill(const struct kvbm_layout *layout, void *block, uint64_t number);
bool content_is(const struct kvbm_layout *layout, const void *block, uint64_t number);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_CONTENT_H */
