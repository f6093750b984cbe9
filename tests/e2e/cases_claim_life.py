# SPDX-License-Identifier: Apache-2.0
"""Claims over time: pods that share one come and go, the kubelet loses what it knew of them, a node boots, and a disk is full."""
import contextlib
import pathlib
import shutil
import signal

from harness import reboot
from harness.claims import DRIVER, claim, claiming
from harness.waiting import same, until

TURNS, EACH = 40, 5  # so many pods come while so many others go
FORGOTTEN_S = 300
STATE = pathlib.Path("/var/lib/kubelet/plugins") / DRIVER  # in the node
FILL = 'head -c 1M /dev/zero >"$1/filler" 2>/dev/null || :'


class ClaimLifeCases:
    def __init__(self, dra):
        self.dra, self.cluster, self.report = dra, dra.cluster, dra.report

    def shared(self):
        """The last pods but one of a claim go while the next ones come: the survivor keeps its GPUs."""
        node = self.dra.node
        self.dra.apply(claim("shared", 2), claiming("stays", claim="shared"))
        self.dra.running("stays")
        held, before, last = node.check_claimed("stays"), self.dra.container("stays"), []
        for turn in range(TURNS):
            names = [f"turn-{turn}-{number}" for number in range(EACH)]
            if last:
                self.dra.delete(*last, wait=False)
            self.dra.apply(*(claiming(name, claim="shared") for name in names))
            for name in names:
                self.dra.running(name)
            same((node.prepared().get("shared"), len(node.specs())), (held, 1), f"the claim and its spec in turn {turn}")
            last = names
        same(node.check_claimed(last[0]), held, "GPUs of the last one that came")
        self.dra.delete(*last)
        same((node.check_claimed("stays"), self.dra.container("stays"), node.prepared()), (held, before, {"shared": held}), "the survivor")
        self.dra.empty()
        return f"{TURNS * EACH} pods"

    def state_lost(self):
        """The kubelet's state of claims is gone: what runs keeps its GPUs, and those of a pod that is gone come back."""
        node = self.dra.node
        keeps, goes = self.dra.run_pod("keeps", 2), self.dra.run_pod("goes", 1)
        before, name = self.dra.container("keeps"), {pod: node.claim_of(pod)["metadata"]["name"] for pod in ("keeps", "goes")}
        with self.cluster.without_kubelet(1):
            self.cluster.ask(1, "rm", "/var/lib/kubelet/dra_manager_state")
            self.cluster.kubectl("delete", "pod", "goes", "--force", "--grace-period=0")
            same(node.prepared(), {name["keeps"]: keeps, name["goes"]: goes}, "prepared claims while no kubelet runs")
        until("the claim that nobody has to be given back", lambda: name["goes"] not in node.prepared() or (False, node.prepared()), FORGOTTEN_S)
        same((node.prepared(), self.dra.container("keeps"), node.check_claimed("keeps")), ({name["keeps"]: keeps}, before, keeps), "what runs")
        self.dra.run_pod("after", 1)
        self.dra.delete("keeps", "after")  # the kubelet does not know the claim of the first one, either
        until("no prepared claim", lambda: not node.prepared() or (False, node.prepared()), FORGOTTEN_S)
        self.dra.empty()

    def boots(self):
        """Power fails under a pod, and with it goes what is in memory, the CDI files: it runs again with its GPUs, once the agent is back."""
        node = self.dra.node
        held, before = self.dra.run_pod("boots", 2), self.dra.container("boots")
        node.agent.signal(signal.SIGKILL)
        node.agent.process.wait(60)
        reboot.off(self.cluster, 1)
        shutil.rmtree(node.cdi)
        containerd = reboot.on(self.cluster, 1)
        self.dra.told("boots", "DRA driver")
        same((node.specs(), node.prepared()), (set(), {node.claim_of("boots")["metadata"]["name"]: held}), "specs and claims without an agent")
        node.start()
        until("another container", lambda: self.dra.container("boots")[0] != before[0] or (False, self.dra.events("boots")[-2:]), 180)
        self.dra.running("boots")
        same((node.check_claimed("boots"), len(node.specs()), containerd.poll()), (held, 1, None), "GPUs, specs, and containerd's end")
        self.dra.empty()

    @contextlib.contextmanager
    def small_disk(self, directory):
        """The node has this directory on a disk of its own, from its boot on. Yields what tells both written things: claims, and names
        beside them."""
        node = self.dra.node
        self.boot("mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "small", directory)
        try:
            root = pathlib.Path(f"/proc/{node.agent.pid()}/root")

            def written():
                files = {path.name for at in (STATE, node.cdi) for path in (root / at.relative_to("/")).iterdir() if path.is_file()}
                return (root / STATE.relative_to("/") / "claims.json").read_text(), files - {"filler"}
            yield written
        finally:
            self.boot("umount", directory)

    def boot(self, *command):
        """`command`: before containerd, which watches directories, and kubelet begin."""
        self.dra.node.agent.stop()
        reboot.off(self.cluster, 1)
        self.cluster.ask(1, *command)
        reboot.on(self.cluster, 1)
        self.dra.node.start()

    def full_disk(self):
        """For the CDI file, the second of two that are written, then for the claim itself: a sentence, and nothing is half-written."""
        node = self.dra.node
        for directory in (node.cdi, STATE):
            with self.small_disk(directory) as written:
                nothing = written()
                self.cluster.ask(1, "sh", "-c", FILL, "sh", directory)
                self.dra.apply(claiming("late", "gpus-2"))
                self.dra.told("late", "No space left on device")
                until("nothing to be left of the claim", lambda: written() == nothing or (False, written()), 20)
                self.cluster.ask(1, "rm", directory / "filler")
                self.dra.running("late")
                planned = node.allocated(node.claim_of("late"))
                same(node.seen("late").made_up(), node.machine.expected_nodes(planned), "device nodes in the pod")
                same(len(written()[1] - nothing[1]), 1, "CDI files of claims")
                self.dra.delete("late")
                until("nothing to be left of the claim", lambda: written() == nothing or (False, written()))
        self.dra.run_pod("after", 2)
        self.dra.empty()

    def run(self):
        def case(name, run):
            return self.report.case(f"Kubernetes {self.dra.version}, claims: {name}", run, self.dra.tidy)
        case(f"{TURNS * EACH} pods of a shared claim come and go: the survivor keeps its GPUs", self.shared)
        case("the kubelet has lost its state: what runs keeps its GPUs, the rest is given back", self.state_lost)
        case("a node boots, its CDI files are gone: its pod runs again with its GPUs", self.boots)
        case("the disk is full for the claim or its CDI file: a sentence, nothing half-written, and the pod runs when there is room", self.full_disk)
