#include "gateway/tier/volume_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/core/log.h"
#include "base/core/random.h"

#define FIRST_LINE "kvtier-volume 1 "

enum { PATH_BYTES = 4096, FILE_MAX = 64 };

static bool
is_id(const char *text, size_t size)
{
    const size_t first = strlen(FIRST_LINE);

    return size == first + GATEWAY_VOLUME_ID_TEXT && memcmp(text, FIRST_LINE, first) == 0 &&
           strspn(text + first, "0123456789abcdef") == GATEWAY_VOLUME_ID_TEXT - 1 &&
           text[size - 1] == '\n';
}

/* As in its settings: "hot.dir". */
static const char *
name_of(enum gateway_tier tier)
{
    return tier == GATEWAY_TIER_HOT ? "hot" : "warm";
}

/* KVT_NOTFOUND: there is no such file. */
static enum kvt_err
read_id(enum gateway_tier tier, const char *path, char id[GATEWAY_VOLUME_ID_TEXT],
        struct kvt_error *err)
{
    char *text = NULL;
    size_t size;
    enum kvt_err rc = kvt_file_read(&text, &size, path, FILE_MAX, err);

    id[0] = '\0';
    if (rc == KVT_OK && is_id(text, size))
        (void)snprintf(id, GATEWAY_VOLUME_ID_TEXT, "%s", text + strlen(FIRST_LINE));
    else if (rc == KVT_OK)
        rc =
            kvt_error_set(err, KVT_INVALID,
                          "%s is not a %s volume's id: restore it, or if the volume is lost remove "
                          "it and start once with %s.new=true",
                          path, name_of(tier), name_of(tier));
    kvt_free(text);
    return rc;
}

static enum kvt_err
write_id(const char *folder, const char *path, char id[GATEWAY_VOLUME_ID_TEXT],
         struct kvt_error *err)
{
    char text[FILE_MAX];
    uint64_t random;
    int size;
    enum kvt_err rc = kvt_folder_make(folder, err);

    if (rc != KVT_OK)
        return rc;
    kvt_random_system(&random, sizeof(random));
    (void)snprintf(id, GATEWAY_VOLUME_ID_TEXT, "%016" PRIx64, random);
    size = snprintf(text, sizeof(text), FIRST_LINE "%s\n", id);
    return kvt_file_write(path, text, (size_t)size, 0600, err);
}

/* A volume of the time before there were ids has blocks where the catalog says so. */
static bool
has_blocks(const char *folder)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/objects", folder);
    return access(path, F_OK) == 0;
}

static enum kvt_err
refuse(struct gateway_catalog *catalog, enum gateway_tier tier, const char *folder,
       const char *found, struct kvt_error *err)
{
    const char *name = name_of(tier);
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(catalog, &stats);
    return kvt_error_set(err, found[0] == '\0' ? KVT_NOTFOUND : KVT_INVALID,
                         "%s.dir %s is %s %s volume %s (%" PRIu64 " blocks; on all "
                         "volumes %" PRIu64
                         " are nowhere else): mount that, or if it is lost start once with "
                         "%s.new=true",
                         name, folder, found[0] == '\0' ? "not the" : "another", name,
                         found[0] == '\0' ? "the catalog knows" : "than the catalog's",
                         stats.blocks[tier], stats.owed_blocks, name);
}

/* The same folder twice, under whatever name: a move would copy a file to itself, and drop it. */
static bool
is_hot_one(struct gateway_catalog *catalog, enum gateway_tier tier,
           const char id[GATEWAY_VOLUME_ID_TEXT])
{
    char hot[GATEWAY_VOLUME_ID_TEXT];

    return tier == GATEWAY_TIER_WARM && id[0] != '\0' &&
           gateway_catalog_volume(catalog, GATEWAY_TIER_HOT, hot) == KVT_OK && strcmp(id, hot) == 0;
}

enum kvt_err
gateway_volume_id_check(struct gateway_catalog *catalog, enum gateway_tier tier, const char *folder,
                        bool fresh, struct kvt_error *err)
{
    char path[PATH_BYTES];
    char wanted[GATEWAY_VOLUME_ID_TEXT];
    char found[GATEWAY_VOLUME_ID_TEXT];
    struct gateway_catalog_stats stats;
    enum kvt_err rc;

    if (strlen(folder) + sizeof("/objects") > sizeof(path))
        return kvt_error_set(err, KVT_RANGE, "%s.dir is too long", name_of(tier));
    (void)snprintf(path, sizeof(path), "%s/volume", folder);
    rc = gateway_catalog_volume(catalog, tier, wanted);
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return kvt_error_set(err, rc, "the catalog's %s volume", name_of(tier));
    rc = read_id(tier, path, found, err);
    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return rc;
    if (is_hot_one(catalog, tier, found))
        return kvt_error_set(err, KVT_INVALID, "warm.dir %s is the hot volume", folder);
    if (rc == KVT_OK && strcmp(found, wanted) == 0)
        return KVT_OK;
    gateway_catalog_stats(catalog, &stats);
    if (!fresh &&
        (wanted[0] != '\0' || (found[0] == '\0' && stats.blocks[tier] > 0 && !has_blocks(folder))))
        return refuse(catalog, tier, folder, found, err);
    if (wanted[0] != '\0')
        kvt_log_warn("gateway.volume", "replaced", "%s is taken in the place of %s volume %s",
                     folder, name_of(tier), wanted);
    rc = found[0] == '\0' ? write_id(folder, path, found, err) : KVT_OK;
    /* After the file: a volume that has an id is taken by a catalog that has none. */
    return rc == KVT_OK ? gateway_catalog_name_volume(catalog, tier, found, err) : rc;
}
