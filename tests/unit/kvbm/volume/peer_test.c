/*
 * What is tested: kvbm/volume/volume_storage.h and kvbm/volume/peer.h: a remote tier's names,
 * refusals and bytes; a volume that returns another block; a peer that is away, full, slow,
 * killed, or says something else than it should, at every point of a message.  Whatever it does:
 * no wrong byte is told as right, and once it is back everything that it acknowledged is there.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/volume/peer_wire.h"
#include "kvbm/volume/volume_kinds.h"
#include "kvbm/volume/volume_storage.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/support/peer_process.h"

enum { BLOCKS = 12, SIZE = 8192, SHORT = 300 /* ms a peer may be silent */ };

static uint8_t in[BLOCKS][SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
static uint8_t out[BLOCKS][SIZE] __attribute__((aligned(KVBM_STORAGE_ALIGN)));
static char folder[256];
static const char *program;

static int
set_up(void **unused)
{
    (void)unused;
    (void)test_folder_make(folder, sizeof(folder));
    return 0;
}

static int
tear_down(void **unused)
{
    (void)unused;
    test_folder_remove(folder);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
}

static void
fill(uint8_t bytes[SIZE], uint64_t word)
{
    for (size_t at = 0; at < SIZE; at += 8, word = word * 31 + at)
        memcpy(bytes + at, &word, 8);
}

static bool
is_zero(const uint8_t bytes[SIZE])
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, SIZE - 1) == 0;
}

static struct kvbm_storage *
open_tier(struct kvbm_volumes *set, uint64_t volume, bool own)
{
    struct kvbm_storage *tier;

    assert_int_equal(kvbm_storage_open_volume(&tier,
                                              &(struct kvbm_storage_volume_options){
                                                  .set = set,
                                                  .volume = volume,
                                                  .block_count = BLOCKS,
                                                  .block_size = SIZE,
                                                  .own = own,
                                                  .first = 500,
                                              },
                                              NULL),
                     KVT_OK);
    assert_int_equal(tier->kind, KVBM_STORAGE_REMOTE);
    assert_null(kvbm_storage_address(tier, 0));
    return tier;
}

static enum kvt_err
write_one(struct kvbm_storage *tier, uint32_t block, uint64_t word)
{
    struct kvbm_storage_io io = {.host = out[0], .block = block, .status = KVT_ERR_COUNT};

    fill(out[0], word);
    kvbm_storage_write(tier, &io, 1);
    return io.status;
}

/* KVT_OK only where it is what `word` says. */
static enum kvt_err
read_one(struct kvbm_storage *tier, uint32_t block, uint64_t word)
{
    struct kvbm_storage_io io = {.host = in[0], .block = block, .status = KVT_ERR_COUNT};

    memset(in[0], 0x77, SIZE);
    kvbm_storage_read(tier, &io, 1);
    fill(out[1], word);
    if (io.status == KVT_OK)
        assert_memory_equal(in[0], out[1], SIZE);
    else if (io.status != KVT_NOTFOUND)
        assert_true(io.status == KVT_UNAVAILABLE || io.status == KVT_CANCELLED || is_zero(in[0]));
    return io.status;
}

static void
bind_one(struct kvbm_storage *tier, uint32_t block, uint64_t hash)
{
    kvbm_storage_bind(tier, &(struct kvbm_storage_name){.block = block, .id = {hash, hash - 1, 3}},
                      1);
}

