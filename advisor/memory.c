#include "advisor/memory.h"

#include "base/log.h"

enum { LOAD_PAGE = 65536 };

static void
store(struct advisor_memory *memory, uint32_t ns, uint32_t holder, const struct index_block *block)
{
    const enum kvt_err rc =
        index_store(memory->index, advisor_names_index_namespace(memory->names, ns),
                    advisor_names_index_holder(memory->names, holder), block, NULL);

    if (rc == KVT_OK || atomic_load(&memory->spilled))
        return;
    /* Not only FULL: whatever keeps RAM from being a true copy, the store is one. */
    atomic_store(&memory->spilled, true);
    kvt_log_warn("advisor.memory", "spilled",
                 "the index no longer fits in memory (%s): questions are answered from disk until "
                 "the next start; raise index.max",
                 kvt_err_text(rc));
}

static enum kvt_err
load_block(void *arg, const struct advisor_store_block *row)
{
    struct advisor_memory *memory = arg;
    struct index_block block = {
        .id = {.hash = row->hash, .parent = row->parent, .position = row->position},
        .tokens_hash = row->tokens_hash,
        .size = row->size,
    };

    for (uint32_t i = 0; i < row->place_count; i++) {
        if (row->places[i].holder >= advisor_names_holder_count(memory->names))
            return KVT_CORRUPT;
        block.ranks = row->places[i].ranks;
        store(memory, row->ns, row->places[i].holder, &block);
    }
    return KVT_OK;
}

enum kvt_err
advisor_memory_load(struct advisor_memory *memory, const struct advisor_txn *txn)
{
    uint64_t next = 0;
    enum kvt_err rc;

    do
        rc = advisor_store_blocks(txn, next, LOAD_PAGE, &next, load_block, memory);
    while (rc == KVT_OK && next != 0);
    return rc;
}

void
advisor_memory_apply(struct advisor_memory *memory, const struct advisor_effect *effects,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct advisor_op *op = &effects[i].op;

        if (op->kind == ADVISOR_OP_STORE) {
            const struct index_block block = {
                .id = {.hash = op->hash,
                       .parent = effects[i].parent,
                       .position = effects[i].position},
                .tokens_hash = op->tokens_hash,
                .size = op->size,
                .ranks = op->ranks,
            };

            store(memory, op->ns, op->holder, &block);
        } else if (op->kind == ADVISOR_OP_REMOVE &&
                   index_remove(memory->index, advisor_names_index_namespace(memory->names, op->ns),
                                advisor_names_index_holder(memory->names, op->holder), op->hash,
                                op->ranks) != KVT_OK) {
            continue; /* it had not fitted */
        }
    }
}

bool
advisor_memory_whole(struct advisor_memory *memory)
{
    return !atomic_load(&memory->spilled);
}
