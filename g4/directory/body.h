/*
 * g4/directory/body.h -- the body of an open object file, given out piece by piece.
 *
 * Why: bytes leave only after they were compared with what was written, and they leave the memory
 * they were compared in: what happens to the file or the disk meanwhile cannot change them.
 *
 * Ownership: g4_body_close() closes the file.  The file may lose its name meanwhile.
 * Threads:   one at a time.
 * Limits:    g4_pieces_size() bytes a read.
 */
#ifndef G4_DIRECTORY_BODY_H
#define G4_DIRECTORY_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/directory/object_file.h"
#include "kvtier/error.h"

struct g4_body {
    int fd; /* -1: none */
    struct g4_object_file object;
};

/**
 * Read piece `number` and check it.
 *
 * @param buffer  room for g4_pieces_length() bytes; holds nothing to be used unless KVT_OK
 * @param wait    false: only what is in memory already; KVT_AGAIN otherwise
 * @return KVT_OK, KVT_AGAIN, KVT_CORRUPT or KVT_IO
 */
KVT_NODISCARD enum kvt_err g4_body_read(const struct g4_body *body, uint64_t number, void *buffer,
                                        bool wait, struct kvt_error *err);

void g4_body_close(struct g4_body *body);

#endif /* G4_DIRECTORY_BODY_H */
