#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What gputopo-agent publishes, against the double of the API server.

Usage: test_publish.py GPUTOPO_AGENT [unittest arguments]
"""

import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema
import side_by_side
from api_double import Status, StrictDouble
from kube_driver import kubeconfig
from kubelet_double import KubeletDouble
from crds import status_schema
from daemon_driver import PATIENCE, wait_for
from publish_driver import MACHINES, Agent

AGENT = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
NODES = "/api/v1/nodes"
TOPOLOGIES = "/apis/topology.metax-tech.com/v1alpha1/nodegputopologies"
LABELS = {"metax-tech.com/gpu.family": "MXC", "metax-tech.com/gpu.memory": "64GB",
          "metax-tech.com/gpu.product": "MXC500"}
LOSSES, SCORES = "metax-tech.com/gpu.topology.losses", "metax-tech.com/gpu.topology.scores"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificates = tempfile.mkdtemp(prefix="gputopo-publish-")
        cls.addClassCleanup(shutil.rmtree, cls.certificates, ignore_errors=True)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gputopo-publish-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.api = StrictDouble(self.certificates, tokens=("token-1",))
        self.addCleanup(self.api.stop)
        self.api.add(NODES, "n1")
        self.dev = f"{self.directory}/dev"
        os.makedirs(f"{self.dev}/dri")
        for name in ["mxcd", *(f"dri/card{i}" for i in range(16)), *(f"dri/renderD{128 + i}" for i in range(16))]:
            with open(f"{self.dev}/{name}", "w", encoding="ascii"):
                pass

    def start(self, *arguments, machine="c500-8", user="token: token-1", node="n1", env=None):
        config = kubeconfig(f"{self.directory}/config", self.api.url,
                            f"certificate-authority: {self.certificates}/ca.crt", user)
        agent = Agent(AGENT, self.directory, "--from", f"{MACHINES}/{machine}.json", "--dev-root", self.dev,
                      "--kubeconfig", config, *arguments, node=node, env=env)
        self.addCleanup(self.end, agent)
        return agent

    def end(self, agent):
        code = agent.stop()
        if code:
            raise AssertionError(f"{code}: {agent.lines}")

    def kubelet(self):
        kubelet = KubeletDouble(self.directory)
        kubelet.start()
        self.addCleanup(kubelet.stop, leave_socket=False)
        return kubelet

    def object(self, name="n1"):
        with self.api.lock:
            found = self.api.objects.get((self.api.place(TOPOLOGIES)[0], name))
            return copy.deepcopy(found)

    def status(self):
        return (self.object() or {}).get("status", {})

    def condition(self, kind):
        return next((c for c in self.status().get("conditions", []) if c["type"] == kind), {})

    def node(self):
        with self.api.lock:
            return copy.deepcopy(self.api.objects[self.api.place(NODES)[0], "n1"])

    def expect(self, kind, status, reason, message):
        """A condition comes to say this; the message is a part of its own."""
        wait_for(lambda: self.condition(kind).get("reason") == reason)
        told = self.condition(kind)
        self.assertEqual((told.get("status"), told.get("reason")), (status, reason), self.status().get("conditions"))
        self.assertIn(message, told["message"])

    @staticmethod
    def recorded():
        with open(f"{MACHINES}/c500-8.json", encoding="utf-8") as file:
            return json.load(file)

    def write(self, node):
        """A file for --from, in place of the one before."""
        path = f"{self.directory}/node.json"
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(node if isinstance(node, str) else json.dumps(node))
        os.rename(path + ".new", path)
        return path

    def writes(self, manager=None, path=None):
        return [r for r in self.api.asked(method="PATCH")
                if (manager is None or r.query["fieldManager"] == manager) and (path is None or path in r.path)]

    def wait_current(self, agent):
        self.assertTrue(wait_for(agent.is_current), agent.lines)

    def events(self):
        with self.api.lock:
            return [copy.deepcopy(o) for (where, _), o in self.api.objects.items() if where[2] == "events"]

    def event(self, reason, seconds=PATIENCE):
        found = wait_for(lambda: [e for e in self.events() if e["reason"] == reason], seconds)
        self.assertTrue(found, f"{reason}: {[e['reason'] for e in self.events()]}")
        self.assertEqual(found[0]["regarding"], {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"})
        return found[0]

    def start_with_use(self, *arguments):
        """An agent whose kubelet has told who uses what."""
        kubelet = self.kubelet()
        agent = self.start(*arguments)
        self.assertTrue(wait_for(lambda: self.status().get("freeCount") == 8), agent.lines)
        self.wait_current(agent)
        return kubelet, agent


class Cables(Case):
    """Which switch a port is connected to, as the node's lldpd has it saved."""

    def test_a_file_that_changes(self):
        subprocess.run([f"{MACHINES}/make-machine", f"{MACHINES}/specs/c500-8.json", f"{self.directory}/machine"], check=True)
        root = pathlib.Path(f"{self.directory}/machine/root")
        port, = root.glob("sys/bus/pci/devices/*/infiniband/mlx5_0")
        (port.parents[1] / "net/eth7").mkdir(parents=True)
        file = root / "run/gputopo/lldp.json"
        file.parent.mkdir(parents=True)

        def save(text):
            file.with_name(".lldp").write_text(text)
            file.with_name(".lldp").rename(file)

        def neighbour(switch):
            return json.dumps({"lldp": [{"interface": [{"name": "eth7", "chassis": [{"name": [{"value": switch}]}],
                                                        "port": [{"id": [{"type": "ifname", "value": "swp7"}]}]}]}]})

        def becomes(*switches):
            agent.hangup()
            want = [{"port": "mlx5_0", "switch": switch, "switchPort": "swp7"} for switch in switches]
            self.assertTrue(wait_for(lambda: self.status().get("network", []) == want), (self.status().get("network"), agent.lines))
        save(neighbour("leaf-1"))
        config = kubeconfig(f"{self.directory}/config", self.api.url, f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")
        agent = Agent(AGENT, self.directory, "--root", str(root), "--probe", "none", "--dev-root", self.dev, "--kubeconfig", config, node="n1")
        self.addCleanup(self.end, agent)
        self.assertTrue(wait_for(lambda: self.status().get("network")), agent.lines)
        becomes("leaf-1")
        save(neighbour("leaf-2"))
        becomes("leaf-2")
        save(neighbour("leaf-3")[:40])
        becomes()
        told, = [one["why"] for one in self.status()["missing"] if one["what"] == "LLDP neighbours"]
        self.assertIn("run/gputopo/lldp.json: line 1", told)
        save(neighbour("leaf-1"))
        becomes("leaf-1")


class First(Case):
    def test_first_publish(self):
        born = time.monotonic()
        self.kubelet()
        agent = self.start()
        self.assertTrue(wait_for(lambda: self.condition("Registered").get("status") == "True"), agent.lines)
        self.assertTrue(wait_for(lambda: SCORES in self.node()["metadata"].get("annotations", {})))
        self.wait_current(agent)
        node = self.node()["metadata"]
        self.assertEqual(self.object()["metadata"]["ownerReferences"],
                         [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["uid"]}])
        self.assertEqual(node["labels"], LABELS)
        for name in (LOSSES, SCORES):
            values = json.loads(node["annotations"][name])
            self.assertEqual(list(values), [str(k) for k in range(1, 9)])
            self.assertTrue(all(isinstance(v, int) and 0 <= v < 2000 for v in values.values()), values)
        said = {c["type"]: c["status"] for c in self.status()["conditions"]}
        if time.monotonic() - born < 9:  # its answers settle for ten seconds
            self.assertEqual(said.pop("UsageKnown"), "False")
        said.pop("UsageKnown", None)
        self.assertEqual(said, {"Discovered": "True", "VendorLibrary": "True", "Registered": "True", "LinksHealthy": "True",
                                "NUMAAlignment": "Unknown", "GPUsHealthy": "True"})
        healthy, = [c for c in self.node()["status"]["conditions"] if c["type"] == "MetaXGPUHealthy"]
        self.assertEqual((healthy["status"], healthy["reason"], healthy["message"]), ("True", "AllHealthy", "all 8 GPUs are healthy"))
        told = []  # as a rule once, since the registration is waited for; never twice the same
        for write in self.writes("gputopo-agent", "/status"):
            told.append({**json.loads(write.body)["status"], "observedAt": None})
            self.assertNotIn(told[-1], told[:-1])

    def test_every_machine_fits_the_schema(self):
        validator = jsonschema.Draft4Validator(status_schema("nodegputopologies"))
        for machine in ("c500-4", "c500-8", "c500-8-deadlink", "c500-8-nolib", "c550-8"):
            with self.subTest(machine):
                if self.object():
                    self.api.remove(TOPOLOGIES, "n1")
                agent = self.start("--no-device-plugin", "--heartbeat", "5", machine=machine)
                self.assertTrue(wait_for(lambda: "observedAt" in self.status()), agent.lines)
                status = self.status()
                self.assertEqual(list(validator.iter_errors(status)), [])
                self.assertEqual(status["name"], "n1")
                self.assertEqual((status["gpuCount"], status["healthyCount"]),
                                 (len(status["gpus"]), sum(g["health"] == "healthy" for g in status["gpus"])))
                links = self.condition("LinksHealthy")["status"]
                self.assertEqual(links, {"c500-8-deadlink": "False", "c500-8-nolib": "Unknown"}.get(machine, "True"))
                self.end(agent)

    def test_annotations_only(self):
        """Of the Node, and its labels; neither is the custom resource asked for, nor missed."""
        kubelet = self.kubelet()
        agent = self.start("--publish=annotations", "--heartbeat=1")
        self.assertTrue(wait_for(lambda: self.node()["metadata"].get("labels") == LABELS), agent.lines)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.wait_current(agent)
        self.assertEqual(set(self.node()["metadata"]["annotations"]), {LOSSES, SCORES})
        self.assertTrue(wait_for(lambda: len(self.writes(path=NODES)) > 4))
        self.assertEqual([r.path for r in self.api.asked() if "nodegputopologies" in r.path], [])
        self.assertIsNone(self.object())
        self.assertEqual(agent.events("cannot publish"), [])

    def test_annotations_only_of_no_gpu(self):
        """What an agent before this one wrote is taken back, though no object tells of it."""
        agent = self.start("--publish=annotations")
        self.assertTrue(wait_for(lambda: LOSSES in self.node()["metadata"].get("annotations", {}) and
                                 self.node()["metadata"].get("labels") == LABELS), agent.lines)
        self.end(agent)
        agent = self.start("--publish=annotations", "--from", self.write({"gpus": [], "pairs": []}))
        self.assertTrue(wait_for(lambda: not self.node()["metadata"].get("annotations") and
                                 not self.node()["metadata"].get("labels")), agent.lines)

    def test_no_credentials(self):
        for arguments, why in ((["--no-publish"], "--no-publish"), (["--publish=none"], "--publish=none"), ([], "not in a pod")):
            env = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
            agent = Agent(AGENT, self.directory, "--from", f"{MACHINES}/c500-8.json", *arguments, env=env)
            self.addCleanup(agent.stop)
            started = wait_for(lambda agent=agent: agent.events("gputopo-agent started"))
            self.assertIn(why, started[0]["publish"])
            self.assertFalse([name for name in agent.metrics() if "publish" in name])

    def goes_on_without(self, why, *arguments, env=None, mend):
        """An agent that cannot use the API server does all the rest, and finds it when it can."""
        warning = "the API server cannot be used, going on without"
        kubelet = self.kubelet()
        agent = self.start("--log-level=debug", *arguments, env=env)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertTrue(wait_for(lambda: len(agent.events(warning)) > 1), agent.lines)
        self.assertEqual(agent.metrics()["gputopo_api_server_known"], 0)
        levels = [event["level"] for event in agent.events(warning)]
        self.assertEqual(levels, ["warning"] + ["debug"] * (len(levels) - 1))
        self.assertIn(why, agent.events(warning)[0]["why"])
        self.assertIn(why, agent.events("gputopo-agent started")[0]["publish"])
        self.assertEqual(self.api.requests, [])
        mend()
        self.assertTrue(wait_for(lambda: "observedAt" in self.status()), agent.lines)
        self.assertEqual(agent.metrics()["gputopo_api_server_known"], 1)

    def test_a_kubeconfig_that_comes_later(self):
        late = f"{self.directory}/late"
        self.goes_on_without("late", "--kubeconfig", late,
                             mend=lambda: shutil.copy(f"{self.directory}/config", late))

    def test_a_kubeconfig_that_is_none(self):
        late = f"{self.directory}/late"
        with open(late, "w", encoding="ascii") as file:
            file.write("clusters: [")
        self.goes_on_without("late", "--kubeconfig", late,
                             mend=lambda: shutil.copy(f"{self.directory}/config", late))

    def test_no_http_client_library(self):
        if b"libcurl" in subprocess.run(["ldd", AGENT], capture_output=True, check=True).stdout:
            self.skipTest("built with AddressSanitizer, the agent is linked with libcurl (kube/CMakeLists.txt)")
        fake = f"{self.directory}/lib"
        os.makedirs(fake)
        with open(f"{fake}/libcurl-gnutls.so.4", "wb"):
            pass
        self.goes_on_without("libcurl-gnutls.so.4", env={"LD_LIBRARY_PATH": fake},
                             mend=lambda: os.unlink(f"{fake}/libcurl-gnutls.so.4"))

    def test_times_of_conditions_outlive_the_agent(self):
        agent = self.start("--no-device-plugin")
        self.wait_current(agent)
        since = self.condition("Discovered")["lastTransitionTime"]
        self.end(agent)
        time.sleep(1.1)
        observed = self.status()["observedAt"]
        self.start("--no-device-plugin")
        self.assertTrue(wait_for(lambda: self.status()["observedAt"] != observed))
        self.assertEqual(self.condition("Discovered")["lastTransitionTime"], since)


