// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

type aware struct {
	arguments framework.Arguments
	session   *session
}

// NewAware makes the plugin for one session.
func NewAware(arguments framework.Arguments) framework.Plugin { return &aware{arguments: arguments} }

func (p *aware) Name() string { return AwareName }

func (p *aware) OnSessionOpen(ssn *framework.Session) {
	if p.session = theEngine.open(ssn); p.session.err != nil {
		return
	}
	wrong, err := p.session.core.setArguments(p.arguments)
	if err != nil {
		klog.Errorf("plugin %s scores no nodes: %v", AwareName, err)
		return
	}
	if wrong != "" {
		klog.Warningf("plugin %s: %s", AwareName, wrong)
	}
	ssn.AddBatchNodeOrderFn(AwareName, p.score)
}

func (p *aware) score(task *api.TaskInfo, nodes []*api.NodeInfo) (map[string]float64, error) {
	scores := make(map[string]float64, len(nodes))
	number, found := p.session.tasks[task.UID]
	if !found {
		return scores, nil
	}
	numbers := make([]uint32, len(nodes))
	for i, node := range nodes {
		numbers[i] = uint32(p.session.nodes[node.Name])
	}
	got, err := p.session.core.score(number, numbers)
	for i, score := range got {
		scores[nodes[i].Name] = score
	}
	return scores, err
}

func (p *aware) OnSessionClose(ssn *framework.Session) { theEngine.close(ssn) }
