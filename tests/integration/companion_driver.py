# SPDX-License-Identifier: Apache-2.0
"""Runs gputopo-scheduler for tests, and makes what it reads."""

from daemon_driver import Daemon

TOPOLOGY = "topology.metax-tech.com/v1alpha1"
TOPOLOGIES = f"/apis/{TOPOLOGY}/nodegputopologies"
SUPERNODES = f"/apis/{TOPOLOGY}/supernodes"
NODES = "/api/v1/nodes"
LABEL = {"app.kubernetes.io/managed-by": "gputopo-scheduler"}
SUPERNODE_LABEL = "node-restriction.kubernetes.io/gputopo-supernode"
OLD_SUPERNODE_LABEL = "topology.metax-tech.com/supernode"


class Companion(Daemon):
    def is_ready(self):
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def leads(self):
        try:
            return self.metrics().get("gputopo_leader") == 1
        except OSError:
            return False

    def said(self):
        """Everything wrong that it told of, as (reason, sentence)."""
        return [(line["reason"], line["what"]) for line in self.events("something is wrong")]


def report(uuid, *remote, gpus=8, free=None, links="True"):
    """The status of a NodeGPUTopology, as far as supernodes are made from it."""
    status = {"gpus": [{"index": i, "uuid": None, "product": "MXC500", "numaNode": i // 4, "bdf": f"0000:{i:02x}:00.0",
                        "zone": 1, "mode": "native", "healthy": True} for i in range(gpus)],
              "nics": [], "links": [], "missing": [], "gpuCount": gpus, "healthyCount": gpus, "observedAt": "2026-01-31T12:00:00Z",
              "supernode": {"uuid": uuid, "remote": list(remote)},
              "conditions": [{"type": "LinksHealthy", "status": links, "reason": "X", "message": "",
                              "lastTransitionTime": "2026-01-31T12:00:00Z"}]}
    if free is not None:
        status["freeCount"] = free
        status["free"] = list(range(free))
    return status


def mesh(*names):
    """{name: remote servers}: everybody sees everybody."""
    return {name: [f"uuid-{other}" for other in names if other != name] for name in names}
