#include "advisor/source/source_discovery.h"
#include "advisor/source/source_dynamo.h"
#include "advisor/source/source_private.h"

/*
 * Foreign planes over NATS: heard on the bus, or read from a stream that is there already, with an
 * ephemeral ordered consumer that acknowledges nothing.  A durable one would be taken for a router
 * that died, or hold back what routers may purge.
 */

/* Workers that go say nothing; where there is a folder, their records in it go. */
static enum kvt_err
watch(struct advisor_source *source)
{
    struct advisor_source_watch *watch;
    const enum kvt_err rc = advisor_source_watch_start(&watch, source);

    source->own = watch;
    return rc;
}

static enum kvt_err
open_dynamo(struct advisor_source *source)
{
    const enum kvt_err rc = watch(source);

    if (rc != KVT_OK)
        return rc;
    /* By component and by endpoint, each in the spelling of older and of newer releases. */
    if (source->options.subject[0] == '\0')
        source->options.subject = "namespace.*.component.*.kv-events,"
                                  "namespace.*.component.*.kv_events,"
                                  "namespace.*.component.*.endpoint.*.kv-events,"
                                  "namespace.*.component.*.endpoint.*.kv_events";
    return advisor_source_open_core(source, NULL);
}

static void
close_dynamo(struct advisor_source *source)
{
    advisor_source_close_core(source);
    advisor_source_watch_stop(source->own);
}

static enum kvt_err
open_dynamo_stream(struct advisor_source *source)
{
    const enum kvt_err rc = watch(source);

    return rc == KVT_OK ? advisor_source_open_stream(source) : rc;
}

static void
close_dynamo_stream(struct advisor_source *source)
{
    advisor_source_close_stream(source);
    advisor_source_watch_stop(source->own);
}

static bool
has_stream(const struct advisor_source *source)
{
    return source->options.stream[0] != '\0';
}

static enum kvt_err
open_minio(struct advisor_source *source)
{
    return has_stream(source) ? advisor_source_open_stream(source)
                              : advisor_source_bucket_open(source);
}

static void
close_minio(struct advisor_source *source)
{
    if (has_stream(source))
        advisor_source_close_stream(source);
    else
        advisor_source_bucket_close(source);
}

const struct advisor_source_ops advisor_source_dynamo_nats = {
    .name = "dynamo-nats",
    .dialect = WIRE_DIALECT_DYNAMO,
    .open = open_dynamo,
    .close = close_dynamo,
    .ask = advisor_dynamo_ask,
};

const struct advisor_source_ops advisor_source_dynamo_jetstream = {
    .name = "dynamo-jetstream",
    .dialect = WIRE_DIALECT_DYNAMO,
    .open = open_dynamo_stream,
    .close = close_dynamo_stream,
    .ask = advisor_dynamo_ask,
};

const struct advisor_source_ops advisor_source_minio_nats = {
    .name = "minio-nats",
    .dialect = WIRE_DIALECT_MINIO,
    .open = open_minio,
    .close = close_minio,
};
