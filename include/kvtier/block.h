/*
 * kvtier/block.h -- what a block is, everywhere.
 *
 * Why: workers, advisor, gateway and CLI must mean the same thing by "this block".  A block is the
 * KV data of `block_tokens` consecutive tokens; its sequence hash chains over every token before
 * it, so (namespace, sequence hash) names both the tokens and their whole prefix.
 *
 * Ownership: plain values; nothing here allocates.
 * Threads:   no shared state.
 * Limits:    the names below.
 */
#ifndef KVTIER_BLOCK_H
#define KVTIER_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_NAMESPACE_MAX 128 /* bytes with the final NUL: tenant/model-fingerprint */
#define KVT_NAME_MAX      64  /* worker, gateway, location names, with the final NUL */
#define KVT_RANKS_MAX     32  /* tensor-parallel shards one bitmap can name */
#define KVT_POSITION_MAX  ((1u << 24) - 1)

/* The four levels of a KV cache. */
enum kvt_tier {
    KVT_TIER_G1 = 1, /* GPU memory */
    KVT_TIER_G2 = 2, /* host memory */
    KVT_TIER_G3 = 3, /* local disk */
    KVT_TIER_G4 = 4, /* object tier: hot volumes and buckets behind gateways */
};

#define KVT_TIER_MASK(tier) (1u << (unsigned)(tier))

struct kvt_block_id {
    uint64_t hash;     /* sequence hash, chained over the whole prefix */
    uint64_t parent;   /* sequence hash of the block before; 0 at position 0 */
    uint32_t position; /* 0-based index of the block in its sequence */
};

/** "G1" .. "G4"; "G?" for anything else. */
const char *kvt_tier_name(enum kvt_tier tier);

/** Parse "G1" .. "G4" (any case).  False when `text` is none of them; `tier` is then G2. */
bool kvt_tier_parse(const char *text, enum kvt_tier *tier);

#define KVT_HASH_TEXT_MAX 17

/** Sixteen lower-case hex digits: how a hash is printed in JSON, tables and logs. */
void kvt_hash_format(uint64_t hash, char text[KVT_HASH_TEXT_MAX]);

/** Sixteen hex digits, "0x..." or decimal.  False when `text` is none of them; `hash` is then 0. */
bool kvt_hash_parse(const char *text, uint64_t *hash);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_BLOCK_H */
