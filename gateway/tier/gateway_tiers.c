#include "gateway/tier/gateway_tiers.h"

#include <string.h>

#include "gateway/tier/bucket_tier.h"

uint64_t
gateway_tier_capacity(const struct gateway_tiers *tiers, struct gateway_catalog *catalog,
                      unsigned tier)
{
    struct gateway_adoption_mark adoption;

    if (((1u << tier) & GATEWAY_VOLUMES) != 0)
        return tiers->capacity[tier];
    gateway_catalog_adoption(catalog, &adoption);
    return gateway_adoption_capped(&adoption) ? tiers->capacity[tier] : 0;
}

struct g4_store *
gateway_tier_volume(const struct gateway_tiers *tiers, unsigned tier)
{
    return tier == GATEWAY_WARM ? tiers->warm : tiers->hot;
}

struct g4_store *
gateway_tier_store(const struct gateway_tiers *tiers, unsigned tier)
{
    return (tier & GATEWAY_VOLUMES) != 0 ? gateway_tier_volume(tiers, tier)
                                         : gateway_bucket_tier_bucket(tiers->buckets, tier);
}

unsigned
gateway_tier_fastest(const struct gateway_tiers *tiers, unsigned bits)
{
    static const unsigned order[] = {GATEWAY_HOT, GATEWAY_WARM, GATEWAY_COLD, GATEWAY_FAR};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if ((bits & order[i]) != 0 && gateway_tier_store(tiers, order[i]) != NULL)
            return order[i];
    return 0;
}

bool
gateway_tier_exists(const struct gateway_tiers *tiers, enum gateway_tier tier)
{
    return tiers->holder[tier][0] != '\0';
}

bool
gateway_tier_of_holder(const struct gateway_tiers *tiers, const char *holder,
                       enum gateway_tier *tier)
{
    *tier = GATEWAY_TIER_HOT;
    for (unsigned i = 0; i < GATEWAY_TIERS && holder[0] != '\0'; i++) {
        if (strcmp(tiers->holder[i], holder) == 0) {
            *tier = (enum gateway_tier)i;
            return true;
        }
    }
    return false;
}

const char *
gateway_tier_name(unsigned tier)
{
    static const char *const names[GATEWAY_TIERS] = {"hot", "cold", "warm", "far"};

    return names[tier];
}

bool
gateway_tier_find(const char *name, enum gateway_tier *tier)
{
    *tier = GATEWAY_TIER_HOT;
    for (unsigned i = 0; i < GATEWAY_TIERS; i++) {
        if (strcmp(gateway_tier_name(i), name) == 0) {
            *tier = (enum gateway_tier)i;
            return true;
        }
    }
    return false;
}

enum kvt_err
gateway_tier_drop_files(const struct gateway_tiers *tiers, const char *key, unsigned bits)
{
    static const unsigned volumes[] = {GATEWAY_HOT, GATEWAY_WARM};
    enum kvt_err result = KVT_OK;

    for (size_t i = 0; i < sizeof(volumes) / sizeof(volumes[0]); i++) {
        struct g4_request drop = {.verb = G4_DELETE, .key = key};
        struct g4_store *volume = gateway_tier_volume(tiers, volumes[i]);
        enum kvt_err rc;

        if (volume == NULL || (bits & volumes[i]) == 0)
            continue;
        rc = g4_store_perform(volume, &drop);
        if (rc != KVT_OK && rc != KVT_NOTFOUND)
            result = rc;
    }
    return result;
}
