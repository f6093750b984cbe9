# SPDX-License-Identifier: Apache-2.0
"""Makes clusters for the tests of the command line: NodeGPUTopology and Supernode objects as the daemons write them."""

import copy
import json
import os
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
MACHINES = os.path.join(HERE, "../machines")
API = "/apis/topology.metax-tech.com/v1alpha1"
TOPOLOGIES, SUPERNODES = f"{API}/nodegputopologies", f"{API}/supernodes"
NOW = "2026-01-31T12:00:00Z"


def machine(name="c500-8"):
    with open(f"{MACHINES}/{name}.json", encoding="utf-8") as file:
        found = json.load(file)
    found = found.get("node", found)
    return {k: found[k] for k in ("driverVersion", "libraryVersion", "gpus", "nics", "links", "missing") if k in found}


def condition(kind, status="True", reason="Fine", message="as it should be"):
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def node_status(name, base, owners=(), unhealthy=(), unsure=(), free=None, observed=NOW, **conditions):
    """The status of a node. `owners`: (namespace, pod, gpus); what they do not have is free."""
    status = copy.deepcopy(base)
    status["name"] = name
    number = zlib.crc32(name.encode())
    for gpu in status["gpus"]:
        gpu["uuid"] = f"GPU-{number:08x}-0000-4000-8000-{gpu['index']:012x}"
        if gpu["index"] in unsure:
            gpu["health"] = "unknown"
        if gpu["index"] in unhealthy:
            gpu["health"], gpu["healthy"], gpu["unhealthyReason"] = "unhealthy", False, "uncorrectable ECC errors"
    used = {gpu for _, _, gpus in owners for gpu in gpus}
    count = len(status["gpus"])
    if free is None:
        free = [i for i in range(count) if i not in used and i not in unhealthy]
    healthy, unknown = (sum(g["health"] == health for g in status["gpus"]) for health in ("healthy", "unknown"))
    status.update({"supernode": {"uuid": f"server-{name}", "remote": []}, "gpuCount": count, "healthyCount": healthy,
                   "unknownCount": unknown,
                   "free": free, "freeCount": len(free), "observedAt": observed,
                   "owners": [{"gpu": gpu, "namespace": namespace, "pod": pod, "container": "main"}
                              for namespace, pod, gpus in owners for gpu in gpus],
                   "conditions": [condition(kind, **conditions.get(kind, {}))
                                  for kind in ("Discovered", "VendorLibrary", "Registered", "LinksHealthy")]})
    return status


def supernode_status(members, tier=1, parent=None, conflict=None, links=True, source="report"):
    status = {"tier": tier, "source": source, "nodes": len(members), "capacity": 8 * len(members), "linksHealthy": links,
              "observedAt": NOW, "conditions": [condition("Conflict", "True" if conflict else "False", "Split"
                                                          if conflict else "NoConflict", conflict or "")]}
    if tier == 1:
        status["members"] = [{"node": name, "gpus": 8} for name in members]
    if parent:
        status["parent"] = parent
    return status


def busy_cluster(racks, nodes, random, halls=2, base=None, jobs=14):
    """(topologies, supernodes) by name: racks of equal nodes, jobs on most of them, a few things that are wrong."""
    base = base or machine()
    count = len(base["gpus"])
    topologies, supernodes = {}, {}
    names = [f"rack-{chr(97 + r) if racks <= 26 else r}-n{n + 1:02}" for r in range(racks) for n in range(nodes)]
    kinds = [(f"team-{'abc'[j % 3]}", f"{['llm', 'rank', 'chat', 'eval', 'tune'][j % 5]}-{j}", [8, 4, 2, 1][j % 4])
             for j in range(jobs)]
    pods = [0] * jobs
    for name in names:
        owners, free = [], list(range(count))
        while free and random.random() < 0.75:
            j = min(int(random.expovariate(0.3)), jobs - 1)
            namespace, job, gpus = kinds[j]
            if gpus <= len(free):
                owners.append((namespace, f"{job}-worker-{pods[j]}", free[:gpus]))
                pods[j] += 1
                free = free[gpus:]
            else:
                break
        unhealthy = [free[-1]] if free and random.random() < 0.05 else []
        topologies[name] = node_status(name, base, owners, unhealthy)
    for h in range(halls if racks > 1 else 0):
        supernodes[f"hall-{h + 1}"] = supernode_status([], tier=2)
    for r in range(racks):
        parent = f"hall-{r * halls // racks + 1}" if racks > 1 and halls else None
        supernodes[names[r * nodes].rsplit("-", 1)[0]] = supernode_status(names[r * nodes:(r + 1) * nodes], parent=parent)
    return topologies, supernodes
