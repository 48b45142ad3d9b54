/*
 * Property: a text that is a block's key is the key that is made from what was read of it.
 */
#include "kvtier/key.h"

#include <assert.h>
#include <string.h>

#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char text[2 * KVT_KEY_MAX];
    char again[KVT_KEY_MAX];
    struct kvt_block_id block;
    struct kvt_key key;
    enum kvt_err rc;

    if (size >= sizeof(text))
        return 0;
    memcpy(text, bytes, size);
    text[size] = '\0';
    rc = kvt_key_parse(text, &key);
    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID);
        assert(key.hash == 0 && key.position == 0 && key.namespace_[0] == '\0');
        return 0;
    }
    assert(key.rank < KVT_RANKS_MAX && key.position <= KVT_POSITION_MAX);
    assert(memchr(key.namespace_, 0, sizeof(key.namespace_)) != NULL);
    block = (struct kvt_block_id){key.hash, key.parent_fragment, key.position};
    /* Revision C keeps all bits of both parts, whatever revision wrote them. */
    rc = kvt_key_format(again, sizeof(again), KVT_KEY_KVBM_C, key.namespace_, key.rank, &block);
    assert(rc == KVT_OK && strcmp(again, text) == 0);
    return 0;
}
