#include "tests/unit/kvbm/support/peer_process.h"

#include <stdio.h>

#include "kvbm/volume/volume_kinds.h"

#include "tests/support/seed.h"

void
far_open(struct far *far, const char *folder)
{
    *far = (struct far){.next = 1};
    (void)snprintf(far->path, sizeof(far->path), "%s/peer", folder);
    assert_int_equal(kvbm_volumes_new(&far->shown, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_new(&far->set, NULL), KVT_OK);
    assert_int_equal(kvbm_peer_open(&far->peer,
                                    &(struct kvbm_peer_options){far->path, far->shown,
                                                                FAR_FINGERPRINT, FAR_TIMEOUT},
                                    NULL),
                     KVT_OK);
}

void
far_close(struct far *far)
{
    kvbm_volumes_free(far->set);
    kvbm_peer_close(far->peer);
    kvbm_volumes_free(far->shown);
}

uint64_t
far_add(struct far *far, uint32_t blocks, size_t block_size)
{
    const uint64_t number = far->next++;
    struct kvbm_volume *memory;
    struct kvbm_volume *asking;

    assert_int_equal(kvbm_volume_open_ram(
                         &memory,
                         &(struct kvbm_volume_options){.blocks = blocks, .block_size = block_size},
                         NULL),
                     KVT_OK);
    assert_int_equal(kvbm_volumes_register(far->shown, number, memory, 8, NULL), KVT_OK);
    assert_int_equal(kvbm_volume_open_peer(&asking,
                                           &(struct kvbm_volume_peer_options){
                                               .path = far->path,
                                               .volume = number,
                                               .block_size = block_size,
                                               .fingerprint = FAR_FINGERPRINT,
                                               .timeout_ms = FAR_TIMEOUT,
                                           },
                                           NULL),
                     KVT_OK);
    assert_int_equal(kvbm_volumes_register(far->set, number, asking, 8, NULL), KVT_OK);
    return number;
}

void
far_remove(struct far *far, uint64_t volume)
{
    assert_int_equal(kvbm_volumes_unregister(far->set, volume, false), KVT_OK);
    assert_int_equal(kvbm_volumes_unregister(far->shown, volume, false), KVT_OK);
}
