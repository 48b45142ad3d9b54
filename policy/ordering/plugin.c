#include "policy/ordering/plugin.h"

#include <assert.h>
#include <dlfcn.h>

#include "base/core/alloc.h"

#include "policy/ordering/ordering_table.h"

struct policy_plugin {
    void *object;
    const struct kvt_ordering *ordering;
};

enum kvt_err
policy_plugin_open(struct policy_plugin **out, const char *path, struct kvt_error *err)
{
    struct policy_plugin *plugin;
    enum kvt_err rc;

    assert(out != NULL && path != NULL);
    *out = NULL;
    plugin = kvt_calloc(1, sizeof(*plugin));
    if (plugin == NULL)
        return kvt_error_set(err, KVT_NOMEM, "ordering %s: out of memory", path);
    /* Now, not when it is called: a missing symbol must not end a daemon in the night. */
    plugin->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin->object == NULL) {
        rc = kvt_error_set(err, KVT_NOTFOUND, "ordering: %s", dlerror());
        goto fail;
    }
    plugin->ordering = dlsym(plugin->object, KVT_ORDERING_SYMBOL);
    if (plugin->ordering == NULL) {
        rc = kvt_error_set(err, KVT_NOTFOUND,
                           "ordering %s: it does not export " KVT_ORDERING_SYMBOL, path);
        goto fail;
    }
    rc = policy_ordering_check(plugin->ordering, path, err);
    if (rc != KVT_OK)
        goto fail;
    *out = plugin;
    return KVT_OK;

fail:
    policy_plugin_close(plugin);
    return rc;
}

const struct kvt_ordering *
policy_plugin_ordering(const struct policy_plugin *plugin)
{
    return plugin->ordering;
}

void
policy_plugin_close(struct policy_plugin *plugin)
{
    if (plugin == NULL)
        return;
    if (plugin->object != NULL)
        (void)dlclose(plugin->object);
    kvt_free(plugin);
}