static void
names_lead_to_blocks(void **unused)
{
    struct kvbm_storage_name name = {.block = 3};
    struct kvbm_storage_io parts[3] = {
        {in[0], 3, KVT_IO, 100, 50}, {in[1], 3, KVT_IO, 4096, 4096}, {in[2], 4, KVT_IO, 0, 8}};
    struct kvbm_storage_io part = {out[0], 3, KVT_IO, 0, 4096};
    struct kvbm_storage *one;
    struct kvbm_storage *two;
    struct far far;
    uint64_t number;

    (void)unused;
    far_open(&far, folder);
    number = far_add(&far, BLOCKS, SIZE);
    one = open_tier(far.set, number, false);
    two = open_tier(far.set, number, false);
    assert_int_equal(write_one(one, 3, 1), KVT_PRECONDITION);
    assert_int_equal(read_one(one, 3, 1), KVT_NOTFOUND);
    bind_one(one, 3, 42);
    assert_int_equal(read_one(one, 3, 1), KVT_NOTFOUND);
    assert_int_equal(kvbm_storage_commit(one, &name, 1), KVT_NOTFOUND);
    assert_int_equal(write_one(one, 3, 1), KVT_OK);
    assert_int_equal(kvbm_storage_commit(one, &name, 1), KVT_OK);
    assert_int_equal(read_one(one, 3, 1), KVT_OK);
    /* Another tier finds it under another number, and need not send it. */
    bind_one(two, 9, 42);
    assert_int_equal(read_one(two, 9, 1), KVT_OK);
    assert_int_equal(write_one(two, 9, 1), KVT_OK);
    /* Parts are read, and not written. */
    kvbm_storage_read(one, parts, 3);
    fill(out[0], 1);
    assert_memory_equal(in[0], out[0] + 100, 50);
    assert_memory_equal(in[1], out[0] + 4096, 4096);
    assert_int_equal(parts[0].status, KVT_OK);
    assert_int_equal(parts[1].status, KVT_OK);
    assert_int_equal(parts[2].status, KVT_NOTFOUND);
    kvbm_storage_write(one, &part, 1);
    assert_int_equal(part.status, KVT_INVALID);
    /* A name is others' as well: forgetting it here takes nothing away. */
    assert_int_equal(kvbm_storage_forget(one, &(uint32_t){3}, 1), KVT_OK);
    assert_int_equal(read_one(one, 3, 1), KVT_NOTFOUND);
    assert_int_equal(read_one(two, 9, 1), KVT_OK);
    /* The number has another name now: what is there under it is not mixed up with the old. */
    bind_one(one, 3, 43);
    assert_int_equal(read_one(one, 3, 1), KVT_NOTFOUND);
    assert_int_equal(write_one(one, 3, 2), KVT_OK);
    assert_int_equal(read_one(one, 3, 2), KVT_OK);
    /* The same hash at another place is no block of ours. */
    kvbm_storage_bind(two, &(struct kvbm_storage_name){.block = 9, .id = {42, 41, 4}}, 1);
    assert_int_equal(write_one(two, 9, 1), KVT_PRECONDITION);
    assert_int_equal(read_one(two, 9, 1), KVT_NOTFOUND);
    kvbm_storage_close(two);
    kvbm_storage_close(one);
    far_close(&far);
}

static void
memory_of_our_own_is_written_again(void **unused)
{
    struct kvbm_storage_io ios[BLOCKS];
    struct kvbm_storage *tier;
    struct far far;
    uint64_t number;

    (void)unused;
    far_open(&far, folder);
    number = far_add(&far, BLOCKS, SIZE);
    tier = open_tier(far.set, number, true);
    for (uint64_t version = 1; version < 4; version++) {
        for (uint32_t i = 0; i < BLOCKS; i++) {
            fill(out[i], version * 100 + i);
            ios[i] = (struct kvbm_storage_io){.host = out[i], .block = i};
        }
        kvbm_storage_write(tier, ios, BLOCKS);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            assert_int_equal(ios[i].status, KVT_OK);
            ios[i].host = in[i];
        }
        kvbm_storage_read(tier, ios, BLOCKS);
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_int_equal(ios[i].status, KVT_OK);
        assert_memory_equal(in, out, sizeof(in));
    }
    assert_int_equal(kvbm_storage_forget(tier, &(uint32_t){5}, 1), KVT_OK);
    assert_int_equal(read_one(tier, 5, 0), KVT_NOTFOUND);
    assert_int_equal(kvbm_storage_forget(tier, &(uint32_t){5}, 1), KVT_OK);
    kvbm_storage_close(tier);
    far_close(&far);
}

/* A volume that returns a whole block, only another one. */
struct liar {
    struct kvbm_volume head;
};

static void
liar_get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fill(items[i].bytes, 999);
        items[i].status = KVT_OK;
    }
    (void)volume;
}

static void
liar_put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_OK;
    (void)volume;
}

