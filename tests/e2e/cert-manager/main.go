// SPDX-License-Identifier: Apache-2.0

// Command cert-manager runs those controllers of cert-manager that the end-to-end suite needs: they make the certificates
// of Issuers that are a CA or sign themselves, and write the CA into webhook configurations. The programs of cert-manager
// itself are in modules that no other module can require; what they would do more is to read flags and elect a leader.
package main

import (
	"context"
	"log"
	"os"

	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/logs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const workers = 2

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// issue starts every controller that the imports have registered.
func issue(ctx context.Context) {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: os.Getenv("KUBECONFIG"), KubernetesAPIQPS: 20, KubernetesAPIBurst: 50})
	must(err)
	shared, err := factory.Build()
	must(err)
	for name, construct := range controller.Known() {
		loop, err := construct(factory)
		must(err)
		log.Print("starting ", name)
		go func() { must(loop.Run(workers, ctx)) }()
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
}

// inject runs what writes CAs into webhook configurations, until ctx ends.
func inject(ctx context.Context) {
	must(certmanager.AddToScheme(scheme.Scheme))
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	must(err)
	must(cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
		},
	}))
	must(manager.Start(ctx))
}

func main() {
	ctx := logs.NewContext(ctrl.SetupSignalHandler(), logs.Log)
	ctrl.SetLogger(logs.Log)
	issue(ctx)
	inject(ctx)
}
