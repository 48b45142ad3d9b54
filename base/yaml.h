/*
 * base/yaml.h -- files of settings that are more than key: value lines, read by tables of fields.
 *
 * Why: lists of sources and policies are written by people; each mistake must be told with file,
 * line, column and the nearest word that is known, and nothing is ever ignored silently.
 *
 * Ownership: a document belongs to the caller until kvt_yaml_free(); values point into it.
 * Threads:   none; one owner.
 * Limits:    KVT_YAML_FILE_MAX bytes; KVT_YAML_FIELDS_MAX fields in a section.  Anchors and aliases
 *            are allowed; reading is as deep as the tables are.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVT_YAML_FILE_MAX   (1u << 20)
#define KVT_YAML_FIELDS_MAX 64

struct kvt_yaml;

/* A node of a document. */
struct kvt_yaml_value {
    struct kvt_yaml *file;
    int node; /* 0: none */
};

/**
 * Read the file's one document.
 *
 * @param[out] root  of the document; none for an empty file
 */
KVT_NODISCARD enum kvt_err kvt_yaml_load(struct kvt_yaml **out, const char *path,
                                         struct kvt_yaml_value *root, struct kvt_error *err);
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

/** "file:line:column: ..." about a value.  Always KVT_INVALID. */
enum kvt_err kvt_yaml_refuse(struct kvt_yaml_value value, struct kvt_error *err, const char *format,
                             ...) KVT_PRINTF(3, 4);

#endif /* BASE_YAML_H */
