#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is isolated by UUID follows the GPU into another node: gputopo-scheduler, its part "placement", against the double of
the API server. The agents are played here.

Usage: test_moved_gpus.py GPUTOPO_SCHEDULER [unittest arguments]
"""

import json
import threading
import time

import companion_case
import side_by_side
from api_double import Held, Status
from companion_driver import NODES, TOPOLOGIES
from daemon_driver import wait_for
from placement_driver import node_status, topology

QUIET = 2  # nothing has happened for so long
ENTRY = {"reason": "bandwidth test fails", "by": "alice", "since": "2026-11-01T00:00:00Z"}


class Answer:
    """The object as it is then, after something else."""

    def __init__(self, case, node, before=lambda: None):
        self.case, self.node, self.before = case, node, before

    def run(self, handler):
        self.before()
        handler.answer(200, json.dumps(self.case.objects(TOPOLOGIES)[self.node]).encode(), {})


class Unknown:
    """It is done, and the answer is an error; then something else happens."""

    def __init__(self, case, after):
        self.case, self.after = case, after

    def run(self, handler):
        request = self.case.patches()[-1]
        self.case.put(request.path.split("/")[-1], spec=json.loads(request.body)["spec"])
        self.after()
        handler.answer(500, b"{}", {})


class Case(companion_case.Case):
    def begin(self, *arguments, **more):
        return self.start(*arguments, only="placement", **more)

    def put(self, node, **members):
        """Changes some members of a NodeGPUTopology."""
        with self.api.lock:
            old = self.objects(TOPOLOGIES).get(node, {})
            self.api.add(TOPOLOGIES, node, **{**{key: old[key] for key in ("spec", "status") if key in old}, **members})

    def told(self, node):
        return self.objects(TOPOLOGIES)[node].get("spec", {}).get("isolated", [])

    def tell(self, node, *entries):
        self.put(node, spec={"isolated": list(entries)})

    def report(self, node, *uuids, bad=(), ready=True):
        """What the node's agent finds."""
        status = topology(node, len(uuids))
        for gpu, uuid in zip(status["gpus"], uuids):
            health = "unhealthy" if uuid in bad else "healthy"
            gpu.update(uuid=uuid, health=health, healthy=uuid not in bad, **({"unhealthyReason": "isolated: x"} if uuid in bad else {}))
        self.put(node, status=status)
        self.ready(node, ready)

    def ready(self, node, ready=True):
        status = node_status(8)
        status["conditions"][0]["status"] = "True" if ready else "Unknown"
        self.api.add(NODES, node, status=status, spec={})

    def events(self):
        return sorted((e["regarding"]["name"], e["reason"]) for e in self.told_events())

    def patches(self):
        return [r for r in self.api.asked(method="PATCH") if "/nodegputopologies/" in r.path]

    def wait_told(self, **want):
        wait_for(lambda: all(self.told(node) == entries for node, entries in want.items()))
        self.assertEqual({node: self.told(node) for node in want}, want)

    def stays(self, **want):
        time.sleep(QUIET)
        self.assertEqual({node: self.told(node) for node in want}, want)


