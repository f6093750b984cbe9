// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"k8s.io/klog/v2"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"
)

// AffinityName is what the scheduler's configuration calls gpu-podaffinity.
const AffinityName = "gpu-podaffinity"

type affinity struct {
	session *session
	valid   map[api.JobID]*api.ValidateResult
	ranks   map[api.TaskID]int
}

// NewAffinity makes the plugin for one session.
func NewAffinity(arguments framework.Arguments) framework.Plugin {
	if len(arguments) > 0 {
		klog.Warningf("plugin %s has no arguments; %v does nothing", AffinityName, arguments)
	}
	return &affinity{valid: map[api.JobID]*api.ValidateResult{}, ranks: map[api.TaskID]int{}}
}

func (p *affinity) Name() string { return AffinityName }

func (p *affinity) OnSessionOpen(ssn *framework.Session) {
	p.session = theEngine.open(ssn)
	ssn.AddPrePredicateFn(AffinityName, p.prePredicate)
	if p.session.err != nil {
		return
	}
	ssn.AddJobValidFn(AffinityName, p.jobValid)
	ssn.AddTaskOrderFn(AffinityName, p.taskOrder)
	ssn.AddPredicateFn(AffinityName, p.predicate)
	ssn.AddJobReadyFn(AffinityName, func(job any) bool { return p.isWhole(job.(*api.JobInfo)) })
	ssn.AddJobPipelinedFn(AffinityName, func(job any) int {
		if p.isWhole(job.(*api.JobInfo)) {
			return util.Abstain
		}
		return util.Reject
	})
}

// jobValid looks at each job once a session, and notes the ranks of its tasks.
func (p *affinity) jobValid(object any) *api.ValidateResult {
	job := object.(*api.JobInfo)
	if result, seen := p.valid[job.UID]; seen {
		return result
	}
	p.valid[job.UID] = nil
	theEngine.lock.Lock()
	defer theEngine.lock.Unlock()
	for uid, task := range job.TaskStatusIndex[api.Pending] {
		number, found := p.session.tasks[uid]
		if !found || task.SchGated {
			continue
		}
		grouped, rank, err := theEngine.core.check(number)
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
	if !found {
		return nil
	}
	if p.session.err != nil {
		return p.session.err
	}
	theEngine.lock.Lock()
	defer theEngine.lock.Unlock()
	node, err := theEngine.core.place(number)
	if err != nil {
		if job := p.session.ssn.Jobs[task.Job]; job != nil {
			job.JobFitErrors = err.Error()
		}
		return err
	}
	if node < 0 {
		delete(p.session.placed, task.UID)
		p.session.may[task.UID] = theEngine.core.mayUse(number, len(p.session.nodes))
		return nil
	}
	name := p.session.ssn.NodeList[node].Name
	p.session.placed[task.UID] = name
	p.session.write(task, name, nil)
	return nil
}

// predicate is called from many goroutines; they only read what prePredicate has written.
func (p *affinity) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	status := &api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: AffinityName}
	if name, found := p.session.placed[task.UID]; found {
		if name == node.Name {
			return nil
		}
		status.Reason = "gputopo planned this pod for node " + name
		return api.NewFitErrWithStatus(task, node, status)
	}
	may, at := p.session.may[task.UID], p.session.nodes[node.Name]
	if at >= len(may) || may[at] != 0 {
		return nil
	}
	status.Code, status.Reason = api.Unschedulable, "its free GPUs are promised to planned or starting pods"
	return api.NewFitErrWithStatus(task, node, status)
}

// isWhole is whether no unit of the job is allocated in part.
func (p *affinity) isWhole(job *api.JobInfo) bool {
	number, found := p.session.any[job.UID]
	if !found {
		return true
	}
	theEngine.lock.Lock()
	defer theEngine.lock.Unlock()
	return theEngine.core.isWhole(number)
}

func (p *affinity) OnSessionClose(ssn *framework.Session) { theEngine.close(ssn) }
