/*
 * g4/driver/driver_request.h -- requests of a store by a driver that is not believed.
 *
 * Why: how conditions, proofs and checks are made of HEAD, GET and PUT is one thing, how a driver
 * is loaded and waited for (g4/driver/driver_store.h) another.
 *
 * Ownership: requests as in g4/object/g4_store.h.
 * Threads:   any number at once; changes of keys of one stripe wait for each other.
 * Limits:    as g4/driver/driver_store.h.
 */
#ifndef G4_DRIVER_DRIVER_REQUEST_H
#define G4_DRIVER_DRIVER_REQUEST_H

#include <pthread.h>
#include <stdint.h>

#include "g4/driver/driver_abi.h"
#include "g4/object/g4_store.h"

#define G4_FOREIGN_STRIPES 64

struct g4_foreign {
    const struct g4_foreign_driver *driver;
    void *self;                                  /* the driver's */
    uint64_t timeout_ms;                         /* of requests without a deadline */
    pthread_mutex_t stripes[G4_FOREIGN_STRIPES]; /* by key: a PUT and its HEADs, a DELETE too */
};

/** Do it, and fill the results; `done` is not called. */
void g4_driver_request_perform(struct g4_foreign *foreign, struct g4_request *request);

#endif /* G4_DRIVER_DRIVER_REQUEST_H */