class Told(Case):
    """Events about the Node, for people."""

    def start_changing(self, *arguments):
        """An agent on a machine's file, and a function that changes the node in it."""
        node = self.recorded()["node"]

        def change(gpus=(), links=()):
            changed = copy.deepcopy(node)
            for i in gpus:
                changed["gpus"][i].update(healthy=False, unhealthyReason="too hot")
            for link in changed["links"]:
                if (link["a"], link["b"]) in links:
                    link["state"] = "down"
            return self.write(changed)
        agent = self.start("--from", change(), *arguments)
        self.assertTrue(wait_for(lambda: agent.events("registered")), agent.lines)

        def again(**what):
            change(**what)
            agent.hangup()
        return agent, again, [(link["a"], link["b"]) for link in node["links"] if link["kind"] == "MX"], node["gpus"]

    def test_health_and_links(self):
        self.kubelet()
        _, again, direct, gpus = self.start_changing()
        again(gpus=[2, 3], links=direct[:2])
        unhealthy, down = self.event("GPUUnhealthy"), self.event("LinkDown")
        self.assertEqual((unhealthy["type"], down["type"]), ("Warning", "Warning"))
        for i in (2, 3):
            self.assertIn(f"{gpus[i]['uuid']} at {gpus[i]['bdf']} (too hot)", unhealthy["note"])
        a, b = (gpus[i]["bdf"] for i in direct[1])
        self.assertIn(f"{a} - {b}", down["note"])
        again()
        self.assertEqual((self.event("GPURecovered")["type"], self.event("LinkUp")["type"]), ("Normal", "Normal"))
        self.assertEqual(len(self.events()), 4, "one for each thing that happened")

    def test_a_kubelet_that_refuses(self):
        kubelet = self.kubelet()
        kubelet.refuse = 3
        agent, _, _, _ = self.start_changing()
        event = self.event("PluginNotRegistered")
        self.assertIn("metax-tech.com/gpu", event["note"])
        self.assertEqual(self.event("PluginRegistered")["type"], "Normal")
        self.assertEqual(len(self.events()), 2, agent.lines)
        self.assertTrue(wait_for(lambda: agent.metrics()['gputopo_events_total{result="written"}'] == 2))

    def test_a_gpu_is_lost_and_one_is_held_twice(self):
        before, without = self.recorded()["node"], self.recorded()["node"]
        kubelet, agent = self.start_with_use("--from", self.write(before))
        gone = without["gpus"].pop()
        without["links"] = [link for link in without["links"] if 7 not in (link["a"], link["b"])]
        for nic in without["nics"]:
            nic["locality"].pop()
        for node, reason, kind, condition in (
                (without, "GPULost", "Warning", ("False", "GPULost", "7 GPUs are there, 1 that were are not any more")),
                (before, "GPUBack", "Normal", ("True", "Scanned", "8 GPUs and 6 network adapters are found"))):
            self.write(node)
            agent.hangup()
            event = self.event(reason)
            self.assertEqual(event["type"], kind)
            self.assertIn(f"{gone['uuid']} at {gone['bdf']}", event["note"])
            self.expect("Discovered", *condition)
        kubelet.admit("mine", 1)
        kubelet.book.extra = [("other", "thief", "c", "metax-tech.com/gpu", kubelet.used())]
        self.assertRegex(self.event("GPUHeldTwice")["note"],
                         "^two containers hold the GPU GPU-[0-9a-f-]{36}, one of them in pod (default/mine|other/thief)$")

    def test_a_kubelet_that_says_no_more_who_uses_what(self):
        kubelet = self.kubelet()
        kubelet.book.unavailable = True
        agent = self.start()
        self.expect("UsageKnown", "False", "NotKnown",
                    "the kubelet has not said yet who uses the GPUs: pod-resources: UNAVAILABLE")
        kubelet.book.unavailable = False
        self.expect("UsageKnown", "True", "Answering", "the kubelet says who uses the GPUs")
        kubelet.book.hang = 1000.0
        self.assertIn("the kubelet has not said for a minute who uses the GPUs: pod-resources: DEADLINE_EXCEEDED",
                      self.event("GPUUsageUnknown", 3 * PATIENCE)["note"])
        self.expect("UsageKnown", "False", "Stale",
                    "who uses the GPUs, what is free is of then: pod-resources: DEADLINE_EXCEEDED")
        self.assertEqual(agent.metrics()["gputopo_usage_known"], 0)


