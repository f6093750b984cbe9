# SPDX-License-Identifier: Apache-2.0
"""A real cluster in namespaces of its own (../up): start, use, and an end that leaves nothing behind."""
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

from . import image
from .waiting import Failed, until

HERE = pathlib.Path(__file__).resolve().parent.parent
ENTER = """#!/bin/sh
# enter control|N COMMAND...   runs a command in the namespaces of the control plane or of node N
where=$1; shift
init=$(cat {state}/init.pid)
export KUBECONFIG={state}/admin.kubeconfig KUBECACHEDIR={state}/kubectl-cache PATH={path}
if [ "$where" = control ]; then
    exec nsenter --target "$init" --mount --net --pid --wd="$PWD" "$@"
fi
export CONTAINERD_ADDRESS={state}/node$where/run/containerd.sock CONTAINERD_NAMESPACE=k8s.io
exec nsenter --target "$init" --mount --pid nsenter --target "$(cat {state}/node$where/pid)" --mount --net \\
    --wd="$PWD" "$@"
"""


def programs_if_any(*modules):
    """The directories of the real programs, built where needed; None where that fails, which it then has said."""
    done = subprocess.run([HERE / "build", *modules], stdout=subprocess.PIPE, text=True)
    return done.stdout.split() if done.returncode == 0 else None


def programs(*modules):
    """The same, of programs without which nothing goes."""
    directories = programs_if_any(*modules)
    if directories is None:
        raise SystemExit(1)
    return directories


def built(*modules):
    """The same, for one case alone."""
    directories = programs_if_any(*modules)
    if directories is None:
        raise Failed(f"{' '.join(modules)} could not be built; the reason stands above")
    return directories


