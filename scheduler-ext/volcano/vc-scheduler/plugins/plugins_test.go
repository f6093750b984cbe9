// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	schedulingv1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topology "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/network-topology-aware"
	"volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// Sessions of the real framework with the real allocate action; the cache behind them is Volcano's own double.

const gpu = "metax-tech.com/gpu"

type world struct {
	racks, perRack int
	pods           []*v1.Pod
	groups         []*schedulingv1.PodGroup
	queues         []*schedulingv1.Queue
	limit          v1.ResourceList // of queue q
	taint          string          // a node that drives its pods out
}

func (w *world) node(number int) string {
	return fmt.Sprintf("r%d-n%d", number/w.perRack, number%w.perRack)
}

func rackOf(node string) string { return strings.Split(node, "-")[0] }

func (w *world) gang(name string, pods, gpus int, group string, subGroups bool) {
	for i := range pods {
		pod := util.BuildPod("ns", fmt.Sprintf("%s-worker-%d", name, i), "", v1.PodPending, api.BuildResourceList("1", "1Gi",
			[]api.ScalarResource{{Name: "pods", Value: "1"}}...), name, map[string]string{
			"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/job-completion-index": strconv.Itoa(i)}, nil)
		pod.UID = types.UID(pod.Name)
		pod.Spec.Containers[0].Name = "main"
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{gpu: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
		pod.Spec.Containers[0].Resources.Requests[gpu] = pod.Spec.Containers[0].Resources.Limits[gpu]
		pod.Annotations["volcano.sh/task-spec"] = "worker"
		if group != "" {
			pod.Annotations["metax-tech.com/gpu-group-size"] = group
		}
		pod.Labels["unit"] = fmt.Sprintf("%s-%d", name, i/4)
		w.pods = append(w.pods, pod)
	}
	if subGroups {
		w.groups = append(w.groups, util.BuildPodGroupWithSubGroupPolicy(name, "ns", "", "q", int32(pods), nil, schedulingv1.PodGroupInqueue,
			"", 0, []schedulingv1.SubGroupPolicySpec{util.BuildSubGroupPolicyWithMinSubGroups("unit", []string{"unit"}, "hard", 1, 4, int32(pods/4))}))
		return
	}
	w.groups = append(w.groups, util.BuildPodGroup(name, "ns", "q", int32(pods), nil, schedulingv1.PodGroupInqueue))
}

// run says that the gang's pods are on these nodes, one on each.
func (w *world) run(gang string, nodes ...int) {
	for _, pod := range w.pods {
		if pod.Annotations["scheduling.k8s.io/group-name"] == gang && len(nodes) > 0 {
			pod.Spec.NodeName, pod.Status.Phase = w.node(nodes[0]), v1.PodRunning
			nodes = nodes[1:]
		}
	}
}

func (w *world) gpusOn(pod *v1.Pod, node string) int64 {
	if pod.Spec.NodeName != node {
		return 0
	}
	gpus := pod.Spec.Containers[0].Resources.Limits[gpu]
	return gpus.Value()
}

func (w *world) group(name string) *schedulingv1.PodGroup {
	for _, group := range w.groups {
		if group.Name == name {
			return group
		}
	}
	return nil
}

func (w *world) nodes() (nodes []*v1.Node) {
	for n := range w.racks * w.perRack {
		node := util.BuildNode(w.node(n), api.BuildResourceList("64", "512Gi", []api.ScalarResource{{Name: "pods", Value: "110"},
			{Name: gpu, Value: "8"}}...), map[string]string{v1.LabelHostname: w.node(n)})
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		if node.Name == w.taint {
			node.Spec.Taints = []v1.Taint{{Key: "away", Effect: v1.TaintEffectNoExecute}}
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// publish hands the world to a new library, as the reflectors would.
func (w *world) publish(t testing.TB) {
	c, err := newCore()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.free)
	theEngine = engine{core: c, objects: newObjects()}
	w.list(t)
}

// list hands it to the library that is there, as new lists.
func (w *world) list(t testing.TB) {
	made := theEngine.objects
	put := func(plural, namespace, name string, object any) {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		for number, feed := range made.feeds {
			feed.listed, feed.relisted = true, true
			if feed.plural == plural {
				made.changes[objectName{number, namespace, name}] = text
			}
		}
	}
	for _, node := range w.nodes() {
		put("nodes", "", node.Name, node)
		var gpus, links []map[string]any
		for i := range 8 {
			id := fmt.Sprintf("GPU-%s-%d", node.Name, i)
			gpus = append(gpus, map[string]any{"index": i, "uuid": id, "deviceID": id, "bdf": fmt.Sprintf("0000:%02x:00.0", i+1), "health": "healthy",
				"mode": "native", "product": "MXC500", "numaNode": 0})
			for a := range i {
				links = append(links, map[string]any{"a": a, "b": i, "kind": "MX", "pathKind": "NODE", "state": "up", "weight": 64})
			}
		}
		owners, free := []map[string]any{}, []int{0, 1, 2, 3, 4, 5, 6, 7}
		for _, pod := range w.pods {
			for range w.gpusOn(pod, node.Name) {
				owners = append(owners, map[string]any{"gpu": free[0], "namespace": pod.Namespace, "pod": pod.Name, "container": "main"})
				free = free[1:]
			}
		}
		put("nodegputopologies", "", node.Name, map[string]any{"metadata": map[string]any{"name": node.Name}, "status": map[string]any{
			"name": node.Name, "gpus": gpus, "links": links, "owners": owners, "free": free}})
	}
	for rack := range w.racks {
		var members []map[string]any
		for n := range w.perRack {
			members = append(members, map[string]any{"node": w.node(rack*w.perRack + n)})
		}
		name := fmt.Sprintf("rack-%d", rack)
		put("supernodes", "", name, map[string]any{"metadata": map[string]any{"name": name},
			"status": map[string]any{"tier": 1, "source": "config", "members": members}})
	}
	for _, pod := range w.pods {
		put("pods", pod.Namespace, pod.Name, pod)
	}
}

// plug is one tier of Volcano's configuration; all of its switches are on.
func plug(names ...string) (tier conf.Tier) {
	for _, name := range names {
		on := true
		tier.Plugins = append(tier.Plugins, conf.PluginOption{Name: name, EnabledJobOrder: &on, EnabledJobReady: &on, EnabledJobPipelined: &on,
			EnabledTaskOrder: &on, EnabledPredicate: &on, EnabledNodeOrder: &on, EnabledSubJobReady: &on, EnabledSubJobPipelined: &on,
			EnabledSubJobOrder: &on, EnabledHyperNodeOrder: &on, EnabledHyperNodeGradient: &on, EnabledPreemptable: &on, EnabledReclaimable: &on,
			EnablePreemptive: &on, EnabledJobStarving: &on, EnabledOverused: &on, EnabledAllocatable: &on, EnabledQueueOrder: &on, EnabledJobEnqueued: &on})
	}
	return tier
}

// session is one with these plugins in two tiers; it ends with the test.
func (w *world) session(t testing.TB, hyperNodes bool, tiers ...conf.Tier) (*uthelper.TestCommonStruct, *framework.Session) {
	options.Default()
	test := &uthelper.TestCommonStruct{Name: t.Name(), Pods: w.pods, Nodes: w.nodes(), PodGroups: w.groups,
		Queues: append([]*schedulingv1.Queue{util.BuildQueue("q", 1, w.limit)}, w.queues...), HyperNodesReadyToSchedule: true,
		PriClass: []*schedv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}},
		Plugins: map[string]framework.PluginBuilder{gang.PluginName: gang.New, predicates.PluginName: predicates.New, nodeorder.PluginName: nodeorder.New,
			networktopologyaware.PluginName: networktopologyaware.New,
			priority.PluginName:             priority.New, proportion.PluginName: proportion.New, AwareName: NewAware, AffinityName: NewAffinity}}
	if hyperNodes {
		test.HyperNodesSetByTier, test.HyperNodes = map[int]sets.Set[string]{1: sets.New[string]()}, map[string]sets.Set[string]{}
		test.HyperNodesMap = map[string]*api.HyperNodeInfo{}
		for rack := range w.racks {
			name := fmt.Sprintf("rack-%d", rack)
			var members []topology.MemberSpec
			test.HyperNodes[name] = sets.New[string]()
			for n := range w.perRack {
				node := w.node(rack*w.perRack + n)
				test.HyperNodes[name].Insert(node)
				members = append(members, topology.MemberSpec{Type: topology.MemberTypeNode,
					Selector: topology.MemberSelector{ExactMatch: &topology.ExactMatch{Name: node}}})
			}
			test.HyperNodesSetByTier[1].Insert(name)
			test.HyperNodesMap[name] = api.NewHyperNodeInfo(api.BuildHyperNode(name, 1, nil))
			test.HyperNodesMap[name].HyperNode.Spec.Members = members
		}
	}
	return test, test.RegisterSession(tiers, nil)
}

// allocated are the nodes of the job's tasks that the session has placed, by pod.
func allocated(ssn *framework.Session, job string) map[string]string {
	nodes := map[string]string{}
	for _, task := range ssn.Jobs[api.JobID("ns/"+job)].Tasks {
		if api.AllocatedStatus(task.Status) {
			nodes[task.Name] = task.NodeName
		}
	}
	return nodes
}

func (w *world) checkUnits(t testing.TB, nodes map[string]string, job string, pods, perUnit int) {
	t.Helper()
	if len(nodes) != pods {
		t.Fatalf("%s: %d pods have nodes, want %d", job, len(nodes), pods)
	}
	for i := range pods {
		first := nodes[fmt.Sprintf("%s-worker-%d", job, i/perUnit*perUnit)]
		if node := nodes[fmt.Sprintf("%s-worker-%d", job, i)]; rackOf(node) != rackOf(first) {
			t.Errorf("%s: pod %d of a unit is on %s, the first one on %s", job, i, node, first)
		}
	}
}

func TestUnits(t *testing.T) {
	w := &world{racks: 4, perRack: 5}
	w.gang("big", 8, 8, "32", false)
	w.gang("other", 8, 8, "32", false)
	w.gang("none", 8, 8, "64", false) // no rack holds 64
	w.gang("odd", 8, 8, "24", false)
	w.gang("plain", 2, 2, "", false)
	w.publish(t)
	test, ssn := w.session(t, false, plug(gang.PluginName, AffinityName), plug(predicates.PluginName, AwareName))
	defer test.Close()
	test.Run([]framework.Action{allocate.New()})
	w.checkUnits(t, allocated(ssn, "big"), "big", 8, 4)
	w.checkUnits(t, allocated(ssn, "other"), "other", 8, 4)
	for job, words := range map[string]string{"none": "a unit of 64 must lie in one", "odd": "are not a multiple of gpu-group-size 24"} {
		if nodes := allocated(ssn, job); len(nodes) > 0 {
			t.Errorf("%s has %v", job, nodes)
		}
		if said := ssn.Jobs[api.JobID("ns/"+job)].FitError(); !strings.Contains(said, words) {
			t.Errorf("%s: %s", job, said)
		}
	}
	if nodes := allocated(ssn, "plain"); len(nodes) != 2 || nodes["plain-worker-0"] != nodes["plain-worker-1"] {
		t.Errorf("two pods of two GPUs are on %v, not beside each other", nodes)
	}
	for _, task := range ssn.Jobs["ns/big"].Tasks {
		if task.Pod.Annotations["plan.topology.metax-tech.com/node"] != task.NodeName ||
			!strings.Contains(task.Pod.Annotations["plan.topology.metax-tech.com/gpus"], "GPU-"+task.NodeName) {
			t.Errorf("%s on %s: its Binding would say %v", task.Name, task.NodeName, task.Pod.Annotations)
		}
	}
	for _, pod := range w.pods { // Volcano's cache has these
		if pod.Annotations["plan.topology.metax-tech.com/node"] != "" || pod.Status.NominatedNodeName != "" {
			t.Errorf("the plan of %s was written into Volcano's cache", pod.Name)
		}
	}
}

// A job whose pods have two PodGroups begins when both are admitted.
func TestTwoPodGroups(t *testing.T) {
	for _, actions := range [][]framework.Action{{allocate.New()}, {enqueue.New(), allocate.New()}} {
		w := &world{racks: 2, perRack: 4}
		w.gang("two", 4, 8, "32", false)
		w.groups[0].Spec.MinMember = 1
		w.groups = append(w.groups, util.BuildPodGroup("late", "ns", "q", 1, nil, schedulingv1.PodGroupPending))
		for _, pod := range w.pods[2:] {
			pod.Annotations[schedulingv1.KubeGroupNameAnnotationKey] = "late"
		}
		w.publish(t)
		conf.EnabledActionMap = map[string]bool{"enqueue": true}
		test, ssn := w.session(t, false, plug(gang.PluginName, AffinityName), plug(predicates.PluginName))
		for _, action := range actions {
			action.Execute(ssn)
		}
		nodes := allocated(ssn, "two")
		if maps.Copy(nodes, allocated(ssn, "late")); len(actions) > 1 {
			w.checkUnits(t, nodes, "two", 4, 4)
		} else if len(nodes) > 0 {
			t.Errorf("%v have nodes", nodes)
		}
		test.Close()
		conf.EnabledActionMap = nil
	}
}

// TestPredicates has a rule that the library does not read: Volcano's own predicates say which nodes they refuse. They are asked about
// those of a plan, and once one is refused, about all with room.
func TestPredicates(t *testing.T) {
	for refusals, want := range map[string]string{"r0": "r1", "r1": "r0", "r0 r1": ""} {
		w := &world{racks: 3, perRack: 4}
		w.gang("big", 4, 8, "32", false)
		w.gang("full", 4, 8, "", false)
		w.run("full", 8, 9, 10, 11)
		w.publish(t)
		asked, first := map[string]int{}, ""
		test, ssn := w.session(t, false, plug(gang.PluginName, AffinityName), plug(predicates.PluginName, "rule"))
		ssn.AddPredicateFn("rule", func(task *api.TaskInfo, node *api.NodeInfo) error {
			first = cmp.Or(first, rackOf(node.Name))
			asked[task.Name+" "+node.Name]++
			if strings.Contains(refusals, rackOf(node.Name)) {
				return api.NewFitErrWithStatus(task, node, &api.Status{Code: api.Unschedulable, Reason: "no such rule"})
			}
			return nil
		})
		allocate.New().Execute(ssn)
		nodes := allocated(ssn, "big")
		if want == "" {
			said := ssn.Jobs["ns/big"].FitError()
			if len(nodes) > 0 || !strings.Contains(said, "its scheduler or kubelets have refused 8 nodes") || !strings.Contains(said, "no such rule") {
				t.Errorf("%v have nodes: %s", nodes, said)
			}
		} else if w.checkUnits(t, nodes, "big", 4, 4); rackOf(nodes["big-worker-0"]) != want {
			t.Errorf("with %s refused they are on %v", refusals, nodes)
		}
		for question, times := range asked {
			if times > 2 { // once for the plan, and once by allocate where it is bound
				t.Errorf("%s was asked %d times", question, times)
			}
			if rack := rackOf(strings.Fields(question)[1]); rack == "r2" || rack != first && !strings.Contains(refusals, first) {
				t.Errorf("with %s refused, %s was asked", refusals, question)
			}
		}
		test.Close()
	}
}

// TestPredicatesInOrder has a node that is too full for a spread constraint until another pod of the job is there.
func TestPredicatesInOrder(t *testing.T) {
	w := &world{racks: 1, perRack: 2}
	w.gang("beside", 1, 0, "", false)
	w.gang("big", 2, 8, "16", false)
	w.run("beside", 0)
	for _, pod := range w.pods {
		pod.Labels["spread"] = "yes"
		if pod.Spec.NodeName == "" {
			pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelHostname,
				WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"spread": "yes"}}}}
		}
	}
	w.publish(t)
	test, ssn := w.session(t, false, plug(gang.PluginName, AffinityName), plug(predicates.PluginName))
	defer test.Close()
	allocate.New().Execute(ssn)
	nodes := allocated(ssn, "big")
	if nodes["big-worker-0"] != "r0-n1" || nodes["big-worker-1"] != "r0-n0" {
		t.Errorf("they are on %v: %s", nodes, ssn.Jobs["ns/big"].FitError())
	}
}