class SharedGpus(Case):
    """The annotation that the vendor's plugin writes in sGPU mode; the kubelet's word: test_agent_usage.py."""

    SHARES = {"metax-tech.com/node-gpu-devices": '[{"uuid": "GPU-1", "totalDevCount": 16}]'}

    def test_annotated_before(self):
        self.api.add(NODES, "n1", metadata={"annotations": dict(self.SHARES)})
        kubelet = self.kubelet()
        agent = self.start()
        self.expect("Registered", "False", "NotAdvertised", "the Node has the annotation metax-tech.com/node-gpu-devices")
        self.assertEqual({gpu["mode"] for gpu in self.status()["gpus"]}, {"sgpu"})
        self.assertEqual(kubelet.registrations, [], agent.lines)
        self.assertNotIn(SCORES, self.node()["metadata"]["annotations"], "they are the vendor's to write")
        self.assertIn("annotation", self.event("GPUsShared")["note"])

    def test_annotated_later(self):
        self.api.add(NODES, "n1", metadata={"annotations": {**self.SHARES, "metax-tech.com/node-gpu-devices": "[ ]"}})
        kubelet, agent = self.start_with_use()
        self.assertEqual(len(kubelet.healthy()), 8, "an empty list names no GPU")
        self.api.add(NODES, "n1", metadata={"annotations": dict(self.SHARES)})
        agent.hangup()
        self.assertTrue(kubelet.wait(lambda: not kubelet.healthy()), agent.lines)
        self.assertTrue(wait_for(lambda: self.status().get("freeCount") == 0), "nor is anything planned there")


