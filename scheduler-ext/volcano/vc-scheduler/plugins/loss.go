// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
)

const evictAgain = 10 * time.Second // a PodDisruptionBudget may allow it then

// moveLost evicts the pods of units that have lost nodes, where their jobs say so, through the API that minds disruption budgets.
func (p *affinity) moveLost() {
	ssn, told := p.session.ssn, map[api.TaskID]time.Time{}
	for number, first := range p.session.list {
		leaving, said := p.session.core.move(number, len(p.session.list))
		if job := ssn.Jobs[first.Job]; said != "" {
			kind, reason := v1.EventTypeWarning, "NodeLost"
			begins := func(at uint32) bool { return theEngine.told[p.session.list[at].UID].IsZero() }
			if slices.ContainsFunc(leaving, begins) { // others may be leaving since an earlier session
				kind, reason = v1.EventTypeNormal, "UnitMoves"
			}
			klog.Infof("%s: %s/%s: %s", reason, job.Namespace, job.Name, said)
			ssn.RecordPodGroupEvent(job.PodGroup, kind, reason, said)
		}
		for _, at := range leaving {
			task := p.session.list[at]
			if told[task.UID] = theEngine.told[task.UID]; time.Since(told[task.UID]) < evictAgain {
				continue
			}
			told[task.UID] = time.Now()
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: task.Name},
				DeleteOptions: metav1.NewPreconditionDeleteOptions(string(task.UID))}
			to := ssn.KubeClient().PolicyV1().Evictions(task.Namespace)
			go func() {
				ctx, done := context.WithTimeout(context.Background(), evictAgain)
				defer done()
				if err := to.Evict(ctx, eviction); err != nil {
					klog.Warningf("pod %s/%s has to leave: %v", eviction.Namespace, eviction.Name, err)
				}
			}()
		}
	}
	theEngine.told = told
}
