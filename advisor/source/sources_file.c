#include "advisor/source/sources_file.h"

#include <stdio.h>
#include <string.h>

#include "advisor/transport/bucket_listing.h"
#include "base/core/alloc.h"
#include "base/text/parse.h"
#include "base/text/yaml.h"
#include "wire/nats/object.h"

enum { KIND_MAX = 32, TEXT_MAX = 512, LIST_MAX = 8192, BLOCK_TOKENS_MAX = 65536, KINDS_MAX = 32 };
enum { REGION_MAX = 64, BUCKET_EVERY_MIN_MS = 1000, BUCKET_EVERY_MS = 3600 * 1000 };

/* The texts of an entry. */
struct texts {
    char kind[KIND_MAX];
    char url[TEXT_MAX];
    char user_file[TEXT_MAX];
    char token_file[TEXT_MAX];
    char creds_file[TEXT_MAX];
    char ca_file[TEXT_MAX];
    char stream[TEXT_MAX];
    char subject[TEXT_MAX];
    char topic[TEXT_MAX];
    char dump_url[TEXT_MAX];
    char discovery[TEXT_MAX];
    char listen[TEXT_MAX];
    char bucket_url[TEXT_MAX];
    char snapshot_bucket[TEXT_MAX];
    char bucket_region[REGION_MAX];
    char bucket_credentials_file[TEXT_MAX];
    char endpoints[LIST_MAX];
    char replay[LIST_MAX];
};

struct advisor_sources_file {
    struct advisor_source_entry entries[ADVISOR_SOURCES_MAX];
    struct texts *texts[ADVISOR_SOURCES_MAX];
    size_t count;
};

bool
advisor_source_is_canonical(const struct advisor_source_ops *ops)
{
    return ops->decode != NULL;
}

static bool
ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text);

    return size >= strlen(end) && strcmp(text + size - strlen(end), end) == 0;
}

/* A name is a metric's label and a part of paths. */
static bool
is_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    return name[0] != '\0' && name[strspn(name, allowed)] == '\0';
}

static enum kvt_err
find_kind(struct kvt_yaml_value value, const char *kind, const struct advisor_source_ops **ops,
          struct kvt_error *err)
{
    const char *names[KINDS_MAX];
    const size_t count = advisor_source_kind_names(names, KINDS_MAX);
    const char *near;

    *ops = advisor_source_kind(kind);
    if (*ops != NULL)
        return KVT_OK;
    near = kvt_suggest(kind, names, count);
    if (near != NULL)
        return kvt_yaml_refuse(value, err, "no kind is called \"%s\" (did you mean \"%s\"?)", kind,
                               near);
    return kvt_yaml_refuse(value, err, "no kind is called \"%s\"", kind);
}

/* What belongs to another transport is a mistake, not something to pass over. */
static enum kvt_err
check_transport(struct kvt_yaml_value value, const struct texts *texts, bool over_nats,
                struct kvt_error *err)
{
    const struct {
        const char *key;
        const char *text;
        bool nats;
    } keys[] = {
        {"url", texts->url, true},
        {"stream", texts->stream, true},
        {"subject", texts->subject, true},
        {"user_file", texts->user_file, true},
        {"token_file", texts->token_file, true},
        {"creds_file", texts->creds_file, true},
        {"ca_file", texts->ca_file, true},
        {"endpoints", texts->endpoints, false},
        {"replay", texts->replay, false},
        {"topic", texts->topic, false},
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].text[0] != '\0' && keys[i].nats != over_nats)
            return kvt_yaml_refuse(value, err, "%s means nothing to kind %s", keys[i].key,
                                   texts->kind);
    return KVT_OK;
}

