#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The agent as a driver of Dynamic Resource Allocation.   dra.py BIN_DIR [PEER]; measures as in loss.sh

A real API server has the claims. This program is the kubelet: it prepares and unprepares claims of 1, 2, 4 and 8 devices, one
after the other, by our agent and by the peer in turns. The peer is the driver of Kubernetes' own tests, on the helper library
of drivers in Go. It writes one CDI file a claim, without device nodes, keeps nothing on disk besides, and publishes no use.
CDI files lie in memory, as below /var/run; what else is kept, on disk."""
import concurrent.futures
import glob
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from agent import cpu_seconds, measure, settled_memory
from companion_api import NODES, Api, RealServer, node
from daemon_driver import wait_for
from dra_kubelet import DraKubelet, pb
from kubelet_double import KubeletDouble

HERE = os.path.dirname(os.path.abspath(__file__))
MACHINE = os.path.join(os.path.dirname(HERE), "machines", "c500-8.json")
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SIZES, ROUNDS, WARM_UP, AT_ONCE = (1, 2, 4, 8), 400, 20, 8


def percentile(times, percent):
    return 1000 * statistics.quantiles(times, n=100)[percent - 1]


class Driver:
    """One of the two, and the kubelet's directory of its own."""

    def __init__(self, name, driver, folder, api):
        self.name, self.driver, self.api = name, driver, api
        self.directory = os.path.join(folder, name)
        self.cdi = tempfile.mkdtemp(prefix="gputopo-bench-", dir="/dev/shm")
        for part in (f"plugins/{driver}", "plugins_registry", "dev/dri"):
            os.makedirs(os.path.join(self.directory, part))
        self.uids, self.prepares, self.again, self.unprepares, self.at_once = {}, [], [], [], []
        self.process = self.kubelet = None
        self.connection = api.connect()
        api.ask("POST", NODES, node(name))

    def start(self, arguments, socket):
        """The registration's socket, and the one of claims, which may be the same."""
        with open(os.path.join(self.directory, "log"), "wb") as log:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        registration = os.path.join(self.directory, "plugins_registry", f"{self.driver}*-reg.sock")
        if wait_for(lambda: glob.glob(registration)):
            DraKubelet(glob.glob(registration)[0]).register()
        if not wait_for(self.offered):
            with open(log.name, encoding="utf-8") as text:
                raise SystemExit(f"dra.py: {self.name} does not offer its devices: {text.read()[-1000:]}")
        self.kubelet = DraKubelet(socket or glob.glob(registration)[0], self.uids)

    def slices(self):
        return [one for one in self.api.ask("GET", SLICES)["items"] if one["spec"]["nodeName"] == self.name]

    def offered(self):
        return [device["name"] for one in self.slices() for device in one["spec"]["devices"]]

    def allocate(self, sizes):
        """Claims of so many devices, the first ones of the node, as a scheduler would leave them; their names."""
        devices, names = sorted(self.offered()), [f"{self.name}-{len(self.uids) + i}" for i in range(len(sizes))]
        for name, taken in zip(names, sizes):
            made = self.api.ask("POST", CLAIMS, {
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
                "spec": {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "any", "count": len(taken)}}]}}}, self.connection)
            results = [{"request": "gpus", "driver": self.driver, "pool": self.name, "device": devices[i]} for i in taken]
            self.api.ask("PATCH", f"{CLAIMS}/{name}/status", {"status": {"allocation": {"devices": {"results": results}}}},
                         self.connection, kind="application/merge-patch+json")
            self.uids[name] = made["metadata"]["uid"]
        return names

    def timed(self, call, name, times, count):
        began = time.monotonic()
        said = call(name)
        times.append(time.monotonic() - began)
        if count is not None and (said[name][1] or len(said[name][0]) != count):
            raise SystemExit(f"dra.py: {self.name} prepared {said}")

    def round(self, name, count):
        self.timed(self.kubelet.prepare, name, self.prepares, count)
        self.timed(self.kubelet.prepare, name, self.again, count)
        self.timed(self.kubelet.unprepare, name, self.unprepares, None)

    def many(self, names, pool):
        """Claims of all pods of a full node at once."""
        began = time.monotonic()
        for name, said in zip(names, pool.map(self.kubelet.prepare, names)):
            if said[name][1] or len(said[name][0]) != 1:
                raise SystemExit(f"dra.py: {self.name} prepared {said}")
        self.at_once.append(time.monotonic() - began)
        self.kubelet.unprepare(*names)

    def close(self):
        self.connection.close()
        shutil.rmtree(self.cdi, ignore_errors=True)
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def ours(binaries, folder, api):
    made = Driver("ours", "gpu.metax-tech.com", folder, api)
    for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
        with open(os.path.join(made.directory, "dev", name), "w", encoding="ascii"):
            pass
    made.start([os.path.join(binaries, "gputopo-agent"), "--kubelet-dir", made.directory, "--node-name", "ours", "--from", MACHINE,
                "--dev-root", f"{made.directory}/dev", "--cdi-dir", made.cdi, "--advertise=dra", "--http", "127.0.0.1:0",
                "--kubeconfig", api.kubeconfig], None)
    return made


def peer(program, folder, api):
    made = Driver("peer", "test-driver.cdi.k8s.io", folder, api)
    made.start([program, "kubelet-plugin", "--kubeconfig", api.kubeconfig, "--kube-api-qps", "100000", "--kube-api-burst", "100000",
                "--plugin-registration-path", f"{made.directory}/plugins_registry", "--datadir", f"{made.directory}/plugins",
                "--cdi-dir", made.cdi, "--node-name", "peer", "--num-devices", "8"],
               f"{made.directory}/plugins/{made.driver}/dra.sock")
    return made


