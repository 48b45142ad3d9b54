#include "g4/lock/lock_body.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/text/json_pull.h"

enum { TIME_MAX = 64, NONCE_DIGITS = 16 };

#define YEAR_10000_MS UINT64_C(253402300800000)

/* A bit for each member, to see it missing or twice. */
enum {
    SEEN_INSTANCE = 1 << 0,
    SEEN_ACQUIRED = 1 << 1,
    SEEN_DEADLINE = 1 << 2,
    SEEN_NONCE = 1 << 3,
    SEEN_EPOCH = 1 << 4,
    SEEN_WRITES = 1 << 5,
    SEEN_RELEASED = 1 << 6,
    SEEN_NEEDED = SEEN_INSTANCE | SEEN_ACQUIRED | SEEN_DEADLINE,
};

uint64_t
g4_lock_body_ttl_ms(const struct g4_lock_body *body)
{
    return body->deadline_ms > body->acquired_ms ? body->deadline_ms - body->acquired_ms : 0;
}

/* ---- members ---- */

static bool
take_text(struct kvt_json_pull *pull, char *out, size_t size)
{
    struct kvt_json_slice slice;

    return kvt_json_pull_string(pull, &slice) && kvt_json_slice_copy(&slice, out, size, NULL);
}

static bool
take_time(struct kvt_json_pull *pull, uint64_t *unix_ms)
{
    char text[TIME_MAX];

    return take_text(pull, text, sizeof(text)) && kvt_clock_parse(text, unix_ms);
}

static bool
take_nonce(struct kvt_json_pull *pull, uint64_t *nonce)
{
    char text[NONCE_DIGITS + 1];

    return take_text(pull, text, sizeof(text)) && strlen(text) == NONCE_DIGITS &&
           kvt_hash_parse(text, nonce);
}

/* One member; 0 when it is bad, SEEN_* otherwise, and `*known` says whether it is one of ours. */
static unsigned
take_member(struct kvt_json_pull *pull, const struct kvt_json_slice *key, struct g4_lock_body *body,
            bool *known)
{
    *known = true;
    if (kvt_json_slice_is(key, "instance_id"))
        return take_text(pull, body->instance, sizeof(body->instance)) ? SEEN_INSTANCE : 0;
    if (kvt_json_slice_is(key, "acquired_at"))
        return take_time(pull, &body->acquired_ms) ? SEEN_ACQUIRED : 0;
    if (kvt_json_slice_is(key, "deadline"))
        return take_time(pull, &body->deadline_ms) ? SEEN_DEADLINE : 0;
    if (kvt_json_slice_is(key, "nonce"))
        return take_nonce(pull, &body->nonce) ? SEEN_NONCE : 0;
    if (kvt_json_slice_is(key, "epoch"))
        return kvt_json_pull_u64(pull, &body->epoch) && body->epoch <= G4_LOCK_EPOCH_MAX
                   ? SEEN_EPOCH
                   : 0;
    if (kvt_json_slice_is(key, "writes"))
        return kvt_json_pull_u64(pull, &body->writes) ? SEEN_WRITES : 0;
    if (kvt_json_slice_is(key, "released"))
        return kvt_json_pull_bool(pull, &body->released) ? SEEN_RELEASED : 0;
    *known = false;
    kvt_json_pull_skip(pull);
    return 0;
}

enum kvt_err
g4_lock_body_parse(struct g4_lock_body *body, const char *text, size_t size, struct kvt_error *err)
{
    struct kvt_json_pull pull;
    struct kvt_json_slice key;
    unsigned seen = 0;
    bool good = true;
    enum kvt_err rc;

    memset(body, 0, sizeof(*body));
    if (size > G4_LOCK_BODY_MAX)
        return kvt_error_set(err, KVT_RANGE, "a lock of %zu bytes", size);
    kvt_json_pull_init(&pull, text, size);
    good = kvt_json_pull_object(&pull);
    while (good && kvt_json_pull_member(&pull, &key)) {
        bool known;
        const unsigned bit = take_member(&pull, &key, body, &known);

        good = !known || (bit != 0 && (seen & bit) == 0);
        seen |= bit;
    }
    if (good) {
        rc = kvt_json_pull_end(&pull, "lock", err);
        if (rc == KVT_OK && (seen & SEEN_NEEDED) == SEEN_NEEDED)
            return KVT_OK;
    }
    memset(body, 0, sizeof(*body));
    return kvt_error_set(err, KVT_INVALID,
                         "a lock without instance_id, acquired_at and deadline as they should be");
}

/* ---- writing ---- */

/* Instances are names of ours or were read from JSON: quotes and control characters are escaped. */
static void
escape(const char *text, char *out, size_t size)
{
    size_t at = 0;

    for (; *text != '\0' && at + 7 < size; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c == '"' || c == '\\')
            at += (size_t)snprintf(out + at, size - at, "\\u%04x", c);
        else
            out[at++] = (char)c;
    }
    out[at] = '\0';
}

enum kvt_err
g4_lock_body_format(const struct g4_lock_body *body, char out[G4_LOCK_BODY_MAX], size_t *size)
{
    char instance[6 * KVT_NAME_MAX + 8];
    char acquired[KVT_CLOCK_TEXT_MAX];
    char deadline[KVT_CLOCK_TEXT_MAX];

    *size = 0;
    if (body->acquired_ms >= YEAR_10000_MS || body->deadline_ms >= YEAR_10000_MS)
        return KVT_RANGE;
    escape(body->instance, instance, sizeof(instance));
    kvt_clock_format(body->acquired_ms, acquired);
    kvt_clock_format(body->deadline_ms, deadline);
    *size = (size_t)snprintf(out, G4_LOCK_BODY_MAX,
                             "{\"instance_id\":\"%s\",\"acquired_at\":\"%s\",\"deadline\":\"%s\","
                             "\"nonce\":\"%016" PRIx64 "\",\"epoch\":%" PRIu64
                             ",\"writes\":%" PRIu64 ",\"released\":%s}",
                             instance, acquired, deadline, body->nonce, body->epoch, body->writes,
                             body->released ? "true" : "false");
    return KVT_OK;
}
