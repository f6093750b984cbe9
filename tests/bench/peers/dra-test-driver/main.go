// SPDX-License-Identifier: Apache-2.0

// Kubernetes' own DRA driver for tests, as its main package starts it: on the helper library that GPU vendors' drivers use, too.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/test/e2e/dra/test-driver/app"
)

func main() { os.Exit(cli.Run(app.NewCommand())) }
