/*
 * What is tested: wire/message/recording.h.
 * How: recordings written, then cut at every byte, and with every byte changed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/random.h"
#include "base/text/msgpack.h"
#include "wire/message/recording.h"
#include "wire/message/recording_internal.h"

#include "tests/support/seed.h"

enum { RECORDS = 5, FILE_MAX = 1 << 20 };

struct fixture {
    char folder[256];
    char path[300];
    char *bytes; /* of the recording of RECORDS */
    size_t size;
    size_t begins[RECORDS + 1]; /* of each record; the last is the file's end */
};

static const struct wire_recording_options no_limit = {0};

/* Record i of the fixture: sizes 0, 1, 40, 300, 3. */
static struct wire_recording
record_of(unsigned i)
{
    static const uint8_t bytes[300] = {0x96, 1, 2, 3, 0xc0, 0xff};
    static const size_t sizes[RECORDS] = {0, 1, 40, 300, 3};
    struct wire_recording record = {.time_ns = 1700000000000000000u + i,
                                    .sequence = i == 0 ? 0 : UINT64_MAX - i,
                                    .bytes = bytes,
                                    .size = sizes[i]};

    (void)snprintf(record.dialect, sizeof(record.dialect), "%s", i % 2 == 0 ? "kvtier" : "dynamo");
    (void)snprintf(record.source, sizeof(record.source), "core");
    (void)snprintf(record.subject, sizeof(record.subject), "kvtier.v1.events._.0.w-%u", i);
    return record;
}

static void
assert_record(const struct wire_recording *got, const struct wire_recording *want)
{
    assert_int_equal(got->time_ns, want->time_ns);
    assert_int_equal(got->sequence, want->sequence);
    assert_string_equal(got->dialect, want->dialect);
    assert_string_equal(got->source, want->source);
    assert_string_equal(got->subject, want->subject);
    assert_int_equal(got->size, want->size);
    if (want->size > 0)
        assert_memory_equal(got->bytes, want->bytes, want->size);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    struct wire_recording_writer *writer;

    assert_non_null(f);
    (void)test_folder_make(f->folder, sizeof(f->folder));
    (void)snprintf(f->path, sizeof(f->path), "%s/events.rec", f->folder);
    assert_int_equal(wire_recording_create(&writer, f->path, &no_limit, NULL), KVT_OK);
    for (unsigned i = 0; i < RECORDS; i++) {
        const struct wire_recording record = record_of(i);

        f->begins[i] = wire_recording_size(writer);
        assert_int_equal(wire_recording_put(writer, &record, NULL), KVT_OK);
    }
    f->begins[RECORDS] = wire_recording_size(writer);
    assert_int_equal(wire_recording_close(writer, NULL), KVT_OK);
    assert_int_equal(kvt_file_read(&f->bytes, &f->size, f->path, FILE_MAX, NULL), KVT_OK);
    assert_int_equal(f->size, f->begins[RECORDS]);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    test_folder_remove(f->folder);
    kvt_free(f->bytes);
    kvt_free(f);
    return 0;
}

static struct wire_recording_reader *
open_bytes(const struct fixture *f, const char *bytes, size_t size)
{
    struct wire_recording_reader *reader;

    assert_int_equal(kvt_file_write(f->path, bytes, size, 0600, NULL), KVT_OK);
    assert_int_equal(wire_recording_open(&reader, f->path, NULL), KVT_OK);
    return reader;
}

static void
what_is_put_is_read(void **state)
{
    const struct fixture *f = *state;
    struct wire_recording_reader *reader = open_bytes(f, f->bytes, f->size);
    struct wire_recording got;

    assert_memory_equal(f->bytes, "KVTREC1\n", 8);
    for (unsigned i = 0; i < RECORDS; i++) {
        const struct wire_recording want = record_of(i);

        assert_int_equal(wire_recording_offset(reader), f->begins[i]);
        assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_OK);
        assert_record(&got, &want);
    }
    assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_NOTFOUND);
    assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_NOTFOUND);
    assert_int_equal(wire_recording_torn(reader), 0);
    wire_recording_free(reader);
}

