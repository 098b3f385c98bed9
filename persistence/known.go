package persistence

import (
	"container/list"
	"sync"
)

// maxKnown bounds the memory of a Store: about a kilobyte a flow.
const maxKnown = 1024

// knownHeads remembers the heads of the flows used last, so that an ordinary save is one
// write. What it says may be stale; a Put on its tag finds out.
type knownHeads struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	queue *list.List // of knownHead, the most recently used first
}

type knownHead struct {
	flowID string
	head   head
}

func newKnownHeads() *knownHeads {
	return &knownHeads{byID: map[string]*list.Element{}, queue: list.New()}
}

func (k *knownHeads) get(flowID string) (head, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.byID[flowID]
	if !ok {
		return head{}, false
	}
	k.queue.MoveToFront(e)
	return e.Value.(knownHead).head, true
}

func (k *knownHeads) remember(flowID string, h head) {
	if !h.exists() {
		k.forget(flowID)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.byID[flowID]; ok {
		e.Value = knownHead{flowID, h}
		k.queue.MoveToFront(e)
		return
	}
	k.byID[flowID] = k.queue.PushFront(knownHead{flowID, h})
	if k.queue.Len() > maxKnown {
		oldest := k.queue.Remove(k.queue.Back()).(knownHead)
		delete(k.byID, oldest.flowID)
	}
}

func (k *knownHeads) forget(flowID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.byID[flowID]; ok {
		k.queue.Remove(e)
		delete(k.byID, flowID)
	}
}