/* A stream keeps what was not heard; a bus does not, and the bucket is listed instead. */
static enum kvt_err
check_bucket(struct kvt_yaml_value value, const struct advisor_source_entry *entry,
             const struct texts *texts, struct kvt_error *err)
{
    const struct advisor_bucket_listing bucket = {.url = texts->bucket_url};
    const bool any = texts->bucket_url[0] != '\0' || texts->bucket_region[0] != '\0' ||
                     texts->bucket_credentials_file[0] != '\0' ||
                     entry->options.bucket_every_ms != 0;
    struct kvt_error why = {.text = ""};

    if (!any)
        return KVT_OK;
    if (entry->ops->dialect != WIRE_DIALECT_MINIO)
        return kvt_yaml_refuse(value, err, "bucket_url means nothing to kind %s", texts->kind);
    if (texts->stream[0] != '\0')
        return kvt_yaml_refuse(value, err, "bucket_url means nothing where a stream is read");
    if (advisor_bucket_listing_check(&bucket, &why) != KVT_OK)
        return kvt_yaml_refuse(value, err, "bucket_url: %.150s", why.text);
    if (texts->bucket_credentials_file[0] == '\0')
        return kvt_yaml_refuse(value, err, "bucket_credentials_file is missing");
    return KVT_OK;
}

static enum kvt_err
check_entry(struct kvt_yaml_value value, const struct advisor_source_entry *entry,
            const struct texts *texts, struct kvt_error *err)
{
    const struct advisor_source_options *options = &entry->options;
    const bool canonical = advisor_source_is_canonical(entry->ops);
    enum kvt_err rc;

    if (!is_name(options->name))
        return kvt_yaml_refuse(value, err,
                               "name: letters, digits, \".\", \"_\" and \"-\" are allowed");
    rc = check_transport(value, texts, entry->over_nats, err);
    if (rc != KVT_OK)
        return rc;
    if (canonical && options->namespace_[0] != '\0')
        return kvt_yaml_refuse(value, err, "the workers of kind %s say their namespace themselves",
                               texts->kind);
    if (!canonical && entry->ops->dialect != WIRE_DIALECT_MINIO && options->namespace_[0] == '\0')
        return kvt_yaml_refuse(value, err, "namespace is missing");
    if (canonical && (texts->url[0] != '\0' || texts->subject[0] != '\0'))
        return kvt_yaml_refuse(value, err, "kind %s is read from the advisor's own NATS",
                               texts->kind);
    if (strcmp(texts->kind, "dynamo-jetstream") == 0 && texts->stream[0] == '\0')
        return kvt_yaml_refuse(value, err, "stream is missing");
    if (texts->snapshot_bucket[0] != '\0' && strcmp(texts->kind, "dynamo-jetstream") != 0)
        return kvt_yaml_refuse(value, err, "snapshot_bucket means nothing to kind %s", texts->kind);
    if (texts->snapshot_bucket[0] != '\0' && !wire_object_bucket_valid(texts->snapshot_bucket))
        return kvt_yaml_refuse(value, err,
                               "snapshot_bucket: letters, digits, \"-\" and \"_\" are allowed");
    if (entry->ops->dialect == WIRE_DIALECT_MINIO && texts->stream[0] == '\0' &&
        texts->subject[0] == '\0')
        return kvt_yaml_refuse(value, err, "subject is missing, or stream");
    if (!entry->over_nats && texts->endpoints[0] == '\0' && texts->discovery[0] == '\0')
        return kvt_yaml_refuse(value, err, "endpoints is missing");
    return check_bucket(value, entry, texts, err);
}

static void
point(struct advisor_source_entry *entry, const struct texts *texts, uint64_t block_tokens)
{
    struct advisor_source_options *options = &entry->options;

    options->stream = texts->stream;
    options->subject = texts->subject;
    options->endpoints = texts->endpoints;
    options->replay = texts->replay;
    options->topic = texts->topic;
    options->dump_url = texts->dump_url;
    options->discovery = texts->discovery;
    options->listen = texts->listen;
    options->bucket_url = texts->bucket_url;
    options->snapshot_bucket = texts->snapshot_bucket;
    options->bucket_region = texts->bucket_region;
    options->bucket_credentials_file = texts->bucket_credentials_file;
    if (texts->bucket_url[0] != '\0' && options->bucket_every_ms == 0)
        options->bucket_every_ms = BUCKET_EVERY_MS;
    options->block_tokens = (uint32_t)block_tokens;
    entry->over_nats = !ends_with(entry->ops->name, "-zmq");
    entry->bus = (struct wire_bus_options){
        .url = texts->url,
        .name = "kvtier-advisor",
        .user_file = texts->user_file,
        .token_file = texts->token_file,
        .creds_file = texts->creds_file,
        .ca_file = texts->ca_file,
    };
}

