#include "policy/ordering/hazard.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/ordering/wait_counts.h"

enum { KINDS = POLICY_HAZARD_KINDS, AGES = POLICY_HAZARD_AGES };

/* What all kinds together show counts as so many blocks of each.  It decides where a kind has
 * hardly been; anything from 5 to 300 does about as well on all workloads there are. */
#define SHRINK 50.0

/* An index is told in quarters of an octave: what differs by less is as good, and then age decides,
 * as it does for lru.  To follow every small difference costs prefixes where kinds are alike. */
#define STEPS 4

#define MAGIC UINT64_C(0x3164727a6168766b) /* "kvhazrd1" */

struct table {
    double cells[KINDS][AGES];
};

struct policy_hazard {
    struct policy_wait_counts waits;
    struct table ended;    /* waits, by the age they ended at */
    struct table ended_in; /* of them, ticks spent at that age */
    struct table lived; /* ticks that all waits, ended or not, had lived through at the refresh */
    struct table fresh; /* uses since the refresh */
    struct table uses;  /* faded */
    struct table exposure; /* ticks lived through, faded as well */
    struct table index;
    struct table rate;                 /* uses a tick */
    double cumulated[KINDS][AGES + 1]; /* of the rate, up to the beginning of an age */
    uint64_t refreshed;                /* tick */
    bool resting;                      /* until the next refresh */
    uint32_t ages;                     /* that anything ever reached */
};

/* ---- ages ---- */

static uint32_t
clip(uint64_t ticks)
{
    return ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
}

static uint32_t
age_of(uint32_t ticks)
{
    uint32_t octave;

    if (ticks < 4)
        return ticks;
    octave = 31 - (uint32_t)__builtin_clz(ticks);
    return 4 * (octave - 1) + ((ticks >> (octave - 2)) & 3);
}

static uint64_t
age_begin(uint32_t age)
{
    return age < 4 ? age : (uint64_t)(4 + age % 4) << (age / 4 - 1);
}

static double
age_width(uint32_t age)
{
    return (double)(age_begin(age + 1) - age_begin(age));
}

/* ---- what happened ---- */

void
policy_hazard_wait(struct policy_hazard *hazard, uint32_t kind, uint64_t tick)
{
    policy_wait_counts_add(&hazard->waits, kind, tick, 1);
}

void
policy_hazard_end(struct policy_hazard *hazard, uint32_t kind, uint64_t since, uint64_t now,
                  bool used)
{
    const uint32_t ticks = (uint32_t)(now - since);
    const uint32_t age = age_of(ticks);

    policy_wait_counts_remove(&hazard->waits, kind, since);
    hazard->ended.cells[kind][age] += 1;
    hazard->ended_in.cells[kind][age] += (double)(ticks - age_begin(age) + 1);
    if (used)
        hazard->fresh.cells[kind][age] += 1;
}

/* ---- the table ---- */

/* Every wait, ended or not, lived through all ages below the one it reached, and part of that. */
static void
expose(const struct policy_hazard *hazard, uint64_t now, struct table *all)
{
    struct table reached = hazard->ended;

    *all = hazard->ended_in;
    for (uint32_t i = 0; i < hazard->waits.count; i++) {
        const uint32_t ticks = clip(policy_wait_counts_age(&hazard->waits, i, now));
        const uint32_t age = age_of(ticks);

        for (uint32_t kind = 0; kind < KINDS; kind++) {
            const double waiting = hazard->waits.slots[i].waiting[kind];

            reached.cells[kind][age] += waiting;
            all->cells[kind][age] += waiting * (double)(ticks - age_begin(age) + 1);
        }
    }
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        double beyond = 0;

        for (uint32_t age = AGES; age-- > 0;) {
            all->cells[kind][age] += beyond * age_width(age);
            beyond += reached.cells[kind][age];
        }
    }
}

static void
learn(struct policy_hazard *hazard, uint64_t now)
{
    const double elapsed = (double)(now - hazard->refreshed);
    const double kept = exp2(-elapsed / POLICY_HAZARD_HALF_TICKS);
    struct table all;

    expose(hazard, now, &all);
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t age = 0; age < AGES; age++) {
            const double flow = all.cells[kind][age] - hazard->lived.cells[kind][age];
            double *exposure = &hazard->exposure.cells[kind][age];
            double *uses = &hazard->uses.cells[kind][age];

            *exposure = *exposure * kept + (flow > 0 ? flow : 0);
            *uses = *uses * kept + hazard->fresh.cells[kind][age];
            if (*exposure > 0 && age >= hazard->ages)
                hazard->ages = age + 1;
        }
    }
    hazard->lived = all;
    hazard->fresh = (struct table){0};
    hazard->refreshed = now;
}

