/*
 * gateway/tier/volume_id.h -- is this the volume, hot or warm, the catalog speaks of?
 *
 * Why: where its disk is not mounted, hot.dir is an empty folder.  Taken for the volume, it would
 * have every block written off that is nowhere else.  So the volume has an id, in a file of its own
 * and in the catalog, and the gateway starts only where they are the same.
 *
 * Threads:   the one that starts the gateway.
 */
#ifndef GATEWAY_TIER_VOLUME_ID_H
#define GATEWAY_TIER_VOLUME_ID_H

#include <stdbool.h>

#include "gateway/catalog/catalog.h"
#include "kvtier/error.h"

/**
 * Compare them; a catalog that never had a volume takes this one.
 *
 * @param folder  hot.dir or warm.dir, before anything else looks at it
 * @param fresh   the operator says that it is another one, and what the catalog has is given up
 * @return KVT_OK, KVT_NOTFOUND (the volume is not there), KVT_INVALID (another is, or a file that
 *         is no id) or why folder or catalog could not be read or written
 */
KVT_NODISCARD enum kvt_err gateway_volume_id_check(struct gateway_catalog *catalog,
                                                   enum gateway_tier tier, const char *folder,
                                                   bool fresh, struct kvt_error *err);

#endif /* GATEWAY_TIER_VOLUME_ID_H */
