/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/server.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
enum { NATIVE = (int)AUDIT_ARCH_X86_64, SYSCALLS_MAX = 0x40000000 }; /* above: the calls of x32 */
#elif defined(__aarch64__)
enum { NATIVE = (int)AUDIT_ARCH_AARCH64, SYSCALLS_MAX = 0x40000000 };
#else
enum { NATIVE = 0, SYSCALLS_MAX = 0 };
#endif

#define LOAD(field)                  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(test, value, then, other) BPF_JUMP(BPF_JMP | (test) | BPF_K, value, then, other)
#define ANSWER(what)                 BPF_STMT(BPF_RET | BPF_K, what)

/* Calls of another architecture have other numbers, and io_uring makes sockets without a call: there are
 * none. `then` and `other` are how many lines are left out. */
static struct sock_filter filter[] = {
    LOAD(arch),
    IF(BPF_JEQ, (unsigned)NATIVE, 0, 9),
    LOAD(nr),
    IF(BPF_JGE, SYSCALLS_MAX, 7, 0),
    IF(BPF_JEQ, SYS_io_uring_setup, 6, 0),
    IF(BPF_JEQ, SYS_socket, 1, 0),
    IF(BPF_JEQ, SYS_socketpair, 0, 3),
    LOAD(args[0]),
    IF(BPF_JEQ, AF_UNIX, 1, 0),
    ANSWER(SECCOMP_RET_ERRNO | EAFNOSUPPORT),
    ANSWER(SECCOMP_RET_ALLOW),
    ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
};

int gt_no_network(struct gt_err **err)
{
    const struct sock_fprog program = {GT_COUNT(filter), filter};
    if (!NATIVE)
        return gt_fail(err, ENOTSUP, "--no-network: not known on this processor");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        return gt_fail_sys(err, errno, "--no-network");
    return 0;
}
