// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package kueue pins Kueue, which admits jobs of the end-to-end suite.
package kueue

import _ "sigs.k8s.io/kueue/cmd/kueue"