// TestLostNode evicts a unit whose node drives its pods out, through the API that minds disruption budgets, once in ten seconds.
func TestLostNode(t *testing.T) {
	for policy, want := range map[string]int{"unit": 4, "wait": 0} {
		w := &world{racks: 2, perRack: 4}
		w.gang("big", 4, 8, "32", false)
		w.run("big", 0, 1, 2, 3)
		for _, pod := range w.pods {
			pod.Annotations["metax-tech.com/on-node-loss"] = policy
			pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		}
		w.publish(t)
		w.taint = "r0-n1"
		w.list(t)
		evicted := func() (pods []string) {
			test, ssn := w.session(t, false, plug(gang.PluginName, AffinityName), plug(predicates.PluginName))
			defer test.Close()
			client := ssn.KubeClient().(*fake.Clientset)
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) && len(pods) < 4; time.Sleep(10 * time.Millisecond) {
				pods = nil
				for _, action := range client.Actions() {
					if action.Matches("create", "pods/eviction") {
						pods = append(pods, action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction).Name)
					}
				}
			}
			return pods
		}
		if pods := evicted(); len(pods) != max(want-1, 0) { // the last one waits for a successor
			t.Errorf("%s: %v are evicted", policy, pods)
		}
		if pods := evicted(); len(pods) != 0 {
			t.Errorf("%s: %v are evicted at once again", policy, pods)
		}
	}
}