/* The page in docs/formats.md, byte for byte: another program can write it from there. */
static void
the_bytes_are_the_documented_ones(void **state)
{
    static const uint8_t want[] = {'K', 'V',  'T', 'R',  'E',  'C', '1',  '\n', 18,  0,   0,   0,
                                   0,   0,    0,   0,    0x96, 5,   0xa6, 'k',  'v', 't', 'i', 'e',
                                   'r', 0xa1, 'c', 0xa1, 's',  7,   0xc4, 2,    'x', 'y'};
    const struct fixture *f = *state;
    const struct wire_recording_options options = {.replace = true};
    struct wire_recording record = {.time_ns = 5,
                                    .sequence = 7,
                                    .bytes = "xy",
                                    .size = 2,
                                    .dialect = "kvtier",
                                    .source = "c",
                                    .subject = "s"};
    struct wire_recording_writer *writer;
    uint8_t crc[4];
    char *bytes;
    size_t size;

    assert_int_equal(wire_recording_crc((const uint8_t *)"123456789", 9), 0xe3069283u);
    assert_int_equal(wire_recording_create(&writer, f->path, &options, NULL), KVT_OK);
    assert_int_equal(wire_recording_put(writer, &record, NULL), KVT_OK);
    assert_int_equal(wire_recording_close(writer, NULL), KVT_OK);
    assert_int_equal(kvt_file_read(&bytes, &size, f->path, FILE_MAX, NULL), KVT_OK);
    assert_int_equal(size, sizeof(want));
    memcpy(crc, bytes + 12, sizeof(crc));
    memset(bytes + 12, 0, sizeof(crc));
    assert_memory_equal(bytes, want, sizeof(want));
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(crc[i], (wire_recording_crc(want + 16, 18) >> (8 * i)) & 0xff);
    kvt_free(bytes);
}

static void
a_file_cut_anywhere_gives_its_whole_records(void **state)
{
    const struct fixture *f = *state;

    for (size_t size = 8; size <= f->size; size++) {
        struct wire_recording_reader *reader = open_bytes(f, f->bytes, size);
        struct wire_recording got;
        unsigned whole = 0;

        while (f->begins[whole + 1] <= size && whole + 1 <= RECORDS) {
            const struct wire_recording want = record_of(whole);

            assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_OK);
            assert_record(&got, &want);
            if (++whole == RECORDS)
                break;
        }
        assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_NOTFOUND);
        assert_int_equal(wire_recording_torn(reader), size - f->begins[whole]);
        assert_null(got.bytes);
        wire_recording_free(reader);
    }
}

static void
a_file_cut_in_its_first_line_is_no_recording(void **state)
{
    const struct fixture *f = *state;

    for (size_t size = 0; size < 8; size++) {
        struct wire_recording_reader *reader;
        struct kvt_error err = {0};

        assert_int_equal(kvt_file_write(f->path, f->bytes, size, 0600, NULL), KVT_OK);
        assert_int_equal(wire_recording_open(&reader, f->path, &err), KVT_CORRUPT);
        assert_null(reader);
        assert_non_null(strstr(err.text, "no recording"));
    }
}

/* Whatever byte is wrong, one record is lost, the reader says where it was, and goes on. */
static void
a_wrong_byte_costs_one_record(void **state)
{
    const struct fixture *f = *state;
    char *bytes = kvt_calloc(f->size, 1);

    assert_non_null(bytes);
    for (size_t at = 8; at < f->size; at++) {
        struct wire_recording_reader *reader;
        struct kvt_error err = {0};
        struct wire_recording got;
        unsigned seen = 0;
        unsigned bad = 0;
        char offset[32];
        enum kvt_err rc;

        memcpy(bytes, f->bytes, f->size);
        bytes[at] = (char)(bytes[at] ^ 0x20);
        reader = open_bytes(f, bytes, f->size);
        while ((rc = wire_recording_next(reader, &got, &err)) != KVT_NOTFOUND) {
            if (rc == KVT_OK) {
                if (seen + bad < RECORDS && at >= f->begins[seen + bad] &&
                    at < f->begins[seen + bad + 1])
                    fail_msg("a record with a wrong byte was given");
                seen++;
                continue;
            }
            assert_int_equal(rc, KVT_CORRUPT);
            (void)snprintf(offset, sizeof(offset), "offset %zu:", f->begins[seen]);
            assert_non_null(strstr(err.text, offset));
            bad++;
        }
        assert_int_equal(seen, RECORDS - 1);
        /* The last one with a longer length looks like one whose rest is missing. */
        assert_true(bad == 1 || (at < f->size && wire_recording_torn(reader) > 0 &&
                                 at >= f->begins[RECORDS - 1] && at < f->begins[RECORDS - 1] + 4));
        wire_recording_free(reader);
    }
    kvt_free(bytes);
}

