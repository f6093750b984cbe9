#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ResourceQuotas: reservations for pods that do not exist count against them.

The double has no controller of quotas: `used` is what a case says.

Usage: test_placement_quota.py PLACEMENT_HOST [unittest arguments]
"""

import side_by_side
from api_double import Status
from daemon_driver import wait_for
from placement_case import PLACEMENTS, SETS, PlacementCase
from placement_driver import GROUP, RESOURCE, indexed_pod, planned_node, statefulset_pod, template

QUOTAS = "/api/v1/namespaces/ns/resourcequotas"
REQUESTS = "requests." + RESOURCE
LONG = 600000  # ms: what comes sooner comes of an event


class PlacementQuotaTest(PlacementCase):
    def quota(self, hard, used=None, name="q", enforced=None, resource=REQUESTS, **spec):
        status = {"hard": {resource: str(hard if enforced is None else enforced)}, "used": {resource: str(used)}}
        self.api.add(QUOTAS, name, spec={"hard": {resource: str(hard)}, **spec}, **({} if used is None else {"status": status}))

    def begin_job(self, name, pods, group, made=1, gpus=8, day=1, **more):
        """The job and its first pods."""
        self.add_job(name, pods, group, gpus)
        self.make_pods(name, range(made), group, gpus, day, **more)

    def make_pods(self, name, indices, group, gpus=8, day=1, **more):
        for i in indices:
            pod = indexed_pod(name, i, gpus=gpus, group=group, **more)
            pod["metadata"]["creationTimestamp"] = f"2026-01-{day:02}T00:00:00Z"
            self.add_pod(f"{name}-{i}", pod)

    def wait_job(self, name, kind="Job", **expected):
        def is_so():
            job = self.host.job(f"ns/{kind}/{name}")
            return all(job.get(key) == value for key, value in expected.items())
        self.assertTrue(wait_for(is_so), (self.host.job(f"ns/{kind}/{name}"), self.host.counters(), self.host.notes[-5:]))

    def wait_exceeded(self, name, allowed, used, reserved, more, quota="q", **expected):
        self.wait_job(name, reason="QuotaExceeded", reservedGPUs=0, **expected, text=(
            f"quota {quota} of its namespace allows {allowed} GPUs: {used} are used, {reserved} are reserved for pods to come; "
            f"it would need {more} more"))

    def wait_heard(self):
        """Quotas up to here have been heard of."""
        heard = len(self.notes_of("heard"))
        self.quota("x", name="heard")
        self.assertTrue(wait_for(lambda: len(self.notes_of("heard")) > heard))

    def notes_of(self, what):
        return [note for note in self.host.notes if what in note["job"]]

    def wait_looked(self):
        """Every job that keeps something has been looked at several times more."""
        before = self.host.counters()["reconciles"]
        self.assertTrue(wait_for(lambda: self.host.counters()["reconciles"] >= before + 6))

    def test_one_pod_of_a_wide_job_holds_nothing_beyond_its_quota(self):
        self.world(4)
        self.quota(8, 1)
        self.start(retry=LONG)
        self.begin_job("wide", 128, 8, gpus=1)
        self.wait_exceeded("wide", 8, 1, 0, 127, state="gathers")
        self.assertTrue(wait_for(lambda: self.condition("wide-0")))
        self.assertEqual(self.condition("wide-0")["reason"], "QuotaExceeded")
        self.assertEqual(self.host.counters()["assumptions"], 0)
        for quota in ({"hard": 127}, {"hard": 128, "enforced": 127}):  # the API server goes by its status
            self.quota(used=1, **quota)
            self.wait_heard()
            self.wait_job("wide", reason="QuotaExceeded", reservedGPUs=0)
        self.quota(128, 1)
        self.wait_job("wide", state="writes", reservedGPUs=127)

    def test_job_comes_in_when_the_quota_goes(self):
        self.world(1)
        self.quota(16)
        self.start(retry=LONG)
        self.begin_job("a", 4, 32)
        self.wait_exceeded("a", 16, 8, 0, 24)
        self.api.remove(QUOTAS, "q")
        self.wait_job("a", state="writes", reservedGPUs=24)

    def test_two_jobs_of_a_namespace(self):
        """What one has reserved the other has not, whether its pods are there or still to come."""
        self.world(4)
        self.quota(56, 8)
        self.start(retry=LONG)
        self.begin_job("a", 4, 32)
        self.wait_job("a", state="writes", reservedGPUs=24)
        self.begin_job("b", 4, 32)
        self.wait_exceeded("b", 56, 16, 24, 24)  # the quota has not told of b's pod
        self.make_pods("a", range(1, 4), 32)
        self.wait_lifted(*(f"a-{i}" for i in range(4)))
        self.wait_job("b", reason="QuotaExceeded", reservedGPUs=0)
        self.quota(64, 40)
        self.wait_job("b", state="writes", reservedGPUs=24)

    def test_usage_is_never_taken_for_less_than_the_pods_there_are(self):
        """The quota's status comes late, the pods of the first job are there."""
        self.world(4)
        self.quota(56, 0)
        self.start(retry=LONG)
        self.begin_job("a", 4, 32, made=4)
        self.wait_lifted(*(f"a-{i}" for i in range(4)))
        self.begin_job("b", 4, 32)
        self.wait_exceeded("b", 56, 40, 0, 24)
        for i in range(4):
            self.end(f"a-{i}")
        self.wait_job("b", state="writes", reservedGPUs=24)

    def test_what_others_use_counts(self):
        self.world(1)
        self.quota(32, 16)  # of a pod that does without GPUs of ours, for instance
        self.start(retry=LONG)
        self.begin_job("a", 4, 32)
        self.wait_exceeded("a", 32, 16, 0, 24)
        self.quota(32, 8)
        self.wait_job("a", state="writes", reservedGPUs=24)

    def test_the_tightest_of_several_quotas(self):
        self.world(1)
        self.quota(1000, 8, name="a")
        self.quota(24, 8, name="b")
        self.quota(100, 8, name="c")
        self.start(retry=LONG)
        self.begin_job("a", 4, 32)
        self.wait_exceeded("a", 24, 8, 0, 24, quota="b")
        self.quota(32, 8, name="b")
        self.wait_job("a", state="writes", reservedGPUs=24)

    def test_quotas_of_something_else_do_not_count(self):
        self.world(4)
        self.quota(0, 0, name="other", resource="requests.example.com/gpu")
        self.quota(0, 0, name="bare", resource=RESOURCE)
        self.quota(0, 0, name="ended", scopes=["Terminating"])
        self.quota(0, 0, name="idle", scopes=["BestEffort"])
        self.quota(0, 0, name="affinity", scopes=["CrossNamespacePodAffinity"])
        high = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
        self.quota(40, 8, name="high", scopeSelector=high)
        self.start(retry=LONG)
        self.begin_job("low", 4, 32, priorityClassName="low")
        self.wait_job("low", state="writes", reservedGPUs=24)
        self.begin_job("first", 4, 32, priorityClassName="high")  # with nothing of what "low" has
        self.wait_job("first", state="writes", reservedGPUs=24)
        self.quota(40, 16, name="high", scopeSelector=high)
        self.wait_heard()
        self.begin_job("second", 2, 16, priorityClassName="high")
        self.wait_exceeded("second", 40, 16, 24, 8, quota="high")
        self.quota(0, 0, name="running", scopes=["NotTerminating"])
        self.begin_job("third", 2, 16)
        self.wait_exceeded("third", 0, 0, 48, 8, quota="running")

    def test_job_that_need_not_give_back(self):
        """It waited for pods with the places that it was to give back. It keeps them, and what comes later is told as ever."""
        self.world(1)
        self.quota(32, 8)
        self.start(gang=LONG, retry=500, request=LONG)
        self.begin_job("a", 4, 32)
        self.wait_job("a", state="writes", reservedGPUs=24)
        self.quota(16, 8)
        self.wait_job("a", reason="OffersPending", reservedGPUs=24)
        self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "OffersPending"))
        self.quota(32, 8)
        self.wait_job("a", state="writes", reservedGPUs=24)
        self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "PodsMissing"), self.condition("a-0"))
        self.add_job("a", 8, 32)
        self.wait_job("a", reason="QuotaExceeded")
        self.assertTrue(wait_for(lambda: self.status().get("reason") == "QuotaExceeded"), self.status())

    def test_job_that_broke_a_rule_while_it_gave_back(self):
        """What it had stays its own, and its state goes on from there."""
        self.world(1)
        self.quota(32, 8)
        self.start(gang=LONG, retry=500, request=LONG)
        self.begin_job("a", 4, 32)
        self.wait_job("a", state="writes", reservedGPUs=24)
        self.quota(16, 8)
        self.wait_job("a", reason="OffersPending", reservedGPUs=24)
        annotations = self.pod("a-0")["metadata"]["annotations"]
        self.change_pod("a-0", {"annotations": {**annotations, GROUP: "20"}})
        self.wait_job("a", state="refused")
        self.quota(32, 8)
        self.wait_heard()
        self.change_pod("a-0", {"annotations": annotations})
        self.wait_job("a", state="writes", reservedGPUs=24)

    def test_quota_lowered_below_what_is_reserved(self):
        """The newest job gives back first; one whose gates have not gone is planned again when there is room."""
        self.world(4)
        self.quota(64, 16)
        self.start(gang=LONG)
        self.begin_job("new", 4, 32, day=2)
        self.begin_job("old", 4, 32, day=1)
        for name in ("old", "new"):
            self.wait_job(name, state="writes", reservedGPUs=24)
        self.quota(40, 16)
        self.wait_exceeded("new", 40, 16, 24, 24)
        self.assertIn("24 GPUs are no longer reserved for pods to come: quota q of its namespace allows 40",
                      [note["note"] for note in self.notes_of("ns/Job/new")])
        self.wait_looked()
        self.wait_job("old", state="writes", reservedGPUs=24)
        self.assertEqual(self.host.counters()["assumptions"], 4)  # of `old`: nothing of `new`
        self.quota(64, 16)
        self.wait_job("new", state="writes", reservedGPUs=24)

    def test_quota_lowered_below_what_a_running_job_has_reserved(self):
        """Its pods stay; those that come when there is room find their unit."""
        self.world(2)
        self.quota(32, 16)
        self.start()
        self.begin_job("a", 4, 32, made=2)
        self.wait_lifted("a-0", "a-1")
        for name in ("a-0", "a-1"):
            self.bind(name)
        self.wait_job("a", state="placed", reservedGPUs=16)
        self.quota(16, 16)
        self.wait_job("a", state="placed", reservedGPUs=0)
        self.quota(32, 32)
        self.make_pods("a", (2, 3), 32)
        self.wait_lifted(*(f"a-{i}" for i in range(4)))
        self.assertEqual(len({planned_node(self.pod(f"a-{i}")).split("-")[0] for i in range(4)}), 1)

    def test_priority_goes_before_age_when_reservations_are_given_back(self):
        self.world(4)
        self.quota(64, 16)
        self.start(gang=LONG)
        self.begin_job("old", 4, 32, day=1, priority=1)
        self.begin_job("new", 4, 32, day=2, priority=2)
        for name in ("old", "new"):
            self.wait_job(name, state="writes", reservedGPUs=24)
        self.quota(40, 16)
        self.wait_exceeded("old", 40, 16, 24, 24)
        self.wait_job("new", state="writes", reservedGPUs=24)

    def test_quota_that_tells_of_pods_before_they_come_takes_nothing(self):
        """A quota that is just enough: the pods that are being made are used and reserved for a moment."""
        self.world(1)
        self.quota(32, 8)
        self.start(gang=LONG, retry=200)
        self.begin_job("a", 4, 32)
        self.wait_job("a", state="writes", reservedGPUs=24)
        self.quota(32, 32)
        self.wait_heard()
        self.wait_looked()
        self.wait_job("a", state="writes", reservedGPUs=24)
        self.make_pods("a", range(1, 4), 32)
        self.wait_lifted(*(f"a-{i}" for i in range(4)))

    def test_place_of_a_pod_that_went_is_kept_within_a_full_quota(self):
        self.world(1)
        self.quota(32, 32)
        self.start(retry=200, **{"return": LONG})
        self.begin_job("a", 4, 32, made=4)
        names = [f"a-{i}" for i in range(4)]
        self.wait_lifted(*names)
        for name in names:
            self.bind(name)
        node = planned_node(self.pod("a-2"))
        self.end("a-2")
        self.wait_job("a", reservedGPUs=8)
        self.wait_looked()
        self.wait_job("a", reservedGPUs=8)
        self.make_pods("a", (2,), 32)
        self.wait_lifted("a-2")
        self.assertEqual(planned_node(self.pod("a-2")), node)

    def test_statefulset_reserves_units_within_its_quota(self):
        self.world(4)
        self.quota(32, 8)
        self.start()
        self.api.add(SETS, "set", spec={"replicas": 12, "template": template(8, 16)})
        self.add_pod("set-0", statefulset_pod("set", 0))
        self.wait_lifted("set-0")
        self.bind("set-0")
        self.wait_job("set", kind="StatefulSet", reservedGPUs=24)  # its own unit, and one more
        self.quota(16, 8)
        self.wait_job("set", kind="StatefulSet", reservedGPUs=8)
        self.quota(8, 8)
        self.wait_job("set", kind="StatefulSet", reservedGPUs=0, reason="QuotaExceeded")
        self.quota(96, 8)
        self.wait_job("set", kind="StatefulSet", reservedGPUs=88, state="placed")

    def test_statefulset_whose_first_unit_is_forbidden(self):
        """Unlike the limit of the namespace, a quota has no exception for the first unit: its pods cannot be made."""
        self.world(1)
        self.quota(8, 8)
        self.start(retry=LONG)
        self.api.add(SETS, "set", spec={"replicas": 2, "template": template(8, 16)})
        self.add_pod("set-0", statefulset_pod("set", 0))
        self.wait_job("set", kind="StatefulSet", reservedGPUs=0, reason="QuotaExceeded")
        self.quota(16, 8)
        self.wait_lifted("set-0")

    def test_next_leader_gives_back_too(self):
        self.world(2)
        self.quota(32, 8)
        self.start(gang=LONG)
        self.begin_job("a", 4, 32)
        self.wait_job("a", state="writes", reservedGPUs=24)
        with self.api.lock:
            objects = self.api.place(PLACEMENTS + "/x")[0]
        self.assertTrue(wait_for(lambda: self.api.objects.get((objects, "job-a"), {}).get("status", {}).get("promisedUntil")))
        self.host.kill()
        self.quota(16, 8)
        self.start(gang=LONG)
        self.wait_exceeded("a", 16, 8, 0, 24)
        self.quota(32, 8)
        self.wait_job("a", state="writes", reservedGPUs=24)

    def test_quotas_that_cannot_be_listed_stop_nobody(self):
        self.world(1)
        self.quota(8, 8)
        self.api.fail(Status(403, "resourcequotas is forbidden"), times=1 << 30, method="GET", path="resourcequotas$")
        self.start(retry=LONG)
        self.assertIn("403", self.notes_of("quotas")[0]["note"])
        self.begin_job("a", 4, 32)
        self.wait_job("a", state="writes", reservedGPUs=24)

    def test_nonsense_leaves_the_last_sound_quota(self):
        self.world(1)
        self.quota(16, 8)
        self.start(retry=LONG)
        self.begin_job("a", 4, 32)
        self.wait_exceeded("a", 16, 8, 0, 24)
        self.quota("many", 8)
        self.assertTrue(wait_for(lambda: self.notes_of("q")))
        self.assertIn("resourcequotas/ns/q: spec.hard.requests.metax-tech.com/gpu", self.notes_of("q")[0]["note"])
        self.wait_exceeded("a", 16, 8, 0, 24)


side_by_side.main()
