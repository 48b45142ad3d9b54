/*
 * What is tested: wire/message/key_ring.h, wire/message/signature.h and wire_report_open(): who can
 * sign what, and which messages are refused.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/hex.h"
#include "wire/message/report_codec.h"
#include "wire/message/signature.h"

#include "tests/support/seed.h"

#define MASTER "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER  "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* HMAC-SHA256(MASTER, "kvtier-reports-v1\0gw0"), computed with Python. */
#define REPORTS_GW0 "31a5e2cdd822b1f064a7e310b2735ebef1500844c04bdcc7df132f1647e8cfd1"
#define ORDERS_GW0  "1cc80a35515934f6c32979fedc8dd5ca909dc41eb680341e5dadb7226194c94b"
/* Of a report "payload" of gw0. */
#define MAC_PAYLOAD "7713d72dffbd5297ba4f972785a4514be8f7f8ed01cd773ab7f0cd917dce65d4"

static void
parse(struct wire_key_ring *ring, const char *text)
{
    struct kvt_error err;

    assert_int_equal(wire_key_ring_parse(ring, text, "orders.key_file", &err), KVT_OK);
}

static void
keys_are_derived_as_documented(void **state)
{
    char text[WIRE_KEY_LINE_MAX];
    struct wire_key_ring master;
    struct wire_key_ring owned;

    (void)state;
    parse(&master, MASTER "\n");
    assert_true(wire_key_ring_has_master(&master));
    assert_int_equal(wire_key_line_format(&master.lines[0], "gw0", text, sizeof(text)), KVT_OK);
    assert_string_equal(text, "kvtier-key orders=" ORDERS_GW0 " reports=" REPORTS_GW0 " gw0");
    parse(&owned, text);
    assert_false(wire_key_ring_has_master(&owned));
    assert_true(wire_key_ring_signs(&owned, WIRE_KEY_REPORTS, "gw0"));
    assert_false(wire_key_ring_signs(&owned, WIRE_KEY_REPORTS, "gw1"));
    assert_int_equal(wire_key_line_format(&owned.lines[0], "gw1", text, sizeof(text)),
                     KVT_NOTFOUND);
    assert_int_equal(wire_key_line_format(&master.lines[0], "a\nb", text, sizeof(text)),
                     KVT_INVALID);
}

static void
files_that_are_not_keys_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "\n\n",
        "0123456789abcde",
        "kvtier-key gw0",
        "kvtier-key orders=00 gw0",
        "kvtier-key orders=" MASTER " ",
        "kvtier-key orders=" MASTER,
        MASTER "\n" MASTER "\n" MASTER "\n" MASTER "\n" MASTER,
        MASTER "\nshort",
    };
    struct wire_key_ring ring;
    struct kvt_error err;
    char text[WIRE_KEY_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(wire_key_ring_parse(&ring, bad[i], "orders.key_file", &err), KVT_INVALID);
        assert_int_equal(ring.count, 0);
        assert_non_null(strstr(err.text, "orders.key_file"));
    }
    parse(&ring, "0123456789abcdef"); /* too short for hex digits: taken as it is */
    assert_int_equal(ring.lines[0].master.size, 16);
    parse(&ring, "000102030405060708090A0b0c0d0eff\r\n");
    assert_int_equal(ring.lines[0].master.size, 16);
    assert_int_equal(ring.lines[0].master.bytes[15], 255);
    memset(text, 'z', sizeof(text));
    text[WIRE_KEY_MAX] = '\0';
    parse(&ring, text);
    memset(text, 'z', sizeof(text));
    text[WIRE_KEY_MAX + 1] = '\0';
    assert_int_equal(wire_key_ring_parse(&ring, text, "x", &err), KVT_INVALID);
}

/* Signs "payload" as the report of `name`, and reads it back. */
static enum kvt_err
sign(const struct wire_key_ring *ring, enum wire_signed_kind kind, const char *name,
     struct kvt_buffer *out, struct wire_envelope *envelope)
{
    struct kvt_error err;
    enum kvt_err rc;