def children(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


class Cluster:
    def __init__(self, name, bins, nodes, **environment):
        """`nodes`: their number, or "alone" for one kubelet without a cluster. `bins`: directories for PATH.
        `environment`: of ../up."""
        self.name, self.nodes, self.environment = name, nodes, environment
        self.state = pathlib.Path(tempfile.mkdtemp(prefix=f"gputopo-{name}.", dir="/tmp"))
        self.path = ":".join([*bins, os.environ["PATH"], "/usr/local/sbin:/usr/sbin:/sbin"])
        self.holder = None  # the process that holds the namespaces
        self.init = None    # descriptor of the first process in them
        self.delegated = delegated()

    # beginning

    def start(self):
        self.state.chmod(0o755)
        image.make(self.state / "images")
        # the holder dies with this process, and everything inside with the holder
        self.holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL",
             "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation",
             "private", HERE / "up", self.state, str(self.nodes)],
            env={**os.environ, "PATH": self.path, **self.environment}, stdin=subprocess.DEVNULL,
            stdout=open(self.state / "up.log", "w"), stderr=subprocess.STDOUT, start_new_session=True)
        init = until("the namespaces", lambda: self.alive() and children(self.holder.pid), 30, 0.02)[0]
        self.init = os.pidfd_open(init)
        (self.state / "init.pid").write_text(f"{init}\n")
        self.script("enter", ENTER.format(state=self.state, path=self.path))
        until(f"the {self.name} cluster", lambda: self.alive() and (self.state / "ready").exists(), 240)
        return self

    def alive(self):
        if self.holder.poll() is not None:
            raise Failed(f"the {self.name} cluster ended: " + (self.state / "up.log").read_text().strip()[-500:])
        return True

    def script(self, name, text):
        path = self.state / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    # use

    def enter(self, where, *command, **more):
        """Starts a command in a node (its number) or the control plane ("control")."""
        return subprocess.Popen([self.state / "enter", str(where), *map(str, command)], **more)

    def ask(self, where, *command, data=None):
        """Runs such a command and returns its output."""
        done = subprocess.run([self.state / "enter", str(where), *map(str, command)], input=data, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def kubectl(self, *arguments, data=None):
        return self.ask("control", "kubectl", *arguments, data=None if data is None else json.dumps(data))

    def pid(self, node, container):
        """Of a container's process, inside the PID namespace. `container`: as a pod's status has it."""
        wanted = container.split("//")[1]
        for line in self.ask(node, "ctr", "tasks", "list").splitlines():
            if line.split()[0] == wanted:
                return line.split()[1]
        raise Failed(f"containerd knows no task {wanted}")

    def get(self, *what):
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def kubelet_dir(self, node=1):
        return self.state / f"node{node}" / "kubelet"

    def kubelet_pid(self, node=1):
        """Its number inside the PID namespace."""
        return int((self.state / f"node{node}" / "kubelet.pid").read_text() or 0)

    def kill_kubelet(self, node=1, how="KILL"):
        """Ends the kubelet of one node and waits until the next one has taken its place."""
        before = self.kubelet_pid(node)
        self.ask("control", "kill", f"-{how}", before)
        until("the next kubelet", lambda: self.kubelet_pid(node) not in (0, before), 60, 0.05)

    @contextlib.contextmanager
    def without_kubelet(self, node):
        """Kills it; it comes back at the end, whatever happens in between. Its containers go on."""
        hold, before = self.state / f"node{node}" / "kubelet.hold", self.kubelet_pid(node)
        hold.touch()
        try:
            self.ask("control", "kill", "-KILL", before)
            until("the kubelet to be gone", lambda: self.kubelet_pid(node) == 0, 60, 0.05)
            yield
        finally:
            hold.unlink()
            until("the kubelet to be back", lambda: self.kubelet_pid(node) not in (0, before), 60)

    # end

    def containers(self):
        return [path.name for path in
                self.state.glob("node*/run/containerd/io.containerd.runtime.v2.task/k8s.io/*")]

    def logs(self):
        """Those of our own programs, as processes or in pods, then the kubelet's and what `up` has said."""
        own = sorted(self.state.glob("log/agent*")) + sorted(self.state.glob("node*/logs/gputopo-system_*/*/*.log"))
        return [*own, self.state / "log" / "kubelet1", self.state / "up.log"]

    def stop(self, keep_logs=False):
        """Ends everything, whatever state it is in. Returns the directory of the logs where they are kept."""
        containers = self.containers()
        if self.holder is not None:
            if self.holder.poll() is None and self.init is None:  # hardly begun
                for child in children(self.holder.pid):
                    self.init = os.pidfd_open(child)
            if self.holder.poll() is None:
                self.holder.kill()
            self.holder.wait()
        if self.init is not None:  # readable when that process and with it all others have ended
            select.select([self.init], [], [], 60)
            os.close(self.init)
            self.init = None
        remove_cgroups(containers)
        undelegate(self.delegated)
        return self.remove(keep_logs)

    def remove(self, keep_logs):
        if not self.state.exists():
            return None
        mounts = [line for line in open("/proc/self/mountinfo") if f" {self.state}/" in line]
        if mounts:  # private namespaces have ended: this cannot be, and removing would reach what is mounted
            raise Failed(f"still mounted: {mounts[0].strip()}")
        if not keep_logs:
            shutil.rmtree(self.state)
            return None
        for logs in self.state.glob("node*/logs"):  # of pods
            if (self.state / "log").is_dir():
                logs.rename(self.state / "log" / f"pods-{logs.parent.name}")
        for entry in self.state.iterdir():
            if entry.name == "up.log":
                entry.rename(self.state / "log" / "up" if (self.state / "log").is_dir() else entry)
            elif entry.name != "log":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        return self.state / "log" if (self.state / "log").is_dir() else self.state


# Beside hierarchies of version 1, as systemd mounts it
UNIFIED = pathlib.Path("/sys/fs/cgroup/unified")


def delegated():
    path = UNIFIED / "cgroup.subtree_control"
    return set(path.read_text().split()) if path.exists() else set()


def undelegate(before):
    """runc with cgroup v2 delegates what controllers there are. Where another cluster uses them they stay."""
    for name in delegated() - before:
        for directory in (UNIFIED / "k8s.io", UNIFIED):
            with contextlib.suppress(OSError):
                (directory / "cgroup.subtree_control").write_text(f"-{name}")


def remove_cgroups(containers):
    """The empty cgroup directories that killed containers leave in every hierarchy, and k8s.io if it is empty."""
    for parent in [*pathlib.Path("/sys/fs/cgroup").glob("*/k8s.io"), pathlib.Path("/sys/fs/cgroup/k8s.io")]:
        for container in containers:
            for directory, _, _ in os.walk(parent / container, topdown=False):
                remove_cgroup(directory)
        remove_cgroup(parent, tries=1)


def remove_cgroup(directory, tries=50):
    for _ in range(tries):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_on_signals():
    """SIGTERM and SIGHUP end the program as Ctrl-C does: through its `finally` blocks."""
    def stop(number, _):
        raise KeyboardInterrupt(signal.Signals(number).name)
    for number in STOPPING:
        signal.signal(number, stop)


@contextlib.contextmanager
def deaf_to_signals():
    """During teardown: a second Ctrl-C must not stop it half way. It counts when that is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
