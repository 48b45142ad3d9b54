#include "gateway/http/client_credentials.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/yaml.h"

struct gateway_client_credentials {
    _Atomic unsigned holders;
    size_t count;
    size_t room;
    struct gateway_principal *principals;
};

static enum kvt_err
make_table(struct gateway_client_credentials **out, struct kvt_error *err)
{
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return kvt_error_set(err, KVT_NOMEM, "table of credentials");
    atomic_store(&(*out)->holders, 1);
    return KVT_OK;
}

/* Doubling by hand: what realloc() leaves behind would keep secrets. */
static enum kvt_err
make_room(struct gateway_client_credentials *table, struct kvt_error *err)
{
    const size_t room = table->room == 0 ? 4 : 2 * table->room;
    struct gateway_principal *wider;

    if (table->count < table->room)
        return KVT_OK;
    if (table->count == GATEWAY_CLIENT_CREDENTIALS_MAX)
        return kvt_error_set(err, KVT_RANGE, "front.credentials_file has more than %d credentials",
                             GATEWAY_CLIENT_CREDENTIALS_MAX);
    wider = kvt_calloc(room, sizeof(*wider));
    if (wider == NULL)
        return kvt_error_set(err, KVT_NOMEM, "table of credentials");
    if (table->count > 0) {
        memcpy(wider, table->principals, table->count * sizeof(*wider));
        explicit_bzero(table->principals, table->count * sizeof(*wider));
    }
    kvt_free(table->principals);
    table->principals = wider;
    table->room = room;
    return KVT_OK;
}

static enum kvt_err
parse_line(struct gateway_client_credentials *table, const char *line, size_t size, unsigned number,
           struct kvt_error *err)
{
    struct gateway_principal *principal;
    const char *colon;
    size_t access;
    enum kvt_err rc;

    while (size > 0 && (line[size - 1] == '\r' || line[size - 1] == ' '))
        size--;
    if (size == 0 || line[0] == '#')
        return KVT_OK;
    colon = memchr(line, ':', size);
    if (colon == NULL)
        return kvt_error_set(err, KVT_INVALID, "front.credentials_file line %u: no access:secret",
                             number);
    access = (size_t)(colon - line);
    if (access == 0 || access >= GATEWAY_ACCESS_COUNTS_MAX || size - access - 1 == 0 ||
        size - access - 1 >= GATEWAY_SECRET_KEY_MAX)
        return kvt_error_set(
            err, KVT_INVALID,
            "front.credentials_file line %u: access and secret have 1 to 127 bytes", number);
    rc = make_room(table, err);
    if (rc != KVT_OK)
        return rc;
    principal = &table->principals[table->count];
    memcpy(principal->access, line, access);
    memcpy(principal->secret, colon + 1, size - access - 1);
    memcpy(principal->owner, line, access);
    memcpy(principal->creates, "*", 2);
    principal->grants[0].rights = GATEWAY_RIGHTS_ALL;
    principal->grant_count = 1;
    if (gateway_client_credentials_find(table, principal->access) != NULL)
        return kvt_error_set(err, KVT_INVALID,
                             "front.credentials_file line %u: this access key is there already",
                             number);
    table->count++;
    return KVT_OK;
}

enum kvt_err
gateway_client_credentials_parse(struct gateway_client_credentials **out, const char *text,
                                 struct kvt_error *err)
{
    unsigned number = 1;
    enum kvt_err rc = make_table(out, err);

    for (const char *at = text; rc == KVT_OK && *at != '\0'; number++) {
        const size_t size = strcspn(at, "\n");

        rc = parse_line(*out, at, size, number, err);
        at += size + (at[size] == '\n' ? 1 : 0);
    }
    if (rc == KVT_OK && (*out)->count == 0)
        rc = kvt_error_set(err, KVT_INVALID, "front.credentials_file has no access:secret");
    if (rc != KVT_OK) {
        gateway_client_credentials_drop(*out);
        *out = NULL;
    }
    return rc;
}

/* ---- YAML ---- */

/* "read,write" as bits; false at a word that is none. */
static bool
parse_rights(const char *text, unsigned *rights)
{
    static const struct {
        const char *word;
        enum gateway_right right;
    } words[] = {{"read", GATEWAY_READ},
                 {"write", GATEWAY_WRITE},
                 {"delete", GATEWAY_DELETE},
                 {"list", GATEWAY_LIST}};

    *rights = 0;
    while (*text != '\0') {
        const size_t size = strcspn(text, ",");
        unsigned found = 0;

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            if (strlen(words[i].word) == size && memcmp(words[i].word, text, size) == 0)
                found = words[i].right;
        if (found == 0)
            return false;
        *rights |= found;
        text += size + (text[size] == ',' ? 1 : 0);
    }
    return *rights != 0;
}

static bool
pattern_valid(const char *pattern)
{
    const size_t plain = strcspn(pattern, "*");

    return pattern[plain] == '\0' || pattern[plain + 1] == '\0';
}

bool
gateway_client_credentials_match(const char *pattern, const char *name)
{
    const size_t plain = strcspn(pattern, "*");

    return strncmp(pattern, name, plain) == 0 && (pattern[plain] == '*' || name[plain] == '\0');
}

