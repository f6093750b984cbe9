# SPDX-License-Identifier: Apache-2.0
"""gputopo in a cluster as an operator installs it: image, manifests of daemonset/, and machines for its nodes."""
import os
import pathlib
import re
import subprocess

from .live import Live
from .waiting import Failed

DAEMONSET = pathlib.Path(__file__).resolve().parents[3] / "daemonset"
EXAMPLES = DAEMONSET / "examples"
NAMESPACE = "gputopo-system"
DEVICES = "/run/gputopo-dev"  # as in daemonset/recorded
LIVE = "/run/gputopo-live"
SOCKETS = "/run/gputopo"  # where the probe's socket is, as in daemonset/base
SERVERS = {number: f"5e5e5e5e-0000-4000-8000-00000000000{number}" for number in range(1, 6)}  # UUIDs of servers

RECORDED = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{base}/recorded]
patches:
- target: {{kind: DaemonSet, name: gputopo-agent}}
  patch: |
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --heartbeat={heartbeat}}}
"""

# the sysfs, vendor library and device nodes that agents and probes find are made ones
MADE = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{of}]
components: [{components}]
patches:
- target: {{kind: DaemonSet, name: gputopo-agent}}
  patch: |
    - {{op: add, path: /spec/template/spec/volumes/-, value: {{name: live, hostPath: {{path: {live}}}}}}}
    - {{op: test, path: /spec/template/spec/volumes/2/name, value: dev}}
    - {{op: replace, path: /spec/template/spec/volumes/2/hostPath/path, value: {devices}}}
    - {{op: test, path: /spec/template/spec/containers/0/volumeMounts/2/name, value: dev}}
    - {{op: replace, path: /spec/template/spec/containers/0/volumeMounts/2/mountPath, value: {devices}}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --root={live}/root}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --dev-root={devices}}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --health-interval=2}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --heartbeat={heartbeat}}}
    - op: add
      path: /spec/template/spec/containers/0/volumeMounts/-
      value: {{name: live, mountPath: {live}, readOnly: true}}
- target: {{kind: DaemonSet, name: gputopo-probe}}
  patch: |
    - {{op: add, path: /spec/template/spec/volumes/-, value: {{name: live, hostPath: {{path: {live}}}}}}}
    - {{op: add, path: /spec/template/spec/containers/0/args/-, value: --root={live}/root}}
    - op: add
      path: /spec/template/spec/containers/0/env
      value: [{{name: GPUTOPO_FAKE_MXSML, value: {live}/scenario.json}}]
    - op: add
      path: /spec/template/spec/containers/0/volumeMounts/-
      value: {{name: live, mountPath: {live}, readOnly: true}}
"""


def import_image(cluster, build, nodes):
    """Makes the image of the programs and gives it to the nodes; returns a line about it."""
    archive = cluster.state / "gputopo.tar"
    done = subprocess.run([DAEMONSET / "image", build, archive], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    for number in nodes:
        cluster.ask(number, "ctr", "images", "import", archive)
    return done.stdout.strip()


def commands(page, section):
    """The blocks of commands below that heading of a page of ours, each to be run as it is in the directory of the sources."""
    part = re.search(rf"^#+ {section}\n(.*?)(?=^#+ |\Z)", (DAEMONSET.parent / page).read_text(), re.M | re.S)
    return re.findall(r"^```\n(.*?)^```$", part[1], re.M | re.S)


def follow(cluster, block):
    return cluster.ask("control", "sh", "-ec", f"cd {DAEMONSET.parent}\n{block}")


def mount(cluster, number, directory, where):
    """`directory` at that place of the node, instead of what was there; each node has its own below the shared /run."""
    cluster.ask(number, "mkdir", "-p", where)
    cluster.ask(number, "sh", "-c", 'if mountpoint -q "$1"; then umount "$1"; fi', "sh", where)
    cluster.ask(number, "mount", "--bind", directory, where)


def make_live(cluster, build, number, spec):
    """A machine that this node's agent discovers; it sees the servers of the first two nodes but its own."""
    live = Live(build, spec, cluster.state / f"live{number}", SERVERS[number],
                *(SERVERS[other] for other in (1, 2) if other != number))
    mount(cluster, number, live.directory, LIVE)
    sockets = cluster.state / f"sockets{number}"
    sockets.mkdir(exist_ok=True)
    mount(cluster, number, sockets, SOCKETS)
    return live


def apply(cluster, name, text, heartbeat, *components):
    """Applies such a kustomization; returns its directory. `components`: names below daemonset/components."""
    directory = cluster.state / name
    directory.mkdir(exist_ok=True)
    base = os.path.relpath(DAEMONSET, directory)
    (directory / "kustomization.yaml").write_text(text.format(
        base=base, of=f"{base}/base", live=LIVE, devices=DEVICES, heartbeat=heartbeat,
        components=", ".join(f"{base}/components/{component}" for component in components)))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", directory)
    return directory


def post_renderer(cluster, heartbeat):
    """A program by which `helm --post-renderer` does to the chart what MADE does to the manifests."""
    directory = cluster.state / "rendered"
    directory.mkdir()
    (directory / "kustomization.yaml").write_text(MADE.format(
        of="chart.yaml", live=LIVE, devices=DEVICES, heartbeat=heartbeat, components=""))
    return cluster.script("post-render", f"#!/bin/sh\ncat >{directory}/chart.yaml\nexec kubectl kustomize {directory}\n")
