#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people isolate by hand: gputopo isolate, release and isolated, and an agent that obeys, against the doubles of the
API server and of the kubelet.

Usage: test_isolate.py GPUTOPO_AGENT GPUTOPO [unittest arguments]
"""

import datetime
import json
import os
import subprocess
import sys
import time
import unittest

import jsonschema
import yaml

PROGRAM = os.path.abspath(sys.argv.pop(2)) if len(sys.argv) > 2 else ""
CLOCK = os.path.abspath(sys.argv.pop(2)) if len(sys.argv) > 2 else ""  # slow_disk.c

import side_by_side
import test_publish  # noqa: E402, it takes its own argument
from api_double import Status  # noqa: E402
from daemon_driver import PATIENCE, wait_for  # noqa: E402
from placement_driver import topology  # noqa: E402

CRD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "daemonset", "crds", "nodegputopologies.yaml")
OBJECT = f"{test_publish.TOPOLOGIES}/n1"


def at(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Case(test_publish.Case):
    def begin(self, *arguments, env=None):
        self.kubelet_ = self.kubelet()
        self.agent = self.start(*arguments, env=env)
        self.assertTrue(self.kubelet_.wait_healthy(8), self.agent.lines)
        self.assertTrue(wait_for(lambda: self.status().get("freeCount") == 8), self.agent.lines)

    def ask(self, *arguments):
        return subprocess.run([PROGRAM, *arguments, "--kubeconfig", f"{self.directory}/config"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)

    def done(self, *arguments):
        result = self.ask(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def fails(self, *arguments, says, code=1):
        result = self.ask(*arguments)
        self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (code, "", 1), result.stderr)
        self.assertIn(says, result.stderr)

    def healthy(self, count):
        self.assertTrue(self.kubelet_.wait_healthy(count), self.agent.lines)
        # what is free and which GPUs are healthy may come by two writes
        self.assertTrue(wait_for(lambda: (self.status().get("freeCount"), self.status().get("healthyCount")) == (count, count)), self.status())

    def sick(self):
        return {gpu["index"]: gpu.get("unhealthyReason", "") for gpu in self.status().get("gpus", []) if gpu["health"] == "unhealthy"}

    def uuid(self, index):
        return next(gpu["uuid"] for gpu in self.status()["gpus"] if gpu["index"] == index)

    def spec(self):
        return self.object().get("spec", {}).get("isolated")

    def seen(self):
        found, = [c for c in self.node()["status"]["conditions"] if c["type"] == "MetaXGPUHealthy"]
        return found

    def set_spec(self, entries):
        with self.api.lock:
            collection, name = self.api.place(test_publish.TOPOLOGIES)[0], "n1"
            old = self.api.objects[collection, name]
            self.api.store(collection, name, {**old, "spec": {"isolated": entries}}, "MODIFIED")


class Isolated(Case):
    def test_within_two_seconds(self):
        """From the object to the kubelet; the best of three, since others use this machine."""
        self.begin()
        took = []
        for _ in range(3):
            began = time.monotonic()
            self.set_spec([{"gpu": "3", "reason": "x"}])
            self.assertTrue(self.kubelet_.wait_healthy(7), self.agent.lines)
            took.append(time.monotonic() - began)
            self.set_spec([])
            self.assertTrue(self.kubelet_.wait_healthy(8), self.agent.lines)
        self.assertLess(min(took), 2)

    def test_it_follows_a_card_into_another_slot(self):
        """Cards 3 and 5 change places: by UUID the isolation follows, and an Event says so."""
        node = self.recorded()["node"]
        self.kubelet_ = self.kubelet()
        self.agent = self.start("--from", self.write(node))
        self.assertTrue(wait_for(lambda: self.status().get("freeCount") == 8), self.agent.lines)
        card, slots = node["gpus"][3]["uuid"], [node["gpus"][i]["bdf"] for i in (3, 5)]
        self.set_spec([{"gpu": card, "reason": "fails"}, {"gpu": "0", "reason": "of the slot"}])
        self.healthy(6)
        self.assertEqual(sorted(self.sick()), [0, 3])
        node["gpus"][3]["uuid"], node["gpus"][5]["uuid"] = node["gpus"][5]["uuid"], card
        self.write(node)
        self.agent.hangup()
        self.assertTrue(wait_for(lambda: sorted(self.sick()) == [0, 5]), self.sick())
        self.assertEqual(self.uuid(5), card)
        self.assertIn(f"{card} from {slots[0]} to {slots[1]}", self.event("GPUMoved")["note"])

    def test_gpus_go_and_come_back(self):
        self.begin()
        said = self.done("isolate", "n1/3,5", "--reason", "bandwidth test fails", "--for", "3d")
        self.healthy(6)
        self.assertEqual(self.sick(), {3: "isolated: bandwidth test fails", 5: "isolated: bandwidth test fails"})
        self.assertEqual([entry["gpu"] for entry in self.spec()], [self.uuid(3), self.uuid(5)])
        self.assertEqual([line.split("  ")[:2] for line in said.splitlines()],
                         [["n1", f"GPU {i} ({self.uuid(i)})"] for i in (3, 5)])
        for size in (1, 2, 4, 6):
            given, = self.kubelet_.admit(f"pod-{size}", size)
            self.assertFalse({self.uuid(3), self.uuid(5)} & set(given))
            self.kubelet_.release(f"pod-{size}")
        self.assertIn('gputopo_unhealthy_gpus{reason="isolated"} 2', self.agent.get("/metrics")[1])
        self.event("GPUUnhealthy")
        self.assertTrue(wait_for(lambda: self.seen()["status"] == "False"))
        self.assertEqual(self.seen()["message"], "2 of 8 GPUs cannot be used: " + "; ".join(
            f"GPU {i} ({self.uuid(i)}): isolated: bandwidth test fails" for i in (3, 5)))
        self.assertIn(self.uuid(5), self.done("release", "n1/3"))
        self.healthy(7)
        self.done("release", "n1")
        self.healthy(8)
        self.assertEqual(self.done("isolated"), "nothing is isolated\n")
        self.assertTrue(wait_for(lambda: self.seen()["status"] == "True"))

    def test_a_slow_gpu_stays_in_use(self):
        self.begin()
        said = self.done("isolate", "n1/3", "--reason", "burn-in", "--grade", "slow", "--value", "memory bandwidth 70 %")
        self.assertRegex(said, f"^n1  GPU 3 .{self.uuid(3)}.  slow, until released.*: memory bandwidth 70 %: burn-in\n$")
        self.assertTrue(wait_for(lambda: self.status()["gpus"][3].get("grade") == "slow"), self.status())
        self.assertEqual(self.status()["gpus"][3]["gradeReason"], "memory bandwidth 70 %: burn-in")
        self.assertEqual((self.status()["healthyCount"], self.status()["freeCount"], self.sick()), (8, 8, {}))
        with open(CRD, encoding="utf-8") as file:
            schema = yaml.safe_load(file)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        jsonschema.validate(self.spec(), schema["properties"]["spec"]["properties"]["isolated"])
        given, = self.kubelet_.admit("others", 7)
        self.assertNotIn(self.uuid(3), given)
        self.kubelet_.release("others")
        self.done("isolate", "n1/3", "--reason", "now bad")
        self.healthy(7)
        self.done("release", "n1/3")
        self.healthy(8)
        self.assertTrue(wait_for(lambda: "grade" not in self.status()["gpus"][3]))

    def test_its_pods_are_to_leave(self):
        """It is for the companion to read in the GPU's reason; a later word without --evict lets them stay."""
        self.begin()
        self.done("isolate", "n1/3", "--reason", "burns", "--evict")
        self.healthy(7)
        self.assertEqual((self.sick(), self.spec()[0]["evict"]), ({3: "isolated, pods leave: burns"}, True))
        self.done("isolate", "n1/3", "--reason", "cools")
        self.assertTrue(wait_for(lambda: self.sick() == {3: "isolated: cools"}), self.sick())

    def test_a_grade_that_the_definition_does_not_know(self):
        """Without it the entry would take the GPU out of use."""
        self.begin()
        self.api.unknown_isolated = {"grade", "value"}
        self.fails("isolate", "n1/3", "--reason", "burn-in", "--grade", "slow", says='unknown field "spec.isolated[0].grade"')
        self.assertIsNone(self.spec())
        self.done("isolate", "n1/3", "--reason", "burn-in")
        self.healthy(7)

    def test_a_second_word_replaces_the_first(self):
        self.begin()
        self.done("isolate", "n1/3", "--reason", "first")
        rows = json.loads(self.done("isolate", f"n1/{self.uuid(3).lower()}", "--reason", "测" * 100, "-o", "json"))
        self.assertEqual(json.loads(self.done("isolated", "-o", "json")), rows)
        self.assertEqual([(row["node"], row["reason"]) for row in rows], [("n1", "测" * 100)])
        self.assertTrue(wait_for(lambda: self.sick().get(3, "").startswith("isolated: 测")), self.agent.lines)

    def test_a_link_and_a_node(self):
        self.begin()
        def down():
            return [(link["a"], link["b"]) for link in self.status()["links"] if link.get("state") == "down"]
        self.assertEqual(self.done("isolate", "n1/1,0", "--link", "--reason", "retrains").split("  ")[1], "link 1 - 0")
        self.assertTrue(wait_for(lambda: down() == [(0, 1)]), down())
        self.healthy(8)
        self.done("release", "n1/0,1", "--link")
        self.assertTrue(wait_for(lambda: not down()), down())
        self.done("isolate", "n1", "--reason", "burn-in")
        self.healthy(0)
        self.fails("release", "n1/3", says="nothing like that is isolated on node n1")
        self.done("release", "n1")
        self.healthy(8)

    def test_it_ends_by_itself(self):
        self.begin()
        self.set_spec([{"gpu": self.uuid(2), "reason": "short", "until": at(4)},
                       {"gpu": self.uuid(4), "reason": "over", "until": at(-10)}])
        self.healthy(7)
        self.healthy(8)

    def test_it_outlives_agent_object_and_server(self):
        self.begin()
        self.done("isolate", "n1/6", "--reason", "ticket 17")
        self.healthy(7)
        file = f"{self.directory}/device-plugins/gputopo/isolated.json"
        self.assertTrue(wait_for(lambda: os.path.exists(file)))
        self.end(self.agent)
        self.agent.stop = lambda: 0
        self.api.fail(Status(503), times=100000)
        self.agent = self.start()
        self.assertTrue(self.kubelet_.wait_healthy(7), self.agent.lines)
        self.assertTrue(self.agent.events("isolations of before hold"), self.agent.lines)
        with self.api.lock:
            self.api.faults.clear()
            self.api.remove(test_publish.TOPOLOGIES, "n1")
        self.assertTrue(wait_for(lambda: (self.object() or {}).get("status", {}).get("freeCount") == 7), self.agent.lines)
        self.assertIsNone(self.spec())
        self.assertEqual(len(self.kubelet_.healthy()), 7)
        self.done("release", "n1")
        self.healthy(8)
        self.assertTrue(wait_for(lambda: not os.path.exists(file)))

    def test_half_a_file_and_a_bad_list(self):
        os.makedirs(f"{self.directory}/device-plugins/gputopo", exist_ok=True)
        with open(f"{self.directory}/device-plugins/gputopo/isolated.json", "w", encoding="ascii") as file:
            file.write('{"metadata": {"uid": "')
        self.begin()
        self.assertTrue([line for line in self.agent.lines if "what was isolated before is not known" in str(line)])
        self.set_spec([{"gpu": self.uuid(1), "reason": "good"}])
        self.healthy(7)
        self.set_spec([{"gpu": self.uuid(1), "all": True, "reason": "both"}])
        self.assertTrue(wait_for(lambda: [line for line in self.agent.lines if "those of before stay" in str(line)]))
        self.assertEqual(len(self.kubelet_.healthy()), 7)

    def test_what_the_agent_cannot_read_is_refused_before(self):
        """Else one entry of a program would keep the agent from reading the list."""
        with open(CRD, encoding="utf-8") as file:
            version, = yaml.safe_load(file)["spec"]["versions"]
        schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        good = {"all": True, "reason": "测试 fails: 3 %", "until": "2026-12-01T09:00:00.5Z"}
        jsonschema.validate({"isolated": [good, {"gpu": "GPU-1", "reason": "x"}, {"link": ["0", "0000:1a:00.0"], "reason": "x"}]}, schema)
        for wrong in ({"until": "2026-12-01T09:00:00+08:00"}, {"until": "1950-12-01T09:00:00Z"}, {"reason": "two\nlines"},
                      {"gpu": "测" * 63}, {"link": ["0", "测" * 63]}):
            with self.assertRaises(jsonschema.ValidationError, msg=wrong):
                jsonschema.validate({"isolated": [{**good, **wrong}]}, schema)

    def test_a_disk_that_takes_nothing(self):
        """It is told once, and written when the disk takes it."""
        os.makedirs(f"{self.directory}/device-plugins", exist_ok=True)
        place = f"{self.directory}/device-plugins/gputopo"
        with open(place, "w", encoding="ascii"):
            pass
        self.begin("--health-interval", "1")
        self.done("isolate", "n1/3", "--reason", "x")
        self.healthy(7)
        time.sleep(3)
        self.assertEqual(len([line for line in self.agent.lines if "isolations are not written down" in str(line)]), 1)
        os.remove(place)
        self.assertTrue(wait_for(lambda: os.path.exists(f"{place}/isolated.json")), self.agent.lines)

    def test_what_is_over_makes_room(self):
        self.begin()
        self.set_spec([{"gpu": f"GPU-{i}", "reason": "over", "until": at(-10)} for i in range(64)])
        self.done("isolate", "n1/1", "--reason", "new")
        self.assertEqual([entry["reason"] for entry in self.spec()], ["over"] * 63 + ["new"])

    def test_a_gpu_that_never_comes_back(self):
        """Its isolation has no end: it is neither in the way nor forgotten, and ends when somebody releases it."""
        self.begin()
        self.set_spec([{"gpu": "GPU-00000000-0000-0000-0000-000000000000", "reason": "sent for repair"},
                       {"gpu": self.uuid(2), "reason": "ticket 18"}])
        self.healthy(7)
        self.end(self.agent)
        self.agent = self.start()
        self.assertTrue(self.kubelet_.wait_healthy(7), self.agent.lines)
        self.assertIn("sent for repair", self.done("isolated"))
        with open(f"{self.directory}/device-plugins/gputopo/isolated.json", encoding="utf-8") as file:
            self.assertIn("sent for repair", file.read())
        self.done("release", "n1")
        self.healthy(8)
        self.assertTrue(wait_for(lambda: "sent for repair" not in self.done("isolated")))

    def test_two_people_isolate_and_release_at_once(self):
        """Whatever order the API server gives them: each call says what it did, and the agent obeys the last list."""
        self.begin()
        calls = [["isolate", "n1/0", "--reason", "one"], ["release", "n1/0"], ["isolate", "n1/1", "--reason", "two"], ["release", "n1/1"]]
        for _ in range(3):
            running = [subprocess.Popen([PROGRAM, *call, "--kubeconfig", f"{self.directory}/config"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True) for call in calls]
            for process in running:
                _, errors = process.communicate(timeout=PATIENCE)
                self.assertLessEqual(errors.count("\n"), 1)
                self.assertEqual(process.returncode != 0, bool(errors))
        told = {entry["gpu"] for entry in self.spec() or []}
        self.assertLessEqual(len(told), 2)
        self.assertTrue(wait_for(lambda: {self.uuid(index) for index in self.sick()} == told), (self.sick(), told))
        self.healthy(8 - len(told))

    def test_two_at_once(self):
        self.begin()
        edit = {"method": "PATCH", "path": "/nodegputopologies/n1$"}  # not what the agent writes
        self.api.fail(Status(409), times=2, **edit)
        self.done("isolate", "n1/0", "--reason", "one")
        self.healthy(7)
        self.api.fail(Status(409), times=5, **edit)
        self.fails("isolate", "n1/1", "--reason", "two", says="409")

    def add_other(self, *gpus, isolated=()):
        """Another node, which has these GPUs."""
        status = topology("n2", len(gpus))
        for gpu, uuid in zip(status["gpus"], gpus):
            gpu["uuid"] = uuid
        self.api.add(test_publish.TOPOLOGIES, "n2", status=status, spec={"isolated": list(isolated)})

    def others(self):
        with self.api.lock:
            return self.api.objects[self.api.place(test_publish.TOPOLOGIES)[0], "n2"]["spec"]["isolated"]

    def test_a_release_is_one_everywhere(self):
        """What follows its GPU to another node may be in both lists for a while."""
        self.begin()
        self.done("isolate", "n1/3,4", "--reason", "hot")
        entries, other = self.spec(), {"gpu": "1", "reason": "y", "by": "x"}
        self.add_other("GPU-of-n2-0", self.uuid(3), isolated=[other, entries[0]])
        said = self.done("release", "n1/3")
        self.assertTrue(said.startswith("released on node n2, too\n"), said)
        self.assertEqual((self.spec(), self.others()), ([entries[1]], [other]))
        self.add_other("GPU-of-n2-0", self.uuid(4))  # it is there now, and the copy is not made yet
        self.assertEqual(json.loads(self.done("release", f"n2/{self.uuid(4)}", "-o", "json")), [])
        self.assertEqual((self.spec(), self.others()), ([], []))
        self.set_spec(entries)
        self.add_other("GPU-of-n2-0", isolated=[{**entries[1], "by": "bob"}, other])
        self.done("release", "n1")
        self.assertEqual((self.spec(), self.others()), ([], [other]))
        self.fails("release", "n1/3", says="nothing like that is isolated on node n1")

    def test_a_release_while_others_write(self):
        self.begin()
        self.done("isolate", "n1/3", "--reason", "hot")
        self.add_other(self.uuid(3), isolated=self.spec())
        self.api.fail(Status(409), times=2, method="PATCH", path="/nodegputopologies/n2$")
        self.done("release", "n1/3")
        self.assertEqual((self.spec(), self.others()), ([], []))
        self.add_other(self.uuid(3), isolated=[{"gpu": self.uuid(3), "reason": "hot"}])
        self.api.fail(Status(403), method="PATCH", path="/nodegputopologies/n2$")
        self.fails("release", "n1/3", says="403")

    def test_misuse(self):
        self.begin()
        self.fails("isolate", "n1/3", says="--reason: say why", code=2)
        self.fails("isolate", "--reason", "x", says="expected NODE", code=2)
        self.fails("isolate", "n1/", "--reason", "x", says="expected indices or UUIDs", code=2)
        self.fails("isolate", "n1/3", "--link", "--reason", "x", says="does not name two GPUs", code=2)
        for reason in ("x" * 101, "two\nlines"):
            self.fails("isolate", "n1/3", "--reason", reason, says="longer than 100 characters, or not printable", code=2)
        for span in ("3", "d", "0d", "3w", "367d", "99999999999999999999d"):
            self.fails("isolate", "n1/3", "--reason", "x", "--for", span, says="no time such as", code=2)
        self.fails("isolate", "n1/9", "--reason", "x", says="node n1 has no GPU '9', expected 0..7")
        for pair in ("0,4", "0,0"):
            self.fails("isolate", f"n1/{pair}", "--link", "--reason", "x", says="node n1 has no direct link between these GPUs")
        self.fails("isolate", "n2/0", "--reason", "x", says="there is no NodeGPUTopology of node 'n2'")
        self.fails("release", "n1/3", says="nothing like that is isolated")
        self.assertIsNone(self.spec())


class Measured(Case):
    """Bandwidths that other programs have measured: files in --measured-dir."""

    def begin(self, *arguments):
        self.measured = f"{self.directory}/measured.d"
        os.mkdir(self.measured, mode=0o755)
        super().begin("--measured-dir", self.measured, *arguments)

    def tell(self, name, text):
        with open(f"{self.measured}/.new", "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps({"version": 1, "measured": text}))
        os.rename(f"{self.measured}/.new", f"{self.measured}/{name}")

    def weights(self):
        return {(link["a"], link["b"]): link["weight"] for link in self.status()["links"]}

    def test_the_lower_value_counts_while_it_is_fresh(self):
        self.begin()
        self.healthy(8)
        nominal = self.weights()
        bad = [{"link": [0, 1], "bandwidthGBps": value, "at": at(0)} for value in (0, 1e9, "x")]
        bad += [{"link": [0, 1], "bandwidthGBps": 1, "at": when} for when in (at(86400), "today")]
        bad += [{"link": [0], "bandwidthGBps": 1, "at": at(0)}, {"bandwidthGBps": 1, "at": at(0)}]
        self.tell("a.json", bad + [{"link": [2, 3], "bandwidthGBps": 5.4, "by": "p2p test", "at": at(-60)},
                                   {"gpu": self.uuid(7), "bandwidthGBps": 3, "at": at(-60)},
                                   {"link": [0, 2], "bandwidthGBps": 60000, "at": at(-60)},
                                   {"link": [0, 3], "bandwidthGBps": 1, "at": at(-31 * 86400)}])
        self.tell("half.json", '{"version": 1, "measured": [{"gpu')
        want = {pair: min(weight, 5 if pair == (2, 3) else 3 if 7 in pair else weight) for pair, weight in nominal.items()}
        self.assertTrue(wait_for(lambda: self.weights() == want), (self.weights(), self.agent.lines))
        said = [str(line) for line in self.agent.lines if "is not used" in str(line)]
        self.assertEqual(len(said), len(bad) + 1, said)
        for part in ("measured[0].bandwidthGBps: expected more than 0", "measured[1].bandwidthGBps", "measured[3].at", "is in the future",
                     "measured[4].at: 'today' is no time", "half.json"):
            self.assertTrue([line for line in said if part in line], (part, said))
        shown = self.done("show", "--node", "n1")
        self.assertIn("Measured below the nominal bandwidth:", shown)
        self.assertIn(f"GPU2 - GPU3: 5 of {nominal[2, 3]} GB/s", shown)
        os.remove(f"{self.measured}/a.json")
        self.assertTrue(wait_for(lambda: self.weights() == nominal), self.agent.lines)

    def test_what_the_object_says(self):
        """By people and programs, beside files; what has ended does not count, and what ends is no longer used."""
        self.begin()
        self.healthy(8)
        nominal = self.weights()

        def say(*entries):
            with self.api.lock:
                collection = self.api.place(test_publish.TOPOLOGIES)[0]
                old = self.api.objects[collection, "n1"]
                spec = {**old.get("spec", {}), "measured": [{"by": "alice", **entry} for entry in entries]}
                self.validate_spec(spec)
                self.api.store(collection, "n1", {**old, "spec": spec}, "MODIFIED")

        def become(**values):
            want = {pair: min(weight, values.get("all7", weight) if 7 in pair else values.get("p%d%d" % pair, weight))
                    for pair, weight in nominal.items()}
            self.assertTrue(wait_for(lambda: self.weights() == want), (self.weights(), self.agent.lines))

        say({"link": ["2", self.uuid(3)], "bandwidthGBps": 5.4, "at": at(-60)}, {"gpu": "7", "bandwidthGBps": 3, "at": at(-60)},
            {"link": ["0", "1"], "bandwidthGBps": 1, "at": at(-60), "until": at(-1)},
            {"link": ["0", "2"], "bandwidthGBps": 1, "at": at(-31 * 86400)},
            {"link": ["0", "3"], "bandwidthGBps": 2, "at": at(-31 * 86400), "until": at(86400)},
            {"link": ["1", "2"], "bandwidthGBps": 2, "at": at(86400)})
        become(p23=5, all7=3, p03=2)
        self.assertTrue([line for line in self.agent.lines if "spec.measured[5].at" in str(line) and "is in the future" in str(line)])
        self.tell("a.json", [{"link": [2, 3], "bandwidthGBps": 4, "at": at(-60)}])
        become(p23=4, all7=3, p03=2)
        self.done("isolate", "n1/6", "--reason", "both lists are kept")
        self.healthy(7)
        self.assertEqual(len(self.object()["spec"]["measured"]), 6)
        self.done("release", "n1/6")
        os.remove(f"{self.measured}/a.json")
        soon = at(6)
        say({"link": ["2", "3"], "bandwidthGBps": 5.4, "at": at(-60), "until": soon})
        become(p23=5)
        self.assertLess(at(0), soon)
        become()
        say({"link": ["2", "3"], "bandwidthGBps": 6, "at": at(-60)})
        become(p23=6)
        say()
        become()

    def validate_spec(self, spec):
        with open(CRD, encoding="utf-8") as file:
            schema = yaml.safe_load(file)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        jsonschema.validate(spec, schema)
        for wrong in (0, 1e9):
            with self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate({"measured": [{"gpu": "0", "bandwidthGBps": wrong, "at": at(0)}]}, schema)


class Told(Case):
    """Faults that other programs tell: files in --fault-dir."""

    def begin(self, *arguments, env=None):
        self.faults = f"{self.directory}/faults.d"
        super().begin("--fault-dir", self.faults, *arguments, env=env)

    def tell(self, name, *faults, version=1):
        os.makedirs(self.faults, exist_ok=True)
        self.tell_text(name, json.dumps({"version": version, "faults": faults}))

    def tell_text(self, name, text):
        with open(f"{self.faults}/.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(f"{self.faults}/.new", f"{self.faults}/{name}")

    def says(self, *texts):
        for text in texts:
            self.assertTrue(wait_for(lambda text=text: self.said(text)), (text, self.agent.lines))
        return len(self.said(texts[0]))

    def said(self, text):
        return [line for line in self.agent.lines if text in str(line)]

    def test_a_file_is_obeyed_and_ends(self):
        self.begin()
        told = time.monotonic()
        self.tell("burn-in.json", {"gpu": self.uuid(3), "reason": "fails the burn-in"}, {"link": ["0", "1"], "reason": "slow"})
        self.healthy(7)
        self.assertLess(time.monotonic() - told, 3)
        self.assertEqual(self.sick(), {3: "isolated: fails the burn-in"})
        self.assertIn((0, 1), [(link["a"], link["b"]) for link in self.status()["links"] if link.get("state") == "down"])
        self.done("isolate", "n1/5", "--reason", "by hand")
        self.healthy(6)
        os.remove(f"{self.faults}/burn-in.json")
        self.healthy(7)
        self.assertEqual(self.sick(), {5: "isolated: by hand"})
        self.assertEqual(len(json.loads(self.done("isolated", "-o", "json"))), 1)

    def test_a_clock_ten_days_ahead(self):
        """What ends in four days ends for as long, and one sentence says so each time."""
        def jump(seconds):
            with open(f"{self.directory}/clock.new", "w", encoding="utf-8") as file:
                file.write(str(seconds))
            os.rename(f"{self.directory}/clock.new", f"{self.directory}/clock")
        self.begin(env={"LD_PRELOAD": CLOCK, "SET_CLOCK": f"{self.directory}/clock",
                        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"})
        self.tell("a.json", {"gpu": "2", "reason": "x", "until": at(4 * 86400)})
        self.healthy(7)
        jump(10 * 86400)
        self.healthy(8)
        jump(0)
        self.healthy(7)
        said = self.said("the clock has jumped")
        self.assertEqual([round(line["seconds"] / 10) for line in said], [86400, -86400], said)

    def test_grades_and_pods_that_leave(self):
        """A whole node may be slow; one of its GPUs is bad, and its pods leave."""
        self.begin()
        self.tell("a.json", {"all": True, "grade": "slow", "value": "70 %", "reason": "burn-in"},
                  {"gpu": "2", "evict": True, "reason": "burns"}, {"gpu": "4", "grade": "suspect", "reason": "warm"})
        self.healthy(7)
        self.assertEqual(self.sick(), {2: "isolated, pods leave: burns"})
        self.assertEqual({gpu["index"]: (gpu.get("grade"), gpu.get("gradeReason")) for gpu in self.status()["gpus"]},
                         {i: ("slow", "70 %: burn-in") if i != 2 else (None, None) for i in range(8)})
        os.remove(f"{self.faults}/a.json")
        self.healthy(8)
        self.assertTrue(wait_for(lambda: not any("grade" in gpu for gpu in self.status()["gpus"])), self.status())

    def test_it_ends_at_its_time(self):
        self.begin()
        self.tell("a.json", {"gpu": "2", "reason": "short", "until": at(4)}, {"gpu": "3", "reason": "over", "until": at(-864000)})
        self.healthy(7)
        self.healthy(8)

    def hold(self, falls=2, seconds=4, most=0):
        """A fault table: what comes so often in a minute is held so long."""
        with open(f"{self.directory}/faults.yaml", "w", encoding="utf-8") as file:
            file.write(f"flapping: {{falls: {falls}, withinSeconds: 60, holdSeconds: {seconds}, holdMaxSeconds: {most or seconds}}}")
        return "--fault-table", f"{self.directory}/faults.yaml"

    def test_what_comes_and_goes_is_held(self):
        self.begin(*self.hold())
        for fall in range(2):
            self.tell("a.json", {"gpu": "2", "reason": "x"})
            self.healthy(7)
            gone = time.monotonic()
            os.remove(f"{self.faults}/a.json")
            if fall:
                self.assertTrue(wait_for(lambda: self.sick() == {2: "isolated: came again and again, has to be away for 4 s; last: x"}),
                                self.sick())
            self.healthy(8)
            if fall:
                self.assertGreater(time.monotonic() - gone, 4)

    HELD = "isolated: came again and again, has to be away for %d s; last: %s"

    def test_the_hold_outlives_the_agent(self):
        """A new agent goes on with it, from its beginning, and the next hold is twice as long."""
        options = self.hold(falls=1, seconds=5, most=10)
        self.begin(*options)
        for reason in ("x", "y"):
            self.tell("a.json", {"gpu": "2", "reason": reason}, {"gpu": "3", "grade": "slow", "reason": "z"})
            self.healthy(7)
            os.remove(f"{self.faults}/a.json")
            self.assertTrue(wait_for(lambda reason=reason: self.sick() == {2: self.HELD % (5 if reason == "x" else 10, reason)}), (reason, self.sick(), self.agent.lines))
            if reason == "x":
                self.end(self.agent)
                self.agent.stop = lambda: 0
                began = time.monotonic()
                self.agent = self.start("--fault-dir", self.faults, *options)
                self.assertTrue(self.kubelet_.wait_healthy(7), self.agent.lines)
                self.assertEqual(self.sick(), {2: self.HELD % (5, "x")})
                self.healthy(8)
                self.assertGreater(time.monotonic() - began, 4)
        file = f"{self.directory}/device-plugins/gputopo/faults.json"
        self.assertTrue(wait_for(lambda: os.path.exists(file)))
        self.agent.hangup()
        self.healthy(8)
        self.assertTrue(wait_for(lambda: not os.path.exists(file)))

    def test_sighup_ends_the_hold(self):
        self.begin(*self.hold(falls=1, seconds=300))
        self.tell("a.json", {"all": True, "reason": "x"})
        self.healthy(0)
        os.remove(f"{self.faults}/a.json")
        self.says("what was told again and again holds on")
        self.agent.hangup()
        self.healthy(8)

    def test_it_outlives_the_agent(self):
        self.begin()
        self.tell("a.json", {"gpu": "2", "reason": "x"})
        self.healthy(7)
        self.end(self.agent)
        self.agent.stop = lambda: 0
        self.agent = self.start("--fault-dir", self.faults)
        self.assertTrue(self.kubelet_.wait_healthy(7), self.agent.lines)

    def test_bad_files_beside_good_ones(self):
        """One sentence each, also while another file changes; what is good is used, and what was said before holds."""
        self.begin()
        self.tell("good.json", {"gpu": "0", "reason": "x"})
        self.tell("half.json", {"gpu": "1", "reason": "x"})
        self.tell("later.json", {"gpu": "2", "reason": "x"})
        self.healthy(5)
        self.tell_text("half.json", '{"version": 1, "faults": [{"gpu"')
        self.tell("later.json", {"gpu": "7", "reason": "x"}, version=2)
        self.tell_text("empty.json", "")
        self.tell_text("list.json", '{"version": 1}')
        self.tell("entry.json", {"gpu": "3", "reason": "x"}, {"gpu": "4", "all": True, "reason": "x"})
        self.tell("many.json", *[{"gpu": "3", "reason": "x"}] * 65)
        self.tell("open.json", {"gpu": "3", "reason": "x"})
        os.chmod(f"{self.faults}/open.json", 0o666)
        os.mkdir(f"{self.faults}/directory.json")
        os.mkfifo(f"{self.faults}/pipe.json")
        os.symlink("good.json", f"{self.faults}/link.json")
        self.tell_text("large.json", " " * (65 << 10))
        self.tell_text("README", "no faults")
        sentences = ("half.json", "later.json: fault file: version: 2 is not known here, 1 is", "empty.json",
                     "list.json: fault file: faults: is not there",
                     "entry.json: fault file: faults[1]: expected one of gpu, link and all",
                     "many.json: fault file: faults", "open.json may be written by others than its owner, mode 666",
                     "directory.json is no regular file", "pipe.json is no regular file", "link.json", "large.json")
        self.says(*sentences)
        self.tell("good.json", {"gpu": "0", "reason": "x"}, {"gpu": "6", "reason": "x"})
        self.healthy(4)
        time.sleep(2)
        for sentence in sentences:
            self.assertEqual(len(self.said(sentence)), 1, sentence)
        self.assertEqual(sorted(self.sick()), [0, 1, 2, 6])
        self.tell("half.json")
        self.healthy(5)

    def test_entries_of_all_files(self):
        """A file that asks for too many takes no entry from another, and is used when there is room."""
        self.begin()
        self.tell("a.json", *[{"gpu": "0", "reason": "x"}] * 60)
        self.tell("b.json", *[{"gpu": str(gpu), "reason": "x"} for gpu in (1, 2, 3, 4)])
        self.healthy(3)
        self.tell("a.json", *[{"gpu": "5", "reason": "x"}] * 62)
        self.says("a.json: with other files there are more than 64 entries")
        time.sleep(2)
        self.assertEqual(sorted(self.sick()), [0, 1, 2, 3, 4])
        self.tell("c.json", {"gpu": "6", "reason": "x"})
        self.says("c.json: fault file: faults")
        os.remove(f"{self.faults}/b.json")
        self.assertTrue(wait_for(lambda: sorted(self.sick()) == [5, 6]), self.sick())
        self.assertEqual(len(self.said("a file of faults is not used")), 2)

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_files_of_others(self):
        self.begin()
        self.tell("a.json", {"gpu": "0", "reason": "x"})
        self.healthy(7)
        self.tell("b.json", {"gpu": "1", "reason": "x"})
        os.chown(f"{self.faults}/b.json", 12345, 0)
        self.says("b.json belongs to user 12345, not to root")
        self.tell("c.json", {"gpu": "2", "reason": "x"})
        os.chmod(self.faults, 0o777)
        self.says("faults.d may be written by others than its owner, mode 777")
        os.remove(f"{self.faults}/a.json")
        time.sleep(2)
        self.assertIn(0, self.sick())
        os.chmod(self.faults, 0o755)
        self.assertTrue(wait_for(lambda: sorted(self.sick()) == [2]), self.sick())

    def test_conditions_of_the_node(self):
        """One is told, the other takes the GPUs of the node out."""
        def conditions(**statuses):
            with self.api.lock:
                collection, name, _ = self.api.place("/api/v1/nodes/n1")
                old = self.api.objects[collection, name]
                self.api.store(collection, name, {**old, "status": {**old.get("status", {}), "conditions": [
                    {"type": kind, "status": status, "reason": "Test", "message": "port 2 is down"}
                    for kind, status in statuses.items()]}}, "MODIFIED")
        conditions(RDMAUnhealthy="False", DiskSlow="True", Other="True")
        self.begin("--fault-conditions=RDMAUnhealthy=isolate,DiskSlow=report", *self.hold(falls=1))
        self.says("a condition of the Node is a fault")
        self.event("NodeConditionFault")
        self.assertEqual(len(self.kubelet_.healthy()), 8)
        conditions(RDMAUnhealthy="True", DiskSlow="True")
        self.healthy(0)
        self.assertEqual(self.sick()[0], "isolated: the Node's condition RDMAUnhealthy")
        conditions(RDMAUnhealthy="False", DiskSlow="True")
        held = "isolated: came again and again, has to be away for 4 s; last: the Node's condition RDMAUnhealthy"
        self.assertTrue(wait_for(lambda: self.sick().get(7) == held), self.sick())
        self.healthy(8)
        self.assertEqual([line["condition"] for line in self.said("a condition of the Node is a fault")],
                         ["DiskSlow", "RDMAUnhealthy"])

    def condition(self, status):
        with self.api.lock:
            collection, name, _ = self.api.place("/api/v1/nodes/n1")
            old = self.api.objects[collection, name]
            self.api.store(collection, name, {**old, "status": {**old.get("status", {}), "conditions": [
                {"type": "RDMAUnhealthy", "status": status, "reason": "Test", "message": "port 2 is down"}]}}, "MODIFIED")

    def test_the_hold_of_a_condition_outlives_the_agent(self):
        option, hold = "--fault-conditions=RDMAUnhealthy=isolate", self.hold(falls=2, seconds=20)  # longer than the agent asks apart
        self.condition("True")
        self.kubelet_ = self.kubelet()
        self.agent = self.start(option, *hold)
        self.assertTrue(wait_for(lambda: len(self.sick()) == 8), self.agent.lines)
        self.condition("False")
        self.healthy(8)
        self.condition("True")
        self.assertTrue(wait_for(lambda: len(self.sick()) == 8), self.agent.lines)
        self.condition("False")
        self.assertTrue(wait_for(lambda: self.sick().get(0) == self.HELD % (20, "the Node's condition RDMAUnhealthy")), self.sick())
        self.end(self.agent)
        self.agent.stop = lambda: 0
        began = time.monotonic()
        self.agent = self.start(option, *hold)
        self.healthy(8)
        self.assertGreater(time.monotonic() - began, 18)

    def test_a_condition_outlives_agent_and_server(self):
        """A new agent obeys it while the API server is away; without the option it does not."""
        condition = self.condition
        option = "--fault-conditions=RDMAUnhealthy=isolate"
        condition("False")
        self.begin(option)
        condition("True")
        self.healthy(0)
        file = f"{self.directory}/device-plugins/gputopo/conditions.json"
        self.assertTrue(wait_for(lambda: os.path.exists(file)))
        self.end(self.agent)
        self.agent.stop = lambda: 0
        self.api.fail(Status(503), times=100000)
        self.agent = self.start(option)
        self.assertTrue(wait_for(lambda: self.agent.events("conditions of the Node of before hold")), self.agent.lines)
        self.assertTrue(wait_for(lambda: len(self.agent.events("GPU unhealthy")) == 8), self.agent.lines)
        with self.api.lock:
            self.api.faults.clear()
        condition("False")
        self.healthy(8)
        self.assertTrue(wait_for(lambda: not os.path.exists(file)))

    def test_admitted_after_the_check(self):
        """It is said by an Event that check-node has passed."""
        self.begin("--admit-after-check=uuid,bdf")
        self.event("NodeAdmitted")

    def test_ten_thousand_files(self):
        self.begin()
        self.tell("z.json", {"gpu": "5", "reason": "x"})
        self.healthy(7)
        for i in range(10000):
            with open(f"{self.faults}/{i:05}.json", "w", encoding="ascii") as file:
                file.write('{"version": 1, "faults": []}')
        self.assertEqual(self.says("it has more than 64 files, the others are not read"), 1)
        self.tell("z.json", {"gpu": "5", "reason": "x"}, {"gpu": "4", "reason": "x"})
        self.healthy(6)
        self.assertEqual(sorted(self.sick()), [4, 5])


if __name__ == "__main__":
    side_by_side.main()
