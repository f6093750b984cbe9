#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The webhook, and pods that are created with their plans, against the double of the API server.

Usage: test_placement_webhook.py PLACEMENT_HOST [unittest arguments]
"""

import json
import time
import unittest

from daemon_driver import wait_for
from placement_case import PYTORCH, SETS, PlacementCase
from placement_driver import (GATE, PLAN, apply_patch, gates, indexed_pod, planned_node, pod_spec, pytorch_pod,
                              required_nodes, statefulset_pod, template)


class PlacementWebhookTest(PlacementCase):
    def test_webhook_knows_owners_by_their_informers(self):
        self.start()
        for name, group in (("grouped", 32), ("plain", None), ("broken", 24)):
            self.api.add(PYTORCH, name, spec={"pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template(8, group)},
                "Worker": {"replicas": 7, "template": template()}}})
        def pod(job):
            made = pytorch_pod(job, "worker", 0, gated=False)
            return {**made, "metadata": {**made["metadata"], "name": f"{job}-worker-0"}}
        gate = [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}]
        self.assertTrue(wait_for(lambda: self.review("mutate", pod("plain"))[1] is None))  # known by now
        self.assertEqual(self.review("mutate", pod("grouped"))[1], gate)
        self.assertEqual(self.review("mutate", pod("unknown"))[1], gate)  # in doubt
        self.assertIsNone(self.review("mutate", {"metadata": {}, "spec": pod_spec(gated=False)})[1])
        refused, _ = self.review("mutate", pod("broken"))
        self.assertEqual((refused["allowed"], refused["status"]["message"]),
                         (False, "the job's 64 GPUs are not a multiple of gpu-group-size 24"))
        self.assertIn("expected a value", self.host.order("mutate nonsense")["error"])

    # plans at admission

    def create(self, name, index, job="a", group=32, change=None):
        """As the API server makes a pod of a job: it asks the webhook first."""
        pod = indexed_pod(job, index, group=group, gated=False)
        if change:
            change(pod)
        patch = self.review("mutate", pod)[1]
        made = apply_patch(pod, patch) if patch else pod
        self.add_pod(name, made)
        return made

    def begin(self, pods=8, **options):
        """A job of which the first pod is there, and planned with all the others."""
        self.world(2)
        self.start(gang=600000, **options)
        self.add_job("a", pods, 32)
        self.assertTrue(wait_for(lambda: self.review("mutate", indexed_pod("a", 0, gated=False))[1]))  # known by now
        self.assertEqual(gates(self.create("a-0", 0)), [GATE])
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a").get("reason") == "PodsMissing"))
        return [f"a-{i}" for i in range(pods)]

    def test_pods_of_a_planned_job_are_made_with_their_plan(self):
        names = self.begin()
        for i in range(1, 8):
            self.assertEqual(gates(self.create(names[i], i)), [])
        self.wait_lifted(*names)
        self.assertTrue(wait_for(lambda: self.host.job("ns/Job/a")["state"] == "placed"))
        for i, name in enumerate(names):
            pod = self.pod(name)
            node = planned_node(pod)
            self.assertEqual(required_nodes(pod), [[node]])
            annotations = pod["metadata"]["annotations"]
            self.assertEqual([annotations[PLAN + key] for key in ("rank", "unit", "unit-rank", "supernode", "tier")],
                             [str(i), str(i // 4), str(i % 4), node.split("-")[0], "1"])
            self.assertEqual(json.loads(annotations[PLAN + "gpus"]), {"main": [f"GPU-{node}-{g}" for g in range(8)]})
        self.assertEqual(len({planned_node(self.pod(n)) for n in names}), 8)
        for unit in (names[:4], names[4:]):
            self.assertEqual(len({planned_node(self.pod(n)).split("-")[0] for n in unit}), 1)
        self.assertTrue(wait_for(lambda: self.host.counters()["podsLifted"] == 1))
        counters = self.host.counters()
        self.assertEqual([counters[k] for k in ("podsAdmitted", "podsLifted", "podsPlanned", "writes", "reservedGPUs",
                                                "assumptions", "lost")], [7, 1, 8, 2, 0, 8, 0])

    def test_annotations_stay_beside_the_plan(self):
        """They are repeated, as they stand, in the one operation that adds the plan; long ones are not."""
        self.begin()
        odd = {"a": "}", "b/c": '"\\', "d": "\u00e9\u2028\n", "e": "", "plan.topology": "1"}
        for i, (more, operations) in enumerate(((odd, 2), ({"long": "x" * 1024}, 8)), 1):
            pod = indexed_pod("a", i, group=32, gated=False)
            pod["metadata"]["annotations"].update(more)
            patch = self.review("mutate", pod)[1]
            self.assertEqual(len(patch), operations, patch)
            found = apply_patch(pod, patch)["metadata"]["annotations"]
            plan = [key for key in found if key.startswith(PLAN)]
            self.assertEqual({key: found[key] for key in found if key not in plan}, pod["metadata"]["annotations"])
            self.assertEqual((len(plan), found[PLAN + "rank"]), (7, str(i)))
        for i, bare in enumerate(({}, None), 3):
            pod = indexed_pod("a", i, group=32, gated=False)
            pod["metadata"]["annotations"] = bare
            found = apply_patch(pod, self.review("mutate", pod)[1])["metadata"]["annotations"]
            self.assertEqual((len(found), found[PLAN + "rank"]), (7, str(i)))

    def test_pods_with_disks_are_left_to_the_controller(self):
        """When the places were reserved nobody knew where the claim of this pod is bound."""
        self.begin()
        for i, (volume, gated) in enumerate((({"persistentVolumeClaim": {"claimName": "disk-a-1"}}, [GATE]), ({"ephemeral": {}}, [GATE]),
                                             ({"persistentVolumeClaim": {"claimName": "shared"}}, []), ({"emptyDir": {}}, [])), 1):
            def add(pod, name=f"a-{i}", volume=volume):
                pod["metadata"]["name"] = name
                pod["spec"]["volumes"] = [{"name": "disk", **volume}]
            self.assertEqual(gates(self.create(f"a-{i}", i, change=add)), gated, volume)

    def test_other_schedulers_get_the_hint_when_the_pod_is_there(self):
        """No pod can be made with a hint. Who takes it away has a reason: it comes once."""
        names = self.begin()

        def hint(name):
            return self.pod(name).get("status", {}).get("nominatedNodeName")
        self.assertEqual(gates(self.create("a-1", 1, change=lambda pod: pod["spec"].update(schedulerName="volcano"))), [])
        self.assertTrue(wait_for(lambda: hint("a-1")))
        self.assertEqual(hint("a-1"), planned_node(self.pod("a-1")))
        self.assertEqual(self.condition("a-1")["reason"], "Planned")
        without = {k: v for k, v in self.pod("a-1").items() if k not in ("apiVersion", "kind")}
        without["status"].pop("nominatedNodeName")
        self.add_pod("a-1", without)
        for i in range(2, 8):
            self.create(names[i], i)
        self.wait_lifted(*names)
        self.assertEqual([hint(name) for name in names], [None] * 8)
        self.assertEqual(self.host.counters()["podsAdmitted"], 7)

    def test_statefulset_is_made_with_its_plan(self):
        self.world(1)
        self.start()
        self.api.add(SETS, "set", spec={"replicas": 4, "template": template(8, 32)})
        self.add_pod("set-0", statefulset_pod("set", 0))
        self.wait_lifted("set-0")
        self.bind("set-0")
        self.assertTrue(wait_for(lambda: self.host.job("ns/StatefulSet/set")["state"] == "placed"))
        for i in range(1, 4):
            pod = statefulset_pod("set", i, gated=False)
            pod["metadata"]["name"] = f"set-{i}"
            self.add_pod(f"set-{i}", apply_patch(pod, self.review("mutate", pod)[1]))
            self.assertTrue(planned_node(self.pod(f"set-{i}")))
            self.assertTrue(wait_for(lambda n=i: self.host.counters()["podsAdmitted"] == n))
            self.bind(f"set-{i}")
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0))
        self.assertEqual((self.host.counters()["writes"], self.host.counters()["lost"]), (2, 0))

    def test_place_is_reserved_once(self):
        names = self.begin()
        pod = indexed_pod("a", 1, group=32, gated=False)
        offered = [self.review("mutate", pod, dry_run=True)[1] for _ in range(2)]
        self.assertEqual(offered[0], offered[1])  # a dry run takes nothing
        self.assertEqual(self.review("mutate", pod)[1], offered[0])
        given = apply_patch(pod, offered[0])
        self.assertIsNone(self.review("mutate", given)[1])  # asked again, since another webhook changed it
        gate = [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}]
        self.assertEqual(self.review("mutate", pod)[1], gate)  # asked again for another pod of this rank
        self.assertEqual(self.host.counters()["reservedGPUs"], 56)
        # The pod was refused by somebody else. The next one of its rank gets its place, by the gate.
        self.assertEqual(gates(self.create("a-1", 1)), [GATE])
        for i in range(2, 8):
            self.create(names[i], i)
        self.wait_lifted(*names)
        self.assertEqual(planned_node(self.pod("a-1")), planned_node(given))
        time.sleep(10)
        self.assertEqual(self.host.counters()["lost"], 0)

    def test_reservation_ends(self):
        self.begin()
        pod = indexed_pod("a", 1, group=32, gated=False)
        first = self.review("mutate", pod)[1]
        self.assertTrue(wait_for(lambda: self.review("mutate", pod)[1] == first))

    def test_who_is_not_made_with_a_plan(self):
        self.begin()
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        changes = [
            lambda pod: pod["spec"].update(schedulingGates=[{"name": "example.com/quota"}]),
            lambda pod: pod["spec"].update(affinity={"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}),
            lambda pod: pod["spec"]["containers"][0]["resources"]["limits"].update({"metax-tech.com/gpu": "16"}),
            lambda pod: pod["metadata"]["labels"].update({"batch.kubernetes.io/job-completion-index": "9"}) or
            pod["metadata"]["annotations"].update({"batch.kubernetes.io/job-completion-index": "9"}),
        ]
        for change in changes:
            pod = indexed_pod("a", 1, group=32, gated=False)
            change(pod)
            self.assertIn(GATE, gates(apply_patch(pod, self.review("mutate", pod)[1])))
        pod = indexed_pod("a", 1, group=32, gated=False, affinity={"podAntiAffinity": {"x": 1}})
        made = apply_patch(pod, self.review("mutate", pod, dry_run=True)[1])
        self.assertEqual((gates(made), made["spec"]["affinity"]["podAntiAffinity"]), ([], {"x": 1}))
        self.host.order("stop")  # it leads no more
        self.assertEqual(gates(apply_patch(pod, self.review("mutate", pod)[1])), [GATE])

    def test_plans_of_others_are_removed(self):
        self.begin()
        forged = {PLAN + "node": "s1-n3", PLAN + "gpus": '{"main":["x"]}', PLAN + "a/b~c": "", "keep": "1"}
        def forge(pod):
            pod["metadata"]["annotations"].update(forged)
        def plans(pod):
            return [k for k in pod["metadata"]["annotations"] if k.startswith(PLAN)]
        made = self.create("a-1", 1, change=forge)
        self.assertEqual((gates(made), len(plans(made)), made["metadata"]["annotations"]["keep"]), ([], 7, "1"))
        self.assertNotEqual(json.loads(made["metadata"]["annotations"][PLAN + "gpus"]), {"main": ["x"]})
        made = self.create("other-0", 0, job="other", change=forge)  # gated
        self.assertEqual((gates(made), plans(made)), ([GATE], []))
        pod = {"metadata": {"annotations": dict(forged)}, "spec": pod_spec(gated=False)}
        made = apply_patch(pod, self.review("mutate", pod)[1])
        self.assertEqual((gates(made), made["metadata"]["annotations"]), ([], {"keep": "1"}))

    def test_killed_while_pods_are_made_with_their_plans(self):
        names = self.begin()
        for i in (1, 2, 5):
            self.create(names[i], i)
        self.assertTrue(wait_for(lambda: self.host.counters()["podsAdmitted"] == 3))
        self.host.kill()
        places = {n: planned_node(self.pod(n)) for n in (names[1], names[2], names[5])}
        self.start(gang=600000)
        for i in (3, 4, 6, 7):  # their places were reserved for them
            self.create(names[i], i)
        self.wait_lifted(*names)
        self.assertEqual({n: planned_node(self.pod(n)) for n in places}, places)
        self.assertEqual(len({planned_node(self.pod(n)) for n in names}), 8)
        for unit in (names[:4], names[4:]):
            self.assertEqual(len({planned_node(self.pod(n)).split("-")[0] for n in unit}), 1)
        self.assertEqual(self.host.counters()["lost"], 0)

    def test_gated_in_doubt_is_let_go_at_once(self):
        self.world(1)
        self.start(settle=600000)
        self.api.add(PYTORCH, "plain", spec={"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template()}}})
        self.add_pod("plain-worker-0", pytorch_pod("plain", "worker", 0))
        self.wait_lifted("plain-worker-0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
