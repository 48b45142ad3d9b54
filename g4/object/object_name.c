#include "g4/object/object_name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text/hex.h"
#include "g4/object/kind.h"
#include "g4/object/sha256.h"

/*
 * Escaping maps each byte to a code.  No code begins another one, and codes sort as their bytes do,
 * so escaped keys sort as keys.  END sorts before every code and MORE is in none, so a segment that
 * ends a name is never a segment inside another one.
 */
enum {
    SEGMENT = 200,       /* bytes of codes in a segment; with MORE it fits into 255 */
    BEGINNING = SEGMENT, /* bytes of codes in a hashed name */
    CODE_MAX = 3,
    CODES_MAX = CODE_MAX * (G4_CLIENT_KEY_MAX - 1) + 1,
    SEGMENT_MAX = 255
};

#define END  "!"
#define MORE ")/"
#define LAST "zz" /* sorts after every code */

/* The folder of the configured bucket, which has no id. */
#define CONFIGURED "configured"

/* Sorts after every character of an identity name. */
#define IDENTITY_LAST "~"

/* Suffixes of files.  A segment with one of them is only ever the last of a key that stays as it
 * is. */
static const char *const suffixes[] = {".bin",  ".csv",  ".gz",   ".html", ".json",        ".jsonl",
                                       ".lock", ".log",  ".md",   ".npy",  ".npz",         ".pt",
                                       ".tar",  ".text", ".toml", ".txt",  ".safetensors", ".xml",
                                       ".yaml", ".yml",  ".zip"};

static size_t
put_code(unsigned char byte, char code[CODE_MAX + 1])
{
    const char lead = byte < '-' ? '(' : byte < 'A' ? '=' : byte < '_' ? '_' : 'z';

    code[1] = '\0';
    code[0] = (char)byte;
    if (byte == '-' || (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
        (byte >= 'a' && byte < 'z'))
        return 1;
    if (byte == '.' || byte == '/' || byte == '_' || byte == '`' || byte == 'z') {
        memcpy(code,
               byte == '.'   ? ".d"
               : byte == '/' ? ".s"
               : byte == '_' ? "__"
               : byte == '`' ? "_a"
                             : "z0",
               3);
        return 2;
    }
    code[0] = lead;
    kvt_hex_format(&byte, 1, code + 1);
    return 3;
}

static size_t
escape(const char *key, char codes[CODES_MAX])
{
    size_t size = 0;

    for (; *key != '\0'; key++)
        size += put_code((unsigned char)*key, codes + size);
    codes[size] = '\0';
    return size;
}

/* The byte that the code at `at` stands for, if it is one; 0: it is none. */
static unsigned char
byte_of(const char *at)
{
    const int high = at[0] == '\0' ? -1 : kvt_hex_digit(at[1]);
    const int low = high < 0 ? -1 : kvt_hex_digit(at[2]);

    if (at[0] == '.')
        return at[1] == 'd' ? '.' : '/';
    if (at[0] == '_' && (at[1] == '_' || at[1] == 'a'))
        return at[1] == '_' ? '_' : '`';
    if (at[0] == 'z' && at[1] == '0')
        return 'z';
    if (strchr("(=_z", at[0]) == NULL)
        return (unsigned char)at[0];
    return low < 0 ? 0 : (unsigned char)(high * 16 + low);
}

/* The byte whose code is at `at`, and the code's size; 0: none. */
static size_t
take_code(const char *at, char *byte)
{
    const unsigned char value = byte_of(at);
    char code[CODE_MAX + 1];
    size_t size;

    if (value == 0)
        return 0;
    size = put_code(value, code);
    *byte = (char)value;
    return strncmp(at, code, size) == 0 ? size : 0;
}

static bool
is_safe(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           strchr("-._=@+,", c) != NULL;
}

static bool
has_suffix(const char *segment, size_t size)
{
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        const size_t tail = strlen(suffixes[i]);

        if (size > tail && memcmp(segment + size - tail, suffixes[i], tail) == 0)
            return true;
    }
    return false;
}

/* Safe characters only; a first '.' would be ".", ".." or a hidden file. */
static bool
is_plain(const char *segment, size_t size)
{
    if (size == 0 || size > SEGMENT_MAX || segment[0] == '.')
        return false;
    for (size_t i = 0; i < size; i++)
        if (segment[i] == '\0' || !is_safe(segment[i]))
            return false;
    return true;
}

static bool
is_inner(const char *segment, size_t size)
{
    return is_plain(segment, size) && !has_suffix(segment, size);
}

