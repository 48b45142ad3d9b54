#include "cli/frame/contexts.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/file.h"
#include "base/text/parse.h"
#include "base/text/yaml.h"
#include "cli/frame/cli_settings.h"

#define FILE_NAME "contexts.yaml"

enum { TEXT_MAX = 1 << 20, FILE_MODE = 0600 };

const size_t cli_context_keys[CLI_CONTEXT_KEYS] = {
    CLI_SETTING_ADVISOR_URL,
    CLI_SETTING_GATEWAY_URL,
    CLI_SETTING_GATEWAY_OTHERS,
    CLI_SETTING_GATEWAY_DATA_URL,
    CLI_SETTING_GATEWAY_CREDENTIALS_FILE,
    CLI_SETTING_BUCKET,
    CLI_SETTING_ADMIN_TOKEN_FILE,
    CLI_SETTING_NATS_URL,
    CLI_SETTING_NATS_USER_FILE,
    CLI_SETTING_NATS_TOKEN_FILE,
    CLI_SETTING_NATS_CREDS_FILE,
    CLI_SETTING_NATS_CA_FILE,
};

bool
cli_contexts_name_ok(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t size = strlen(name);

    return size > 0 && size < CLI_CONTEXT_NAME_MAX && name[0] != '-' && name[0] != '.' &&
           strspn(name, allowed) == size;
}

/* ---- where ---- */

static enum kvt_err
folder_of(char folder[CLI_CONTEXTS_PATH_MAX], struct kvt_error *err)
{
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *below = "/kvtier";
    int size;

    if (base == NULL || base[0] != '/') { /* a relative one is to be ignored */
        base = getenv("HOME");
        below = "/.config/kvtier";
    }
    folder[0] = '\0';
    if (base == NULL || base[0] == '\0')
        return kvt_error_set(err, KVT_NOTFOUND,
                             "contexts: neither XDG_CONFIG_HOME nor HOME says where they are");
    size = snprintf(folder, CLI_CONTEXTS_PATH_MAX, "%s%s", base, below);
    if (size < 0 || (size_t)size + sizeof("/" FILE_NAME) > CLI_CONTEXTS_PATH_MAX)
        return kvt_error_set(err, KVT_RANGE, "contexts: the name of their folder is too long");
    return KVT_OK;
}

