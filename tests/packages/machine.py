# SPDX-License-Identifier: Apache-2.0
"""A Debian machine with systemd in namespaces of its own, for packages to be installed on. Needs root, mmdebstrap and
systemd-nspawn."""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

from harness.waiting import Failed

BOOT_SECONDS = 120


class Machine:
    def __init__(self, directory, packages, suite="bookworm"):
        """`packages`: what is installed besides systemd."""
        self.root = directory / "root"
        self.log = directory / "machine.log"
        self.name = f"gputopo-{os.getpid()}"
        self.nspawn = self.leader = None
        made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=" + ",".join(["systemd-sysv", *packages]), suite,
                               self.root], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode != 0:
            raise Failed(f"mmdebstrap: {made.stdout[-500:]}")

    def start(self, *binds):
        command = ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network", "-D", self.root,
                   f"--machine={self.name}", *(f"--bind={bind}" for bind in binds)]
        with open(self.log, "wb") as log:
            self.nspawn = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.until("the machine has booted", lambda: self.find_leader() and self.systemctl("is-system-running") in (
            "running", "degraded"), BOOT_SECONDS)

    def find_leader(self):
        """The machine's first process, below nspawn's own."""
        if self.nspawn.poll() is not None:
            raise Failed(f"systemd-nspawn ended: {self.log.read_text(errors='replace')[-500:]}")
        found = [self.nspawn.pid]
        with contextlib.suppress(OSError):  # one ended meanwhile: the next try finds it
            for process in found:
                found += pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
                inside = pathlib.Path(f"/proc/{process}/status").read_text().split("NSpid:")[1].split("\n")[0].split()
                if inside[-1] == "1":
                    self.leader = process
                    break
        return self.leader

    def run(self, *command):
        return subprocess.run(["nsenter", f"--target={self.leader}", "--all", "--root", "--wd", "--", *map(str, command)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def ask(self, *command):
        done = self.run(*command)
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: {done.stdout[-800:]}")
        return done.stdout

    def systemctl(self, *arguments):
        return self.run("systemctl", *arguments).stdout.strip()

    def get(self, path):
        """(status, text) of the agent's HTTP server, from within the machine's network; None when nobody listens."""
        code = ("import sys, urllib.request, urllib.error\n"
                "try: answer = urllib.request.urlopen(sys.argv[1], timeout=5)\n"
                "except urllib.error.HTTPError as error: answer = error\n"
                "print(answer.status, answer.read().decode())")
        done = subprocess.run(["nsenter", f"--target={self.leader}", "--net", "--", "/usr/bin/python3", "-c", code,
                               f"http://127.0.0.1:9400{path}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def main_pid(self, unit):
        return self.systemctl("show", "--property=MainPID", "--value", unit)

    def until(self, what, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Failed(f"not after {seconds} s: {what}" + (f"; {self.ask('journalctl', '-n', '8', '--no-pager')}" if self.leader else ""))
            time.sleep(0.2)

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*gputopo*")}

    def stop(self):
        if self.leader and self.nspawn.poll() is None:
            os.kill(int(self.leader), signal.SIGKILL)  # with it goes everything in its namespace
        if self.nspawn:
            self.nspawn.wait(30)
            with contextlib.suppress(FileNotFoundError):
                (pathlib.Path("/run/systemd/nspawn/propagate") / self.name).rmdir()
        # cgroups stay behind, empty, beside those of this process: of systemd's hierarchy and of version 2
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for mount in {"name=systemd": ["systemd"], "": [".", "unified"]}.get(controllers, []):
                for name in ("payload", "supervisor"):
                    for folder, _, _ in os.walk(pathlib.Path("/sys/fs/cgroup", mount, path.strip("/"), name), topdown=False):
                        os.rmdir(folder)
