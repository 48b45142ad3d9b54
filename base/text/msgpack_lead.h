/*
 * base/text/msgpack_lead.h -- leading bytes of msgpack values, for the two readers.
 *
 * Why: msgpack.h reads our own formats and refuses what is not as it should be; dialect/pack.h
 * reads others' and passes over what it does not know.  What a byte means is the same to both.
 *
 * Ownership: constants.
 * Limits:    none.  Source: the msgpack specification, "Formats".
 */
#ifndef BASE_TEXT_MSGPACK_LEAD_H
#define BASE_TEXT_MSGPACK_LEAD_H

enum {
    FIXMAP = 0x80,
    FIXARRAY = 0x90,
    FIXSTR = 0xa0,
    NIL = 0xc0,
    NEVER_USED = 0xc1,
    FALSE_VALUE = 0xc2,
    TRUE_VALUE = 0xc3,
    BIN8 = 0xc4,
    BIN32 = 0xc6,
    EXT8 = 0xc7,
    EXT32 = 0xc9,
    FLOAT32 = 0xca,
    FLOAT64 = 0xcb,
    UINT8 = 0xcc,
    UINT64 = 0xcf,
    INT8 = 0xd0,
    INT64 = 0xd3,
    FIXEXT1 = 0xd4,
    FIXEXT16 = 0xd8,
    STR8 = 0xd9,
    STR32 = 0xdb,
    ARRAY16 = 0xdc,
    ARRAY32 = 0xdd,
    MAP16 = 0xde,
    MAP32 = 0xdf,
    NEGATIVE_FIXINT = 0xe0,
};

#endif /* BASE_TEXT_MSGPACK_LEAD_H */
