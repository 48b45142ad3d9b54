#include "policy/file/policy_schema.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "policy/file/policy_keys.h"

#define NAME_PATTERN "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$"

static void
print_id(struct kvt_buffer *out, enum policy_section section)
{
    static const char *const ids[] = {
#define SECTION(id, tag, title, help) #id,
#define KEY(...)
#define SYNONYM(...)
#include "policy/file/key.def"
#undef SECTION
#undef KEY
#undef SYNONYM
    };

    for (const char *at = ids[section]; *at != '\0'; at++)
        kvt_buffer_printf(out, "%c", tolower((unsigned char)*at));
}

/* ---- JSON Schema ---- */

static void
print_words(struct kvt_buffer *out, const char *words)
{
    char word[POLICY_NAME_MAX];

    kvt_buffer_printf(out, "\"enum\": [");
    for (size_t i = 0; policy_word(words, i, word); i++)
        kvt_buffer_printf(out, "%s\"%s\"", i == 0 ? "" : ", ", word);
    kvt_buffer_printf(out, "]");
}

/* One element, or a list of them. */
static void
print_elements(struct kvt_buffer *out, const struct policy_key *key)
{
    for (int list = 0; list < 2; list++) {
        kvt_buffer_printf(out, list == 0 ? "\"anyOf\": [{"
                                         : "}, {\"type\": \"array\", "
                                           "\"minItems\": 1, \"items\": {");
        switch (key->type) {
        case POLICY_KEY_CHOICES: print_words(out, key->max); break;
        case POLICY_KEY_TIMES:
            kvt_buffer_printf(out, "\"type\": \"string\", "
                                   "\"pattern\": \"^([01][0-9]|2[0-3]):[0-5][0-9]$\"");
            break;
        case POLICY_KEY_HASHES:
            kvt_buffer_printf(out, "\"type\": [\"string\", \"integer\"]");
            break;
        default: kvt_buffer_printf(out, "\"type\": \"string\", \"pattern\": \"" NAME_PATTERN "\"");
        }
        kvt_buffer_printf(out, list == 0 ? "" : "}}]");
    }
}

static void
print_pattern(struct kvt_buffer *out, const char *pattern, bool number)
{
    kvt_buffer_printf(out, number ? "\"type\": [\"string\", \"number\"], \"minimum\": 0, "
                                  : "\"type\": \"string\", ");
    kvt_buffer_printf(out, "\"pattern\": \"%s\"", pattern);
}

static void
print_container(struct kvt_buffer *out, const struct policy_key *key)
{
    if (key->type == POLICY_KEY_SECTION) {
        kvt_buffer_printf(out, "\"$ref\": \"#/$defs/");
        print_id(out, key->nested);
        kvt_buffer_printf(out, "\"");
        return;
    }
    if (key->type == POLICY_KEY_LIST)
        kvt_buffer_printf(out, "\"type\": \"array\", \"maxItems\": %s, \"items\": {", key->max);
    else
        kvt_buffer_printf(out,
                          "\"type\": \"object\", \"maxProperties\": %s, \"propertyNames\": "
                          "{\"pattern\": \"" NAME_PATTERN "\"}, \"additionalProperties\": {",
                          key->max);
    if (key->nested == POLICY_SECTION_CLASS) {
        kvt_buffer_printf(out, "\"type\": \"string\", \"minLength\": 1}");
        return;
    }
    kvt_buffer_printf(out, "\"$ref\": \"#/$defs/");
    print_id(out, key->nested);
    kvt_buffer_printf(out, "\"}");
}

