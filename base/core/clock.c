#include "base/core/clock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FRACTION_MAX = 9 };

#define LAST_MS UINT64_C(253402300799999) /* of the year 9999 */

/* Not strftime()'s: those follow the locale. */
static const char days_from_1970[] = "ThuFriSatSunMonTueWed";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static uint64_t
read_ns(clockid_t clock)
{
    struct timespec now;
    const int rc = clock_gettime(clock, &now);

    assert(rc == 0); /* both clocks always exist on Linux */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
kvt_clock_mono_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t
kvt_clock_mono_ms(void)
{
    return read_ns(CLOCK_MONOTONIC) / 1000000u;
}

uint64_t
kvt_clock_unix_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000u;
}

uint64_t
kvt_clock_unix_coarse_ms(void)
{
    return read_ns(CLOCK_REALTIME_COARSE) / 1000000u;
}

void
kvt_clock_sleep_ms(uint64_t wait_ms)
{
    const struct timespec wait = {
        .tv_sec = (time_t)(wait_ms / 1000),
        .tv_nsec = (long)(wait_ms % 1000) * 1000000,
    };

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, NULL);
}

/* Its decimal digits, with zeros in front. */
static void
put_number(char *at, unsigned digits, unsigned number)
{
    for (; digits > 0; number /= 10)
        at[--digits] = (char)('0' + number % 10);
}

void
kvt_clock_format(uint64_t unix_ms, char text[KVT_CLOCK_TEXT_MAX])
{
    const time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;

    /* A year that does not fit an int comes from a broken peer, not from a clock. */
    if (gmtime_r(&seconds, &parts) == NULL || parts.tm_year > 9999 - 1900) {
        (void)snprintf(text, KVT_CLOCK_TEXT_MAX, "9999-12-31T23:59:59.999Z");
        return;
    }
    memcpy(text, "0000-00-00T00:00:00.000Z", sizeof("0000-00-00T00:00:00.000Z"));
    put_number(text, 4, (unsigned)(parts.tm_year + 1900));
    put_number(text + 5, 2, (unsigned)(parts.tm_mon + 1));
    put_number(text + 8, 2, (unsigned)parts.tm_mday);
    put_number(text + 11, 2, (unsigned)parts.tm_hour);
    put_number(text + 14, 2, (unsigned)parts.tm_min);
    put_number(text + 17, 2, (unsigned)parts.tm_sec);
    put_number(text + 20, 3, (unsigned)(unix_ms % 1000));
}

void
kvt_clock_format_basic(uint64_t unix_ms, char text[KVT_CLOCK_BASIC_MAX])
{
    char full[KVT_CLOCK_TEXT_MAX];
    size_t size = 0;

    kvt_clock_format(unix_ms, full);
    for (const char *c = full; *c != '.'; c++)
        if (*c != '-' && *c != ':')
            text[size++] = *c;
    assert(size == KVT_CLOCK_BASIC_MAX - 2);
    text[size++] = 'Z';
    text[size] = '\0';
}

void
kvt_clock_format_http(uint64_t unix_ms, char text[KVT_CLOCK_HTTP_MAX])
{
    char full[KVT_CLOCK_TEXT_MAX];
    unsigned month;

    if (unix_ms > LAST_MS)
        unix_ms = LAST_MS;
    kvt_clock_format(unix_ms, full);
    month = (unsigned)(full[5] - '0') * 10 + (unsigned)(full[6] - '0');
    (void)snprintf(text, KVT_CLOCK_HTTP_MAX, "%.3s, %.2s %.3s %.4s %.8s GMT",
                   days_from_1970 + 3 * (unix_ms / 86400000 % 7), full + 8,
                   months + 3 * (size_t)(month - 1), full, full + 11);
}

/* Exactly `digits` decimal digits; false otherwise. */
static bool
take_number(const char **at, unsigned digits, unsigned *number)
{
    *number = 0;
    for (unsigned i = 0; i < digits; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *number = *number * 10 + (unsigned)(**at - '0');
    }
    return true;
}

static bool
take_char(const char **at, const char *allowed)
{
    if (**at == '\0' || strchr(allowed, **at) == NULL)
        return false;
    (*at)++;
    return true;
}

static unsigned
days_in(unsigned year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && leap ? 29 : days[month - 1];
}

