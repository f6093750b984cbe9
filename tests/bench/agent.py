#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The agent as a process: discovery, memory, idle CPU, the socket.   agent.py BIN_DIR; measures as in loss.sh"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TESTS, "integration"))
import kubelet_double  # noqa: E402

IDLE_SECONDS = 60
LOOKS_SECONDS = 20
MACHINE = os.path.join(TESTS, "machines", "c500-8.json")


def measure(name, value, unit, goal="-"):
    print(f"{name}\t{value:.3f}\t{unit}\t{goal}", flush=True)


def memory(pid):
    """(resident, anonymous) in MiB."""
    found = {}
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            key, _, value = line.partition(":")
            if key in ("VmRSS", "RssAnon"):
                found[key] = int(value.split()[0]) / 1024
    return found["VmRSS"], found["RssAnon"]


def cpu_seconds(pid):
    """All threads, from the scheduler's nanoseconds: finer than the ticks of /proc/PID/stat."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as stat:
            total += int(stat.read().split()[0])
    return total / 1e9


class Agent:
    def __init__(self, binaries, directory, *options, stream):
        self.kubelet = kubelet_double.KubeletDouble(os.path.join(directory, "kubelet"))
        self.kubelet.book.serves = stream  # else gRPC would be begun to ask it
        self.kubelet.start()
        self.log = open(os.path.join(directory, "agent.log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [os.path.join(binaries, "gputopo-agent"), "--kubelet-dir", os.path.join(directory, "kubelet"), *options],
            stderr=self.log)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.kubelet.stop()
        self.log.close()


def settled_memory(pid):
    time.sleep(2)
    return memory(pid)


def run_agent(binaries, *options, stream, then=None):
    """Memory of an agent started with these options, once it has settled."""
    directory = tempfile.mkdtemp(prefix="gputopo-bench-")
    agent = Agent(binaries, directory, *options, stream=stream)
    try:
        if stream and not agent.kubelet.wait_healthy(8, 20):
            raise SystemExit("agent.py: the agent did not register")
        figures = settled_memory(agent.process.pid)
        if then:
            then(agent)
        return figures
    finally:
        agent.end()
        shutil.rmtree(directory, ignore_errors=True)


def idle(agent):
    before = cpu_seconds(agent.process.pid)
    time.sleep(IDLE_SECONDS)
    used = cpu_seconds(agent.process.pid) - before
    measure(f"idle CPU over {IDLE_SECONDS} s, of one core", 100 * used / IDLE_SECONDS, "%", "<0.1")


def looks(binaries, work, root, dev):
    """What a look at the health of the GPUs costs, with the fake vendor library: agent, probe and its worker."""
    library = os.path.join(binaries, "../tests/fake-mxsml/libmxsml.so")
    scenario = os.path.join(work, "scenario.json")
    os.makedirs(os.path.join(root, "opt/mxdriver/lib"))
    shutil.copy(library, os.path.join(root, "opt/mxdriver/lib/libmxsml.so"))
    os.environ["GPUTOPO_FAKE_MXSML"] = scenario

    def family(pid):
        found = [pid]
        for parent in found:
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as file:
                    found += [int(child) for child in file.read().split()]
        return found

    def per_look(agent):
        everyone = family(agent.process.pid)
        before = [cpu_seconds(pid) for pid in everyone]
        time.sleep(LOOKS_SECONDS)
        used = [cpu_seconds(pid) - was for pid, was in zip(everyone, before)]
        measure(f"a look at the health of 8 GPUs, CPU of the agent (of {LOOKS_SECONDS}, one a second)", 1000 * used[0] / LOOKS_SECONDS,
                "ms", "<10")
        measure("  of the probe and its worker", 1000 * sum(used[1:]) / LOOKS_SECONDS, "ms", "<20")
        measure("  every 5 s, of one core", 100 * sum(used) / LOOKS_SECONDS / 5, "%", "<0.5")

    run_agent(binaries, "--root", root, "--dev-root", dev, "--node-name", "bench", "--http", "none", "--probe",
              os.path.join(binaries, "gputopo-probe"), "--health-interval", "1", stream=True, then=per_look)


def main():
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "bench_plugin")):
        sys.stderr.write("usage: agent.py DIRECTORY-OF-THE-PROGRAMS (a release build)\n")
        sys.exit(2)
    binaries = os.path.abspath(sys.argv[1])
    work = tempfile.mkdtemp(prefix="gputopo-bench-")
    try:
        print("# Discovery of an 8-GPU node")
        subprocess.run([os.path.join(TESTS, "machines", "make-machine"),
                        os.path.join(TESTS, "machines", "specs", "c500-8.json"), work], check=True)
        root = os.path.join(work, "root")
        gpus, milliseconds = subprocess.run([os.path.join(binaries, "bench_discovery"), root], check=True,
                                            capture_output=True, text=True).stdout.split()
        if gpus != "8":
            raise SystemExit(f"agent.py: discovery found {gpus} GPUs")
        measure("scan of a recorded sysfs root, median", float(milliseconds), "ms", "<50")

        sys.stdout.flush()
        subprocess.run([os.path.join(binaries, "bench_plugin"), "handler"], check=True)

        print("# The agent, one stream open, everything on")
        dev = os.path.join(work, "dev")
        os.makedirs(os.path.join(dev, "dri"))
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(os.path.join(dev, name), "w", encoding="ascii"):
                pass
        # As on a node: sysfs is scanned again and again. The vendor library's answers need the probe, which is a
        # process of its own and not counted.
        live = ["--root", root, "--dev-root", dev, "--probe", "none", "--node-name", "bench"]

        def over_socket(agent):
            ids = [name for name in agent.kubelet.order]
            subprocess.run([os.path.join(binaries, "bench_plugin"), "socket", agent.kubelet.plugin_socket(), *ids],
                           check=True)

        def both(agent):
            idle(agent)
            over_socket(agent)

        resident, anonymous = run_agent(binaries, *live, "--http", "127.0.0.1:0", stream=True, then=both)
        measure("agent, resident", resident, "MiB", "<12")
        measure("agent, anonymous", anonymous, "MiB", "<2")
        looks(binaries, work, root, dev)
        no_http = run_agent(binaries, *live, "--http", "none", stream=True)
        no_plugin = run_agent(binaries, *live, "--http", "none", "--no-device-plugin", stream=False)
        measure("  part of HTTP, resident", resident - no_http[0], "MiB")
        measure("  part of HTTP, anonymous", anonymous - no_http[1], "MiB")
        measure("  part of the device plugin (gRPC), resident", no_http[0] - no_plugin[0], "MiB")
        measure("  part of the device plugin (gRPC), anonymous", no_http[1] - no_plugin[1], "MiB")
        measure("  the rest (program, libraries, one scan), resident", no_plugin[0], "MiB")
        measure("  the rest (program, libraries, one scan), anonymous", no_plugin[1], "MiB")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
