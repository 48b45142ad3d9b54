#include "cli/cli_app.h"

int
main(int argc, char **argv)
{
    return (int)cli_app_run(argc, (const char *const *)argv);
}
