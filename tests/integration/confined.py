#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with the system calls of a seccomp profile as containers have it: confined.py PROFILE PROGRAM [ARGUMENT...]"""
import ctypes
import json
import os
import platform
import re
import struct
import subprocess
import sys

LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of a filter's instructions
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[platform.machine()]
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2  # of prctl(2)


def numbers(names):
    """Those that this kind of processor has."""
    text = subprocess.run(["cc", "-E", "-dM", "-"], input="#include <sys/syscall.h>\n", stdout=subprocess.PIPE, text=True, check=True).stdout
    known = dict(re.findall(r"#define __NR_(\w+) (\d+)", text))
    return [int(known[name]) for name in names if name in known]


def program(profile):
    allowed = numbers([name for rule in profile["syscalls"] for name in rule["names"]])
    code = [(LOAD, 0, 0, 4), (IF_EQUAL, 1, 0, AUDIT_ARCH), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    code += [(IF_EQUAL, len(allowed) - i, 0, number) for i, number in enumerate(allowed)]
    code += [(RETURN, 0, 0, FAIL | profile["defaultErrnoRet"]), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *one) for one in code), len(code)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        code, count = program(json.load(file))
    buffer = ctypes.create_string_buffer(code)
    filters = struct.pack("@HP", count, ctypes.addressof(buffer))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in ((NO_NEW_PRIVS, 1, 0, 0, 0), (SECCOMP, FILTER, ctypes.c_char_p(filters), 0, 0)):
        if prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
