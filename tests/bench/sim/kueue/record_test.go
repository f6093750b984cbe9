// SPDX-License-Identifier: Apache-2.0

// Runs in Kueue's own package: see record.
package scheduler

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/resources"
)

const (
	supers, nodes = 4, 4 // nodes of each supernode
	gpu, level    = "metax-tech.com/gpu", "supernode"
)

// What each policy of the simulator asks Kueue for.
func request(policy string, unit, pods int32) (*kueue.PodSetTopologyRequest, bool) {
	if policy == "kueue" && pods == 1 {
		return nil, true
	}
	super := level
	slices := &kueue.PodSetTopologyRequest{PodSetSliceRequiredTopology: &super, PodSetSliceSize: &unit}
	if policy == "kueue-preferred" {
		slices.Preferred = &super
	}
	return slices, false
}

func place(free []int, policy string, gpus, unit, pods int32) string {
	var all []*corev1.Node
	for n, count := range free {
		name := fmt.Sprintf("node-%02d", n)
		all = append(all, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, level: fmt.Sprintf("super-%d", n/nodes)}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				gpu: *resource.NewQuantity(int64(count), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("99")}},
		})
	}
	tree := newTopologyTree([]string{level, corev1.LabelHostname}, all, 0)
	snapshot := newTASFlavorSnapshot(logr.Discard(), "topology", tree, nil, &defaultChecker{})
	topology, implied := request(policy, unit, pods)
	result := snapshot.FindTopologyAssignmentsForFlavor(context.Background(), FlavorTASRequests{{
		PodSet:            &kueue.PodSet{Name: "main", Count: pods, TopologyRequest: topology},
		SinglePodRequests: resources.NewRequestsFromMap(map[corev1.ResourceName]int64{gpu: int64(gpus)}),
		Count:             pods,
		Implied:           implied,
	}})["main"]
	if result.FailureReason != "" {
		return ""
	}
	counts := make([]int, len(free))
	for _, domain := range result.TopologyAssignment.Domains {
		var n int
		fmt.Sscanf(domain.Values[len(domain.Values)-1], "node-%d", &n)
		counts[n] = int(domain.Count)
	}
	return digits(counts)
}

func digits(of []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(of), "[]"), " ", "")
}

func TestRecord(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	var text strings.Builder
	for i := 0; i < 240; i++ {
		policy := []string{"kueue", "kueue-slices", "kueue-preferred"}[i%3]
		gpus, unit := 1+random.Intn(8), []int{1, 1, 2, 3, 4}[random.Intn(5)]
		units := []int{1, 2, 3, 5, 8}[random.Intn(5)]
		free := make([]int, supers*nodes)
		for n := range free {
			free[n] = random.Intn(9)
		}
		to := place(free, policy, int32(gpus), int32(unit), int32(unit*units))
		fmt.Fprintf(&text, "{\"%s\", \"%s\", %d, %d, %d, \"%s\"},\n", policy, digits(free), gpus, unit, unit*units, to)
	}
	if err := os.WriteFile(os.Getenv("CASES"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
