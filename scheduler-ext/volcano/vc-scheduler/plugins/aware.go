// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"fmt"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"
)

// AwareName is what the scheduler's configuration calls gpu-aware.
const AwareName = "gpu-aware"

type aware struct {
	arguments framework.Arguments
	session   *session
}

// NewAware makes the plugin for one session.
func NewAware(arguments framework.Arguments) framework.Plugin { return &aware{arguments: arguments} }

func (p *aware) Name() string { return AwareName }

// weights are weight, score.weight and loss.weight.
func (p *aware) weights() (weights [3]float64, err error) {
	for i, key := range []string{"weight", "score.weight", "loss.weight"} {
		value, given := p.arguments[key]
		switch value := value.(type) {
		case int:
			weights[i] = float64(value)
		case float64:
			weights[i] = value
		case nil:
			if given {
				return weights, fmt.Errorf("argument %s: expected a number, got nothing", key)
			}
			weights[i] = [3]float64{1, 1, 0.5}[i]
		default:
			return weights, fmt.Errorf("argument %s: expected a number, got the %T %q", key, value, fmt.Sprint(value))
		}
	}
	return weights, nil
}

func (p *aware) OnSessionOpen(ssn *framework.Session) {
	weights, err := p.weights()
	if p.session = theEngine.open(ssn); p.session.err != nil {
		return
	}
	if err == nil {
		err = p.session.core.setWeights(weights)
	}
	if err != nil {
		klog.Errorf("plugin %s scores no nodes until its arguments are mended: %v", AwareName, err)
		return
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
