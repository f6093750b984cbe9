#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What gputopo-agent reads from the kubelet: who uses which GPU, and whether the vendor's plugin shares them.

Usage: test_agent_usage.py DIRECTORY_OF_PROGRAMS FAKE_LIBMXSML [unittest arguments]
"""

import json
import signal
import sys
import time

import side_by_side
from agent_case import Case, PROGRAMS, machine, uuid
from daemon_driver import PATIENCE, wait_for
from kubelet_double import AdmissionError

SHARES = "metax-tech.com/sgpu"


class WhoUsesWhat(Case):
    """The agent reads the kubelet's pod-resources API. Its answers settle for ten seconds after a start."""

    def owners(self, agent):
        return {int(labels["gpu"]): (labels["namespace"], labels["pod"], labels["container"])
                for (name, key), value in agent.metrics().items() if name == "gputopo_gpu_used" and value == 1
                for labels in [dict(key)]}

    def usage(self, agent):
        status, text = agent.get("/usage")
        self.assertEqual(status, 200)
        return json.loads(text)

    def start_known(self, *arguments, **what):
        kubelet, agent = self.start_recorded(*arguments, **what)
        self.wait_known(agent)
        return kubelet, agent

    def wait_known(self, agent):
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_usage_known") == 1), agent.lines)

    def wait_used(self, agent, count, seconds=PATIENCE):
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_gpus_in_use") == count, seconds),
                        (self.usage(agent), agent.lines))

    def test_scores_beside_the_best(self):
        """A mesh of four is the best; two that the kubelet took for their NUMA nodes are not; one has no score."""
        kubelet, agent = self.start_known()

        def scores():
            return [agent.metric(f"gputopo_allocation_{name}_total") for name in ("score", "best_score")]

        self.assertEqual(scores(), [0, 0])
        kubelet.admit("four", 4)
        self.assertTrue(wait_for(lambda: scores()[0] > 0))
        mesh, best = scores()
        self.assertEqual(mesh, best)
        self.wait_used(agent, 4)
        kubelet.release("four")
        self.wait_used(agent, 0)
        kubelet.admit("far", 2, aligned=[uuid(0), uuid(4)])  # and we are not asked
        pair = mesh / 6  # of the four's six pairs
        self.assertTrue(wait_for(lambda: scores()[1] > best))
        given, best = scores()
        self.assertEqual(best, mesh + pair)
        self.assertLess(given, mesh + pair)
        far = given - mesh
        kubelet.admit("one", 1)
        kubelet.admit("two", 2)  # at once: what has just been given away is not free, though no list says so yet
        self.assertTrue(wait_for(lambda: scores()[0] > given))
        self.assertEqual(scores(), [mesh + far + pair, best + pair])

    def test_owners_come_and_go(self):
        born = time.monotonic()
        kubelet, agent = self.start_recorded()
        known, used = self.usage(agent)["known"], agent.metric("gputopo_gpus_in_use")
        if time.monotonic() - born < 9:  # else it is believed by now
            self.assertEqual((known, used), (False, None), "an empty answer of a new kubelet is not believed")
        kubelet.admit("four", 4)
        self.wait_known(agent)
        self.wait_used(agent, 4)
        for turn in range(8):  # a busy machine may be late, not each time
            lists = len(kubelet.book.lists())
            self.assertTrue(wait_for(lambda n=lists: len(kubelet.book.lists()) > n))
            lists = len(kubelet.book.lists())
            kubelet.admit("pair", 1, 2)
            self.wait_used(agent, 7)
            if kubelet.book.lists()[lists][0] - kubelet.book.lists()[lists - 1][0] < 4.9:
                break
            self.assertLess(turn, 7, "an allocation is listed at once, not after the five seconds between two lists")
            kubelet.release("pair")
            self.wait_used(agent, 4)
        held = {i: ("default", pod, f"c{number}") for pod, containers in kubelet.pods.items()
                for number, ids in enumerate(containers) for i in map(kubelet.order.index, ids)}
        self.assertEqual(self.owners(agent), held)
        usage = self.usage(agent)
        self.assertEqual((usage["node"], usage["known"], usage["stale"]), ("n1", True, False))
        self.assertEqual(usage["free"], sorted(set(range(8)) - set(held)))
        self.assertEqual({one["gpu"]: (one["namespace"], one["pod"], one["container"]) for one in usage["used"]}, held)
        self.assertEqual({one["id"] for one in usage["used"]}, kubelet.used())
        self.assertEqual((usage["twice"], usage["strangers"]), ([], []))
        self.assertLess(abs(usage["asked"] - time.time()), 60)
        kubelet.release("four")
        self.wait_used(agent, 3)
        self.assertEqual(agent.wait_event("GPUs freed")["pod"], "four")
        self.assertGreater(self.usage(agent)["generation"], usage["generation"])
        before, begin = len(kubelet.book.lists()), time.monotonic()
        time.sleep(10.5)
        self.assertLessEqual(len(kubelet.book.lists()) - before, (time.monotonic() - begin) // 5 + 2,
                             "every five seconds is enough")
        self.record(sick=[i for i in range(8) if i not in held][:1])
        agent.signal(signal.SIGHUP)
        self.assertTrue(wait_for(lambda: len(self.usage(agent)["free"]) == 4), "an unhealthy GPU is not free")
        self.assertEqual(agent.stop()[0], 0)

    def test_never_while_an_allocation_runs(self):
        kubelet, agent = self.start_known()
        for i in range(60):
            kubelet.admit(f"pod{i}", 1 + i % 3)
            kubelet.release(f"pod{i}")
            time.sleep(0.05)
        self.assertEqual(kubelet.book.untimely, 0)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_gpus_in_use") == 0))
        self.assertEqual(agent.metric("gputopo_podresources_lists_total", result="limited"), 0)

    def test_a_kubelet_restart_frees_nothing(self):
        kubelet, agent = self.start_recorded()
        kubelet.admit("mine", 4)
        self.wait_known(agent)
        self.wait_used(agent, 4)
        kubelet.book.empty_for = 3.0
        kubelet.restart()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            self.assertEqual(agent.metric("gputopo_gpus_in_use"), 4)
            time.sleep(0.1)
        self.assertTrue(kubelet.wait_healthy(8))
        kubelet.admit("more", 2)
        self.wait_used(agent, 6)
        kubelet.release("mine")
        self.wait_used(agent, 2)
        self.assertEqual(agent.events("two containers hold one GPU"), [])

    def test_ids_in_use_survive_a_restart_of_the_agent(self):
        kubelet, agent = self.start_recorded()
        kubelet.admit("mine", 3)
        held = kubelet.used()
        self.assertEqual(agent.stop()[0], 0)
        # The vendor library does not answer yet: nobody knows which GPU is which.
        nameless = machine()
        for gpu in nameless["gpus"]:
            gpu["uuid"] = ""
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump(nameless, file)
        kubelet.book.empty_for = 0.0
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait(lambda: len(kubelet.order) == 8 + 3), agent.lines)
        self.assertLessEqual(held, set(kubelet.order))
        self.assertEqual(kubelet.healthy(), [], "any of them may be in use")
        self.record()
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertLessEqual(held, set(kubelet.healthy()), "and have their IDs again")
        self.assertEqual(len([name for name in kubelet.healthy() if name.startswith("PCI-")]), 5)
        kubelet.admit("others", 5)
        self.assertEqual(len(kubelet.used()), 8)
        self.wait_known(agent)
        self.wait_used(agent, 8)
        self.assertEqual(self.usage(agent)["twice"], [])

    def test_a_place_id_in_use_stays(self):
        nameless = machine()
        nameless["gpus"][2]["uuid"] = ""
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump(nameless, file)
        kubelet = self.kubelet()
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        place, = [name for name in kubelet.order if name.startswith("PCI-")]
        kubelet.admit("all", 8)
        self.assertEqual(agent.stop()[0], 0)
        self.record()
        kubelet.book.empty_for = 0.0
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        self.assertIn(place, kubelet.order)
        self.assertNotIn(uuid(2), kubelet.order)
        self.wait_known(agent)
        self.wait_used(agent, 8)
        self.assertEqual(self.owners(agent)[2], ("default", "all", "c0"))

    def test_an_id_in_use_that_is_learnt_late(self):
        """Kubelet and agent start together: the kubelet's list is empty for a while."""
        nameless = machine()
        nameless["gpus"][2]["uuid"] = ""
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump(nameless, file)
        kubelet = self.kubelet()
        kubelet.pods["old"] = [["PCI-0000:0e:00.0"], [uuid(2)]]
        kubelet.book.started = time.monotonic()
        kubelet.book.empty_for = 2.0
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait(lambda: "PCI-0000:0e:00.0" in kubelet.order and uuid(2) in kubelet.order),
                        agent.lines)
        self.assertNotIn("PCI-0000:10:00.0", kubelet.healthy(), "it may be the one in use")
        self.assertEqual(agent.metric("gputopo_scans_total", result="done"), 1, "that needs no scan")
        self.assertTrue(kubelet.wait(lambda: "PCI-0000:0e:00.0" in kubelet.healthy()), agent.lines)
        self.assertFalse(kubelet.devices[uuid(0)][0], "the same GPU is not offered by another ID")

    def test_told_to_scan_before_the_kubelet_has_answered(self):
        """Kubelets answer slowly when a node starts, and drivers are loaded then."""
        nameless = machine()
        nameless["gpus"][2]["uuid"] = ""
        with open(self.recording, "w", encoding="utf-8") as file:
            json.dump(nameless, file)
        kubelet = self.kubelet()
        kubelet.pods["old"] = [[uuid(2)]]
        kubelet.book.empty_for = 0.0
        kubelet.book.hang = 1.5
        agent = self.start("--from", self.recording)
        self.assertTrue(wait_for(lambda: kubelet.book.calls), agent.lines)
        agent.signal(signal.SIGHUP)
        self.assertTrue(kubelet.wait_healthy(7), agent.lines)
        self.assertIn(uuid(2), kubelet.lists[0], "the container has it by that ID")
        self.assertNotIn(True, [sent.get("PCI-0000:10:00.0") for sent in kubelet.lists], "it is not offered by another")
        agent.wait_event("scanning again as asked")

    def test_no_socket_and_then_one(self):
        self.record()
        kubelet = self.kubelet(start=False)
        kubelet.book.serves = False
        kubelet.start()
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), "the GPUs are served all the same")
        why = agent.wait_event("cannot ask the kubelet who uses the GPUs")["why"]
        self.assertIn("pod-resources/kubelet.sock", why)
        self.assertEqual(self.usage(agent)["known"], False)
        kubelet.book.serves = True
        kubelet.book.start()
        agent.wait_event("the kubelet says again who uses the GPUs")
        self.wait_known(agent)
        self.assertEqual(len(agent.events("cannot ask the kubelet who uses the GPUs")), 1)

    def test_without_the_device_plugin(self):
        self.record()
        kubelet = self.kubelet()
        kubelet.book.extra = [("ns", "pod", "c", "metax-tech.com/gpu", [uuid(3)]),
                              ("ns", "pod", "c", "other.example/gpu", [uuid(4)])]
        agent = self.start("--from", self.recording, "--no-device-plugin")
        agent.wait_event("node discovered")
        self.wait_known(agent)
        self.assertEqual(self.owners(agent), {3: ("ns", "pod", "c")})
        self.assertEqual(agent.stop()[0], 0)

    def test_strange_and_double_owners(self):
        kubelet, agent = self.start_known()
        kubelet.admit("mine", 1)
        mine, = kubelet.used()
        kubelet.book.extra = [("other", "thief", "c", "metax-tech.com/gpu", [mine]),
                              ("other", "guest", "c", "metax-tech.com/gpu", ["no-such-gpu", "bad id", ""])]
        said = agent.wait_event("two containers hold one GPU")
        self.assertEqual(said["level"], "warning")
        self.assertEqual(said["id"], mine)
        self.assertEqual(agent.metric("gputopo_gpus_owned_twice"), 1)
        self.assertEqual(agent.metric("gputopo_gpus_in_use"), 1)
        self.assertEqual(agent.metric("gputopo_unknown_devices_in_use"), 3)
        self.assertEqual({one["id"] for one in self.usage(agent)["strangers"]}, {"no-such-gpu", "bad id", ""})
        self.assertTrue(kubelet.wait(lambda: "no-such-gpu" in kubelet.order), "it does not leave the list")
        self.assertEqual(len(kubelet.healthy()), 8)
        kubelet.book.extra = []
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_gpus_owned_twice") == 0))
        self.assertEqual(agent.metric("gputopo_unknown_devices_in_use"), 0)
        self.assertEqual(len(agent.events("two containers hold one GPU")), 1)

    def test_errors_change_nothing(self):
        kubelet, agent = self.start_known()
        kubelet.admit("mine", 2)
        self.wait_used(agent, 2)
        kubelet.book.unavailable = True
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_podresources_lists_total", result="failed") >= 2))
        self.assertEqual(agent.metric("gputopo_gpus_in_use"), 2)
        kubelet.book.unavailable = False
        agent.wait_event("the kubelet says again who uses the GPUs")
        # somebody else takes the whole rate
        kubelet.book.limit = kubelet.book.tokens = 0.0
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_podresources_lists_total", result="limited") >= 1))
        kubelet.admit("more", 2)
        calls = len(kubelet.book.lists())
        self.assertTrue(wait_for(lambda: len(kubelet.book.lists()) > calls))
        self.assertGreater(kubelet.book.lists()[calls][0] - kubelet.book.lists()[calls - 1][0], 3.7,
                           "whoever was told to wait waits, five seconds less a quarter at most")
        kubelet.book.limit = 100.0
        self.wait_used(agent, 4)

    def test_large_answers(self):
        kubelet, agent = self.start_known()
        kubelet.book.padding = 10 << 20
        kubelet.admit("mine", 2)
        self.wait_used(agent, 2)
        kubelet.book.padding = 20 << 20
        kubelet.admit("more", 2)
        self.assertTrue(wait_for(lambda: agent.metric("gputopo_podresources_lists_total", result="limited") >= 1))
        self.assertEqual(agent.metric("gputopo_gpus_in_use"), 2)
        self.assertEqual(agent.get("/healthz")[0], 200)
        kubelet.book.padding = 0
        self.wait_used(agent, 4)

    def test_a_kubelet_that_hangs(self):
        self.record()
        kubelet = self.kubelet()
        kubelet.book.hang = 1000.0
        agent = self.start("--from", self.recording)
        self.assertTrue(kubelet.wait_healthy(8), agent.lines)
        registered = agent.wait_event("registered")
        failed = agent.wait_event("cannot ask the kubelet who uses the GPUs")
        self.assertRegex(failed["why"], "DEADLINE_EXCEEDED|no answer")  # of gRPC, or of the timer a second later
        self.assertLess(agent.lines.index(registered), agent.lines.index(failed), "the GPUs do not wait for it")
        calls = len(kubelet.book.calls)
        self.assertTrue(wait_for(lambda: len(kubelet.book.calls) > calls))
        self.assertEqual(agent.stop()[0], 0, agent.lines)
        self.assertTrue(kubelet.wait(lambda: len(kubelet.book.left) > calls), "nor does the end: the last call is cancelled")
        self.assertGreater(kubelet.book.left[-1], 0, "before its ten seconds are over")


