# SPDX-License-Identifier: Apache-2.0
"""Stops one thread of a process within a system call, as a disk or a driver that hangs would; the others go on.

With ptrace, so that it needs no fault built into the program. The caller's own child may always be stopped, but for what a
seccomp profile forbids: `possible()`.
"""

import ctypes
import os
import platform
import signal
import threading

SEIZE, INTERRUPT, SYSCALL, SYSCALL_INFO, DETACH = 0x4206, 0x4207, 24, 0x420E, 17
TRACE_SYSGOOD, TRACE_EXIT_KILL = 1, 1 << 20
WALL = 0x40000000
# newfstatat, statx, openat, faccessat2, readlinkat: what a handler does to files, and gRPC never
CALLS = {"x86_64": {262, 332, 257, 439, 267}, "aarch64": {79, 291, 56, 439, 78}}.get(platform.machine(), set())

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, thread, address=0, data=0):
    result = libc.ptrace(request, thread, address, data)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")
    return result


def thread_named(pid, name):
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as file:
            if file.read().strip() == name:
                return int(thread)
    return None


def possible():
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        ptrace(SEIZE, child)
        return bool(CALLS)
    except OSError:
        return False
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, WALL)


class StoppedThread:
    """Of the threads' one caller, which must stay the same thread until release()."""

    def __init__(self, pid, name):
        self.thread = thread_named(pid, name)
        ptrace(SEIZE, self.thread, 0, TRACE_SYSGOOD)
        ptrace(INTERRUPT, self.thread)
        os.waitpid(self.thread, WALL)

    def at_a_file(self):
        """Lets it run until it begins a call about a file, and leaves it there."""
        info = ctypes.create_string_buffer(96)
        while True:
            ptrace(SYSCALL, self.thread)
            _, status = os.waitpid(self.thread, WALL)
            if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
                continue
            ptrace(SYSCALL_INFO, self.thread, len(info), ctypes.addressof(info))
            if info.raw[0] == 1 and int.from_bytes(info.raw[24:32], "little") in CALLS:  # on its way in
                return

    def bury(self):
        """Its process shall end: that is complete only when the tracer has seen the end of the thread."""
        threading.Thread(target=os.waitpid, args=(self.thread, WALL), daemon=True).start()

    def release(self):
        try:
            ptrace(DETACH, self.thread)
        except OSError:
            pass  # it has ended with its process
