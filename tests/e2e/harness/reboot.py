# SPDX-License-Identifier: Apache-2.0
"""A node loses its power and gets it back, as far as processes can show that: kubelet, containerd and containers are
killed at once, files in memory (/run, mounts) are gone, files on disk (/var/lib) stay."""
import subprocess

from .cluster import remove_cgroups
from .waiting import until

OFF = r"""
node=$1
kill -STOP "$(cat "$node/pid")" # what starts the kubelet again
kill -KILL "$(cat "$node/kubelet.pid")"
for id in $(pgrep -f -- "-address $node/run/containerd.sock"; pgrep -f -- "containerd -c $node/containerd.toml"); do
    tasks="$tasks $(pgrep -P "$id")"
    kill -KILL "$id"
done
for id in $tasks; do kill -KILL "$id" 2>/dev/null || :; done
awk -v node="$node" '$5 ~ "^" node "/run/containerd/" || $5 ~ "^/var/lib/kubelet/pods/" || $5 ~ "^/run/netns/" {print $5}' \
    /proc/self/mountinfo | sort -r | while read -r at; do umount -l "$at" || :; done
rm -rf "$node/run"
mkdir "$node/run"
"""


def off(cluster, number):
    node = cluster.state / f"node{number}"
    containers = [path.name for path in node.glob("run/containerd/io.containerd.runtime.v2.task/k8s.io/*")]
    cluster.ask(number, "sh", "-c", OFF, "sh", node)
    remove_cgroups(containers)


def on(cluster, number):
    """Returns the process of containerd, which ends with the cluster."""
    node = cluster.state / f"node{number}"
    process = cluster.enter(number, "sh", "-c", 'exec containerd -c "$1/containerd.toml" >>"$2" 2>&1', "sh", node,
                            cluster.state / "log" / f"containerd{number}")
    until("containerd", lambda: cluster.enter(number, "ctr", "version", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait() == 0)
    before = cluster.kubelet_pid(number)
    cluster.ask(number, "sh", "-c", 'kill -CONT "$(cat "$1/pid")"', "sh", node)
    until("the kubelet", lambda: cluster.kubelet_pid(number) not in (0, before), 60, 0.05)
    return process
