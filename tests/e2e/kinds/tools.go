// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package kinds pins the controllers of JobSets, TrainJobs and LeaderWorkerSets for the end-to-end suite.
package kinds

import (
	_ "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"
	_ "sigs.k8s.io/jobset"
	_ "sigs.k8s.io/lws/cmd"
)
