/*
 * base/config/config_private.h -- what the files config*.c share.
 *
 * Why: reading YAML and printing are each a page of their own.
 * Ownership: a value owns its strings.
 * Threads:   as base/config/config.h.
 * Limits:    as base/config/config.h.
 */
#ifndef BASE_CONFIG_CONFIG_PRIVATE_H
#define BASE_CONFIG_CONFIG_PRIVATE_H

#include "base/config/config.h"

struct kvt_config_value {
    char *text;      /* as written */
    char *where;     /* "file:line:column", "KVTIER_X", "--x"; NULL for a default */
    uint64_t number; /* parsed, where the type has a number; an ENUM's row; a BOOL's 0 or 1 */
    enum kvt_config_origin origin;
};

struct kvt_config {
    const struct kvt_param *params;
    size_t count;
    struct kvt_config_value values[KVT_CONFIG_PARAMS_MAX];
};

/** Check `text` and, unless a higher source was there before, keep it.  `where` starts a message.
 */
KVT_NODISCARD enum kvt_err kvt_config_assign(struct kvt_config *config, size_t index,
                                             const char *text, enum kvt_config_origin origin,
                                             const char *where, struct kvt_error *err);

/** "admin.port" -> "admin-port". */
void kvt_config_flag_name(const struct kvt_param *param, char name[KVT_CONFIG_KEY_MAX]);

/** "admin.port" -> "KVTIER_ADMIN_PORT". */
void kvt_config_env_name(const struct kvt_param *param, char name[KVT_CONFIG_KEY_MAX]);

/** Copy word `row` of "a|b|c" into `word`; false when there are fewer. */
bool kvt_config_word(const char *words, size_t row, char word[KVT_CONFIG_KEY_MAX]);

#endif /* BASE_CONFIG_CONFIG_PRIVATE_H */
