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

// The arguments that are not given.
const defaultWeight, defaultScore, defaultLoss = 1, 1, 0.5

type aware struct {
	arguments framework.Arguments
	session   *session
}

// NewAware makes the plugin for one session.
func NewAware(arguments framework.Arguments) framework.Plugin { return &aware{arguments: arguments} }

func (p *aware) Name() string { return AwareName }

func number(arguments framework.Arguments, key string, otherwise float64) (float64, error) {
	switch value := arguments[key].(type) {
	case nil:
		if _, given := arguments[key]; given {
			return 0, fmt.Errorf("argument %s: expected a number, got nothing", key)
		}
		return otherwise, nil
	case int:
		return float64(value), nil
	case float64:
		return value, nil
	default:
		return 0, fmt.Errorf("argument %s: expected a number, got the %T %q", key, value, fmt.Sprint(value))
	}
}

func (p *aware) weights() (weight, score, loss float64, err error) {
	if weight, err = number(p.arguments, "weight", defaultWeight); err != nil {
		return
	}
	if score, err = number(p.arguments, "score.weight", defaultScore); err != nil {
		return
	}
	loss, err = number(p.arguments, "loss.weight", defaultLoss)
	return
}

func (p *aware) OnSessionOpen(ssn *framework.Session) {
	weight, score, loss, err := p.weights()
	p.session = theEngine.open(ssn)
	if p.session.err != nil {
		return
	}
	theEngine.lock.Lock()
	defer theEngine.lock.Unlock()
	if err == nil {
		err = theEngine.core.setWeights(weight, score, loss)
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
	theEngine.lock.Lock()
	defer theEngine.lock.Unlock()
	got, err := theEngine.core.score(number, p.session.numbers(nodes))
	if err != nil {
		return nil, err
	}
	for i, node := range nodes {
		scores[node.Name] = got[i]
	}
	return scores, nil
}

func (p *aware) OnSessionClose(ssn *framework.Session) { theEngine.close(ssn) }