class KubeletConfiguration(Case):
    """What the kubelet says of itself through the API server (--kubelet-configz); files: unit/kubelet_config."""

    def said(self):
        return self.status().get("kubelet", {})

    def test_it_is_asked_where_that_is_switched_on(self):
        self.kubelet()
        self.api.configz["n1"] = {"kubeletconfig": {"topologyManagerPolicy": "single-numa-node", "cpuManagerPolicy": "static"}}
        agent = self.start("--no-device-plugin")
        self.assertTrue(wait_for(agent.is_current), agent.lines)
        self.assertNotIn("single-numa-node", str(self.said()), "off by default")
        self.end(agent)
        agent = self.start("--no-device-plugin", "--kubelet-configz")
        self.assertTrue(wait_for(lambda: self.said().get("topologyManagerPolicy") == "single-numa-node"), (self.said(), agent.lines))
        self.assertEqual((self.said()["topologyManagerScope"], self.said()["cpuManagerPolicy"]), ("container", "static"))
        self.api.configz["n1"] = {"kubeletconfig": {"topologyManagerPolicy": "restricted"}}
        agent.hangup()
        self.assertTrue(wait_for(lambda: self.said().get("topologyManagerPolicy") == "restricted"), (self.said(), agent.lines))
        self.api.configz["n1"] = {"kubeletconfig": {"topologyManagerPolicy": "strict"}}
        agent.hangup()
        self.expect("NUMAAlignment", "Unknown", "PolicyUnknown", 'topologyManagerPolicy: "strict" does not exist')

    def test_what_numa_nodes_have(self):
        """Beside the policies from the kubelet's own file."""
        subprocess.run([f"{MACHINES}/make-machine", f"{MACHINES}/specs/c500-8.json", f"{self.directory}/machine"], check=True)
        with open(f"{self.directory}/kubelet.yaml", "w", encoding="ascii") as file:
            file.write("topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\ncpuManagerPolicy: static\n")
        config = kubeconfig(f"{self.directory}/config", self.api.url, f"certificate-authority: {self.certificates}/ca.crt", "token: token-1")
        agent = Agent(AGENT, self.directory, "--root", f"{self.directory}/machine/root", "--probe", "none", "--dev-root", self.dev,
                      "--kubeconfig", config, "--no-device-plugin", "--kubelet-config", f"{self.directory}/kubelet.yaml", node="n1")
        self.addCleanup(self.end, agent)
        self.assertTrue(wait_for(self.said), agent.lines)
        self.assertEqual(self.status().get("numaNodes"), [{"id": 0, "cpus": "0-31,64-95", "memoryBytes": 256 << 30},
                                                          {"id": 1, "cpus": "32-63,96-127", "memoryBytes": 256 << 30}])
        self.assertEqual(self.said(), {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod", "cpuManagerPolicy": "static",
                                       "source": f"{self.directory}/kubelet.yaml"})

    def test_where_it_may_not_be_asked(self):
        """The file counts; without one it is not known, and both the log and the object say why."""
        self.kubelet()
        agent = self.start("--no-device-plugin", "--kubelet-configz")
        self.expect("NUMAAlignment", "Unknown", "PolicyUnknown", 'nodes "n1" is forbidden: cannot get resource "nodes/proxy"')
        self.end(agent)
        with open(f"{self.directory}/config.yaml", "w", encoding="ascii") as file:
            file.write("kind: KubeletConfiguration\ntopologyManagerPolicy: restricted\n")
        agent = self.start("--no-device-plugin", "--kubelet-configz")
        self.assertTrue(wait_for(lambda: self.said().get("topologyManagerPolicy") == "restricted"), (self.said(), agent.lines))


