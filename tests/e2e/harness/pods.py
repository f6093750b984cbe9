# SPDX-License-Identifier: Apache-2.0
"""Test pods and what they observed."""
from .machine import FIRST_MINOR, MAJOR

RESOURCE = "metax-tech.com/gpu"


def manifest(name, *counts, static=False):
    """A pod of one show-devices container for each count of GPUs."""
    containers = [{"name": f"c{i}", "image": "local.test/show-devices:1", "imagePullPolicy": "Never",
                   "resources": {"limits": {RESOURCE: str(count)}} if count else {}}
                  for i, count in enumerate(counts)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": containers, "terminationGracePeriodSeconds": 5, "enableServiceLinks": False}}
    if static:
        pod["metadata"]["namespace"] = "default"
    else:
        pod["spec"]["automountServiceAccountToken"] = False
    return pod


class Seen:
    """What a container printed: `dev` maps names below /dev to (kind, number), `env` its variables."""

    def __init__(self, lines):
        self.dev, self.env = {}, {}
        for line in lines:
            what, _, rest = line.partition(" ")
            if what == "dev":
                name, kind, number = (rest.split(" ") + [""])[:3]
                self.dev[name] = (kind, number)
            elif what == "env":
                name, _, value = rest.partition("=")
                self.env[name] = value

    def made_up(self):
        """The device nodes that come from a recorded machine, by their numbers."""
        return {name: number for name, (kind, number) in self.dev.items()
                if number.startswith(f"{MAJOR}:") and int(number.split(":")[1]) >= FIRST_MINOR}


def read_log(cluster, node, pod, container="c0"):
    """The container's output, or None while it has not come to its end. The newest file is the running one."""
    logs = sorted((cluster.state / f"node{node}" / "logs").glob(f"default_{pod}_*/{container}/*.log"),
                  key=lambda path: path.stat().st_mtime)
    if not logs:
        return None
    lines = [line.split(" ", 3)[3] for line in logs[-1].read_text().splitlines() if line.count(" ") >= 3]
    return Seen(lines) if "end" in lines else None
