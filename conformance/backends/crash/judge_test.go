//go:build unix

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// reference is what the flow of a seed comes to in one process that nothing strikes, on a
// store in its memory.
type reference struct {
	outcome outcome
	effects []string // in order
	log     []string
}

// heard is a world that only listens.
type heard struct{ calls []string }

func (h *heard) did(call string) error {
	h.calls = append(h.calls, call)
	return nil
}

func newReference(ctx context.Context, seed uint64, store *persistence.Store) (reference, error) {
	out := &heard{}
	w := &worker{player: player{seed: seed, out: out}, store: store}
	for {
		res, err := w.play(ctx)
		if err != nil {
			return reference{}, err
		}
		if !res.Paused {
			log, err := readLog(ctx, store, flowID(seed))
			return reference{outcomeOf(res), out.calls, log}, err
		}
	}
}

// readLog returns the entries of a flow's log without what differs from run to run.
func readLog(ctx context.Context, store *persistence.Store, id string) ([]string, error) {
	var log []string
	run := ""
	for e, err := range flow.Log(ctx, store, id) {
		if err != nil {
			return nil, err
		}
		if e.Kind == flow.RunStarted {
			run = strings.TrimSuffix(e.ID, "/start")
		}
		rel := func(id string) string { return strings.TrimPrefix(id, run) }
		log = append(log, fmt.Sprint(e.Kind, " ", rel(e.ID), " in ", rel(e.Parent), " by ", rel(e.Trigger), " after ", rel(e.Previous),
			" ", e.Method, "/", e.Call, " ", e.Label, " ", rel(e.Request)))
	}
	return log, nil
}

// judge holds the checks C1 to C8 on a flow that was brought to its end.
type judge struct {
	seed  uint64
	want  reference
	wrong []string
}

