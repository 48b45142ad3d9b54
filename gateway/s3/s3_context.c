#include "gateway/s3/s3_context.h"

#include <assert.h>

/* ANSWER_MIN: 1000 keys of a listing, each byte of them escaped. */
enum { STRANGE_MAX = 24, ANSWER_MIN = 8 << 20 };

bool
gateway_s3_strange(const struct gateway_request *request, const char *const *known, size_t count)
{
    static const char *const signing[] = {
        "X-Amz-Algorithm",      "X-Amz-Credential",     "X-Amz-Date",
        "X-Amz-Expires",        "X-Amz-Signature",      "X-Amz-SignedHeaders",
        "X-Amz-Security-Token", "X-Amz-Content-Sha256", "x-id"};
    const size_t more = sizeof(signing) / sizeof(signing[0]);
    const char *all[STRANGE_MAX];
    char name[64];

    assert(count + more <= STRANGE_MAX);
    for (size_t i = 0; i < count + more; i++)
        all[i] = i < count ? known[i] : signing[i - count];
    return gateway_target_unknown(&request->target, all, count + more, name, sizeof(name));
}

size_t
gateway_s3_answer_max(const struct gateway_s3 *s3)
{
    const size_t batch = 2 * (size_t)s3->batch_max + (1u << 20);

    return batch > ANSWER_MIN ? batch : ANSWER_MIN;
}

enum gateway_s3_error
gateway_s3_admit(const struct gateway_s3 *s3, uint64_t length)
{
    return length > s3->batch_max ? GATEWAY_S3_ERROR_TOO_LARGE : GATEWAY_S3_ERROR_NONE;
}
