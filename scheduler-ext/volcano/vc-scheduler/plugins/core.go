// SPDX-License-Identifier: Apache-2.0

// Package plugins adapts Volcano's plugin interface to the C library in scheduler-ext/volcano. It moves objects,
// tasks and answers across, and decides nothing itself: what is not plain transport belongs into the C library.
package plugins

/*
#include <stdlib.h>
#include "scheduler-ext/volcano/volcano.h"
*/
import "C"

import (
	"errors"
	"strings"
	"unsafe"
)

// core is the C library's state. One goroutine at a time; its callers hold the lock of the engine.
type core struct {
	c     *C.struct_gt_volcano
	said  *C.char // what a failing call has to say
	notes *C.char // room for annotations
}

// kind is one of the kinds of objects that the library asks for.
type kind struct {
	group, version, plural, fields, without string
	needed                                  bool
}

func newCore() (*core, error) {
	made := &core{said: (*C.char)(C.malloc(C.GT_VOLCANO_TEXT_SIZE)), notes: (*C.char)(C.malloc(C.GT_VOLCANO_ANNOTATIONS_SIZE))}
	if C.gt_volcano_new(&made.c, made.said) < 0 {
		defer made.free()
		return nil, made.failure()
	}
	return made, nil
}

func (c *core) free() {
	C.gt_volcano_free(c.c)
	C.free(unsafe.Pointer(c.said))
	C.free(unsafe.Pointer(c.notes))
}

func (c *core) failure() error { return errors.New(C.GoString(c.said)) }

func gpuResource() string { return C.GoString(C.gt_volcano_gpu_resource()) }

func resources() []kind {
	var all []kind
	for {
		r := C.gt_volcano_resource(C.uint(len(all)))
		if r == nil {
			return all
		}
		all = append(all, kind{C.GoString(r.group), C.GoString(r.version), C.GoString(r.plural), C.GoString(r.fields),
			C.GoString(r.without), r.needed != 0})
	}
}

func (c *core) put(resource int, json []byte) error {
	if C.gt_volcano_put(c.c, C.uint(resource), (*C.char)(unsafe.Pointer(unsafe.SliceData(json))), C.size_t(len(json)), c.said) < 0 {
		return c.failure()
	}
	return nil
}

func (c *core) remove(resource int, namespace, name string) {
	ns, n := C.CString(namespace), C.CString(name)
	C.gt_volcano_remove(c.c, C.uint(resource), ns, n)
	C.free(unsafe.Pointer(ns))
	C.free(unsafe.Pointer(n))
}

// arrays are what a session has, as gt_volcano_open() takes it.
type arrays struct {
	texts  []byte
	nodes  []C.uint32_t
	groups []C.struct_gt_volcano_group
	tasks  []C.struct_gt_volcano_task
}

func (a *arrays) text(texts ...string) C.uint32_t {
	at := len(a.texts)
	for _, text := range texts {
		a.texts = append(append(a.texts, text...), 0)
	}
	return C.uint32_t(at)
}

func (a *arrays) addNode(name string) { a.nodes = append(a.nodes, a.text(name)) }

func (a *arrays) addGroup(name string, minimum int32) int {
	a.groups = append(a.groups, C.struct_gt_volcano_group{name: a.text(name), minimum: C.uint32_t(max(minimum, 0))})
	return len(a.groups) - 1
}

// addTask adds a pod; node -1: it waits.
func (a *arrays) addTask(namespace, name, uid string, group, node int) int {
	at := C.uint32_t(C.GT_VOLCANO_NO_NODE)
	if node >= 0 {
		at = C.uint32_t(node)
	}
	a.tasks = append(a.tasks, C.struct_gt_volcano_task{names: a.text(namespace, name, uid), group: C.uint32_t(group), node: at})
	return len(a.tasks) - 1
}

func (c *core) open(a *arrays) error {
	a.text("") // never empty
	if C.gt_volcano_open(c.c, (*C.char)(unsafe.Pointer(unsafe.SliceData(a.texts))), C.size_t(len(a.texts)),
		unsafe.SliceData(a.nodes), C.uint32_t(len(a.nodes)), unsafe.SliceData(a.groups), C.uint32_t(len(a.groups)),
		unsafe.SliceData(a.tasks), C.uint32_t(len(a.tasks)), c.said) < 0 {
		return c.failure()
	}
	return nil
}

func (c *core) close() { C.gt_volcano_close(c.c) }

func (c *core) setWeights(weight, score, loss float64) error {
	if C.gt_volcano_set_weights(c.c, C.double(weight), C.double(score), C.double(loss), c.said) < 0 {
		return c.failure()
	}
	return nil
}

func (c *core) score(task int, nodes []uint32) ([]float64, error) {
	scores := make([]float64, len(nodes))
	if C.gt_volcano_score_nodes(c.c, C.uint32_t(task), (*C.uint32_t)(unsafe.SliceData(nodes)), C.uint32_t(len(nodes)),
		(*C.double)(unsafe.SliceData(scores)), c.said) < 0 {
		return nil, c.failure()
	}
	return scores, nil
}

// check says whether the task's job has units, and the task's rank in it; an error is a broken rule.
func (c *core) check(task int) (grouped bool, rank int, err error) {
	var r C.uint32_t
	got := C.gt_volcano_check(c.c, C.uint32_t(task), &r, c.said)
	if got < 0 {
		return false, 0, c.failure()
	}
	return got > 0, int(r), nil
}

// place says where the task has to go; -1: anywhere; an error: nowhere for now.
func (c *core) place(task int) (node int, err error) {
	var r C.uint32_t
	switch got := C.gt_volcano_place(c.c, C.uint32_t(task), &r, c.said); {
	case got < 0:
		return 0, c.failure()
	case got == 0:
		return -1, nil
	}
	return int(r), nil
}

func (c *core) mayUse(task, nodes int) []uint8 {
	may := make([]uint8, nodes)
	C.gt_volcano_may_use(c.c, C.uint32_t(task), (*C.uint8_t)(unsafe.SliceData(may)), C.uint32_t(nodes))
	return may
}

func (c *core) allocated(task, node int) {
	C.gt_volcano_allocated(c.c, C.uint32_t(task), C.uint32_t(node))
}

func (c *core) deallocated(task int) { C.gt_volcano_deallocated(c.c, C.uint32_t(task)) }

func (c *core) isWhole(task int) bool { return C.gt_volcano_is_whole(c.c, C.uint32_t(task)) != 0 }

// annotations are pairs of key and value, one behind the other.
func (c *core) annotations(task int) []string {
	size := C.gt_volcano_annotations(c.c, C.uint32_t(task), c.notes)
	if size == 0 {
		return nil
	}
	return strings.Split(C.GoStringN(c.notes, C.int(size-1)), "\x00")
}
