/*
 * gateway/upload/completed_parts.h -- of which parts a completed upload was put together.
 *
 * Why: clients ask for part n of an object, and where its parts end.  One line beside the object
 * says it: runs of parts that follow each other and are of one size, "1:5242880*12,13:700".
 *
 * Ownership: the caller owns all of it.
 * Threads:   any; pure functions.
 * Limits:    lines of GATEWAY_COMPLETED_PARTS_TEXT - 1 characters: an object of more runs has no
 *            such line.
 */
#ifndef GATEWAY_UPLOAD_COMPLETED_PARTS_H
#define GATEWAY_UPLOAD_COMPLETED_PARTS_H

#include "gateway/http/request.h"
#include "gateway/upload/uploads.h"

#define GATEWAY_COMPLETED_PARTS_TEXT 256

/* A part on its way through an object's line; begin with gateway_completed_parts_begin(). */
struct gateway_piece {
    const char *rest; /* of the line */
    uint64_t more;    /* of this size in the run */
    unsigned number;
    uint64_t from;
    uint64_t size;
};

/** The line of these parts, ascending.  false, and "": it would be too long. */
bool gateway_completed_parts_format(const struct gateway_part *parts, size_t count,
                                    char text[GATEWAY_COMPLETED_PARTS_TEXT]);

/** Before the first part. */
void gateway_completed_parts_begin(struct gateway_piece *piece, const char *text);

/** The next one; false: there is none, or the line is no such line. */
bool gateway_completed_parts_next(struct gateway_piece *piece);

/**
 * How many there are of an object with these attributes.
 *
 * @param length  of the object; parts that are not just as long are not believed
 * @param text    gets the line
 * @return 0: it is not known to be of parts
 */
unsigned gateway_completed_parts_count(const char *attributes, uint64_t length,
                                       char text[GATEWAY_COMPLETED_PARTS_TEXT]);

/**
 * The part that the request's partNumber names: the first is 1, whatever number it was put with.
 *
 * @param count  of the object's parts; 0: it is one piece, which is part 1
 * @return INVALID_ARGUMENT: that is no number; PART_NUMBER: there is no such part; INVALID_REQUEST:
 *         a range is asked for, too; NOT_IMPLEMENTED: its parts are not known
 */
enum gateway_s3_error gateway_completed_parts_asked(const struct gateway_request *request,
                                                    const char *attributes, const char *etag,
                                                    uint64_t length, struct gateway_piece *piece,
                                                    unsigned *count);

#endif /* GATEWAY_UPLOAD_COMPLETED_PARTS_H */