static enum kvt_err
read_grant(struct gateway_grant *grant, struct kvt_yaml_value section, struct kvt_error *err)
{
    char rights[64] = "";
    const struct kvt_yaml_field fields[] = {
        {.key = "prefix",
         .type = KVT_YAML_STRING,
         .target = grant->prefix,
         .size = sizeof(grant->prefix),
         .required = true},
        {.key = "rights",
         .type = KVT_YAML_STRINGS,
         .target = rights,
         .size = sizeof(rights),
         .required = true},
        {.key = "bucket",
         .type = KVT_YAML_STRING,
         .target = grant->bucket,
         .size = sizeof(grant->bucket)},
    };
    const enum kvt_err rc = kvt_yaml_read(section, fields, 3, err);

    if (rc != KVT_OK)
        return rc;
    if (!pattern_valid(grant->bucket))
        return kvt_yaml_refuse(section, err, "only the last byte of a bucket's name may be '*'");
    if (!parse_rights(rights, &grant->rights))
        return kvt_yaml_refuse(section, err, "rights are of read, write, delete and list");
    return KVT_OK;
}

static enum kvt_err
read_credential(struct gateway_client_credentials *table, struct kvt_yaml_value section,
                struct kvt_error *err)
{
    struct kvt_yaml_value grants = {0};
    struct gateway_principal *principal;
    enum kvt_err rc = make_room(table, err);

    if (rc != KVT_OK)
        return rc;
    principal = &table->principals[table->count];
    rc = kvt_yaml_read(
        section,
        (const struct kvt_yaml_field[]){
            {.key = "access",
             .type = KVT_YAML_STRING,
             .target = principal->access,
             .size = sizeof(principal->access),
             .required = true},
            {.key = "secret",
             .type = KVT_YAML_STRING,
             .target = principal->secret,
             .size = sizeof(principal->secret),
             .required = true},
            {.key = "owner",
             .type = KVT_YAML_STRING,
             .target = principal->owner,
             .size = sizeof(principal->owner)},
            {.key = "creates",
             .type = KVT_YAML_STRING,
             .target = principal->creates,
             .size = sizeof(principal->creates)},
            {.key = "grants", .type = KVT_YAML_LIST, .target = &grants, .required = true}},
        5, err);
    if (rc != KVT_OK)
        return rc;
    if (!pattern_valid(principal->creates))
        return kvt_yaml_refuse(section, err, "only the last byte of creates may be '*'");
    if (principal->owner[0] == '\0')
        memcpy(principal->owner, principal->access, sizeof(principal->access));
    if (strpbrk(principal->owner, "\r\n") != NULL)
        return kvt_yaml_refuse(section, err, "an owner is one line");
    if (principal->access[0] == '\0' || principal->secret[0] == '\0')
        return kvt_yaml_refuse(section, err, "access and secret must not be empty");
    if (gateway_client_credentials_find(table, principal->access) != NULL)
        return kvt_yaml_refuse(section, err, "access %s is there already", principal->access);
    if (kvt_yaml_count(grants) == 0 || kvt_yaml_count(grants) > GATEWAY_GRANTS_MAX)
        return kvt_yaml_refuse(section, err, "1 to %d grants are needed", GATEWAY_GRANTS_MAX);
    for (; rc == KVT_OK && principal->grant_count < kvt_yaml_count(grants);
         principal->grant_count++)
        rc = read_grant(&principal->grants[principal->grant_count],
                        kvt_yaml_at(grants, principal->grant_count), err);
    if (rc == KVT_OK)
        table->count++;
    return rc;
}

enum kvt_err
gateway_client_credentials_load(struct gateway_client_credentials **out, const char *path,
                                struct kvt_error *err)
{
    struct kvt_yaml_value list = {0};
    struct kvt_yaml *file = NULL;
    enum kvt_err rc = make_table(out, err);

    if (rc == KVT_OK)
        rc = kvt_yaml_load_list(&file, path, "credentials", &list, err);
    for (size_t i = 0; rc == KVT_OK && i < kvt_yaml_count(list); i++)
        rc = read_credential(*out, kvt_yaml_at(list, i), err);
    if (rc == KVT_OK && (*out)->count == 0)
        rc = kvt_error_set(err, KVT_INVALID, "%s names no credentials", path);
    if (rc != KVT_OK) {
        gateway_client_credentials_drop(*out);
        *out = NULL;
    }
    kvt_yaml_free(file);
    return rc;
}

const struct gateway_principal *
gateway_client_credentials_find(const struct gateway_client_credentials *table, const char *access)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->principals[i].access, access) == 0)
            return &table->principals[i];
    return NULL;
}

size_t
gateway_client_credentials_count(const struct gateway_client_credentials *table)
{
    return table->count;
}

struct gateway_client_credentials *
gateway_client_credentials_hold(struct gateway_client_credentials *table)
{
    if (table != NULL)
        (void)atomic_fetch_add(&table->holders, 1);
    return table;
}

void
gateway_client_credentials_drop(struct gateway_client_credentials *table)
{
    if (table == NULL)
        return;
    assert(atomic_load(&table->holders) > 0);
    if (atomic_fetch_sub(&table->holders, 1) > 1)
        return;
    if (table->principals != NULL)
        explicit_bzero(table->principals, table->room * sizeof(*table->principals));
    kvt_free(table->principals);
    kvt_free(table);
}
