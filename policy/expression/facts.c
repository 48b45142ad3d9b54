#include "policy/expression/facts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct policy_fact_row policy_fact_rows[POLICY_FACT_COUNT] = {
#define FACT(id, name, type, member, help)                                                         \
    {name, POLICY_TYPE_##type, offsetof(struct policy_facts, member), help},
#include "policy/expression/fact.def"
#undef FACT
};

enum policy_fact
policy_fact_find(const char *name, size_t size)
{
    size_t fact = 0;

    while (fact < POLICY_FACT_COUNT && (strlen(policy_fact_rows[fact].name) != size ||
                                        memcmp(policy_fact_rows[fact].name, name, size) != 0))
        fact++;
    return (enum policy_fact)fact;
}

static const void *
member(const struct policy_facts *facts, enum policy_fact fact)
{
    return (const char *)facts + policy_fact_rows[fact].offset;
}

uint64_t
policy_facts_number(const struct policy_facts *facts, enum policy_fact fact)
{
    uint64_t value;

    assert(policy_fact_rows[fact].type != POLICY_TYPE_TEXT);
    assert(policy_fact_rows[fact].type != POLICY_TYPE_BOOL);
    memcpy(&value, member(facts, fact), sizeof(value));
    return value;
}

const char *
policy_facts_text(const struct policy_facts *facts, enum policy_fact fact)
{
    const char *text;

    assert(policy_fact_rows[fact].type == POLICY_TYPE_TEXT);
    memcpy(&text, member(facts, fact), sizeof(text));
    return text == NULL ? "" : text;
}

bool
policy_facts_flag(const struct policy_facts *facts, enum policy_fact fact)
{
    bool flag;

    assert(policy_fact_rows[fact].type == POLICY_TYPE_BOOL);
    memcpy(&flag, member(facts, fact), sizeof(flag));
    return flag;
}

const char *
policy_type_phrase(enum policy_type type)
{
    static const char *const phrases[] = {
        [POLICY_TYPE_BOOL] = "true or false",  [POLICY_TYPE_COUNT] = "a count",
        [POLICY_TYPE_DURATION] = "a duration", [POLICY_TYPE_SIZE] = "a size",
        [POLICY_TYPE_RATIO] = "a ratio",       [POLICY_TYPE_TEXT] = "text",
    };

    return phrases[type];
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* The largest unit that keeps the value whole. */
static void
format_whole(uint64_t value, const struct unit *units, size_t count,
             char text[POLICY_VALUE_TEXT_MAX])
{
    size_t i = 0;

    while (i + 1 < count && (value == 0 || value % units[i].factor != 0))
        i++;
    (void)snprintf(text, POLICY_VALUE_TEXT_MAX, "%" PRIu64 "%s", value / units[i].factor,
                   units[i].name);
}

static void
format_ratio(uint64_t ppm, char text[POLICY_VALUE_TEXT_MAX])
{
    char *end;

    (void)snprintf(text, POLICY_VALUE_TEXT_MAX, "%" PRIu64 ".%04" PRIu64, ppm / 10000, ppm % 10000);
    end = text + strlen(text);
    while (end[-1] == '0')
        end--;
    if (end[-1] == '.')
        end--;
    (void)snprintf(end, 2, "%%");
}

void
policy_value_format(enum policy_type type, uint64_t value, char text[POLICY_VALUE_TEXT_MAX])
{
    static const struct unit durations[] = {
        {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    static const struct unit sizes[] = {{"TiB", UINT64_C(1) << 40},
                                        {"GiB", UINT64_C(1) << 30},
                                        {"MiB", UINT64_C(1) << 20},
                                        {"KiB", UINT64_C(1) << 10},
                                        {"B", 1}};

    switch (type) {
    case POLICY_TYPE_DURATION:
        format_whole(value, durations, sizeof(durations) / sizeof(durations[0]), text);
        return;
    case POLICY_TYPE_SIZE:
        format_whole(value, sizes, sizeof(sizes) / sizeof(sizes[0]), text);
        return;
    case POLICY_TYPE_RATIO: format_ratio(value, text); return;
    case POLICY_TYPE_BOOL:
        (void)snprintf(text, POLICY_VALUE_TEXT_MAX, "%s", value != 0 ? "true" : "false");
        return;
    case POLICY_TYPE_COUNT:
    case POLICY_TYPE_TEXT: break;
    }
    (void)snprintf(text, POLICY_VALUE_TEXT_MAX, "%" PRIu64, value);
}
