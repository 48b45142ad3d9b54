#include "cli/frame/exit.h"

enum cli_exit
cli_exit_of(enum kvt_err code)
{
    switch (code) {
    case KVT_OK: return CLI_EXIT_DONE;
    case KVT_INVALID: return CLI_EXIT_USAGE;
    case KVT_NOTFOUND: return CLI_EXIT_NOTFOUND;
    case KVT_AGAIN:
    case KVT_TIMEOUT:
    case KVT_UNAVAILABLE:
    case KVT_BUSY: return CLI_EXIT_TEMPORARY;
    case KVT_EXISTS:
    case KVT_PRECONDITION: return CLI_EXIT_PRECONDITION;
    case KVT_FULL: return CLI_EXIT_LIMIT;
    case KVT_CORRUPT: return CLI_EXIT_INTEGRITY;
    case KVT_IO:
    case KVT_NOMEM:
    case KVT_RANGE:
    case KVT_DENIED:
    case KVT_UNSUPPORTED:
    case KVT_CANCELLED:
    case KVT_ERR_COUNT: break;
    }
    return CLI_EXIT_FAILED;
}
