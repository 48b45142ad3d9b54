#include "g4/object/kind.h"

#include <stdio.h>
#include <string.h>

#define OWN_PREFIX ".kvtier-"

const char *
g4_kind_name(enum g4_kind kind)
{
    switch (kind) {
    case G4_KIND_BLOCK: return "block";
    case G4_KIND_TOMBSTONE: return "tombstone";
    case G4_KIND_LOCK: return "lock";
    case G4_KIND_META: return "meta";
    case G4_KIND_OWN: return "own";
    case G4_KIND_OPAQUE: break;
    }
    return "opaque";
}

static bool
begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool
ends_with(const char *text, const char *suffix)
{
    const size_t size = strlen(text);
    const size_t tail = strlen(suffix);

    return size > tail && strcmp(text + size - tail, suffix) == 0;
}

bool
g4_kind_meta_block(const char *key, char block[KVT_KEY_MAX])
{
    const char *slash = strrchr(key, '/');
    const char *name = slash == NULL ? key : slash + 1;
    const size_t name_size = strlen(name);
    const size_t tail = strlen(G4_KIND_META_SUFFIX);
    struct kvt_key parsed;
    int size;

    block[0] = '\0';
    if (name_size <= tail || !ends_with(name, G4_KIND_META_SUFFIX))
        return false;
    size = snprintf(block, KVT_KEY_MAX, "%.*s0/%.*s", (int)(name - key), key,
                    (int)(name_size - tail), name);
    if (size > 0 && size < KVT_KEY_MAX && kvt_key_parse(block, &parsed) == KVT_OK)
        return true;
    block[0] = '\0';
    return false;
}

enum g4_kind
g4_kind_of_key(const char *key, struct kvt_key *parsed)
{
    char block[KVT_KEY_MAX];
    struct kvt_key ignored;

    if (kvt_key_parse(key, parsed == NULL ? &ignored : parsed) == KVT_OK)
        return G4_KIND_BLOCK;
    if (begins_with(key, G4_OBJECT_NAME_ESCAPED) || begins_with(key, G4_OBJECT_NAME_HASHED))
        return G4_KIND_OPAQUE;
    if (begins_with(key, OWN_PREFIX))
        return G4_KIND_OWN;
    if (ends_with(key, G4_LOCK_SUFFIX))
        return G4_KIND_LOCK;
    return g4_kind_meta_block(key, block) ? G4_KIND_META : G4_KIND_OPAQUE;
}

enum g4_kind
g4_kind_of_object(const struct g4_request *seen)
{
    const enum g4_kind kind = g4_kind_of_key(seen->key, NULL);

    if (kind == G4_KIND_BLOCK && seen->meta.present && seen->meta.length == 0 &&
        strcmp(seen->meta.writer, G4_KIND_TOMBSTONE_WRITER) == 0)
        return G4_KIND_TOMBSTONE;
    return kind;
}

bool
g4_kind_is_removed(const struct g4_request *seen)
{
    return g4_kind_of_object(seen) == G4_KIND_TOMBSTONE &&
           seen->meta.fingerprint == G4_KIND_REMOVED;
}

const char *
g4_kind_judge_block(const struct g4_request *seen)
{
    if (!seen->meta.present)
        return "no KVTier metadata";
    if (seen->meta.length == 0)
        return "empty";
    if (seen->buffer_size != seen->meta.length)
        return "length differs from its metadata";
    return NULL;
}