class Conditions(Case):
    """Reasons that docs/reference/reasons.md lists."""

    def test_direct_links(self):
        for topology, port, expected in (
                (4, 5, ("True", "NoDirectLinks", "the GPUs have no direct links")),  # PCIe alone, and no port in use
                (5, None, ("Unknown", "StateUnknown", "the state of 12 of 12 direct links is not known"))):
            recording = self.recorded()
            for call in recording["raw"]["vendor"]["calls"]:
                if call["call"] == "mxSmlGetDeviceTopology" and call["value"] == 5:  # MetaXLink
                    call["value"] = topology
                elif call["call"] == "mxSmlGetMetaXLinkPortState":
                    call.update({"rc": 0, "value": [port] * 7} if port else {"rc": 2})
            with self.subTest(expected):
                agent = self.start("--no-device-plugin", "--from", self.write(recording))
                self.expect("LinksHealthy", *expected)
                self.end(agent)

    def test_what_is_not_registered(self):
        kubelet = self.kubelet()
        kubelet.hang, kubelet.refuse = 1000.0, 1000
        agent = self.start("--from", self.write(self.recorded()["node"]))
        self.expect("Registered", "False", "NotRegistered", "the kubelet has not taken the GPUs in yet")
        kubelet.hang = 0.0
        self.expect("Registered", "False", "RegistrationFailed", "refused by the test")
        split = self.recorded()["node"]
        split["gpus"][0]["mode"] = "vf"
        nothing = {"gpus": [], "pairs": []}
        for node, kind, expected in (
                (split, "Registered",
                 ("False", "NotAdvertised", "a GPU is split into virtual functions, which the vendor's device plugin serves")),
                (nothing, "Registered", ("False", "NoGPU", "there is no GPU to register")),
                (nothing, "Discovered", ("False", "NoGPU", "no GPU is found on this node")),
                (nothing, "VendorLibrary", ("Unknown", "NoGPU", "there is no GPU to ask about")),
                ("bad", "Discovered", ("False", "ScanFailed", "node.json: no matrix was found: expected"))):
            self.write(node)
            agent.hangup()
            self.expect(kind, *expected)
        self.end(agent)
        self.start("--from", self.write(self.recorded()["node"]), "--no-device-plugin")
        self.expect("Registered", "False", "NoDevicePlugin", "the agent runs without its device plugin")

    def test_without_the_library(self):
        self.start("--no-device-plugin", machine="c500-8-nolib")
        self.expect("VendorLibrary", "False", "NotAnswering", "no libmxsml.so in ")
        self.expect("LinksHealthy", "Unknown", "NotKnown", "without the vendor library direct links are not known")


