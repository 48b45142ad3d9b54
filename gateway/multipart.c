#include "gateway/multipart.h"

void
gateway_multipart_answer(struct gateway_s3 *s3, struct gateway_request *request)
{
    (void)s3;
    (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
}

void
gateway_multipart_uploads(struct gateway_s3 *s3, struct gateway_request *request)
{
    (void)s3;
    (void)gateway_request_fail(request, GATEWAY_FAULT_NOT_IMPLEMENTED);
}
