/* Which transports UCX has here.  It warns of names that it does not know, on every start. */
#include <string.h>
#include <uct/api/uct.h>

#include "base/core/alloc.h"

#include "engine/memory/rail.h"

/* Names that are wanted, each with whether it was found. */
struct search {
    const char *names[ENGINE_RAIL_TRANSPORTS_MAX];
    size_t lengths[ENGINE_RAIL_TRANSPORTS_MAX];
    bool found[ENGINE_RAIL_TRANSPORTS_MAX];
    size_t count;
    bool no_memory;
};

static void
split(struct search *search, const char *wanted)
{
    while (*wanted != '\0' && search->count < ENGINE_RAIL_TRANSPORTS_MAX) {
        const size_t length = strcspn(wanted, ",");

        search->names[search->count] = wanted;
        search->lengths[search->count++] = length;
        wanted += length + (wanted[length] == ',' ? 1 : 0);
    }
}

/* "rc" is also the name of all that begin with "rc_". */
static void
note(struct search *search, const char *transport)
{
    for (size_t i = 0; i < search->count; i++) {
        const char *rest = transport + search->lengths[i];

        if (strncmp(transport, search->names[i], search->lengths[i]) == 0 &&
            (*rest == '\0' || *rest == '_'))
            search->found[i] = true;
    }
}

static void
look_at_domain(struct search *search, uct_component_h component, const char *name)
{
    uct_tl_resource_desc_t *transports;
    uct_md_config_t *config;
    unsigned count;
    uct_md_h domain;
    ucs_status_t status;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK)
        return;
    status = uct_md_open(component, name, config, &domain);
    uct_config_release(config);
    if (status != UCS_OK)
        return;
    if (uct_md_query_tl_resources(domain, &transports, &count) == UCS_OK) {
        for (unsigned i = 0; i < count; i++)
            note(search, transports[i].tl_name);
        uct_release_tl_resource_list(transports);
    }
    uct_md_close(domain);
}

static void
look_at_component(struct search *search, uct_component_h component)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};

    if (uct_component_query(component, &attr) != UCS_OK || attr.md_resource_count == 0)
        return;
    attr.md_resources = kvt_calloc(attr.md_resource_count, sizeof(*attr.md_resources));
    if (attr.md_resources == NULL) {
        search->no_memory = true;
        return;
    }
    attr.field_mask |= UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    if (uct_component_query(component, &attr) == UCS_OK)
        for (unsigned i = 0; i < attr.md_resource_count; i++)
            look_at_domain(search, component, attr.md_resources[i].md_name);
    kvt_free(attr.md_resources);
}

enum kvt_err
engine_rail_transports(const char *wanted, char out[ENGINE_RAIL_TRANSPORTS_SIZE])
{
    struct search search = {.count = 0, .no_memory = false};
    uct_component_h *components;
    unsigned count;
    size_t at = 0;

    split(&search, wanted);
    if (uct_query_components(&components, &count) == UCS_OK) {
        for (unsigned i = 0; i < count; i++)
            look_at_component(&search, components[i]);
        uct_release_component_list(components);
    }
    for (size_t i = 0; i < search.count; i++)
        if (search.found[i] && at + search.lengths[i] + 2 <= ENGINE_RAIL_TRANSPORTS_SIZE) {
            if (at > 0)
                out[at++] = ',';
            memcpy(out + at, search.names[i], search.lengths[i]);
            at += search.lengths[i];
        }
    out[at] = '\0';
    return search.no_memory ? KVT_NOMEM : KVT_OK;
}
