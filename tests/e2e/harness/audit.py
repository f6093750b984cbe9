# SPDX-License-Identifier: Apache-2.0
"""What the companion's audit has found (docs/reference/placement-controller.md): no case may leave a placement wrong, unless it means to."""
import re

from .waiting import Failed

METRIC = re.compile(r'(?m)^gputopo_placement_findings\{kind="(\w+)"\} (\d+)$')


def events(cluster):
    return cluster.get("events.events.k8s.io", "-A")["items"]


def found(cluster):
    """{(reason, sentence)}, of the whole time: Events outlive companions. Without pods whose kubelet was told of them before their
    agent, so that other GPUs were chosen; the agent says so."""
    told = events(cluster)
    excused = {pod for item in told if item["reason"] == "PlanNotHonoured" for pod in re.findall(r" of pod (\S+) has the GPUs ", item["note"])}
    return {(item["reason"], item["note"]) for item in told if item.get("action") == "Audit"
            and not (re.match(r"pod (\S+) uses GPUs ", item["note"]) and item["note"].split()[1] in excused)}


def check(cluster):
    wrong = found(cluster)
    if wrong:
        raise Failed("; ".join(f"{reason}: {note}" for reason, note in sorted(wrong)))


def counted(metrics):
    """{kind: findings}, of the kinds that have some, by the metrics of a companion."""
    told = METRIC.findall(metrics)
    if not told:
        raise Failed("the companion counts no findings")
    return {kind: int(count) for kind, count in told if int(count)}


def forget(cluster, namespace="default", kind=None):
    """`kind`: this one alone."""
    names = [item["metadata"]["name"] for item in events(cluster) if item.get("action") == "Audit"
             and item["metadata"]["namespace"] == namespace and kind in (None, item["reason"])]
    if names:
        cluster.kubectl("delete", "events.events.k8s.io", "-n", namespace, *names)
