# SPDX-License-Identifier: Apache-2.0
"""GPUs by the Container Device Interface, on the node of cases_cluster: a real containerd reads the agent's spec."""
import json
import pathlib
import shutil
import sys

from harness.report import quick
from harness.waiting import Failed, same, until

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cdi_checker

KIND = "metax-tech.com/gpu"


class CdiCases:
    def __init__(self, report, cases):
        self.report, self.cases, self.cluster, self.node = report, cases, cases.cluster, cases.node
        self.directory = self.cluster.state / "node1" / "cdi"  # of containerd's configuration
        self.spec = self.directory / "metax-tech.com-gpu.json"

    # steps

    def start(self, strategy):
        self.node.agent.start(f"--device-strategy={strategy}", f"--cdi-dir={self.directory}")
        self.node.registered()
        self.cases.wait_counts(8, 8)

    def stop(self):
        self.node.agent.stop()

    def runtime_spec(self, pod):
        """What containerd told runc to make."""
        container = self.cases.pod(pod)["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        return json.loads((self.cluster.state / "node1/run/containerd/io.containerd.runtime.v2.task/k8s.io" / container
                           / "config.json").read_text())

    def check(self, pod):
        """The container has exactly the device nodes of its GPUs, and each of them once. Returns their indices."""
        got = self.node.check_container(pod)
        paths = [device["path"] for device in self.runtime_spec(pod)["linux"]["devices"]]
        want = {"/dev/" + name for name in self.node.machine.expected_nodes(got)}
        same(sorted(path for path in paths if path in want), sorted(want), f"device nodes of {pod} for runc, each once")
        return got

    def devices(self):
        return cdi_checker.read(self.spec.read_text())[2]

    def restart_container(self, pod):
        """Ends the container's process; returns its status when another runs or waits for a reason."""
        before = self.cases.pod(pod)["status"]["containerStatuses"][0]
        self.cluster.ask(1, "ctr", "task", "kill", "-s", "KILL", before["containerID"].removeprefix("containerd://"))

        def other():
            now = self.cases.pod(pod)["status"]["containerStatuses"][0]
            waiting = now["state"].get("waiting", {})
            ended = waiting.get("reason") == "CreateContainerError"
            return ended or now["restartCount"] > before["restartCount"] and now["state"].get("running") and now["ready"] and now
        return until(f"the next container of {pod}", other, 180)

    # cases, in order

    @quick
    def names(self):
        self.start("cdi")
        kind, _, devices = cdi_checker.read(self.spec.read_text())
        same((kind, len(devices)), (KIND, 8), "kind and devices of the spec")
        self.cases.create("by-name", 2)
        self.cases.wait_running("by-name")
        got = self.check("by-name")
        same(len(got), 2, "GPUs of the pod")
        return f"GPUs {got}"

    def restarted_elsewhere(self):
        """The kernel numbers the DRM nodes of a GPU in use again, and its container is restarted while no agent runs."""
        machine, ids = self.node.machine, self.node.used()["by-name", "c0"]
        gpu = machine.gpus[ids[0]]
        for name in machine.nodes_of(gpu):
            (machine.dev / name).unlink()
            del machine.numbers[name]
        gpu["drm"] = machine.whole["gpus"][ids[0]]["drm"] = {"card": 77, "render": 205}
        for name in machine.nodes_of(gpu):
            machine.make_node(name)
        self.node.agent.rescan()
        until("the spec to follow", lambda: "/dev/dri/card77" in str(self.devices()))
        self.stop()
        cdi_checker.read(self.spec.read_text())  # it stays
        self.restart_container("by-name")
        same(self.check("by-name"), ids, "GPUs of the restarted container")
        return "at card77, while no agent ran"

    def missing(self):
        """Removed while no agent runs: a restarted container waits with its GPUs, until the agent is there again."""
        self.spec.unlink()
        same(self.restart_container("by-name"), True, "CreateContainerError")
        waiting = self.cases.pod("by-name")["status"]["containerStatuses"][0]["state"]["waiting"]
        if "unresolvable CDI devices" not in waiting["message"]:
            raise Failed(f"the container waits for another reason: {waiting}")
        self.start("cdi")
        self.cases.wait_running("by-name")
        self.check("by-name")
        self.spec.unlink()
        until("the agent to write it again", self.spec.exists)
        return waiting["message"][-80:]

    @quick
    def unwritable(self):
        shutil.rmtree(self.directory)
        self.directory.write_text("")
        self.cases.wait_counts(8, 0)
        self.directory.unlink()
        self.cases.wait_counts(8, 8)
        self.cases.create("afterwards", 4)
        self.cases.wait_running("afterwards")
        self.check("afterwards")
        self.cases.delete_all()

    def both(self):
        self.stop()
        self.start("both")
        self.cases.create("by-both", 2)
        self.cases.wait_running("by-both")
        got = self.check("by-both")
        same(len(got), 2, "GPUs of the pod")
        return f"GPUs {got}"

    def lost(self):
        self.node.machine.lost.add(self.lost_gpu())
        self.node.agent.rescan()
        until("seven devices in the spec", lambda: len(self.devices()) == 7)
        self.cases.wait_counts(8, 7)
        self.node.machine.lost.clear()
        self.node.agent.rescan()
        until("eight devices in the spec", lambda: len(self.devices()) == 8)
        self.cases.wait_counts(8, 8)

    def lost_gpu(self):
        return sorted(self.node.free())[-1]

    def left_over(self):
        """With `devices` again the spec stays for the pod that got names, and goes when nobody has a GPU."""
        self.stop()
        self.node.agent.start(f"--cdi-dir={self.directory}")
        self.node.registered()
        self.restart_container("by-both")
        self.check("by-both")
        same(self.spec.exists(), True, "the spec, while a container has GPUs")
        self.cases.delete_all()
        until("the spec to be removed", lambda: not self.spec.exists(), 60)
        self.stop()

    def run(self):
        case = self.report.case
        if not case("--device-strategy cdi: a pod of 2 sees exactly its device nodes, each once", self.names):
            return
        if case("  its container is restarted after the kernel has numbered a GPU again, without an agent", self.restarted_elsewhere):
            case("  without spec and agent it waits with its GPUs, and runs when the agent is back", self.missing)
        case("  the spec cannot be written: allocatable 0, and 8 when it can", self.unwritable)
        if case("--device-strategy both: likewise, each once", self.both):
            case("  a GPU is lost: it leaves the spec, and returns", self.lost)
            case("  back to devices: the spec stays while a pod needs it, and goes", self.left_over)
