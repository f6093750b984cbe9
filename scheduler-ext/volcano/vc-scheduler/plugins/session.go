// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

// engine is what outlives sessions. Both plugins share it, and the session that is open.
type engine struct {
	lock    sync.Mutex
	core    *core
	objects *objects
	session *session
}

var theEngine engine

// session is one of Volcano's, as both plugins see it.
type session struct {
	engine *engine
	ssn    *framework.Session
	err    error // why nothing can be said in it
	nodes  map[string]int
	tasks  map[api.TaskID]int     // that ask for GPUs
	any    map[api.JobID]int      // one task of each job that has some
	pods   map[api.TaskID]*v1.Pod // as they were before something was written on them
	placed map[api.TaskID]string  // the node that a task has to go to
	may    map[api.TaskID][]uint8 // nodes that a task without such a one may use
}

// start follows the cluster's objects from the first session on.
func (e *engine) start(config *rest.Config) (err error) {
	if e.core == nil {
		if e.core, err = newCore(); err != nil {
			return err
		}
	}
	timeout := time.Duration(0)
	if e.objects == nil {
		if e.objects, err = followObjects(config); err != nil {
			return err
		}
		timeout = firstList
	}
	return e.objects.wait(timeout)
}

// open begins the session, or finds it begun by the other plugin.
func (e *engine) open(ssn *framework.Session) *session {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.session != nil && e.session.ssn == ssn {
		return e.session
	}
	made := &session{engine: e, ssn: ssn, nodes: map[string]int{}, tasks: map[api.TaskID]int{}, any: map[api.JobID]int{},
		pods: map[api.TaskID]*v1.Pod{}, placed: map[api.TaskID]string{}, may: map[api.TaskID][]uint8{}}
	e.session = made
	a := made.collect()
	if made.err = e.start(ssn.ClientConfig()); made.err == nil {
		e.objects.take(e.core)
		made.err = e.core.open(a)
	}
	if made.err != nil {
		made.err = fmt.Errorf("gputopo cannot see the cluster: %w", made.err)
		klog.Error(made.err)
		return made
	}
	ssn.AddEventHandler(&framework.EventHandler{AllocateFunc: made.allocated, DeallocateFunc: made.deallocated})
	return made
}

// collect makes the flat arrays, and the numbers by which the library is asked.
func (s *session) collect() *arrays {
	a, gpu := &arrays{}, v1.ResourceName(gpuResource())
	for _, node := range s.ssn.NodeList {
		s.nodes[node.Name] = len(a.nodes)
		a.addNode(node.Name)
	}
	for _, job := range s.ssn.Jobs {
		group := -1
		for _, task := range job.Tasks {
			if task.InitResreq.Get(gpu) == 0 && task.Resreq.Get(gpu) == 0 {
				continue
			}
			if group < 0 {
				group = a.addGroup(job.Name, job.MinAvailable)
			}
			node := -1
			if at, found := s.nodes[task.NodeName]; found && (api.AllocatedStatus(task.Status) || task.Status == api.Releasing) {
				node = at
			}
			number := a.addTask(task.Namespace, task.Name, string(types.UID(task.UID)), group, node)
			s.tasks[task.UID] = number
			if before, found := s.any[job.UID]; !found || number < before {
				s.any[job.UID] = number
			}
		}
	}
	return a
}

func (s *session) numbers(nodes []*api.NodeInfo) []uint32 {
	numbers := make([]uint32, len(nodes))
	for i, node := range nodes {
		numbers[i] = uint32(s.nodes[node.Name])
	}
	return numbers
}

// write puts what the library has for a task onto its pod: Volcano hands the annotations on in the Binding, and
// tries the nominated node first. The session's task gets a copy, since Volcano's cache holds the same pod.
func (s *session) write(task *api.TaskInfo, nominated string, pairs []string) {
	if _, found := s.pods[task.UID]; !found {
		s.pods[task.UID] = task.Pod
	}
	pod := *task.Pod
	if nominated != "" {
		pod.Status.NominatedNodeName = nominated
	}
	if len(pairs) > 0 {
		pod.Annotations = maps.Clone(pod.Annotations)
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			pod.Annotations[pairs[i]] = pairs[i+1]
		}
	}
	task.Pod = &pod
}

func (s *session) restore(task *api.TaskInfo) {
	if pod, found := s.pods[task.UID]; found {
		task.Pod = pod
		delete(s.pods, task.UID)
	}
}

func (s *session) allocated(event *framework.Event) {
	number, found := s.tasks[event.Task.UID]
	if !found {
		return
	}
	node, known := s.nodes[event.Task.NodeName]
	if want := s.placed[event.Task.UID]; want != "" && want != event.Task.NodeName {
		event.Err = fmt.Errorf("gputopo planned pod %s/%s for node %s, not %s", event.Task.Namespace, event.Task.Name, want, event.Task.NodeName)
		return
	}
	if !known {
		return
	}
	s.engine.lock.Lock()
	defer s.engine.lock.Unlock()
	s.engine.core.allocated(number, node)
	if pairs := s.engine.core.annotations(number); pairs != nil {
		s.write(event.Task, "", pairs)
	}
}

func (s *session) deallocated(event *framework.Event) {
	number, found := s.tasks[event.Task.UID]
	if !found {
		return
	}
	s.restore(event.Task)
	s.engine.lock.Lock()
	defer s.engine.lock.Unlock()
	s.engine.core.deallocated(number)
}

// close ends the session. What was not bound looks as it did before: Volcano now writes the pods' conditions.
func (e *engine) close(ssn *framework.Session) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.session == nil || e.session.ssn != ssn {
		return
	}
	for _, job := range ssn.Jobs {
		for _, task := range job.Tasks {
			if task.Status != api.Binding {
				e.session.restore(task)
			}
		}
	}
	if e.core != nil {
		e.core.close()
	}
	e.session = nil
}
