/*
 * gateway/http/xml_read.h -- the XML bodies of requests: rows of short texts under one root.
 *
 * Why: DeleteObjects and CompleteMultipartUpload come from outside: depth, texts and rows are
 * bounded, and what does not parse changes nothing.
 *
 * Ownership: texts are the parser's, for the call of the function they are given to.
 * Threads:   any; no shared state.
 * Limits:    GATEWAY_XML_READ_DEPTH_MAX deep, texts of GATEWAY_XML_READ_TEXT_MAX - 1 bytes.
 */
#ifndef GATEWAY_HTTP_XML_READ_H
#define GATEWAY_HTTP_XML_READ_H

#include <stdbool.h>
#include <stddef.h>

#define GATEWAY_XML_READ_DEPTH_MAX 8
#define GATEWAY_XML_READ_TEXT_MAX  2048

struct gateway_xml_read {
    const char *root; /* "Delete" */
    const char *row;  /* "Object" */
    /* A text of the row, or (`in_row` false) of the root.  False: this may not be. */
    bool (*on_text)(void *arg, bool in_row, const char *name, const char *text);
    /* The row is over. */
    bool (*on_row)(void *arg);
    void *arg;
};

/** False: not well-formed, another root, too deep, too long, or a function said so. */
bool gateway_xml_read_parse(const struct gateway_xml_read *form, const void *bytes, size_t size);

#endif /* GATEWAY_HTTP_XML_READ_H */
