/*
 * base/text/yaml.h -- files of settings that are more than key: value lines, read by tables of
 * fields.
 *
 * Why: lists of sources and policies are written by people; each mistake must be told with file,
 * line, column and the nearest word that is known, and nothing is ever ignored silently.
 *
 * Ownership: a document belongs to the caller until kvt_yaml_free(); values point into it.
 * Threads:   none; one owner.
 * Limits:    KVT_YAML_FILE_MAX bytes, KVT_YAML_DEPTH_MAX levels, KVT_YAML_VALUES_MAX values (those
 *            that aliases repeat count again), KVT_YAML_ANCHORS_MAX anchors, no %TAG; all of them
 *            are checked before a value is read.  KVT_YAML_FIELDS_MAX fields in a section.
 */
#ifndef BASE_TEXT_YAML_H
#define BASE_TEXT_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVT_YAML_FILE_MAX       (1u << 20)
#define KVT_YAML_DEPTH_MAX      32
#define KVT_YAML_VALUES_MAX     (1u << 18)
#define KVT_YAML_ANCHORS_MAX    256
#define KVT_YAML_FIELDS_MAX     64
#define KVT_YAML_PATH_SHOWN_MAX 96 /* a place names the last bytes of a path */
#define KVT_YAML_WHERE_MAX      (KVT_YAML_PATH_SHOWN_MAX + 48)

struct kvt_yaml;
struct yaml_node_s; /* of libyaml: yaml_node_t */

/* A node of a document. */
struct kvt_yaml_value {
    struct kvt_yaml *file;
    int node; /* 0: none */
};

/* A place in the text; both count from 1. */
struct kvt_yaml_mark {
    size_t line;
    size_t column; /* characters */
};

/**
 * Read the file's one document.
 *
 * @param[out] root  of the document; none for an empty file
 */
KVT_NODISCARD enum kvt_err kvt_yaml_load(struct kvt_yaml **out, const char *path,
                                         struct kvt_yaml_value *root, struct kvt_error *err);
/** The same of a file that is one list under `key`, which it must have.
 *
 * @param[out] list  its elements; none unless KVT_OK */
KVT_NODISCARD enum kvt_err kvt_yaml_load_list(struct kvt_yaml **out, const char *path,
                                              const char *key, struct kvt_yaml_value *list,
                                              struct kvt_error *err);
/** The same of text at hand; `name` is what messages call it.  `mark` (NULL is allowed) receives
 *  the place of what is no YAML, and 0:0 otherwise. */
KVT_NODISCARD enum kvt_err kvt_yaml_parse(struct kvt_yaml **out, const char *name, const char *text,
                                          size_t size, struct kvt_yaml_value *root,
                                          struct kvt_yaml_mark *mark, struct kvt_error *err);
/** NULL is allowed. */
void kvt_yaml_free(struct kvt_yaml *file);

enum kvt_yaml_type {
    KVT_YAML_STRING,   /* char[size]: copied; too long is an error */
    KVT_YAML_STRINGS,  /* char[size]: one text or a list of them, joined by commas */
    KVT_YAML_U64,      /* uint64_t, min..max */
    KVT_YAML_SIZE,     /* uint64_t, "64MiB" */
    KVT_YAML_DURATION, /* uint64_t, in milliseconds */
    KVT_YAML_RATIO,    /* uint32_t, parts per million */
    KVT_YAML_BOOL,     /* bool: true, false */
    KVT_YAML_CHOICE,   /* char[size]: one of `choices`, "a|b|c" */
    KVT_YAML_LIST,     /* struct kvt_yaml_value */
    KVT_YAML_SECTION,  /* struct kvt_yaml_value */
};

/* What may stand in a section.  A field that is not given leaves its target as it was. */
struct kvt_yaml_field {
    const char *key;
    enum kvt_yaml_type type;
    void *target;
    size_t size;         /* STRING, STRINGS, CHOICE: of the target */
    const char *choices; /* CHOICE */
    uint64_t min;        /* U64, SIZE, DURATION */
    uint64_t max;        /* the same; 0: no bound */
    bool required;
    bool *given; /* NULL, or told whether it was there */
};

/** Read a section.  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err kvt_yaml_read(struct kvt_yaml_value section,
                                         const struct kvt_yaml_field *fields, size_t count,
                                         struct kvt_error *err);

/** Elements of a list; 0 for none. */
size_t kvt_yaml_count(struct kvt_yaml_value list);
struct kvt_yaml_value kvt_yaml_at(struct kvt_yaml_value list, size_t at);

/* ---- values one by one, for readers that tables of fields do not serve ---- */

enum kvt_yaml_kind { KVT_YAML_NONE, KVT_YAML_SCALAR, KVT_YAML_SEQUENCE, KVT_YAML_MAPPING };

enum kvt_yaml_kind kvt_yaml_kind(struct kvt_yaml_value value);

/** Nothing at all, "~" or "null", without quotes. */
bool kvt_yaml_is_null(struct kvt_yaml_value value);

/** The text of a scalar; NULL for everything else, and for text with a NUL byte in it. */
const char *kvt_yaml_text(struct kvt_yaml_value value);

/** Line number `at` of a section; false behind the last. */
bool kvt_yaml_pair(struct kvt_yaml_value section, size_t at, struct kvt_yaml_value *key,
                   struct kvt_yaml_value *value);

/** Where a value begins; where byte `offset` of a scalar's text stands, as exactly as quoting and
 *  folding let it be told. */
struct kvt_yaml_mark kvt_yaml_mark(struct kvt_yaml_value value);
struct kvt_yaml_mark kvt_yaml_mark_at(struct kvt_yaml_value value, size_t offset);

/** "file:line:column: ..." about a value.  Always KVT_INVALID. */
enum kvt_err kvt_yaml_refuse(struct kvt_yaml_value value, struct kvt_error *err, const char *format,
                             ...) KVT_PRINTF(3, 4);

/* ---- nodes, for keys that are paths through sections (base/config/config_yaml.c) ---- */

/** NULL for none. */
const struct yaml_node_s *kvt_yaml_node(struct kvt_yaml_value value);

/** The whole text of the document. */
const char *kvt_yaml_source(struct kvt_yaml_value value, size_t *size);

/** "file:line:column". */
void kvt_yaml_where(struct kvt_yaml_value value, char where[KVT_YAML_WHERE_MAX]);

#endif /* BASE_TEXT_YAML_H */
