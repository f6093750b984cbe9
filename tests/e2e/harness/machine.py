# SPDX-License-Identifier: Apache-2.0
"""A recorded GPU node and its device nodes, for an agent that runs where there are no GPUs."""
import copy
import json
import os
import stat
import subprocess

from .waiting import Failed

# Device numbers of major 1 (memory devices) above those that the kernel knows: anyone may see such a node, nobody
# can open it. Every node of every machine gets a number of its own.
MAJOR, FIRST_MINOR = 1, 1000
PATHS = ["PIX", "PXB", "PHB", "NODE", "SYS"]  # nearest first


def device_id(gpu):
    """What the kubelet calls a GPU."""
    return gpu["uuid"] or "PCI-" + gpu["bdf"]


def ask(*command):
    """The JSON that a program prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Machine:
    def __init__(self, gputopo, recording, directory, number=1):
        """Makes `directory` with dev/ and node.json; the node is what `gputopo show` makes of the recording."""
        self.gputopo = gputopo
        directory.mkdir()
        self.dev = directory / "dev"
        self.file = directory / "node.json"
        self.whole = ask(gputopo, "show", "--from", recording, "-o", "json")
        self.gpus = self.whole["gpus"]
        self.sick, self.lost = set(), set()
        self.numbers = {}  # "dri/card1" -> "1:1001", of every device node
        self.next_minor = FIRST_MINOR * number
        (self.dev / "dri").mkdir(parents=True)
        for index, gpu in enumerate(self.gpus):  # a recording without DRM minors: as a driver would count
            gpu.setdefault("drm", {"card": index + 1, "render": index + 128})
        for name in ["mxcd", *(name for gpu in self.gpus for name in self.nodes_of(gpu))]:
            self.make_node(name)
        self.write()

    def nearest_nics(self, indices):
        """What METAX_GPU_NICS is to say of these GPUs; None: the machine has no NICs."""
        def near(gpu):
            kinds = [PATHS.index(nic["locality"][gpu]) for nic in self.whole["nics"]]
            return ",".join(nic["name"] for nic, kind in zip(self.whole["nics"], kinds) if kind == min(kinds))
        return ";".join(near(gpu) for gpu in indices) if self.whole["nics"] else None

    def make_node(self, name):
        number = os.makedev(MAJOR, self.next_minor)
        os.mknod(self.dev / name, stat.S_IFCHR | 0o666, number)
        self.numbers[name] = f"{MAJOR}:{self.next_minor}"
        self.next_minor += 1

    @staticmethod
    def nodes_of(gpu):
        return [f"dri/card{gpu['drm']['card']}", f"dri/renderD{gpu['drm']['render']}"]

    def expected_nodes(self, indices):
        """The device nodes of a container with these GPUs and their numbers."""
        names = ["mxcd"] if indices else []
        for index in indices:
            names += self.nodes_of(self.gpus[index])
        return {name: self.numbers[name] for name in names}

    def indices(self, ids):
        known = {device_id(gpu): gpu["index"] for gpu in self.gpus}
        return sorted(known[name] for name in ids)

    # change

    def write(self):
        """The node as its agent is to see it, with the sick and the lost GPUs."""
        node = copy.deepcopy(self.whole)
        for index in self.sick:
            node["gpus"][index]["healthy"] = False
            node["gpus"][index]["unhealthyReason"] = "made unhealthy by the test"
        for index in sorted(self.lost, reverse=True):
            remove_gpu(node, index)
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(node, indent=1))
        part.rename(self.file)

    # what must come of it

    def best(self, free, count):
        """The GPUs that the loss table chooses out of the free ones."""
        answer = ask(self.gputopo, "loss", "--from", self.file, "--free", ",".join(map(str, sorted(free))),
                     "-k", str(count), "-o", "json")
        return sorted(answer["gpus"])


def remove_gpu(node, index):
    """Takes a GPU out of a node's JSON; those behind it move up."""
    def moved(other):
        return other - 1 if other > index else other
    del node["gpus"][index]
    for gpu in node["gpus"]:
        gpu["index"] = moved(gpu["index"])
    node["links"] = [{**link, "a": moved(link["a"]), "b": moved(link["b"])}
                     for link in node["links"] if index not in (link["a"], link["b"])]
    for nic in node["nics"]:
        if index < len(nic.get("locality", [])):
            del nic["locality"][index]
