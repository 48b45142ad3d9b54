#include <openssl/evp.h>
#include <string.h>

#include "advisor/rule/rulebook.h"
#include "base/text/hex.h"

enum { HASH_SIZE = 32 };

_Static_assert(2 * HASH_SIZE + 1 == ADVISOR_POLICY_DIGEST_MAX, "as hex");

static void
add_trigger(struct kvt_buffer *out, uint32_t start_ppm, uint32_t stop_ppm)
{
    char start[POLICY_VALUE_TEXT_MAX];
    char stop[POLICY_VALUE_TEXT_MAX];

    /* Settings may be equal, watermarks of a policy may not. */
    if (stop_ppm >= start_ppm)
        stop_ppm = start_ppm - 1;
    policy_value_format(POLICY_TYPE_RATIO, start_ppm, start);
    policy_value_format(POLICY_TYPE_RATIO, stop_ppm, stop);
    kvt_buffer_printf(out, "    trigger: {start: %s, stop: %s}\n", start, stop);
}

void
advisor_rulebook_text(const struct advisor_rulebook_settings *settings, struct kvt_buffer *out)
{
    kvt_buffer_printf(out,
                      "# Made from the settings policy.* of kvtier-advisor: no policy was "
                      "installed.\n"
                      "version: 1\n"
                      "tiers:\n"
                      "  hot: {level: G3}\n"
                      "  cold: {level: G4}\n"
                      "defaults:\n"
                      "  order_by: %s\n"
                      "rules:\n",
                      settings->ordering);
    if (settings->promotes)
        kvt_buffer_puts(out, "  - id: bring-back\n"
                             "    from: cold\n"
                             "    to: hot\n"
                             "    on: second_cold_hit\n");
    kvt_buffer_puts(out, "  - id: drain-hot\n"
                         "    from: hot\n"
                         "    to: cold\n");
    add_trigger(out, settings->hot_start_ppm, settings->hot_stop_ppm);
    kvt_buffer_puts(out, "  - id: drain-cold\n"
                         "    in: cold\n"
                         "    do: expire\n");
    add_trigger(out, settings->cold_start_ppm, settings->cold_stop_ppm);
    /* How far it goes is for policy.mode and `kvtier policy mode` to say. */
    kvt_buffer_puts(out, "modes: {mode: enforce}\n");
}

enum kvt_err
advisor_rulebook_digest(const char *text, size_t size, char digest[ADVISOR_POLICY_DIGEST_MAX])
{
    uint8_t hash[HASH_SIZE];

    digest[0] = '\0';
    if (EVP_Digest(text, size, hash, NULL, EVP_sha256(), NULL) != 1)
        return KVT_NOMEM;
    kvt_hex_format(hash, HASH_SIZE, digest);
    return KVT_OK;
}

/* ---- modes ---- */

static const char *const mode_names[] = {"off", "observe", "enforce"};

const char *
advisor_mode_name(enum advisor_mode mode)
{
    return mode_names[mode];
}

bool
advisor_mode_parse(const char *text, enum advisor_mode *mode)
{
    for (size_t i = 0; i < sizeof(mode_names) / sizeof(mode_names[0]); i++)
        if (strcmp(text, mode_names[i]) == 0) {
            *mode = (enum advisor_mode)i;
            return true;
        }
    *mode = ADVISOR_MODE_OFF;
    return false;
}
