# SPDX-License-Identifier: Apache-2.0
"""What kube-scheduler refuses a node for, as it is documented, and by brute force whether a job has any place in a small cluster."""
import itertools

from .placed import ATOMIC_SIZE, GROUP_SIZE, PLAN, RESOURCE, gpus_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


def fits_expression(expression, labels):
    key, operator, values = expression["key"], expression["operator"], expression.get("values", [])
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    if value is None or not value.lstrip("-").isdigit():
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def selects(selector, labels):
    """A label selector; none selects nothing, an empty one everything."""
    return selector is not None and all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        fits_expression(one, labels) for one in selector.get("matchExpressions", []))


def labels_of(thing):
    return thing["metadata"].get("labels", {})


def fits_terms(terms, node):
    """Terms of a node selector: one has to fit."""
    def fits(term):
        named = {"metadata.name": node["metadata"]["name"]}
        both = term.get("matchExpressions", []), term.get("matchFields", [])
        return any(both) and all(fits_expression(one, labels_of(node)) for one in both[0]) and all(fits_expression(one, named) for one in both[1])
    return any(map(fits, terms))


def fits_affinity(spec, node):
    wanted = spec.get("nodeSelector", {}).items()
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    return all(labels_of(node).get(key) == value for key, value in wanted) and (
        required is None or fits_terms(required["nodeSelectorTerms"], node))


def tolerates(spec, node):
    def tolerated(taint):
        return any(one.get("key") in (None, taint["key"]) and one.get("effect") in (None, taint["effect"])
                   and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")) for one in spec.get("tolerations", []))
    return all(taint["effect"] == "PreferNoSchedule" or tolerated(taint) for taint in node["spec"].get("taints", []))


def cpus_of(pod):
    """In thousandths: of the containers, which run beside each other, and the overhead."""
    def thousandths(text):
        return int(text[:-1]) if text.endswith("m") else 1000 * int(text)
    spec = pod["spec"]
    return sum(thousandths(one.get("resources", {}).get("requests", {}).get("cpu", "0")) for one in spec["containers"]) + thousandths(
        spec.get("overhead", {}).get("cpu", "0"))


def ports_of(pod):
    return [(one["hostPort"], one.get("protocol", "TCP"), one.get("hostIP") or "0.0.0.0")
            for container in pod["spec"]["containers"] for one in container.get("ports", []) if one.get("hostPort")]


def ports_conflict(these, those):
    return any(a[:2] == b[:2] and (a[2] == b[2] or "0.0.0.0" in (a[2], b[2])) for a, b in itertools.product(these, those))


def terms_of(pod, kind):
    return pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])


def spreads_of(pod):
    return [one for one in pod["spec"].get("topologySpreadConstraints", []) if one["whenUnsatisfiable"] == "DoNotSchedule"]


def value_of(node, key):
    return labels_of(node).get(key)


class World:
    """The nodes and pods that are there."""

    def __init__(self, nodes, further, namespaces, claims, volumes, supernode):
        """`nodes`, `namespaces`, `volumes`: {name: object}; `further`: nodes where no pod of this world can be, likewise;
        `claims`: {(namespace, name): object}; `supernode`: a node's label."""
        self.nodes, self.all_nodes, self.namespaces = nodes, {**further, **nodes}, namespaces
        self.claims, self.volumes, self.supernode = claims, volumes, supernode
        self.there = []  # (pod, name of its node)

    def means(self, pod, term, other):
        """Whether the pod's term of affinity or anti-affinity means the other pod."""
        own, namespace = pod["metadata"]["namespace"], other["metadata"]["namespace"]
        named, chosen = term.get("namespaces", []), term.get("namespaceSelector")
        meant = namespace in named or (chosen is not None and selects(chosen, labels_of(self.namespaces[namespace]))) or (
            not named and chosen is None and namespace == own)
        return meant and selects(term.get("labelSelector"), labels_of(other))

    def volumes_fit(self, pod, node):
        for one in pod["spec"].get("volumes", []):
            if claimed := one.get("persistentVolumeClaim"):
                claim = self.claims.get((pod["metadata"]["namespace"], claimed["claimName"]))
                volume = claim and self.volumes.get(claim["spec"].get("volumeName"))
                if not volume or claim.get("status", {}).get("phase") != "Bound":
                    return False
                required = volume["spec"].get("nodeAffinity", {}).get("required")
                if required and not fits_terms(required["nodeSelectorTerms"], node):
                    return False
        return True

    def room(self):
        """{node: [GPUs, thousandths of CPUs, pods]} that are left."""
        left = {name: [int(node["status"]["allocatable"].get(RESOURCE, 0)), 1000 * int(node["status"]["allocatable"]["cpu"]),
                       int(node["status"]["allocatable"]["pods"])] for name, node in self.nodes.items()}
        for pod, on in self.there:
            if on in left:
                left[on] = [left[on][0] - gpus_of(pod), left[on][1] - cpus_of(pod), left[on][2] - 1]
        return left


