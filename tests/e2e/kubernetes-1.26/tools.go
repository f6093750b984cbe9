//go:build tools

// Package kubernetes126 pins Kubernetes 1.26.9, near the 1.26.8 of clusters with MetaX GPUs.
package kubernetes126

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
