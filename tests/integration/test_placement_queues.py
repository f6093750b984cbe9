#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs whose queue in another scheduler must admit them first, in the double of the API server."""

import time

import side_by_side
from api_double import Status
from daemon_driver import wait_for
from placement_case import PODS, PlacementCase
from placement_driver import RESOURCE, gates, indexed_pod, planned_node

POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
NAME = "scheduling.k8s.io/group-name"
OVERUSED = "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 4 Unschedulable"  # as Volcano 1.14 says it


class Volcano(PlacementCase):
    def add_volcano_gang(self, name, pods=4, pod_group=None, group=32):
        self.add_job(name, pods, group)
        for i in range(pods):
            pod = indexed_pod(name, i, group=group, schedulerName="volcano")
            if pod_group:
                pod["metadata"]["annotations"][NAME] = pod_group
            self.add_pod(f"{name}-{i}", pod)
        return [f"{name}-{i}" for i in range(pods)]

    def set_phase(self, name, phase, queue="tenant"):
        self.api.add(POD_GROUPS, name, spec={"minMember": 1, "queue": queue}, status={"phase": phase} if phase else {})

    def wait_not_admitted(self, job, text):
        self.assertTrue(wait_for(lambda: self.host.job(f"ns/Job/{job}").get("reason") == "NotAdmitted"),
                        self.host.job(f"ns/Job/{job}"))
        self.assertEqual(self.host.job(f"ns/Job/{job}")["text"], text)

    def test_a_full_queue_holds_nothing(self):
        """A job that its queue has not let in is not planned, and nothing is reserved for it; then it is at once."""
        self.world(1)
        for phase in ("", "Pending"):
            self.set_phase("pg", phase)
        a = self.add_volcano_gang("a", pod_group="pg")
        self.start()
        self.wait_not_admitted("a", "queue tenant has not let its PodGroup pg in")
        self.assertTrue(wait_for(lambda: (self.condition("a-0") or {}).get("reason") == "NotAdmitted"))
        b = self.add_volcano_gang("b", pod_group="other")
        self.set_phase("other", "Inqueue")
        self.wait_lifted(*b)
        self.assertFalse(any(gates(self.pod(name)) == [] for name in a))
        for name in b:
            self.bind(name)
        for name in b:
            self.end(name)
        self.set_phase("pg", "Inqueue")
        self.wait_lifted(*a)
        self.assertEqual({planned_node(self.pod(name))[:2] for name in a}, {"s0"})

    def set_queue(self, capability, allocated):
        self.api.add(QUEUES, "tenant", spec={"weight": 1, "capability": {RESOURCE: str(capability)}},
                     status={"state": "Open", "allocated": {RESOURCE: str(allocated)} if allocated else {}})

    def test_the_queue_lets_in_more_than_it_has_room_for(self):
        """Volcano does not count gated pods: it lets in all that fit one by one."""
        self.world(3)
        self.set_queue(40, 0)
        jobs = {}
        for name in ("a", "b", "c"):
            self.set_phase(f"pg-{name}", "Inqueue")
            jobs[name] = self.add_volcano_gang(name, pod_group=f"pg-{name}")
        self.start()
        self.assertTrue(wait_for(lambda: any(self.is_lifted(*pods) for pods in jobs.values())))
        while jobs:
            first = next(name for name, pods in jobs.items() if self.is_lifted(*pods))
            waiting = [name for name in jobs if name != first]
            for name in waiting:
                self.wait_not_admitted(name, f"queue tenant has let its PodGroup pg-{name} in, but has 8 of its 40 GPUs left, "
                                             "and the job needs 32")
            for name in jobs[first]:
                self.bind(name)
            self.set_queue(40, 32)
            for name in jobs.pop(first):
                self.end(name)
            self.assertFalse(any(self.is_lifted(*pods) for pods in jobs.values()))
            self.set_queue(40, 0)
            self.assertTrue(not jobs or wait_for(lambda: any(self.is_lifted(*pods) for pods in jobs.values())))

    def test_a_job_goes_before_its_pods_are_on_nodes(self):
        """Its queue never counted it: nothing is told by it."""
        self.world(3)
        self.set_queue(40, 0)
        jobs = {}
        for name in ("a", "b"):
            self.set_phase(f"pg-{name}", "Inqueue")
            jobs[name] = self.add_volcano_gang(name, pod_group=f"pg-{name}")
        self.start(retry=600000)
        self.assertTrue(wait_for(lambda: any(self.is_lifted(*pods) for pods in jobs.values())))
        first = next(name for name, pods in jobs.items() if self.is_lifted(*pods))
        [other] = set(jobs) - {first}
        self.assertTrue(wait_for(lambda: (self.condition(f"{other}-0") or {}).get("reason") == "NotAdmitted"))
        for name in jobs[first]:
            self.end(name)
        self.wait_lifted(*jobs[other])

    def test_another_leader_counts_what_was_planned(self):
        self.world(3)
        self.set_queue(40, 0)
        self.set_phase("pg-a", "Inqueue")
        a = self.add_volcano_gang("a", pod_group="pg-a")
        self.start()
        self.wait_lifted(*a)
        self.host.kill()
        self.set_phase("pg-b", "Inqueue")
        self.add_volcano_gang("b", pod_group="pg-b")
        self.start()
        self.wait_not_admitted("b", "queue tenant has let its PodGroup pg-b in, but has 8 of its 40 GPUs left, and the job needs 32")

    def test_a_part_of_the_job_may_run(self):
        """More than the queue can ever have: what PodGroup and Volcano make of that is their business."""
        self.world(1)
        self.set_queue(16, 0)
        a = self.add_volcano_gang("a", pod_group="pg")
        self.set_phase("pg", "Inqueue")
        self.start()
        self.wait_lifted(*a)

    def refuse(self, names, message):
        for name in names:
            pod = self.pod(name)
            others = [c for c in pod["status"].get("conditions", []) if c["type"] != "PodScheduled"]
            self.api.add(PODS, name, **{k: v for k, v in pod.items() if k not in ("apiVersion", "kind")} | {"status": {
                **pod["status"], "conditions": [*others, {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                                          "message": message}]}})

    def reasons(self, names):
        return {(self.condition(name) or {}).get("reason") for name in names}

    def hold_back(self, **options):
        """A planned job whose queue has more than its share."""
        self.world(2)
        self.set_phase("pg-a", "Inqueue")
        a = self.add_volcano_gang("a", pod_group="pg-a")
        self.start(unschedulable=300, **options)
        self.wait_lifted(*a)
        self.refuse(a, OVERUSED)
        self.assertTrue(wait_for(lambda: self.reasons(a) == {"HeldByQueue"}), self.reasons(a))
        return a

    def supernodes(self, names):
        return {planned_node(self.pod(name))[:2] for name in names}

    def test_a_queue_over_its_share(self):
        """Others leave its nodes alone while any other serves; it runs there when its queue lets it."""
        a, b = self.hold_back(), []
        for restart in (False, True):
            if restart:
                for name in b:
                    self.end(name)
                self.host.kill()
                self.start(unschedulable=300)
                self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("state") == "plan-lost"))
            b = self.add_gang(f"b{restart:d}", 4, 32)
            self.wait_lifted(*b)
            self.assertFalse(self.supernodes(a) & self.supernodes(b))
            for name in b:
                self.bind(name)
        c = self.add_gang("c", 2, 16)  # nothing else is left
        self.wait_lifted(*c)
        self.assertEqual(self.supernodes(a), self.supernodes(c))
        for name in c:
            self.end(name)
        for name in a:
            self.bind(name)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["state"] == "placed"), self.host.job("ns/Job/a"))

    def test_who_is_held_back_is_not_made_again(self):
        """It would be held back again, and its owner count the pods as failed. A refused node is another matter."""
        a = self.hold_back(recreate=1)
        time.sleep(1)
        self.assertTrue(all(self.pod(name) for name in a))
        self.refuse(a, OVERUSED + ". Origin reason is a-0: 0/8 nodes are unavailable: 8 Insufficient cpu.")
        self.assertTrue(wait_for(lambda: not any(self.pod(name) for name in a)))

    def test_a_lost_plan_pins_its_pod(self):
        """Whatever the reason: a refused pod's node is the last that others get."""
        self.world(2)
        a = self.add_gang("a", 4, 32, backoffLimit=0)  # so that it is not planned again as a whole
        self.start(unschedulable=300)
        self.wait_lifted(*a)
        self.refuse(a, "0/8 nodes are available: 8 Insufficient cpu.")
        self.assertTrue(wait_for(lambda: self.reasons(a) == {"PlanRefused"}), self.reasons(a))
        b = self.add_gang("b", 4, 32)
        self.wait_lifted(*b)
        self.assertFalse(self.supernodes(a) & self.supernodes(b))

    def test_no_such_pod_group(self):
        self.world(1)
        a = self.add_volcano_gang("a", pod_group="pg")
        self.start()
        self.wait_not_admitted("a", "the PodGroup pg, which pod a-0 names, does not exist")
        self.set_phase("pg", "Running")
        self.wait_lifted(*a)

    def test_the_pod_group_is_named_later(self):
        """Volcano's own controller makes PodGroups for pods that come without, and names them on the pods."""
        self.world(1)
        a = self.add_volcano_gang("a")
        self.start(owner=600000)
        self.wait_not_admitted("a", "pod a-0 is in no PodGroup yet")
        self.set_phase("podgroup-1", "Inqueue")
        for name in a:
            pod = self.pod(name)
            pod["metadata"]["annotations"][NAME] = "podgroup-1"
            self.api.add(PODS, name, **{k: v for k, v in pod.items() if k not in ("apiVersion", "kind")})
        self.wait_lifted(*a)

    def test_no_controller_names_one(self):
        self.world(1)
        self.start(owner=300)
        self.wait_lifted(*self.add_volcano_gang("a"))

    def test_without_volcano(self):
        """The name alone holds nobody back where the cluster has no PodGroups."""
        self.world(1)
        self.api.fail(Status(404, "the server could not find the requested resource"), times=100000, path="podgroups")
        self.start()
        self.wait_lifted(*self.add_volcano_gang("a", pod_group="pg"))

    def test_a_job_without_groups(self):
        """There is nothing to plan: the gate goes, and the queue is Volcano's business."""
        self.world(1)
        self.set_phase("pg", "Pending")
        a = self.add_volcano_gang("a", pod_group="pg", group=None)
        self.start()
        self.wait_lifted(*a)