    kvt_buffer_init(out, 256);
    rc = wire_envelope_sign(ring, kind, name, "payload", 7, out);
    if (rc == KVT_OK) {
        assert_true(wire_envelope_is(out->data, out->size));
        assert_int_equal(wire_envelope_read(out->data, out->size, envelope, &err), KVT_OK);
        assert_int_equal(envelope->size, 7);
    }
    return rc;
}

static void
a_signature_is_of_one_kind_and_one_name(void **state)
{
    char text[WIRE_KEY_LINE_MAX];
    char digits[2 * WIRE_MAC_SIZE + 1];
    struct wire_key_ring master;
    struct wire_key_ring gw0;
    struct wire_key_ring other;
    struct wire_envelope envelope;
    struct kvt_buffer out;

    (void)state;
    parse(&master, MASTER);
    parse(&other, OTHER);
    assert_int_equal(wire_key_line_format(&master.lines[0], "gw0", text, sizeof(text)), KVT_OK);
    parse(&gw0, text);
    assert_int_equal(sign(&gw0, WIRE_SIGNED_REPORT, "gw0", &out, &envelope), KVT_OK);
    kvt_hex_format(envelope.mac, WIRE_MAC_SIZE, digits);
    assert_string_equal(digits, MAC_PAYLOAD);
    assert_true(wire_envelope_verify(&master, WIRE_SIGNED_REPORT, "gw0", &envelope));
    assert_false(wire_envelope_verify(&master, WIRE_SIGNED_REPORT, "gw1", &envelope));
    assert_false(wire_envelope_verify(&master, WIRE_SIGNED_ORDER, "gw0", &envelope));
    assert_false(wire_envelope_verify(&other, WIRE_SIGNED_REPORT, "gw0", &envelope));
    assert_false(wire_envelope_verify_shared(&master, &envelope));
    kvt_buffer_release(&out);

    /* It speaks for no other gateway, and signs no order that another would take. */
    assert_int_equal(sign(&gw0, WIRE_SIGNED_REPORT, "gw1", &out, &envelope), KVT_NOTFOUND);
    kvt_buffer_release(&out);
    assert_int_equal(sign(&gw0, WIRE_SIGNED_ORDER, "gw1", &out, &envelope), KVT_NOTFOUND);
    kvt_buffer_release(&out);
    kvt_buffer_init(&out, 256);
    assert_int_equal(wire_envelope_sign_shared(&gw0, "payload", 7, &out), KVT_NOTFOUND);
    kvt_buffer_release(&out);
}

static void
all_lines_verify_and_the_first_signs(void **state)
{
    struct wire_key_ring old;
    struct wire_key_ring both;
    struct wire_key_ring next;
    struct wire_envelope envelope;
    struct kvt_buffer out;

    (void)state;
    parse(&old, MASTER);
    parse(&both, OTHER "\n" MASTER "\n");
    parse(&next, OTHER);
    assert_int_equal(sign(&old, WIRE_SIGNED_REPORT, "gw0", &out, &envelope), KVT_OK);
    assert_true(wire_envelope_verify(&both, WIRE_SIGNED_REPORT, "gw0", &envelope));
    kvt_buffer_release(&out);
    assert_int_equal(sign(&both, WIRE_SIGNED_REPORT, "gw0", &out, &envelope), KVT_OK);
    assert_true(wire_envelope_verify(&next, WIRE_SIGNED_REPORT, "gw0", &envelope));
    assert_false(wire_envelope_verify(&old, WIRE_SIGNED_REPORT, "gw0", &envelope));
    kvt_buffer_release(&out);
}

struct scene {
    struct kvt_report report;
    struct kvt_buffer payload;
    struct kvt_buffer bytes;
    struct kvt_report read;
};

