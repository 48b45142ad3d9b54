/*
 * base/core/redact.h -- secrets taken out of text that people see.
 *
 * Why: an address with a password, a signed query or a header reaches messages by many ways: a
 * wrong setting, a library's words, a server's answer.  The writer of a message need not think of
 * it: the log (kvt_log), errors (kvt_error_set) and `config show` print nothing that has not passed
 * through here.
 */
#ifndef BASE_CORE_REDACT_H
#define BASE_CORE_REDACT_H

#include <stddef.h>

/**
 * Replace secrets by "***", in place; the text never grows.  A secret is what stands before the '@'
 * of an address ("nats://user:password@host"), the value of a parameter that is known to be one
 * ("?token=", "&X-Amz-Signature=", "secret_key: "), and what follows "Bearer", "Basic" or
 * "Authorization:".  An address that was cut off within its password counts.
 */
void kvt_redact(char *text);

#define KVT_REDACT_URL_MAX 512

/** A copy of one address or a list of them, whose scheme may be left out; cut at `room`. */
void kvt_redact_url(char *out, size_t room, const char *url);

#endif /* BASE_CORE_REDACT_H */
