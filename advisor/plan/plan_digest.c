#include <inttypes.h>
#include <json-c/json.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "advisor/plan/plan_document.h"
#include "base/core/alloc.h"
#include "base/text/hex.h"
#include "base/text/parse.h"

enum { FRACTION_MAX = 352 }; /* bytes of any double with nine decimals */

struct advisor_plan_digest {
    EVP_MD_CTX *context;
    bool failed;
};

struct advisor_plan_digest *
advisor_plan_digest_new(void)
{
    struct advisor_plan_digest *digest = kvt_calloc(1, sizeof(*digest));

    if (digest == NULL)
        return NULL;
    digest->context = EVP_MD_CTX_new();
    if (digest->context == NULL || EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(digest->context);
        kvt_free(digest);
        return NULL;
    }
    return digest;
}

static void
add(struct advisor_plan_digest *digest, const void *bytes, size_t size)
{
    if (EVP_DigestUpdate(digest->context, bytes, size) != 1)
        digest->failed = true;
}

void
advisor_plan_digest_text(struct advisor_plan_digest *digest, const char *text)
{
    const size_t size = strlen(text);
    char head[24];

    add(digest, head, (size_t)snprintf(head, sizeof(head), "%zu:", size));
    add(digest, text, size);
    add(digest, "\n", 1);
}

void
advisor_plan_digest_number(struct advisor_plan_digest *digest, uint64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    advisor_plan_digest_text(digest, text);
}

/* Programs write 0.25 as 0.250000000 or 2.5e-1, and 2 as 2.0: one spelling is signed. */
static void
add_fraction(struct advisor_plan_digest *digest, double value)
{
    char text[FRACTION_MAX];
    size_t size = (size_t)snprintf(text, sizeof(text), "%.9f", value);

    while (size > 0 && text[size - 1] == '0')
        size--;
    size -= size > 0 && text[size - 1] == '.' ? 1 : 0;
    text[size] = '\0';
    advisor_plan_digest_text(digest, text);
}

void
advisor_plan_digest_json(struct advisor_plan_digest *digest, struct json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_object:
        advisor_plan_digest_number(digest, (uint64_t)json_object_object_length(value));
        json_object_object_foreach(value, key, member)
        {
            advisor_plan_digest_text(digest, key);
            advisor_plan_digest_json(digest, member);
        }
        break;
    case json_type_array:
        advisor_plan_digest_number(digest, json_object_array_length(value));
        for (size_t i = 0; i < json_object_array_length(value); i++)
            advisor_plan_digest_json(digest, json_object_array_get_idx(value, i));
        break;
    case json_type_double: add_fraction(digest, json_object_get_double(value)); break;
    case json_type_null: advisor_plan_digest_text(digest, "null"); break;
    case json_type_boolean:
    case json_type_int:
    case json_type_string: advisor_plan_digest_text(digest, json_object_get_string(value)); break;
    }
}

void
advisor_plan_digest_end(struct advisor_plan_digest *digest, char hex[ADVISOR_PLAN_DIGEST_MAX])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    hex[0] = '\0';
    if (!digest->failed && EVP_DigestFinal_ex(digest->context, bytes, &size) == 1)
        kvt_hex_format(bytes, size, hex);
    EVP_MD_CTX_free(digest->context);
    kvt_free(digest);
}

/* ---- a block's text ---- */

void
advisor_plan_block_format(const struct kvt_order_item *item, uint64_t size,
                          char text[ADVISOR_PLAN_BLOCK_MAX])
{
    (void)snprintf(text, ADVISOR_PLAN_BLOCK_MAX, "%016" PRIx64 " %016" PRIx64 " %u %u %" PRIu64,
                   item->block.hash, item->block.parent, item->block.position, item->ranks, size);
}

/* Up to the next space, which is passed; false: it is too long, or there is none where one is due.
 */
static bool
word(const char **at, char *to, size_t size, bool last)
{
    const size_t length = strcspn(*at, " ");

    if (length == 0 || length >= size || ((*at)[length] == '\0') != last)
        return false;
    memcpy(to, *at, length);
    to[length] = '\0';
    *at += length + (last ? 0 : 1);
    return true;
}

static bool
number(const char **at, bool last, uint64_t max, uint64_t *value)
{
    char text[24];

    return word(at, text, sizeof(text), last) && kvt_parse_u64(text, value) == KVT_OK &&
           *value <= max;
}

bool
advisor_plan_block_parse(const char *text, struct kvt_order_item *item, uint64_t *size)
{
    char hash[KVT_HASH_TEXT_MAX];
    char parent[KVT_HASH_TEXT_MAX];
    uint64_t position = 0;
    uint64_t ranks = 0;
    const char *at = text;

    *item = (struct kvt_order_item){.ranks = 0};
    *size = 0;
    if (!word(&at, hash, sizeof(hash), false) || !word(&at, parent, sizeof(parent), false) ||
        strlen(hash) != KVT_HASH_TEXT_MAX - 1 || strlen(parent) != KVT_HASH_TEXT_MAX - 1 ||
        !kvt_hash_parse(hash, &item->block.hash) || !kvt_hash_parse(parent, &item->block.parent) ||
        !number(&at, false, KVT_POSITION_MAX, &position) ||
        !number(&at, false, UINT32_MAX, &ranks) || ranks == 0 ||
        !number(&at, true, UINT64_MAX, size))
        return false;
    item->block.position = (uint32_t)position;
    item->ranks = (uint32_t)ranks;
    return true;
}
