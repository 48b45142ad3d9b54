#include "gateway/admin/reload.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "gateway/admin/gateway_settings.h"

struct gateway_reload {
    struct gateway_reload_options options;

    struct {
        pthread_mutex_t lock;                                  /* guards this struct; a leaf */
        char failed[GATEWAY_RELOAD_PARTS][KVT_ERROR_TEXT_MAX]; /* ""s: what is there is in force */
    } shared;
};

static const char *const names[GATEWAY_RELOAD_PARTS] = {
    [GATEWAY_RELOAD_CREDENTIALS] = "credentials stay as they were",
    [GATEWAY_RELOAD_CERTIFICATE] = "the certificate stays as it was",
};

/* The port serves with a certificate that clients refuse: they should hear it from us too. */
static bool
is_invalid(struct kvt_tls *tls, uint64_t now_ms, char text[KVT_ERROR_TEXT_MAX])
{
    char when[KVT_CLOCK_TEXT_MAX];
    uint64_t from_ms;
    uint64_t to_ms;

    text[0] = '\0';
    if (tls == NULL)
        return false;
    kvt_tls_validity(tls, &from_ms, &to_ms);
    if (now_ms >= from_ms && now_ms < to_ms)
        return false;
    kvt_clock_format(now_ms < from_ms ? from_ms : to_ms, when);
    (void)snprintf(text, KVT_ERROR_TEXT_MAX,
                   "the certificate of the S3 port is valid %s %s: clients that check it go away",
                   now_ms < from_ms ? "only from" : "no longer, since", when);
    return true;
}

static void
look_at_certificate(struct gateway_reload *reload)
{
    char text[KVT_ERROR_TEXT_MAX];
    uint64_t from_ms;
    uint64_t to_ms = 0;

    if (reload->options.tls != NULL)
        kvt_tls_validity(reload->options.tls, &from_ms, &to_ms);
    gateway_stats_set(reload->options.stats, GATEWAY_STAT_CERTIFICATE_END, to_ms / 1000);
    if (is_invalid(reload->options.tls, kvt_clock_unix_ms(), text))
        kvt_log_warn("gateway", "certificate_invalid", "%s", text);
}

enum kvt_err
gateway_reload_new(struct gateway_reload **out, const struct gateway_reload_options *options)
{
    struct gateway_reload *reload = kvt_calloc(1, sizeof(*reload));

    *out = NULL;
    if (reload == NULL || pthread_mutex_init(&reload->shared.lock, NULL) != 0) {
        kvt_free(reload);
        return KVT_NOMEM;
    }
    reload->options = *options;
    look_at_certificate(reload);
    *out = reload;
    return KVT_OK;
}

void
gateway_reload_free(struct gateway_reload *reload)
{
    if (reload == NULL)
        return;
    (void)pthread_mutex_destroy(&reload->shared.lock);
    kvt_free(reload);
}

/* What came of reading it. */
static void
note(struct gateway_reload *reload, enum gateway_reload_part part, enum kvt_err rc,
     const struct kvt_error *err)
{
    struct kvt_error said = {.text = ""};

    if (rc != KVT_OK) {
        (void)kvt_error_set(&said, rc, "%s: %s", names[part], err->text);
        kvt_log_error("gateway", "reload_failed", "%s", said.text);
    }
    (void)pthread_mutex_lock(&reload->shared.lock);
    memcpy(reload->shared.failed[part], said.text, sizeof(said.text));
    (void)pthread_mutex_unlock(&reload->shared.lock);
}

static void
read_credentials(struct gateway_reload *reload)
{
    struct gateway_client_credentials *credentials;
    struct kvt_error err;
    const enum kvt_err rc =
        gateway_settings_credentials(&credentials, reload->options.config, &err);

    if (rc == KVT_OK) {
        kvt_log_info("gateway", "reloaded", "%zu credentials",
                     gateway_client_credentials_count(credentials));
        gateway_auth_replace(reload->options.auth, credentials);
    }
    note(reload, GATEWAY_RELOAD_CREDENTIALS, rc, &err);
}

static void
read_certificate(struct gateway_reload *reload)
{
    struct kvt_error err;
    enum kvt_err rc;

    if (reload->options.tls == NULL)
        return;
    rc = gateway_settings_certificate(reload->options.tls, reload->options.config, &err);
    if (rc == KVT_OK)
        kvt_log_info("gateway", "reloaded", "the S3 port's certificate");
    look_at_certificate(reload);
    note(reload, GATEWAY_RELOAD_CERTIFICATE, rc, &err);
}

void
gateway_reload_run(struct gateway_reload *reload)
{
    read_credentials(reload);
    read_certificate(reload);
}

bool
gateway_reload_reason(struct gateway_reload *reload, enum gateway_reload_part part, uint64_t now_ms,
                      char text[KVT_ERROR_TEXT_MAX])
{
    (void)pthread_mutex_lock(&reload->shared.lock);
    memcpy(text, reload->shared.failed[part], KVT_ERROR_TEXT_MAX);
    (void)pthread_mutex_unlock(&reload->shared.lock);
    if (text[0] == '\0' && part == GATEWAY_RELOAD_CERTIFICATE)
        return is_invalid(reload->options.tls, now_ms, text);
    return text[0] != '\0';
}