#define TEXT(word, form, to, bytes)                                                                \
    {                                                                                              \
        .key = (word), .type = (form), .target = (to), .size = (bytes)                             \
    }

static enum kvt_err
fill_entry(struct advisor_source_entry *entry, struct texts *texts, struct kvt_yaml_value value,
           struct kvt_error *err)
{
    struct advisor_source_options *options = &entry->options;
    uint64_t block_tokens = 0;
    const struct kvt_yaml_field fields[] = {
        {.key = "name",
         .type = KVT_YAML_STRING,
         .target = options->name,
         .size = sizeof(options->name),
         .required = true},
        {.key = "kind",
         .type = KVT_YAML_STRING,
         .target = texts->kind,
         .size = sizeof(texts->kind),
         .required = true},
        TEXT("namespace", KVT_YAML_STRING, options->namespace_, sizeof(options->namespace_)),
        TEXT("url", KVT_YAML_STRING, texts->url, TEXT_MAX),
        TEXT("user_file", KVT_YAML_STRING, texts->user_file, TEXT_MAX),
        TEXT("token_file", KVT_YAML_STRING, texts->token_file, TEXT_MAX),
        TEXT("creds_file", KVT_YAML_STRING, texts->creds_file, TEXT_MAX),
        TEXT("ca_file", KVT_YAML_STRING, texts->ca_file, TEXT_MAX),
        TEXT("stream", KVT_YAML_STRING, texts->stream, TEXT_MAX),
        TEXT("subject", KVT_YAML_STRINGS, texts->subject, TEXT_MAX),
        TEXT("endpoints", KVT_YAML_STRINGS, texts->endpoints, LIST_MAX),
        TEXT("replay", KVT_YAML_STRINGS, texts->replay, LIST_MAX),
        TEXT("topic", KVT_YAML_STRING, texts->topic, TEXT_MAX),
        TEXT("dump_url", KVT_YAML_STRING, texts->dump_url, TEXT_MAX),
        TEXT("discovery", KVT_YAML_STRING, texts->discovery, TEXT_MAX),
        TEXT("listen", KVT_YAML_STRING, texts->listen, TEXT_MAX),
        TEXT("bucket_url", KVT_YAML_STRING, texts->bucket_url, TEXT_MAX),
        TEXT("snapshot_bucket", KVT_YAML_STRING, texts->snapshot_bucket, TEXT_MAX),
        TEXT("bucket_region", KVT_YAML_STRING, texts->bucket_region, REGION_MAX),
        TEXT("bucket_credentials_file", KVT_YAML_STRING, texts->bucket_credentials_file, TEXT_MAX),
        {.key = "bucket_every",
         .type = KVT_YAML_DURATION,
         .target = &options->bucket_every_ms,
         .min = BUCKET_EVERY_MIN_MS},
        {.key = "bind", .type = KVT_YAML_BOOL, .target = &options->bind},
        {.key = "block_tokens",
         .type = KVT_YAML_U64,
         .target = &block_tokens,
         .min = 1,
         .max = BLOCK_TOKENS_MAX},
    };
    enum kvt_err rc;