func (j *judge) accusef(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// checkOutcome is C2 and C3: what the last process came to, what is stored, and the effects.
func (j *judge) checkOutcome(ctx context.Context, got outcome, store *persistence.Store, lines []line) {
	if !reflect.DeepEqual(got, j.want.outcome) {
		j.accusef("C2: the outcome is\n%s\nnot\n%s", got.brief(), j.want.outcome.brief())
	}
	snap, err := store.LoadState(ctx, flowID(j.seed))
	if err != nil {
		j.accusef("C2: the state at the end: %v", err)
		return
	}
	var w world
	if err := json.Unmarshal(snap.State, &w); err != nil || !reflect.DeepEqual(w, j.want.outcome.State) {
		j.accusef("C2: the state stored is (%v)\n%s\nnot\n%s", err, brief(w), brief(j.want.outcome.State))
	}
	if log, err := readLog(ctx, store, flowID(j.seed)); err != nil || !slices.Equal(log, j.want.log) {
		j.accusef("C2: the log is (%v)\n%s\nnot\n%s", err, strings.Join(log, "\n"), strings.Join(j.want.log, "\n"))
	}
	var first []string
	for _, l := range lines {
		if l.Kind == lineDid && !slices.Contains(first, l.Call) {
			first = append(first, l.Call)
		}
	}
	if !slices.Equal(first, j.want.effects) {
		j.accusef("C3: the effects are %q, not %q", first, j.want.effects)
	}
}

// brief is a state for people, without what only makes it large.
func brief(w world) string {
	w.Pads = nil
	return fmt.Sprintf("%+v", w)
}

func (o outcome) brief() string {
	o.State.Pads = nil
	return fmt.Sprintf("%+v", o)
}

// checkEffects is C4: a call has its effect again only in another process, after the one that
// had it first died or was overtaken, and never when its completion is known to be stored.
// What woke after it was stopped cannot know, until it saves: it may have one effect more.
func (j *judge) checkEffects(lines []line) {
	stored, by, awake := map[string]bool{}, map[string][]int{}, map[int]int{}
	for _, l := range lines {
		switch l.Kind {
		case lineWoke:
			awake[l.PID] = 1
		case lineSaved, lineLoaded:
			for _, d := range l.Done {
				stored[d.Call] = true
			}
		case lineDid:
			if slices.Contains(by[l.Call], l.PID) {
				j.accusef("C4: %s had its effect twice in process %d", l.Call, l.PID)
			}
			by[l.Call] = append(by[l.Call], l.PID)
			switch free := awake[l.PID] > 0; {
			case free:
				awake[l.PID]--
			case stored[l.Call]:
				j.accusef("C4: %s had its effect again in process %d, after it was stored", l.Call, l.PID)
			}
		}
	}
}

// checkRevisions is C5: each save follows on the newest revision, and each process sees the
// newest one. A process that slept while its save was acknowledged hears of it late.
func (j *judge) checkRevisions(lines []line) {
	var newest uint64
	unheard := false                               // a save was begun of which nothing is known
	saving, late := map[int]bool{}, map[int]bool{} // of processes
	for _, l := range lines {
		switch l.Kind {
		case lineSaving:
			unheard, saving[l.PID] = true, true
		case lineWoke:
			late[l.PID] = saving[l.PID]
		case lineSaved:
			switch {
			case late[l.PID] && l.N <= newest:
			case l.N != newest+1:
				j.accusef("C5: revision %d was saved after %d", l.N, newest)
			default:
				newest, unheard = l.N, false
			}
			saving[l.PID], late[l.PID] = false, false
		case lineLoaded:
			if l.N != newest && (l.N != newest+1 || !unheard) {
				j.accusef("C5: revision %d was loaded after %d", l.N, newest)
			}
			if l.N > newest {
				unheard = false
			}
			newest = l.N
		}
	}
}

// checkLoads is C6 and C7: what is loaded was saved so, as a whole, and its requests agree with
// its state.
func (j *judge) checkLoads(lines []line) {
	saved, answered := map[string]bool{}, map[string]bool{}
	for _, l := range lines {
		if l.Broken != "" {
			j.accusef("C6: %s: %s", l.Kind, l.Broken)
		}
		switch l.Kind {
		case lineSaving:
			saved[l.Digest] = true
		case lineAnswered:
			answered[l.Request] = true
		case lineLoaded:
			if !saved[l.Digest] {
				j.accusef("C6: revision %d was loaded in a form that nobody saved", l.N)
			}
			for _, r := range l.Open {
				if answered[r.ID] {
					j.accusef("C7: request %s was answered and is open again", r.ID)
				}
				j.checkRequest(r, l.Done)
			}
		}
	}
}

// checkRequest compares a review to the state: its output must be that of the newest call of
// its method.
func (j *judge) checkRequest(r openRequest, calls []done) {
	if r.Output == nil {
		return // a question within a method, which has left nothing yet
	}
	for _, d := range slices.Backward(calls) {
		if strings.HasPrefix(d.Call, r.Method+"/") {
			if string(r.Output) != fmt.Sprint(d.Acc) {
				j.accusef("C7: the request about %s tells of the output %s, the state of %d", d.Call, r.Output, d.Acc)
			}
			return
		}
	}
	j.accusef("C7: %s is to be reviewed and is not in the state", r.Method)
}

// checkCheckpoints is C6 for them: each was saved, and no more are kept than there may be when
// a process died between a checkpoint and the removal of older ones.
func (j *judge) checkCheckpoints(ctx context.Context, store *persistence.Store) {
	count := 0
	for info, err := range store.Checkpoints(ctx, flowID(j.seed)) {
		if err != nil {
			j.accusef("C6: listing the checkpoints: %v", err)
			return
		}
		count++
		c, err := store.LoadCheckpoint(ctx, flowID(j.seed), info.ID)
		var w world
		if err == nil {
			err = json.Unmarshal(c.State, &w)
		}
		if err != nil || w.Sum != w.checksum() {
			j.accusef("C6: checkpoint %s: %+v (%v)", info.ID, w, err)
		}
	}
	if count == 0 || count > keepCheckpoints+1 {
		j.accusef("C6: there are %d checkpoints", count)
	}
}

// checkLeftovers is C8: a sweep finds what processes left behind, once, changes nothing that
// can be seen, and with the flow everything is gone.
func (j *judge) checkLeftovers(ctx context.Context, d driver.Driver, store *persistence.Store) (swept int) {
	id := flowID(j.seed)
	before, err := store.LoadState(ctx, id)
	if err != nil {
		j.accusef("C8: %v", err)
	}
	if swept, err = store.Sweep(ctx, id); err != nil {
		j.accusef("C8: the sweep: %v", err)
	}
	if again, err := store.Sweep(ctx, id); err != nil || again != 0 {
		j.accusef("C8: a second sweep finds %d records (%v)", again, err)
	}
	if after, err := store.LoadState(ctx, id); err != nil || !reflect.DeepEqual(before, after) {
		j.accusef("C8: the sweep changed the flow from %+v to %+v (%v)", before, after, err)
	}
	j.checkCheckpoints(ctx, store)
	if log, err := readLog(ctx, store, id); err != nil || !slices.Equal(log, j.want.log) {
		j.accusef("C8: after the sweep the log is of %d entries, not %d (%v)", len(log), len(j.want.log), err)
	}
	if err := store.Delete(ctx, id); err != nil {
		j.accusef("C8: the deletion: %v", err)
	}
	for r, err := range d.Range(ctx, driver.Partition(id), driver.RangeOptions{KeysOnly: true}) {
		j.accusef("C8: after the deletion there is %s (%v)", r.Sort, err)
	}
	if _, err := d.Get(ctx, driver.Partition(id).Head()); !errors.Is(err, core.ErrNotFound) {
		j.accusef("C8: after the deletion the head is there (%v)", err)
	}
	return swept
}