/* Members that a later version adds are passed over; what is too short or of another kind is not
 * trusted though its checksum fits. */
static void
bodies_may_grow_and_must_be_whole(void **state)
{
    const struct fixture *f = *state;

    for (unsigned members = 5; members <= 7; members++) {
        struct wire_recording_reader *reader;
        struct kvt_msgpack_writer body;
        struct wire_recording got;
        struct kvt_buffer file;
        struct kvt_buffer out;
        uint32_t header[2];

        kvt_buffer_init(&out, 1024);
        kvt_buffer_init(&file, 1024);
        kvt_msgpack_write(&body, &out, 1024);
        kvt_msgpack_put_array(&body, members);
        kvt_msgpack_put_uint(&body, 1);
        kvt_msgpack_put_str(&body, "later");
        kvt_msgpack_put_str(&body, "c");
        kvt_msgpack_put_str(&body, "s");
        kvt_msgpack_put_uint(&body, 0);
        if (members >= 6)
            kvt_msgpack_put_bin(&body, "abc", 3);
        if (members == 7)
            kvt_msgpack_put_str(&body, "more");
        assert_int_equal(kvt_msgpack_done(&body), KVT_OK);
        header[0] = (uint32_t)out.size;
        header[1] = wire_recording_crc(out.data, out.size);
        kvt_buffer_append(&file, WIRE_RECORDING_MAGIC, 8);
        kvt_buffer_append(&file, header, sizeof(header));
        kvt_buffer_append(&file, out.data, out.size);
        reader = open_bytes(f, (const char *)file.data, file.size);
        assert_int_equal(wire_recording_next(reader, &got, NULL),
                         members >= 6 ? KVT_OK : KVT_CORRUPT);
        if (members >= 6) {
            assert_string_equal(got.dialect, "later");
            assert_int_equal(got.size, 3);
        }
        assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_NOTFOUND);
        wire_recording_free(reader);
        kvt_buffer_release(&file);
        kvt_buffer_release(&out);
    }
}

static void
large_records_and_many_of_them_are_read(void **state)
{
    const struct fixture *f = *state;
    const struct wire_recording_options options = {.replace = true};
    struct wire_recording_writer *writer;
    struct wire_recording_reader *reader;
    uint8_t *bytes = kvt_calloc(WIRE_RECORDING_BYTES_MAX + 1, 1);
    uint64_t random = 1;
    struct wire_recording record = {.bytes = bytes, .dialect = "engine"};
    struct wire_recording got;
    struct stat info;

    assert_non_null(bytes);
    for (size_t i = 0; i <= WIRE_RECORDING_BYTES_MAX; i += sizeof(random)) {
        const uint64_t word = kvt_random_next(&random);

        memcpy(bytes + i, &word, i + sizeof(word) <= WIRE_RECORDING_BYTES_MAX ? sizeof(word) : 1);
    }
    assert_int_equal(wire_recording_create(&writer, f->path, &options, NULL), KVT_OK);
    record.size = WIRE_RECORDING_BYTES_MAX + 1;
    assert_int_equal(wire_recording_put(writer, &record, NULL), KVT_RANGE);
    for (size_t size = 1; size <= WIRE_RECORDING_BYTES_MAX; size *= 2) {
        record.size = size;
        assert_int_equal(wire_recording_put(writer, &record, NULL), KVT_OK);
    }
    record.size = 3;
    for (unsigned i = 0; i < 10000; i++) {
        record.sequence = i;
        assert_int_equal(wire_recording_put(writer, &record, NULL), KVT_OK);
    }
    assert_int_equal(wire_recording_flush(writer, NULL), KVT_OK);
    assert_int_equal(stat(f->path, &info), 0);
    assert_int_equal(info.st_size, wire_recording_size(writer));
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(wire_recording_close(writer, NULL), KVT_OK);

    assert_int_equal(wire_recording_open(&reader, f->path, NULL), KVT_OK);
    for (size_t size = 1; size <= WIRE_RECORDING_BYTES_MAX; size *= 2) {
        assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_OK);
        assert_int_equal(got.size, size);
        assert_memory_equal(got.bytes, bytes, size);
    }
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_OK);
        assert_int_equal(got.sequence, i);
    }
    assert_int_equal(wire_recording_next(reader, &got, NULL), KVT_NOTFOUND);
    wire_recording_free(reader);
    kvt_free(bytes);
}

