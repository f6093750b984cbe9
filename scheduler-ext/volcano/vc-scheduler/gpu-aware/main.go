// SPDX-License-Identifier: Apache-2.0

// gpu-aware.so for a Volcano that loads plugins from files. Both files share one package plugins and one C library.
package main

import "gputopo/scheduler-ext/volcano/vc-scheduler/plugins"
import "volcano.sh/volcano/pkg/scheduler/framework"

// New is what Volcano looks for.
func New(arguments framework.Arguments) framework.Plugin { return plugins.NewAware(arguments) }
func main()                                              {}