static void
begin(struct scene *scene, const char *gateway)
{
    *scene = (struct scene){.report = {.seq = 7, .incarnation = 3, .tier_count = 1}};
    (void)snprintf(scene->report.gateway, KVT_NAME_MAX, "%s", gateway);
    (void)snprintf(scene->report.tiers[0].name, KVT_NAME_MAX, "hot@%s", gateway);
    scene->read.accesses = kvt_calloc(KVT_REPORT_ACCESSES_MAX, sizeof(*scene->read.accesses));
    scene->read.results = kvt_calloc(KVT_REPORT_RESULTS_MAX, sizeof(*scene->read.results));
    scene->read.pins.rows = kvt_calloc(KVT_REPORT_PINS_MAX, sizeof(*scene->read.pins.rows));
    kvt_buffer_init(&scene->payload, WIRE_REPORT_MAX);
    kvt_buffer_init(&scene->bytes, WIRE_REPORT_MAX + WIRE_ENVELOPE_MAX);
    assert_int_equal(wire_report_encode(&scene->report, &scene->payload), KVT_OK);
}

static void
end(struct scene *scene)
{
    kvt_buffer_release(&scene->payload);
    kvt_buffer_release(&scene->bytes);
    kvt_free(scene->read.accesses);
    kvt_free(scene->read.results);
    kvt_free(scene->read.pins.rows);
}

static void
a_report_is_of_the_gateway_whose_key_signed_it(void **state)
{
    struct wire_key_ring keys;
    struct wire_key_ring other;
    struct scene scene;
    struct kvt_error err;
    bool verified;

    (void)state;
    parse(&keys, MASTER);
    parse(&other, OTHER);
    begin(&scene, "gw0");
    /* Without a signature, under its own subject and another's. */
    assert_int_equal(wire_report_open(scene.payload.data, scene.payload.size,
                                      "kvtier.v1.reports.gw0", &keys, &scene.read, &verified, &err),
                     KVT_OK);
    assert_false(verified);
    assert_int_equal(wire_report_open(scene.payload.data, scene.payload.size,
                                      "kvtier.v1.reports.gw1", &keys, &scene.read, &verified, &err),
                     KVT_DENIED);
    /* Signed. */
    assert_int_equal(wire_envelope_sign(&keys, WIRE_SIGNED_REPORT, "gw0", scene.payload.data,
                                        scene.payload.size, &scene.bytes),
                     KVT_OK);
    assert_int_equal(wire_report_open(scene.bytes.data, scene.bytes.size, "kvtier.v1.reports.gw0",
                                      &keys, &scene.read, &verified, &err),
                     KVT_OK);
    assert_true(verified);
    assert_int_equal(scene.read.seq, 7);
    assert_int_equal(wire_report_open(scene.bytes.data, scene.bytes.size, "kvtier.v1.reports.gw1",
                                      &keys, &scene.read, &verified, &err),
                     KVT_DENIED);
    assert_false(verified);
    assert_int_equal(wire_report_open(scene.bytes.data, scene.bytes.size, "kvtier.v1.reports.gw0",
                                      &other, &scene.read, &verified, &err),
                     KVT_DENIED);
    assert_int_equal(wire_report_open(scene.bytes.data, scene.bytes.size, "kvtier.v1.reports.gw0",
                                      NULL, &scene.read, &verified, &err),
                     KVT_OK);
    assert_false(verified);
    /* Any bit of it. */
    for (size_t bit = 0; bit < 8 * scene.bytes.size; bit++) {
        scene.bytes.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        (void)!wire_report_open(scene.bytes.data, scene.bytes.size, "kvtier.v1.reports.gw0", &keys,
                                &scene.read, &verified, &err);
        assert_false(verified);
        scene.bytes.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    /* With the key of another gateway. */
    kvt_buffer_clear(&scene.bytes);
    assert_int_equal(wire_envelope_sign(&keys, WIRE_SIGNED_REPORT, "gw1", scene.payload.data,
                                        scene.payload.size, &scene.bytes),
                     KVT_OK);
    assert_int_equal(wire_report_open(scene.bytes.data, scene.bytes.size, "kvtier.v1.reports.gw0",
                                      &keys, &scene.read, &verified, &err),
                     KVT_DENIED);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_derived_as_documented),
        cmocka_unit_test(files_that_are_not_keys_are_refused),
        cmocka_unit_test(a_signature_is_of_one_kind_and_one_name),
        cmocka_unit_test(all_lines_verify_and_the_first_signs),
        cmocka_unit_test(a_report_is_of_the_gateway_whose_key_signed_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
