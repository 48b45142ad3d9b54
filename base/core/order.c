#include "kvtier/order.h"

const char *
kvt_order_verb_name(enum kvt_order_verb verb)
{
    switch (verb) {
#define X(name, text)                                                                              \
    case KVT_ORDER_##name: return text;
        KVT_ORDER_VERBS(X)
#undef X
    case KVT_ORDER_NONE: break;
    }
    return "none";
}

const char *
kvt_delete_cause_name(enum kvt_delete_cause_kind kind)
{
    switch (kind) {
#define X(name, text)                                                                              \
    case KVT_DELETE_##name: return text;
        KVT_DELETE_CAUSES(X)
#undef X
    case KVT_DELETE_CAUSE_COUNT: break;
    }
    return "other";
}
