// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

// vote is whether Volcano's plugins let a victim go, in the action that runs.
func (p *affinity) vote(task, victim *api.TaskInfo) bool {
	if p.reclaims {
		return len(p.session.ssn.Reclaimable(task, []*api.TaskInfo{victim})) == 1
	}
	return len(p.session.ssn.Preemptable(task, []*api.TaskInfo{victim})) == 1
}

// mayGo are the tasks that the action that runs would evict for this one, each by itself.
func (p *affinity) mayGo(task *api.TaskInfo) []uint8 {
	ssn, may := p.session.ssn, make([]uint8, len(p.session.list))
	for number, other := range p.session.list {
		job := ssn.Jobs[other.Job]
		queue, same := ssn.Queues[job.Queue], job.Queue == ssn.Jobs[task.Job].Queue
		if other.Job != task.Job && queue != nil && same != p.reclaims && (same || queue.Reclaimable()) && other.Preemptable &&
			(other.Status == api.Running || same && api.PreemptableStatus(other.Status)) && p.vote(task, other) {
			may[number] = 1
		}
	}
	return may
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
	mayGo, mayUse := p.mayGo(task), slices.Repeat([]uint8{1}, len(ssn.NodeList))
	for again, tries := true, 0; again && tries < 8; tries++ {
		steps, err := core.makeRoom(number, mayGo, mayUse)
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

// do is true where it has to be tried anew: somebody may not go, or a node does not serve, which it notes.
func (p *affinity) do(stmt *framework.Statement, first *api.TaskInfo, steps []step, mayGo, mayUse []uint8) bool {
	ssn, queue := p.session.ssn, p.session.ssn.Queues[p.session.ssn.Jobs[first.Job].Queue]
	for _, step := range steps {
		task := p.session.list[step.task]
		if step.node == goes {
			if task = task.Clone(); !p.vote(first, task) || stmt.Evict(task, "room for units") != nil {
				mayGo[step.task] = 0
				return true
			}
			continue
		}
		node, policy := ssn.NodeList[step.node], task.Pod.Spec.PreemptionPolicy
		p.session.placed[task.UID] = node.Name
		if policy != nil && *policy == v1.PreemptNever || p.reclaims && !ssn.Preemptive(queue, task) || !p.reclaims && !ssn.Allocatable(queue, task) {
			return false
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
	return false
}