/* A token must not be sent where another user of the machine says. */
static enum kvt_err
check_owner(const char *path, struct kvt_error *err)
{
    struct stat seen;

    if (stat(path, &seen) != 0)
        return KVT_OK; /* reading it says why */
    if (seen.st_uid != geteuid() && seen.st_uid != 0)
        return kvt_error_set(err, KVT_DENIED, "%.150s belongs to another user", path);
    if ((seen.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return kvt_error_set(err, KVT_DENIED, "%.150s: others may write it; chmod 600 it", path);
    return KVT_OK;
}

/* ---- reading ---- */

static int
key_of(const char *text)
{
    for (size_t i = 0; i < CLI_CONTEXT_KEYS; i++)
        if (strcmp(cli_settings[cli_context_keys[i]].key, text) == 0)
            return (int)i;
    return -1;
}

static enum kvt_err
read_entry(struct cli_context_entry *entry, struct kvt_yaml_value section, struct kvt_error *err)
{
    struct kvt_yaml_value key;
    struct kvt_yaml_value value;

    if (kvt_yaml_kind(section) != KVT_YAML_MAPPING)
        return kvt_yaml_refuse(section, err, "context %s: want settings, as advisor.url: ...",
                               entry->name);
    for (size_t i = 0; kvt_yaml_pair(section, i, &key, &value); i++) {
        const char *name = kvt_yaml_text(key);
        const char *text = kvt_yaml_text(value);
        const int at = name == NULL ? -1 : key_of(name);

        if (at < 0)
            return kvt_yaml_refuse(key, err, "\"%.40s\" is no setting of a context",
                                   name == NULL ? "" : name);
        if (text == NULL || strlen(text) >= CLI_CONTEXT_VALUE_MAX)
            return kvt_yaml_refuse(value, err, "%s: want one text, not too long", name);
        kvt_free(entry->values[at]);
        entry->values[at] = kvt_strdup(text);
        if (entry->values[at] == NULL)
            return kvt_error_set(err, KVT_NOMEM, "contexts: out of memory");
    }
    return KVT_OK;
}

static enum kvt_err
read_entries(struct cli_contexts *contexts, struct kvt_yaml_value section, struct kvt_error *err)
{
    struct kvt_yaml_value key;
    struct kvt_yaml_value value;
    enum kvt_err rc = KVT_OK;

    if (kvt_yaml_kind(section) != KVT_YAML_MAPPING && !kvt_yaml_is_null(section))
        return kvt_yaml_refuse(section, err, "contexts: want names with settings below them");
    for (size_t i = 0; rc == KVT_OK && kvt_yaml_pair(section, i, &key, &value); i++) {
        const char *name = kvt_yaml_text(key);
        struct cli_context_entry *entry;

        if (name == NULL || !cli_contexts_name_ok(name))
            return kvt_yaml_refuse(key, err, "\"%.40s\" is no name of a context",
                                   name == NULL ? "" : name);
        if (cli_contexts_find(contexts, name) != NULL)
            return kvt_yaml_refuse(key, err, "context %s twice", name);
        rc = cli_contexts_add(contexts, name, &entry, err);
        if (rc == KVT_OK)
            rc = read_entry(entry, value, err);
    }
    return rc;
}

static enum kvt_err
read_root(struct cli_contexts *contexts, struct kvt_yaml_value root, struct kvt_error *err)
{
    struct kvt_yaml_value key;
    struct kvt_yaml_value value;
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; rc == KVT_OK && kvt_yaml_pair(root, i, &key, &value); i++) {
        const char *name = kvt_yaml_text(key);
        const char *text = kvt_yaml_text(value);

        if (name != NULL && strcmp(name, "contexts") == 0)
            rc = read_entries(contexts, value, err);
        else if (name == NULL || strcmp(name, "current") != 0)
            rc = kvt_yaml_refuse(key, err, "\"%.40s\": want current or contexts",
                                 name == NULL ? "" : name);
        else if (text == NULL || (text[0] != '\0' && !cli_contexts_name_ok(text)))
            rc = kvt_yaml_refuse(value, err, "current: want the name of a context");
        else
            (void)snprintf(contexts->current, sizeof(contexts->current), "%s", text);
    }
    return rc;
}

enum kvt_err
cli_contexts_load(struct cli_contexts **out, struct kvt_error *err)
{
    struct cli_contexts *contexts = kvt_calloc(1, sizeof(*contexts));
    char folder[CLI_CONTEXTS_PATH_MAX];
    struct kvt_yaml_value root;
    struct kvt_yaml *file = NULL;
    enum kvt_err rc = KVT_NOMEM;

    *out = NULL;
    if (contexts != NULL)
        contexts->entries = kvt_calloc(CLI_CONTEXTS_MAX, sizeof(*contexts->entries));
    if (contexts == NULL || contexts->entries == NULL) {
        (void)kvt_error_set(err, rc, "contexts: out of memory");
        goto fail;
    }
    rc = folder_of(folder, err);
    if (rc != KVT_OK)
        goto fail;
    /* folder_of() left room for it. */
    (void)snprintf(contexts->path, sizeof(contexts->path), "%.4000s/" FILE_NAME, folder);
    if (access(contexts->path, F_OK) == 0) {
        rc = check_owner(contexts->path, err);
        if (rc == KVT_OK)
            rc = kvt_yaml_load(&file, contexts->path, &root, err);
        if (rc == KVT_OK)
            rc = read_root(contexts, root, err);
        kvt_yaml_free(file);
        if (rc != KVT_OK)
            goto fail;
    }
    *out = contexts;
    return KVT_OK;

fail:
    cli_contexts_free(contexts);
    return rc;
}

/* ---- changing ---- */

enum kvt_err
cli_contexts_lock(struct cli_contexts **out, int *lock, struct kvt_error *err)
{
    char folder[CLI_CONTEXTS_PATH_MAX];
    enum kvt_err rc = folder_of(folder, err);

    *out = NULL;
    *lock = -1;
    if (rc == KVT_OK)
        rc = kvt_folder_make(folder, err);
    if (rc != KVT_OK)
        return rc;
    *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX) != 0) {
        rc = kvt_error_set(err, KVT_IO, "contexts: %.150s cannot be locked", folder);
        goto fail;
    }
    rc = cli_contexts_load(out, err);
    if (rc == KVT_OK)
        return KVT_OK;
fail:
    if (*lock >= 0)
        (void)close(*lock);
    *lock = -1;
    return rc;
}

enum kvt_err
cli_contexts_save(const struct cli_contexts *contexts, struct kvt_error *err)
{
    struct kvt_buffer text;
    enum kvt_err rc;

    kvt_buffer_init(&text, TEXT_MAX);
    kvt_buffer_printf(&text, "# Written by kvtier context.\ncurrent: ");
    kvt_buffer_json_string(&text, contexts->current); /* which is YAML, too */
    kvt_buffer_printf(&text, "\ncontexts:%s\n", contexts->count == 0 ? " {}" : "");
    for (size_t i = 0; i < contexts->count; i++) {
        const struct cli_context_entry *entry = &contexts->entries[i];

        kvt_buffer_printf(&text, "  ");
        kvt_buffer_json_string(&text, entry->name);
        kvt_buffer_printf(&text, ":\n");
        for (size_t key = 0; key < CLI_CONTEXT_KEYS; key++) {
            if (entry->values[key] == NULL)
                continue;
            kvt_buffer_printf(&text, "    %s: ", cli_settings[cli_context_keys[key]].key);
            kvt_buffer_json_string(&text, entry->values[key]);
            kvt_buffer_printf(&text, "\n");
        }
    }
    rc = kvt_buffer_ok(&text)
             ? kvt_file_write(contexts->path, kvt_buffer_text(&text), text.size, FILE_MODE, err)
             : kvt_error_set(err, KVT_NOMEM, "contexts: out of memory");
    kvt_buffer_release(&text);
    return rc;
}