class Change(Case):
    def test_change_of_use_is_sent_alone(self):
        kubelet, _ = self.start_with_use()
        before = len(self.api.requests)
        kubelet.admit("train", 4)
        self.assertTrue(wait_for(lambda: self.status().get("freeCount") == 4))
        self.assertTrue(wait_for(lambda: len(self.api.requests) == before + 2))
        annotations, usage = sorted(self.api.requests[before:], key=lambda r: r.path)
        self.assertEqual((usage.query["fieldManager"], annotations.path), ("gputopo-agent-usage", NODES + "/n1"))
        self.assertLess(len(usage.body), 1000)
        status = self.status()
        self.assertEqual([(o["gpu"], o["pod"]) for o in status["owners"]],
                         [(i, "train") for i in range(8) if i not in status["free"]])
        self.assertEqual(len(status["scoreByCount"]), 4)
        kubelet.release("train")
        self.assertTrue(wait_for(lambda: self.status()["freeCount"] == 8))
        self.assertEqual(self.status()["owners"], [])
        self.assertTrue(wait_for(lambda: len(self.api.requests) >= before + 4))
        self.assertEqual(len(self.api.requests), before + 4, "two for each change, and nothing in between")

    def test_no_change_no_write(self):
        _, agent = self.start_with_use()
        before, listed = len(self.writes()), agent.metrics()['gputopo_podresources_lists_total{result="done"}']
        self.assertTrue(wait_for(lambda: agent.metrics()['gputopo_podresources_lists_total{result="done"}'] >= listed + 3))
        self.assertEqual(len(self.writes()), before, agent.lines)

    def test_heartbeat(self):
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        observed = {self.status()["observedAt"]}
        begun = time.monotonic()
        self.assertTrue(wait_for(lambda: observed.add(self.status()["observedAt"]) or len(observed) == 5))
        self.assertGreater(time.monotonic() - begun, 4, "every two seconds, whole ones are told, and the first was there")

    def test_hand_edits_are_put_right(self):
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        mine = self.object()
        self.api.add(TOPOLOGIES, "n1", status={**mine["status"], "gpuCount": 77, "links": []})
        self.assertTrue(wait_for(lambda: self.status()["gpuCount"] == 8 and self.status()["links"]))


