// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// Preempt and reclaim, with Volcano's own actions.

// full has three racks of four nodes, each full of a gang, and a gang that waits for a rack.
func full(t *testing.T, queue string) *world {
	w := &world{racks: 3, perRack: 4}
	w.gang("high", 4, 8, "32", false)
	for rack := range w.racks {
		name := fmt.Sprintf("low%d", rack)
		w.gang(name, 4, 8, "", false)
		w.run(name, rack*4, rack*4+1, rack*4+2, rack*4+3)
		w.group(name).Status.Phase = schedulingv1.PodGroupRunning
	}
	w.group("high").Spec.Queue = queue
	w.publish(t)
	return w
}

// evicting are the tiers as they are usual for preempt; gangs may lose pods where they do not vote.
func evicting(gangVotes bool) []conf.Tier {
	first := plug(priority.PluginName, gang.PluginName, AffinityName)
	first.Plugins[1].EnabledPreemptable, first.Plugins[1].EnabledReclaimable = &gangVotes, &gangVotes
	return []conf.Tier{first, plug(predicates.PluginName, proportion.PluginName, AwareName)}
}

// outcome is what a session did: nodes by pod, and what the Bindings say of nodes.
type outcome struct {
	evicted, pipelined, bound, planned map[string]string
}

func (w *world) act(t *testing.T, tiers []conf.Tier, actions ...framework.Action) outcome {
	t.Helper()
	test, ssn := w.session(t, false, tiers...)
	defer test.Close()
	test.Run(append([]framework.Action{allocate.New()}, actions...))
	is := outcome{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}}
	for _, job := range ssn.Jobs {
		for status, nodes := range map[api.TaskStatus]map[string]string{api.Releasing: is.evicted, api.Pipelined: is.pipelined, api.Binding: is.bound} {
			for _, task := range job.TaskStatusIndex[status] {
				nodes[task.Name] = task.NodeName
			}
		}
		for _, task := range job.TaskStatusIndex[api.Binding] {
			is.planned[task.Name] = task.Pod.Annotations["plan.topology.metax-tech.com/node"]
		}
	}
	return is
}

// checkRack is true where just the pods of one rack go, and high comes there.
func (is outcome) checkRack(t *testing.T) {
	t.Helper()
	var from, to []string
	for _, node := range is.evicted {
		from = append(from, node)
	}
	for name, node := range is.pipelined {
		if rackOf(name) != "high" {
			t.Errorf("%s comes to %s", name, node)
		}
		to = append(to, node)
	}
	slices.Sort(from)
	slices.Sort(to)
	if len(from) != 4 || !slices.Equal(from, to) || rackOf(from[0]) != rackOf(from[3]) {
		t.Errorf("pods go: %v, and come: %v", is.evicted, is.pipelined)
	}
}

func (is outcome) checkNobody(t *testing.T) {
	t.Helper()
	if len(is.evicted) > 0 || len(is.pipelined) > 0 {
		t.Errorf("pods go: %v, and come: %v", is.evicted, is.pipelined)
	}
}

// leave says of the evicted pods that they are about to go.
func (w *world) leave(names map[string]string) {
	for i, pod := range w.pods {
		if _, goes := names[pod.Name]; goes {
			w.pods[i] = pod.DeepCopy()
			w.pods[i].DeletionTimestamp, w.pods[i].DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64)
		}
	}
}

func TestPreempt(t *testing.T) {
	w := full(t, "q")
	w.group("high").Spec.PriorityClassName = "high"
	first := w.act(t, evicting(false), preempt.New())
	first.checkRack(t)

	// They take their time; nobody else goes, and nobody else comes.
	w.leave(first.evicted)
	w.gang("a-rival", 4, 8, "32", false)
	w.group("a-rival").Spec.PriorityClassName = "high"
	for _, name := range []string{"low0", "low1", "low2"} {
		w.group(name).Spec.PriorityClassName = "high"
	}
	w.list(t)
	for range 2 {
		later := w.act(t, evicting(false), preempt.New())
		if fmt.Sprint(later) != fmt.Sprint(first) {
			t.Errorf("first %v, later %v", first, later)
		}
	}

	// They are gone.
	w.pods = slices.DeleteFunc(w.pods, func(pod *v1.Pod) bool { return first.evicted[pod.Name] != "" })
	w.list(t)
	last := w.act(t, evicting(false), preempt.New())
	last.checkNobody(t)
	if fmt.Sprint(last.bound) != fmt.Sprint(first.pipelined) || fmt.Sprint(last.planned) != fmt.Sprint(first.pipelined) {
		t.Errorf("first %v, last %v", first, last)
	}
}

