/*
 * gateway/catalog/adoption_mark.h -- how far the rows of the catalog cover what the bucket has.
 *
 * Why: the walk that takes up what others put into the bucket (gateway/care/adoption.h) and the
 * catalog that keeps its place beside the rows must mean the same by it.
 */
#ifndef GATEWAY_CATALOG_ADOPTION_MARK_H
#define GATEWAY_CATALOG_ADOPTION_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/key.h"

enum gateway_adoption_state {
    GATEWAY_ADOPTION_UNSEEN,  /* the bucket was not looked at yet */
    GATEWAY_ADOPTION_NEEDED,  /* it has objects that no row counts */
    GATEWAY_ADOPTION_RUNNING, /* also after a restart */
    GATEWAY_ADOPTION_STOPPED, /* `why`; goes on when it is asked to */
    GATEWAY_ADOPTION_DONE,
};

#define GATEWAY_ADOPTION_STATES 5

struct gateway_adoption_mark {
    enum gateway_adoption_state state;
    bool whole;       /* a walk came to its end once, or there was nothing to take up */
    enum kvt_err why; /* STOPPED: CANCELLED by somebody, FULL: the catalog is, else why
                         objects could not be asked for */
    uint64_t rate;    /* objects a second */
    uint64_t began_ms;
    uint64_t ended_ms; /* both Unix; 0 = never */
    uint64_t listed;   /* objects passed; each is one of those that follow, or gone meanwhile */
    uint64_t known;    /* had a row */
    uint64_t adopted;  /* have one through this walk */
    uint64_t adopted_bytes;
    uint64_t adopted_foreign; /* of adopted: blocks without our metadata */
    uint64_t adopted_opaque;  /* of adopted: no blocks */
    uint64_t passed;          /* locks, commit records, tombstones, what is the gateway's own */
    uint64_t damaged;         /* blocks that are not what was written: g4 fsck deals with them */
    uint64_t refused;         /* of namespaces for which there is no stream of events left */
    char after[KVT_KEY_MAX];  /* the last key that is done; "" = none */
};

/** Does the cap of the bucket hold?  Not while it has objects that are not counted. */
static inline bool
gateway_adoption_capped(const struct gateway_adoption_mark *mark)
{
    return mark->whole || mark->state == GATEWAY_ADOPTION_UNSEEN;
}

#endif /* GATEWAY_CATALOG_ADOPTION_MARK_H */