static void
liar_close(struct kvbm_volume *volume)
{
    kvt_free(volume);
}

static void
another_whole_block_is_found_out(void **unused)
{
    static const struct kvbm_volume_driver driver = {
        .kind = "liar", .get = liar_get, .put = liar_put, .close = liar_close};
    struct liar *liar = kvt_calloc(1, sizeof(*liar));
    struct kvbm_storage *tier;
    struct kvbm_volumes *set;
    struct kvbm_storage_io part = {in[1], 2, KVT_IO, 64, 64};

    (void)unused;
    assert_non_null(liar);
    liar->head = (struct kvbm_volume){&driver, SIZE};
    assert_int_equal(kvbm_volumes_new(&set, NULL), KVT_OK);
    tier = open_tier(set, 1, false);
    bind_one(tier, 2, 42);
    /* No volume says nothing of a block. */
    assert_int_equal(write_one(tier, 2, 1), KVT_UNAVAILABLE);
    assert_int_equal(read_one(tier, 2, 1), KVT_UNAVAILABLE);
    assert_int_equal(kvbm_volumes_register(set, 1, &liar->head, 4, NULL), KVT_OK);
    assert_int_equal(write_one(tier, 2, 1), KVT_OK);
    assert_int_equal(read_one(tier, 2, 1), KVT_CORRUPT);
    kvbm_storage_read(tier, &part, 1);
    assert_int_equal(part.status, KVT_CORRUPT);
    kvbm_storage_close(tier);
    kvbm_volumes_free(set);
}

/* A peer with manners of its own --------------------------------------------------------------- */

enum manner {
    SILENT,      /* never answers */
    HANGS_UP,    /* at once */
    HALF_A_HEAD, /* and gone */
    HALF_A_BODY, /* and gone */
    STUCK_BODY,  /* half of it, and silence */
    SHORT_BODY,  /* says that it has less */
    WRONG_BYTES,
    WRONG_TAG,
    WRONG_HEAD_CRC,
    GARBAGE,
    NO_SUCH_STATUS,
    MANNERS
};

struct fake {
    int fd;
    enum manner manner;
    pthread_t thread;
    _Atomic bool ended;
};

static void
misbehave(struct fake *fake, int fd, const struct kvbm_peer_question *question)
{
    static uint8_t body[SIZE];
    uint8_t head[KVBM_PEER_ANSWER_BYTES];
    struct kvbm_peer_answer answer = {KVT_OK, question->tag, SIZE, 0};
    size_t bytes = SIZE;

    fill(body, 4711);
    answer.crc32c = kvbm_crc32c(0, body, SIZE);
    if (fake->manner == WRONG_BYTES)
        body[SIZE / 2] ^= 1;
    if (fake->manner == WRONG_TAG)
        answer.tag++;
    if (fake->manner == SHORT_BODY)
        answer.size = (uint32_t)(bytes = SIZE / 2);
    if (fake->manner == NO_SUCH_STATUS) {
        answer.status = KVT_ERR_COUNT;
        answer.size = (uint32_t)(bytes = 0);
    }
    kvbm_peer_write_answer(head, &answer);
    if (fake->manner == WRONG_HEAD_CRC)
        head[9] ^= 4;
    if (fake->manner == GARBAGE)
        memset(head, 0xee, sizeof(head));
    if (fake->manner == HALF_A_HEAD) {
        (void)kvbm_peer_send(fd, head, sizeof(head) / 2, SHORT);
        return;
    }
    (void)kvbm_peer_send(fd, head, sizeof(head), SHORT);
    if (fake->manner == HALF_A_BODY || fake->manner == STUCK_BODY)
        bytes = SIZE / 2;
    (void)kvbm_peer_send(fd, body, bytes, SHORT);
}