// TestRefusedByKubelet leaves out the nodes whose kubelets refuse pods, and after three of them the job waits. The next pod has the
// name of the one before it, and is there before the next session.
func TestRefusedByKubelet(t *testing.T) {
	w := &world{racks: 1, perRack: 8}
	w.gang("alone", 1, 8, "8", false)
	w.publish(t)
	refused := map[string]bool{}
	for times := range 4 {
		test, ssn := w.session(t, false, plug(gang.PluginName, AffinityName), plug(predicates.PluginName, AwareName))
		test.Run([]framework.Action{allocate.New()})
		node, why := allocated(ssn, "alone")["alone-worker-0"], ssn.Jobs[api.JobID("ns/alone")].JobFitErrors
		test.Close()
		if times == 3 {
			var told dto.Metric
			if err := refusedByKubelet.Write(&told); err != nil || told.GetCounter().GetValue() != 3 {
				t.Errorf("%v pods are counted as refused: %v", told.GetCounter().GetValue(), err)
			}
			if node != "" || !strings.Contains(why, "kubelets have refused 3 of its pods within 10 minutes") {
				t.Errorf("it is on %q, and waits since %q", node, why)
			}
			break
		}
		if node == "" || refused[node] {
			t.Fatalf("it is on %q, refused by %v: %s", node, refused, why)
		}
		refused[node] = true
		pod := w.pods[0].DeepCopy()
		pod.Spec.NodeName, pod.Status = node, v1.PodStatus{Phase: v1.PodRunning}
		feed := theEngine.objects.feeds[slices.IndexFunc(theEngine.objects.feeds, func(f *feed) bool { return f.plural == "pods" })]
		send := func(how func(any) error, pod *v1.Pod) {
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
			if err = cmp.Or(err, how(&unstructured.Unstructured{Object: object})); err != nil {
				t.Fatal(err)
			}
		}
		send(feed.Update, pod)
		pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: "TopologyAffinityError"}
		send(feed.Update, pod)
		send(feed.Delete, pod)
		w.pods[0].UID += "x"
		send(feed.Add, w.pods[0])
	}
}

