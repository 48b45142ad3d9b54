#include "kvbm/volume/peer_wire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "kvbm/layout/checksum.h"

enum { QUESTION = 0x3151504b, ANSWER = 0x3141504b /* "KPQ1", "KPA1" */ };

/* One row a status that crosses: numbers of ours may change, these may not. */
static const enum kvt_err statuses[] = {
    KVT_OK,          KVT_EXISTS, KVT_NOTFOUND,    KVT_PRECONDITION, KVT_CORRUPT,   KVT_FULL,
    KVT_UNAVAILABLE, KVT_IO,     KVT_UNSUPPORTED, KVT_INVALID,      KVT_CANCELLED,
};

enum { STATUSES = sizeof(statuses) / sizeof(statuses[0]) };

static void
put32(uint8_t *out, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static void
put64(uint8_t *out, uint64_t value)
{
    put32(out, (uint32_t)value);
    put32(out + 4, (uint32_t)(value >> 32));
}

static uint32_t
get32(const uint8_t *in)
{
    return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static uint64_t
get64(const uint8_t *in)
{
    return get32(in) | (uint64_t)get32(in + 4) << 32;
}

void
kvbm_peer_write_question(uint8_t out[KVBM_PEER_QUESTION_BYTES],
                         const struct kvbm_peer_question *question)
{
    put32(out, QUESTION);
    put32(out + 4, question->verb);
    put32(out + 8, question->tag);
    put32(out + 12, question->size);
    put64(out + 16, question->volume);
    put64(out + 24, question->fingerprint);
    put64(out + 32, question->id.hash);
    put64(out + 40, question->id.parent);
    put32(out + 48, question->id.position);
    put32(out + 52, question->crc32c);
    put32(out + 56, 0);
    put32(out + 60, kvbm_crc32c(0, out, 60));
}

bool
kvbm_peer_read_question(struct kvbm_peer_question *question,
                        const uint8_t in[KVBM_PEER_QUESTION_BYTES])
{
    *question = (struct kvbm_peer_question){
        .verb = get32(in + 4),
        .tag = get32(in + 8),
        .size = get32(in + 12),
        .volume = get64(in + 16),
        .fingerprint = get64(in + 24),
        .id = {get64(in + 32), get64(in + 40), get32(in + 48)},
        .crc32c = get32(in + 52),
    };
    return get32(in) == QUESTION && get32(in + 60) == kvbm_crc32c(0, in, 60) &&
           question->verb < KVT_VOLUME_VERB_COUNT;
}

void
kvbm_peer_write_answer(uint8_t out[KVBM_PEER_ANSWER_BYTES], const struct kvbm_peer_answer *answer)
{
    uint32_t status = 0;

    while (status < STATUSES && statuses[status] != answer->status)
        status++;
    put32(out, ANSWER);
    put32(out + 4, status);
    put32(out + 8, answer->tag);
    put32(out + 12, answer->size);
    put32(out + 16, answer->crc32c);
    put32(out + 20, kvbm_crc32c(0, out, 20));
}

bool
kvbm_peer_read_answer(struct kvbm_peer_answer *answer, const uint8_t in[KVBM_PEER_ANSWER_BYTES])
{
    const uint32_t status = get32(in + 4);

    *answer = (struct kvbm_peer_answer){
        .status = status < STATUSES ? statuses[status] : KVT_IO,
        .tag = get32(in + 8),
        .size = get32(in + 12),
        .crc32c = get32(in + 16),
    };
    return get32(in) == ANSWER && get32(in + 20) == kvbm_crc32c(0, in, 20);
}

static bool
wait_for(int fd, short what, uint64_t timeout_ms)
{
    struct pollfd poller = {.fd = fd, .events = what};
    const int wait = timeout_ms > INT_MAX ? -1 : (int)timeout_ms;
    int rc;

    do
        rc = poll(&poller, 1, wait);
    while (rc < 0 && errno == EINTR);
    return rc > 0;
}

bool
kvbm_peer_send(int fd, const void *bytes, size_t size, uint64_t timeout_ms)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            at += sent;
            size -= (size_t)sent;
        } else if (sent == 0 || (errno != EAGAIN && errno != EINTR) ||
                   !wait_for(fd, POLLOUT, timeout_ms)) {
            return false;
        }
    }
    return true;
}

bool
kvbm_peer_receive(int fd, void *bytes, size_t size, uint64_t timeout_ms)
{
    uint8_t *at = bytes;

    while (size > 0) {
        const ssize_t got = recv(fd, at, size, MSG_DONTWAIT);

        if (got > 0) {
            at += got;
            size -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
                   !wait_for(fd, POLLIN, timeout_ms)) {
            return false;
        }
    }
    return true;
}
