# SPDX-License-Identifier: Apache-2.0
"""A release in a registry: pushed, installed by nobody but Helm, pulled by containerd; and as one file without a network."""
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import time

from harness.install import DAEMONSET, NAMESPACE
from harness.waiting import Failed, same, until

RELEASE = DAEMONSET.parent / "release"
REGISTRY = "10.96.0.1:5000"
CONFIG = """version: 0.1
storage: {{filesystem: {{rootdirectory: {state}/registry}}}}
http: {{addr: "{address}", tls: {{certificate: {state}/registry.crt, key: {state}/registry.key}}}}
"""
CATALOG = f"import ssl, sys, urllib.request as u; print(u.urlopen('https://{REGISTRY}/v2/' + sys.argv[1], context=ssl.create_default_context()).read().decode())"


class PublishCases:
    def __init__(self, chart, values):
        self.chart, self.cluster, self.build, self.values = chart, chart.cluster, chart.build, values
        self.state, self.ca = chart.cluster.state, chart.cluster.state / "pki/ca.crt"
        self.directory = self.state / "release"

    # steps

    def certificate(self):
        (self.state / "registry.ext").write_text(f"subjectAltName=IP:{REGISTRY.split(':', maxsplit=1)[0]}")
        for command in ("req -newkey rsa:2048 -nodes -keyout registry.key -out registry.csr -subj /CN=registry",
                        "x509 -req -in registry.csr -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 1 -out registry.crt -extfile registry.ext"):
            subprocess.run(["openssl", *command.split()], cwd=self.state, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def serve(self):
        self.certificate()
        (self.state / "registry.yml").write_text(CONFIG.format(state=self.state, address=REGISTRY))
        process = self.cluster.enter("control", "docker-registry", "serve", self.state / "registry.yml",
                                     stdout=open(self.state / "log/registry", "w"), stderr=subprocess.STDOUT)
        until("the registry", lambda: self.run("control", "/usr/bin/python3", "-c", CATALOG, "_catalog").returncode == 0, 30)
        for number in (1, 2):  # where an operator says which certificates a node's containerd believes
            hosts = self.state / f"node{number}/certs.d/{REGISTRY}"
            hosts.mkdir(parents=True)
            (hosts / "hosts.toml").write_text(f'server = "https://{REGISTRY}"\n[host."https://{REGISTRY}"]\nca = "{self.ca}"\n')
        return process

    def run(self, where, *command):
        process = self.cluster.enter(where, *command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     env={**os.environ, "SSL_CERT_FILE": str(self.ca)})
        out, error = process.communicate(timeout=180)
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    def went(self, where, *command):
        done = self.run(where, *command)
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def refused(self, words, where, *command):
        done = self.run(where, *command)
        lines = done.stderr.strip().splitlines()
        if done.returncode == 0 or len(lines) != 1 or not all(word in lines[0] for word in words):
            raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}, wanted one line with {words}: {done.stderr}")

    def listed(self, path):
        return json.loads(self.went("control", "/usr/bin/python3", "-c", CATALOG, path))

    def sum_up(self):
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
                for path in sorted(self.directory.iterdir()) if path.name != "SHA256SUMS"]
        (self.directory / "SHA256SUMS").write_text("".join(sums))

    def release(self):
        """What release/make would have made of this build, as far as it is published; returns its version."""
        self.directory.mkdir()
        version = (DAEMONSET / "chart/Chart.yaml").read_text().split("\nversion: ")[1].split()[0]
        image = self.directory / f"gputopo-{version}-image-amd64.tar"
        shutil.copy(self.state / "gputopo.tar", image)
        # its twin says that it is for another kind of processor
        with tarfile.open(image) as old, tarfile.open(str(image).replace("amd64", "arm64"), "w") as new:
            for member in old:
                data = old.extractfile(member)
                if member.name == "index.json":
                    text = data.read().replace(b'"architecture": "amd64"', b'"architecture": "arm64"')
                    (self.state / "index.json").write_bytes(text)
                    member.size, data = len(text), open(self.state / "index.json", "rb")
                new.addfile(member, data)
        with tarfile.open(self.directory / f"gputopo-chart-{version}.tgz", "w:gz") as tar:
            tar.add(DAEMONSET / "chart", "gputopo")
        self.sum_up()
        return version

    # the case

    def published(self):
        process = self.serve()
        try:
            return self.installed_from(self.release())
        finally:
            process.terminate()
            process.wait(20)

    def installed_from(self, version):
        publish, project = RELEASE / "publish", f"{REGISTRY}/gpu"
        with open(self.directory / f"gputopo-chart-{version}.tgz", "ab") as chart:
            chart.write(b"x")
        self.refused(["is not the released file", f"gputopo-chart-{version}.tgz"], "control", publish, self.directory, project)
        (self.directory / f"gputopo-chart-{version}.tgz").rename(self.state / "chart.tgz")
        self.refused([f"gputopo-chart-{version}.tgz is missing"], "control", publish, self.directory, project)
        same(self.listed("_catalog")["repositories"], [], "what is in the registry after that")
        with open(self.state / "chart.tgz", "r+b") as chart:
            chart.truncate((self.state / "chart.tgz").stat().st_size - 1)
        (self.state / "chart.tgz").rename(self.directory / f"gputopo-chart-{version}.tgz")
        self.refused(["10.96.0.1:5001/gpu/gputopo", "was not pushed", "refused"], "control", publish, self.directory, "10.96.0.1:5001/gpu")

        self.half_pushed(publish, project, version)
        told = self.went("control", publish, self.directory, project)
        same(sorted(self.listed("_catalog")["repositories"]), ["gpu/charts/gputopo", "gpu/gputopo", "gpu/gputopo-files"], "what is in the registry")

        for number in (1, 2):
            for name in self.cluster.ask(number, "ctr", "images", "list", "-q").split():
                if "gputopo" in name:
                    self.cluster.ask(number, "ctr", "images", "rm", "--sync", name)
        start = time.monotonic()
        command = next(line for line in told.splitlines() if line.startswith("helm install"))  # as it was told
        sets = [word for value in (*self.values, "agent.options.heartbeat=5") for word in ("--set", value)]
        self.went("control", *command.split(), *sets, "--ca-file", self.ca, "--wait", "--timeout=100s")
        until("8 GPUs on each node", lambda: self.chart.allocatable() == {"node1": "8", "node2": "8"} or (False, self.chart.allocatable()))
        seconds = time.monotonic() - start
        running = self.cluster.get("pods", "-n", NAMESPACE)["items"]
        images = {one["imageID"].split("@")[0] for item in running for one in item["status"]["containerStatuses"]}
        same(images, {f"{project}/gputopo"}, "where the pods' images come from")
        self.went("control", "helm", "upgrade", "gputopo", f"oci://{project}/charts/gputopo", "--version", version, "-n", NAMESPACE,
                  "--reuse-values", "--set", "agent.options.heartbeat=6", "--ca-file", self.ca, "--wait", "--timeout=100s")
        self.cluster.kubectl("rollout", "status", "daemonset/gputopo-agent", "-n", NAMESPACE, "--timeout=100s")
        same(self.chart.heartbeats(), {"6"}, "heartbeats after the upgrade")
        self.chart.helm("uninstall", "gputopo", "-n", NAMESPACE, "--wait", "--timeout=100s")
        self.without_network(version)
        return f"{seconds:.1f} s from `helm install oci://...` to 8 GPUs on two nodes"

    def half_pushed(self, publish, project, version):
        """The registry takes the image and cannot store the chart: nothing is installed of it, and the next push completes it."""
        blocked = self.state / "registry/docker/registry/v2/repositories/gpu/charts"
        blocked.parent.mkdir(parents=True, exist_ok=True)
        blocked.touch()
        self.refused([f"{project}/charts/gputopo:{version} was not pushed"], "control", publish, self.directory, project)
        done = self.run("control", "helm", "install", "gputopo", f"oci://{project}/charts/gputopo", "--version", version, "-n", NAMESPACE, "--ca-file", self.ca)
        same((done.returncode != 0, self.chart.helm("list", "-A", "-q").split()), (True, []), f"Helm without the chart: {done.stderr}")
        blocked.unlink()

    def without_network(self, version):
        """The release as one file: into a node's containerd, into a registry, into a directory."""
        carrier = self.state / "gputopo.run"
        self.went("control", RELEASE / "airgap", self.directory, carrier)
        damaged = self.state / "damaged.run"
        data = bytearray(carrier.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
        for verb in (["load"], ["push", f"{REGISTRY}/away"], ["extract", self.state / "damaged"]):
            self.refused(["damaged"], "control", "sh", damaged, *verb)
        self.went("control", "sh", carrier, "push", f"{REGISTRY}/away")
        same(self.listed("away/gputopo/tags/list")["tags"], [version], "tags in the second registry")
        self.went("control", "sh", carrier, "extract", self.state / "extracted")
        same(sorted(path.name for path in (self.state / "extracted").iterdir()),
             sorted([*(path.name for path in self.directory.iterdir()), "publish"]), "extracted files")
        for number in (1, 2):  # as they had it before
            self.cluster.ask(number, "sh", carrier, "load")
            if f"localhost/gputopo:{version}" not in self.cluster.ask(number, "ctr", "images", "list", "-q"):
                raise Failed(f"node{number} was not given the image")