func TestOnlyNodeThere(t *testing.T) {
	w := &world{racks: 1, perRack: 1}
	w.gang("lone", 1, 8, "8", false)
	w.publish(t)
	test, ssn := w.session(t, false, plug(gang.PluginName, AffinityName), plug(predicates.PluginName, AwareName))
	defer test.Close()
	test.Run([]framework.Action{allocate.New()})
	if nodes := allocated(ssn, "lone"); nodes["lone-worker-0"] != "r0-n0" {
		t.Errorf("it is on %v", nodes)
	}
}

func TestArguments(t *testing.T) {
	c, err := newCore()
	if err != nil {
		t.Fatal(err)
	}
	defer c.free()
	for _, one := range []struct {
		arguments framework.Arguments
		wrong     string
	}{
		{framework.Arguments{"weight": 1, "loss.weight": 0.5}, ""},
		{nil, ""},
		{framework.Arguments{"weight": "1", "loss.weight": "0.5"}, ""},
		{framework.Arguments{"loss.weight": true}, "argument loss.weight: expected a number of 0 or more, got true; 0.5 is used"},
		{framework.Arguments{"score.weight": nil}, "argument score.weight: expected a number of 0 or more, got null; 1 is used"},
		{framework.Arguments{"weight": math.Inf(1)}, "argument weight: expected a number of 0 or more, got \"+Inf\"; 1 is used"},
		{framework.Arguments{"loss": map[any]any{"weight": 1}}, "unknown argument loss: there are weight, score.weight, loss.weight, closeness.weight"},
		{framework.Arguments{"loss.wieght": 1}, "unknown argument loss.wieght: loss.weight is meant"},
		{framework.Arguments{"loss.wieght": 1}, ""}, // it was told
		{framework.Arguments{"loss.weight": 1}, ""},
		{framework.Arguments{"loss.wieght": 1}, "unknown argument loss.wieght: loss.weight is meant"},
	} {
		if wrong, err := c.setArguments(one.arguments); wrong != one.wrong || err != nil {
			t.Errorf("%v: %q, %v, want %q", one.arguments, wrong, err, one.wrong)
		}
	}
}

