/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what a container got: a line for every file below /dev and for every environment variable, then
 * sleeps.
 *
 *   dev dri/card1 char 1:101
 *   env NAME=value
 *   end
 */
#define _GNU_SOURCE
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

extern char **environ;

static void end(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

static int show(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *name = path + sizeof("/dev");
    if (ftw->level == 0)
        return 0;
    if (type == FTW_NS)
        printf("dev %s unreadable\n", name);
    else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        printf("dev %s %s %u:%u\n", name, S_ISCHR(st->st_mode) ? "char" : "block", major(st->st_rdev),
               minor(st->st_rdev));
    else
        printf("dev %s other\n", name);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGTERM, end);
    signal(SIGINT, end);
    if (nftw("/dev", show, 16, FTW_PHYS) != 0)
        perror("/dev");
    for (char **variable = environ; *variable; variable++)
        printf("env %s\n", *variable);
    puts("end");
    fflush(stdout);
    (void)argv;
    if (argc > 1) /* an argument: nothing more is to be done */
        return 0;
    for (;;)
        pause();
}