/* A block's key, its commit record or its lock.  All have a colon in the last segment. */
static bool
is_of_block(const char *key)
{
    const char *slash = strrchr(key, '/');
    const char *last = slash == NULL ? key : slash + 1;
    const size_t size = strlen(key);
    const size_t tail = strlen(G4_LOCK_SUFFIX);
    char other[KVT_KEY_MAX];

    if (strlen(last) > SEGMENT_MAX || strchr(last, ':') == NULL)
        return false;
    if (g4_kind_of_key(key, NULL) == G4_KIND_BLOCK || g4_kind_meta_block(key, other))
        return true;
    if (size <= tail || strcmp(key + size - tail, G4_LOCK_SUFFIX) != 0)
        return false;
    /* KVBM locks the block whose commit record has the same name but for the suffix. */
    (void)snprintf(other, sizeof(other), "%.*s" G4_KIND_META_SUFFIX, (int)(size - tail), key);
    return strlen(other) == size - tail + strlen(G4_KIND_META_SUFFIX) &&
           g4_kind_meta_block(other, (char[KVT_KEY_MAX]){0});
}

/* Are all segments up to the last one inner ones?  `*last` is the last one. */
static bool
inner_segments(const char *key, const char **last)
{
    const char *slash;

    for (*last = key; (slash = strchr(*last, '/')) != NULL; *last = slash + 1)
        if (!is_inner(*last, (size_t)(slash - *last)))
            return false;
    return true;
}

static bool
is_identity(const char *key)
{
    const char *last;

    if (strlen(key) >= G4_OBJECT_NAME_MAX || !inner_segments(key, &last))
        return false;
    return (is_plain(last, strlen(last)) && has_suffix(last, strlen(last))) || is_of_block(key);
}

static bool
is_bucket(const char *bucket)
{
    return bucket[0] == '\0' || (strlen(bucket) < G4_OBJECT_BUCKET_MAX &&
                                 strspn(bucket, "0123456789abcdef") == strlen(bucket));
}

/* Text appended to a name; past its end it is cut, and `fits` says so. */
struct writer {
    char *text;
    size_t size;
    bool fits;
};

static void
add(struct writer *writer, const char *text, size_t size)
{
    const size_t room = G4_OBJECT_NAME_MAX - 1 - writer->size;

    writer->fits = writer->fits && size <= room;
    size = size < room ? size : room;
    memcpy(writer->text + writer->size, text, size);
    writer->size += size;
    writer->text[writer->size] = '\0';
}

static struct writer
begin(struct g4_object_name *name, const char *area, const char *bucket)
{
    struct writer writer = {.text = name->text, .fits = true};

    name->text[0] = '\0';
    add(&writer, area, strlen(area));
    bucket = bucket[0] == '\0' ? CONFIGURED : bucket;
    add(&writer, bucket, strlen(bucket));
    add(&writer, "/", 1);
    return writer;
}

/* Codes in segments.  A full segment ends with MORE only when something follows. */
static void
add_codes(struct writer *writer, const char *codes, size_t size)
{
    for (size_t at = 0; at < size; at += SEGMENT) {
        if (at > 0)
            add(writer, MORE, strlen(MORE));
        add(writer, codes + at, size - at < SEGMENT ? size - at : SEGMENT);
    }
}

static bool
make_escaped(struct g4_object_name *name, const char *bucket, const char *codes, size_t size)
{
    struct writer writer = begin(name, G4_OBJECT_NAME_ESCAPED, bucket);

    add_codes(&writer, codes, size);
    add(&writer, END, strlen(END));
    return writer.fits;
}

static void
make_hashed(struct g4_object_name *name, const char *bucket, const char *key, const char *codes)
{
    struct writer writer = begin(name, G4_OBJECT_NAME_HASHED, bucket);
    char hex[G4_SHA256_HEX_MAX];

    g4_sha256_hex(key, strlen(key), hex);
    add(&writer, codes, BEGINNING);
    add(&writer, MORE, strlen(MORE));
    add(&writer, hex, strlen(hex));
    add(&writer, END, strlen(END));
}

enum kvt_err
g4_object_name_make(struct g4_object_name *name, const char *bucket, const char *key)
{
    char codes[CODES_MAX];
    size_t size;

    name->text[0] = '\0';
    if (key[0] == '\0' || !is_bucket(bucket))
        return KVT_INVALID;
    if (strlen(key) >= G4_CLIENT_KEY_MAX)
        return KVT_RANGE;
    if (bucket[0] == '\0' && is_identity(key)) {
        memcpy(name->text, key, strlen(key) + 1);
        return KVT_OK;
    }
    size = escape(key, codes);
    if (!make_escaped(name, bucket, codes, size))
        make_hashed(name, bucket, key, codes);
    return KVT_OK;
}

