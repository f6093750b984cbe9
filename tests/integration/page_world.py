# SPDX-License-Identifier: Apache-2.0
"""A cluster of any size in the double of the API server, and the companion that serves the page of it."""

import contextlib
import json
import os
import tempfile

from api_double import StrictDouble
from companion_driver import NODES, SUPERNODES, TOPOLOGIES, Companion
from daemon_driver import wait_for
from kube_driver import kubeconfig
from placement_driver import PLAN, indexed_pod, node_status, supernode_status, template, topology

NAMESPACE = "gputopo-system"
RACK, HALL, UNIT = 16, 16, 4  # nodes of a rack, racks of a hall, nodes of a unit


class World:
    """Racks of 16 nodes with 8 GPUs, in halls of 16 racks. Of every eight nodes four have a unit of 32 GPUs, one has a
    notebook and one an unhealthy GPU or a broken link now and then."""

    def __init__(self, api, nodes, waiting=40):
        self.api, self.count, self.waiting = api, nodes, waiting
        self.names = [f"r{i // RACK:03}-n{i % RACK:02}" for i in range(nodes)]
        self.shown = {}
        self.fill()

    def add_node(self, i, **spec):
        self.api.add(NODES, self.names[i], status=node_status(), **({"spec": spec} if spec else {}))

    def running_pod(self, namespace, job, index, node, gpus, planned=True):
        name = f"{job}-{index}-x{index}"
        pod = indexed_pod(job, index, uid=f"uid-{namespace}-{job}", gpus=gpus, group=32 if planned else None, gated=False,
                          nodeName=self.names[node])
        if planned:
            ids = {"main": [f"GPU-{self.names[node]}-{gpu}" for gpu in range(gpus)]}
            pod["metadata"]["annotations"].update({f"{PLAN}node": self.names[node], f"{PLAN}unit": str(index // UNIT),
                                                   f"{PLAN}rank": str(index), f"{PLAN}gpus": json.dumps(ids)})
        self.api.add(f"/api/v1/namespaces/{namespace}/pods", name, **pod, status={"phase": "Running"})
        return namespace, name

    def add_topology(self, i, used=(), unhealthy=(), link_down=False, why=""):
        status = topology(self.names[i], used=used, unhealthy=unhealthy, why=why)
        if link_down:
            status["links"][3] = {**status["links"][3], "state": "down"}
            status["conditions"] = [{"type": "LinksHealthy", "status": "False", "reason": "LinkDown"}]
        self.api.add(TOPOLOGIES, self.names[i], status=status)

    def fill(self):
        racks = range((self.count + RACK - 1) // RACK)
        for h in range((len(racks) + HALL - 1) // HALL):
            self.api.add(SUPERNODES, f"hall-{h + 1}", status=supernode_status([], tier=2))
        for r in racks:
            members = self.names[r * RACK:(r + 1) * RACK]
            self.api.add(SUPERNODES, f"rack-{r:03}", status={**supernode_status(members), "parent": f"hall-{r // HALL + 1}"})
        for i in range(self.count):
            self.add_node(i)
            place, job = i % 8, i // 8
            if place < UNIT and job % 5 != 4:
                namespace, name = self.running_pod(f"team-{'abcde'[job % 5]}", f"train-{job // 2:04}", place + UNIT * (job % 2), i, 8)
                self.add_topology(i, [(gpu, namespace, name) for gpu in range(8)])
            elif place == 5:
                namespace, name = self.running_pod("lab", f"notebook-{i}", 0, i, 2, planned=False)
                self.add_topology(i, [(gpu, namespace, name) for gpu in range(2)])
            else:
                self.add_topology(i)
        for j in range(self.waiting):
            self.add_waiting(j)

    def add_waiting(self, j, group=None):
        group, namespace, job = group or (128, 112, 96)[j % 3] if j % 10 else 4096, f"team-{'abcde'[j % 5]}", f"big-{j:03}"
        pods = group // 8
        self.api.add(f"/apis/batch/v1/namespaces/{namespace}/jobs", job, metadata={"uid": f"uid-{job}"},
                     spec={"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template(8, group)})
        for index in range(pods):
            self.api.add(f"/api/v1/namespaces/{namespace}/pods", f"{job}-{index}", **indexed_pod(job, index, uid=f"uid-{job}", group=group))


@contextlib.contextmanager
def companion(program, nodes, *arguments, waiting=40, double=StrictDouble):
    """(World, Companion), when the cluster is read."""
    with tempfile.TemporaryDirectory(prefix="gputopo-page-") as folder, double(folder, tokens=("token-1",)) as api:
        world = World(api, nodes, waiting)
        config = kubeconfig(f"{folder}/config", api.url, f"certificate-authority: {folder}/ca.crt", "token: token-1")
        running = Companion(program, "--only=placement,ui", "--namespace", NAMESPACE, "--kubeconfig", config, *arguments)
        try:
            assert wait_for(lambda: running.is_ready() and running.leads(), 180), running.lines[-5:]
            yield world, running
        finally:
            code = running.stop()
            if code:
                raise RuntimeError(f"the companion ended with {code}: {os.linesep.join(map(str, running.lines[-5:]))}")
