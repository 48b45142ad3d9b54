#include "advisor/rule/block_facts.h"

#include <stdio.h>
#include <string.h>

uint64_t
advisor_block_facts_fill(uint64_t used_bytes, uint64_t capacity_bytes)
{
    return capacity_bytes == 0
               ? 0
               : (uint64_t)((unsigned __int128)used_bytes * 1000000 / capacity_bytes);
}

/* Part number `at` of "a/b/c"; "" where there is none. */
static void
take_part(const char *namespace_, int at, char part[KVT_NAMESPACE_MAX])
{
    const char *end;

    for (; at > 0 && namespace_ != NULL; at--) {
        namespace_ = strchr(namespace_, '/');
        if (namespace_ != NULL)
            namespace_++;
    }
    part[0] = '\0';
    if (namespace_ == NULL)
        return;
    end = strchrnul(namespace_, '/');
    (void)snprintf(part, KVT_NAMESPACE_MAX, "%.*s", (int)(end - namespace_), namespace_);
}

/* Clocks differ: what is of a moment to come is of now. */
static uint64_t
since(uint64_t now_ms, uint64_t then_ms)
{
    return then_ms < now_ms ? now_ms - then_ms : 0;
}

static void
note_prefix(struct advisor_block_facts *out, const struct advisor_rules *rules, uint64_t hash)
{
    for (size_t i = 0; i < rules->prefix_count; i++)
        if (rules->prefixes[i] == hash)
            out->prefixes[out->facts.prefix_count++] = hash;
}

/* Which of the hashes that the policy asks for the block is, or comes behind.  A gateway does not
 * know parents: the index may have heard of them from workers. */
static void
find_prefixes(struct advisor_block_facts *out, const struct advisor_block_facts_source *source)
{
    const struct advisor_rules *rules = source->rules;
    uint64_t hash = source->block->hash;
    uint64_t parent = source->block->parent;

    for (int i = 0; i < ADVISOR_BLOCK_FACTS_ANCESTORS_MAX; i++) {
        struct index_view view;

        note_prefix(out, rules, hash);
        if (source->index != NULL &&
            index_get(source->index, source->index_ns, hash, &view) == KVT_OK)
            parent = view.block.id.parent;
        /* Each hash once, also where a chain comes back to itself. */
        if (parent == 0 || out->facts.prefix_count == rules->prefix_count)
            return;
        hash = parent;
        parent = 0;
    }
}

void
advisor_block_facts_of(struct advisor_block_facts *out,
                       const struct advisor_block_facts_source *source)
{
    const struct advisor_store_block *block = source->block;

    out->facts = (struct policy_facts){
        .depth = block->position,
        .hits = block->hits,
        .cold_hits = block->cold_hits,
        .last_access_ms = since(source->now_ms, block->touched_ms),
        /* Rows of before the time was kept: they are at least as old as this. */
        .age_ms =
            since(source->now_ms, block->stored_ms == 0 ? block->touched_ms : block->stored_ms),
        .size = block->size * (uint64_t)__builtin_popcount(source->ranks),
        .fill_ppm = source->fill_ppm,
        .tenant = out->tenant,
        .namespace_ = source->namespace_,
        .model = out->model,
        .tier = source->tier,
        .pinned = source->pinned,
        .prefixes = out->prefixes,
    };
    take_part(source->namespace_, 0, out->tenant);
    take_part(source->namespace_, 1, out->model);
    if (source->index != NULL && !source->no_fanout)
        out->facts.fanout = index_children(source->index, source->index_ns, block->hash, NULL, 0);
    if (source->rules->prefix_count > 0)
        find_prefixes(out, source);
}
