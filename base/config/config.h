/*
 * base/config/config.h -- one table per program says every setting once.
 *
 * Why: the table makes the parser, --help, `config show --origin`, the example file and the man
 * page, so they cannot disagree.  Precedence: flag > KVTIER_* > named context > YAML file >
 * default.
 *
 *   key "admin.port"  ->  flag --admin-port  ->  KVTIER_ADMIN_PORT  ->  YAML  admin: {port: ...}
 *
 * Ownership: a config owns its values; strings it returns live until kvt_config_free().
 * Threads:   read-only after loading; then any thread may read.
 * Limits:    KVT_CONFIG_PARAMS_MAX settings; a file as large as base/text/yaml.h allows.
 *
 * A table is an X-macro file, config/<program>.def, with rows
 *
 *   PARAM(ID, "key", TYPE, "default", "min", "max", "env alias", "what it is and why to change it")
 *
 * and `#include "config/common.def"` as its first line.  The program makes both its enum (in table
 * order) and its array of it:
 *
 *   enum {                                      static const struct kvt_param params[] = {
 *   #define PARAM(id, ...) GATEWAY_##id,        #define PARAM KVT_PARAM_ROW
 *   #include "config/gateway.def"               #include "config/gateway.def"
 *   #undef PARAM                                #undef PARAM
 *   };                                          };
 *
 * An empty environment variable counts as unset.  Whatever the order in which the sources are
 * applied, the higher one wins; a wrong value is an error even where a higher source overrides it.
 */
#ifndef BASE_CONFIG_CONFIG_H
#define BASE_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/core/buffer.h"
#include "base/text/parse.h"
#include "kvtier/error.h"

#define KVT_CONFIG_PARAMS_MAX 128
#define KVT_CONFIG_KEY_MAX    64 /* with the final NUL; also of the flag and the KVTIER_* name */
#define KVT_CONFIG_VALUE_MAX  4096

enum kvt_config_type {
    KVT_CONFIG_STRING,
    KVT_CONFIG_BOOL,     /* true/false, yes/no, on/off, 1/0 */
    KVT_CONFIG_INT,      /* unsigned decimal */
    KVT_CONFIG_SIZE,     /* bytes; KiB MiB GiB TiB KB MB GB TB suffixes */
    KVT_CONFIG_DURATION, /* milliseconds; ms s m h d suffixes */
    KVT_CONFIG_RATIO,    /* "85%" or "0.85"; kept in parts per million */
    KVT_CONFIG_PATH,     /* a string that names a file or folder */
    KVT_CONFIG_SECRET,   /* a PATH of a 0600 file holding the secret; its content is never shown */
    KVT_CONFIG_ENUM,     /* `max` holds the words: "core|jetstream" */
};

struct kvt_param {
    const char *key;
    enum kvt_config_type type;
    const char *fallback;  /* the default, as a person would write it; "" = unset */
    const char *min;       /* "" = none */
    const char *max;       /* "" = none; the words of an ENUM */
    const char *env_alias; /* more environment names, honoured after KVTIER_*: "A|B", or "" */
    const char *help;
};

#define KVT_PARAM_ROW(id, key, type, fallback, min, max, env_alias, help)                          \
    {key, KVT_CONFIG_##type, fallback, min, max, env_alias, help},

enum kvt_config_origin {
    KVT_ORIGIN_DEFAULT,
    KVT_ORIGIN_FILE,
    KVT_ORIGIN_CONTEXT, /* a set of values with a name, as of kvtier context */
    KVT_ORIGIN_ENV,
    KVT_ORIGIN_FLAG,
};

struct kvt_config;

/** A config with every default of `params` (a static table; not copied). */
KVT_NODISCARD enum kvt_err kvt_config_new(struct kvt_config **out, const struct kvt_param *params,
                                          size_t count, struct kvt_error *err);
void kvt_config_free(struct kvt_config *config);

/** Apply a YAML file.  Errors name file:line:column, the text, and the nearest known key. */
KVT_NODISCARD enum kvt_err kvt_config_load_file(struct kvt_config *config, const char *path,
                                                struct kvt_error *err);

/** Apply KVTIER_* and alias variables from the environment. */
KVT_NODISCARD enum kvt_err kvt_config_load_env(struct kvt_config *config, struct kvt_error *err);

/** Apply one value of a named context; `where` says which.  KVT_NOTFOUND: no such key; else as a
 *  file's. */
KVT_NODISCARD enum kvt_err kvt_config_set_context(struct kvt_config *config, const char *key,
                                                  const char *value, const char *where,
                                                  struct kvt_error *err);

/** Apply one flag: `name` without dashes ("admin-port").  KVT_NOTFOUND when it is none of ours; the
 *  message then suggests the nearest.  `value` NULL is allowed for BOOL (means true);
 *  "no-<name>" of a BOOL, without a value, means false. */
KVT_NODISCARD enum kvt_err kvt_config_set_flag(struct kvt_config *config, const char *name,
                                               const char *value, struct kvt_error *err);

/** Is `name` a BOOL flag (takes no value)? */
bool kvt_config_flag_is_bool(const struct kvt_config *config, const char *name);

/* Readers: `index` is the row in the table; the type must fit, which is asserted. */
const char *kvt_config_string(const struct kvt_config *config, size_t index); /* never NULL; any */
uint64_t kvt_config_u64(const struct kvt_config *config, size_t index); /* INT SIZE DURATION */
bool kvt_config_bool(const struct kvt_config *config, size_t index);
uint32_t kvt_config_ppm(const struct kvt_config *config, size_t index); /* RATIO */
/** The row of an ENUM's word, 0-based in the order of its `max` text. */
size_t kvt_config_enum(const struct kvt_config *config, size_t index);

/** Is it set at all, by a default or anybody ("" is not)? */
bool kvt_config_is_set(const struct kvt_config *config, size_t index);

enum kvt_config_origin kvt_config_origin(const struct kvt_config *config, size_t index);

/** Read the secret a SECRET row points to: trailing newlines cut; KVT_DENIED for a file others may
 *  read, KVT_NOTFOUND when the row is unset, KVT_INVALID when it has several lines. */
KVT_NODISCARD enum kvt_err kvt_config_secret(const struct kvt_config *config, size_t index,
                                             char *text, size_t size, struct kvt_error *err);

/** The same for a file that may hold one secret a line. */
KVT_NODISCARD enum kvt_err kvt_config_secret_lines(const struct kvt_config *config, size_t index,
                                                   char *text, size_t size, struct kvt_error *err);

/* Generated from the table. */
void kvt_config_print_flags(const struct kvt_config *config, FILE *out);   /* for --help */
void kvt_config_print_example(const struct kvt_config *config, FILE *out); /* commented YAML */
void kvt_config_print_man(const struct kvt_config *config, FILE *out); /* roff OPTIONS section */
void kvt_config_print_show(const struct kvt_config *config, FILE *out, bool origin, bool json);

#endif /* BASE_CONFIG_CONFIG_H */
