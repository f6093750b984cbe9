//go:build tools

// Package kubelet135 pins a kubelet between those of the other modules.
package kubelet135

import _ "k8s.io/kubernetes/cmd/kubelet"