static void
entry_clear(struct cli_context_entry *entry)
{
    for (size_t i = 0; i < CLI_CONTEXT_KEYS; i++)
        kvt_free(entry->values[i]);
}

void
cli_contexts_free(struct cli_contexts *contexts)
{
    if (contexts == NULL)
        return;
    for (size_t i = 0; i < contexts->count; i++)
        entry_clear(&contexts->entries[i]);
    kvt_free(contexts->entries);
    kvt_free(contexts);
}

struct cli_context_entry *
cli_contexts_find(struct cli_contexts *contexts, const char *name)
{
    for (size_t i = 0; i < contexts->count; i++)
        if (strcmp(contexts->entries[i].name, name) == 0)
            return &contexts->entries[i];
    return NULL;
}

enum kvt_err
cli_contexts_add(struct cli_contexts *contexts, const char *name, struct cli_context_entry **out,
                 struct kvt_error *err)
{
    size_t at = 0;

    assert(cli_contexts_name_ok(name));
    *out = NULL;
    if (contexts->count == CLI_CONTEXTS_MAX)
        return kvt_error_set(err, KVT_FULL, "contexts: %d are the most", CLI_CONTEXTS_MAX);
    while (at < contexts->count && strcmp(contexts->entries[at].name, name) < 0)
        at++;
    memmove(&contexts->entries[at + 1], &contexts->entries[at],
            (contexts->count - at) * sizeof(*contexts->entries));
    contexts->count++;
    *out = &contexts->entries[at];
    memset(*out, 0, sizeof(**out));
    (void)snprintf((*out)->name, sizeof((*out)->name), "%s", name);
    return KVT_OK;
}

void
cli_contexts_remove(struct cli_contexts *contexts, struct cli_context_entry *entry)
{
    const size_t at = (size_t)(entry - contexts->entries);

    if (strcmp(contexts->current, entry->name) == 0)
        contexts->current[0] = '\0';
    entry_clear(entry);
    contexts->count--;
    memmove(entry, entry + 1, (contexts->count - at) * sizeof(*entry));
}

/* ---- using ---- */

enum kvt_err
cli_contexts_unknown(struct cli_contexts *contexts, const char *name, struct kvt_error *err)
{
    const char *words[CLI_CONTEXTS_MAX];
    const char *near;

    for (size_t i = 0; i < contexts->count; i++)
        words[i] = contexts->entries[i].name;
    near = kvt_suggest(name, words, contexts->count);
    return kvt_error_set(err, KVT_NOTFOUND, "no context is called \"%.60s\"%s%s%s", name,
                         near == NULL ? "; see: kvtier context ls" : " (did you mean \"",
                         near == NULL ? "" : near, near == NULL ? "" : "\"?)");
}

enum kvt_err
cli_contexts_apply(struct kvt_config *settings, bool in_use, struct kvt_error *err)
{
    const char *wanted = kvt_config_string(settings, CLI_SETTING_CONTEXT);
    struct cli_contexts *contexts;
    struct cli_context_entry *entry = NULL;
    char where[CLI_CONTEXT_NAME_MAX];
    enum kvt_err rc;

    if (!in_use && wanted[0] == '\0')
        return KVT_OK;
    rc = cli_contexts_load(&contexts, err);
    if (rc == KVT_NOTFOUND && wanted[0] == '\0')
        return KVT_OK; /* nobody has a place for any */
    if (rc != KVT_OK)
        return rc;
    if (wanted[0] == '\0')
        wanted = contexts->current;
    if (wanted[0] != '\0') {
        entry = cli_contexts_find(contexts, wanted);
        if (entry == NULL)
            rc = cli_contexts_unknown(contexts, wanted, err);
    }
    for (size_t i = 0; entry != NULL && rc == KVT_OK && i < CLI_CONTEXT_KEYS; i++) {
        (void)snprintf(where, sizeof(where), "%s", entry->name);
        if (entry->values[i] != NULL)
            rc = kvt_config_set_context(settings, cli_settings[cli_context_keys[i]].key,
                                        entry->values[i], where, err);
    }
    cli_contexts_free(contexts);
    return rc;
}
