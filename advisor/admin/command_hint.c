#include "advisor/admin/command_hint.h"

#include <stdio.h>
#include <string.h>

enum { QUOTED_MAX = 4 };

/* Bytes that mean nothing to a shell. */
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "0123456789/_.:@%+=-";

void
advisor_admin_hint(char text[ADVISOR_HINT_MAX], const char *verb, const char *hash,
                   const char *namespace_)
{
    size_t used;

    (void)snprintf(text, ADVISOR_HINT_MAX, "kvtier block %.16s %.20s", verb, hash);
    used = strlen(text);
    if (namespace_[0] == '\0')
        return;
    if (namespace_[strspn(namespace_, plain)] == '\0') {
        (void)snprintf(text + used, ADVISOR_HINT_MAX - used, " --namespace %s", namespace_);
        return;
    }
    used += (size_t)snprintf(text + used, ADVISOR_HINT_MAX - used, " --namespace '");
    for (; *namespace_ != '\0' && used + QUOTED_MAX + 1 < ADVISOR_HINT_MAX; namespace_++)
        if (*namespace_ != '\'')
            text[used++] = *namespace_;
        else
            used += (size_t)snprintf(text + used, ADVISOR_HINT_MAX - used, "'\\''");
    text[used++] = '\'';
    text[used] = '\0';
}

const char *
advisor_admin_hint_unknown(const char *namespace_)
{
    return namespace_[0] == '\0'
               ? "; of another namespace? give --namespace NS (kvtier tenant usage lists tenants)"
               : "; of another namespace? kvtier tenant usage TENANT lists those of a tenant";
}