class Moved(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = {"gpu": "GPU-a-0000000", **ENTRY}, {"gpu": "GPU-b-0000000", **ENTRY, "evict": True}
        self.report("n1", "GPU-a-0000000", "GPU-n1-00000")
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000")
        self.tell("n1", {"all": True, **ENTRY, "until": "2026-01-01T00:00:00Z"}, self.a)
        self.rest = self.told("n1")[:1]

    def move(self, **more):
        self.report("n1", "GPU-n1-00000")
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000", **more)

    def obey(self):
        self.move(bad=["GPU-a-0000000"])

    def finished(self):
        self.wait_told(n1=self.rest, n2=[self.a])

    def test_it_follows_and_is_always_somewhere(self):
        self.begin()
        self.stays(n1=[*self.rest, self.a], n2=[])
        self.move()
        self.wait_told(n2=[self.a])
        self.stays(n1=[*self.rest, self.a])  # the new node's agent does not obey yet
        self.assertTrue(wait_for(lambda: self.events() == [("n1", "IsolationMoved"), ("n2", "IsolationMoved")]), self.events())
        self.assertEqual({e["note"] for e in self.told_events()},
                         {"GPU GPU-a-0000000 is in node n2 now, and stays isolated there: bandwidth test fails, says alice"})
        self.obey()
        self.finished()
        self.stays(n1=self.rest, n2=[self.a])
        self.assertEqual(len(self.patches()), 2)
        self.assertEqual(len(self.events()), 2)

    def test_two_change_places(self):
        self.tell("n2", self.b)
        self.begin()
        self.report("n1", "GPU-b-0000000", "GPU-n1-00000")
        self.report("n2", "GPU-a-0000000", "GPU-n2-00000")
        self.wait_told(n1=[*self.rest, self.a, self.b], n2=[self.b, self.a])
        self.report("n1", "GPU-b-0000000", "GPU-n1-00000", bad=["GPU-b-0000000"])
        self.report("n2", "GPU-a-0000000", "GPU-n2-00000", bad=["GPU-a-0000000"])
        self.wait_told(n1=[*self.rest, self.b], n2=[self.a])

    def test_it_has_moved_before_the_companion_starts(self):
        self.move()
        self.begin()
        self.wait_told(n2=[self.a])
        self.obey()
        self.finished()

    def test_the_old_node_is_off(self):
        """It says what it had until it is on again."""
        self.begin()
        self.ready("n1", False)
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000")
        self.wait_told(n2=[self.a])
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000", bad=["GPU-a-0000000"])
        self.stays(n1=[*self.rest, self.a], n2=[self.a])
        for i in range(5):
            self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000", f"GPU-more-{i:04}", bad=["GPU-a-0000000"])
            time.sleep(0.3)
        self.assertEqual(len(self.patches()), 1)
        self.report("n1", "GPU-n1-00000")
        self.finished()

    def test_one_of_two_cards_of_a_node_that_is_off_cannot_follow_yet(self):
        """That the other's copy is there says nothing about it."""
        c = {"gpu": "GPU-c-0000000", **ENTRY}
        self.tell("n1", self.a, c)
        self.report("n3", "GPU-n3-00000", "GPU-c-0000000")
        self.report("n2", "GPU-n2-00000", "GPU-a-0000000")
        self.ready("n1", False)
        self.api.fail(Status(403, "forbidden"), times=2, method="PATCH", path="/nodegputopologies/n2$")
        self.begin()
        self.wait_told(n2=[self.a], n3=[c], n1=[self.a, c])

    def test_it_is_not_there_for_a_moment(self):
        self.ready("n1", False)
        self.begin()
        self.api.fail(Answer(self, "n2", lambda: self.report("n2", "GPU-n2-00000")), method="GET", path="/nodegputopologies/n2$")
        self.report("n2", "GPU-n2-00000", "GPU-a-0000000")
        self.stays(n1=[*self.rest, self.a], n2=[])
        self.report("n2", "GPU-n2-00000", "GPU-a-0000000")
        self.wait_told(n2=[self.a], n1=[*self.rest, self.a])

    def test_the_last_card_of_a_node(self):
        """The new node's agent obeys much later, and the old one says nothing more."""
        self.begin()
        self.report("n1")
        self.report("n2", "GPU-n2-00000", "GPU-a-0000000")
        self.wait_told(n2=[self.a])
        self.stays(n1=[*self.rest, self.a])
        self.report("n2", "GPU-n2-00000", "GPU-a-0000000", bad=["GPU-a-0000000"])
        self.finished()

    def test_the_old_node_is_another_machine_now(self):
        """What its NodeGPUTopology says is of before, and is deleted soon."""
        self.put("n1", metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "before"}]})
        self.begin()
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000")
        self.wait_told(n2=[self.a])

    def test_the_object_was_deleted_before(self):
        """Nobody sees any more what was isolated: one Event says so, and nothing where another list has it."""
        self.tell("n1", *self.rest, self.a, {"gpu": "GPU-n1-00000", **ENTRY})
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000")
        self.tell("n2", self.b)
        self.tell("n3", self.b)
        self.begin()
        self.stays(n3=[self.b])
        self.api.remove(TOPOLOGIES, "n3")
        self.api.remove(TOPOLOGIES, "n1")
        self.assertTrue(wait_for(self.events), self.events())
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000")
        self.stays(n2=[self.b])
        self.assertEqual(self.events(), [("n1", "IsolationLeftBehind")])
        self.assertRegex(self.told_events()[0]["note"], r"^GPU GPU-(a-0000000|n1-00000) and 1 more stay isolated in this node alone, since its "
                         r"NodeGPUTopology was deleted: isolate a card by its UUID again where it moves to$")

    def test_the_object_with_a_link_was_deleted(self):
        """That one of its GPUs is isolated elsewhere says nothing of the link."""
        self.tell("n1", {"link": ["GPU-a-0000000", "GPU-n1-00000"], **ENTRY})
        self.report("n1", "GPU-n1-00000")
        self.report("n3", "GPU-a-0000000")
        self.tell("n3", self.a)
        self.begin()
        self.stays(n3=[self.a])
        self.api.remove(TOPOLOGIES, "n1")
        self.assertTrue(wait_for(self.events), self.events())
        self.assertTrue(self.told_events()[0]["note"].startswith("the link of GPU-a-0000000 and GPU-n1-00000 stays isolated in this node alone"),
                        self.told_events())

    def test_a_later_word_counts(self):
        """On the new node, while the old one is off: what would follow it does not come again."""
        self.begin()
        self.ready("n1", False)
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000")
        self.wait_told(n2=[self.a])
        later = {**self.a, "grade": "slow", "since": "2026-11-02T00:00:00Z"}
        self.tell("n2", later)
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000")
        self.stays(n1=[*self.rest, self.a], n2=[later])
        self.report("n1", "GPU-n1-00000")
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000", "GPU-a-0000000", bad=["GPU-a-0000000"])
        self.wait_told(n1=self.rest, n2=[later])

    def test_it_comes_back(self):
        self.begin()
        self.move()
        self.wait_told(n2=[self.a])
        self.report("n2", "GPU-b-0000000", "GPU-n2-00000")
        self.report("n1", "GPU-a-0000000", "GPU-n1-00000", bad=["GPU-a-0000000"])
        self.wait_told(n1=[*self.rest, self.a], n2=[])

    def test_two_nodes_with_one_uuid(self):
        """Nobody knows which of them is meant."""
        self.begin()
        self.report("n2", "GPU-a-0000000", "GPU-n2-00000")
        self.stays(n1=[*self.rest, self.a], n2=[])
        self.assertEqual(self.patches(), [])

    def test_what_has_ended_stays_behind(self):
        ended = {**self.a, "until": "2026-11-02T00:00:00Z"}
        self.tell("n1", ended)
        self.begin()
        self.move()
        self.stays(n1=[ended], n2=[])

    def test_released_meanwhile(self):
        """Between the reading of the old list and the copy: the copy goes again."""
        get = {"method": "GET", "path": "/nodegputopologies/n1$"}
        self.api.fail(Answer(self, "n1"), **get)
        self.api.fail(Answer(self, "n1", lambda: self.tell("n1", *self.rest)), **get)
        self.begin()
        self.move()
        self.assertTrue(wait_for(lambda: len(self.patches()) == 2))
        self.wait_told(n1=self.rest, n2=[])
        self.stays(n1=self.rest, n2=[])

    def test_released_while_nobody_knows_whether_it_is_copied(self):
        self.api.fail(Unknown(self, lambda: self.tell("n1", *self.rest)), method="PATCH", path="/nodegputopologies/n2$")
        self.begin()
        self.move()
        self.assertTrue(wait_for(lambda: len(self.patches()) == 2))
        self.wait_told(n1=self.rest, n2=[])

    def test_changed_meanwhile(self):
        later = {**self.a, "until": "2036-01-01T00:00:00Z"}
        get = {"method": "GET", "path": "/nodegputopologies/n1$"}
        self.api.fail(Answer(self, "n1"), **get)
        self.api.fail(Answer(self, "n1", lambda: self.tell("n1", *self.rest, later)), **get)
        self.begin()
        self.move()
        self.wait_told(n2=[later])
        self.obey()
        self.wait_told(n1=self.rest, n2=[later])

    def test_others_write_at_once(self):
        """With an older version nothing is written, and it is tried again."""
        other = {"gpu": "1", **ENTRY}
        self.api.fail(Answer(self, "n2"), method="GET", path="/nodegputopologies/n2$")
        held = threading.Event()
        self.api.fail(Held(held, 409), method="PATCH", path="/nodegputopologies/n2$")
        self.begin()
        self.move()
        self.assertTrue(wait_for(lambda: self.patches()))
        self.tell("n2", other)
        held.set()
        self.wait_told(n2=[other, self.a])
        self.obey()
        self.wait_told(n1=self.rest, n2=[other, self.a])

    def test_the_leader_changes_in_the_middle(self):
        held = threading.Event()
        self.addCleanup(held.set)
        one = self.begin()
        self.wait(one.leads)
        self.api.fail(Held(held, 500), method="PATCH", path="/nodegputopologies/n2$")
        self.move()
        self.assertTrue(wait_for(lambda: self.patches()))
        self.assertEqual(one.stop(), 0)
        two = self.begin()
        self.wait(two.leads)
        self.wait_told(n2=[self.a], n1=[*self.rest, self.a])
        self.assertEqual(two.stop(), 0)
        self.obey()
        three = self.begin()
        self.wait(three.leads)
        self.finished()

    def test_the_api_server_is_away_meanwhile(self):
        companion = self.begin()
        self.api.stop()
        self.wait(lambda: not companion.leads())
        self.move()
        self.api.start()
        self.wait_told(n2=[self.a])
        self.api.stop()
        self.obey()
        self.api.start()
        self.finished()

    def test_it_may_not(self):
        """It says so once, and nothing is lost."""
        self.api.fail(Status(403, "forbidden"), times=1000, method="PATCH", path="/nodegputopologies/n2$")
        companion = self.begin()
        self.move()
        self.assertTrue(wait_for(lambda: len(self.patches()) == 2, 30))
        self.assertEqual(len(companion.events("what is isolated cannot follow its GPU to another node, it is tried again")), 1)
        self.assertEqual((self.told("n1"), self.told("n2"), self.events()), ([*self.rest, self.a], [], []))

    def test_nobody_knows_whether_it_is_written(self):
        self.api.fail(Status(500), times=1000, method="PATCH", path="/nodegputopologies/n2$")
        self.begin()
        self.move()
        self.assertTrue(wait_for(lambda: self.patches()))
        self.stays(n1=[*self.rest, self.a], n2=[])
        self.assertEqual(len(self.patches()), 1)
        self.assertTrue(wait_for(lambda: len(self.patches()) == 2, 30))

    def test_no_room(self):
        """One has none, which holds up no other."""
        c = {"gpu": "GPU-c-0000000", **ENTRY}
        full = [{"gpu": str(i), **ENTRY} for i in range(64)]
        self.tell("n1", self.a, c)
        self.tell("n2", *full[1:])
        companion = self.begin()
        self.report("n1", "GPU-n1-00000")
        self.report("n2", "GPU-a-0000000", "GPU-c-0000000")
        self.wait_told(n1=[self.a, c], n2=[*full[1:], self.a])
        self.assertTrue(wait_for(lambda: [line for line in companion.lines if "64 isolations already" in str(line)]), companion.lines)
        self.report("n2", "GPU-a-0000000", "GPU-c-0000000", bad=["GPU-a-0000000"])
        self.wait_told(n1=[c], n2=[*full[1:], self.a])
        self.tell("n2", *full[2:], self.a)
        self.wait_told(n1=[c], n2=[*full[2:], self.a, c])

    def test_a_link(self):
        link = {"link": ["GPU-a-0000000", "GPU-n1-00000"], **ENTRY}
        self.tell("n1", link)
        self.begin()
        self.move()
        self.stays(n1=[link], n2=[])  # one of the two is not there
        self.report("n1")
        self.report("n2", "GPU-a-0000000", "GPU-n1-00000")
        self.wait_told(n2=[link])
        with self.api.lock:
            status = self.objects(TOPOLOGIES)["n2"]["status"]
        status["links"][0]["state"] = "down"
        self.put("n2", status=status)
        self.wait_told(n1=[], n2=[link])


side_by_side.main()
