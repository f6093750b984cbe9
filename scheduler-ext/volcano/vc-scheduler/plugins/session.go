// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

// engine is what outlives sessions. Both plugins share it, and the session that is open.
type engine struct {
	core    *core
	objects *objects
	session *session
	told    map[api.TaskID]time.Time // when pods were told to leave a lost place
}

var theEngine engine

// session is one of Volcano's, as both plugins see it.
type session struct {
	ssn    *framework.Session
	core   *core
	err    error // why nothing can be said in it
	nodes  map[string]int
	tasks  map[api.TaskID]int     // that ask for GPUs
	list   []*api.TaskInfo        // those, by their numbers
	any    map[api.JobID]int      // the first task of each job that has some
	pods   map[api.TaskID]*v1.Pod // as they were before something was written on them
	placed map[api.TaskID]string  // the node that a task has to go to
	may    map[api.TaskID][]uint8 // nodes that a task without such a one may use
}

// start follows the cluster's objects from the first session on.
func (e *engine) start(config *rest.Config) (err error) {
	if e.core == nil || e.core.c == nil {
		if e.core, err = newCore(); err != nil {
			return err
		}
	}
	if e.objects == nil {
		made := newObjects()
		if err = made.follow(config); err != nil {
			return err
		}
		e.objects = made // Volcano schedules nothing meanwhile
		for end := time.Now().Add(30 * time.Second); made.missing() != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		}
	}
	return e.objects.missing()
}

// open begins the session, or finds it begun by the other plugin.
func (e *engine) open(ssn *framework.Session) *session {
	if e.session != nil && e.session.ssn == ssn {
		return e.session
	}
	s := &session{ssn: ssn, nodes: map[string]int{}, tasks: map[api.TaskID]int{}, any: map[api.JobID]int{}, pods: map[api.TaskID]*v1.Pod{},
		placed: map[api.TaskID]string{}, may: map[api.TaskID][]uint8{}}
	e.session = s
	a := s.collect()
	if s.err = e.start(ssn.ClientConfig()); s.err == nil {
		e.objects.take(e.core, s.tellRefused)
		s.core, s.err = e.core, e.core.open(a)
	}
	if s.err != nil {
		s.err = fmt.Errorf("gputopo cannot see the cluster: %w", s.err)
		klog.Error(s.err)
		return s
	}
	ssn.AddEventHandler(&framework.EventHandler{AllocateFunc: s.allocated, DeallocateFunc: s.deallocated})
	return s
}

// The companion's metric, and its alert, beside Volcano's own metrics.
var refusedByKubelet = promauto.NewCounter(prometheus.CounterOpts{Name: "gputopo_placement_pods_refused_by_kubelet_total",
	Help: "Pods of jobs with a group size that the kubelet refused on their node."})

// tellRefused says that a kubelet refuses a pod.
func (s *session) tellRefused(namespace, group, said string) {
	refusedByKubelet.Inc()
	klog.Warningf("RefusedByKubelet: %s/%s: %s", namespace, group, said)
	if job := s.ssn.Jobs[api.JobID(namespace+"/"+group)]; job != nil && job.PodGroup != nil {
		s.ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeWarning, "RefusedByKubelet", said)
	}
}

// collect makes the flat arrays, and the numbers by which the library is asked.
func (s *session) collect() *arrays {
	a, gpu := &arrays{}, v1.ResourceName(gpuResource())
	for _, node := range s.ssn.NodeList {
		s.nodes[node.Name] = len(a.nodes)
		a.nodes = append(a.nodes, a.text(node.Name))
	}
	for _, job := range s.ssn.Jobs {
		for _, task := range job.Tasks {
			if task.InitResreq.Get(gpu) == 0 && task.Resreq.Get(gpu) == 0 {
				continue
			}
			if _, found := s.any[job.UID]; !found {
				s.any[job.UID] = len(s.list)
				a.addGroup(job.Name, job.MinAvailable, job.IsPending() && conf.EnabledActionMap["enqueue"])
			}
			node := noNode
			if at, found := s.nodes[task.NodeName]; found && (api.AllocatedStatus(task.Status) || task.Status == api.Releasing) {
				node = uint32(at)
			}
			s.tasks[task.UID] = len(s.list)
			a.addTask(task.Namespace, task.Name, string(task.UID), node, uint32(task.Status&api.Releasing))
			s.list = append(s.list, task)
		}
	}
	return a
}

// write puts what the library has for a task onto its pod: Volcano hands the annotations on in the Binding, and
// tries the nominated node first. The session's task gets a copy, since Volcano's cache holds the same pod.
func (s *session) write(task *api.TaskInfo, nominated string, pairs []string) {
	s.pods[task.UID] = cmp.Or(s.pods[task.UID], task.Pod)
	pod := *task.Pod
	pod.Status.NominatedNodeName = cmp.Or(nominated, pod.Status.NominatedNodeName)
	if len(pairs) > 0 {
		pod.Annotations = map[string]string{}
		maps.Copy(pod.Annotations, task.Pod.Annotations)
		for i := 0; i+1 < len(pairs); i += 2 {
			pod.Annotations[pairs[i]] = pairs[i+1]
		}
	}
	task.Pod = &pod
}

func (s *session) restore(task *api.TaskInfo) { task.Pod = cmp.Or(s.pods[task.UID], task.Pod) }

func (s *session) allocated(event *framework.Event) {
	task := event.Task
	number, found := s.tasks[task.UID]
	node, known := s.nodes[task.NodeName]
	if want := s.placed[task.UID]; found && want != "" && want != task.NodeName {
		event.Err = fmt.Errorf("gputopo planned pod %s/%s for node %s, not %s", task.Namespace, task.Name, want, task.NodeName)
	} else if found && known {
		s.core.allocated(number, node)
		if pairs := s.core.annotations(number); pairs != nil {
			s.write(task, "", pairs)
		}
	}
}

func (s *session) deallocated(event *framework.Event) {
	if number, found := s.tasks[event.Task.UID]; found {
		s.restore(event.Task)
		s.core.deallocated(number)
	}
}

// close ends the session. What was not bound looks as it did before: Volcano now writes the pods' conditions.
func (e *engine) close(ssn *framework.Session) {
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
	if e.core != nil && e.core.c != nil {
		e.core.close()
		e.objects.publish(e.core)
	}
	e.session = nil
}