// TestWrongArguments looks at whether nodes are scored for wrong arguments as for none.
func TestWrongArguments(t *testing.T) {
	w := &world{racks: 1, perRack: 2}
	w.gang("other", 1, 4, "", false)
	w.gang("lone", 1, 4, "", false)
	w.run("other", 1)
	w.publish(t)
	tier := plug(predicates.PluginName, AwareName)
	tier.Plugins[1].Arguments = map[string]any{"weight": "much", "loss.wieght": 1}
	test, ssn := w.session(t, false, plug(gang.PluginName), tier)
	defer test.Close()
	allocate.New().Execute(ssn)
	if nodes := allocated(ssn, "lone"); nodes["lone-worker-0"] != "r0-n1" {
		t.Errorf("it is on %v", nodes)
	}
}

// TestAllocateTime prints how long Volcano's allocate takes for 64 pods of 8 GPUs: tests/bench/volcano.sh runs it.
// GPUTOPO_BENCH_NODES has the numbers of nodes, with spaces between them.
func TestAllocateTime(t *testing.T) {
	sizes := strings.Fields(os.Getenv("GPUTOPO_BENCH_NODES"))
	if len(sizes) == 0 {
		t.Skip("GPUTOPO_BENCH_NODES is not set")
	}
	stock := plug(predicates.PluginName, nodeorder.PluginName)
	ours := plug(predicates.PluginName, nodeorder.PluginName, AwareName)
	hyper := plug(predicates.PluginName, nodeorder.PluginName, networktopologyaware.PluginName)
	for _, size := range sizes {
		nodes, _ := strconv.Atoi(size)
		for _, way := range []struct {
			name       string
			group      string
			hyperNodes bool
			tiers      []conf.Tier
		}{
			{"stock", "", false, []conf.Tier{plug(gang.PluginName), stock}},
			{"plugins", "32", false, []conf.Tier{plug(gang.PluginName, AffinityName), ours}},
			{"scored", "", false, []conf.Tier{plug(gang.PluginName, AffinityName), ours}}, // pods without units, one by one
			{"hypernodes", "", true, []conf.Tier{plug(gang.PluginName), hyper}},
		} {
			times := 3
			if way.hyperNodes {
				times = 1 // it takes long
			}
			for range times {
				w := &world{racks: nodes / 16, perRack: 16}
				w.gang("big", 64, 8, way.group, way.hyperNodes)
				w.publish(t)
				before := time.Now()
				test, ssn := w.session(t, way.hyperNodes, way.tiers...)
				opened := time.Since(before)
				before = time.Now()
				test.Run([]framework.Action{allocate.New()})
				took := time.Since(before)
				on := allocated(ssn, "big")
				split := 0
				for unit := range 16 {
					racks := sets.New[string]()
					for i := range 4 {
						racks.Insert(rackOf(on[fmt.Sprintf("big-worker-%d", unit*4+i)]))
					}
					if racks.Len() > 1 {
						split++
					}
				}
				fmt.Printf("%s nodes=%d open_ms=%d allocate_ms=%.1f placed=%d split=%d\n", way.name, nodes, opened.Milliseconds(),
					float64(took.Microseconds())/1000, len(on), split)
				test.Close()
			}
		}
	}
}

// Without a client there is nothing to publish, and nothing to stop for.
func TestCloseWithoutClient(t *testing.T) {
	ssn, e := &framework.Session{}, engine{}
	t.Cleanup(func() { e.core.free() })
	if e.start(&rest.Config{Host: "http://[::"}) == nil {
		t.Error("there is a client")
	}
	e.session = &session{ssn: ssn}
	e.close(ssn)
}