/*
 * Of kinds that differ in their number of uses alone, more uses cannot mean a lower rate: a parent
 * is read whenever its child is.  Where the counts say otherwise it is chance, and following it
 * would take parents out from under their children; such kinds share one rate (isotonic regression
 * by pooling neighbours).
 */
static void
level(struct policy_hazard *hazard, uint32_t age, uint32_t first)
{
    const double shrink = SHRINK * age_width(age);
    double rates[POLICY_HAZARD_COUNTS];
    double weights[POLICY_HAZARD_COUNTS];
    uint32_t sizes[POLICY_HAZARD_COUNTS];
    uint32_t count = 0;

    for (uint32_t i = 0; i < POLICY_HAZARD_COUNTS; i++) {
        rates[count] = hazard->rate.cells[first + i][age];
        weights[count] = hazard->exposure.cells[first + i][age] + shrink;
        sizes[count] = 1;
        for (count++; count > 1 && rates[count - 2] > rates[count - 1]; count--) {
            const double weight = weights[count - 2] + weights[count - 1];

            rates[count - 2] =
                (rates[count - 2] * weights[count - 2] + rates[count - 1] * weights[count - 1]) /
                weight;
            weights[count - 2] = weight;
            sizes[count - 2] += sizes[count - 1];
        }
    }
    for (uint32_t run = 0, i = first; run < count; run++)
        for (uint32_t k = 0; k < sizes[run]; k++)
            hazard->rate.cells[i++][age] = rates[run];
}

static void
rate(struct policy_hazard *hazard)
{
    double pooled = 0; /* of all kinds */

    for (uint32_t age = 0; age < hazard->ages; age++) {
        const double width = age_width(age);
        double uses = 0;
        double exposure = 0;

        for (uint32_t kind = 0; kind < KINDS; kind++) {
            uses += hazard->uses.cells[kind][age];
            exposure += hazard->exposure.cells[kind][age];
        }
        /* Where hardly anybody has been, the rate falls as one over the age. */
        if (age > 1)
            pooled *= (double)age_begin(age - 1) / (double)age_begin(age);
        pooled = (uses + SHRINK * width * pooled) / (exposure + SHRINK * width);
        for (uint32_t kind = 0; kind < KINDS; kind++) {
            const double r = (hazard->uses.cells[kind][age] + SHRINK * width * pooled) /
                             (hazard->exposure.cells[kind][age] + SHRINK * width);

            hazard->rate.cells[kind][age] = r;
        }
        for (uint32_t first = 0; first < KINDS; first += POLICY_HAZARD_COUNTS)
            level(hazard, age, first);
        for (uint32_t kind = 0; kind < KINDS; kind++)
            hazard->cumulated[kind][age + 1] =
                hazard->cumulated[kind][age] + hazard->rate.cells[kind][age] * width;
    }
}

static void
index_kind(struct policy_hazard *hazard, uint32_t kind)
{
    double ends[AGES];  /* of those that reach the age, the share used at it */
    double lasts[AGES]; /* and how long they wait at it */

    for (uint32_t age = 0; age < hazard->ages; age++) {
        const double r = hazard->rate.cells[kind][age];
        const double width = age_width(age);

        ends[age] = -expm1(-r * width);
        lasts[age] = r > 0 ? ends[age] / r : width;
    }
    for (uint32_t from = 0; from < hazard->ages; from++) {
        double left = 1;
        double used = 0;
        double held = 0;
        double best = 0;

        for (uint32_t age = from; age < hazard->ages; age++) {
            used += left * ends[age];
            held += left * lasts[age];
            left *= 1 - ends[age];
            if (used > best * held)
                best = used / held;
        }
        hazard->index.cells[kind][from] = best > 0 ? exp2(floor(log2(best) * STEPS) / STEPS) : 0;
    }
}

static void
conclude(struct policy_hazard *hazard)
{
    rate(hazard);
    for (uint32_t kind = 0; kind < KINDS; kind++)
        index_kind(hazard, kind);
}

