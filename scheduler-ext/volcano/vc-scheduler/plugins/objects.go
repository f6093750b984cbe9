// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// firstList is how long the first session waits for the first lists. Volcano schedules nothing meanwhile.
const firstList = 30 * time.Second

type objectName struct {
	resource        int
	namespace, name string
}

// objects follows what the library asks for. Changes are kept until the next session takes them, the last one of
// each object; nothing else is kept in Go. Volcano's own informers do not serve: its scheduler writes to the pods
// that they hold.
type objects struct {
	lock    sync.Mutex
	changes map[objectName][]byte // nil: it is gone
	settled []chan struct{}       // by resource: closed when it was listed, or cannot be
	errors  []error               // by resource: why it cannot be listed
	kinds   []kind
}

func followObjects(config *rest.Config) (*objects, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	made := &objects{changes: map[objectName][]byte{}, kinds: resources()}
	for number, kind := range made.kinds {
		made.settled = append(made.settled, make(chan struct{}))
		made.errors = append(made.errors, nil)
		f := &feed{objects: made, number: number, known: map[objectName]struct{}{}}
		lister := client.Resource(schema.GroupVersionResource{Group: kind.group, Version: kind.version, Resource: kind.plural})
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = kind.fields
				list, err := lister.List(ctx, options)
				made.note(number, err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = kind.fields
				return lister.Watch(ctx, options)
			},
		}
		reflector := cache.NewReflectorWithOptions(source, &unstructured.Unstructured{}, f, cache.ReflectorOptions{Name: kind.plural})
		go reflector.Run(nil)
	}
	return made, nil
}

// note remembers how a list went, and says it once where something is missing.
func (o *objects) note(number int, err error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	kind := o.kinds[number]
	if err != nil && o.errors[number] == nil {
		klog.Warningf("gputopo: cannot list %s: %v. %s", kind.plural, err, kind.without)
	}
	o.errors[number] = err
	if err != nil && !kind.needed {
		o.settle(number)
	}
}

// settle needs the lock.
func (o *objects) settle(number int) {
	select {
	case <-o.settled[number]:
	default:
		close(o.settled[number])
	}
}

// wait is nil when everything has been listed that can be, and that can be done without.
func (o *objects) wait(timeout time.Duration) error {
	end, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	for number, settled := range o.settled {
		select {
		case <-settled:
			continue
		default:
		}
		select {
		case <-settled:
		case <-end.Done():
			o.lock.Lock()
			defer o.lock.Unlock()
			if err := o.errors[number]; err != nil {
				return err
			}
			return errors.New(o.kinds[number].plural + " have not been listed yet")
		}
	}
	return nil
}

// take hands what has changed to the library.
func (o *objects) take(c *core) {
	o.lock.Lock()
	changes := o.changes
	o.changes = map[objectName][]byte{}
	o.lock.Unlock()
	for name, json := range changes {
		if json == nil {
			c.remove(name.resource, name.namespace, name.name)
		} else if err := c.put(name.resource, json); err != nil {
			klog.Errorf("gputopo: %s %s/%s: %v", o.kinds[name.resource].plural, name.namespace, name.name, err)
		}
	}
}

// feed is the end of one reflector.
type feed struct {
	objects *objects
	number  int
	known   map[objectName]struct{}
}

func (f *feed) Add(object any) error {
	u := object.(*unstructured.Unstructured)
	json, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	name := objectName{f.number, u.GetNamespace(), u.GetName()}
	f.objects.lock.Lock()
	defer f.objects.lock.Unlock()
	f.objects.changes[name] = json
	f.known[name] = struct{}{}
	return nil
}

func (f *feed) Update(object any) error { return f.Add(object) }

func (f *feed) Delete(object any) error {
	u := object.(*unstructured.Unstructured)
	f.forget(objectName{f.number, u.GetNamespace(), u.GetName()})
	return nil
}

func (f *feed) forget(name objectName) {
	f.objects.lock.Lock()
	defer f.objects.lock.Unlock()
	f.objects.changes[name] = nil
	delete(f.known, name)
}

func (f *feed) Replace(list []any, _ string) error {
	gone := make(map[objectName]struct{}, len(f.known))
	for name := range f.known {
		gone[name] = struct{}{}
	}
	for _, object := range list {
		if err := f.Add(object); err != nil {
			return err
		}
		u := object.(*unstructured.Unstructured)
		delete(gone, objectName{f.number, u.GetNamespace(), u.GetName()})
	}
	for name := range gone {
		f.forget(name)
	}
	f.objects.lock.Lock()
	defer f.objects.lock.Unlock()
	f.objects.errors[f.number] = nil
	f.objects.settle(f.number)
	return nil
}

func (f *feed) Resync() error { return nil }