/* What follows the area and the bucket in `name`; NULL: it is not there. */
static const char *
below(const char *area, const char *bucket, const char *name)
{
    struct g4_object_name folder;
    const struct writer writer = begin(&folder, area, bucket);

    return strncmp(name, folder.text, writer.size) == 0 ? name + writer.size : NULL;
}

static bool
is_hash(const char *text)
{
    return strlen(text) == G4_SHA256_HEX_MAX - 1 + strlen(END) &&
           strspn(text, "0123456789abcdef") == G4_SHA256_HEX_MAX - 1 &&
           strcmp(text + G4_SHA256_HEX_MAX - 1, END) == 0;
}

/* The bytes whose codes are at `codes`.  Returns how much of `size` was whole codes. */
static size_t
decode(const char *codes, size_t size, char key[G4_CLIENT_KEY_MAX])
{
    size_t used = 0;
    size_t at = 0;

    while (at < size && used + 1 < G4_CLIENT_KEY_MAX) {
        const size_t step = take_code(codes + at, key + used);

        if (step == 0 || step > size - at)
            break;
        at += step;
        used++;
    }
    key[used] = '\0';
    return at;
}

/* The key whose codes are in the segments of `text`.  The caller makes the name again: that refuses
 * whatever this lets pass. */
static bool
unescape(const char *text, char key[G4_CLIENT_KEY_MAX])
{
    char codes[G4_OBJECT_NAME_MAX];
    size_t size = 0;

    for (; *text != '\0' && strcmp(text, END) != 0; text++) {
        if (strncmp(text, MORE, strlen(MORE)) == 0)
            text += strlen(MORE);
        codes[size++] = *text;
        if (*text == '\0')
            return false;
    }
    codes[size] = '\0';
    return size > 0 && decode(codes, size, key) == size;
}

/* A name is a client's when its key has that very name. */
static bool
is_name_of(const char *bucket, const char *key, const char *name)
{
    struct g4_object_name again;

    return g4_object_name_make(&again, bucket, key) == KVT_OK && strcmp(again.text, name) == 0;
}

enum kvt_err
g4_object_name_key(const char *bucket, const char *name, char key[G4_CLIENT_KEY_MAX])
{
    const char *tail;

    key[0] = '\0';
    if (!is_bucket(bucket) || strlen(name) >= G4_OBJECT_NAME_MAX)
        return KVT_INVALID;
    tail = below(G4_OBJECT_NAME_HASHED, bucket, name);
    if (tail != NULL)
        return strlen(tail) > BEGINNING + strlen(MORE) &&
                       memcmp(tail + BEGINNING, MORE, strlen(MORE)) == 0 &&
                       is_hash(tail + BEGINNING + strlen(MORE))
                   ? KVT_NOTFOUND
                   : KVT_INVALID;
    tail = below(G4_OBJECT_NAME_ESCAPED, bucket, name);
    if (tail == NULL && bucket[0] == '\0')
        memcpy(key, name, strlen(name) + 1);
    else if (tail == NULL || !unescape(tail, key))
        key[0] = '\0';
    if (key[0] != '\0' && is_name_of(bucket, key, name))
        return KVT_OK;
    key[0] = '\0';
    return KVT_INVALID;
}

bool
g4_object_name_bucket(const char *name, char bucket[G4_OBJECT_BUCKET_MAX])
{
    const size_t escaped = strlen(G4_OBJECT_NAME_ESCAPED);
    const size_t hashed = strlen(G4_OBJECT_NAME_HASHED);
    const char *folder = strncmp(name, G4_OBJECT_NAME_ESCAPED, escaped) == 0 ? name + escaped
                         : strncmp(name, G4_OBJECT_NAME_HASHED, hashed) == 0 ? name + hashed
                                                                             : NULL;
    const size_t size = folder == NULL ? 0 : strcspn(folder, "/");

    bucket[0] = '\0';
    if (folder == NULL || (size == strlen(CONFIGURED) && memcmp(folder, CONFIGURED, size) == 0))
        return true;
    if (size == 0 || size >= G4_OBJECT_BUCKET_MAX)
        return false;
    memcpy(bucket, folder, size);
    bucket[size] = '\0';
    return true;
}

