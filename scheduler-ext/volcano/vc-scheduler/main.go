// SPDX-License-Identifier: Apache-2.0

// vc-scheduler is Volcano's scheduler with two more plugins, gpu-aware and gpu-podaffinity. Options, actions and
// all other plugins are Volcano's own.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"gputopo/scheduler-ext/volcano/vc-scheduler/plugins"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	cliflag "k8s.io/component-base/cli/flag"
	componentoptions "k8s.io/component-base/config/options"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	_ "volcano.sh/volcano/pkg/scheduler/util/assert"
	commonutil "volcano.sh/volcano/pkg/util"
	"volcano.sh/volcano/pkg/version"
)

// core is which C library is in it: the build command sets it.
var core string

func run() error {
	framework.RegisterPluginBuilder(plugins.AwareName, plugins.NewAware)
	framework.RegisterPluginBuilder(plugins.AffinityName, plugins.NewAffinity)
	flags := pflag.CommandLine
	flush := flags.Duration("log-flush-frequency", 5*time.Second, "Maximum number of seconds between log flushes")
	klog.InitFlags(nil)
	option := options.NewServerOption()
	option.AddFlags(flags)
	utilfeature.DefaultMutableFeatureGate.AddFlag(flags)
	commonutil.LeaderElectionDefault(&option.LeaderElection)
	option.LeaderElection.ResourceName = commonutil.GenerateComponentName(option.SchedulerNames)
	componentoptions.BindLeaderElectionFlags(&option.LeaderElection, flags)
	option.RegisterOptions()
	cliflag.InitFlags()
	if option.PrintVersion {
		fmt.Println("gputopo core:", core)
		version.PrintVersionAndExit()
	}
	if err := option.CheckOptionOrDie(); err != nil {
		return err
	}
	if option.CaCertFile != "" && option.CertFile != "" && option.KeyFile != "" {
		if err := option.ParseCAFiles(nil); err != nil {
			return fmt.Errorf("cannot read the certificates: %w", err)
		}
	}
	klog.StartFlushDaemon(*flush)
	defer klog.Flush()
	return app.Run(option)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
