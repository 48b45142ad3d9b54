#include "base/core/conditions.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void
kvt_conditions_init(struct kvt_conditions *conditions)
{
    conditions->count = 0;
    (void)pthread_mutex_init(&conditions->lock, NULL);
}

void
kvt_conditions_release(struct kvt_conditions *conditions)
{
    (void)pthread_mutex_destroy(&conditions->lock);
}

static bool
is_over(const struct kvt_condition *row, uint64_t now_ms)
{
    return now_ms >= row->last_ms && now_ms - row->last_ms >= KVT_CONDITION_QUIET_MS;
}

static void
drop(struct kvt_conditions *conditions, size_t at)
{
    conditions->rows[at] = conditions->rows[--conditions->count];
}

static void
drop_over(struct kvt_conditions *conditions, uint64_t now_ms)
{
    for (size_t i = conditions->count; i-- > 0;)
        if (is_over(&conditions->rows[i], now_ms))
            drop(conditions, i);
}

/* Its row, made on first use; the last one where there is no room. */
static struct kvt_condition *
row_of(struct kvt_conditions *conditions, const char *name, uint64_t now_ms)
{
    struct kvt_condition *row;

    for (size_t i = 0; i < conditions->count; i++)
        if (strcmp(conditions->rows[i].name, name) == 0)
            return &conditions->rows[i];
    drop_over(conditions, now_ms);
    if (conditions->count == KVT_CONDITIONS_MAX)
        return &conditions->rows[KVT_CONDITIONS_MAX - 1];
    row = &conditions->rows[conditions->count++];
    *row = (struct kvt_condition){.since_ms = now_ms, .last_ms = now_ms};
    (void)snprintf(row->name, sizeof(row->name), "%s", name);
    return row;
}

__attribute__((format(printf, 5, 0))) static void
happen(struct kvt_conditions *conditions, const char *name, bool minor, uint64_t now_ms,
       const char *format, va_list args)
{
    struct kvt_condition *row;

    if (conditions == NULL)
        return;
    (void)pthread_mutex_lock(&conditions->lock);
    row = row_of(conditions, name, now_ms);
    if (is_over(row, now_ms)) {
        row->since_ms = now_ms;
        row->count = 0;
    }
    (void)vsnprintf(row->text, sizeof(row->text), format, args);
    for (char *at = row->text; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = ' ';
    row->minor = minor;
    row->last_ms = now_ms;
    row->count++;
    (void)pthread_mutex_unlock(&conditions->lock);
}

void
kvt_conditions_raise(struct kvt_conditions *conditions, const char *name, uint64_t now_ms,
                     const char *format, ...)
{
    va_list args;

    va_start(args, format);
    happen(conditions, name, false, now_ms, format, args);
    va_end(args);
}

void
kvt_conditions_note(struct kvt_conditions *conditions, const char *name, uint64_t now_ms,
                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    happen(conditions, name, true, now_ms, format, args);
    va_end(args);
}

size_t
kvt_conditions_list(struct kvt_conditions *conditions, uint64_t now_ms, struct kvt_condition *rows)
{
    size_t count;

    (void)pthread_mutex_lock(&conditions->lock);
    drop_over(conditions, now_ms);
    count = conditions->count;
    memcpy(rows, conditions->rows, count * sizeof(*rows));
    (void)pthread_mutex_unlock(&conditions->lock);
    return count;
}

size_t
kvt_conditions_count(struct kvt_conditions *conditions, uint64_t now_ms)
{
    size_t count;

    if (conditions == NULL)
        return 0;
    (void)pthread_mutex_lock(&conditions->lock);
    drop_over(conditions, now_ms);
    count = conditions->count;
    (void)pthread_mutex_unlock(&conditions->lock);
    return count;
}
