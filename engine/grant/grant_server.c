/* Who asks for grants, and is answered. */
#include "engine/grant/grant_internal.h"

enum { SLOW_THREADS = 2 }; /* copying and summing takes a while, and so may making room */

static void
answer(struct engine_rpc_call *call, enum kvt_err rc, struct kvt_buffer *bytes)
{
    if (rc == KVT_OK && !kvt_buffer_ok(bytes))
        rc = KVT_NOMEM;
    engine_rpc_answer(call, rc, bytes->data, rc == KVT_OK ? bytes->size : 0);
    kvt_buffer_release(bytes);
}

static void
take_about(void *arg, struct engine_rpc_call *call)
{
    const struct engine_grants *grants = arg;
    uint8_t description[ENGINE_FABRIC_DESCRIPTION_MAX];
    struct engine_grant_about about = {.nonce = engine_blockset_nonce(grants->options.set),
                                       .places = grants->options.places,
                                       .description = description};
    struct kvt_buffer bytes;
    size_t size;
    const uint8_t *question = engine_rpc_call_bytes(call, &size);
    const enum kvt_err rc = engine_grant_read_version(question, size);

    kvt_buffer_init(&bytes, ENGINE_GRANT_WIRE_MAX);
    engine_region_describe(grants->landing, description, &about.size);
    engine_grant_write_about(&bytes, &about);
    answer(call, rc, &bytes);
}

static void
take_acquire(void *arg, struct engine_rpc_call *call)
{
    struct engine_grants *grants = arg;
    struct engine_grant_wish wish;
    struct engine_grant_given given;
    struct kvt_buffer bytes;
    size_t size;
    const uint8_t *question = engine_rpc_call_bytes(call, &size);
    enum kvt_err rc = engine_grant_read_wish(&wish, question, size);

    kvt_buffer_init(&bytes, ENGINE_GRANT_WIRE_MAX);
    if (rc == KVT_OK)
        rc = engine_grants_give(grants, engine_rpc_call_link(call), &wish, &given);
    if (rc == KVT_OK)
        engine_grant_write_given(&bytes, &given);
    answer(call, rc, &bytes);
}

static void
take_commit(void *arg, struct engine_rpc_call *call)
{
    struct engine_grants *grants = arg;
    struct engine_grant_result results[ENGINE_GRANT_BLOCKS_MAX];
    struct engine_grant_end end;
    struct kvt_buffer bytes;
    size_t size;
    const uint8_t *question = engine_rpc_call_bytes(call, &size);
    enum kvt_err rc = engine_grant_read_end(&end, question, size);

    kvt_buffer_init(&bytes, ENGINE_GRANT_WIRE_MAX);
    if (rc == KVT_OK)
        rc = engine_grants_end(grants, engine_rpc_call_link(call), &end, results);
    if (rc == KVT_OK)
        engine_grant_write_results(&bytes, results, end.count);
    answer(call, rc, &bytes);
}

/* A grant that is given while its link ends is found by its deadline. */
static void
link_gone(void *arg, uint64_t link)
{
    engine_grants_lose(arg, link);
}

enum kvt_err
engine_grants_serve(struct engine_grants *grants, struct kvt_error *err)
{
    static const struct engine_rpc_method methods[] = {
        {ENGINE_GRANT_ABOUT, "about", take_about, false},
        {ENGINE_GRANT_ACQUIRE, "acquire", take_acquire, true},
        {ENGINE_GRANT_COMMIT, "commit", take_commit, true},
    };

    return engine_rpc_server_open(&grants->rpc,
                                  &(struct engine_rpc_server_options){
                                      .endpoint = grants->options.endpoint,
                                      .methods = methods,
                                      .method_count = sizeof(methods) / sizeof(methods[0]),
                                      .arg = grants,
                                      .gone = link_gone,
                                      .threads = SLOW_THREADS,
                                  },
                                  err);
}

const char *
engine_grants_endpoint(const struct engine_grants *grants)
{
    return engine_rpc_server_endpoint(grants->rpc);
}
