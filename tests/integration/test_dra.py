#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""gputopo-agent as a driver of Dynamic Resource Allocation: this test is the kubelet, and the API server is a double.
What a real kubelet does, ./dev e2e --only dra shows.

Usage: test_dra.py GPUTOPO_AGENT [unittest arguments]
"""

import concurrent.futures
import json
import os
import shutil
import socket
import subprocess
import time

import grpc

import side_by_side
from api_double import Status
from dra_case import AGENT, CLAIMS, COUNTERS, DRIVER, SLICES, DraCase
from dra_kubelet import V1, V1BETA1, DraKubelet, pb
from daemon_driver import wait_for

PODS = "/api/v1/namespaces/default/pods"
SERVICES = ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]


class DraTest(DraCase):
    def test_registers(self):
        driver = self.start(register=False)
        info = driver.register()
        self.assertEqual((info.type, info.name, info.endpoint), ("DRAPlugin", DRIVER, ""))
        self.assertEqual(list(info.supported_versions), SERVICES)
        self.assertTrue(wait_for(self.slice), self.agents[0].lines)
        self.assertEqual(sorted(device["name"] for device in self.slice()["spec"]["devices"]), self.names)
        driver.register("no such luck")
        self.assertTrue(wait_for(lambda: any("no such luck" in str(line) for line in self.agents[0].lines)))

    def test_sockets_of_earlier_processes(self):
        """Are removed, but not those of another driver whose name begins like ours."""
        directory = f"{self.directory}/plugins_registry"
        ours, other = [f"{DRIVER}-00000001-reg.sock", f".{DRIVER}-00000002-reg.sock"], [f"{DRIVER}.example-reg.sock", f".{DRIVER}s-3-reg.sock"]
        for name in ours + other:
            with socket.socket(socket.AF_UNIX) as ended:
                ended.bind(f"{directory}/{name}")
        self.start()
        left = os.listdir(directory)
        self.assertEqual([name for name in ours + other if name in left], other)

    def test_prepares_the_same_again(self):
        driver = self.start()
        self.claim("a", 1, 2)
        for service in (V1, V1BETA1):
            self.assertEqual(driver.prepare("a", service=service), {"a": (self.names[1:3], "")})
        self.assertEqual(len(self.api.asked(method="GET", path=f"{CLAIMS}/a")), 1)  # by its own state the second time
        self.assertEqual(self.specs(), ["metax-tech.com-gpu-claim-uid-of-a.json"])
        with open(f"{self.directory}/cdi/{self.specs()[0]}", encoding="utf-8") as file:
            spec = json.load(file)
        self.assertEqual(spec["cdiVersion"], "0.6.0")
        self.assertEqual(len(spec["devices"]), 3)  # two GPUs, and the request's variables
        self.assertEqual(driver.unprepare("a", "never-seen", service=V1BETA1), ["", ""])
        self.assertEqual((self.state(), self.specs()), ({}, []))
        self.assertEqual(driver.unprepare("a"), [""])

    def test_after_a_restart(self):
        driver = self.start()
        self.claim("a", 1, 2)
        driver.prepare("a")
        self.stop()
        shutil.rmtree(f"{self.directory}/cdi")  # as a reboot does
        self.api.remove(CLAIMS, "a")
        driver = self.start()
        self.assertTrue(wait_for(self.specs))
        self.assertEqual(driver.prepare("a"), {"a": (self.names[1:3], "")})
        self.claim("b", 2)
        self.assertEqual(driver.unprepare("a"), [""])
        self.assertEqual(driver.prepare("b"), {"b": (self.names[2:3], "")})

    def test_refusals(self):
        driver = self.start()
        self.claim("other-uid", 0, uid="x")
        self.claim("elsewhere", 0, pool="n2")
        self.claim("others", 0, driver="other.example.com")
        self.claim("twice", 3, 3)
        got = driver.prepare("other-uid", "elsewhere", "others", "twice", "missing")
        self.assertEqual({devices for devices, _ in map(lambda one: (tuple(one[0]), one[1]), got.values())}, {()})
        for name, why in {"other-uid": "is another one now", "elsewhere": "no GPU of this node is allocated",
                          "others": "no GPU of this node is allocated", "twice": "twice", "missing": "not found"}.items():
            self.assertIn(why, got[name][1])
        self.assertEqual((self.state(), self.specs()), ({}, []))
        with self.assertRaises(grpc.RpcError) as refused:
            driver.call(V1 + "/NodePrepareResources", driver.claims("a", "a"), pb.NodePrepareResourcesResponse)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_calls_at_once(self):
        """Claims that wait hold up no others; a device that is held is given when it comes back."""
        driver = self.start()
        for index in range(8):
            self.claim(f"c{index}", index)
        self.claim("heir", 0)
        self.claim("greedy", 1, 2)
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            calls = [pool.submit(driver.prepare, f"c{index}") for index in range(8)]
            for index, call in enumerate(calls):
                self.assertEqual(call.result(), {f"c{index}": ([self.names[index]], "")})
            heir, greedy = pool.submit(driver.prepare, "heir"), pool.submit(driver.prepare, "greedy")
            self.assertTrue(wait_for(lambda: self.agents[0].metrics()["gputopo_claims_waiting"] == 2))
            self.assertEqual(driver.unprepare("c0", "c1"), ["", ""])
            self.assertEqual(heir.result(), {"heir": ([self.names[0]], "")})
            devices, error = greedy.result()["greedy"]
            self.assertEqual(devices, [])
            self.assertIn(f"{self.names[2]} is held by the claim default/c2", error)
        self.assertNotIn("greedy", self.state())

    def test_a_shared_claim_keeps_its_devices(self):
        """One pod of it after the other comes and goes, with a claim of its own: the survivor notices nothing."""
        driver = self.start()
        self.claim("shared", 0, 1, pods=("p", "q"))
        for turn in range(2):
            self.claim(f"own{turn}", 2 + turn)
        self.assertEqual(driver.prepare("shared", "own0")["shared"], (self.names[:2], ""))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for turn in range(200):
                comes, goes = f"own{(turn + 1) % 2}", f"own{turn % 2}"
                prepared, released = pool.submit(driver.prepare, "shared", comes), pool.submit(driver.unprepare, goes)
                self.assertEqual((released.result(), prepared.result()["shared"], prepared.result()[comes][1]),
                                 ([""], (self.names[:2], ""), ""), turn)
                self.assertEqual(self.state(), {"shared": self.names[:2], comes: [self.names[2 + (turn + 1) % 2]]}, turn)
                self.assertEqual(len(self.specs()), 2, turn)

    def test_prepare_races_unprepare(self):
        """Of the same claim, as when the last pod goes and the next one comes: whoever is last wins, with all of it."""
        driver = self.start()
        self.claim("a", 0, 1)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for turn in range(200):
                order = (driver.unprepare, driver.prepare)[::1 if turn % 2 else -1]
                calls = {}
                for call in order:
                    calls[call] = pool.submit(call, "a")
                    if turn % 4 > 1:  # one after the other: which is last is known
                        concurrent.futures.wait([calls[call]])
                (error,), (devices, why) = calls[driver.unprepare].result(), calls[driver.prepare].result()["a"]
                self.assertEqual(error, "", turn)
                self.assertTrue((devices, why) == (self.names[:2], "") or "unprepared meanwhile" in why, (turn, devices, why))
                held = self.state()
                self.assertIn(held, ({"a": self.names[:2]}, {}), turn)
                self.assertEqual(len(self.specs()), len(held), turn)
                if why:
                    self.assertEqual(held, {}, turn)
                if turn % 4 > 1:
                    self.assertEqual((why, held), ("", {"a": self.names[:2]} if order[1] == driver.prepare else {}), turn)
                self.assertEqual(driver.prepare("a"), {"a": (self.names[:2], "")}, turn)  # the survivor's next try

    def test_unprepared_while_it_waits(self):
        driver = self.start()
        self.claim("a", 0)
        self.claim("b", 0)
        driver.prepare("a")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            late = pool.submit(driver.prepare, "b")
            self.assertTrue(wait_for(lambda: self.agents[0].metrics()["gputopo_claims_waiting"] == 1))
            self.assertEqual(driver.unprepare("b"), [""])
            self.assertIn("unprepared meanwhile", late.result()["b"][1])
        driver.unprepare("a")
        self.assertEqual(self.state(), {})

    def test_ends_while_calls_wait(self):
        driver = self.start()
        self.claim("a", 0)
        self.claim("b", 0)
        driver.prepare("a")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            late = pool.submit(driver.prepare, "b")
            self.assertTrue(wait_for(lambda: self.agents[0].metrics()["gputopo_claims_waiting"] == 1))
            self.stop()
            with self.assertRaises(grpc.RpcError) as ended:
                late.result()
            self.assertEqual(ended.exception.code(), grpc.StatusCode.UNAVAILABLE)

    def test_the_api_server_is_silent(self):
        driver = self.start()
        self.claim("a", 0)
        driver.prepare("a")
        self.claim("b", 1)
        self.api.fail(Status(503), times=1000, method="GET", path=f"{CLAIMS}/b")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            late = pool.submit(driver.prepare, "b")
            self.assertEqual(driver.prepare("a"), {"a": ([self.names[0]], "")})
            self.assertIn("503", late.result()["b"][1])  # within the 45 s of the kubelet, which are DraKubelet's

    def test_state_is_unreadable(self):
        os.makedirs(f"{self.directory}/plugins/{DRIVER}")
        with open(f"{self.directory}/plugins/{DRIVER}/claims.json", "w", encoding="ascii") as file:
            file.write("{")
        driver = self.start()
        self.assertTrue(wait_for(lambda: any("cannot be read" in str(line) for line in self.agents[0].lines)))
        self.claim("a", 0)
        self.assertEqual(driver.prepare("a"), {"a": ([self.names[0]], "")})
        self.assertTrue(os.path.exists(f"{self.directory}/plugins/{DRIVER}/claims.json.unreadable"))

    def test_state_cannot_be_written(self):
        with open(f"{self.directory}/plugins/{DRIVER}", "w", encoding="ascii"):
            pass  # in the place of the directory
        driver = self.start(register=False)
        driver.register()
        self.claim("a", 0)
        self.assertIn(DRIVER, driver.prepare("a")["a"][1])
        self.assertIsNone(self.slice())
        os.unlink(f"{self.directory}/plugins/{DRIVER}")
        self.assertTrue(wait_for(self.slice), self.agents[0].lines)
        self.assertEqual(driver.prepare("a"), {"a": ([self.names[0]], "")})

    def test_a_spec_cannot_be_written(self):
        """The spec of a prepared claim, which containers that restart need: it is told, once, and that it is there again."""
        driver = self.start()
        self.claim("a", 1, 2)
        driver.prepare("a")
        shutil.rmtree(f"{self.directory}/cdi")
        with open(f"{self.directory}/cdi", "w", encoding="ascii"):
            pass
        self.agents[0].hangup()
        def told(reason):
            return [obj["note"] for obj in list(self.api.objects.values()) if obj.get("reason") == reason]
        self.assertTrue(wait_for(lambda: told("CDISpecNotWritten")), self.agents[0].lines)
        self.assertIn("claim default/a: ", told("CDISpecNotWritten")[0])
        os.unlink(f"{self.directory}/cdi")
        self.assertTrue(wait_for(lambda: told("CDISpecWritten")), self.agents[0].lines)  # nobody has to ask for it
        self.assertEqual(self.specs(), ["metax-tech.com-gpu-claim-uid-of-a.json"])
        self.assertEqual(len(self.agents[0].events("CDI spec of a claim not written")), 1)
        node = f"{self.dev}/dri/card2"  # of the first of the two: card0 is no GPU's
        self.addCleanup(os.rename, f"{node}.away", node)
        os.rename(node, f"{node}.away")
        self.agents[0].hangup()
        self.assertTrue(wait_for(lambda: "card2" in str(told("CDISpecNotWritten"))), self.agents[0].lines)

    def test_two_instances(self):
        """One state, two processes: neither gives what the other has given."""
        first, second = self.start(), self.start("--http", "none")
        for name in ("a", "b"):
            self.claim(name, 4)
        self.assertEqual(first.prepare("a"), {"a": ([self.names[4]], "")})
        self.assertEqual(second.prepare("a"), {"a": ([self.names[4]], "")})
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waits = pool.submit(first.prepare, "b")
            self.assertEqual(second.unprepare("a"), [""])
            self.assertEqual(waits.result(), {"b": ([self.names[4]], "")})

    def test_health_is_told(self):
        driver = self.start()
        for service in ("/v1.DRAResourceHealth", "/v1alpha1.DRAResourceHealth"):
            stream = driver.health(service)
            first = next(stream)
            self.assertEqual({one.device.device_name: one.health for one in first.devices}, dict.fromkeys(self.names, 1))
            self.assertLess(abs(first.devices[0].last_updated_time - time.time()), 60)
            stream.cancel()
        stream = driver.health()
        next(stream)
        self.assertEqual(len(next(stream).devices), 8)  # again, before what it said is too old
        stream.cancel()

    def test_slices(self):
        self.start()
        name = self.slice()["metadata"]["name"]
        self.api.remove("/apis/resource.k8s.io/v1/resourceslices", name)
        self.assertTrue(wait_for(self.slice), self.agents[0].lines)
        self.api.add("/apis/resource.k8s.io/v1/resourceslices", "stray", spec={
            "driver": DRIVER, "nodeName": "n1", "pool": {"name": "n1", "generation": 7, "resourceSliceCount": 1}})
        self.assertTrue(wait_for(lambda: (SLICES, "stray") not in self.api.objects), self.agents[0].lines)

    def test_composites(self):
        """Pairs, zones and the node, counted; a claim of one gets its GPUs; what overlaps is refused."""
        driver = self.start("--dra-composites")
        spec = self.counters()["spec"]
        self.assertEqual((len(spec["sharedCounters"]), spec["pool"]), (1, self.slice()["spec"]["pool"]))
        self.assertEqual(spec["pool"]["resourceSliceCount"], 2)
        self.assertEqual([name[:5] for name in self.composites()], ["node-", "zone-", "zone-"] + ["pair-"] * 12)
        self.assertIn(f"zone-{self.place(4)}-4", self.composites())
        used = {device["name"]: sorted(device["consumesCounters"][0]["counters"]) for device in self.slice()["spec"]["devices"]}
        pair = f"pair-{self.place(1)}-{self.place(2)}"
        self.assertEqual((used[self.names[5]], used[pair]), (["gpu-5"], ["gpu-1", "gpu-2"]))
        self.claim("pair", pair)
        self.claim("zone", f"zone-{self.place(4)}-4")
        self.claim("odd", "pair-no-such")
        self.claim("overlaps", pair, f"zone-{self.place(0)}-4")
        self.claim("whole", "node-8")
        self.assertEqual(driver.prepare("pair", "zone"), {"pair": (self.names[1:3], ""), "zone": (self.names[4:], "")})
        self.assertEqual(self.state()["pair"], self.names[1:3])
        held = [f"zone-{self.place(4)}-4", pair]  # before others, so that they have room in the slice
        self.assertTrue(wait_for(lambda: self.composites()[:2] == held), self.composites())
        self.assertEqual(self.composites()[4], f"pair-{self.place(0)}-{self.place(3)}")
        got = driver.prepare("odd", "overlaps")
        self.assertIn("do not make up pair-no-such now", got["odd"][1])
        self.assertIn(f"overlap: both have {self.names[1]}", got["overlaps"][1])
        self.assertEqual(driver.unprepare("zone"), [""])
        self.assertIn(f"node-8: {self.names[1]} is held by the claim default/pair", driver.prepare("whole")["whole"][1])
        # Switched off: no composite is offered, and not the GPUs that are held by one.
        self.stop()
        driver = self.start()
        self.assertTrue(wait_for(lambda: not self.counters() and len(self.slice()["spec"]["devices"]) == 6), self.agents[-1].lines)
        self.assertEqual(self.slice()["spec"]["pool"]["resourceSliceCount"], 1)
        self.assertEqual(driver.prepare("pair"), {"pair": (self.names[1:3], "")})
        self.assertEqual(driver.unprepare("pair"), [""])
        self.assertTrue(wait_for(lambda: sorted(device["name"] for device in self.slice()["spec"]["devices"]) == self.names))

    def test_counters_are_not_kept(self):
        """As before Kubernetes 1.36: unknown fields are dropped without a word. Composites would be given twice."""
        self.api.dropped.add("sharedCounters")
        self.start("--dra-composites")
        self.assertTrue(wait_for(lambda: self.slice() and not self.counters()), self.agents[0].lines)
        self.assertEqual(sorted(device["name"] for device in self.slice()["spec"]["devices"]), self.names)
        self.assertEqual(self.slice()["spec"]["pool"]["resourceSliceCount"], 1)
        self.assertTrue(wait_for(lambda: any(obj.get("reason") == "CompositesNotOffered" for obj in list(self.api.objects.values()))))

    def test_counters_are_deleted(self):
        self.start("--dra-composites")
        self.api.remove("/apis/resource.k8s.io/v1/resourceslices", COUNTERS)
        self.assertTrue(wait_for(self.counters), self.agents[0].lines)
        self.assertEqual(len(self.composites()), 15)

    def test_waiting_pods_are_tried_again(self):
        self.api.add(PODS, "waits", spec={"nodeName": "n1", "resourceClaims": [{"name": "x", "resourceClaimName": "y"}]}, status={"phase": "Pending"})
        self.api.add(PODS, "limits", spec={"nodeName": "n1"}, status={"phase": "Pending", "extendedResourceClaimStatus": {"resourceClaimName": "z"}})
        self.api.add(PODS, "plain", spec={"nodeName": "n1"}, status={"phase": "Pending"})
        self.start()
        def annotated():
            return sorted(name for (where, name), obj in self.api.objects.items()
                          if where[2] == "pods" and f"{DRIVER}/retried" in obj["metadata"].get("annotations", {}))
        self.assertTrue(wait_for(lambda: len(annotated()) == 2), self.agents[0].lines)
        self.assertEqual(annotated(), ["limits", "waits"])

    def test_back_to_the_plugin(self):
        driver = self.start()
        self.claim("a", 6, 7)
        driver.prepare("a")
        self.stop()
        before = self.sockets()
        self.start(advertise="plugin")
        self.assertTrue(self.kubelet.wait_healthy(6), self.agents[0].lines)
        self.assertTrue(wait_for(lambda: not self.slice()), self.agents[0].lines)
        self.assertTrue(wait_for(lambda: self.sockets() - before), self.agents[0].lines)
        driver = DraKubelet((self.sockets() - before).pop())
        driver.register()
        self.claim("b", 0)
        self.assertIn("by the device plugin", driver.prepare("b")["b"][1])
        self.assertEqual(driver.prepare("a"), {"a": (self.names[6:], "")})
        self.assertEqual(driver.unprepare("a"), [""])
        self.assertTrue(self.kubelet.wait_healthy(8), self.agents[0].lines)

    def test_from_the_plugin(self):
        self.start(advertise="plugin")
        self.assertTrue(self.kubelet.wait_healthy(8), self.agents[0].lines)
        [held] = self.kubelet.admit("old", 3)
        self.stop()
        driver = self.start()
        taken = {list(self.kubelet.order).index(one) for one in held}
        free = [name for index, name in enumerate(self.names) if index not in taken]
        self.assertTrue(wait_for(lambda: sorted(device["name"] for device in self.slice()["spec"]["devices"]) == free), self.agents[0].lines)
        self.claim("a", taken.pop())
        self.assertIn("in use by a container", driver.prepare("a")["a"][1])
        self.kubelet.release("old")
        self.assertTrue(wait_for(lambda: len(self.slice()["spec"]["devices"]) == 8), self.agents[0].lines)
        self.assertEqual(driver.prepare("a")["a"][1], "")

    def test_options(self):
        for arguments, why in ((("--publish=none",), "--publish=none"), (("--no-device-plugin",), "--no-device-plugin"),
                               (("--dra-taint=Never",), "NoSchedule")):
            done = subprocess.run([AGENT, "--from", self.machine, "--advertise=dra", *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    side_by_side.main(6)
