#include "policy/ordering/ordering_table.h"

#include <string.h>

#include "policy/ordering/builtin_orderings.h"

/* Every ordering there is. */
static const struct kvt_ordering *const orderings[] = {
    &policy_rhi, &policy_lru,  &policy_lfu,    &policy_fifo, &policy_s3fifo,
    &policy_arc, &policy_gdsf, &policy_prefix, &policy_idle,
};

enum { ORDERINGS = sizeof(orderings) / sizeof(orderings[0]) };

const struct kvt_ordering *
policy_ordering_find(const char *name)
{
    for (size_t i = 0; i < ORDERINGS; i++)
        if (strcmp(orderings[i]->name, name) == 0)
            return orderings[i];
    return NULL;
}

const struct kvt_ordering *const *
policy_ordering_all(size_t *count)
{
    *count = ORDERINGS;
    return orderings;
}

bool
policy_ordering_moves_used(const struct kvt_ordering *ordering)
{
    return ordering != &policy_fifo && ordering != &policy_s3fifo;
}

static bool
is_name(const char *name)
{
    const size_t size = name == NULL ? 0 : strnlen(name, KVT_ORDERING_NAME_MAX);

    if (size == 0 || size == KVT_ORDERING_NAME_MAX)
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == size;
}

enum kvt_err
policy_ordering_check(const struct kvt_ordering *ordering, const char *from, struct kvt_error *err)
{
    /* Nothing behind the number may be looked at before the number is known to be ours. */
    if (ordering->abi != KVT_ORDERING_ABI)
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "%s: made for ordering ABI %u, this program has %d; compile it again "
                             "with this version's kvtier/ordering.h",
                             from, ordering->abi, KVT_ORDERING_ABI);
    if (ordering->size != sizeof(*ordering) ||
        ordering->use_size != sizeof(struct kvt_ordering_use) ||
        ordering->options_size != sizeof(struct kvt_ordering_options))
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "%s: its structures have %u, %u and %u bytes, ours %zu, %zu and %zu; "
                             "compile it for this machine",
                             from, ordering->size, ordering->use_size, ordering->options_size,
                             sizeof(*ordering), sizeof(struct kvt_ordering_use),
                             sizeof(struct kvt_ordering_options));
    if (!is_name(ordering->name) || ordering->text == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "%s: it has no name of a-z, 0-9 and -, shorter than %d, or no text",
                             from, KVT_ORDERING_NAME_MAX);
    if (ordering->init == NULL || ordering->reserve == NULL || ordering->touch == NULL ||
        ordering->enter == NULL || ordering->victim == NULL || ordering->give_back == NULL ||
        ordering->leave == NULL || ordering->forget == NULL || ordering->value == NULL ||
        ordering->memory == NULL || ordering->free == NULL ||
        (ordering->save == NULL) != (ordering->load == NULL))
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "%s: ordering %s lacks a call; only due, chance and the pair of save "
                             "and load may be left out",
                             from, ordering->name);
    return KVT_OK;
}
