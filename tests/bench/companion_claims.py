#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Planned GPUs written into ResourceClaims: how many claims a second, and their cost. A real API server, the real
kube-scheduler and the claim controller of kube-controller-manager, no kubelet. All pods are gated, and their claims made, before
gputopo-scheduler starts; then the same without claims, in turn.

    companion_claims.py BUILD/bin [NODES [PODS [PAIRS]]]      (1,000, 1,000, 2)

The programs are looked for as in companion_jobs.py."""
import contextlib
import json
import os
import shutil
import sys
import time

from companion_api import NAMESPACE, RealServer, Watch
from companion_jobs import POD_GPUS, Bench, cpu_seconds, measure, started
from placement_driver import RESOURCE
from real_api import SEARCH

PATH = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaim"
CLAIMS, TEMPLATES = PATH + "s", PATH + "templates"
OF_POD = "gputopo-gpus"
TEMPLATE = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"{OF_POD}-{POD_GPUS}", "labels": {"app.kubernetes.io/managed-by": "gputopo-scheduler"}},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpus-0", "exactly": {
                "deviceClassName": "gpu.metax-tech.com", "allocationMode": "ExactCount", "count": POD_GPUS}}]}}}}
CLAIMS_S = 120


class ClaimWatch(Watch):
    PATH = CLAIMS

    def take(self, pod):
        """Of claims: `came`, and `bound` where they have devices."""
        now, name = time.monotonic(), pod["metadata"]["name"]
        self.version = pod["metadata"]["resourceVersion"]
        self.came.setdefault(name, now)
        if pod.get("status", {}).get("allocation"):
            self.bound.setdefault(name, now)


class ClaimBench(Bench):
    claims = False

    @contextlib.contextmanager
    def controller(self):
        """Makes the claims of pods, and removes them."""
        with self.scheduler("kube-controller-manager", "--kubeconfig", self.api.kubeconfig, "--leader-elect=false", "--secure-port=0",
                            "--controllers=resourceclaim-controller", "--kube-api-qps=5000", "--kube-api-burst=5000") as process:
            self.manager = process
            yield

    def job(self, *arguments, **how):
        """As the webhook would make its pods."""
        own, pods = super().job(*arguments, **how)
        for _, pod in pods if self.claims else ():
            pod["spec"]["resourceClaims"] = [{"name": OF_POD, "resourceClaimTemplateName": TEMPLATE["metadata"]["name"]}]
            resources = pod["spec"]["containers"][0]["resources"]
            del resources["limits"][RESOURCE]
            resources["claims"] = [{"name": OF_POD, "request": "gpus-0"}]
        return own, pods

    @contextlib.contextmanager
    def companion(self, part, *more):
        with contextlib.ExitStack() as stack:
            watch = stack.enter_context(contextlib.closing(ClaimWatch(self.api))) if self.claims else None
            stop = time.monotonic() + CLAIMS_S
            while self.claims and len(self.api.ask("GET", CLAIMS)["items"]) < self.count:
                if time.monotonic() > stop:
                    raise SystemExit("companion_claims.py: the controller has not made all claims")
                time.sleep(1)
            companion = stack.enter_context(super().companion(part, *more, *(["--claims=groups"] if self.claims else [])))
            used = {"API server": self.api.apiserver.pid, "claim controller": self.manager.pid, "gputopo-scheduler": companion.process.pid}
            used = {name: (pid, cpu_seconds(pid)) for name, pid in used.items()}
            yield companion
            if watch:
                times = sorted(watch.bound.values())
                self.written.append((len(times) - 1) / max(times[-1] - times[0], 1e-9))
                measure("  claims allocated", self.written[-1], "1/s")
                measure("  of claims", len(times), "", f">{self.count - 1}")
            for name, (pid, before) in used.items():
                self.used.setdefault((self.claims, name), []).append(1000 * (cpu_seconds(pid) - before) / self.count)

    def remove_claims(self):
        """Their pods are gone."""
        stop = time.monotonic() + CLAIMS_S
        while items := self.api.ask("GET", CLAIMS)["items"]:
            if time.monotonic() > stop:
                raise SystemExit(f"companion_claims.py: {len(items)} claims stay")
            connection = self.api.connect()
            for item in items:
                path = f"{CLAIMS}/{item['metadata']['name']}"
                for method, kind, body in (("PATCH", "merge-patch+json", {"metadata": {"finalizers": None}}), ("DELETE", "json", {})):
                    connection.request(method, path, json.dumps(body), {"Content-Type": f"application/{kind}"})
                    connection.getresponse().read()  # 404: the controller was first
            connection.close()

    def run_pairs(self, pairs):
        print(f"# A real API server with {self.nodes} Node objects of 8 GPUs on {os.cpu_count()} cores; {self.count} gated pods of {POD_GPUS} GPUs")
        self.api.fill(self.nodes, by_claims=True)
        self.api.ask("POST", TEMPLATES, TEMPLATE)
        self.written, self.used = [], {}
        with self.controller():
            for pair in range(pairs):
                for claims in (False, True) if pair % 2 == 0 else (True, False):
                    self.claims = claims
                    self.place(f"{'with' if claims else 'without'} claims, pair {pair + 1}", self.kube_scheduler, "placement", True)
                    self.remove_claims()
        measure("claims allocated, mean", sum(self.written) / len(self.written), "1/s")
        for name in ("API server", "claim controller", "gputopo-scheduler"):
            with_, without = (sum(self.used[claims, name]) / pairs for claims in (True, False))
            measure(f"CPU of {name}, a pod: without claims", without, "ms")
            measure("  with claims", with_, "ms")


def main():
    numbers = [int(n) for n in sys.argv[2:]]
    if not 1 < len(sys.argv) < 6 or not os.path.exists(os.path.join(sys.argv[1], "gputopo-scheduler")):
        sys.stderr.write("usage: companion_claims.py DIRECTORY-OF-THE-PROGRAMS [NODES [PODS [PAIRS]]] (a release build)\n")
        sys.exit(2)
    if not RealServer.is_there() or not all(shutil.which(name, path=SEARCH) for name in ("kube-scheduler", "kube-controller-manager")):
        print("skipped\tclaims: a program of Kubernetes or etcd is not there (./dev e2e builds them)")
        return
    nodes, pods, pairs = numbers + [1000, 1000, 2][len(numbers):]
    with started(ClaimBench, sys.argv[1], nodes, pods) as bench:
        bench.run_pairs(pairs)


if __name__ == "__main__":
    main()