// A job that names its tasks: what preempt remembers of one must not be held against the others.
func TestPreemptWithoutRoles(t *testing.T) {
	w := full(t, "q")
	w.group("high").Spec.PriorityClassName = "high"
	for _, pod := range w.pods {
		delete(pod.Annotations, "volcano.sh/task-spec")
	}
	w.act(t, evicting(false), preempt.New()).checkRack(t)
}

func TestPreemptNobody(t *testing.T) {
	for name, change := range map[string]func(w *world) []conf.Tier{
		"equal priority": func(w *world) []conf.Tier { return evicting(false) },
		"gangs of no less than all": func(w *world) []conf.Tier {
			w.group("high").Spec.PriorityClassName = "high"
			return evicting(true)
		},
		"a pod of each rack stays": func(w *world) []conf.Tier {
			w.group("high").Spec.PriorityClassName = "high"
			for _, pod := range w.pods {
				if pod.Spec.NodeName != "" && pod.Spec.NodeName[3:] == "n2" {
					pod.Annotations["volcano.sh/preemptable"] = "false"
				}
			}
			return evicting(false)
		},
		"never by its policy": func(w *world) []conf.Tier {
			w.group("high").Spec.PriorityClassName = "high"
			never := v1.PreemptNever
			for _, pod := range w.pods[:4] {
				pod.Spec.PreemptionPolicy = &never
			}
			return evicting(false)
		},
		"another queue": func(w *world) []conf.Tier {
			w.group("high").Spec.PriorityClassName = "high"
			w.group("high").Spec.Queue = "other"
			w.queues = append(w.queues, util.BuildQueue("other", 1, nil))
			return evicting(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := full(t, "q")
			w.act(t, change(w), preempt.New()).checkNobody(t)
		})
	}
}

// A gang that may lose two pods of four: preempt must not take more, wherever the room is.
func TestPreemptPartOfAGang(t *testing.T) {
	w := full(t, "q")
	w.group("high").Spec.PriorityClassName = "high"
	w.group("high").Spec.MinMember = 2
	w.pods = slices.Delete(w.pods, 2, 4)
	for rack := range w.racks {
		w.group(fmt.Sprintf("low%d", rack)).Spec.MinMember = int32(4 - rack)
	}
	for _, pod := range w.pods {
		if pod.Annotations["metax-tech.com/gpu-group-size"] != "" {
			pod.Annotations["metax-tech.com/gpu-group-size"] = "16"
		}
	}
	w.publish(t)
	is := w.act(t, evicting(true), preempt.New())
	if len(is.evicted) != 2 || len(is.pipelined) != 2 {
		t.Errorf("pods go: %v, and come: %v", is.evicted, is.pipelined)
	}
	for name, node := range is.evicted {
		if rackOf(node) != "r2" {
			t.Errorf("%s goes from %s", name, node)
		}
	}
}

// A queue that is full, in a cluster that is not: as many go as it lacks, of one job, and the others come to free nodes.
func TestPreemptForALimit(t *testing.T) {
	for limit, goes := range map[string]int{"88": 1, "72": 3, "64": 4, "56": 5} {
		w := full(t, "q")
		w.racks = 4 // the last one is free
		w.group("high").Spec.PriorityClassName = "high"
		w.group("low2").Spec.Queue = "other"
		w.queues = append(w.queues, util.BuildQueue("other", 1, nil))
		w.limit = v1.ResourceList{gpu: resource.MustParse(limit)}
		w.publish(t)
		is := w.act(t, evicting(false), preempt.New())
		jobs := map[string]bool{}
		for name := range is.evicted {
			jobs[rackOf(name)] = true
		}
		if len(is.evicted) != goes || len(jobs) != 1+goes/5 || jobs["low2"] {
			t.Errorf("limit %s: pods go: %v, and come: %v", limit, is.evicted, is.pipelined)
		}
		w.checkUnits(t, is.pipelined, "high", 4, 4)
	}
	w := full(t, "q") // all of the queue's have its priority
	w.racks = 4
	w.limit = v1.ResourceList{gpu: resource.MustParse("96")}
	w.publish(t)
	w.act(t, evicting(false), preempt.New()).checkNobody(t)
}