/* Days from 1970-01-01 to a day of the Gregorian calendar from that year on. */
static uint64_t
days_since_1970(unsigned year, unsigned month, unsigned day)
{
    const unsigned before = year - 1;
    uint64_t days = (uint64_t)before * 365 + before / 4 - before / 100 + before / 400;

    for (unsigned i = 1; i < month; i++)
        days += days_in(year, i);
    return days + day - 1 - 719162; /* days from year 1 to 1970 */
}

static bool
take_date(const char **at, uint64_t *days)
{
    unsigned year;
    unsigned month;
    unsigned day;

    if (!take_number(at, 4, &year) || !take_char(at, "-") || !take_number(at, 2, &month) ||
        !take_char(at, "-") || !take_number(at, 2, &day))
        return false;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in(year, month))
        return false;
    *days = days_since_1970(year, month, day);
    return true;
}

/* Hours, minutes, seconds (60 in a leap second) and the digits behind, cut to milliseconds. */
static bool
take_clock(const char **at, uint64_t *ms)
{
    unsigned hour;
    unsigned minute;
    unsigned second;
    unsigned scale = 100;

    if (!take_number(at, 2, &hour) || !take_char(at, ":") || !take_number(at, 2, &minute) ||
        !take_char(at, ":") || !take_number(at, 2, &second) || hour > 23 || minute > 59 ||
        second > 60)
        return false;
    *ms = ((uint64_t)hour * 3600 + minute * 60 + second) * 1000;
    if (!take_char(at, "."))
        return true;
    for (unsigned i = 0; i < FRACTION_MAX && **at >= '0' && **at <= '9'; i++, (*at)++) {
        *ms += (uint64_t)(**at - '0') * scale;
        scale /= 10;
    }
    return (*at)[-1] != '.';
}

/* "Z" or "+02:00"; how far east of Greenwich, in minutes. */
static bool
take_zone(const char **at, int *minutes)
{
    const bool west = **at == '-';
    unsigned hour;
    unsigned minute;

    *minutes = 0;
    if (take_char(at, "Zz"))
        return true;
    if (!take_char(at, "+-") || !take_number(at, 2, &hour) || !take_char(at, ":") ||
        !take_number(at, 2, &minute) || hour > 23 || minute > 59)
        return false;
    *minutes = (int)(hour * 60 + minute) * (west ? -1 : 1);
    return true;
}

bool
kvt_clock_parse(const char *text, uint64_t *unix_ms)
{
    uint64_t days;
    uint64_t ms;
    int64_t moment;
    int minutes;

    *unix_ms = 0;
    if (!take_date(&text, &days) || !take_char(&text, "Tt ") || !take_clock(&text, &ms) ||
        !take_zone(&text, &minutes) || *text != '\0')
        return false;
    moment = (int64_t)(days * 86400000 + ms) - (int64_t)minutes * 60000;
    if (moment < 0)
        return false;
    *unix_ms = (uint64_t)moment;
    return true;
}

bool
kvt_clock_parse_basic(const char *text, uint64_t *unix_ms)
{
    char full[KVT_CLOCK_TEXT_MAX];

    *unix_ms = 0;
    if (strlen(text) != KVT_CLOCK_BASIC_MAX - 1 || text[8] != 'T' || text[15] != 'Z')
        return false;
    (void)snprintf(full, sizeof(full), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", text, text + 4, text + 6,
                   text + 9, text + 11, text + 13);
    return kvt_clock_parse(full, unix_ms);
}

bool
kvt_clock_parse_http(const char *text, uint64_t *unix_ms)
{
    char full[KVT_CLOCK_TEXT_MAX];
    const char *found;
    char month[4];
    char day[3];
    char year[5];
    char time[9];
    int used = 0;

    *unix_ms = 0;
    if (sscanf(text, "%*3s, %2s %3s %4s %8s GMT%n", day, month, year, time, &used) != 4 ||
        used == 0 || strlen(month) != 3)
        return false;
    found = strstr(months, month);
    if (found == NULL || (found - months) % 3 != 0)
        return false;
    (void)snprintf(full, sizeof(full), "%s-%02u-%s%sT%sZ", year, (unsigned)(found - months) / 3 + 1,
                   strlen(day) == 1 ? "0" : "", day, time);
    return kvt_clock_parse(full, unix_ms);
}