/* Who knows little learns most from the next few requests. */
static uint64_t
refresh_ticks(const struct policy_hazard *hazard)
{
    const uint64_t ticks = POLICY_HAZARD_FIRST_TICKS + hazard->refreshed / 16;

    return ticks < POLICY_HAZARD_REFRESH_TICKS ? ticks : POLICY_HAZARD_REFRESH_TICKS;
}

void
policy_hazard_rest(struct policy_hazard *hazard)
{
    hazard->resting = true;
}

/* Who waits by now begins to live. */
static void
wake(struct policy_hazard *hazard, uint64_t now)
{
    expose(hazard, now, &hazard->lived);
    hazard->fresh = (struct table){0};
    hazard->refreshed = now;
    hazard->resting = false;
}

void
policy_hazard_refresh(struct policy_hazard *hazard, uint64_t now)
{
    if (hazard->resting) {
        wake(hazard, now);
        return;
    }
    if (now < hazard->refreshed + refresh_ticks(hazard))
        return;
    learn(hazard, now);
    conclude(hazard);
}

/* ---- questions ---- */

double
policy_hazard_index(const struct policy_hazard *hazard, uint32_t kind, uint32_t age)
{
    uint32_t at = age_of(age);

    if (hazard->ages == 0)
        return 0;
    if (at >= hazard->ages)
        at = hazard->ages - 1;
    return hazard->index.cells[kind][at];
}

static double
cumulated_at(const struct policy_hazard *hazard, uint32_t kind, uint64_t ticks)
{
    const uint32_t age = age_of(clip(ticks));

    if (age >= hazard->ages)
        return hazard->cumulated[kind][hazard->ages];
    return hazard->cumulated[kind][age] +
           hazard->rate.cells[kind][age] * (double)(ticks - age_begin(age));
}

double
policy_hazard_chance(const struct policy_hazard *hazard, uint32_t kind, uint32_t age,
                     uint64_t window)
{
    const uint64_t end = window > UINT32_MAX ? UINT32_MAX : age + window;

    return -expm1(cumulated_at(hazard, kind, age) - cumulated_at(hazard, kind, end));
}

/* ---- from one life to the next ---- */

struct image {
    uint64_t magic; /* also says how this machine writes numbers */
    struct table uses;
    struct table exposure;
};

size_t
policy_hazard_save(const struct policy_hazard *hazard, void *bytes, size_t room)
{
    const uint64_t magic = MAGIC;
    uint8_t *to = bytes;

    if (room < sizeof(struct image))
        return sizeof(struct image);
    memcpy(to + offsetof(struct image, magic), &magic, sizeof(magic));
    memcpy(to + offsetof(struct image, uses), &hazard->uses, sizeof(hazard->uses));
    memcpy(to + offsetof(struct image, exposure), &hazard->exposure, sizeof(hazard->exposure));
    return sizeof(struct image);
}

static bool
is_sound(const struct table *table)
{
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t age = 0; age < AGES; age++)
            if (!isfinite(table->cells[kind][age]) || table->cells[kind][age] < 0)
                return false;
    return true;
}

enum kvt_err
policy_hazard_load(struct policy_hazard *hazard, const void *bytes, size_t size)
{
    struct image *image;
    bool sound;

    if (size != sizeof(*image))
        return KVT_CORRUPT;
    image = kvt_calloc(1, sizeof(*image));
    if (image == NULL)
        return KVT_NOMEM;
    memcpy(image, bytes, sizeof(*image));
    sound = image->magic == MAGIC && is_sound(&image->uses) && is_sound(&image->exposure);
    if (sound) {
        hazard->uses = image->uses;
        hazard->exposure = image->exposure;
        for (uint32_t age = 0; age < AGES; age++)
            for (uint32_t kind = 0; kind < KINDS; kind++)
                if (hazard->exposure.cells[kind][age] > 0)
                    hazard->ages = age + 1;
        conclude(hazard);
        policy_hazard_rest(hazard);
    }
    kvt_free(image);
    return sound ? KVT_OK : KVT_CORRUPT;
}

/* ---- life ---- */

enum kvt_err
policy_hazard_new(struct policy_hazard **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

void
policy_hazard_free(struct policy_hazard *hazard)
{
    kvt_free(hazard);
}

size_t
policy_hazard_memory(void)
{
    return sizeof(struct policy_hazard);
}
