/*
 * advisor/store/number_map.h -- from a short key of bytes to a number.
 *
 * Why: publishers, holders and namespaces are met by name in every message and handled by number.
 * Ownership: the map copies its keys.
 * Threads:   none; one owner.
 * Limits:    keys of at most ADVISOR_NUMBER_MAP_KEY_MAX bytes; the owner bounds how many there are.
 */
#ifndef ADVISOR_STORE_NUMBER_MAP_H
#define ADVISOR_STORE_NUMBER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define ADVISOR_NUMBER_MAP_KEY_MAX 256

struct advisor_number_map;

KVT_NODISCARD enum kvt_err advisor_number_map_new(struct advisor_number_map **out);
void advisor_number_map_free(struct advisor_number_map *map);

/** False when the key is unknown; `value` is then 0. */
bool advisor_number_map_get(const struct advisor_number_map *map, const void *key, size_t size,
                            uint32_t *value);

/** Set it.  KVT_OK or KVT_NOMEM (unchanged). */
KVT_NODISCARD enum kvt_err advisor_number_map_put(struct advisor_number_map *map, const void *key,
                                                  size_t size, uint32_t value);

/** Forget it; an unknown key is no error. */
void advisor_number_map_remove(struct advisor_number_map *map, const void *key, size_t size);

size_t advisor_number_map_count(const struct advisor_number_map *map);

#endif /* ADVISOR_STORE_NUMBER_MAP_H */
