/*
 * g4/driver/driver_store_internal.h -- requests of a driver, and what stands beside an object.
 *
 * Why: how a driver is loaded and waited for is one thing, how conditions, proofs and checks are
 * made of HEAD, GET and PUT another.
 *
 * Ownership: requests as in g4/object/g4_store.h; pairs belong to their maker and borrow nothing
 *            from the request.
 * Threads:   any number at once; changes of keys of one stripe wait for each other.
 */
#ifndef G4_DRIVER_DRIVER_STORE_INTERNAL_H
#define G4_DRIVER_DRIVER_STORE_INTERNAL_H

#include <pthread.h>

#include "base/core/buffer.h"
#include "g4/driver/driver_abi.h"
#include "g4/driver/driver_store.h"

/* ---- requests ---- */

#define G4_FOREIGN_STRIPES 64

struct g4_foreign {
    const struct g4_foreign_driver *driver;
    void *self;                                  /* the driver's */
    uint64_t timeout_ms;                         /* of requests without a deadline */
    pthread_mutex_t stripes[G4_FOREIGN_STRIPES]; /* by key: a PUT and its HEADs, a DELETE too */
};

/** Do it, and fill the results; `done` is not called. */
void g4_driver_request_perform(struct g4_foreign *foreign, struct g4_request *request);

/* ---- pairs of a name and a value ---- */

/*
 * Drivers have no words for our metadata, nor for all headers that a client may want kept, and the
 * old signature gets some values wrong: what is not plain travels coded.
 */

#define G4_FOREIGN_NONCE_MAX 17
#define G4_FOREIGN_VALUE_MAX 24
#define G4_FOREIGN_NAME_MAX  128

/* What an answer's pairs say beside metadata and attributes. */
struct g4_foreign_said {
    bool length_known;
    bool crc_known;
    bool other_key;                   /* it was put under another key */
    char nonce[G4_FOREIGN_NONCE_MAX]; /* of the PUT that made it; "" = not ours */
};

/** Fill the request's `meta`, and its `attributes` where they are wanted. */
void g4_driver_meta_take(struct g4_request *request, const struct g4_foreign_meta *meta,
                         size_t count, struct g4_foreign_said *said);

/* Pairs to be put; `meta` points to the texts behind it. */
struct g4_driver_meta_pairs {
    struct g4_foreign_meta meta[G4_FOREIGN_META_MAX];
    size_t count;
    char nonce[G4_FOREIGN_NONCE_MAX]; /* tells this PUT from all others */
    char length[G4_FOREIGN_VALUE_MAX];
    char crc[G4_FOREIGN_VALUE_MAX];
    char fingerprint[G4_FOREIGN_VALUE_MAX];
    char key[G4_FOREIGN_VALUE_MAX];
    char writer[KVT_NAME_MAX];
    char attributes[G4_ATTRIBUTES_MAX];
    char names[G4_FOREIGN_META_MAX][G4_FOREIGN_NAME_MAX];
    struct kvt_buffer coded[G4_FOREIGN_META_MAX];
};

/** All that a PUT puts beside its object.  KVT_OK, KVT_INVALID (more than there is room for) or
 *  KVT_NOMEM. */
KVT_NODISCARD enum kvt_err g4_driver_meta_make(struct g4_driver_meta_pairs **out,
                                               const struct g4_request *request);
/** NULL is allowed. */
void g4_driver_meta_free(struct g4_driver_meta_pairs *pairs);

#endif /* G4_DRIVER_DRIVER_STORE_INTERNAL_H */