class Kueue(PlacementCase):
    """Groups of pods; a job that Kueue suspends has none (test_placement_reserve.py)."""

    def add_held(self, name, *others):
        self.add_job(name, 2, 16)
        for i in range(2):
            self.add_pod(f"{name}-{i}", indexed_pod(name, i, group=16, schedulingGates=[{"name": other} for other in others]))

    def wait_state(self, job, reason, text):
        def is_said():
            said = self.host.job(f"ns/Job/{job}")
            return said.get("reason") == reason and text in said["text"]
        self.assertTrue(wait_for(is_said), self.host.job(f"ns/Job/{job}"))

    def test_its_gates_go_first(self):
        """What is not admitted holds nothing, and is planned within the nodes that Kueue chose when it is."""
        self.world(2, nodes_each=1, gpus=16)
        self.start()
        for job, gate in (("a", "kueue.x-k8s.io/admission"), ("b", "kueue.x-k8s.io/topology")):
            self.add_held(job, gate)
            self.wait_state(job, "NotAdmitted", f"Kueue has not let it in: pod {job}-")
            self.assertIn(f"has the gate {gate}", self.host.job(f"ns/Job/{job}")["text"])
            self.assertTrue(wait_for(lambda name=f"{job}-0": (self.condition(name) or {}).get("reason") == "NotAdmitted"))
        self.wait_lifted(*self.add_gang("c", 2, 16))
        self.wait_lifted(*self.add_gang("d", 2, 16))
        taken = planned_node(self.pod("c-0"))
        for i in range(2):
            self.end(f"c-{i}")
        self.add_pod("a-0", indexed_pod("a", 0, group=16, nodeSelector={"kubernetes.io/hostname": taken}))
        self.wait_state("a", "NotAdmitted", "pod a-1")
        self.add_pod("a-1", indexed_pod("a", 1, group=16, nodeSelector={"kubernetes.io/hostname": taken}))
        self.wait_lifted("a-0", "a-1")
        self.assertEqual({planned_node(self.pod(f"a-{i}")) for i in range(2)}, {taken})

    def test_gates_of_others_beside(self):
        self.world(1)
        self.start()
        self.add_held("a", "example.com/quota", "kueue.x-k8s.io/admission")
        self.wait_state("a", "NotAdmitted", "kueue.x-k8s.io/admission")
        for i in range(2):
            self.add_pod(f"a-{i}", indexed_pod("a", i, group=16, schedulingGates=[{"name": "example.com/quota"}]))
        self.wait_state("a", "OtherGates", "other scheduling gates")


if __name__ == "__main__":
    side_by_side.main()
