/*
 * tests/unit/g4/fake/fake_driver.h -- a store driver in memory, which lies when it is told to.
 *
 * Why: what is made of a driver that is not believed must be seen with one that is not to be.
 * Ownership: one bucket for the whole process; the test finds the controls under FAKE_STORE_SYMBOL.
 * Threads:   one request at a time; `shut` any.
 * Limits:    FAKE_STORE_OBJECTS_MAX objects of FAKE_STORE_BODY_MAX bytes.
 */
#ifndef TESTS_UNIT_G4_FAKE_FAKE_DRIVER_H
#define TESTS_UNIT_G4_FAKE_FAKE_DRIVER_H

#include <stdatomic.h>

enum {
    FAKE_STORE_OBJECTS_MAX = 32,
    FAKE_STORE_BODY_MAX = 32 * 1024,
    FAKE_STORE_PAGE = 3,
};

#define FAKE_STORE_SYMBOL "fake_store_controls"

enum fake_store_lie {
    FAKE_STORE_HONEST,
    FAKE_STORE_PUT_LOST,    /* says OK, stores nothing */
    FAKE_STORE_PUT_HALF,    /* says OK, stores half */
    FAKE_STORE_PUT_UNSAID,  /* stores it, says that nobody was there */
    FAKE_STORE_GET_SHORT,   /* half of the body, says OK */
    FAKE_STORE_GET_LONG,    /* more than it said */
    FAKE_STORE_GET_TWICE,   /* tells of a larger object after the first bytes, and sends it */
    FAKE_STORE_META_ODD,    /* pairs that no header line can carry */
    FAKE_STORE_GET_FLIPPED, /* one bit */
    FAKE_STORE_HEAD_AWAY,   /* nobody there, to each HEAD but the first */
    FAKE_STORE_HEAD_LENGTHLESS,
    FAKE_STORE_OTHER_KEY, /* says that what is there belongs to another key */
    FAKE_STORE_CHANGES,   /* the object is written anew between HEAD and GET */
};

struct fake_store_controls {
    enum fake_store_lie lie;
    unsigned heads; /* since the lie was set */
    unsigned puts;
    unsigned opened;  /* stores that are open */
    unsigned writes;  /* in all: what ETags are made of */
    atomic_bool shut; /* a HEAD waits until it is open */
    void (*empty)(void);
};

#endif /* TESTS_UNIT_G4_FAKE_FAKE_DRIVER_H */
