#include "g4/object/listing.h"

#include <string.h>

enum kvt_err
g4_listing_check(struct g4_request *request, const char *after)
{
    const size_t prefix_size = strlen(request->key);
    const char *last = after;

    for (size_t i = 0; i < request->listed_count; i++) {
        const struct g4_listed *row = &request->listed[i];

        if (strncmp(row->key, request->key, prefix_size) != 0)
            return kvt_error_set(&request->error, KVT_IO,
                                 "list %.80s: the store listed %.80s, which lies elsewhere",
                                 request->key, row->key);
        if (strcmp(row->key, last) <= 0)
            return kvt_error_set(&request->error, KVT_IO,
                                 "list %.80s: the store listed %.80s after %.80s", request->key,
                                 row->key, last);
        last = row->key;
    }
    return KVT_OK;
}
