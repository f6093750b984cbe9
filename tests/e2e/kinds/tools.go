// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package kinds pins the controllers of jobs other than those of Kubernetes and Volcano for the end-to-end suite.
package kinds

import (
	_ "github.com/kubeflow/mpi-operator/cmd/mpi-operator"
	_ "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"
	_ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
	_ "github.com/ray-project/kuberay/ray-operator"
	_ "sigs.k8s.io/jobset"
	_ "sigs.k8s.io/lws/cmd"
)
