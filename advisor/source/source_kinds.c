#include <string.h>

#include "advisor/source/source.h"

/* What `kind` in sources.file may say. */
static const struct advisor_source_ops *const kinds[] = {
    &advisor_source_jetstream,        &advisor_source_core,       &advisor_source_dynamo_nats,
    &advisor_source_dynamo_jetstream, &advisor_source_dynamo_zmq, &advisor_source_engine_zmq,
    &advisor_source_kvbm_nats,        &advisor_source_kvbm_zmq,   &advisor_source_minio_nats,
};

const struct advisor_source_ops *
advisor_source_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

size_t
advisor_source_kind_names(const char **names, size_t capacity)
{
    size_t count = 0;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && count < capacity; i++)
        names[count++] = kinds[i]->name;
    return count;
}
