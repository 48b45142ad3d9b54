#include "tests/support/silent.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "tests/support/seed.h"

int
test_silent_open(char url[TEST_SILENT_URL])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(url, TEST_SILENT_URL, "http://127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    return fd;
}
