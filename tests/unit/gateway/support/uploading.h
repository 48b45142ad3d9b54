/*
 * tests/unit/gateway/support/uploading.h -- an upload of /kvtier/big in parts, step by step.
 *
 * Why: what an upload is, and what is told of the object it became, are tested apart.
 * Ownership: ids are the caller's, requests to be given back with test_scene_done().
 * Threads:   the test's.
 * Limits:    a list of parts has at most 1,900 bytes.
 */
#ifndef TESTS_UNIT_GATEWAY_SUPPORT_UPLOADING_H
#define TESTS_UNIT_GATEWAY_SUPPORT_UPLOADING_H

#include "tests/unit/gateway/support/scene.h"

/* MD5s: of "hello", of 5 MiB of zeros, and of nothing. */
#define HELLO "5d41402abc4b2a76b9719d911017c592"
#define BIG   "5f363e0e58a95f06cbe9bbc662c5dfb6"
#define EMPTY "d41d8cd98f00b204e9800998ecf8427e"

/* A row of the list of parts. */
#define PART(number, etag)                                                                         \
    "<Part><PartNumber>" number "</PartNumber><ETag>&quot;" etag "&quot;</ETag></Part>"

/** Begin one with these headers; `id` gets its id. */
void test_upload_begin_with(struct test_scene *s, const char *const *headers, char id[64]);

/** The same with x-amz-meta-color: red. */
void test_upload_begin(struct test_scene *s, char id[64]);

/** Put a part; the status. */
unsigned test_upload_part(struct test_scene *s, const char *id, unsigned number, const void *body,
                          size_t size);

/** Complete it with these parts and one header, or none where that is NULL. */
struct gateway_request *test_upload_complete(struct test_scene *s, const char *id,
                                             const char *parts, const char *header,
                                             const char *value);

/** The same for the status only; asserts that the answer has `code` in it. */
unsigned test_upload_status(struct test_scene *s, const char *id, const char *parts,
                            const char *code);

#endif /* TESTS_UNIT_GATEWAY_SUPPORT_UPLOADING_H */