    rc = kvt_yaml_read(value, fields, sizeof(fields) / sizeof(fields[0]), err);
    if (rc == KVT_OK)
        rc = find_kind(value, texts->kind, &entry->ops, err);
    if (rc != KVT_OK)
        return rc;
    /* All of a Dynamo stream's subjects begin with its name. */
    if (strcmp(texts->kind, "dynamo-jetstream") == 0 && texts->subject[0] == '\0' &&
        snprintf(texts->subject, TEXT_MAX, "%s.*", texts->stream) >= TEXT_MAX)
        return kvt_yaml_refuse(value, err, "stream is too long");
    point(entry, texts, block_tokens);
    return check_entry(value, entry, texts, err);
}

static enum kvt_err
read_entry(struct advisor_sources_file *file, struct kvt_yaml_value value, struct kvt_error *err)
{
    struct texts *texts = kvt_calloc(1, sizeof(*texts));

    if (texts == NULL)
        return kvt_error_set(err, KVT_NOMEM, "sources: out of memory");
    file->texts[file->count++] = texts;
    return fill_entry(&file->entries[file->count - 1], texts, value, err);
}

/* Names are unique, and our own events come one way only. */
static enum kvt_err
check_others(const struct advisor_sources_file *file, struct kvt_yaml_value value,
             struct kvt_error *err)
{
    const struct advisor_source_entry *entry = &file->entries[file->count - 1];

    for (size_t i = 0; i + 1 < file->count; i++) {
        const struct advisor_source_entry *other = &file->entries[i];

        if (strcmp(other->options.name, entry->options.name) == 0)
            return kvt_yaml_refuse(value, err, "a source called \"%s\" is there already",
                                   entry->options.name);
        if (advisor_source_is_canonical(other->ops) && advisor_source_is_canonical(entry->ops))
            return kvt_yaml_refuse(value, err, "\"%s\" reads KVTier's own events already",
                                   other->options.name);
    }
    return KVT_OK;
}

static enum kvt_err
read_list(struct advisor_sources_file *file, struct kvt_yaml_value root, struct kvt_error *err)
{
    struct kvt_yaml_value list = {NULL, 0};
    uint64_t version = 0;
    const struct kvt_yaml_field fields[] = {
        {.key = "version",
         .type = KVT_YAML_U64,
         .target = &version,
         .min = 1,
         .max = 1,
         .required = true},
        {.key = "sources", .type = KVT_YAML_LIST, .target = &list, .required = true},
    };
    enum kvt_err rc = kvt_yaml_read(root, fields, sizeof(fields) / sizeof(fields[0]), err);

    for (size_t i = 0; rc == KVT_OK && i < kvt_yaml_count(list); i++) {
        const struct kvt_yaml_value value = kvt_yaml_at(list, i);

        if (file->count == ADVISOR_SOURCES_MAX)
            return kvt_yaml_refuse(value, err, "more than %d sources", ADVISOR_SOURCES_MAX);
        rc = read_entry(file, value, err);
        if (rc == KVT_OK)
            rc = check_others(file, value, err);
    }
    return rc;
}

enum kvt_err
advisor_sources_file_load(struct advisor_sources_file **out, const char *path,
                          struct kvt_error *err)
{
    struct advisor_sources_file *file = kvt_calloc(1, sizeof(*file));
    struct kvt_yaml *yaml = NULL;
    struct kvt_yaml_value root;
    enum kvt_err rc;

    *out = NULL;
    if (file == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", path);
    rc = kvt_yaml_load(&yaml, path, &root, err);
    if (rc == KVT_OK)
        rc = root.node == 0 ? kvt_error_set(err, KVT_INVALID, "%s: the file is empty", path)
                            : read_list(file, root, err);
    kvt_yaml_free(yaml);
    if (rc != KVT_OK) {
        advisor_sources_file_free(file);
        return rc;
    }
    *out = file;
    return KVT_OK;
}

void
advisor_sources_file_free(struct advisor_sources_file *file)
{
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->count; i++)
        kvt_free(file->texts[i]);
    kvt_free(file);
}

size_t
advisor_sources_file_count(const struct advisor_sources_file *file)
{
    return file->count;
}

const struct advisor_source_entry *
advisor_sources_file_at(const struct advisor_sources_file *file, size_t at)
{
    return &file->entries[at];
}
