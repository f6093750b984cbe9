# SPDX-License-Identifier: Apache-2.0
"""What a cluster needs beside the Go toolchain, said in one line each."""
import os
import shutil
import sys

DEBIAN = {"etcd": "etcd-server", "runc": "runc", "ip": "iproute2", "openssl": "openssl", "cc": "gcc libc6-dev",
          "nft": "nftables", "nsenter": "util-linux", "setpriv": "util-linux"}


BUILT = ("bin/gputopo", "bin/gputopo-agent", "bin/gputopo-probe", "bin/gputopo-scheduler", "tests/fake-mxsml/libmxsml.so")


def check(build, *more):
    """`more`: other files that have to be there."""
    if os.geteuid() != 0:
        sys.exit("tests/e2e needs root: it starts containers in namespaces of its own")
    for needed in (*(build / name for name in BUILT), *more):
        if not needed.exists():
            sys.exit(f"tests/e2e needs {needed}")
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    missing = {package for program, package in DEBIAN.items() if not shutil.which(program, path=path)}
    if not os.path.exists("/usr/lib/cni/bridge"):
        missing.add("containernetworking-plugins")
    if missing:
        sys.exit("tests/e2e needs the Debian packages " + " ".join(sorted(missing)))
