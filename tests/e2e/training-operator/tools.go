// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package trainingoperator pins Kubeflow's operator, which makes the pods of the end-to-end suite's PyTorchJobs.
package trainingoperator

import _ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