class Faults(Case):
    def test_away_and_back(self):
        kubelet, agent = self.start_with_use()
        self.api.stop()
        kubelet.admit("one", 2)
        time.sleep(4)
        kubelet.admit("two", 2)
        self.assertTrue(wait_for(lambda: len(agent.events("GPUs in use")) == 2))
        time.sleep(2)
        before = len(self.api.requests)
        self.api.start()
        self.assertTrue(wait_for(lambda: self.status()["freeCount"] == 4), agent.lines)
        self.wait_current(agent)
        time.sleep(2)
        self.assertEqual([r.query["fieldManager"] for r in self.api.requests[before:] if "fieldManager" in r.query],
                         ["gputopo-agent-usage", "gputopo-agent"])

    def test_silent_for_long(self):
        agent = self.start("--no-device-plugin")
        self.api.stop()
        said = wait_for(lambda: agent.events("the API server does not answer, what is published stays"), 2 * PATIENCE)
        self.assertEqual(len(said), 1)
        self.assertEqual(agent.metrics()["gputopo_publish_away"], 1)
        self.api.start()
        self.assertTrue(wait_for(lambda: agent.events("the API server answers again"), 2 * PATIENCE))
        self.wait_current(agent)

    def test_token_is_renewed(self):
        token = f"{self.directory}/token"
        with open(token, "w", encoding="ascii") as file:
            file.write("token-1")
        agent = self.start("--no-device-plugin", "--heartbeat", "2", user=f"tokenFile: {token}")
        self.wait_current(agent)
        with open(token, "w", encoding="ascii") as file:
            file.write("token-2")
        self.api.tokens = {"token-2"}
        observed = self.status()["observedAt"]
        self.assertTrue(wait_for(lambda: self.status()["observedAt"] != observed), agent.lines)
        self.assertEqual(agent.metrics()["gputopo_publish_unauthorized_total"], 1)
        self.assertFalse(agent.events("cannot publish"))

    def test_token_expires_and_comes_back(self):
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        self.api.tokens = set()
        self.assertTrue(wait_for(lambda: agent.metrics()["gputopo_publish_away"] == 1))
        before, begun = len(self.api.requests), time.monotonic()
        time.sleep(5)
        self.assertLess(len(self.api.requests) - before, 3 + time.monotonic() - begun)
        self.api.tokens = {"token-1"}
        observed = self.status()["observedAt"]
        self.assertTrue(wait_for(lambda: self.status()["observedAt"] != observed), agent.lines)

    def test_labels_while_the_library_does_not_answer(self):
        recorded = self.recorded()
        agent = self.start("--no-device-plugin", "--from", self.write(recorded))
        self.assertTrue(wait_for(lambda: self.node()["metadata"].get("labels") == LABELS), agent.lines)
        for call in recorded["raw"]["vendor"]["calls"]:
            if (call["call"], call["args"]) in (("mxSmlGetDeviceInfo", [3]), ("mxSmlGetMemoryInfo", [5])):
                del call["rc"], call["value"]
                call["error"] = "timeout"
        for silent in (False, True):
            if silent:
                del recorded["raw"]["vendor"]
            self.write(recorded)
            said = len(agent.events("cannot read"))
            agent.hangup()
            self.assertTrue(wait_for(lambda n=said: len(agent.events("cannot read")) > n), agent.lines)
            self.wait_current(agent)
            self.assertEqual(self.node()["metadata"]["labels"], LABELS)

    def test_labels_of_others(self):
        where = self.api.place(NODES)[0], "n1"
        self.api.add(NODES, "n1", metadata={"labels": {"metax-tech.com/gpu.product": "theirs"}})
        self.api.owners[where] = {("metadata", "labels", "metax-tech.com/gpu.product"): {"gpu-operator"}}
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.assertTrue(wait_for(lambda: len(self.node()["metadata"]["labels"]) == 3))
        self.assertEqual(self.node()["metadata"]["labels"], {**LABELS, "metax-tech.com/gpu.product": "theirs"})
        for _ in range(2):
            observed = self.status()["observedAt"]
            self.assertTrue(wait_for(lambda before=observed: self.status()["observedAt"] != before), agent.lines)
        said = agent.events("a label of the Node is somebody else's, left to them")
        self.assertEqual([line["label"] for line in said], ["metax-tech.com/gpu.product"])

    def test_forbidden(self):
        self.api.fail(Status(403, "the policy says no"), times=1000, path=r"nodegputopologies/n1/status$")
        agent = self.start("--no-device-plugin")
        self.assertTrue(wait_for(lambda: "annotations" in self.node()["metadata"]))
        self.assertTrue(wait_for(lambda: len(self.writes(path="nodegputopologies/n1/status")) >= 4), "it is not tried again")
        times = [write.at for write in self.writes(path="nodegputopologies/n1/status")]
        self.assertGreater(times[3] - times[0], 3, "with pauses that grow from half a second")
        self.assertTrue(wait_for(lambda: agent.events("cannot publish")))
        said = agent.events("cannot publish")
        self.assertEqual(len(said), 1, said)
        self.assertIn("the policy says no", said[0]["why"])
        self.assertEqual(agent.metrics()["gputopo_publish_current"], 0)

    def test_no_custom_resource(self):
        self.api.fail(Status(404, "the server could not find the requested resource"), times=2,
                      path="nodegputopologies")
        agent = self.start("--no-device-plugin")
        self.assertTrue(wait_for(lambda: "observedAt" in self.status()), agent.lines)

    def test_told_to_wait(self):
        self.api.fail(Status(429, headers={"Retry-After": "3"}), path=r"nodegputopologies/n1/status$")
        self.start("--no-device-plugin")
        self.assertTrue(wait_for(lambda: len(self.writes(path="nodegputopologies/n1/status")) == 2))
        first, second = self.writes(path="nodegputopologies/n1/status")
        self.assertGreaterEqual(second.at - first.at, 3)

    def test_object_deleted(self):
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        old = self.object()["metadata"]["uid"]
        self.api.remove(TOPOLOGIES, "n1")
        self.assertTrue(wait_for(lambda: "observedAt" in self.status()), agent.lines)
        self.assertNotEqual(self.object()["metadata"]["uid"], old)
        self.assertTrue(self.object()["metadata"]["ownerReferences"])

    def test_object_deleted_and_asked_for(self):
        agent = self.start("--no-device-plugin")
        self.wait_current(agent)
        self.api.remove(TOPOLOGIES, "n1")
        agent.hangup()
        self.assertTrue(wait_for(lambda: "observedAt" in self.status()), agent.lines)

    def test_node_deleted(self):
        agent = self.start("--no-device-plugin", "--heartbeat", "2")
        self.wait_current(agent)
        self.api.remove(NODES, "n1")
        self.api.remove(TOPOLOGIES, "n1")  # the garbage collector's part
        gone = "there is no such Node, nothing is published until there is"
        self.assertTrue(wait_for(lambda: agent.events(gone)), agent.lines)
        before = len(self.writes())
        time.sleep(5)
        self.assertEqual(len(self.writes()), before)
        self.assertIsNone(self.object())
        self.assertEqual(len(agent.events(gone)), 1)
        self.api.add(NODES, "n1")  # another one of the same name
        self.assertTrue(wait_for(lambda: "observedAt" in self.status()), agent.lines)
        self.assertEqual(self.object()["metadata"]["ownerReferences"][0]["uid"], self.node()["metadata"]["uid"])
        self.assertTrue(wait_for(lambda: SCORES in self.node()["metadata"].get("annotations", {})))

    def test_many_agents_and_a_sick_server(self):
        count = int(os.environ.get("GPUTOPO_TEST_AGENTS", "10"))
        agents = []
        for i in range(count):
            self.api.add(NODES, f"m{i}")
            agents.append(self.start("--no-device-plugin", "--heartbeat", "3", node=f"m{i}"))
        for agent in agents:
            self.wait_current(agent)
        self.api.fail(Status(503), times=100000)
        began, before = time.monotonic(), len(self.api.requests)
        time.sleep(30)
        asked = len(self.api.requests) - before
        rate = asked / count / (time.monotonic() - began)
        print(f"{count} agents, a server that says 503 for 30 s: {rate:.2f} requests a second and agent")
        self.assertLess(rate, 0.6)
        with self.api.lock:
            self.api.faults.clear()
        stamps = {i: self.object(f"m{i}")["status"]["observedAt"] for i in range(count)}
        for i, stamp in stamps.items():
            self.assertTrue(wait_for(
                lambda i=i, stamp=stamp: self.object(f"m{i}")["status"]["observedAt"] != stamp, 60))


if __name__ == "__main__":
    side_by_side.main(6)
