# SPDX-License-Identifier: Apache-2.0
"""Claims over time: pods that share one come and go, and the kubelet loses what it knew of them."""
from harness.claims import claim, claiming
from harness.waiting import same, until

TURNS, EACH = 40, 5  # so many pods come while so many others go
FORGOTTEN_S = 300


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

    def run(self):
        def case(name, run):
            return self.report.case(f"Kubernetes {self.dra.version}, claims: {name}", run, self.dra.tidy)
        case(f"{TURNS * EACH} pods of a shared claim come and go: the survivor keeps its GPUs", self.shared)
        case("the kubelet has lost its state: what runs keeps its GPUs, the rest is given back", self.state_lost)
