// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"
)

// What the scheduler's configuration calls the plugins.
const AwareName, AffinityName = "gpu-aware", "gpu-podaffinity"

type affinity struct {
	session  *session
	valid    map[api.JobID]*api.ValidateResult
	ranks    map[api.TaskID]int
	starving api.JobID // preempt or reclaim is at this job
	reclaims bool      // it is reclaim
	busy     bool      // room is being made
	lacks    int       // for so many tasks its queue has no room
	brake    int       // percent of the nodes that pods leave at once; 0: the library's own
}

// NewAffinity makes the plugin for one session.
func NewAffinity(arguments framework.Arguments) framework.Plugin {
	made := &affinity{valid: map[api.JobID]*api.ValidateResult{}, ranks: map[api.TaskID]int{}}
	arguments.GetInt(&made.brake, "brake")
	for name := range arguments {
		if name != "brake" {
			klog.Warningf("plugin %s has the argument brake alone; %s does nothing", AffinityName, name)
		}
	}
	return made
}

func (p *affinity) Name() string { return AffinityName }

func (p *affinity) OnSessionOpen(ssn *framework.Session) {
	p.session = theEngine.open(ssn)
	ssn.AddPrePredicateFn(AffinityName, p.prePredicate)
	if p.session.err != nil {
		return
	}
	p.session.core.setBrake(p.brake)
	p.moveLost()
	ssn.AddJobValidFn(AffinityName, p.jobValid)
	ssn.AddTaskOrderFn(AffinityName, p.taskOrder)
	ssn.AddJobEnqueuedFn(AffinityName, func(job any) {
		if number, found := p.session.any[job.(*api.JobInfo).UID]; found {
			p.session.core.admitted(number)
		}
	})
	ssn.AddPredicateFn(AffinityName, p.predicate)
	ssn.AddJobReadyFn(AffinityName, func(job any) bool { return p.ask(job, p.session.core.isReady) })
	votes := map[bool]int{true: util.Abstain, false: util.Reject}
	ssn.AddJobPipelinedFn(AffinityName, func(job any) int { return votes[p.ask(job, p.session.core.isWhole)] })
	// No hook says which action runs. Before a task's PrePredicate preempt asks whether its job starves, reclaim also
	// whether it may reclaim, and allocate whether it may be allocated.
	ssn.AddJobStarvingFns(AffinityName, func(object any) bool {
		job := object.(*api.JobInfo)
		p.starving, p.reclaims = job.UID, false
		return job.IsStarving()
	})
	ssn.AddPreemptiveFn(AffinityName, func(any, any) bool { p.reclaims = true; return true })
	ssn.AddAllocatableFn(AffinityName, func(*api.QueueInfo, *api.TaskInfo) bool { p.starving = ""; return true })
}

// jobValid looks at each job once a session, and notes the ranks of its tasks.
func (p *affinity) jobValid(object any) *api.ValidateResult {
	job := object.(*api.JobInfo)
	if result, seen := p.valid[job.UID]; seen {
		return result
	}
	p.valid[job.UID] = nil
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		number, found := p.session.tasks[uid]
		if !found || task.SchGated {
			continue
		}
		grouped, rank, err := p.session.core.check(number)
		if err != nil {
			job.JobFitErrors = err.Error() // gang puts it into the PodGroup's condition when the session ends
			p.valid[job.UID] = &api.ValidateResult{Reason: "InvalidGPUGroups", Message: err.Error()}
			break
		}
		if grouped {
			p.ranks[uid] = rank
		}
	}
	return p.valid[job.UID]
}

func (p *affinity) taskOrder(l, r any) int {
	left, isLeft := p.ranks[l.(*api.TaskInfo).UID]
	right, isRight := p.ranks[r.(*api.TaskInfo).UID]
	if !isLeft || !isRight || l.(*api.TaskInfo).Job != r.(*api.TaskInfo).Job {
		return 0
	}
	return left - right
}

// prePredicate asks for the task's place, once before its nodes are looked at.
func (p *affinity) prePredicate(task *api.TaskInfo) error {
	number, found := p.session.tasks[task.UID]
	if !found || p.busy {
		return nil
	}
	if p.session.err != nil {
		return p.session.err
	}
	_, grouped := p.ranks[task.UID]
	starving := p.starving == task.Job
	p.starving = ""
	err := p.place(task, number)
	if grouped && starving {
		return p.makeRoom(task, number)
	}
	return err
}

