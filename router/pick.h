/*
 * router/pick.h -- one of the candidates, by their costs.
 *
 * Why: at temperature 0 the lowest cost wins, ties go to the worker with less to do, then to
 * chance, so that equal workers share the load.  Above 0 the choice is drawn from
 * softmax(-normalised / temperature), normalised = (cost - lowest) / (highest - lowest), as
 * dynamo-kv-router 1.6.1 does; equal costs are drawn uniformly.
 *
 * Ownership: the caller owns all arrays.
 * Threads:   none; pure functions.
 * Limits:    ROUTER_WORKERS_MAX candidates; at least one.
 */
#ifndef ROUTER_PICK_H
#define ROUTER_PICK_H

#include <stddef.h>
#include <stdint.h>

/**
 * @param costs        of `count` (>= 1) candidates; finite
 * @param load         what each has to do already, for ties: fewer first; NULL: chance alone
 * @param temperature  0 or above
 * @param draw         uniform 64 random bits, all the chance there is: the same draw gives the same
 *                     choice
 * @param scratch      `count` doubles when temperature > 0; may be NULL otherwise
 * @return index of the chosen candidate
 */
size_t router_pick(const double *costs, const uint64_t *load, size_t count, double temperature,
                   uint64_t draw, double *scratch);

#endif /* ROUTER_PICK_H */
