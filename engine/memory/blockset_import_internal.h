/*
 * engine/memory/blockset_import_internal.h -- what is behind the name of
 * engine/memory/blockset_import.h.
 *
 * Why: blockset_import.c knows sets and shapes, blockset_import_read.c how blocks are read and
 * judged.
 * Ownership: as engine/memory/blockset_import.h.
 * Threads:   an import never changes.
 * Limits:    as engine/memory/blockset_import.h.
 */
#ifndef ENGINE_MEMORY_BLOCKSET_IMPORT_INTERNAL_H
#define ENGINE_MEMORY_BLOCKSET_IMPORT_INTERNAL_H

#include "engine/memory/blockset_import.h"
#include "engine/memory/blockset_shape.h"

struct engine_import {
    struct engine_blockset_shape shape;
    uint64_t nonce;
    struct engine_fabric *fabric;
    struct engine_window *window;
    const uint8_t *memory; /* the window's; NULL: reads go through the fabric */
};

#endif /* ENGINE_MEMORY_BLOCKSET_IMPORT_INTERNAL_H */
