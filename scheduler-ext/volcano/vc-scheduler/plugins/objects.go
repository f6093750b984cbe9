// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	schedulingv1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

type objectName struct {
	resource        int
	namespace, name string
}

// failedMax pods are kept, the last ones, where no session takes them.
const failedMax = 4096

// failedPod is a pod that has failed. The next one may have its name before a session has seen that.
type failedPod struct {
	name  objectName
	group string // its PodGroup
	json  []byte
}

// objects follows what the library asks for. Changes are kept until the next session takes them, the last one of
// each object; nothing else is kept in Go. Volcano's own informers do not serve: its scheduler writes to the pods
// that they hold.
type objects struct {
	lock    sync.Mutex
	changes map[objectName][]byte // nil: it is gone
	failed  []failedPod
	feeds   []*feed
	client  dynamic.Interface
	writes  atomic.Bool // a write is on its way
}

// feed is the end of one reflector.
type feed struct {
	*objects
	number int

	group, version, plural, fields, without string
	needed, listed                          bool  // listed: since it was started
	relisted                                bool  // since the last session took the changes
	err                                     error // why it cannot be listed
}

func (o *objects) follow(config *rest.Config) (err error) {
	if o.client, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	for _, f := range o.feeds {
		lister := o.client.Resource(schema.GroupVersionResource{Group: f.group, Version: f.version, Resource: f.plural})
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = f.fields
				list, err := lister.List(ctx, options)
				f.note(err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = f.fields
				return lister.Watch(ctx, options)
			},
		}
		go cache.NewReflectorWithOptions(source, &unstructured.Unstructured{}, f, cache.ReflectorOptions{Name: f.plural}).Run(nil)
	}
	return nil
}

// note remembers how a list went, and says it once where something is missing.
func (f *feed) note(err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if err != nil && f.err == nil {
		klog.Warningf("gputopo: cannot list %s: %v. %s", f.plural, err, f.without)
	}
	f.err = err
}

// missing is nil when everything has been listed that can be, and that cannot be done without.
func (o *objects) missing() error {
	o.lock.Lock()
	defer o.lock.Unlock()
	for _, f := range o.feeds {
		if !f.listed && (f.needed || f.err == nil) {
			return cmp.Or(f.err, errors.New(f.plural+" have not been listed yet"))
		}
	}
	return nil
}

// take hands what has changed to the library, and passes on what it says of PodGroups.
func (o *objects) take(c *core, tell func(namespace, group, said string)) {
	o.lock.Lock()
	defer o.lock.Unlock()
	put := func(name objectName, json []byte) (said string) {
		said, err := c.put(name.resource, json)
		if err != nil {
			klog.Errorf("gputopo: %s %s/%s: %v", o.feeds[name.resource].plural, name.namespace, name.name, err)
		}
		return said
	}
	for _, pod := range o.failed {
		if said := put(pod.name, pod.json); said != "" {
			tell(pod.name.namespace, pod.group, said)
		}
	}
	for name, json := range o.changes {
		if json == nil {
			c.remove(name.resource, name.namespace, name.name)
		} else {
			put(name, json)
		}
	}
	o.changes, o.failed = map[objectName][]byte{}, nil
	for _, f := range o.feeds {
		if f.relisted {
			c.listed(f.number)
		}
		f.relisted = false
	}
}

// publish writes the Lease that the library has to be written, one at a time and without waiting for it.
func (o *objects) publish(c *core) {
	if o == nil || o.client == nil || o.writes.Load() {
		return
	}
	namespace, lease := c.publish()
	if o.writes.Store(len(lease) > 0); len(lease) == 0 {
		return
	}
	go func() {
		defer o.writes.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := o.client.Resource(leases).Namespace(namespace).Patch(ctx, program, types.ApplyPatchType, lease, metav1.PatchOptions{FieldManager: program}); err != nil {
			klog.Warningf("gputopo: the Lease with the reserved places cannot be written: %v", err)
		}
	}()
}

// keep remembers objects as they are now, or that they are gone; after a list nothing else is known of the resource.
func (f *feed) keep(list []any, gone, relisted bool) (err error) {
	changes, failed := make(map[objectName][]byte, len(list)), []failedPod{}
	for _, object := range list {
		u, json := object.(*unstructured.Unstructured), []byte(nil)
		if !gone {
			if json, err = u.MarshalJSON(); err != nil {
				return err
			}
		}
		name := objectName{f.number, u.GetNamespace(), u.GetName()}
		changes[name] = json
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		if phase == string(v1.PodFailed) && !gone && !relisted {
			failed = append(failed, failedPod{name, u.GetAnnotations()[schedulingv1.KubeGroupNameAnnotationKey], json})
		}
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if relisted {
		maps.DeleteFunc(f.changes, func(name objectName, _ []byte) bool { return name.resource == f.number })
		f.listed, f.relisted = true, true
	}
	maps.Copy(f.changes, changes)
	f.failed = append(f.failed, failed...)
	f.failed = f.failed[max(0, len(f.failed)-failedMax):]
	return nil
}

func (f *feed) Add(object any) error               { return f.keep([]any{object}, false, false) }
func (f *feed) Update(object any) error            { return f.keep([]any{object}, false, false) }
func (f *feed) Delete(object any) error            { return f.keep([]any{object}, true, false) }
func (f *feed) Replace(list []any, _ string) error { return f.keep(list, false, true) }
func (f *feed) Resync() error                      { return nil }