static void
print_type(struct kvt_buffer *out, const struct policy_key *key)
{
    switch (key->type) {
    case POLICY_KEY_BOOL: kvt_buffer_printf(out, "\"type\": \"boolean\""); return;
    case POLICY_KEY_COUNT:
        if (key->min[0] != '\0' && strcmp(key->min, key->max) == 0)
            kvt_buffer_printf(out, "\"const\": %s", key->min);
        else
            print_pattern(out, "^[0-9]+[kM]?$", true);
        return;
    case POLICY_KEY_DURATION:
        print_pattern(out, "^[0-9]+(\\\\.[0-9]+)? *(ms|s|m|h|d)$", false);
        return;
    case POLICY_KEY_SIZE:
        print_pattern(out, "^[0-9]+(\\\\.[0-9]+)? *([KMGTkmgt][Ii]?)?[Bb]?$", true);
        return;
    case POLICY_KEY_RATIO: print_pattern(out, "^[0-9]+(\\\\.[0-9]+)? *%?$", true); return;
    case POLICY_KEY_RATE:
        print_pattern(out, "^[0-9]+(\\\\.[0-9]+)? *([KMGTkmgt][Ii]?)?[Bb]?/s$", false);
        return;
    case POLICY_KEY_PRICE: print_pattern(out, "^[0-9]+(\\\\.[0-9]+)?$", true); return;
    case POLICY_KEY_SHARE:
        print_pattern(out, "^[0-9]+(\\\\.[0-9]+)? *(%|([KMGTkmgt][Ii]?)?[Bb]?)$", true);
        return;
    case POLICY_KEY_TEXT:
        kvt_buffer_printf(out, "\"type\": \"string\", \"maxLength\": %d", POLICY_TEXT_MAX - 1);
        return;
    case POLICY_KEY_WORD:
    case POLICY_KEY_TIER:
    case POLICY_KEY_RULE:
    case POLICY_KEY_ORDERING: print_pattern(out, NAME_PATTERN, false); return;
    case POLICY_KEY_CHOICE: print_words(out, key->max); return;
    case POLICY_KEY_WHEN:
        kvt_buffer_printf(out, "\"type\": \"string\", \"minLength\": 1, \"maxLength\": %d",
                          POLICY_EXPRESSION_MAX);
        return;
    case POLICY_KEY_CHOICES:
    case POLICY_KEY_TIERS:
    case POLICY_KEY_TIMES:
    case POLICY_KEY_HASHES: print_elements(out, key); return;
    case POLICY_KEY_SECTION:
    case POLICY_KEY_LIST:
    case POLICY_KEY_MAP: print_container(out, key); return;
    }
}

static void
print_section(struct kvt_buffer *out, enum policy_section section, const char *indent)
{
    const struct policy_key *key;
    const char *comma = "";

    kvt_buffer_printf(out,
                      "%s\"type\": \"object\",\n%s\"additionalProperties\": false,\n"
                      "%s\"properties\": {\n",
                      indent, indent, indent);
    for (size_t i = 0; (key = policy_key_at(section, i)) != NULL; i++) {
        kvt_buffer_printf(out, "%s%s  \"%s\": {", i == 0 ? "" : ",\n", indent, key->key);
        print_type(out, key);
        kvt_buffer_printf(out, ",\n%s    \"description\": ", indent);
        kvt_buffer_json_string(out, key->help);
        if (key->fallback[0] != '\0')
            kvt_buffer_printf(out, ", \"default\": \"%s\"", key->fallback);
        kvt_buffer_printf(out, "}");
    }
    kvt_buffer_printf(out, "\n%s},\n%s\"required\": [", indent, indent);
    for (size_t i = 0; (key = policy_key_at(section, i)) != NULL; i++) {
        if (!key->required)
            continue;
        kvt_buffer_printf(out, "%s\"%s\"", comma, key->key);
        comma = ", ";
    }
    kvt_buffer_printf(out, "]");
}

void
policy_schema_print(struct kvt_buffer *out)
{
    const char *comma = "";

    kvt_buffer_printf(out, "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                           "  \"title\": \"KVTier policy\",\n");
    print_section(out, POLICY_SECTION_FILE, "  ");
    kvt_buffer_printf(out, ",\n  \"$defs\": {\n");
    for (size_t i = 0; i < POLICY_SECTION_COUNT; i++) {
        if (i == POLICY_SECTION_FILE || i == POLICY_SECTION_CLASS)
            continue;
        kvt_buffer_printf(out, "%s    \"", comma);
        print_id(out, (enum policy_section)i);
        kvt_buffer_printf(out, "\": {\n      \"description\": ");
        kvt_buffer_json_string(out, policy_section_rows[i].help);
        kvt_buffer_printf(out, ",\n");
        print_section(out, (enum policy_section)i, "      ");
        kvt_buffer_printf(out, "\n    }");
        comma = ",\n";
    }
    kvt_buffer_printf(out, "\n  }\n}\n");
}

