/*
 * What is tested: g4/s3/upload_notes.h: notes are there when they are said to be, also after the
 * next opening, beside a simple list of them; every allocation that fails is told.
 */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/s3/upload_notes.h"

#include "tests/support/seed.h"

enum { ROUNDS = 300, MOST = 40, PAGE = 7 };

struct waiter {
    sem_t sem;
    enum kvt_err status;
};

static void
on_done(enum kvt_err status, void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = status;
    (void)sem_post(&waiter->sem);
}

static enum kvt_err
begin(struct g4_upload_notes *notes, struct g4_upload_note_call *call, const char *key)
{
    struct waiter waiter;
    enum kvt_err rc;

    (void)sem_init(&waiter.sem, 0, 0);
    rc = g4_upload_notes_begin(notes, call, key, on_done, &waiter);
    if (rc == KVT_OK) {
        (void)sem_wait(&waiter.sem);
        rc = waiter.status;
    }
    g4_upload_notes_settle(notes);
    (void)sem_destroy(&waiter.sem);
    return rc;
}

static enum kvt_err
end(struct g4_upload_note_call *call)
{
    struct waiter waiter;

    (void)sem_init(&waiter.sem, 0, 0);
    g4_upload_notes_end(call, on_done, &waiter);
    (void)sem_wait(&waiter.sem);
    (void)sem_destroy(&waiter.sem);
    return waiter.status;
}

struct model {
    char id[G4_UPLOAD_NOTE_ID];
    char key[KVT_KEY_MAX];
    bool ours;
    struct g4_upload_note_call call;
};

static void
expect(struct g4_upload_notes *notes, const struct model *model, size_t count)
{
    struct g4_upload_note page[PAGE];
    char after[G4_UPLOAD_NOTE_ID] = "";
    size_t seen = 0;
    size_t got;

    do {
        assert_int_equal(g4_upload_notes_list(notes, after, page, PAGE, &got), KVT_OK);
        for (size_t i = 0; i < got; i++) {
            size_t at = 0;

            assert_true(strcmp(after, page[i].id) < 0);
            memcpy(after, page[i].id, sizeof(after));
            while (at < count && strcmp(model[at].id, page[i].id) != 0)
                at++;
            assert_true(at < count);
            assert_string_equal(model[at].key, page[i].key);
            assert_int_equal(model[at].ours, page[i].ours);
            assert_true(page[i].begun_ms > 0);
        }
        seen += got;
    } while (got == PAGE);
    assert_int_equal(seen, count);
}

static void
notes_are_what_was_written_and_not_taken_away(void **state)
{
    struct model *model = kvt_calloc(MOST, sizeof(*model));
    uint64_t random = test_seed();
    struct g4_upload_notes *notes;
    char folder[256];
    size_t count = 0;

    (void)state;
    assert_non_null(model);
    (void)test_folder_make(folder, sizeof(folder));
    assert_int_equal(g4_upload_notes_open(&notes, folder, NULL), KVT_OK);
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t what = kvt_random_below(&random, 10);

        if (what < 6 && count < MOST) {
            struct model *row = &model[count++];

            (void)snprintf(row->key, sizeof(row->key), "acme/%llx",
                           (unsigned long long)kvt_random_below(&random, 20));
            row->ours = true;
            assert_int_equal(begin(notes, &row->call, row->key), KVT_OK);
            memcpy(row->id, row->call.id, sizeof(row->id));
        } else if (what < 9 && count > 0) {
            const size_t at = (size_t)kvt_random_below(&random, count);

            if (model[at].ours && what % 2 == 0)
                assert_int_equal(end(&model[at].call), KVT_OK);
            else
                assert_int_equal(g4_upload_notes_drop(notes, model[at].id), KVT_OK);
            assert_int_equal(g4_upload_notes_drop(notes, model[at].id), KVT_OK);
            model[at] = model[--count];
        } else if (what == 9) {
            g4_upload_notes_close(notes);
            assert_int_equal(g4_upload_notes_open(&notes, folder, NULL), KVT_OK);
            for (size_t i = 0; i < count; i++)
                model[i].ours = false;
        }
        if (round % 10 == 0)
            expect(notes, model, count);
    }
    expect(notes, model, count);
    g4_upload_notes_close(notes);
    test_folder_remove(folder);
    kvt_free(model);
}

static bool
use(void *arg)
{
    struct g4_upload_notes *notes;
    struct g4_upload_note_call call;
    struct g4_upload_note page[PAGE];
    struct kvt_error err;
    size_t got;
    enum kvt_err rc = g4_upload_notes_open(&notes, arg, &err);

    if (rc != KVT_OK) {
        assert_null(notes);
        return false;
    }
    rc = begin(notes, &call, "acme/1");
    if (rc == KVT_OK) {
        rc = g4_upload_notes_list(notes, "", page, PAGE, &got);
        assert_true(rc != KVT_OK || (got > 0 && strcmp(page[got - 1].key, "acme/1") == 0));
        if (g4_upload_notes_drop(notes, call.id) != KVT_OK || end(&call) != KVT_OK)
            rc = KVT_NOMEM;
    }
    g4_upload_notes_close(notes);
    return rc == KVT_OK;
}

static void
memory_that_fails_is_told(void **state)
{
    char folder[256];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    assert_true(test_sweep_allocations(use, folder) > 3);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_are_what_was_written_and_not_taken_away),
        cmocka_unit_test(memory_that_fails_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
