/*
 * advisor/store/event_log_private.h -- how a row of the log lies in memory and on disk.
 *
 * Why: writing (log.c) and reading (log_read.c) are a page each.
 */
#ifndef ADVISOR_STORE_EVENT_LOG_PRIVATE_H
#define ADVISOR_STORE_EVENT_LOG_PRIVATE_H

#include <isa-l/crc.h>

#include "advisor/store/event_log.h"

/* The numbers are on disk. */
enum {
    ADVISOR_EVENT_LOG_CONTEXT = 1, /* a place follows; else it is that of the operation before */
    ADVISOR_EVENT_LOG_TOKENS = 2,  /* as many token hashes follow the hashes */
};

struct advisor_event_log_row {
    uint32_t crc; /* of all behind it */
    uint32_t bytes;
};

struct advisor_event_log_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t count;
    uint32_t position;
};

struct advisor_event_log_hold {
    uint32_t holder;
    uint32_t ranks;
};

_Static_assert(sizeof(struct advisor_event_log_row) == 8, "no padding on disk");
_Static_assert(sizeof(struct advisor_event_log_head) == 8, "no padding on disk");
_Static_assert(sizeof(struct advisor_event_log_hold) == 8, "no padding on disk");
_Static_assert(sizeof(struct advisor_event_log_place) == 24, "no padding on disk");
_Static_assert(ADVISOR_EVENT_LOG_ROW_MAX % 8 == 0, "rows keep what is in them aligned");
_Static_assert(sizeof(struct advisor_event_log_row) + sizeof(struct advisor_event_log_head) +
                       sizeof(struct advisor_event_log_place) + 8 +
                       ADVISOR_EVENT_LOG_BLOCKS_MAX * 16 + sizeof(struct advisor_event_log_head) +
                       sizeof(struct advisor_event_log_hold) <=
                   ADVISOR_EVENT_LOG_ROW_MAX,
               "a row has room for the longest RUN and a HOLD");

/* CRC-32C of a row of `size` bytes. */
static inline uint32_t
advisor_event_log_crc(const void *row, size_t size)
{
    const size_t skip = sizeof(uint32_t);
    /* isa-l reads only, but says so only in its prose. */
    unsigned char *bytes = (unsigned char *)(uintptr_t)row;

    return ~crc32_iscsi(bytes + skip, (int)(size - skip), UINT32_MAX);
}

#endif /* ADVISOR_STORE_EVENT_LOG_PRIVATE_H */
