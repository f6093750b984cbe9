// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

// mayGo is whether the action that runs would evict that one for the task.
func (p *affinity) mayGo(task, other *api.TaskInfo) bool {
	ssn := p.session.ssn
	job, found := ssn.Jobs[other.Job]
	if !found || other.Job == task.Job || !other.Preemptable {
		return false
	}
	queue, same := ssn.Queues[job.Queue], job.Queue == ssn.Jobs[task.Job].Queue
	votes := map[bool]func(*api.TaskInfo, []*api.TaskInfo) []*api.TaskInfo{false: ssn.Preemptable, true: ssn.Reclaimable}[p.reclaims]
	return queue != nil && same != p.reclaims && (same || queue.Reclaimable()) &&
		(other.Status == api.Running || same && api.PreemptableStatus(other.Status)) && len(votes(task, []*api.TaskInfo{other})) == 1
}

// evict evicts from the node, the lowest priority first, until the task has what it needs besides GPUs. Who has nothing of what lacks
// stays; and each is asked about when its turn comes, since a gang may lose one of two pods and not both.
func (p *affinity) evict(stmt *framework.Statement, first, task *api.TaskInfo, node *api.NodeInfo) {
	var victims []*api.TaskInfo
	for _, other := range node.Tasks {
		if p.mayGo(first, other) {
			victims = append(victims, other.Clone())
		}
	}
	for queue := p.session.ssn.BuildVictimsPriorityQueue(victims, first); !queue.Empty(); {
		fits, lacking := task.InitResreq.LessEqualWithResourcesName(node.FutureIdle(), api.Zero)
		if fits {
			return
		}
		other := queue.Pop().(*api.TaskInfo)
		helps := slices.ContainsFunc(lacking, func(name string) bool { return other.Resreq.Get(v1.ResourceName(name)) > 0 })
		if helps && p.mayGo(first, other) {
			_ = stmt.Evict(other, "room for units")
		}
	}
}

// makeRoom evicts, in one statement, all that have to go so that the task's job fits with its units whole; or nobody.
// Its tasks are pipelined to where they go, and preempt and reclaim have nothing more to do for it.
func (p *affinity) makeRoom(task *api.TaskInfo, number int) error {
	ssn, core := p.session.ssn, p.session.core
	if !core.wantsRoom(number) {
		return errors.New("no room is made for it now")
	}
	p.busy = true
	defer func() { p.busy = false }()
	mayGo, mayUse := make([]uint8, len(p.session.list)), slices.Repeat([]uint8{1}, len(ssn.NodeList))
	for i, other := range p.session.list {
		if p.mayGo(task, other) {
			mayGo[i] = 1
		}
	}
	p.lacks = 0
	for again, tries := true, 0; again && tries < 8; tries++ {
		steps, err := core.makeRoom(number, mayGo, mayUse, p.lacks)
		if err != nil {
			return err
		}
		stmt := framework.NewStatement(ssn)
		if again = p.do(stmt, task, steps, mayGo, mayUse); !again && ssn.JobPipelined(ssn.Jobs[task.Job]) {
			ssn.Jobs[task.Job].JobFitErrors = "it waits for the pods that are evicted for it"
			stmt.Commit()
			return errors.New("its pods have been pipelined")
		}
		stmt.Discard()
		core.giveUpRoom(number)
	}
	return errors.New("Volcano does not let go who would have to")
}

// do is true where it has to be tried again: somebody may not go, or a node does not serve, which it notes.
func (p *affinity) do(stmt *framework.Statement, first *api.TaskInfo, steps []step, mayGo, mayUse []uint8) bool {
	ssn, queue, lacks := p.session.ssn, p.session.ssn.Queues[p.session.ssn.Jobs[first.Job].Queue], p.lacks
	for _, step := range steps {
		task := p.session.list[step.task]
		if step.node == goes {
			if task = task.Clone(); !p.mayGo(first, task) || stmt.Evict(task, "room for units") != nil {
				mayGo[step.task] = 0
				return true
			}
			continue
		}
		node, policy := ssn.NodeList[step.node], task.Pod.Spec.PreemptionPolicy
		p.session.placed[task.UID] = node.Name
		if policy != nil && *policy == v1.PreemptNever || p.reclaims && !ssn.Preemptive(queue, task) {
			return false
		}
		p.evict(stmt, first, task, node)
		if !p.reclaims && !ssn.Allocatable(queue, task) {
			p.lacks++
			continue
		}
		fits := ssn.PrePredicateFn(task) == nil && ssn.PredicateForPreemptAction(task, node) == nil &&
			task.InitResreq.LessEqual(node.FutureIdle(), api.Zero)
		if !fits || stmt.Pipeline(task, node.Name, true) != nil {
			if fits {
				_ = stmt.UnPipeline(task) // as preempt does
			}
			mayUse[step.node] = 0
			return true
		}
	}
	return p.lacks > lacks
}
