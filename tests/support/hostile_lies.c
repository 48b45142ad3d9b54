#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "g4/object/check.h"
#include "g4/object/little_endian.h"

#include "tests/support/hostile_store_internal.h"

enum { PAGE = 10, LONG_KEY = 2000 };

uint64_t
hostile_store_below(struct told *told, uint64_t limit)
{
    return kvt_random_below(&told->random, limit);
}

uint8_t
hostile_store_byte(size_t at)
{
    return (uint8_t)(at * 31 + at / 251);
}

static void
append_true_body(struct kvt_buffer *out, size_t from, size_t to)
{
    for (size_t at = from; at < to; at++) {
        const uint8_t byte = hostile_store_byte(at);

        kvt_buffer_append(out, &byte, 1);
    }
}

static uint32_t
true_crc(void)
{
    struct kvt_buffer body;
    uint32_t crc;

    kvt_buffer_init(&body, HOSTILE_STORE_BODY);
    append_true_body(&body, 0, HOSTILE_STORE_BODY);
    crc = g4_check_crc32c(body.data, body.size);
    kvt_buffer_release(&body);
    return crc;
}

/* ---- the truth ---- */

static void
tell_object(struct told *told)
{
    const uint64_t end = told->range_end == 0                   ? HOSTILE_STORE_BODY
                         : told->range_end < HOSTILE_STORE_BODY ? told->range_end
                                                                : HOSTILE_STORE_BODY;

    kvt_buffer_printf(&told->headers,
                      "ETag: \"true\"\r\nLast-Modified: Sat, 31 Jan 2026 23:59:59 GMT\r\n"
                      "x-amz-meta-kvt-length: %d\r\nx-amz-meta-kvt-crc32c: %08x\r\n"
                      "x-amz-meta-colour: red\r\nContent-Type: a/b\r\n",
                      HOSTILE_STORE_BODY, true_crc());
    if (told->range_end != 0) {
        if (told->range_at >= HOSTILE_STORE_BODY) {
            (void)snprintf(told->status, sizeof(told->status), "416 Range");
            return;
        }
        (void)snprintf(told->status, sizeof(told->status), "206 Part");
        kvt_buffer_printf(&told->headers, "Content-Range: bytes %llu-%llu/%d\r\n",
                          (unsigned long long)told->range_at, (unsigned long long)end - 1,
                          HOSTILE_STORE_BODY);
    }
    append_true_body(&told->body, (size_t)told->range_at, (size_t)end);
}

#define LISTING "<?xml version=\"1.0\"?><ListBucketResult><Name>b</Name>"

static void
append_row(struct told *told, const char *key)
{
    kvt_buffer_printf(&told->body,
                      "<Contents><Key>%s</Key><LastModified>2026-01-31T23:59:59.123Z"
                      "</LastModified><ETag>&quot;e&quot;</ETag><Size>7</Size></Contents>",
                      key);
}

static void
append_rows(struct told *told)
{
    char key[64];

    for (unsigned i = 0; i < PAGE; i++) {
        (void)snprintf(key, sizeof(key), HOSTILE_STORE_PREFIX "%04u", told->page * PAGE + i);
        append_row(told, key);
    }
}

static void
append_more(struct told *told, const char *token)
{
    kvt_buffer_printf(&told->body,
                      "<IsTruncated>true</IsTruncated><NextContinuationToken>%s"
                      "</NextContinuationToken>",
                      token);
}

static void
end_listing(struct told *told)
{
    char token[16];

    (void)snprintf(token, sizeof(token), "%u", told->page + 1);
    if ((told->page + 1) * PAGE < HOSTILE_STORE_KEYS)
        append_more(told, token);
    kvt_buffer_printf(&told->body, "</ListBucketResult>");
}

