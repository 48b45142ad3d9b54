#include "advisor/transport/discovery_record.h"

#include <stdio.h>
#include <string.h>

#include "base/text/json.h"

const char *const advisor_discovery_folders[ADVISOR_DISCOVERY_BUCKETS] = {
    [ADVISOR_DISCOVERY_CHANNELS] = "event_channels",
    [ADVISOR_DISCOVERY_SOURCES] = "event_sources",
    [ADVISOR_DISCOVERY_INSTANCES] = "instances",
};

static bool
copy(char *to, size_t capacity, const char *text)
{
    to[0] = '\0';
    if (text == NULL || strlen(text) >= capacity)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static void
add_endpoint(struct advisor_discovery_record *record, const char *text)
{
    if (record->endpoint_count < ADVISOR_DISCOVERY_ENDPOINTS_MAX && text != NULL &&
        strncmp(text, "tcp://", 6) == 0 &&
        copy(record->endpoints[record->endpoint_count], ADVISOR_ZMQ_ENDPOINT_MAX, text))
        record->endpoint_count++;
}

/* "namespace.N.component.C.endpoint.E", as its subjects begin. */
static void
put_scope(struct advisor_discovery_record *record, struct json_object *json)
{
    struct json_object *scope = kvt_json_member(json, "scope");
    struct json_object *at = kvt_json_member(scope, "endpoint");
    const char *space;
    const char *component;
    const char *name;

    if (!json_object_is_type(at, json_type_object))
        at = scope == NULL ? json : scope;
    space = kvt_json_string(at, "namespace");
    component = kvt_json_string(at, "component");
    name = kvt_json_string(at, "name");
    (void)snprintf(record->scope, sizeof(record->scope), "namespace.%s%s%s%s%s",
                   space == NULL ? "" : space, component == NULL ? "" : ".component.",
                   component == NULL ? "" : component, name == NULL ? "" : ".endpoint.",
                   name == NULL ? "" : name);
}

static bool
is_kv_topic(const char *topic)
{
    return topic != NULL && (strcmp(topic, "kv-events") == 0 || strcmp(topic, "kv_events") == 0);
}

static enum kvt_err
read_channel(struct advisor_discovery_record *record, struct json_object *json)
{
    struct json_object *transport = kvt_json_member(json, "transport");
    struct json_object *config = kvt_json_member(transport, "config");
    const char *kind = kvt_json_string(transport, "kind");
    struct json_object *brokers;

    if (!is_kv_topic(kvt_json_string(json, "topic")))
        return KVT_NOTFOUND;
    if (kind == NULL)
        return KVT_INVALID;
    put_scope(record, json);
    (void)kvt_json_u64(json, "instance_id", &record->worker);
    if (strcmp(kind, "Zmq") == 0)
        add_endpoint(record, kvt_json_string(config, "endpoint"));
    brokers = kvt_json_array(config, "xpub_endpoints");
    if (strcmp(kind, "ZmqBroker") == 0 && brokers != NULL)
        for (size_t i = 0; i < json_object_array_length(brokers); i++)
            add_endpoint(record, kvt_json_to_string(json_object_array_get_idx(brokers, i)));
    return KVT_OK;
}

/* {"transport": {"tcp": "host:port/path"} | {"nats_tcp": subject}, "request_plane_codec"} */
static void
put_target(struct advisor_discovery_record *record, struct json_object *json)
{
    struct json_object *transport = kvt_json_member(json, "transport");
    const char *codec = kvt_json_string(json, "request_plane_codec");
    struct advisor_discovery_target *target = &record->target;

    (void)copy(target->tcp, sizeof(target->tcp), kvt_json_string(transport, "tcp"));
    (void)copy(target->nats, sizeof(target->nats), kvt_json_string(transport, "nats_tcp"));
    target->json = codec == NULL || strcmp(codec, "msgpack") != 0;
}

static enum kvt_err
read_source(struct advisor_discovery_record *record, struct json_object *json)
{
    struct json_object *metadata = kvt_json_member(json, "metadata");
    struct json_object *worker = kvt_json_member(metadata, "worker");
    uint64_t dp_rank = 0;

    if (!is_kv_topic(kvt_json_string(json, "topic")))
        return KVT_NOTFOUND;
    if (!kvt_json_u64(worker, "worker_id", &record->worker))
        return KVT_INVALID;
    (void)kvt_json_u64(worker, "dp_rank", &dp_rank);
    record->dp_rank = (uint32_t)(dp_rank > UINT32_MAX ? UINT32_MAX : dp_rank);
    put_target(record, kvt_json_member(metadata, "recovery_target"));
    return KVT_OK;
}

static enum kvt_err
read_instance(struct advisor_discovery_record *record, struct json_object *json)
{
    if (!kvt_json_u64(json, "instance_id", &record->worker) ||
        !copy(record->name, sizeof(record->name), kvt_json_string(json, "endpoint")))
        return KVT_INVALID;
    put_target(record, json);
    return KVT_OK;
}

enum kvt_err
advisor_discovery_read(struct advisor_discovery_record *record,
                       enum advisor_discovery_bucket bucket, const char *text, size_t size,
                       struct kvt_error *err)
{
    struct json_object *json;
    enum kvt_err rc;

    memset(record, 0, sizeof(*record));
    record->bucket = bucket;
    rc = kvt_json_parse(&json, text, size, "record", err);
    if (rc != KVT_OK)
        return rc;
    if (!json_object_is_type(json, json_type_object))
        bucket = ADVISOR_DISCOVERY_BUCKETS;
    switch (bucket) {
    case ADVISOR_DISCOVERY_CHANNELS: rc = read_channel(record, json); break;
    case ADVISOR_DISCOVERY_SOURCES: rc = read_source(record, json); break;
    case ADVISOR_DISCOVERY_INSTANCES: rc = read_instance(record, json); break;
    case ADVISOR_DISCOVERY_BUCKETS: rc = KVT_INVALID; break;
    }
    json_object_put(json);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "not a record of KV events");
}
