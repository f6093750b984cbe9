/* SPDX-License-Identifier: Apache-2.0 */
/* Holds a pod's namespaces: sleeps until a signal ends it. */
#include <signal.h>
#include <unistd.h>

static void end(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

int main(void)
{
    signal(SIGTERM, end);
    signal(SIGINT, end);
    for (;;)
        pause();
}
