#include "g4/s3/placement.h"

#include <stdbool.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/yaml.h"
#include "g4/object/kind.h"
#include "g4/object/object_name.h"
#include "g4/packed/manifest.h"
#include "kvtier/key.h"

enum { WORD_MAX = 64, KMS_KEY_MAX = 512 };

struct rule {
    char prefix[KVT_KEY_MAX];
    char encryption[WORD_MAX];
    char kms_key_id[KMS_KEY_MAX];
    char storage_class[WORD_MAX];
};

struct g4_placement {
    size_t count;
    struct rule rules[G4_PLACEMENT_RULES_MAX];
};

/* What may stand in a header line as it is. */
static bool
is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

/* Why blocks cannot be kept in it, and then the class; NULL: they can. */
static const char *
refuse_class(const char *class)
{
    if (strlen(class) >= WORD_MAX ||
        strspn(class, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != strlen(class))
        return "storage_class is a word of A-Z 0-9 _ -";
    if (strcmp(class, "GLACIER") == 0 || strcmp(class, "DEEP_ARCHIVE") == 0)
        return "what is in this storage_class cannot be read before it was restored";
    return NULL;
}

static enum kvt_err
check_rule(const struct g4_placement *placement, const struct rule *rule,
           struct kvt_yaml_value section, struct kvt_error *err)
{
    const bool kms = strcmp(rule->encryption, "aws:kms") == 0;
    const char *why = refuse_class(rule->storage_class);

    if (kms && rule->kms_key_id[0] == '\0')
        return kvt_yaml_refuse(section, err, "encryption aws:kms needs a kms_key_id");
    if (!kms && rule->kms_key_id[0] != '\0')
        return kvt_yaml_refuse(section, err, "kms_key_id goes with encryption aws:kms, not %s",
                               rule->encryption);
    if (!is_plain(rule->kms_key_id))
        return kvt_yaml_refuse(section, err, "kms_key_id holds blanks or control characters");
    if (why != NULL)
        return kvt_yaml_refuse(section, err, "%s: \"%s\"", why, rule->storage_class);
    for (size_t i = 0; i < placement->count; i++)
        if (strcmp(placement->rules[i].prefix, rule->prefix) == 0)
            return kvt_yaml_refuse(section, err, "there is a rule for prefix \"%s\" already",
                                   rule->prefix);
    return KVT_OK;
}

static enum kvt_err
read_rule(struct g4_placement *placement, struct kvt_yaml_value section, struct kvt_error *err)
{
    struct rule *rule = &placement->rules[placement->count];
    enum kvt_err rc;

    memcpy(rule->encryption, "none", sizeof("none"));
    rc = kvt_yaml_read(section,
                       (const struct kvt_yaml_field[]){
                           {.key = "prefix",
                            .type = KVT_YAML_STRING,
                            .target = rule->prefix,
                            .size = sizeof(rule->prefix),
                            .required = true},
                           {.key = "encryption",
                            .type = KVT_YAML_CHOICE,
                            .target = rule->encryption,
                            .size = sizeof(rule->encryption),
                            .choices = "none|AES256|aws:kms"},
                           {.key = "kms_key_id",
                            .type = KVT_YAML_STRING,
                            .target = rule->kms_key_id,
                            .size = sizeof(rule->kms_key_id)},
                           {.key = "storage_class",
                            .type = KVT_YAML_STRING,
                            .target = rule->storage_class,
                            .size = sizeof(rule->storage_class)},
                       },
                       4, err);
    if (rc == KVT_OK)
        rc = check_rule(placement, rule, section, err);
    if (rc == KVT_OK)
        placement->count++;
    return rc;
}

enum kvt_err
g4_placement_load(struct g4_placement **out, const char *path, struct kvt_error *err)
{
    struct kvt_yaml_value list;
    struct kvt_yaml *file = NULL;
    enum kvt_err rc;

    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return kvt_error_set(err, KVT_NOMEM, "table of placements");
    rc = kvt_yaml_load_list(&file, path, "placement", &list, err);
    if (rc == KVT_OK && kvt_yaml_count(list) > G4_PLACEMENT_RULES_MAX)
        rc = kvt_yaml_refuse(list, err, "more than %d rules", G4_PLACEMENT_RULES_MAX);
    for (size_t i = 0; rc == KVT_OK && i < kvt_yaml_count(list); i++)
        rc = read_rule(*out, kvt_yaml_at(list, i), err);
    if (rc != KVT_OK) {
        g4_placement_free(*out);
        *out = NULL;
    }
    kvt_yaml_free(file);
    return rc;
}

enum kvt_err
g4_placement_set_class(struct g4_placement **placement, const char *storage_class,
                       struct kvt_error *err)
{
    const char *why = refuse_class(storage_class);
    struct g4_placement *table = *placement;
    bool for_all = false;

    if (why != NULL)
        return kvt_error_set(err, KVT_INVALID, "%s: \"%.100s\"", why, storage_class);
    for (size_t i = 0; table != NULL && i < table->count; i++)
        for_all = for_all || table->rules[i].prefix[0] == '\0';
    if (!for_all && table != NULL && table->count == G4_PLACEMENT_RULES_MAX)
        return kvt_error_set(err, KVT_FULL, "more than %d rules", G4_PLACEMENT_RULES_MAX);
    if (table == NULL)
        table = kvt_calloc(1, sizeof(*table));
    if (table == NULL)
        return kvt_error_set(err, KVT_NOMEM, "table of placements");
    if (!for_all)
        memcpy(table->rules[table->count++].encryption, "none", sizeof("none"));
    for (size_t i = 0; i < table->count; i++)
        if (table->rules[i].storage_class[0] == '\0')
            memcpy(table->rules[i].storage_class, storage_class, strlen(storage_class) + 1);
    *placement = table;
    return KVT_OK;
}

void
g4_placement_free(struct g4_placement *placement)
{
    kvt_free(placement);
}

/* Prefixes are of the keys that clients know. */
static const struct rule *
rule_of(const struct g4_placement *placement, const char *name)
{
    const struct rule *best = NULL;
    char key[G4_CLIENT_KEY_MAX];

    g4_object_name_beginning("", name, key);
    for (size_t i = 0; i < placement->count; i++) {
        const struct rule *rule = &placement->rules[i];
        const size_t size = strlen(rule->prefix);

        if (strncmp(key, rule->prefix, size) == 0 && (best == NULL || size > strlen(best->prefix)))
            best = rule;
    }
    return best;
}

/* Is it of those whose size is what the class is chosen for? */
static bool
has_class(const char *key)
{
    const enum g4_kind kind = g4_kind_of_key(key, NULL);

    return kind == G4_KIND_BLOCK || (kind == G4_KIND_OPAQUE && !g4_manifest_key_like(key));
}

size_t
g4_placement_headers(const struct g4_placement *placement, const char *key,
                     struct g4_sigv4_header headers[G4_PLACEMENT_HEADERS_MAX])
{
    const struct rule *rule = placement == NULL ? NULL : rule_of(placement, key);
    size_t count = 0;

    if (rule == NULL)
        return 0;
    if (strcmp(rule->encryption, "none") != 0)
        headers[count++] =
            (struct g4_sigv4_header){"x-amz-server-side-encryption", rule->encryption};
    if (rule->kms_key_id[0] != '\0')
        headers[count++] = (struct g4_sigv4_header){"x-amz-server-side-encryption-aws-kms-key-id",
                                                    rule->kms_key_id};
    if (rule->storage_class[0] != '\0' && has_class(key))
        headers[count++] = (struct g4_sigv4_header){"x-amz-storage-class", rule->storage_class};
    return count;
}
