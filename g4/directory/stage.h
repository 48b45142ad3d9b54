/*
 * g4/directory/stage.h -- a file that is whole before it has a name.
 *
 * Why: a name must never stand for half an object.
 * Ownership: release in any case; a file that got no name is then gone.
 * Threads:   none; one owner.
 * Limits:    none.  Functions answer 0, or -1 with errno.
 */
#ifndef G4_DIRECTORY_STAGE_H
#define G4_DIRECTORY_STAGE_H

#include <stddef.h>
#include <stdint.h>

#define G4_STAGE_NAME_MAX 32

struct g4_stage {
    int fd;
    int tmp;                      /* borrowed: the folder for names on the way */
    char name[G4_STAGE_NAME_MAX]; /* in `tmp`; "" = nameless */
};

/** Write header, attributes (NULL: none; padded to where the body starts) and body. */
int g4_stage_write(struct g4_stage *stage, int tmp, const uint8_t *header, const char *attributes,
                   const void *body, size_t size);

int g4_stage_sync(const struct g4_stage *stage);

/** Give it a name that must be free (EEXIST). */
int g4_stage_link(struct g4_stage *stage, int folder, const char *name);

/** Give it a name in place of the file that has it. */
int g4_stage_rename(struct g4_stage *stage, int folder, const char *name);

void g4_stage_release(struct g4_stage *stage);

#endif /* G4_DIRECTORY_STAGE_H */
