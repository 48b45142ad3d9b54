/*
 * g4/driver/driver_store.h -- a store whose driver is loaded at run time and not believed.
 *
 * Why: appliances that speak only the old signature are reached through a library that cannot be
 * part of our programs, reports failed PUTs as stored and bodies that were cut short as whole.  So
 * every GET is checked by length and crc, and every PUT stands between two HEADs: the first is its
 * condition, the second its proof.
 *
 * Ownership: options are copied; the shared object stays loaded from then on.
 * Threads:   `threads` I/O threads, a blocking request each.
 * Limits:    one writer a bucket: what a HEAD shows may change before the PUT.  The first to open
 *            it leaves its name in G4_FOREIGN_WRITER_KEY, and no other is let in.  No locks.  Keys
 *            without blanks and control bytes; what travels beside an object has about 2,000 bytes.
 */
#ifndef G4_DRIVER_DRIVER_STORE_H
#define G4_DRIVER_DRIVER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

#define G4_FOREIGN_WRITER_KEY ".kvtier-writer"

struct g4_driver_store_options {
    const char *path;     /* of the shared object */
    const char *endpoint; /* http(s)://host[:port] */
    const char *bucket;
    const char *access_key;
    const char *secret_key;
    const char *writer; /* who alone writes to the bucket; 1 to KVT_NAME_MAX - 1 bytes */
    bool path_style;
    bool trusted;        /* the network is: beyond loopback nobody checks who answers */
    unsigned threads;    /* 0 = 8 */
    unsigned queue_max;  /* 0 = 4096 */
    uint64_t timeout_ms; /* default deadline of a request; 0 = 30 s */
};

/**
 * @return KVT_OK; KVT_NOTFOUND: no such file; KVT_UNSUPPORTED: it is no driver, or for another
 *         version of this; KVT_INVALID: an option, or a network that is not trusted; KVT_BUSY:
 *         another one writes to the bucket; or why the bucket could not be asked
 */
KVT_NODISCARD enum kvt_err g4_driver_store_open(struct g4_store **out,
                                                const struct g4_driver_store_options *options,
                                                struct kvt_error *err);

#endif /* G4_DRIVER_DRIVER_STORE_H */
