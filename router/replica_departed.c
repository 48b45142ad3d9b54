#include <string.h>

#include "router/replica_private.h"

/* The requests of a worker that left, one after the other. */
struct sweep {
    struct router_replica *replica;
    uint64_t since_ms; /* behind the end */
    bool settle;       /* those of who is not there; else our own */
    bool others;       /* some were left that others gave */
};

static void
tell_end(struct router_replica *replica, const char *id)
{
    struct router_request end = {.state = ROUTER_FREED};

    memcpy(end.id, id, strlen(id) + 1);
    router_replica_step(replica, &end, false);
}

/* Given by the router that runs under this number now. */
static bool
is_of(const struct router_given *given, uint64_t router, uint64_t incarnation)
{
    return given->router == router && given->added_ms >= incarnation;
}

static bool
is_giver_there(struct router_replica *replica, const struct router_given *given)
{
    const struct router_peer *peer = router_peers_find(&replica->peers, given->router);

    return is_of(given, replica->options.router, replica->options.incarnation) ||
           (peer != NULL && router_peers_there(&replica->peers, peer, replica->now_ms) &&
            is_of(given, peer->router, peer->incarnation));
}

static bool
is_over(void *arg, const struct router_given *given)
{
    struct sweep *sweep = arg;
    struct router_replica *replica = sweep->replica;

    if (sweep->settle)
        return given->age_ms >= sweep->since_ms && !is_giver_there(replica, given);
    if (!is_of(given, replica->options.router, replica->options.incarnation)) {
        sweep->others = true;
        return false;
    }
    tell_end(replica, given->id);
    return true;
}

/* The oldest end: who of those that gave something to that life is not there did not see it. */
static void
settle_first(struct router_replica *replica)
{
    const struct router_replica_end *end =
        &replica->ends[replica->first_end++ % ROUTER_REPLICA_ENDS];
    struct sweep sweep = {
        .replica = replica, .since_ms = replica->now_ms - end->at_ms, .settle = true};

    router_request_table_drop(replica->slots, &end->worker, is_over, &sweep, replica->now_ms);
}

void
router_replica_left(struct router_replica *replica, const struct router_worker *worker,
                    uint64_t now_ms)
{
    struct sweep sweep = {.replica = replica};

    /* Nothing begins with this: the others may not be heard yet. */
    if (now_ms > replica->now_ms)
        replica->now_ms = now_ms;
    router_request_table_drop(replica->slots, worker, is_over, &sweep, replica->now_ms);
    if (!sweep.others)
        return;
    if (replica->next_end - replica->first_end == ROUTER_REPLICA_ENDS)
        settle_first(replica);
    replica->ends[replica->next_end++ % ROUTER_REPLICA_ENDS] =
        (struct router_replica_end){.worker = *worker, .at_ms = replica->now_ms};
}

void
router_replica_settle(struct router_replica *replica)
{
    while (replica->first_end != replica->next_end &&
           replica->now_ms - replica->ends[replica->first_end % ROUTER_REPLICA_ENDS].at_ms >=
               2 * replica->options.gone_ms) /* who died meanwhile is known to have */
        settle_first(replica);
}
