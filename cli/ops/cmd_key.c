#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/file.h"
#include "base/core/random.h"
#include "base/text/hex.h"
#include "cli/frame/context.h"
#include "cli/frame/options.h"
#include "cli/ops/ops_commands.h"
#include "wire/message/key_ring.h"

enum { MASTER_SIZE = 32, KEY_FILE_MODE = 0600 };

/* To a new file that only its owner reads, or to standard output. */
static enum cli_exit
give(const struct cli_context *context, const char *path, const char *text)
{
    struct kvt_error err = {0};
    enum kvt_err rc;

    if (path[0] == '\0') {
        (void)fputs(text, context->raw);
        return CLI_EXIT_DONE;
    }
    if (access(path, F_OK) == 0)
        rc = kvt_error_set(&err, KVT_EXISTS, "%s is there already: a key file is never overwritten",
                           path);
    else
        rc = kvt_file_write(path, text, strlen(text), KEY_FILE_MODE, &err);
    return rc == KVT_OK ? CLI_EXIT_DONE : cli_context_fail(context, &err);
}

enum cli_exit
cli_key_new(const struct cli_context *context)
{
    uint8_t key[MASTER_SIZE];
    char text[2 * MASTER_SIZE + 2];
    enum cli_exit exit_status;

    kvt_random_system(key, sizeof(key));
    kvt_hex_format(key, sizeof(key), text);
    text[sizeof(text) - 2] = '\n';
    text[sizeof(text) - 1] = '\0';
    exit_status = give(context, kvt_config_string(context->options, CLI_KEY_NEW_OUT), text);
    OPENSSL_cleanse(key, sizeof(key));
    OPENSSL_cleanse(text, sizeof(text));
    return exit_status;
}

/* Each line of the master's file becomes one, in the same order. */
static enum kvt_err
derive(const struct wire_key_ring *ring, const char *name, struct kvt_buffer *out,
       struct kvt_error *err)
{
    for (size_t i = 0; i < ring->count; i++) {
        char line[WIRE_KEY_LINE_MAX];
        enum kvt_err rc;

        if (ring->lines[i].master.size == 0)
            return kvt_error_set(err, KVT_INVALID,
                                 "line %zu has keys of %s, and no others come from them: name the "
                                 "file of the master",
                                 i + 1, ring->lines[i].name);
        rc = wire_key_line_format(&ring->lines[i], name, line, sizeof(line));
        if (rc != KVT_OK)
            return kvt_error_set(err, rc, "\"%s\": want a name of 1 to %d bytes", name,
                                 KVT_NAME_MAX - 1);
        kvt_buffer_printf(out, "%s\n", line);
        explicit_bzero(line, sizeof(line));
    }
    return KVT_OK;
}

enum cli_exit
cli_key_derive(const struct cli_context *context)
{
    const char *gateway = kvt_config_string(context->options, CLI_KEY_DERIVE_GATEWAY);
    struct kvt_error err = {0};
    struct wire_key_ring ring;
    struct kvt_buffer out;
    enum cli_exit exit_status;
    char *text = NULL;
    size_t size = 0;
    enum kvt_err rc;

    kvt_buffer_init(&out, WIRE_KEY_FILE_MAX);
    if (gateway[0] == '\0')
        rc = kvt_error_set(&err, KVT_INVALID,
                           "want --gateway NAME: whose orders.key_file it will be");
    else
        rc = kvt_file_read(&text, &size, context->arguments[0], WIRE_KEY_FILE_MAX - 1, &err);
    if (rc == KVT_OK)
        rc = wire_key_ring_parse(&ring, text, context->arguments[0], &err);
    if (rc == KVT_OK) {
        rc = derive(&ring, gateway, &out, &err);
        wire_key_ring_wipe(&ring);
    }
    exit_status = rc == KVT_OK
                      ? give(context, kvt_config_string(context->options, CLI_KEY_DERIVE_OUT),
                             kvt_buffer_text(&out))
                      : cli_context_fail(context, &err);
    if (text != NULL)
        OPENSSL_cleanse(text, size);
    kvt_free(text);
    OPENSSL_cleanse(out.data, out.size);
    kvt_buffer_release(&out);
    return exit_status;
}