// GPUs are free, CPUs are not: pods without GPUs go from four nodes of one rack, and from no other; or nobody.
func TestEvictForCPU(t *testing.T) {
	for _, action := range []framework.Action{preempt.New(), reclaim.New()} {
		for _, stay := range []bool{false, true} {
			w := &world{racks: 2, perRack: 4}
			w.gang("high", 4, 8, "32", false)
			w.group("high").Spec.PriorityClassName = "high"
			w.gang("low", 8, 0, "", false)
			w.group("low").Spec.MinMember, w.group("low").Status.Phase = 1, schedulingv1.PodGroupRunning
			w.run("low", 0, 1, 2, 3, 4, 5, 6, 7)
			for i, pod := range w.pods {
				pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("60")
				if rackOf(pod.Name) == "low" {
					delete(pod.Spec.Containers[0].Resources.Requests, gpu)
					pod.Spec.Containers[0].Resources.Limits = nil
				}
				if stay && (i == 5 || i == 10) { // one of each rack
					pod.Annotations["volcano.sh/preemptable"] = "false"
				}
			}
			if action.Name() == "reclaim" {
				w.queues = append(w.queues, util.BuildQueue("poor", 9, nil))
				w.group("high").Spec.Queue = "poor"
			}
			w.publish(t)
			is := w.act(t, evicting(false), action)
			if stay {
				is.checkNobody(t)
				continue
			}
			is.checkRack(t)
			w.leave(is.evicted)
			w.list(t)
			if later := w.act(t, evicting(false), action); fmt.Sprint(later) != fmt.Sprint(is) {
				t.Errorf("first %v, later %v", is, later)
			}
		}
	}
}

// Two pods have the CPUs of each node: a gang that has to keep one of all loses none, and who has no CPUs stays.
func TestEvictForCPUOnlyWhoHelps(t *testing.T) {
	for keeps, goes := range map[int32]int{0: 8, 1: 0} {
		w := &world{racks: 1, perRack: 4}
		w.gang("high", 4, 8, "32", false)
		w.group("high").Spec.PriorityClassName = "high"
		for _, name := range []string{"a", "low", "z"} {
			w.gang(name, 8, 0, "", false)
			w.group(name).Spec.MinMember, w.group(name).Status.Phase = keeps, schedulingv1.PodGroupRunning
			w.run(name, 0, 0, 1, 1, 2, 2, 3, 3)
		}
		for _, pod := range w.pods {
			cpu := map[string]string{"high": "60", "low": "30"}[rackOf(pod.Name)]
			pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(cmp.Or(cpu, "0"))
			if rackOf(pod.Name) != "high" {
				delete(pod.Spec.Containers[0].Resources.Requests, gpu)
				pod.Spec.Containers[0].Resources.Limits = nil
			}
		}
		w.publish(t)
		is := w.act(t, evicting(true), preempt.New())
		for name := range is.evicted {
			if rackOf(name) != "low" {
				t.Errorf("%s goes", name)
			}
		}
		if len(is.evicted) != goes || len(is.pipelined) != goes/2 {
			t.Errorf("keeps %d: pods go: %v, and come: %v", keeps, is.evicted, is.pipelined)
		}
	}
}

func TestReclaim(t *testing.T) {
	w := full(t, "poor")
	w.queues = append(w.queues, util.BuildQueue("poor", 1, nil))
	first := w.act(t, evicting(false), reclaim.New())
	first.checkRack(t)
	w.leave(first.evicted)
	w.list(t)
	if later := w.act(t, evicting(false), reclaim.New()); fmt.Sprint(later) != fmt.Sprint(first) {
		t.Errorf("first %v, later %v", first, later)
	}
}

// Of what one node has one task's victims make room for two.
func TestReclaimForTwoOnANode(t *testing.T) {
	w := full(t, "poor")
	w.queues = append(w.queues, util.BuildQueue("poor", 1, nil))
	w.gang("halves", 4, 4, "16", false)
	w.group("halves").Spec.Queue = "poor"
	w.pods, w.groups = w.pods[4:], w.groups[1:] // without high
	w.publish(t)
	is := w.act(t, evicting(false), reclaim.New())
	if len(is.evicted) != 2 || len(is.pipelined) != 4 {
		t.Errorf("pods go: %v, and come: %v", is.evicted, is.pipelined)
	}
}

func TestReclaimNobody(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"its queue deserves less": func(w *world) {
			w.queues = append(w.queues, util.BuildQueue("poor", 1, nil), util.BuildQueue("third", 9, nil))
		},
		"queue not reclaimable": func(w *world) {
			no := false
			w.queues = append(w.queues, util.BuildQueue("poor", 1, nil), util.BuildQueue("rich", 1, nil))
			w.queues[1].Spec.Reclaimable = &no
			for rack := range 3 {
				w.group(fmt.Sprintf("low%d", rack)).Spec.Queue = "rich"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := full(t, "poor")
			change(w)
			if name == "its queue deserves less" { // a third queue asks for more than there is
				w.gang("many", 12, 8, "", false)
				w.group("many").Spec.Queue = "third"
				w.list(t)
			}
			w.act(t, evicting(false), reclaim.New()).checkNobody(t)
		})
	}
}