// place notes where the task has to go.
func (p *affinity) place(task *api.TaskInfo, number int) error {
	delete(p.session.placed, task.UID)
	node, err := p.session.core.place(number)
	for err == nil && node != noNode {
		why := p.judge(number, false)
		if why == nil {
			break
		}
		_ = p.judge(number, true)
		if node, err = p.session.core.place(number); err != nil {
			err = fmt.Errorf("%w; %w", err, why)
		}
	}
	if err != nil {
		p.session.ssn.Jobs[task.Job].JobFitErrors = err.Error()
		return err
	}
	if node == noNode {
		p.session.may[task.UID] = p.session.core.mayUse(number, len(p.session.nodes))
		return nil
	}
	name := p.session.ssn.NodeList[node].Name
	p.session.placed[task.UID] = name
	p.session.write(task, name, nil)
	return nil
}

// judge hands what the predicates of all plugins say to the library, where it does not know that yet about a plan's
// nodes (`all`: about those with room). An error: why it has to plan again.
func (p *affinity) judge(number int, all bool) (why error) {
	ssn := p.session.ssn
	tasks, nodes := p.session.core.ask(number, len(ssn.NodeList), all)
	p.busy = true
	defer func() { p.busy = false }()
	for _, at := range tasks {
		task := p.session.list[at]
		none := ssn.PrePredicateFn(task)
		for n, is := range nodes {
			if is != asked {
				continue
			}
			if err := cmp.Or(none, ssn.PredicateForAllocateAction(task, ssn.NodeList[n])); err != nil {
				nodes[n], why = refused, cmp.Or(why, err)
			}
		}
	}
	if why != nil && !all && p.passes(p.session.ssn.Jobs[p.session.list[number].Job]) {
		for n, is := range nodes {
			nodes[n] = min(is, asked)
		}
		why = nil
	}
	p.session.core.answer(number, nodes)
	return why
}

// passes is whether all of the job's plan passes in the order in which it will be allocated: who is allocated first may be why a
// predicate refuses a node no more.
func (p *affinity) passes(job *api.JobInfo) bool {
	ssn, tasks := p.session.ssn, slices.Collect(maps.Values(job.TaskStatusIndex[api.Pending]))
	slices.SortFunc(tasks, func(l, r *api.TaskInfo) int { return map[bool]int{true: -1, false: 1}[ssn.TaskOrderFn(l, r)] })
	stmt := framework.NewStatement(ssn)
	defer stmt.Discard()
	for _, task := range tasks {
		number, found := p.session.tasks[task.UID]
		if !found || task.SchGated {
			continue
		}
		at, err := p.session.core.place(number)
		if err != nil || at == noNode {
			continue // of a unit that has no place
		}
		node := ssn.NodeList[at]
		delete(p.session.placed, task.UID)
		p.session.write(task, node.Name, nil)
		if ssn.PrePredicateFn(task) != nil || ssn.PredicateForAllocateAction(task, node) != nil {
			return false
		}
		if stmt.Allocate(task, node) != nil {
			_ = stmt.UnAllocate(task)
			return false
		}
	}
	return true
}

// predicate is called from many goroutines; they only read what prePredicate has written.
func (p *affinity) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	name, found := p.session.placed[task.UID]
	_, grouped := p.ranks[task.UID]
	may, at := p.session.may[task.UID], p.session.nodes[node.Name]
	status := &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: AffinityName}
	switch {
	case p.busy: // it is asked about other nodes than the one where it has to go
		return nil
	case found && name != node.Name:
		status.Reason = "gputopo planned this pod for node " + name
	case !found && grouped:
		status.Reason = "gputopo has no place for it"
	case !found && at < len(may) && may[at] == 0:
		status.Code, status.Reason = api.Unschedulable, "its free GPUs are reserved for planned or starting pods"
	default:
		return nil
	}
	return api.NewFitErrWithStatus(task, node, status)
}

// ask asks the library about a job; true for one that has nothing to do with GPUs.
func (p *affinity) ask(job any, question func(int) bool) bool {
	number, found := p.session.any[job.(*api.JobInfo).UID]
	return !found || question(number)
}

func (p *affinity) OnSessionClose(ssn *framework.Session) { theEngine.close(ssn) }
