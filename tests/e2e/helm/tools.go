// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package helm pins the program that the end-to-end suite installs daemonset/chart with.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
