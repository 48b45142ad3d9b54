/*
 * wire/message/report_codec.h -- gateway reports, byte for byte (docs/formats.md, "Reports").
 *
 * Why: statistics and order results travel the same way as events, bounded and versioned.
 * Ownership: decoding fills the caller's report, whose `accesses`, `results` and `pins.rows` have
 *            room for KVT_REPORT_ACCESSES_MAX, KVT_REPORT_RESULTS_MAX and KVT_REPORT_PINS_MAX rows.
 * Limits:    as kvtier/report.h.
 */
#ifndef WIRE_MESSAGE_REPORT_CODEC_H
#define WIRE_MESSAGE_REPORT_CODEC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"
#include "kvtier/report.h"
#include "wire/message/key_ring.h"

#define WIRE_REPORT_MAX (256u << 10)

KVT_NODISCARD enum kvt_err wire_report_encode(const struct kvt_report *report,
                                              struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_report_decode(const void *bytes, size_t size,
                                              struct kvt_report *report, struct kvt_error *err);

/**
 * Read a report that came under `subject`, signed or not.
 *
 * @param keys      NULL: there are none, and no signature is looked at
 * @param verified  a key of the report's gateway signed it
 * @return KVT_OK; KVT_INVALID: malformed; KVT_DENIED: the signature does not fit, or the gateway
 *         is not that of the subject
 */
KVT_NODISCARD enum kvt_err wire_report_open(const void *bytes, size_t size, const char *subject,
                                            const struct wire_key_ring *keys,
                                            struct kvt_report *report, bool *verified,
                                            struct kvt_error *err);

#endif /* WIRE_MESSAGE_REPORT_CODEC_H */
