/*
 * g4/s3/upload_notes.h -- uploads that a store begins in a bucket, written down before they begin.
 *
 * Why: an upload that nobody completes holds bytes that no listing of objects shows, and there are
 * servers (MinIO) that list uploads by whole key only: whoever does not know the key never finds
 * them.  So each upload has a note, a small durable file with its key, from before the bucket hears
 * of it until it is an object or was given up.  What a crash, or an answer that was lost, leaves in
 * the bucket is found by its note.
 *
 * Ownership: a call belongs to its caller until `done` ran.
 * Threads:   any; `done` runs on a thread of the notes.
 * Limits:    G4_UPLOAD_NOTES_BYTES of keys: more is KVT_FULL; the queue of a
 *            g4/directory/directory.h.
 */
#ifndef G4_S3_UPLOAD_NOTES_H
#define G4_S3_UPLOAD_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define G4_UPLOAD_NOTES_BYTES (UINT64_C(64) << 20)
#define G4_UPLOAD_NOTE_ID     34

struct g4_upload_notes;

struct g4_upload_note {
    char id[G4_UPLOAD_NOTE_ID];
    char key[KVT_KEY_MAX];
    uint64_t begun_ms; /* Unix */
    bool ours;         /* written since these notes were opened: it may be under way */
};

/* One note on its way to the disk or from it. */
struct g4_upload_note_call {
    struct g4_upload_notes *notes;
    struct g4_request request;
    char id[G4_UPLOAD_NOTE_ID];
    void (*done)(enum kvt_err status, void *arg);
    void *arg;
};

/** The notes in this folder, which is made when it is not there. */
KVT_NODISCARD enum kvt_err g4_upload_notes_open(struct g4_upload_notes **out, const char *path,
                                                struct kvt_error *err);

/** Behind the stores that write them.  NULL is allowed. */
void g4_upload_notes_close(struct g4_upload_notes *notes);

/** Write one for `key`, which is borrowed until `done`; KVT_OK: `done` will be called. */
KVT_NODISCARD enum kvt_err g4_upload_notes_begin(struct g4_upload_notes *notes,
                                                 struct g4_upload_note_call *call, const char *key,
                                                 void (*done)(enum kvt_err status, void *arg),
                                                 void *arg);

/** Take it away; `done` is always called, from within too.  What stays is found again. */
void g4_upload_notes_end(struct g4_upload_note_call *call,
                         void (*done)(enum kvt_err status, void *arg), void *arg);

/** Wait for the `done` of every note that is being written.  NULL is allowed. */
void g4_upload_notes_settle(struct g4_upload_notes *notes);

/** Notes behind the one named `after` ("" = from the first), by name; fewer than `capacity`: that
 *  was the last of them. */
KVT_NODISCARD enum kvt_err g4_upload_notes_list(struct g4_upload_notes *notes, const char *after,
                                                struct g4_upload_note *out, size_t capacity,
                                                size_t *count);

/** Take one away that was listed; KVT_OK also when it is gone. */
KVT_NODISCARD enum kvt_err g4_upload_notes_drop(struct g4_upload_notes *notes, const char *id);

#endif /* G4_S3_UPLOAD_NOTES_H */
