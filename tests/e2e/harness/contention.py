# SPDX-License-Identifier: Apache-2.0
"""Jobs of whole racks that contend for too few of them, for every kind of job and scheduler."""
from .placed import pod_template
from .waiting import until


def five_gangs(placed, kind, label, make, check, waiting=lambda name: None):
    """Five gangs at once where two fit: two run, none is half placed, and the others come in when there is room.

    `make(name, pods, template)` is a job of that kind, whose pods have its name under `label`. `check(selector)` waits for the pods
    of a gang that came in and looks where they are; `waiting(name)` looks at one that has to wait."""
    cluster = placed.cluster
    for rack in (1, 2, 3):
        placed.create(make(f"fill-{rack}", 8, pod_template(8, nodeSelector={"rack": str(rack)})))
        placed.bound(f"{label}=fill-{rack}", 8)
    gangs = [f"gang-{number}" for number in range(5)]
    cluster.kubectl("create", "-f", "-", data={"apiVersion": "v1", "kind": "List", "items": [
        make(name, 8, pod_template(8, group=64, labels={"case": "gangs"})) for name in gangs]})

    def counts():
        """{gang: how many of its pods have a node}"""
        ret = {name: 0 for name in gangs}
        for pod in placed.pods("case=gangs").values():
            name = pod["metadata"]["labels"][label]
            if name in ret:
                ret[name] += bool(pod["spec"].get("nodeName"))
        return ret

    def some_run():
        """The gangs for which there is room, with all of their pods on nodes."""
        now = counts()
        if sorted(now.values()) != [0] * (len(now) - 2) + [8] * min(2, len(now)):
            return False, now
        return [name for name, count in now.items() if count]
    first = until("two gangs to run", some_run)
    for name in gangs:
        if name not in first:
            waiting(name)
    while gangs:
        running = until("the next gangs to run", some_run)
        for name in running:
            check(f"{label}={name}")
        gangs = [name for name in gangs if name not in running]
        cluster.kubectl("delete", kind, *running, "--wait=false")