/* An answer of the batch API to as many keys as were asked for. */
static void
tell_batch(struct told *told)
{
    const bool put = strstr(told->head, "/put/") != NULL;
    const bool get = strstr(told->head, "/get/") != NULL;
    const uint64_t count =
        told->request_size < 4 ? 0 : g4_little_endian_get(told->request, 4) % 100;
    uint8_t head[16] = {0};

    g4_little_endian_put(head + 4, true_crc(), 4);
    g4_little_endian_put(head + 8, HOSTILE_STORE_BODY, 8);
    for (uint64_t i = 0; i < count; i++) {
        kvt_buffer_append(&told->body, head, put ? 4 : 16);
        if (get)
            append_true_body(&told->body, 0, HOSTILE_STORE_BODY);
    }
}

void
hostile_store_tell_truth(struct told *told)
{
    (void)snprintf(told->status, sizeof(told->status), "200 OK");
    switch (told->face) {
    case GET:
    case HEAD: tell_object(told); break;
    case LIST:
        kvt_buffer_printf(&told->body, LISTING);
        append_rows(told);
        end_listing(told);
        break;
    case PUT: kvt_buffer_printf(&told->headers, "ETag: \"put\"\r\n"); break;
    case BEGIN: kvt_buffer_printf(&told->body, "<R><UploadId>u/1+2</UploadId></R>"); break;
    case MAKE: kvt_buffer_printf(&told->body, "<R><ETag>&quot;made-2&quot;</ETag></R>"); break;
    case DELETE: (void)snprintf(told->status, sizeof(told->status), "204 No Content"); break;
    case UPLOADS:
        kvt_buffer_printf(&told->body, "<R><Upload><Key>k</Key><UploadId>1</UploadId></Upload>"
                                       "<IsTruncated>false</IsTruncated></R>");
        break;
    case BATCH: tell_batch(told); break;
    }
    (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
    if (told->face == HEAD)
        kvt_buffer_clear(&told->body);
}

/* ---- lies about any answer ---- */

static void
longer(struct told *told)
{
    for (uint64_t i = 0, more = 1 + hostile_store_below(told, 70000); i < more; i++)
        kvt_buffer_append(&told->body, "x", 1);
    if (hostile_store_below(told, 2) == 0)
        (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

static void
shorter(struct told *told)
{
    told->body.size = (size_t)hostile_store_below(told, told->body.size + 1);
    if (hostile_store_below(told, 2) == 0)
        (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

/* What libcurl believes more than Content-Length. */
static void
chunked_beyond(struct told *told)
{
    longer(told);
    (void)snprintf(told->length, sizeof(told->length), "%u",
                   1 + (unsigned)hostile_store_below(told, 4000));
    told->chunked = true;
}

static void
chunked_other(struct told *told)
{
    told->length[0] = '\0';
    told->chunked = true;
    if (hostile_store_below(told, 2) == 0)
        longer(told);
    else
        shorter(told);
    told->length[0] = '\0';
}

static void
endless_chunks(struct told *told)
{
    told->length[0] = '\0';
    told->chunked = true;
    told->endless = CHUNKS;
}

static void
endless_body(struct told *told)
{
    told->length[0] = '\0';
    told->endless = BODY;
}

/* What an interim answer says is not of the answer. */
static void
lying_interim(struct told *told)
{
    for (uint64_t i = 0, count = 1 + hostile_store_below(told, 20); i < count; i++)
        kvt_buffer_printf(&told->before,
                          "HTTP/1.1 10%u Wait\r\nETag: \"wrong\"\r\nContent-Range: bytes 0-1/2\r\n"
                          "x-amz-meta-kvt-length: 1\r\nx-amz-meta-kvt-crc32c: 0\r\n\r\n",
                          (unsigned)hostile_store_below(told, 2) * 3);
}

static void
trailers(struct told *told)
{
    told->length[0] = '\0';
    told->chunked = true;
    kvt_buffer_printf(&told->headers, "Trailer: ETag\r\n");
    kvt_buffer_printf(&told->after, "ETag: \"wrong\"\r\nContent-Length: 1\r\n"
                                    "x-amz-meta-kvt-crc32c: 00000000\r\n");
    if (hostile_store_below(told, 2) == 0)
        for (int i = 0; i < 3000; i++)
            kvt_buffer_printf(&told->after, "x-amz-meta-%d: aaaaaaaaaaaaaaaaaaaaaaaa\r\n", i);
    if (hostile_store_below(told, 4) == 0)
        kvt_buffer_printf(&told->after, "HTTP/1.1 200 OK\r\n");
}

static void
etags(struct told *told)
{
    static const char *const tags[] = {"",         "\"\"", "\"a\tb\"",   "\"\xff\xfe\"",
                                       "\"<a>&\"", "\"",   "W/\"weak\"", "\"a\rX-Evil: 1\""};
    const uint64_t which = hostile_store_below(told, 10);
    char *at;

    (void)kvt_buffer_text(&told->headers);
    at = told->headers.size == 0 ? NULL : strstr((char *)told->headers.data, "ETag:");
    if (at != NULL)
        at[0] = 'X';
    if (which < 8)
        kvt_buffer_printf(&told->headers, "ETag: %s\r\n", tags[which]);
    for (int i = 0; which == 8 && i < 300; i++)
        kvt_buffer_printf(&told->headers, i == 0 ? "ETag: \"aaaaa" : i == 299 ? "\"\r\n" : "aaaaa");
}

static void
redirects(struct told *told)
{
    static const char *const codes[] = {"301 Moved", "302 Found", "307 Temporary", "308 Permanent"};

    (void)snprintf(told->status, sizeof(told->status), "%s", codes[hostile_store_below(told, 4)]);
    kvt_buffer_printf(&told->headers, "Location: %s/elsewhere\r\n", told->url);
}

static void
statuses(struct told *told)
{
    static const char *const codes[] = {"100 Again",    "101 Switching", "199 Odd",   "201 Created",
                                        "202 Accepted", "204 Nothing",   "205 Reset", "206 Part",
                                        "299 Odd",      "304 Same",      "400 Bad",   "403 No",
                                        "404 None",     "412 Other",     "418 Tea",   "500 Broken",
                                        "503 Busy",     "599 Odd",       "999 Odd",   "099 Odd",
                                        "20 Short",     "2000 Long",     "",          "abc"};

    (void)snprintf(told->status, sizeof(told->status), "%s",
                   codes[hostile_store_below(told, sizeof(codes) / sizeof(codes[0]))]);
}

static void
lengths(struct told *told)
{
    static const char *const texts[] = {"-1",
                                        "+5",
                                        "0x10",
                                        "1e9",
                                        "99999999999999999999999",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "281474976710657",
                                        "4000000000",
                                        "",
                                        " ",
                                        "5, 5",
                                        "abc",
                                        "00000000000000000000000000000000000000000000000005"};

    (void)snprintf(told->length, sizeof(told->length), "%s",
                   texts[hostile_store_below(told, sizeof(texts) / sizeof(texts[0]))]);
    if (hostile_store_below(told, 2) == 0)
        kvt_buffer_printf(&told->headers, "Content-Length: %u\r\n",
                          (unsigned)hostile_store_below(told, 9000));
}

static void
encodings(struct told *told)
{
    static const char *const lines[] = {"Content-Encoding: gzip",
                                        "Content-Encoding: br, gzip, deflate",
                                        "Transfer-Encoding: gzip",
                                        "Transfer-Encoding: gzip, chunked",
                                        "Transfer-Encoding: identity",
                                        "Transfer-Encoding: chunked, chunked",
                                        "Transfer-Encoding: deflate, deflate, deflate"};

    kvt_buffer_printf(&told->headers, "%s\r\n",
                      lines[hostile_store_below(told, sizeof(lines) / sizeof(lines[0]))]);
    if (hostile_store_below(told, 2) == 0)
        told->length[0] = '\0';
}

static void
long_errors(struct told *told)
{
    static const char *const codes[] = {"400 Bad", "404 None", "500 Broken", "503 Busy"};

    (void)snprintf(told->status, sizeof(told->status), "%s", codes[hostile_store_below(told, 4)]);
    kvt_buffer_clear(&told->body);
    kvt_buffer_printf(&told->body, "<Error><Code>");
    endless_body(told);
}

static void
odd_errors(struct told *told)
{
    static const char *const bodies[] = {
        "<Error><Code>NoSuchBucket</Code>",
        "<Code></Code>",
        "<Code>SlowDown",
        "<Error/>",
        "<Error><Code>ExpiredToken</Code><Message>\x01\x02\xff</Message></Error>",
        "<Code>RequestTimeTooSkewed</Code>",
        "<Message>%s%n%s</Message><Code>%n</Code>"};

    (void)snprintf(told->status, sizeof(told->status), "%u Error",
                   400 + (unsigned)hostile_store_below(told, 120));
    kvt_buffer_clear(&told->body);
    kvt_buffer_printf(&told->body, "%s",
                      bodies[hostile_store_below(told, sizeof(bodies) / sizeof(bodies[0]))]);
    kvt_buffer_printf(&told->headers, "Date: %s\r\n",
                      hostile_store_below(told, 2) == 0 ? "Sun, 01 Feb 2026 00:00:00 GMT"
                                                        : "Fri, 31 Dec 9999999 00:00:00 GMT");
    (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

static void
metadata_flood(struct told *told)
{
    const uint64_t lines = hostile_store_below(told, 1200);

    for (uint64_t i = 0; i < lines; i++)
        kvt_buffer_printf(&told->headers, "x-amz-meta-%u: v\r\n",
                          (unsigned)hostile_store_below(told, 500));
    kvt_buffer_printf(&told->headers, "x-amz-meta-: empty\r\nx-amz-meta-a b: blank\r\n"
                                      "x-amz-meta-\x01: control\r\nx-amz-meta-c: \x01\x7f\r\n"
                                      "x-amz-meta-kvt-writer: \r\nno colon at all\r\n: none\r\n"
                                      " folded: line\r\nContent-Type: a\rb\r\n");
    if (hostile_store_below(told, 2) == 0)
        kvt_buffer_printf(&told->headers, "x-amz-meta-kvt-length: %u\r\n",
                          (unsigned)hostile_store_below(told, 5000));
}

static void
stalls(struct told *told)
{
    told->stall_at = (size_t)hostile_store_below(told, told->headers.size + told->body.size + 64);
}

static void
closes(struct told *told)
{
    told->cut_at = (size_t)hostile_store_below(told, told->headers.size + told->body.size + 64);
}

static void
drips(struct told *told)
{
    told->drip = true;
}

/* More than the answer, for the next request on the same connection. */
static void
two_answers(struct told *told)
{
    kvt_buffer_printf(&told->after, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"wrong\"\r\n"
                                    "\r\nbad");
    told->keep = true;
}

static void
other_bytes(struct told *told)
{
    if (told->body.size > 0)
        told->body.data[hostile_store_below(told, told->body.size)] ^=
            (uint8_t)(1 + hostile_store_below(told, 255));
}

/* Any bytes of head and body. */
static void
noise(struct told *told)
{
    for (uint64_t i = 0, count = 1 + hostile_store_below(told, 8); i < count; i++) {
        struct kvt_buffer *to = hostile_store_below(told, 2) == 0 ? &told->headers : &told->body;

        if (to->size > 0)
            to->data[hostile_store_below(told, to->size)] = (uint8_t)hostile_store_below(told, 256);
    }
}

static void
no_http(struct told *told)
{
    static const char *const texts[] = {"hello",
                                        "HTTP/1.1",
                                        "HTTP/1.1 200",
                                        "HTTP/2 200 OK\r\n\r\n",
                                        "HTTP/0.9 200 OK\r\n\r\n",
                                        "\r\n\r\n\r\n",
                                        "SSH-2.0-x\r\n",
                                        "HTTP/1.1 200 OK\n\nbare",
                                        "ICY 200 OK\r\n\r\n"};

    kvt_buffer_printf(&told->before, "%s",
                      texts[hostile_store_below(told, sizeof(texts) / sizeof(texts[0]))]);
    if (hostile_store_below(told, 2) == 0)
        told->cut_at = told->before.size;
}

/* ---- lies about ranges ---- */

static void
other_range(struct told *told)
{
    static const char *const ranges[] = {"bytes 0-0/1",
                                         "bytes 1-9/4000",
                                         "bytes 0-3999/4000",
                                         "bytes 0-999/18446744073709551615",
                                         "bytes 0-999/281474976710657",
                                         "bytes 0-999/*",
                                         "bytes 999-0/4000",
                                         "bytes -1-5/4000",
                                         "bytes 0-18446744073709551615/4000",
                                         "octets 0-999/4000",
                                         "bytes 0-999/999",
                                         "bytes */4000",
                                         "bytes 0-999/1000",
                                         "bytes 0-999/4001",
                                         "bytes 1000-1999/2000"};
    char *at;

    (void)kvt_buffer_text(&told->headers);
    at = told->headers.size == 0 ? NULL : strstr((char *)told->headers.data, "Content-Range:");
    if (at != NULL)
        at[0] = 'X';
    (void)snprintf(told->status, sizeof(told->status), "206 Part");
    kvt_buffer_printf(&told->headers, "Content-Range: %s\r\n",
                      ranges[hostile_store_below(told, sizeof(ranges) / sizeof(ranges[0]))]);
}

static void
no_range(struct told *told)
{
    if (told->face != GET)
        return;
    (void)snprintf(told->status, sizeof(told->status), "200 OK");
    kvt_buffer_clear(&told->body);
    append_true_body(&told->body, 0, hostile_store_below(told, 2) == 0 ? HOSTILE_STORE_BODY : 500);
    (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

static void
nothing(struct told *told)
{
    kvt_buffer_clear(&told->body);
    (void)snprintf(told->length, sizeof(told->length), "0");
}

/* ---- lies about listings ---- */

static void
begin_listing(struct told *told)
{
    kvt_buffer_clear(&told->body);
    kvt_buffer_printf(&told->body, LISTING);
}

static void
close_listing(struct told *told)
{
    kvt_buffer_printf(&told->body, "</ListBucketResult>");
    (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

static void
same_page(struct told *told)
{
    begin_listing(told);
    told->page = 0;
    append_rows(told);
    append_more(told, hostile_store_below(told, 2) == 0 ? "1" : told->page % 2 == 0 ? "2" : "3");
    close_listing(told);
}

static void
empty_pages(struct told *told)
{
    begin_listing(told);
    append_more(told, hostile_store_below(told, 2) == 0 ? "even" : "odd");
    close_listing(told);
}

static void
other_keys(struct told *told)
{
    static const char *const keys[] = {"out/1",   "in",          "IN/1",  "",
                                       "in/%00",  "../in/1",     "/in/1", "in/\x7f",
                                       "in/&#1;", "in/&amp;lt;", "in/%zz"};

    begin_listing(told);
    if (hostile_store_below(told, 2) == 0)
        append_rows(told);
    append_row(told, keys[hostile_store_below(told, sizeof(keys) / sizeof(keys[0]))]);
    if (hostile_store_below(told, 2) == 0)
        kvt_buffer_printf(&told->body, "<EncodingType>url</EncodingType>");
    close_listing(told);
}

static void
unordered_keys(struct told *told)
{
    begin_listing(told);
    append_row(told, HOSTILE_STORE_PREFIX "b");
    append_row(told, hostile_store_below(told, 2) == 0 ? HOSTILE_STORE_PREFIX "b"
                                                       : HOSTILE_STORE_PREFIX "a");
    close_listing(told);
}

static void
long_keys(struct told *told)
{
    char key[LONG_KEY];

    memset(key, 'k', sizeof(key));
    memcpy(key, HOSTILE_STORE_PREFIX, 3);
    key[400 + hostile_store_below(told, sizeof(key) - 400)] = '\0';
    key[sizeof(key) - 1] = '\0';
    begin_listing(told);
    append_row(told, key);
    append_more(told, hostile_store_below(told, 2) == 0 ? "a" : "b");
    close_listing(told);
}

static void
sizes(struct told *told)
{
    static const char *const texts[] = {"-1",
                                        "-9223372036854775808",
                                        "18446744073709551615",
                                        "99999999999999999999999999",
                                        "",
                                        " 1",
                                        "1 ",
                                        "0x1",
                                        "1e3",
                                        "281474976710657",
                                        "<a>1</a>",
                                        "&#49;"};

    begin_listing(told);
    kvt_buffer_printf(&told->body,
                      "<Contents><Key>" HOSTILE_STORE_PREFIX "a</Key><Size>%s</Size></Contents>",
                      texts[hostile_store_below(told, sizeof(texts) / sizeof(texts[0]))]);
    close_listing(told);
}

static void
bad_xml(struct told *told)
{
    static const char *const texts[] = {
        "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"bb\"><!ENTITY c \"&b;&b;\">]>"
        "<ListBucketResult><Contents><Key>&c;</Key></Contents></ListBucketResult>",
        "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><ListBucketResult/>",
        LISTING "<Contents>",
        LISTING "<Contents><Key>in/a</Key>",
        LISTING "<Contents><Contents></Contents>",
        LISTING "<IsTruncated>true</IsTruncated></ListBucketResult>",
        "<Error/>",
        "{}",
        "",
        LISTING "</ListBucketResult><ListBucketResult>",
        LISTING "&undefined;</ListBucketResult>",
        "<?xml version=\"1.0\" encoding=\"UTF-16\"?><ListBucketResult/>",
        LISTING "<Contents><Key>in/a</Key><Key>in/b</Key><Size>1</Size></Contents>"
                "</ListBucketResult>",
        LISTING "<![CDATA[<Contents>]]></ListBucketResult>",
        LISTING "<Contents><Key>in/\xff\xfe</Key><Size>1</Size></Contents></ListBucketResult>",
    };

    kvt_buffer_clear(&told->body);
    kvt_buffer_printf(&told->body, "%s",
                      texts[hostile_store_below(told, sizeof(texts) / sizeof(texts[0]))]);
    (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

static void
deep_xml(struct told *told)
{
    begin_listing(told);
    for (int i = 0; i < 20000; i++)
        kvt_buffer_printf(&told->body, "<a>");
    (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

/* One piece of markup, or rows, without an end. */
static void
endless_xml(struct told *told)
{
    static const char *const begins[] = {"<!-- ",           "<a b=\"", "<a",
                                         "<Contents><Key>", "<?a ",    "<![CDATA["};

    begin_listing(told);
    kvt_buffer_printf(&told->body, "%s",
                      begins[hostile_store_below(told, sizeof(begins) / sizeof(begins[0]))]);
    endless_body(told);
}

static void
many_rows(struct told *told)
{
    char key[64];

    begin_listing(told);
    for (unsigned i = 0; i < 1200; i++) {
        (void)snprintf(key, sizeof(key), HOSTILE_STORE_PREFIX "%04u", i);
        append_row(told, key);
    }
    close_listing(told);
}

static void
long_token(struct told *told)
{
    begin_listing(told);
    append_rows(told);
    kvt_buffer_printf(&told->body, "<IsTruncated>true</IsTruncated><NextContinuationToken>");
    for (uint64_t i = 0, count = 900 + hostile_store_below(told, 9000); i < count; i++)
        kvt_buffer_append(&told->body, "t", 1);
    kvt_buffer_printf(&told->body, "</NextContinuationToken>");
    close_listing(told);
}

/* ---- lies about uploads and batches ---- */

static void
odd_steps(struct told *told)
{
    static const char *const bodies[] = {"",
                                         "<R/>",
                                         "<R><UploadId></UploadId><ETag></ETag></R>",
                                         "<UploadId>a",
                                         "<ETag>&quot;",
                                         "<UploadId>a&amp;b\r\nX: y</UploadId><ETag>\"<\"</ETag>",
                                         "<Error><Code>PreconditionFailed</Code></Error>"};

    if (told->face != BEGIN && told->face != MAKE)
        return;
    kvt_buffer_clear(&told->body);
    kvt_buffer_printf(&told->body, "%s",
                      bodies[hostile_store_below(told, sizeof(bodies) / sizeof(bodies[0]))]);
    for (uint64_t i = 0, count = hostile_store_below(told, 3) * 3000; i < count; i++)
        kvt_buffer_printf(&told->body, "<UploadId>");
    (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

static void
endless_uploads(struct told *told)
{
    if (told->face != UPLOADS)
        return;
    kvt_buffer_clear(&told->body);
    kvt_buffer_printf(&told->body,
                      "<R><Upload><Key>k</Key><UploadId>1</UploadId></Upload><IsTruncated>true<"
                      "/IsTruncated><NextKeyMarker>%s</NextKeyMarker><NextUploadIdMarker>%u"
                      "</NextUploadIdMarker></R>",
                      hostile_store_below(told, 2) == 0 ? "k" : "j",
                      (unsigned)hostile_store_below(told, 1000000));
    (void)snprintf(told->length, sizeof(told->length), "%zu", told->body.size);
}

/* Statuses, crcs and sizes of entries. */
static void
batch_heads(struct told *told)
{
    static const uint64_t numbers[] = {0,          1,         3999,       4001,       8000,
                                       UINT32_MAX, INT64_MAX, UINT64_MAX, 1ull << 48, 1ull << 40};

    if (told->face != BATCH || told->body.size < 16)
        return;
    g4_little_endian_put(told->body.data + 8, numbers[hostile_store_below(told, 10)], 8);
    if (hostile_store_below(told, 2) == 0)
        g4_little_endian_put(told->body.data, hostile_store_below(told, 40), 4);
    if (hostile_store_below(told, 4) == 0)
        endless_body(told);
}

struct lie {
    const char *name;
    void (*tell)(struct told *told);
    bool listing; /* only of a listing */
    enum endless endless;
};

static const struct lie lies[] = {
    {"none", NULL, false, ENDS},
    {"longer", longer, false, ENDS},
    {"shorter", shorter, false, ENDS},
    {"chunked beyond its Content-Length", chunked_beyond, false, ENDS},
    {"chunked, of another length", chunked_other, false, ENDS},
    {"endless chunks", endless_chunks, false, ENDS},
    {"endless body", endless_body, false, ENDS},
    {"endless headers", NULL, false, HEADERS},
    {"endless header line", NULL, false, HEADER_LINE},
    {"endless interim answers", NULL, false, INTERIM},
    {"interim answers that lie", lying_interim, false, ENDS},
    {"trailers", trailers, false, ENDS},
    {"ETags", etags, false, ENDS},
    {"redirects", redirects, false, ENDS},
    {"statuses", statuses, false, ENDS},
    {"Content-Lengths", lengths, false, ENDS},
    {"encodings", encodings, false, ENDS},
    {"endless error", long_errors, false, ENDS},
    {"errors", odd_errors, false, ENDS},
    {"metadata flood", metadata_flood, false, ENDS},
    {"stalls", stalls, false, ENDS},
    {"closes", closes, false, ENDS},
    {"drips", drips, false, ENDS},
    {"two answers", two_answers, false, ENDS},
    {"other bytes", other_bytes, false, ENDS},
    {"noise", noise, false, ENDS},
    {"no HTTP", no_http, false, ENDS},
    {"other ranges", other_range, false, ENDS},
    {"no ranges", no_range, false, ENDS},
    {"nothing", nothing, false, ENDS},
    {"the same page", same_page, true, ENDS},
    {"empty pages", empty_pages, true, ENDS},
    {"other keys", other_keys, true, ENDS},
    {"unordered keys", unordered_keys, true, ENDS},
    {"long keys", long_keys, true, ENDS},
    {"sizes", sizes, true, ENDS},
    {"bad XML", bad_xml, true, ENDS},
    {"deep XML", deep_xml, true, ENDS},
    {"endless XML", endless_xml, true, ENDS},
    {"many rows", many_rows, true, ENDS},
    {"long token", long_token, true, ENDS},
    {"steps of uploads", odd_steps, false, ENDS},
    {"endless uploads", endless_uploads, false, ENDS},
    {"batch entries", batch_heads, false, ENDS},
};

void
hostile_store_tell_lie(struct told *told, unsigned lie)
{
    told->endless = lies[lie].endless;
    if (lies[lie].tell != NULL && (!lies[lie].listing || told->face == LIST))
        lies[lie].tell(told);
}

unsigned
hostile_store_lies(void)
{
    return sizeof(lies) / sizeof(lies[0]);
}

const char *
hostile_store_lie_name(unsigned lie)
{
    return lies[lie].name;
}