/* ---- Markdown ---- */

static const char *
type_text(const struct policy_key *key)
{
    switch (key->type) {
    case POLICY_KEY_BOOL: return "true, false";
    case POLICY_KEY_COUNT: return "number";
    case POLICY_KEY_DURATION: return "duration";
    case POLICY_KEY_SIZE: return "size";
    case POLICY_KEY_RATIO: return "share";
    case POLICY_KEY_RATE: return "size/s";
    case POLICY_KEY_PRICE: return "price";
    case POLICY_KEY_SHARE: return "share or size";
    case POLICY_KEY_TEXT: return "text";
    case POLICY_KEY_WORD: return "name";
    case POLICY_KEY_TIER: return "tier";
    case POLICY_KEY_RULE: return "rule";
    case POLICY_KEY_ORDERING: return "ordering";
    case POLICY_KEY_TIERS: return "tiers";
    case POLICY_KEY_WHEN: return "condition";
    case POLICY_KEY_TIMES: return "times";
    case POLICY_KEY_HASHES: return "hashes";
    case POLICY_KEY_SECTION: return "section";
    case POLICY_KEY_LIST: return "list";
    case POLICY_KEY_MAP: return "names";
    case POLICY_KEY_CHOICE:
    case POLICY_KEY_CHOICES: break;
    }
    return NULL;
}

static void
print_row(struct kvt_buffer *out, const struct policy_key *key)
{
    const char *type = type_text(key);
    char word[POLICY_NAME_MAX];

    kvt_buffer_printf(out, "| `%s`%s | ", key->key, key->required ? " (needed)" : "");
    for (size_t i = 0; type == NULL && policy_word(key->max, i, word); i++)
        kvt_buffer_printf(out, "%s`%s`", i == 0 ? "" : ", ", word);
    kvt_buffer_printf(out, "%s%s | ", type == NULL ? "" : type,
                      key->type == POLICY_KEY_CHOICES ? "; one or a list" : "");
    if (key->fallback[0] != '\0')
        kvt_buffer_printf(out, "`%s` ", key->fallback);
    kvt_buffer_printf(out, "| %s", key->help);
    if ((key->type == POLICY_KEY_LIST || key->type == POLICY_KEY_MAP) && key->max[0] != '\0')
        kvt_buffer_printf(out, " At most %s.", key->max);
    kvt_buffer_printf(out, " |\n");
}

void
policy_schema_print_markdown(struct kvt_buffer *out)
{
    const struct policy_key *key;

    for (size_t i = 0; i < POLICY_SECTION_COUNT; i++) {
        if (i == POLICY_SECTION_CLASS || i == POLICY_SECTION_GIVEN)
            continue;
        kvt_buffer_printf(out, "### `");
        print_id(out, (enum policy_section)i);
        kvt_buffer_printf(out, "`\n\n%s\n\n| key | value | default | what |\n|---|---|---|---|\n",
                          policy_section_rows[i].help);
        for (size_t j = 0; (key = policy_key_at((enum policy_section)i, j)) != NULL; j++)
            print_row(out, key);
        kvt_buffer_printf(out, "\n");
    }
    kvt_buffer_printf(out,
                      "### Facts\n\nIn conditions, and in `given` of a test, where what is "
                      "left out is 0, empty or false.\n\n| fact | is | what |\n|---|---|---|\n");
    for (size_t i = 0; i < POLICY_FACT_COUNT; i++)
        kvt_buffer_printf(out, "| `%s` | %s | %s |\n", policy_fact_rows[i].name,
                          policy_type_phrase(policy_fact_rows[i].type), policy_fact_rows[i].help);
    kvt_buffer_printf(out, "\nOf `given` alone:\n\n| key | value | default | what |\n"
                           "|---|---|---|---|\n");
    for (size_t i = POLICY_FACT_COUNT; (key = policy_key_at(POLICY_SECTION_GIVEN, i)) != NULL; i++)
        print_row(out, key);
}
