#include "worker/settings/pool_order.h"

#include <string.h>

#include "base/core/buffer.h"

#include "policy/ordering/ordering_table.h"
#include "policy/ordering/plugin.h"

enum { NAMES_MAX = 512 /* bytes of a list of names */ };

static const struct {
    const char *name;
    enum kvt_pool_order order;
} own[] = {
    {"lru", KVT_POOL_ORDER_LRU},
    {"priority", KVT_POOL_ORDER_PRIORITY},
    {"lineage", KVT_POOL_ORDER_LINEAGE},
};

enum { OWN = sizeof(own) / sizeof(own[0]) };

const struct kvt_ordering_options worker_pool_order_options = {.prices = {1, 10, 1}};

/* Nothing is called that: say what there is. */
static enum kvt_err
unknown(const char *name, struct kvt_error *err)
{
    struct kvt_buffer names;
    const struct kvt_ordering *const *all;
    enum kvt_err rc;
    size_t count;

    kvt_buffer_init(&names, NAMES_MAX);
    all = policy_ordering_all(&count);
    for (size_t i = 1; i < OWN; i++)
        kvt_buffer_printf(&names, " %s", own[i].name);
    for (size_t i = 0; i < count; i++)
        kvt_buffer_printf(&names, " %s", all[i]->name);
    rc =
        kvt_error_set(err, KVT_NOTFOUND, "pool.order: no ordering \"%s\"; there are%.*s, and paths",
                      name, (int)names.size, (const char *)names.data);
    kvt_buffer_release(&names);
    return rc;
}

enum kvt_err
worker_pool_order_open(struct worker_pool_order *order, const char *name, struct kvt_error *err)
{
    *order = (struct worker_pool_order){.order = KVT_POOL_ORDER_LRU};
    for (size_t i = 0; i < OWN; i++)
        if (strcmp(own[i].name, name) == 0) {
            order->order = own[i].order;
            return KVT_OK;
        }
    if (strchr(name, '/') != NULL) {
        const enum kvt_err rc = policy_plugin_open(&order->plugin, name, err);

        if (rc != KVT_OK)
            return rc;
        order->ordering = policy_plugin_ordering(order->plugin);
    } else {
        order->ordering = policy_ordering_find(name);
        if (order->ordering == NULL)
            return unknown(name, err);
    }
    order->order = KVT_POOL_ORDER_ORDERING;
    return KVT_OK;
}

void
worker_pool_order_close(struct worker_pool_order *order)
{
    policy_plugin_close(order->plugin);
    *order = (struct worker_pool_order){.order = KVT_POOL_ORDER_LRU};
}