static void
a_limit_is_kept_and_an_existing_file_too(void **state)
{
    const struct fixture *f = *state;
    const struct wire_recording_options limited = {.replace = true, .size_max = f->begins[2]};
    const struct wire_recording record = record_of(0);
    struct wire_recording_writer *writer;
    struct kvt_error err = {0};
    struct stat info;

    assert_int_equal(wire_recording_create(&writer, f->path, &no_limit, &err), KVT_EXISTS);
    assert_null(writer);
    assert_int_equal(stat(f->path, &info), 0);
    assert_int_equal(info.st_size, f->size);
    assert_int_equal(wire_recording_create(&writer, f->path, &limited, NULL), KVT_OK);
    for (unsigned i = 0; i < 2; i++) {
        const struct wire_recording fits = record_of(i);

        assert_int_equal(wire_recording_put(writer, &fits, NULL), KVT_OK);
    }
    assert_int_equal(wire_recording_put(writer, &record, &err), KVT_FULL);
    assert_non_null(strstr(err.text, "do not rotate"));
    assert_int_equal(wire_recording_size(writer), f->begins[2]);
    assert_int_equal(wire_recording_close(writer, NULL), KVT_OK);
    assert_int_equal(stat(f->path, &info), 0);
    assert_int_equal(info.st_size, f->begins[2]);
}

static void
what_cannot_be_written_is_told(void **state)
{
    const struct wire_recording record = record_of(3);
    const struct wire_recording_options options = {.replace = true};
    struct wire_recording_writer *writer;
    struct wire_recording_reader *reader;

    (void)state;
    assert_int_equal(wire_recording_create(&writer, "/dev/full", &options, NULL), KVT_OK);
    assert_int_equal(wire_recording_put(writer, &record, NULL), KVT_OK);
    assert_int_equal(wire_recording_flush(writer, NULL), KVT_FULL);
    assert_int_equal(wire_recording_put(writer, &record, NULL), KVT_OK);
    assert_int_equal(wire_recording_close(writer, NULL), KVT_FULL);
    assert_int_equal(wire_recording_create(&writer, "/nowhere/at/all", &options, NULL),
                     KVT_NOTFOUND);
    assert_int_equal(wire_recording_open(&reader, "/nowhere/at/all", NULL), KVT_NOTFOUND);
    assert_int_equal(wire_recording_close(NULL, NULL), KVT_OK);
    wire_recording_free(NULL);
}

static bool
write_and_read(void *arg)
{
    const struct fixture *f = arg;
    const struct wire_recording_options options = {.replace = true};
    const struct wire_recording record = record_of(3);
    struct wire_recording_writer *writer;
    struct wire_recording_reader *reader;
    struct wire_recording got;
    enum kvt_err rc = wire_recording_create(&writer, f->path, &options, NULL);

    if (rc == KVT_OK) {
        enum kvt_err closed;

        rc = wire_recording_put(writer, &record, NULL);
        closed = wire_recording_close(writer, NULL);
        rc = rc == KVT_OK ? closed : rc;
    }
    if (rc == KVT_OK)
        rc = wire_recording_open(&reader, f->path, NULL);
    if (rc == KVT_OK) {
        rc = wire_recording_next(reader, &got, NULL);
        wire_recording_free(reader);
    }
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    return rc == KVT_OK;
}

static void
every_failing_allocation_is_answered(void **state)
{
    assert_true(test_sweep_allocations(write_and_read, *state) > 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_put_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_bytes_are_the_documented_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_cut_anywhere_gives_its_whole_records, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_cut_in_its_first_line_is_no_recording, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_byte_costs_one_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bodies_may_grow_and_must_be_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_records_and_many_of_them_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_limit_is_kept_and_an_existing_file_too, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_answered, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
