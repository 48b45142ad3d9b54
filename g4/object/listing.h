/*
 * g4/object/listing.h -- what every page of a listing has to be, whichever store sent it.
 *
 * Why: who lists relies on it that keys lie below the prefix, that none comes twice and that a
 * listing ends.  A server that sends others would show one tenant the names of another, or be asked
 * for ever.
 *
 * Limits: G4_LISTING_EMPTY_MAX pages in a row without a key.
 */
#ifndef G4_OBJECT_LISTING_H
#define G4_OBJECT_LISTING_H

#include "g4/object/g4_store.h"

#define G4_LISTING_EMPTY_MAX 1000

/** KVT_OK, or KVT_IO with the reason in the request's error: a key outside of the prefix, or not
 *  behind the one before it; `after`: the last one of the page before, "" = none. */
KVT_NODISCARD enum kvt_err g4_listing_check(struct g4_request *request, const char *after);

#endif /* G4_OBJECT_LISTING_H */
