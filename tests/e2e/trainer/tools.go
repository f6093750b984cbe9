// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package trainer pins the controller of TrainJobs for which Kueue 0.19 is made.
package trainer

import _ "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"