class BesideSharedGpus(Case):
    """The vendor's plugin serves the GPUs as shares: the kubelet says so. (The Node's annotation: test_publish.py)"""

    def test_whole_gpus_are_withdrawn_and_come_back(self):
        kubelet, agent = self.start_recorded()
        mine, = kubelet.admit("mine", 2)
        kubelet.book.elsewhere = {SHARES: [f"{uuid(0)}-{i}" for i in range(4)]}
        self.assertTrue(kubelet.wait(lambda: not kubelet.healthy()), agent.lines)
        self.assertEqual(len(kubelet.order), 8, "what was served stays in the list")
        said = agent.wait_event("the GPUs are left to the vendor's plugin, which shares them")
        self.assertEqual((said["level"], said["why"]), ("warning", "the kubelet offers 4 metax-tech.com/sgpu"))
        self.assertIn("sGPU", agent.wait_event("node is not advertised")["why"])
        with self.assertRaises(AdmissionError):
            kubelet.admit("late", 1)
        # The vendor's plugin starts again: nothing is offered meanwhile, but a container holds a share.
        kubelet.book.extra = [("ns", "sharer", "c", SHARES, [f"{uuid(0)}-1"])]
        kubelet.book.elsewhere = {}
        calls = len(kubelet.book.calls)
        self.assertTrue(wait_for(lambda: len(kubelet.book.calls) >= calls + 4), agent.lines)
        self.assertEqual(kubelet.healthy(), [])
        gone = time.monotonic()
        kubelet.book.extra = []
        self.assertTrue(kubelet.wait_healthy(8, 2 * PATIENCE), agent.lines)
        self.assertGreater(time.monotonic() - gone, 45, "it is believed after a while only")
        agent.wait_event("node is advertised again")
        self.assertEqual(kubelet.pods["mine"], [mine])
        self.assertEqual(len(agent.events("node is not advertised")), 1)

    def test_never_offered_where_shares_are(self):
        self.record()
        kubelet = self.kubelet()
        kubelet.book.elsewhere = {SHARES: ["a-share"]}
        agent = self.start("--from", self.recording)
        agent.wait_event("node is not advertised")
        self.assertTrue(wait_for(lambda: "sGPU" in agent.get("/readyz")[1]))
        self.assertEqual(agent.get("/readyz")[0], 200)
        self.assertEqual(kubelet.registrations, [])


if __name__ == "__main__":
    if not PROGRAMS:
        sys.exit(__doc__)
    side_by_side.main(6)
