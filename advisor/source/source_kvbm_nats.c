#include "advisor/source/source_private.h"
#include "base/core/clock.h"

/* KVBM's own events over NATS.  They have no numbers, so what was lost shows in nothing but the
 * connection: it came back, or there was no room.  Nobody can be asked for it either. */

enum { NAP_MS = 100 };

static void *
run(void *arg)
{
    struct advisor_source *source = arg;

    while (!atomic_load(&source->stopping)) {
        if (advisor_source_lost(source) && !advisor_source_tell_gap(source))
            break;
        kvt_clock_sleep_ms(NAP_MS);
    }
    return NULL;
}

static enum kvt_err
kvbm_open(struct advisor_source *source)
{
    enum kvt_err rc;

    if (source->options.subject[0] == '\0')
        source->options.subject = "kvbm.events";
    rc = advisor_source_open_core(source, NULL);
    return rc == KVT_OK ? advisor_source_start(source, run, source) : rc;
}

static void
kvbm_close(struct advisor_source *source)
{
    advisor_source_join(source);
    advisor_source_close_core(source);
}

const struct advisor_source_ops advisor_source_kvbm_nats = {
    .name = "kvbm-nats",
    .dialect = WIRE_DIALECT_KVBM,
    .open = kvbm_open,
    .close = kvbm_close,
};