class Spread:
    """A constraint of one pod. `pinned`: to a node, as a plan is written; then a constraint that honours that knows one domain."""

    def __init__(self, world, pod, constraint, others):
        self.key, self.skew, self.fewest = constraint["topologyKey"], constraint["maxSkew"], constraint.get("minDomains") or 1
        self.pinned = constraint.get("nodeAffinityPolicy", "Honor") == "Honor"
        labels, selector = labels_of(pod), constraint.get("labelSelector")
        own = [{"key": key, "operator": "In", "values": [labels[key]]} for key in constraint.get("matchLabelKeys", []) if key in labels]
        if selector is not None and own:
            selector = {**selector, "matchExpressions": selector.get("matchExpressions", []) + own}

        def meant(other):
            return other["metadata"]["namespace"] == pod["metadata"]["namespace"] and selects(selector, labels_of(other))
        keys = [one["topologyKey"] for one in spreads_of(pod)]
        self.domain = {name: value_of(node, self.key) for name, node in world.all_nodes.items()
                       if all(value_of(node, key) is not None for key in keys) and (not self.pinned or fits_affinity(pod["spec"], node))
                       and (constraint.get("nodeTaintsPolicy") != "Honor" or tolerates(pod["spec"], node))}
        self.base, self.on_node = dict.fromkeys(self.domain.values(), 0), {}
        for other, on in world.there:
            if on in self.domain and meant(other):
                self.base[self.domain[on]] += 1
                self.on_node[on] = self.on_node.get(on, 0) + 1
        self.mates, self.itself = {at for at, other in enumerate(others) if meant(other)}, meant(pod)

    def passes(self, world, node, bound, by_plan):
        """`by_plan`: also as for a pod that is pinned to the node."""
        value = value_of(world.nodes[node], self.key)
        if value is None:
            return False
        counts = dict(self.base)
        for at, on in bound.items():
            if at in self.mates and on in self.domain:
                counts[self.domain[on]] += 1
        least = 0 if len(counts) < self.fewest else min(counts.values(), default=0)
        if counts.get(value, 0) + self.itself - least > self.skew:
            return False
        if not by_plan or not self.pinned:
            return True
        here = 0
        if node in self.domain:
            here = self.on_node.get(node, 0) + sum(at in self.mates and on == node for at, on in bound.items())
        return here + self.itself - (0 if self.fewest > 1 or node not in self.domain else here) <= self.skew


