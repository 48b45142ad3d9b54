/*
 * tests/unit/kvbm/support/volume_bed.h -- volumes of every kind, the blocks put into them, and
 * faults.
 *
 * Why: the tests of volumes say the same of each kind.
 * Ownership: the test closes what it opens.
 * Threads:   blocks: any; faults: set them while nobody works.
 */
#ifndef TESTS_UNIT_KVBM_SUPPORT_VOLUME_BED_H
#define TESTS_UNIT_KVBM_SUPPORT_VOLUME_BED_H

#include "kvbm/volume/volume_kinds.h"

#include "tests/support/seed.h"

enum bed_kind { BED_RAM, BED_FILE, BED_DIRECTORY, BED_KIND_COUNT };

enum { BED_SIZE = 8192, BED_IDS = 60, BED_BLOCKS = 40 };

/* A folder for a volume of a kind. */
struct volume_bed {
    enum bed_kind kind;
    char folder[256];
    char path[300];
};

void volume_bed_open(struct volume_bed *bed, enum bed_kind kind);
void volume_bed_close(struct volume_bed *bed);

/** KVT_OK, or how opening failed. */
enum kvt_err volume_bed_volume(const struct volume_bed *bed, struct kvbm_volume **out);

struct kvt_block_id volume_bed_id(uint32_t number);
void volume_bed_fill(uint32_t number, uint8_t bytes[BED_SIZE]);
bool volume_bed_is(uint32_t number, const uint8_t bytes[BED_SIZE]);
bool volume_bed_is_zero(const uint8_t bytes[BED_SIZE]);

/** Flip a byte somewhere in what is on the disk, or make a file shorter or longer.  False: there
 *  was nothing to damage. */
bool volume_bed_damage(const struct volume_bed *bed, uint64_t *random);

/** Let `count` more system calls of the volumes succeed; then one fails, with `error`, or (0) does
 *  half of its work.  UINT32_MAX: none fails. */
void volume_bed_fail_after(uint32_t count, int error);
bool volume_bed_failed(void); /* since then */

/** How often a folder was synced so far. */
uint32_t volume_bed_folder_syncs(void);

#endif /* TESTS_UNIT_KVBM_SUPPORT_VOLUME_BED_H */
