# SPDX-License-Identifier: Apache-2.0
"""Small clusters beside each other in one, and jobs with rules that kube-scheduler checks. Pods select the nodes of their small cluster, and
what they ask for by labels is in it alone, so none matters to another."""
import random

from .hollow import name as node_name
from .placed import ATOMIC_SIZE, GATE, GROUP_SIZE, IMAGE, RESOURCE
from .rules import HOSTNAME, REQUIRED

ZONE, WORLD, DISK, SPECIAL = "topology.kubernetes.io/zone", "test.local/world", "test.local/disk", "test.local/special"
SUPERNODE = "node-restriction.kubernetes.io/gputopo-supernode"
JOB_NAME, JOB_PODS, RANK = (f"metax-tech.com/{name}" for name in ("job-name", "job-pods", "rank"))
CLASS, OVERHEAD = "heavy", 14  # CPUs
CPUS = (32, 64)  # of a node


def pod(name, namespace, labels, gpus, spec, cpus=None, ports=()):
    resources = {"limits": {RESOURCE: str(gpus)} if gpus else {}, "requests": {"cpu": str(cpus)} if cpus else {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": {}},
            "spec": {"terminationGracePeriodSeconds": 0, "enableServiceLinks": False, "automountServiceAccountToken": False, **spec,
                     "containers": [{"name": "main", "image": IMAGE, "resources": resources, "ports": list(ports)}]}}


class SmallCluster:
    """Number `at`. Nodes, zones, taints and namespaces stay; blockers and jobs are made for each round."""

    def __init__(self, at, chance, spaces_by_labels):
        """`spaces_by_labels`: terms choose Namespaces by their labels, too."""
        self.at, self.chance, self.spaces_by_labels = at, chance, spaces_by_labels
        self.names = [node_name(at, number) for number in range(chance.randint(3, 5))]
        self.zone_key = f"test.local/zone-{at}"  # no other small cluster has such a domain
        self.spaces = [f"w{at}-{letter}" for letter in "ab"]
        self.colors = [f"red-{at}", f"blue-{at}"]
        supers = [f"w{at}-s0", f"w{at}-s1"] if chance.random() < 0.7 else [f"w{at}-s0"]
        self.nodes = []
        for number, name in enumerate(self.names):
            zone = f"w{at}-z{chance.randrange(3)}" if chance.random() < 0.9 else None
            labels = {WORLD: str(at), SUPERNODE: supers[number % len(supers)], DISK: chance.choice(("ssd", "hdd")),
                      **({ZONE: zone, self.zone_key: zone} if zone else {})}
            taints = [{"key": SPECIAL, "value": chance.choice("xy"), "effect": chance.choice(("NoSchedule", "NoSchedule", "PreferNoSchedule"))}]
            self.nodes.append({"name": name, "labels": labels, "taints": taints if chance.random() < 0.25 else [],
                               "cpus": chance.choice(CPUS)})

    def namespaces(self):
        return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {WORLD: str(self.at), "team": f"{name[-1]}-{self.at}"}}}
                for name in self.spaces]

    # what pods ask for

    def selector(self, app):
        chance = self.chance
        return chance.choice((
            {"matchLabels": {"app": app}}, {"matchLabels": {"app": app}}, {"matchLabels": {"app": app, "role": "1"}},
            {"matchLabels": {"color": chance.choice(self.colors)}},
            {"matchExpressions": [{"key": "color", "operator": "In", "values": self.colors}]},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "none"]}, {"key": "role", "operator": "Exists"}]}))

    @staticmethod
    def without_own(selector, made):
        """Label keys that the selector has may not be added to it."""
        return {key: value for key, value in made.items() if key != "matchLabelKeys" or "role" not in repr(selector)}

    def term(self, app):
        chance, selector = self.chance, self.selector(app)
        more = chance.choice(({}, {}, {}, {"namespaces": [chance.choice(self.spaces)]}, {"namespaces": self.spaces}, {"namespaceSelector": {}},
                              {"namespaceSelector": {"matchLabels": {"team": f"{chance.choice('ab')}-{self.at}"} if self.spaces_by_labels else {}}},
                              {"matchLabelKeys": ["role"]}))
        return {"topologyKey": chance.choice((HOSTNAME, ZONE, SUPERNODE, self.zone_key)), "labelSelector": selector,
                **self.without_own(selector, more)}

    def spread(self, app):
        chance, selector = self.chance, self.selector(app)
        node_policy = chance.choice((None, "Honor", "Ignore"))
        # what ignores the pods' own selector knows the domains of the whole cluster
        key = chance.choice((self.zone_key, HOSTNAME)) if node_policy == "Ignore" else chance.choice((self.zone_key, ZONE, SUPERNODE, HOSTNAME))
        optional = {"minDomains": chance.choice((None, None, 1, 2, 3)), "nodeAffinityPolicy": node_policy,
                    "nodeTaintsPolicy": chance.choice((None, "Honor", "Ignore")), "matchLabelKeys": ["role"] if chance.random() < 0.15 else None}
        return {"topologyKey": key, "maxSkew": chance.randint(1, 2), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
                **self.without_own(selector, {name: value for name, value in optional.items() if value is not None})}

    def port(self):
        chance = self.chance
        number, address = chance.randint(7000, 7001), chance.choice((None, None, "10.0.0.1", "10.0.0.2"))
        return {"containerPort": number, "hostPort": number, "protocol": chance.choice(("TCP", "TCP", "UDP")),
                **({"hostIP": address} if address else {})}

    def claim(self, name, namespace):
        """A bound claim, and its volume, which can be used on some nodes only."""
        values = self.chance.sample(self.names, self.chance.randint(1, len(self.names)))
        expression = self.chance.choice(({"key": HOSTNAME, "operator": "In", "values": values}, {"key": HOSTNAME, "operator": "In", "values": values},
                                         {"key": DISK, "operator": "In", "values": ["ssd"]}, {"key": ZONE, "operator": "Exists"}))
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": {WORLD: str(self.at)}},
                  "spec": {**common, "capacity": {"storage": "1Gi"}, "local": {"path": "/data"}, "persistentVolumeReclaimPolicy": "Retain",
                           "claimRef": {"namespace": namespace, "name": name},
                           "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}
        return [volume, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace},
                         "spec": {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}}]

    def node_affinity(self):
        chance, some = self.chance, self.chance.sample(self.names, max(1, len(self.names) - 2))
        terms = chance.choice((
            [{"matchExpressions": [{"key": DISK, "operator": "NotIn", "values": ["hdd"]}]}],
            [{"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}],
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [some[0]]}]},
             {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": some}]}],
            [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [some[0]]}]}]))
        return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}

    # objects

    def blockers(self, round_):
        """Pods that are on nodes by `nodeName`."""
        chance, made, free = self.chance, [], dict.fromkeys(self.names, 8)
        for number in range(chance.randint(1, 4)):
            node, name = chance.choice(self.names), f"b{round_}-{number}"
            gpus = min(chance.choice((0, 0, 1, 2, 4)), free[node])
            free[node] -= gpus
            spec = {"nodeName": node, "tolerations": [{"operator": "Exists"}]}
            if chance.random() < 0.3:
                spec["affinity"] = {"podAntiAffinity": {REQUIRED: [self.term(name)]}}
            made.append(pod(name, chance.choice(self.spaces), {WORLD: str(self.at), "color": chance.choice(self.colors), "app": name}, gpus, spec,
                            chance.choice((None, None, 8)), [self.port()] if chance.random() < 0.3 else ()))
        return made

    RULES = ("port", "apart", "apart", "together", "together", "spread", "spread", "volume", "selector", "affinity", "toleration", "class", "cpus")

    def job(self, name):
        """(its pods, what they need beside, the names of its rules)"""
        chance = self.chance
        count, gpus = chance.choice((1, 2, 2, 3, 3, 4, 4, 5)), chance.choice((1, 1, 2, 2, 4, 8))
        unit = chance.choice([size for size in range(1, count + 1) if count % size == 0] + [count])
        annotations = {JOB_NAME: name, JOB_PODS: str(count), GROUP_SIZE: str(unit * gpus)}
        if unit % 2 == 0 and chance.random() < 0.2:
            annotations[ATOMIC_SIZE] = str(unit * gpus // 2)
        namespace, color = chance.choice(self.spaces), chance.choice(self.colors)
        roles = chance.randint(1, count) if count > 1 and chance.random() < 0.4 else 0  # so many have role 0, the others 1
        spec = [{"nodeSelector": {WORLD: str(self.at)}} for _ in range(2)]
        asked, needed, more = [], [], [{}, {}]
        for rule in chance.sample(self.RULES, chance.choice((0, 1, 1, 1, 2, 2, 3))):
            whose = [0, 1] if not roles or chance.random() < 0.6 else [chance.randrange(2)]
            asked.append(rule)
            self.ask(rule, name, namespace, [(spec[one], more[one]) for one in whose], needed)
        made = []
        for rank in range(count):
            role = int(rank >= roles) if roles else 1
            one = pod(f"{name}-{rank}", namespace, {WORLD: str(self.at), "job": name, "app": name, "role": str(role), "color": color}, gpus,
                      {**spec[role], "schedulingGates": [{"name": GATE}]}, **more[role])
            one["metadata"]["annotations"] = {**annotations, RANK: str(rank)}
            made.append(one)
        return made, needed, asked

    def ask(self, rule, name, namespace, templates, needed):
        """Writes a rule into specs; `needed`: what has to be there for it."""
        chance, written = self.chance, {}
        if rule == "port":
            written = [self.port()]
        elif rule in ("apart", "together"):
            written = [self.term(name) for _ in range(chance.choice((1, 1, 2)))]
        elif rule == "spread":
            written = self.spread(name)
        elif rule == "volume":
            needed += self.claim(name, namespace)
        elif rule == "affinity":
            written = self.node_affinity()
        elif rule == "toleration":
            written = chance.choice(({"key": SPECIAL, "operator": "Exists"}, {"key": SPECIAL, "value": "x"}, {"operator": "Exists"}))
        disk, cpus = chance.choice(("ssd", "hdd")), chance.choice((10, 20, 30))
        for spec, more in templates:
            affinity = spec.setdefault("affinity", {})
            if rule == "port":
                more["ports"] = written
            elif rule in ("apart", "together"):
                kind = affinity.setdefault("podAntiAffinity" if rule == "apart" else "podAffinity", {})
                kind.setdefault(REQUIRED, []).extend(written)
            elif rule == "spread":
                known = spec.setdefault("topologySpreadConstraints", [])  # one for each key
                known.extend([] if written["topologyKey"] in [one["topologyKey"] for one in known] else [written])
            elif rule == "volume":
                spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            elif rule == "selector":
                spec["nodeSelector"] = {**spec["nodeSelector"], DISK: disk}
            elif rule == "affinity":
                affinity.update(written)
            elif rule == "toleration":
                spec["tolerations"] = [written]
            elif rule == "class":
                spec["runtimeClassName"] = CLASS
            elif rule == "cpus":
                more["cpus"] = cpus


def small_clusters(count, seed, spaces_by_labels=True):
    chance = random.Random(seed)
    return [SmallCluster(at, chance, spaces_by_labels) for at in range(count)]
