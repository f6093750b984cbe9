// SPDX-License-Identifier: Apache-2.0

// Package plugins adapts Volcano's plugin interface to the C library in scheduler-ext/volcano. It moves objects,
// tasks and answers across, and decides nothing itself: what is not plain transport belongs into the C library.
package plugins

/*
#include "api/names.h"
#include "scheduler-ext/volcano/volcano.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"volcano.sh/volcano/pkg/scheduler/framework"
)

// core is the C library's state, for one goroutine: Volcano calls all hooks but predicates from the one that runs its
// sessions.
type core struct {
	c       *C.struct_gt_volcano
	said    *C.char // what a failing call has to say
	notes   *C.char // room for annotations
	leaving []uint32
}

func newCore() (*core, error) {
	made := &core{said: &new([C.GT_VOLCANO_TEXT_SIZE]C.char)[0], notes: &new([C.GT_VOLCANO_ANNOTATIONS_SIZE]C.char)[0]}
	return made, made.result(C.gt_volcano_new(&made.c, text(os.Getenv("GPUTOPO_NAMESPACE")), text(os.Getenv("GPUTOPO_KINDS")), made.said))
}

func (c *core) result(r C.int) error {
	if r < 0 {
		return errors.New(C.GoString(c.said))
	}
	return nil
}

func text(from string) *C.char { return (*C.char)(unsafe.Pointer(unsafe.StringData(from + "\x00"))) }
func gpuResource() string      { return C.GoString(C.gt_volcano_gpu_resource()) }

// newObjects are those that the library asks for.
func newObjects() *objects {
	made := &objects{changes: map[objectName][]byte{}}
	for r := C.gt_volcano_resource(0); r != nil; r = C.gt_volcano_resource(C.uint(len(made.feeds))) {
		made.feeds = append(made.feeds, &feed{objects: made, number: len(made.feeds), group: C.GoString(r.group), version: C.GoString(r.version),
			plural: C.GoString(r.plural), fields: C.GoString(r.fields), without: C.GoString(r.without), needed: r.needed != 0})
	}
	return made
}

// put hands an object over; said is what is to be told of a pod's PodGroup.
func (c *core) put(resource int, json []byte) (said string, err error) {
	r := C.gt_volcano_put(c.c, C.uint(resource), (*C.char)(unsafe.Pointer(unsafe.SliceData(json))), C.size_t(len(json)), c.said)
	if r > 0 {
		said = C.GoString(c.said)
	}
	return said, c.result(r)
}

func (c *core) listed(resource int)        { C.gt_volcano_listed(c.c, C.uint(resource)) }
func (c *core) remove(r int, ns, n string) { C.gt_volcano_remove(c.c, C.uint(r), text(ns), text(n)) }

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

// addGroup adds a PodGroup; `waits`: its queue has not admitted it.
func (a *arrays) addGroup(name string, minimum int32, waits bool) {
	a.groups = append(a.groups, C.struct_gt_volcano_group{name: a.text(name), minimum: C.uint32_t(max(minimum, 0)), waits: C.bool(waits)})
}

// addTask adds a pod of the last group; `leaves` is not 0 where it is to go.
func (a *arrays) addTask(namespace, name, uid string, node, leaves uint32) {
	a.tasks = append(a.tasks, C.struct_gt_volcano_task{names: a.text(namespace, name, uid), group: C.uint32_t(len(a.groups) - 1),
		node: C.uint32_t(node), leaves: C.uint32_t(leaves)})
}

func (c *core) open(a *arrays) error {
	a.text("") // never empty
	return c.result(C.gt_volcano_open(c.c, (*C.char)(unsafe.Pointer(unsafe.SliceData(a.texts))), C.size_t(len(a.texts)),
		unsafe.SliceData(a.nodes), C.uint32_t(len(a.nodes)), unsafe.SliceData(a.groups), C.uint32_t(len(a.groups)),
		unsafe.SliceData(a.tasks), C.uint32_t(len(a.tasks)), c.said))
}

// publish is a Lease to be applied, and its namespace; none where there is nothing new to write.
func (c *core) publish() (namespace string, lease []byte) {
	var ns *C.char
	text := C.GoString(C.gt_volcano_publish(c.c, &ns))
	return C.GoString(ns), []byte(text)
}

// setArguments says what is wrong with them, and nothing where it has said so before.
func (c *core) setArguments(arguments framework.Arguments) (wrong string, err error) {
	plain := map[string]any{}
	for name, value := range arguments {
		if plain[name] = value; !isPlain(value) {
			plain[name] = fmt.Sprint(value)
		}
	}
	text, _ := json.Marshal(plain)
	r := C.gt_volcano_set_arguments(c.c, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)), c.said)
	if r > 0 {
		wrong = C.GoString(c.said)
	}
	return wrong, c.result(r)
}

// isPlain says whether JSON has such a value: it has no infinite number, and no mapping with keys that are no text.
func isPlain(value any) bool {
	_, err := json.Marshal(value)
	return err == nil
}

func (c *core) score(task int, nodes []uint32) ([]float64, error) {
	scores := make([]float64, len(nodes))
	return scores, c.result(C.gt_volcano_score_nodes(c.c, C.uint32_t(task), (*C.uint32_t)(unsafe.SliceData(nodes)), C.uint32_t(len(nodes)),
		(*C.double)(unsafe.SliceData(scores)), c.said))
}

// check says whether the task's job has units, and the task's rank in it; an error is a broken rule.
func (c *core) check(task int) (grouped bool, rank int, err error) {
	var r C.uint32_t
	got := C.gt_volcano_check(c.c, C.uint32_t(task), &r, c.said)
	return got > 0, int(r), c.result(got)
}

// place says where the task has to go; noNode: anywhere; an error: nowhere for now.
func (c *core) place(task int) (uint32, error) {
	node := C.uint32_t(noNode)
	err := c.result(C.gt_volcano_place(c.c, C.uint32_t(task), &node, c.said))
	return uint32(node), err
}

// ask is which tasks' predicates have to be asked, and about which nodes (asked); `all`: all that have room.
func (c *core) ask(task, count int, all bool) (tasks []uint32, nodes []uint8) {
	tasks, nodes = make([]uint32, C.GT_VOLCANO_TEMPLATES_MAX), make([]uint8, count)
	found := C.gt_volcano_ask(c.c, C.uint32_t(task), C.bool(all), (*C.uint8_t)(unsafe.SliceData(nodes)), (*C.uint32_t)(unsafe.SliceData(tasks)))
	return tasks[:found], nodes
}

// move is which tasks have to leave with that one's unit, and what is new to tell about it.
func (c *core) move(task, count int) (leaving []uint32, said string) {
	if len(c.leaving) < count {
		c.leaving = make([]uint32, count)
	}
	found := C.gt_volcano_move(c.c, C.uint32_t(task), (*C.uint32_t)(unsafe.SliceData(c.leaving)), c.said)
	return c.leaving[:found], C.GoString(c.said)
}

func (c *core) answer(task int, nodes []uint8) {
	C.gt_volcano_answer(c.c, C.uint32_t(task), (*C.uint8_t)(unsafe.SliceData(nodes)))
}

func (c *core) mayUse(task, nodes int) []uint8 {
	may := make([]uint8, nodes)
	C.gt_volcano_may_use(c.c, C.uint32_t(task), (*C.uint8_t)(unsafe.SliceData(may)), C.uint32_t(nodes))
	return may
}

func (c *core) allocated(task, n int)   { C.gt_volcano_allocated(c.c, C.uint32_t(task), C.uint32_t(n)) }
func (c *core) admitted(task int)       { C.gt_volcano_admitted(c.c, C.uint32_t(task)) }
func (c *core) deallocated(task int)    { C.gt_volcano_deallocated(c.c, C.uint32_t(task)) }
func (c *core) wantsRoom(task int) bool { return C.gt_volcano_wants_room(c.c, C.uint32_t(task)) != 0 }
func (c *core) setBrake(percent int)    { C.gt_volcano_set_brake(c.c, C.int64_t(percent)) }
func (c *core) free()                   { C.gt_volcano_free(c.c) }
func (c *core) isWhole(task int) bool   { return C.gt_volcano_is_whole(c.c, C.uint32_t(task)) != 0 }
func (c *core) giveUpRoom(task int)     { C.gt_volcano_give_up_room(c.c, C.uint32_t(task)) }
func (c *core) close()                  { C.gt_volcano_close(c.c) }
func (c *core) isReady(task int) bool   { return C.gt_volcano_is_ready(c.c, C.uint32_t(task)) != 0 }

const asked, refused = uint8(C.GT_VOLCANO_ASKED), uint8(C.GT_VOLCANO_REFUSED)
const noNode, goes, program = uint32(C.GT_VOLCANO_NO_NODE), C.GT_VOLCANO_GOES, C.GT_VC_SCHEDULER_NAME

// step is a task that goes, or that is to go to a node.
type step = C.struct_gt_volcano_step

func (c *core) makeRoom(task int, mayGo, mayUse []uint8, lacks int) ([]step, error) {
	steps := make([]step, len(mayGo))
	count := C.gt_volcano_make_room(c.c, C.uint32_t(task), (*C.uint8_t)(unsafe.SliceData(mayGo)), (*C.uint8_t)(unsafe.SliceData(mayUse)),
		C.uint32_t(lacks), unsafe.SliceData(steps), c.said)
	return steps[:max(count, 0)], c.result(count)
}

// annotations are pairs of key and value, one behind the other.
func (c *core) annotations(task int) []string {
	size := C.gt_volcano_annotations(c.c, C.uint32_t(task), c.notes)
	if size == 0 {
		return nil
	}
	return strings.Split(C.GoStringN(c.notes, C.int(size-1)), "\x00")
}