class Job:
    """The pods of a job that waits, by rank, before the pods of a world."""

    def __init__(self, world, pods):
        self.world, self.pods = world, pods
        self.room = world.room()
        self.gpus, self.cpus = [gpus_of(pod) for pod in pods], [cpus_of(pod) for pod in pods]
        annotations = pods[0]["metadata"]["annotations"]
        self.per_run = int(annotations.get(ATOMIC_SIZE) or annotations[GROUP_SIZE]) // self.gpus[0]
        self.apart = [[set() for _ in pods] for _ in pods]  # keys by which two may not share a domain; None: a node
        for a, b in itertools.combinations(range(len(pods)), 2):
            keys = {term["topologyKey"] for x, y in ((a, b), (b, a)) for term in terms_of(pods[x], "podAntiAffinity")
                    if world.means(pods[x], term, pods[y])} | ({None} if ports_conflict(ports_of(pods[a]), ports_of(pods[b])) else set())
            self.apart[a][b] = self.apart[b][a] = keys
        self.open = [[name for name in world.nodes if self.may_be_on(pod, name)] for pod in pods]
        self.together = [self.affinity(pod) for pod in pods]
        self.spread = [[Spread(world, pod, one, pods) for one in spreads_of(pod)] for pod in pods]
        self.tried = 0

    def may_be_on(self, pod, name):
        """But for the job's other pods, and affinity."""
        world, node, spec = self.world, self.world.nodes[name], pod["spec"]
        if not (fits_affinity(spec, node) and tolerates(spec, node) and world.volumes_fit(pod, node)):
            return False
        for other, on in world.there:
            if on == name and ports_conflict(ports_of(pod), ports_of(other)):
                return False
            for one, two in ((pod, other), (other, pod)):
                for term in terms_of(one, "podAntiAffinity"):
                    value = value_of(node, term["topologyKey"])
                    if value is not None and on in world.nodes and value == value_of(world.nodes[on], term["topologyKey"]) and world.means(
                            one, term, two):
                        return False
        return True

    def affinity(self, pod):
        """(keys, {(key, value)} where what all terms mean is, the job's pods that all of them mean, whether it is so itself)"""
        terms, world = terms_of(pod, "podAffinity"), self.world

        def meant(other):
            return all(world.means(pod, term, other) for term in terms)
        there = {(term["topologyKey"], value_of(world.nodes[on], term["topologyKey"]))
                 for other, on in world.there if on in world.nodes and terms and meant(other) for term in terms}
        return [term["topologyKey"] for term in terms], {one for one in there if one[1] is not None}, \
            {at for at, other in enumerate(self.pods) if terms and meant(other)}, bool(terms) and meant(pod)

    def passes(self, at, node, bound, by_plan):
        """Whether the scheduler binds the pod there, once `bound` are: {pod: node}."""
        keys, there, mates, itself = self.together[at]
        if keys:
            seen = there | {(key, value_of(self.world.nodes[on], key)) for mate, on in bound.items() if mate in mates for key in keys
                            if value_of(self.world.nodes[on], key) is not None}
            values = [(key, value_of(self.world.nodes[node], key)) for key in keys]
            if any(value is None for _, value in values) or not (all(one in seen for one in values) or (not seen and itself)):
                return False
        return all(one.passes(self.world, node, bound, by_plan) for one in self.spread[at])

    def waits(self):
        return any(keys for keys, *_ in self.together) or any(self.spread)

    def bound_by_rank(self, nodes, by_plan):
        bound = {}
        while len(bound) < len(nodes):
            before = len(bound)
            for at, node in enumerate(nodes):
                if at not in bound and self.passes(at, node, bound, by_plan):
                    bound[at] = node
            if len(bound) == before:
                return False
        return True

    def bound_by_any_order(self, nodes, by_plan, bound, seen):
        if frozenset(bound) in seen or len(bound) == len(nodes):
            return True
        seen.add(frozenset(bound))
        further = [at for at in range(len(nodes)) if at not in bound and self.passes(at, nodes[at], bound, by_plan)]
        return bool(further) and all(self.bound_by_any_order(nodes, by_plan, {**bound, at: nodes[at]}, seen) for at in further)

    def placements(self, nodes=()):
        """Those that keep units in supernodes and pods apart, within the room of each node."""
        at = len(nodes)
        if at == len(self.pods):
            yield nodes
            return
        for name in self.open[at]:
            on = [number for number, node in enumerate(nodes) if node == name]
            node, left = self.world.nodes[name], self.room[name]
            if sum(self.gpus[one] for one in on) + self.gpus[at] > left[0] or sum(self.cpus[one] for one in on) + self.cpus[at] > left[1] \
                    or len(on) + 1 > left[2]:
                continue
            if at % self.per_run and value_of(node, self.world.supernode) != value_of(self.world.nodes[nodes[-1]], self.world.supernode):
                continue
            if value_of(node, self.world.supernode) is None or any(self.share(name, nodes[other], self.apart[at][other]) for other in range(at)):
                continue
            yield from self.placements((*nodes, name))

    def share(self, one, other, keys):
        return any(one == other if key is None else value_of(self.world.nodes[one], key) is not None
                   and value_of(self.world.nodes[one], key) == value_of(self.world.nodes[other], key) for key in keys)

    def bound_at_once(self, nodes):
        return all(self.passes(at, node, dict(enumerate(nodes[:at])), False) for at, node in enumerate(nodes))

    def placement(self, by_plan=True, by_rank=False, at_once=False):
        """One in which all of its pods get bound, whatever the order; `by_rank`: in that of the ranks, where a refused pod is tried
        again after the others. `at_once`: in that of the ranks, too, where none is tried again. `by_plan`: each pod is pinned."""
        for nodes in self.placements():
            self.tried += 1
            if not self.waits() or ((self.bound_by_rank(nodes, by_plan) if by_rank else self.bound_by_any_order(nodes, by_plan, {}, set()))
                                    and (not at_once or self.bound_at_once(nodes))):
                return nodes
        return None


def is_planned(pod):
    return PLAN + "node" in pod["metadata"].get("annotations", {})