bool
g4_object_name_form(const char *bucket, const char *name, enum g4_object_form *form)
{
    char key[G4_CLIENT_KEY_MAX];
    const enum kvt_err rc = g4_object_name_key(bucket, name, key);

    *form = rc == KVT_NOTFOUND                                    ? G4_OBJECT_HASHED
            : below(G4_OBJECT_NAME_ESCAPED, bucket, name) != NULL ? G4_OBJECT_ESCAPED
                                                                  : G4_OBJECT_IDENTITY;
    return rc != KVT_INVALID;
}

void
g4_object_name_beginning(const char *bucket, const char *name, char key[G4_CLIENT_KEY_MAX])
{
    const enum kvt_err rc = g4_object_name_key(bucket, name, key);

    if (rc == KVT_NOTFOUND)
        (void)decode(below(G4_OBJECT_NAME_HASHED, bucket, name), BEGINNING, key);
    else if (rc != KVT_OK)
        (void)snprintf(key, G4_CLIENT_KEY_MAX, "%s", name);
}

bool
g4_object_name_record(const char *bucket, const char *name, struct g4_object_name *record)
{
    enum g4_object_form form;
    struct writer writer;

    record->text[0] = '\0';
    if (!g4_object_name_form(bucket, name, &form) || form != G4_OBJECT_HASHED)
        return false;
    writer = begin(record, G4_OBJECT_NAME_RECORD, bucket);
    add(&writer, strrchr(name, '/') + 1, strlen(strrchr(name, '/') + 1));
    return true;
}

/* Can an identity name begin with `prefix`? */
static bool
begins_identity(const char *bucket, const char *prefix)
{
    const char *last;

    if (bucket[0] != '\0' || strlen(prefix) >= G4_OBJECT_NAME_MAX || !inner_segments(prefix, &last))
        return false;
    if (last[0] == '.' || strlen(last) > SEGMENT_MAX)
        return false;
    for (; *last != '\0'; last++)
        if (!is_safe(*last) && *last != ':')
            return false;
    return true;
}

enum kvt_err
g4_object_name_prefix(struct g4_object_name *out, const char *bucket, enum g4_object_form form,
                      const char *prefix)
{
    char codes[CODES_MAX];
    struct writer writer;
    size_t size;

    out->text[0] = '\0';
    if (strlen(prefix) >= G4_CLIENT_KEY_MAX || !is_bucket(bucket))
        return KVT_NOTFOUND;
    if (form == G4_OBJECT_IDENTITY) {
        if (!begins_identity(bucket, prefix))
            return KVT_NOTFOUND;
        memcpy(out->text, prefix, strlen(prefix) + 1);
        return KVT_OK;
    }
    size = escape(prefix, codes);
    writer = begin(out, form == G4_OBJECT_ESCAPED ? G4_OBJECT_NAME_ESCAPED : G4_OBJECT_NAME_HASHED,
                   bucket);
    add_codes(&writer, codes, form == G4_OBJECT_HASHED && size > BEGINNING ? BEGINNING : size);
    return writer.fits ? KVT_OK : KVT_NOTFOUND;
}

/* How much of `key` an identity name can begin with: a store refuses some other texts. */
static size_t
identity_size(const char *key)
{
    size_t size = 0;

    for (; key[size] != '\0' && size + 2 < G4_OBJECT_NAME_MAX; size++) {
        const bool first = size == 0 || key[size - 1] == '/';

        if (first ? key[size] == '.' || !is_safe(key[size])
                  : !is_safe(key[size]) && key[size] != '/' && key[size] != ':')
            break;
    }
    return size;
}

void
g4_object_name_after(struct g4_object_name *out, const char *bucket, enum g4_object_form form,
                     const char *key, bool beyond)
{
    char codes[CODES_MAX];
    struct writer writer;
    size_t size = strlen(key);

    out->text[0] = '\0';
    if (form == G4_OBJECT_IDENTITY) {
        size = identity_size(key);
        writer = (struct writer){.text = out->text, .fits = true};
        add(&writer, key, size);
        if (beyond && key[size] == '\0')
            add(&writer, IDENTITY_LAST, strlen(IDENTITY_LAST));
        return;
    }
    size = escape(key, codes);
    writer = begin(out, form == G4_OBJECT_ESCAPED ? G4_OBJECT_NAME_ESCAPED : G4_OBJECT_NAME_HASHED,
                   bucket);
    if (form == G4_OBJECT_HASHED && size > BEGINNING) {
        /* Names that share this beginning are not in the order of their keys: none is left out. */
        add(&writer, codes, BEGINNING);
        return;
    }
    add_codes(&writer, codes, size);
    add(&writer, beyond ? LAST : END, beyond ? strlen(LAST) : strlen(END));
}