def nothing_ms(kubelet):
    """What a call costs that does nothing: gRPC here and there, and this program."""
    times = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        kubelet.call("/pluginregistration.Registration/GetInfo", pb.Empty(), pb.PluginInfo)
        times.append(time.monotonic() - began)
    return percentile(times, 50)


def synced_write_ms(driver):
    """What a file costs that is as it was or as it shall be after a power failure."""
    path, times = os.path.join(driver.directory, "file"), []
    for _ in range(ROUNDS):
        began = time.monotonic()
        with open(path + ".new", "wb") as file:
            file.write(b"x" * 1000)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".new", path)
        directory = os.open(driver.directory, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)
        times.append(time.monotonic() - began)
    return percentile(times, 50)


def compare(drivers):
    counts = [SIZES[i % len(SIZES)] for i in range(WARM_UP + ROUNDS)]
    claims = [driver.allocate([range(count) for count in counts]) for driver in drivers]
    single = [driver.allocate([[i] for i in range(AT_ONCE)]) for driver in drivers]
    for i in range(WARM_UP):
        for driver, names in zip(drivers, claims):
            driver.round(names[i], counts[i])
    for driver in drivers:
        driver.prepares, driver.again, driver.unprepares = [], [], []
    used = [0.0 for _ in drivers]
    for i in range(WARM_UP, len(counts)):
        for number in range(len(drivers))[::-1 if i % 2 else 1]:
            before = cpu_seconds(drivers[number].process.pid)
            drivers[number].round(claims[number][i], counts[i])
            used[number] += cpu_seconds(drivers[number].process.pid) - before
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(30):
            for driver, names in zip(drivers, single):
                driver.many(names, pool)
    return [1000 * seconds / ROUNDS for seconds in used]


def figures(driver):
    return {"prepare, p50": percentile(driver.prepares, 50), "prepare, p99": percentile(driver.prepares, 99),
            "prepare again, p50": percentile(driver.again, 50),
            "unprepare, p50": percentile(driver.unprepares, 50), "unprepare, p99": percentile(driver.unprepares, 99),
            f"{AT_ONCE} prepares at once, until the last, p50": 1000 * statistics.median(driver.at_once)}


def slice_bytes(driver):
    """What is written of the slice; a claim changes the order of its devices."""
    [made] = driver.slices()
    return len(json.dumps(made["spec"], separators=(",", ":")))


def generation(driver):
    return driver.slices()[0]["metadata"]["generation"]


def main():
    if len(sys.argv) not in (2, 3):
        sys.stderr.write("usage: dra.py DIRECTORY-OF-THE-PROGRAMS [PEER]\n")
        sys.exit(2)
    print("# The agent as a DRA driver, 8 GPUs; claims from a real API server")
    if not RealServer.is_there():
        print("skipped\tetcd, kube-apiserver and kubectl are not there: ./dev e2e builds them")
        return
    binaries, folder, drivers = os.path.abspath(sys.argv[1]), tempfile.mkdtemp(prefix="gputopo-bench-"), []
    api = kubelet = None
    try:
        os.makedirs(os.path.join(folder, "api"))
        api = Api(os.path.join(folder, "api"))
        api.install()
        kubelet = KubeletDouble(os.path.join(folder, "ours"))  # whom the agent asks who uses what
        kubelet.book.empty_for = 0
        kubelet.start()
        drivers.append(ours(binaries, folder, api))
        if len(sys.argv) == 3:
            drivers.append(peer(os.path.abspath(sys.argv[2]), folder, api))
        written = generation(drivers[0])
        cpu = compare(drivers)
        written = generation(drivers[0]) - written
        measure("a call that does nothing, p50", nothing_ms(drivers[0].kubelet), "ms")
        synced = synced_write_ms(drivers[0])
        measure("a file that is written and synced, p50", synced, "ms")
        said = [figures(driver) for driver in drivers]
        memory = [settled_memory(driver.process.pid) for driver in drivers]
        for name, value in said[0].items():
            measure(name, value, "ms")
        measure("CPU of prepare, prepare again and unprepare, with all that is published", cpu[0], "ms")
        measure("slice, as it is written", slice_bytes(drivers[0]), "B")
        measure(f"  times that it was, for {len(drivers[0].uids)} claims", written, "")
        measure("resident", memory[0][0], "MiB", "<20")
        measure("  anonymous", memory[0][1], "MiB")
        if len(drivers) == 1:
            print("skipped\tno peer: there is no Go")
            return
        print("# The driver of Kubernetes' own tests 1.37.2, the same claims")
        for name, value in said[1].items():
            measure(name, value, "ms")
            measure("  peer / ours", value / said[0][name], "x")
        bound = said[1]["prepare, p50"] + synced
        measure("  our prepare / the peer's and a synced file, p50", said[0]["prepare, p50"] / bound, "x", "<1.5")
        measure("CPU of prepare, prepare again and unprepare", cpu[1], "ms")
        measure("  peer / ours", cpu[1] / cpu[0], "x")
        measure("resident", memory[1][0], "MiB")
        measure("  peer / ours", memory[1][0] / memory[0][0], "x")
    finally:
        for driver in drivers:
            driver.close()
        if kubelet:
            kubelet.stop(leave_socket=False)
        if api:
            api.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