static void *
fake_run(void *arg)
{
    struct fake *fake = arg;
    int fd;

    while ((fd = accept4(fake->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        uint8_t head[KVBM_PEER_QUESTION_BYTES];
        struct kvbm_peer_question question;

        if (fake->manner != HANGS_UP && kvbm_peer_receive(fd, head, sizeof(head), 10 * SHORT) &&
            kvbm_peer_read_question(&question, head)) {
            if (fake->manner != SILENT)
                misbehave(fake, fd, &question);
            if (fake->manner != SILENT && fake->manner != STUCK_BODY)
                (void)shutdown(fd, SHUT_WR);
            /* Until the other side has had enough: what is not read could take along what was said.
             */
            while (kvbm_peer_receive(fd, head, 1, 2 * SHORT))
                continue;
        }
        (void)close(fd);
    }
    return NULL;
}

static void
fake_open(struct fake *fake, const char *path, enum manner manner)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *fake = (struct fake){.manner = manner};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    fake->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fake->fd >= 0);
    assert_int_equal(bind(fake->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->fd, 4), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

static void
fake_close(struct fake *fake, const char *path)
{
    (void)shutdown(fake->fd, SHUT_RDWR);
    (void)pthread_join(fake->thread, NULL);
    (void)close(fake->fd);
    (void)unlink(path);
}

static uint64_t
ask_peer(struct kvbm_volumes *set, const char *path, uint64_t timeout_ms)
{
    struct kvbm_volume *volume;

    assert_int_equal(kvbm_volume_open_peer(&volume,
                                           &(struct kvbm_volume_peer_options){
                                               .path = path,
                                               .volume = 1,
                                               .block_size = SIZE,
                                               .fingerprint = FAR_FINGERPRINT,
                                               .timeout_ms = timeout_ms,
                                           },
                                           NULL),
                     KVT_OK);
    assert_int_equal(kvbm_volumes_register(set, 1, volume, 4, NULL), KVT_OK);
    return 1;
}

static void
whatever_a_peer_says_no_wrong_byte_is_right(void **unused)
{
    struct kvbm_volumes *set;
    struct kvbm_storage *tier;
    char path[300];

    (void)unused;
    (void)snprintf(path, sizeof(path), "%s/peer", folder);
    assert_int_equal(kvbm_volumes_new(&set, NULL), KVT_OK);
    tier = open_tier(set, ask_peer(set, path, SHORT), false);
    for (uint32_t i = 0; i < BLOCKS; i++)
        bind_one(tier, i, 100 + i);
    for (int manner = 0; manner < MANNERS; manner++) {
        struct kvbm_storage_io ios[3] = {
            {in[0], 4, KVT_OK, 0, 0}, {in[1], 5, KVT_OK, 0, 0}, {in[2], 6, KVT_OK, 0, 0}};
        struct fake fake;

        assert_int_equal(read_one(tier, 4, 4711), KVT_UNAVAILABLE); /* nobody is there */
        fake_open(&fake, path, (enum manner)manner);
        kvbm_storage_read(tier, ios, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_true(ios[i].status == KVT_UNAVAILABLE || ios[i].status == KVT_CORRUPT ||
                        ios[i].status == KVT_IO);
            assert_true(is_zero(ios[i].host));
        }
        if (manner >= SHORT_BODY && manner < NO_SUCH_STATUS)
            assert_int_equal(ios[0].status, KVT_CORRUPT);
        if (manner < SHORT_BODY)
            assert_int_equal(ios[0].status, KVT_UNAVAILABLE);
        if (manner != NO_SUCH_STATUS) /* the rest of what it says cannot be told apart */
            assert_int_equal(ios[2].status, KVT_UNAVAILABLE);
        assert_int_not_equal(write_one(tier, 4, 1), KVT_OK);
        assert_int_not_equal(kvbm_storage_commit(tier, &(struct kvbm_storage_name){.block = 4}, 1),
                             KVT_OK);
        fake_close(&fake, path);
    }
    kvbm_storage_close(tier);
    kvbm_volumes_free(set);
}

static void *
unregister(void *set)
{
    return kvbm_volumes_unregister(set, 1, true) == KVT_OK ? NULL : set;
}

/* Whoever takes the volume away does not wait for a silent peer. */
static void
a_silent_peer_holds_nobody_up(void **unused)
{
    struct kvbm_volumes *set;
    struct kvbm_storage *tier;
    struct fake fake;
    pthread_t thread;
    void *failed;
    char path[300];
    uint64_t began;

    (void)unused;
    (void)snprintf(path, sizeof(path), "%s/peer", folder);
    fake_open(&fake, path, SILENT);
    assert_int_equal(kvbm_volumes_new(&set, NULL), KVT_OK);
    tier = open_tier(set, ask_peer(set, path, UINT64_MAX), true);
    began = kvt_clock_mono_ms();
    assert_int_equal(pthread_create(&thread, NULL, unregister, set), 0);
    assert_int_not_equal(read_one(tier, 0, 1), KVT_OK);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_true(kvt_clock_mono_ms() - began < 10000);
    kvbm_storage_close(tier);
    kvbm_volumes_free(set);
    fake_close(&fake, path);
}

static int
dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static struct kvbm_peer_question
question_of(enum kvt_volume_verb verb, uint64_t volume, uint64_t word)
{
    fill(out[0], word);
    return (struct kvbm_peer_question){
        .verb = verb,
        .tag = 9,
        .volume = volume,
        .fingerprint = FAR_FINGERPRINT,
        .id = {word, 1, 1},
        .size = SIZE,
        .crc32c = kvbm_crc32c(0, out[0], SIZE),
    };
}

/* KVT_UNAVAILABLE: it hung up. */
static enum kvt_err
converse(int fd, const struct kvbm_peer_question *question)
{
    uint8_t head[KVBM_PEER_QUESTION_BYTES];
    uint8_t reply[KVBM_PEER_ANSWER_BYTES];
    struct kvbm_peer_answer answer;

    kvbm_peer_write_question(head, question);
    if (!kvbm_peer_send(fd, head, sizeof(head), FAR_TIMEOUT) ||
        (question->verb == KVT_VOLUME_PUT &&
         !kvbm_peer_send(fd, out[0], question->size, FAR_TIMEOUT)) ||
        !kvbm_peer_receive(fd, reply, sizeof(reply), FAR_TIMEOUT))
        return KVT_UNAVAILABLE;
    assert_true(kvbm_peer_read_answer(&answer, reply));
    assert_int_equal(answer.tag, 9);
    if (answer.size > 0)
        assert_true(kvbm_peer_receive(fd, in[0], answer.size, FAR_TIMEOUT));
    return answer.status;
}

/* A connection on which the question is answered: others that were closed may count for a while. */
static int
dial_served(const char *path, const struct kvbm_peer_question *question)
{
    for (unsigned tries = 0; tries < 1000; tries++) {
        const int fd = dial(path);

        if (converse(fd, question) == KVT_OK)
            return fd;
        (void)close(fd);
        kvt_clock_sleep_ms(5);
    }
    fail_msg("no connection is served");
    return -1;
}

/* What is asked wrongly is refused; a block that was damaged on its way is not kept. */
static void
a_peer_takes_no_wrong_byte(void **unused)
{
    struct kvbm_peer_question question;
    struct stat info;
    struct far far;
    uint8_t garbage[KVBM_PEER_QUESTION_BYTES] = {1, 2, 3};
    int fds[KVBM_PEER_CLIENTS_MAX + 1];
    int fd;

    (void)unused;
    far_open(&far, folder);
    (void)far_add(&far, 2, SIZE);
    assert_int_equal(stat(far.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    fd = dial(far.path);
    question = question_of(KVT_VOLUME_PUT, 1, 1);
    question.crc32c ^= 1;
    assert_int_equal(converse(fd, &question), KVT_CORRUPT);
    question = question_of(KVT_VOLUME_GET, 1, 1);
    assert_int_equal(converse(fd, &question), KVT_NOTFOUND);
    question = question_of(KVT_VOLUME_PUT, 1, 1);
    question.fingerprint++;
    assert_int_equal(converse(fd, &question), KVT_INVALID);
    question = question_of(KVT_VOLUME_PUT, 2, 1);
    assert_int_equal(converse(fd, &question), KVT_UNAVAILABLE); /* no such volume */
    question = question_of(KVT_VOLUME_GET, 1, 1);
    question.size /= 2;
    assert_int_equal(converse(fd, &question), KVT_INVALID);
    question = question_of(KVT_VOLUME_PUT, 1, 1);
    assert_int_equal(converse(fd, &question), KVT_OK);
    assert_int_equal(converse(fd, &question), KVT_EXISTS);
    question = question_of(KVT_VOLUME_PUT, 1, 2);
    assert_int_equal(converse(fd, &question), KVT_OK);
    question = question_of(KVT_VOLUME_PUT, 1, 3);
    assert_int_equal(converse(fd, &question), KVT_FULL);
    question = question_of(KVT_VOLUME_GET, 1, 2);
    assert_int_equal(converse(fd, &question), KVT_OK);
    assert_memory_equal(in[0], out[0], SIZE);
    /* Larger than any block, or no question at all: the end of the connection, and of no other. */
    question.size = UINT32_MAX;
    assert_int_equal(converse(fd, &question), KVT_UNAVAILABLE);
    (void)close(fd);
    fd = dial(far.path);
    assert_true(kvbm_peer_send(fd, garbage, sizeof(garbage), FAR_TIMEOUT));
    assert_false(kvbm_peer_receive(fd, garbage, 1, FAR_TIMEOUT));
    (void)close(fd);
    /* As many as there may be, one too many, and room again. */
    question = question_of(KVT_VOLUME_GET, 1, 2);
    for (size_t i = 0; i < KVBM_PEER_CLIENTS_MAX; i++)
        fds[i] = dial_served(far.path, &question);
    fds[KVBM_PEER_CLIENTS_MAX] = dial(far.path);
    assert_int_equal(converse(fds[KVBM_PEER_CLIENTS_MAX], &question), KVT_UNAVAILABLE);
    for (size_t i = 0; i <= KVBM_PEER_CLIENTS_MAX; i++)
        (void)close(fds[i]);
    (void)close(dial_served(far.path, &question));
    /* One that stops in the middle of a question does not keep the peer from ending. */
    fd = dial(far.path);
    assert_true(kvbm_peer_send(fd, garbage, 10, FAR_TIMEOUT));
    far_close(&far);
    (void)close(fd);
}

static void
one_peer_a_socket(void **unused)
{
    struct kvbm_peer *peer;
    struct kvbm_volume *volume;
    char path[300];
    char long_path[300];
    struct far far;

    (void)unused;
    far_open(&far, folder);
    assert_int_equal(
        kvbm_peer_open(&peer, &(struct kvbm_peer_options){far.path, far.shown, 1, SHORT}, NULL),
        KVT_BUSY);
    assert_null(peer);
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    assert_int_equal(
        kvbm_peer_open(&peer, &(struct kvbm_peer_options){long_path, far.shown, 1, SHORT}, NULL),
        KVT_RANGE);
    assert_int_equal(
        kvbm_volume_open_peer(
            &volume, &(struct kvbm_volume_peer_options){long_path, 1, SIZE, 1, SHORT}, NULL),
        KVT_RANGE);
    assert_int_equal(
        kvbm_volume_open_peer(&volume, &(struct kvbm_volume_peer_options){far.path, 1, 0, 1, SHORT},
                              NULL),
        KVT_RANGE);
    (void)snprintf(path, sizeof(path), "%s", far.path);
    far_close(&far);
    assert_int_equal(access(path, F_OK), -1);
    far_open(&far, folder); /* what a dead process left is no hindrance */
    far_close(&far);
}

/* A process that is killed ------------------------------------------------------------------- */

/* `program serve PATH FOLDER`: a peer with one kept file. */
static int
serve(const char *path, const char *where)
{
    char file[300];
    struct kvbm_volume *volume;
    struct kvbm_volumes *set;
    struct kvbm_peer *peer;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(file, sizeof(file), "%s/file", where);
    if (kvbm_volume_open_file(
            &volume,
            &(struct kvbm_volume_options){.path = file, .blocks = BLOCKS, .block_size = SIZE},
            NULL) != KVT_OK ||
        kvbm_volumes_new(&set, NULL) != KVT_OK ||
        kvbm_volumes_register(set, 1, volume, 8, NULL) != KVT_OK ||
        kvbm_peer_open(&peer, &(struct kvbm_peer_options){path, set, FAR_FINGERPRINT, FAR_TIMEOUT},
                       NULL) != KVT_OK)
        return 1;
    for (;;)
        (void)pause();
}

static pid_t
start_server(const char *path)
{
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)execl(program, program, "serve", path, folder, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void *
kill_later(void *arg)
{
    const pid_t *pid = arg;

    kvt_clock_sleep_ms(3);
    (void)kill(*pid, SIGKILL);
    return NULL;
}

static void
what_a_killed_peer_acknowledged_is_there(void **unused)
{
    uint64_t random = test_seed();
    bool acked[BLOCKS] = {false};
    struct kvbm_volumes *set;
    struct kvbm_storage *tier;
    char path[300];

    (void)unused;
    (void)snprintf(path, sizeof(path), "%s/peer", folder);
    assert_int_equal(kvbm_volumes_new(&set, NULL), KVT_OK);
    tier = open_tier(set, ask_peer(set, path, FAR_TIMEOUT), false);
    for (uint32_t i = 0; i < BLOCKS; i++)
        bind_one(tier, i, 100 + i);
    for (unsigned round = 0; round < 6; round++) {
        pid_t pid = start_server(path);
        pthread_t thread;

        for (unsigned tries = 0; read_one(tier, 0, 7) == KVT_UNAVAILABLE; tries++) {
            assert_true(tries < 2000);
            kvt_clock_sleep_ms(5);
        }
        for (uint32_t i = 0; i < BLOCKS; i++) {
            const enum kvt_err status = read_one(tier, i, 7 + i);

            assert_true(status == KVT_OK || (status == KVT_NOTFOUND && !acked[i]));
        }
        assert_int_equal(pthread_create(&thread, NULL, kill_later, &pid), 0);
        for (unsigned step = 0; step < 2000; step++) {
            const uint32_t i = (uint32_t)kvt_random_below(&random, BLOCKS);
            const enum kvt_err status = kvt_random_below(&random, 8) == 0
                                            ? write_one(tier, i, 7 + i)
                                            : read_one(tier, i, 7 + i);

            assert_true(status == KVT_OK || status == KVT_NOTFOUND || status == KVT_UNAVAILABLE);
            assert_true(status != KVT_NOTFOUND || !acked[i]);
            acked[i] = acked[i] || status == KVT_OK;
            if (status == KVT_UNAVAILABLE)
                break;
        }
        (void)pthread_join(thread, NULL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(read_one(tier, 0, 7), KVT_UNAVAILABLE);
    }
    kvbm_storage_close(tier);
    kvbm_volumes_free(set);
}

static bool
attempt(void *arg)
{
    const struct kvbm_peer_options options = {arg, NULL, 1, SHORT};
    struct kvbm_volumes *set;
    struct kvbm_volume *volume = NULL;
    struct kvbm_storage *tier = NULL;
    struct kvbm_peer *peer = NULL;
    enum kvt_err rc = kvbm_volumes_new(&set, NULL);

    if (rc == KVT_OK)
        rc = kvbm_peer_open(&peer, &options, NULL);
    if (rc == KVT_OK)
        rc = kvbm_volume_open_peer(
            &volume, &(struct kvbm_volume_peer_options){arg, 1, SIZE, 1, SHORT}, NULL);
    if (rc == KVT_OK)
        rc = kvbm_storage_open_volume(
            &tier, &(struct kvbm_storage_volume_options){set, 1, BLOCKS, SIZE, false, 0}, NULL);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    kvbm_storage_close(tier);
    kvbm_volume_close(volume);
    kvbm_peer_close(peer);
    kvbm_volumes_free(set);
    return rc == KVT_OK;
}

static void
opening_survives_every_allocation_failure(void **unused)
{
    char path[300];

    (void)unused;
    (void)snprintf(path, sizeof(path), "%s/peer", folder);
    assert_true(test_sweep_allocations(attempt, path) > 3);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_lead_to_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_of_our_own_is_written_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_whole_block_is_found_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whatever_a_peer_says_no_wrong_byte_is_right, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_silent_peer_holds_nobody_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_takes_no_wrong_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_peer_a_socket, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_killed_peer_acknowledged_is_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(opening_survives_every_allocation_failure, set_up,
                                        tear_down),
    };

    program = argv[0];
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
