#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every state that the protocol of the placement controller can reach, in a small model.

The world: one job, two supernodes (nodes x0 x1 x2 and y0 y1 y2), two replicas of the companion of which the lease
names one, and an API server that checks uid and resourceVersion. Faults: a request arrives any time later, after
its answer was given up and its sender lost the lease; a watch lags; the lease passes to the other replica and
back; a leader loses a planned node and plans again; the GPUPlacement, or a part of it, is deleted by hand; the job is deleted. A
leader may give a node that its plan does not have to another job.

The ledger: another job waits, and the leader reserves a node for it, which its note in the lease names; the other replica reads
that now and then. Schedulers ask either replica whether a pod without a plan may use that node. (Spare nodes are in no note:
each replica finds them by itself.)

Wanted in each state: no unit has pods without a gate in two supernodes, and no node is given to two of them (a
node has room for one), or to one and another job. No leader deletes a part that the GPUPlacement names. Nobody
gives away a node of the note, if he has read it or leads, before he has reserved another one. From each
state, without a further fault, the job comes to its end: all pods have their plan, or the job is gone and so is its object.

What keeps it small: binding follows the gate's going, so a pod without a gate counts as bound. A write whose
resourceVersion is old can do nothing but fail, so it is forgotten at once. A watch that skips versions stands for
one that delivers them one by one. A leader that halts is one that takes no step for a while. Of the parts of a plan, all of
which must be there, one stands for all.
"""
import argparse
import gc
import sys
from typing import NamedTuple

NODES = ("x0", "x1", "x2", "y0", "y1", "y2")
ABSENT, GATED, ON = 0, 1, 2  # of a pod; ON + node: without a gate, planned there
LIFT, FENCE, OBJECT, OFFER, PART, DROP = range(6)  # requests
OF_PODS = (LIFT, FENCE, OFFER)

TORN = "a unit is in two supernodes"

# The rules that make it safe, as scheduler-ext/placement/reconcile.h has them; each can be left out.
RULES = {
    "object": "a plan is lifted only from an object; else pods get it from the leader's memory",
    "acknowledged": "gates go only when the answer to the object's write has come",
    "adoption": "a new leader writes the object that it finds before its first write to a pod",
    "object-version": "writes of the object name its version",
    "pod-version": "writes to a pod name its version",
    "read-again": "after a lost answer the object is read before anything else is done",
    "fences": "gated pods whose place changes are fenced before the object is written",
    "fences-unnamed": "so are gated pods from before this term, where there is no object",
    "own-fences": "a fence counts that this leader wrote after its last object; else any of a high epoch",
    "kept-places": "what a changed plan leaves is no other job's before no write of the old plan can come",
    "wait-leaves": "the reserved place of an unseen pod goes to another supernode only a minute after the last offer",
    "wait-moves": "so does one that moves within its supernode",
    "wait-unnamed": "so does one where there is no object",
    "offer-unsure": "nothing is offered while it is open what the API server has as the object",
    "lease": "nothing is sent when the lease has not been renewed",
    "new-term": "who gets the lease again begins again",
    "parts-fixed": "a part is never changed, another plan has another part",
    "parts-whole": "where a part is not there it counts as if there were no object",
    "parts-dropped": "a part is deleted only when the acknowledged object names another one and has its epoch or a later one",
    "noted-nodes": "who has read the note gives none of its nodes away",
    "note-first": "the note is read before a new term begins",
    "noted-until-held": "a new leader leaves the nodes of the note alone until it has chosen nodes itself",
    "prompt-watch": "(assumed) the watch tells of a new pod within a minute",
}


class World(NamedTuple):
    """How much of it there is, and how many faults."""

    units: tuple = ((0, 1),)
    passes: int = 1  # of the lease
    moves: int = 1  # a leader plans again
    lost: int = 1  # answers
    deletes: int = 1  # of the object, by hand
    ends: int = 0  # the job is deleted
    shifts: bool = True  # a plan may move within its supernode
    other: bool = False  # another job wants a node
    gated: int = 3  # so many pods may be made with their gate; the others come with their plan alone
    parts: bool = False  # the object has its plan in a part
    note: bool = False  # a node is reserved for another job that waits


class Leader(NamedTuple):
    on: bool = False  # it acts, or would if it had the lease
    pods: tuple = ()  # as its watch told last
    fresh: int = 0  # bits: pods, then the object, of which it knows the newest version
    object: tuple = None
    plan: tuple = None  # in its memory: a node for each pod
    acknowledged: bool = False
    unsure: bool = False  # of the object
    epoch: int = 0  # the highest seen
    fenced: int = 0  # bits: pods, since its last write of the object
    settled: bool = False  # a minute has passed since the last offer, and since its term began
    waits: frozenset = frozenset()  # for answers to these
    born: int = 0  # bits: pods made in its term
    made: frozenset = frozenset()  # parts, in its term
    held: int = -1  # the node that it has reserved for the other job
    noted: int = -1  # the one that the note named when it was read


class State(NamedTuple):
    pods: tuple  # (where, epoch of its fence)
    object: tuple  # (epoch, plan, epoch of its part); None: there is none
    leaders: tuple
    holder: int
    net: frozenset  # requests that may still work: (kind, pod or epoch, node, epoch or plan)
    left: tuple  # faults: passes, moves, lost, deletes, ends
    gone: bool
    planned: bool = False  # somebody has made a plan
    other: int = -1  # the node that another job has
    parts: frozenset = frozenset()  # (epoch, plan)
    dropped: bool = False  # a part that the object names was deleted by a leader
    note: int = -1  # the node in the lease's note
    given: bool = False  # it was given away by one who had to know


def supernode(node):
    return node // 3


class Model:
    def __init__(self, world, without=()):
        self.world = world
        self.count = sum(len(unit) for unit in world.units)
        self.unit_of = [u for u, unit in enumerate(world.units) for _ in unit]
        self.all_pods = (1 << self.count) - 1
        self.all_fresh = (1 << (self.count + 1)) - 1
        self.names = [f"pod-{i}" for i in range(self.count)]
        for rule in RULES:
            setattr(self, rule.replace("-", "_"), rule not in without)
        self.plans_cache = {}
        self.idle = Leader(pods=((ABSENT, 0),) * self.count)

    def start(self):
        pods = ((ABSENT, 0),) * self.count
        leader = Leader(pods=pods, fresh=self.all_fresh)
        left = (self.world.passes, self.world.moves, self.world.lost, self.world.deletes, self.world.ends)
        return State(pods, None, (leader._replace(on=True), leader), 0, frozenset(), left, False)

    # ---- what is wanted ----

    def wrong(self, state):
        on = [where - ON for where, _ in state.pods]
        for unit in self.world.units:
            if len({supernode(on[i]) for i in unit if on[i] >= 0}) > 1:
                return TORN
        if state.dropped:
            return "a leader has deleted a part that is named"
        if state.given:
            return "a node that the note names is given to a pod"
        taken = [node for node in on + [state.other] if node >= 0]
        if len(set(taken)) < len(taken):
            return "a node is given to two pods"
        return None

    def ended(self, state):
        if state.gone:
            return state.object is None
        return all(where >= ON for where, _ in state.pods)

    # ---- plans ----

    def plans(self, pods, other):
        """All plans that a leader may make that sees these pods."""
        key = (tuple(where for where, _ in pods), other)
        if key not in self.plans_cache:
            self.plans_cache[key] = self.make_plans(*key)
        return self.plans_cache[key]

    def make_plans(self, wheres, other):
        facts = {i: where - ON for i, where in enumerate(wheres) if where >= ON}
        plans = [()]
        for unit in self.world.units:
            held = {supernode(facts[i]) for i in unit if i in facts}
            more = []
            for plan in plans:
                for s in sorted(held) or (0, 1):
                    for first in (0, 1) if s == 0 and self.world.shifts else (0,):
                        free = [n for n in range(3 * s + first, 3 * s + 3)
                                if n not in plan and n not in facts.values() and n != other]
                        nodes = [facts[i] if i in facts else free.pop(0) if free else None for i in unit]
                        if None not in nodes and plan + tuple(nodes) not in more:
                            more.append(plan + tuple(nodes))
            plans = more
        return plans

    def fits(self, plan, pods, other):
        if other in plan or any(where >= ON and where - ON != plan[i] for i, (where, _) in enumerate(pods)):
            return False
        return len(set(plan)) == self.count and all(
            len({supernode(plan[i]) for i in unit}) == 1 for unit in self.world.units)

    # ---- changes of the API server ----

    def put_pod(self, state, i, pod, answered=-1):
        """A new version of a pod; all others know an old one now. `answered`: this leader hears of it."""
        leaders = []
        for number, leader in enumerate(state.leaders):
            if leader is self.idle:
                leaders.append(leader)
                continue
            waits = leader.waits
            if waits and self.pod_version:
                waits = frozenset(w for w in waits if w[0] not in OF_PODS or w[1] != i)
            if number == answered:
                pods = leader.pods[:i] + (pod,) + leader.pods[i + 1:]
                leaders.append(leader._replace(pods=pods, fresh=leader.fresh | 1 << i, waits=waits))
            else:
                leaders.append(leader._replace(fresh=leader.fresh & ~(1 << i), waits=waits))
        net = state.net
        if self.pod_version or pod[0] == ABSENT:
            net = frozenset(w for w in net if w[0] not in OF_PODS or w[1] != i)
        else:
            net = frozenset(w for w in net if w[0] != OFFER or w[1] != i)
        return state._replace(pods=state.pods[:i] + (pod,) + state.pods[i + 1:], leaders=tuple(leaders), net=net)

    def put_object(self, state, content, answered=-1):
        bit = 1 << self.count
        leaders = []
        for number, leader in enumerate(state.leaders):
            if leader is self.idle:
                leaders.append(leader)
                continue
            if number == answered:
                fresh = leader.fresh | bit if self.is_whole(state, content) else leader.fresh & ~bit
                leaders.append(leader._replace(fresh=fresh, object=content, acknowledged=True,
                                               unsure=False, epoch=max(leader.epoch, content[0]), fenced=0,
                                               waits=frozenset()))
                continue
            waited = any(w[0] == OBJECT for w in leader.waits)
            leaders.append(leader._replace(
                fresh=leader.fresh & ~bit,
                unsure=leader.unsure or (waited and self.read_again),
                waits=frozenset() if waited else leader.waits))
        net = state.net
        if self.object_version:
            net = frozenset(w for w in net if w[0] != OBJECT)
        return state._replace(object=content, leaders=tuple(leaders), net=net)

    # ---- parts ----

    def is_whole(self, state, content):
        return not self.world.parts or (content[2], content[1]) in state.parts

    def known(self, content):
        """What an object says as far as its plan is known."""
        return content if content and content[1] else None

    def seen(self, state):
        """The object as a reader has it: its plan stands in the part."""
        content = state.object
        if not content or not self.world.parts:
            return content
        if not self.parts_fixed:
            return (content[0], max(state.parts)[1] if state.parts else None, 0)
        return content if self.is_whole(state, content) else (content[0], None, content[2])

    def put_part(self, state, part, answered):
        parts = state.parts | {part} if self.parts_fixed else frozenset({part})
        state = self.unseen(state._replace(parts=parts))
        if answered >= 0:
            leader = state.leaders[answered]
            waits = frozenset(w for w in leader.waits if w[0] != PART)
            state = self.with_leader(state, answered, leader._replace(made=leader.made | {part}, waits=waits))
        return state

    def drop_part(self, state, part, by_leader):
        named = bool(state.object) and (state.object[2], state.object[1]) == part and part in state.parts
        state = state._replace(parts=state.parts - {part}, dropped=state.dropped or (by_leader and named))
        return self.unseen(state) if named else state

    def unseen(self, state):
        """What the object says may be another thing now, and watches are still to tell."""
        bit = 1 << self.count
        return state._replace(leaders=tuple(
            leader if leader is self.idle or not state.object or leader.object == self.seen(state)
            else leader._replace(fresh=leader.fresh & ~bit) for leader in state.leaders))

    def part_of(self, leader, content, epoch):
        """The part for its plan, and whether the API server has it."""
        if not self.parts_fixed:
            return (0, leader.plan), (0, leader.plan) in leader.made
        if content and content[1] == leader.plan:
            return (content[2], leader.plan), True
        return (epoch, leader.plan), (epoch, leader.plan) in leader.made

    def drop_parts(self, state, number, leader, steps):
        for part in state.parts if self.world.parts and self.parts_fixed else ():
            request = (DROP, part[0], 0, part[1])
            content = leader.object
            if not content or request in state.net or part == (content[2], content[1]):
                continue
            if self.parts_dropped and (not leader.acknowledged or part[0] > content[0]):
                continue
            steps.append((("drops", number, part), False, state._replace(net=state.net | {request})))

    # ---- steps ----

    def steps(self, state):
        """(what happens, whether it is a fault, the state after it)"""
        steps = []
        if not state.left[4] and all(where >= ON for where, _ in state.pods):
            return steps  # nothing can go wrong any more
        self.world_steps(state, steps)
        self.net_steps(state, steps)
        for number in (0, 1):
            self.leader_steps(state, number, steps)
            if self.world.note:
                self.note_steps(state, number, steps)
        return steps

    def spend(self, state, which):
        left = state.left
        return left[:which] + (left[which] - 1,) + left[which + 1:]

    def world_steps(self, state, steps):
        left = state.left
        if not state.gone:
            for i, (where, _) in enumerate(state.pods):
                if where == ABSENT and i < self.world.gated and (i == 0 or state.pods[i - 1][0] != ABSENT):
                    after = self.put_pod(state, i, (GATED, 0))
                    holder = after.leaders[state.holder]
                    after = self.with_leader(after, state.holder, holder._replace(born=holder.born | 1 << i))
                    steps.append((("made", i), False, after))
        if left[0]:
            steps.append((("pass", 1 - state.holder), True, self.pass_lease(state)))
        if left[3] and state.object:
            after = state._replace(left=self.spend(state, 3))
            if self.world.parts:
                after = self.drop_part(after, (state.object[2], state.object[1]), False)
            else:
                after = self.put_object(after, None)
            steps.append((("delete",), True, after))
        if left[4] and not state.gone and state.pods[0][0] != ABSENT:
            after = state._replace(gone=True, left=self.spend(state, 4))
            for i, pod in enumerate(state.pods):
                if pod[0] != ABSENT:
                    after = self.put_pod(after, i, (ABSENT, 0))
            after = after._replace(net=frozenset(w for w in after.net if w[0] not in OF_PODS))
            steps.append((("end",), True, after))

    def pass_lease(self, state):
        old, new = state.holder, 1 - state.holder
        leaders = list(state.leaders)
        if self.lease:
            leaders[old] = leaders[old]._replace(on=False, waits=frozenset())
            if self.new_term:
                leaders[old] = self.forget(leaders[old]) if state.left[0] > 1 or self.world.note else self.idle
        noted = state.note if self.note_first else leaders[new].noted
        leaders[new] = (self.forget(leaders[new]) if self.new_term else leaders[new])._replace(
            on=True, noted=noted if self.noted_until_held else -1)
        return state._replace(leaders=tuple(leaders), holder=new, left=self.spend(state, 0))

    @staticmethod
    def forget(leader):
        return leader._replace(plan=None, acknowledged=False, unsure=False, fenced=0, settled=False,
                               waits=frozenset(), born=0, made=frozenset(), held=-1, noted=-1)

    @staticmethod
    def with_leader(state, number, leader):
        leaders = (leader, state.leaders[1]) if number == 0 else (state.leaders[0], leader)
        return state._replace(leaders=leaders)

    def net_steps(self, state, steps):
        for request in state.net:
            kind, i, node, more = request
            answered = next((n for n in (0, 1) if request in state.leaders[n].waits), -1)
            label = ("arrives", request, answered)
            after = state._replace(net=state.net - {request})
            if kind == OBJECT:
                steps.append((label, False, self.put_object(after, (i, more, node), answered)))
                continue
            if kind in (PART, DROP):
                after = self.put_part(after, (i, more), answered) if kind == PART else \
                    self.drop_part(after, (i, more), True)
                steps.append((label, False, after))
                continue
            where = state.pods[i][0]
            if kind == OFFER:
                after = self.put_pod(after, i, (ON + node, 0))
            elif kind == LIFT and where == GATED:
                after = self.put_pod(after, i, (ON + node, state.pods[i][1]), answered)
            elif kind == FENCE and where != ABSENT:
                after = self.put_pod(after, i, (where, more), answered)
                if answered >= 0:
                    leader = after.leaders[answered]
                    after = self.with_leader(after, answered, leader._replace(fenced=leader.fenced | 1 << i))
            else:
                continue
            if answered >= 0 and not self.pod_version:
                leader = after.leaders[answered]
                after = self.with_leader(after, answered, leader._replace(waits=leader.waits - {request}))
            steps.append((label, False, after))

    def leader_steps(self, state, number, steps):
        leader = state.leaders[number]
        if not leader.on and (not state.left[0] or number == state.holder):
            return  # what it sees matters no more
        self.watch(state, number, leader, steps)
        if not leader.on:
            return
        if leader.waits:
            if state.left[2]:
                after = leader._replace(
                    waits=frozenset(),
                    unsure=leader.unsure or (self.read_again and any(w[0] == OBJECT for w in leader.waits)))
                steps.append((("lost", number), True,
                              self.with_leader(state, number, after)._replace(left=self.spend(state, 2))))
        if leader.plan:
            self.offer(state, number, leader, steps)
            if self.world.other and state.other < 0 and not leader.unsure:
                self.give_away(state, number, leader, steps)
        if leader.waits:
            return
        if not leader.unsure:
            self.drop_parts(state, number, leader, steps)
        if leader.unsure:
            steps.append((("reads", number), False, self.see_object(state, number, leader)))
            if leader.plan:
                self.decide(state, number, leader, steps)
            return
        if all(where == ABSENT for where, _ in leader.pods):
            if leader.object and leader.fresh >> self.count & 1:
                after = self.put_object(state, None)
                known = after.leaders[number]._replace(object=None, acknowledged=False, plan=None)
                known = known._replace(fresh=known.fresh | 1 << self.count)
                steps.append((("collects", number), False, self.with_leader(after, number, known)))
            return
        self.decide(state, number, leader, steps)
        if leader.plan and self.fits(leader.plan, leader.pods, state.other):
            self.act(state, number, leader, steps)

    def see_object(self, state, number, leader):
        content = self.seen(state)
        return self.with_leader(state, number, leader._replace(
            object=content, fresh=leader.fresh | 1 << self.count, acknowledged=False, unsure=False,
            epoch=max(leader.epoch, content[0] if content else 0)))

    def watch(self, state, number, leader, steps):
        if leader.fresh & self.all_pods != self.all_pods:
            after = leader._replace(pods=state.pods, fresh=leader.fresh | self.all_pods)
            steps.append((("sees", number, "the pods"), False, self.with_leader(state, number, after)))
        if not leader.fresh >> self.count & 1 and not leader.unsure and self.object:
            steps.append((("sees", number, "the object"), False, self.see_object(state, number, leader)))

    def see_pod(self, state, number, leader, i):
        pods = leader.pods[:i] + (state.pods[i],) + leader.pods[i + 1:]
        return self.with_leader(state, number, leader._replace(pods=pods, fresh=leader.fresh | 1 << i))

    def decide(self, state, number, leader, steps):
        """The plan in its memory: made, taken over from the object, brought in line with what has happened."""
        if leader.plan is None and self.known(leader.object) and self.object:
            plan = tuple(where - ON if where >= ON else node
                         for (where, _), node in zip(leader.pods, leader.object[1]))
            plans = [plan] if self.fits(plan, leader.pods, state.other) else self.plans(leader.pods, state.other)
        elif leader.plan is None or not self.fits(leader.plan, leader.pods, state.other):
            plans = self.plans(leader.pods, state.other)
            if not state.planned:
                plans = plans[:1]  # the others differ in names
        else:
            plans = []
            if state.left[1]:
                for plan in self.plans(leader.pods, state.other):
                    if plan != leader.plan:
                        after = self.with_leader(state, number, leader._replace(plan=plan))
                        steps.append((("moves", number, plan), True, after._replace(left=self.spend(state, 1))))
        for plan in plans:
            steps.append((("plans", number, plan), False,
                          self.with_leader(state, number, leader._replace(plan=plan))._replace(planned=True)))

    def act(self, state, number, leader, steps):
        gated = [i for i, (where, _) in enumerate(leader.pods) if where == GATED]
        absent = [i for i, (where, _) in enumerate(leader.pods) if where == ABSENT]
        if not gated and not absent:
            return
        if not self.object:
            self.lift(state, number, leader, gated, steps)
            return
        content = self.known(leader.object) if self.parts_whole else leader.object
        if content and not content[1]:
            content = (content[0], leader.plan, content[2])  # nothing has changed that anybody knows of
        moved = [i for i in gated + absent if content and content[1][i] != leader.plan[i]]
        known = leader.acknowledged or (not self.adoption and content)
        if not moved and content and known and self.known(leader.object):
            self.lift(state, number, leader, gated, steps)
            return
        to_fence = [i for i in gated if (i in moved and self.fences) or
                    (not content and self.fences_unnamed and self.had_one(leader))]
        epoch = max(leader.epoch + 1, max(fence for _, fence in leader.pods))
        to_fence = [i for i in to_fence
                    if not (leader.fenced >> i & 1 if self.own_fences else leader.pods[i][1] >= epoch)]
        waits = [i for i in absent if self.is_waited_for(leader, content, i)] if not leader.settled else []
        if to_fence:
            requests = [(FENCE, i, 0, epoch) for i in to_fence if leader.fresh >> i & 1]
            if requests:
                steps.append((("sends", number, tuple(requests)), False,
                              self.send(state, number, leader, requests)))
        if waits:
            steps.append((("minute", number), False, self.pass_minute(state, number)))
        if to_fence or waits or not leader.fresh >> self.count & 1:
            return
        request = (OBJECT, epoch, 0, leader.plan)
        if self.world.parts:
            part, made = self.part_of(leader, self.known(leader.object), epoch)
            request = (OBJECT, epoch, part[0], leader.plan) if made else (PART, part[0], 0, leader.plan)
        if self.acknowledged:
            after = self.send(state, number, leader, [request])
        else:
            after = self.send(state, number, leader._replace(acknowledged=True, object=(epoch, leader.plan, 0)),
                              [request])
            after = self.with_leader(after, number, after.leaders[number]._replace(waits=frozenset()))
        steps.append((("sends", number, (request,)), False, after))

    @staticmethod
    def had_one(leader):
        """Whether there may have been an object: it has seen one, or the job is older than its term."""
        return leader.epoch > 0 or not leader.born & 1

    def is_waited_for(self, leader, content, i):
        if not content:
            return self.wait_unnamed and self.had_one(leader)
        if content[1][i] == leader.plan[i]:
            return False
        if supernode(content[1][i]) != supernode(leader.plan[i]):
            return self.wait_leaves
        return self.wait_moves

    def pass_minute(self, state, number):
        """Requests that were offered a place have come or failed."""
        state = state._replace(net=frozenset(w for w in state.net if w[0] != OFFER))
        state = self.with_leader(state, number, state.leaders[number]._replace(settled=True))
        for i in range(self.count):
            leader = state.leaders[number]
            if self.prompt_watch and leader.pods[i][0] == ABSENT and not leader.fresh >> i & 1:
                state = self.see_pod(state, number, leader, i)
        return state

    def send(self, state, number, leader, requests):
        after = self.with_leader(state, number, leader._replace(waits=leader.waits | frozenset(requests)))
        return after._replace(net=state.net | frozenset(requests))

    def lift(self, state, number, leader, gated, steps):
        requests = [(LIFT, i, leader.plan[i], 0) for i in gated
                    if leader.fresh >> i & 1 or not self.pod_version]
        if requests:
            steps.append((("sends", number, tuple(requests)), False,
                          self.send(state, number, leader, requests)))

    def offer(self, state, number, leader, steps):
        if self.object and not (leader.acknowledged and self.known(leader.object)):
            return
        if self.offer_unsure and (leader.unsure or any(w[0] == OBJECT for w in leader.waits)):
            return
        for i, (where, _) in enumerate(leader.pods):
            if i == 0 or where != ABSENT or state.pods[i][0] != ABSENT or state.gone or \
                    state.pods[i - 1][0] == ABSENT or any(w[0] == OFFER and w[1] == i for w in state.net):
                continue
            if self.object and leader.object[1][i] != leader.plan[i]:
                continue
            after = self.with_leader(state, number, leader._replace(settled=False))
            steps.append((("offers", number, i, leader.plan[i]), False,
                          after._replace(net=state.net | {(OFFER, i, leader.plan[i], 0)})))

    def give_away(self, state, number, leader, steps):
        """A node that is free goes to another job. Its watches have caught up with what the API server has: they do while
        no replica has the lease. A request may still come."""
        if leader.fresh != self.all_fresh:
            return
        kept = set(leader.plan)
        content = self.known(leader.object)
        for i, (where, _) in enumerate(leader.pods):
            if where >= ON:
                kept.add(where - ON)
            elif not self.kept_places or (leader.fenced >> i & 1 if where == GATED else leader.settled):
                continue
            elif content:
                kept.add(content[1][i])
            elif self.had_one(leader):
                return
        for node in range(len(NODES)):
            if node not in kept:
                steps.append((("gives", number, node), True, state._replace(other=node)))

    def note_steps(self, state, number, steps):
        leader, leads = state.leaders[number], number == state.holder
        if leads and leader.held < 0:
            for node in {2, 5} - set(leader.plan or ()):
                steps.append((("holds", number, node), False,
                              self.with_leader(state, number, leader._replace(held=node, noted=-1))))
        elif leads and leader.held != state.note:
            steps.append((("notes", number, leader.held), False, state._replace(note=leader.held)))
        elif not leads and leader.noted != state.note:
            steps.append((("sees", number, "the note"), False,
                          self.with_leader(state, number, leader._replace(noted=state.note))))
        if state.other >= 0 or state.note < 0 or state.note == leader.held or \
                (self.noted_nodes and state.note == leader.noted):
            return
        known = leader.held < 0 if leads else leader.noted == state.note
        steps.append((("gives", number, state.note), True, state._replace(other=state.note, given=known)))

    # ---- readable ----

    def plan_text(self, plan):
        return ", ".join(f"{name} on {NODES[node]}" for name, node in zip(self.names, plan))

    def request_text(self, request):
        kind, i, node, more = request
        if kind == LIFT:
            return f"the lift of {self.names[i]} to {NODES[node]}"
        if kind == FENCE:
            return f"the fence of {self.names[i]} with epoch {more}"
        if kind == OBJECT:
            return f"the object with epoch {i} ({self.plan_text(more)})"
        if kind in (PART, DROP):
            return f"the {'making' if kind == PART else 'deletion'} of part {i} ({self.plan_text(more)})"
        return f"the making of {self.names[i]} with its plan on {NODES[node]}"

    def text(self, label):
        who = "AB"
        what = label[0]
        if what == "made":
            return f"{self.names[label[1]]} is made, gated"
        if what == "pass":
            return f"the lease passes to {who[label[1]]}"
        if what == "delete":
            return "somebody deletes " + ("the part" if self.world.parts else "the object")
        if what == "end":
            return "the job and its pods are deleted"
        if what == "arrives":
            return f"{self.request_text(label[1])} arrives" + (
                f", and {who[label[2]]} hears of it" if label[2] >= 0 else "")
        leader = who[label[1]]
        if what == "lost":
            return f"{leader} waits for answers no more"
        if what == "reads":
            return f"{leader} reads the object"
        if what == "collects":
            return f"{leader} deletes the object, for it sees no pods"
        if what == "sees":
            return f"{leader} sees {label[2]}"
        if what in ("plans", "moves"):
            return f"{leader} plans{'' if what == 'plans' else ' again'}: {self.plan_text(label[2])}"
        if what == "sends":
            return f"{leader} sends " + " and ".join(self.request_text(r) for r in label[2])
        if what == "gives":
            return f"{leader} gives {NODES[label[2]]} to another job"
        if what in ("holds", "notes"):
            return f"{leader} {'reserves' if what == 'holds' else 'writes into its note'} {NODES[label[2]]}, for a job that waits"
        if what == "drops":
            return f"{leader} sends the deletion of part {label[2][0]} ({self.plan_text(label[2][1])})"
        if what == "minute":
            return f"a minute passes for {leader}"
        return f"{leader} offers {self.names[label[2]]} its place on {NODES[label[3]]}"


class Result(NamedTuple):
    states: int
    wrong: str  # None: nothing
    trace: list


def trace_to(model, states, parents, number):
    numbers = [number]
    while numbers[-1]:
        numbers.append(parents[numbers[-1]])
    numbers.reverse()
    return [model.text(next(label for label, _, to in model.steps(states[before]) if to == states[after]))
            for before, after in zip(numbers, numbers[1:])]


def explore(model, wanted=None):
    """Breadth first: what goes wrong first has the shortest trace. `wanted`: only this counts as wrong."""
    states, parents = [model.start()], [0]
    numbers = {states[0]: 0}
    before = [[]]  # by number: states from which a step without a fault leads here
    at = 0
    while at < len(states):
        for _, fault, after in model.steps(states[at]):
            to = numbers.setdefault(after, len(states))
            if to == len(states):
                states.append(after)
                parents.append(at)
                before.append([])
                wrong = model.wrong(after)
                if wrong and wanted in (None, wrong):
                    return Result(to, wrong, trace_to(model, states, parents, to))
            if not fault:
                before[to].append(at)
        at += 1
    stack = [number for number, state in enumerate(states) if model.ended(state)]
    reached = bytearray(len(states))
    while stack:
        number = stack.pop()
        if not reached[number]:
            reached[number] = 1
            stack += before[number]
    stuck = reached.find(0)
    if stuck >= 0:
        return Result(len(states), "it comes to no end", trace_to(model, states, parents, stuck))
    return Result(len(states), None, [])


# Worlds in which nothing may go wrong.
SOUND = (
    World(deletes=0),
    World(lost=0),
    World(lost=0, deletes=0, ends=1, shifts=False),
    World(((0, 1), (2,)), moves=0, lost=0, deletes=0, shifts=False),
    World(lost=0, deletes=0, shifts=False, other=True),
    World(lost=0, deletes=0, shifts=False, gated=1, parts=True),
    World(lost=0, moves=0, shifts=False, parts=True),
    World(moves=0, lost=0, deletes=0, shifts=False, gated=1, note=True),
)

# Rules whose lack is found here, and where: without any of them something goes wrong.
SMALL = World(moves=0, lost=0, deletes=0)
ONE_MOVE = World(lost=0, deletes=0)
FLAPS = World(moves=2, deletes=0, shifts=False, gated=1)
NOTED = World(((0,),), moves=0, lost=0, deletes=0, shifts=False, note=True)
NEEDED = {
    "object": SMALL,
    "acknowledged": ONE_MOVE,
    "adoption": ONE_MOVE,
    "object-version": ONE_MOVE,
    "pod-version": SMALL,
    "read-again": FLAPS,
    "fences": SMALL,
    "fences-unnamed": SMALL,
    "own-fences": World(lost=0),
    "kept-places": World(lost=0, deletes=0, shifts=False, other=True),
    "wait-leaves": SMALL,
    "wait-moves": SMALL,
    "wait-unnamed": SMALL,
    "offer-unsure": FLAPS,
    "lease": SMALL,
    "new-term": World(passes=2, moves=0, lost=0, deletes=0, shifts=False),
    "parts-fixed": World(lost=0, deletes=0, parts=True),
    "parts-whole": World(lost=0, parts=True),
    "parts-dropped": World(lost=0, deletes=0, parts=True),
    "noted-nodes": NOTED,
    "note-first": NOTED,
    "noted-until-held": NOTED,
    "prompt-watch": SMALL,
}


def tell(result):
    print(f"{result.states:7} states: {result.wrong or 'nothing wrong'}")
    for number, line in enumerate(result.trace, 1):
        print(f"  {number:2} {line}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--without", metavar="RULE", choices=RULES, help="shows only what goes wrong then")
    options = parser.parse_args()
    gc.disable()  # nothing is in a circle
    if options.without:
        tell(explore(Model(NEEDED[options.without], (options.without,))))
        return 0
    failed = set(NEEDED) ^ set(RULES)
    for world in SOUND:
        print(world)
        result = explore(Model(world))
        tell(result)
        if result.wrong:
            failed.add("a sound world")
    for rule, world in NEEDED.items():
        print(f"without {rule}: {RULES[rule]}")
        result = explore(Model(world, (rule,)), TORN if rule == "object" else None)
        if rule == "object" or not result.wrong:
            tell(result)
        if not result.wrong:
            failed.add(rule)
    print(f"failed: {', '.join(sorted(failed))}" if failed else "as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
