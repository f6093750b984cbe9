//go:build tools

// Package containerd16 pins containerd 1.6.32, which clusters of MetaX GPUs have beside Kubernetes 1.26.
package containerd16

import (
	_ "github.com/containerd/containerd/cmd/containerd"
	_ "github.com/containerd/containerd/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/cmd/ctr"
)
