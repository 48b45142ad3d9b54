/*
 * wire/message/recording.h -- recordings: messages as they came off a bus, in a file
 * (docs/formats.md, "Recordings").
 *
 * Why: what a cluster published must be kept to be looked at, replayed and measured later, byte for
 * byte and whatever the dialect.  The file says of itself where it is damaged: each record has its
 * checksum, and a file that ends in the middle of one (a full disk, a power cut) is read up to
 * there.
 *
 * Ownership: writers and readers own their file.  `bytes` of a record that was read lives until the
 *            next call.
 * Threads:   none; one owner.
 * Limits:    WIRE_RECORDING_BYTES_MAX bytes of message.  A reader holds one record; a writer
 *            WIRE_RECORDING_BUFFER bytes that are not in the file yet.
 */
#ifndef WIRE_MESSAGE_RECORDING_H
#define WIRE_MESSAGE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "wire/message/subject.h"

#define WIRE_RECORDING_MAGIC       "KVTREC1\n"
#define WIRE_RECORDING_DIALECT_MAX 32
#define WIRE_RECORDING_BYTES_MAX   (8u << 20)
#define WIRE_RECORDING_BODY_MAX    (WIRE_RECORDING_BYTES_MAX + 2048u)
#define WIRE_RECORDING_BUFFER      (256u << 10)

struct wire_recording {
    uint64_t time_ns;  /* when it was received, Unix nanoseconds */
    uint64_t sequence; /* in its stream, or of its own frame; 0 where there is none */
    char dialect[WIRE_RECORDING_DIALECT_MAX]; /* wire_dialect_name() */
    char source[KVT_NAME_MAX]; /* where it was heard: "core", the stream's name, ... */
    char subject[WIRE_SUBJECT_MAX];
    const void *bytes;
    size_t size;
};

/* ---- writing ---- */

struct wire_recording_writer;

struct wire_recording_options {
    bool replace;      /* an existing file is begun anew; else KVT_EXISTS */
    uint64_t size_max; /* bytes of the file; 0 = no limit */
};

KVT_NODISCARD enum kvt_err wire_recording_create(struct wire_recording_writer **out,
                                                 const char *path,
                                                 const struct wire_recording_options *options,
                                                 struct kvt_error *err);

/** KVT_OK, KVT_FULL (it would exceed size_max: nothing of it was written, and nothing more fits),
 *  KVT_RANGE (a message too large for a recording), KVT_NOMEM, KVT_IO. */
KVT_NODISCARD enum kvt_err wire_recording_put(struct wire_recording_writer *writer,
                                              const struct wire_recording *record,
                                              struct kvt_error *err);

/** Hand what is buffered to the system. */
KVT_NODISCARD enum kvt_err wire_recording_flush(struct wire_recording_writer *writer,
                                                struct kvt_error *err);

/** Bytes put so far, with the magic. */
uint64_t wire_recording_size(const struct wire_recording_writer *writer);

/** Flush, make it durable, and free; the writer is gone whatever comes back.  NULL is allowed. */
KVT_NODISCARD enum kvt_err wire_recording_close(struct wire_recording_writer *writer,
                                                struct kvt_error *err);

/* ---- reading ---- */

struct wire_recording_reader;

/** "-" reads standard input.  KVT_NOTFOUND, KVT_DENIED, KVT_CORRUPT (no recording), KVT_UNSUPPORTED
 *  (of another version). */
KVT_NODISCARD enum kvt_err wire_recording_open(struct wire_recording_reader **out, const char *path,
                                               struct kvt_error *err);

/** The same for an open file, which the reader closes in any case; `name` is for messages. */
KVT_NODISCARD enum kvt_err wire_recording_attach(struct wire_recording_reader **out, int fd,
                                                 const char *name, struct kvt_error *err);

/**
 * The next record.
 *
 * @return KVT_OK; KVT_NOTFOUND at the end (wire_recording_torn() says how it ended); KVT_CORRUPT:
 * what
 *         is at the offset in `err` is no sound record, and another call goes on with the next one
 *         that is; KVT_IO, KVT_NOMEM: that was all
 */
KVT_NODISCARD enum kvt_err wire_recording_next(struct wire_recording_reader *reader,
                                               struct wire_recording *record,
                                               struct kvt_error *err);

/** At the end: bytes of a last record that is not all there, 0 = the file ends with a whole one. */
uint64_t wire_recording_torn(const struct wire_recording_reader *reader);

/** Offset in the file of the record that comes next. */
uint64_t wire_recording_offset(const struct wire_recording_reader *reader);

/** NULL is allowed. */
void wire_recording_free(struct wire_recording_reader *reader);

#endif /* WIRE_MESSAGE_RECORDING_H */
