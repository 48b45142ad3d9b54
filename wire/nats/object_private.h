/*
 * wire/nats/object_private.h -- what the files object*.c share.
 *
 * Why: names, the message that describes an object, writing and reading are each a page.
 * Ownership: as wire/nats/object.h.
 * Threads:   as wire/nats/object.h.
 * Limits:    as wire/nats/object.h.
 */
#ifndef WIRE_NATS_OBJECT_PRIVATE_H
#define WIRE_NATS_OBJECT_PRIVATE_H

#include "wire/nats/bus_state.h"
#include "wire/nats/object.h"

#define WIRE_OBJECT_STREAM_MAX  (WIRE_OBJECT_BUCKET_MAX + 4)
#define WIRE_OBJECT_SUBJECT_MAX 384
#define WIRE_OBJECT_META_MAX    (16u << 10)
#define WIRE_OBJECT_HASH_BYTES  32

void wire_object_stream_name(char out[WIRE_OBJECT_STREAM_MAX], const char *bucket);
void wire_object_chunks_subject(char out[WIRE_OBJECT_SUBJECT_MAX], const char *bucket,
                                const char *nuid);
void wire_object_meta_subject(char out[WIRE_OBJECT_SUBJECT_MAX], const char *bucket,
                              const char *name);
void wire_object_digest(char out[WIRE_OBJECT_DIGEST_MAX],
                        const unsigned char hash[WIRE_OBJECT_HASH_BYTES]);

/** The message that says what the object is. */
void wire_object_meta_write(struct kvt_buffer *out, const char *bucket,
                            const struct wire_object_info *info, bool deleted);
/** `version` and `time_ms` are left to the caller.  KVT_INVALID, KVT_UNSUPPORTED. */
KVT_NODISCARD enum kvt_err wire_object_meta_read(const void *bytes, size_t size, const char *bucket,
                                                 struct wire_object_info *info, bool *deleted,
                                                 struct kvt_error *err);

/** Publish the message of object->name, in place of the last one.  `version` as in
 *  wire_object_put_options. */
KVT_NODISCARD enum kvt_err wire_object_meta_publish(struct wire_bus *bus, const char *bucket,
                                                    struct wire_object_info *info, bool deleted,
                                                    const uint64_t *version, struct kvt_error *err);

/** What cannot be removed now is left for wire_object_sweep(). */
enum kvt_err wire_object_purge_chunks(struct wire_bus *bus, const char *bucket, const char *nuid);

#endif /* WIRE_NATS_OBJECT_PRIVATE_H */
