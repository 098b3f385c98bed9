//go:build unix

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/inmem"
)

// match is one flow and its processes.
type match struct {
	*tournament
	judge

	rand   *rand.Rand
	ledger string
	story  []string // of the processes, for who has to understand a failure
}

func (n *tournament) match(t *testing.T, seed uint64, play func(*match, context.Context) error) {
	t.Helper()
	m := &match{
		tournament: n, judge: judge{seed: seed}, rand: rand.New(rand.NewPCG(seed, 3)),
		ledger: filepath.Join(n.dir, fmt.Sprint(seed, ".ledger")),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // kills what still runs
	var err error
	if m.want, err = newReference(ctx, seed, openStore(inmem.New(inmem.Config{}))); err == nil {
		err = play(m, ctx)
	}
	if err != nil {
		m.accusef("%v", err)
	}
	if len(m.wrong) > 0 {
		t.Errorf("seed %d: %s\nthe processes: %s\nto replay it: WEIR_CRASH_SEEDS=%d-%d go test ./conformance/backends/crash -run '^%s$'",
			seed, strings.Join(m.wrong, "\n"), strings.Join(m.story, ", "), seed, seed+1, strings.ReplaceAll(t.Name(), "/", "$/^"))
	}
}

// killed kills processes of the flow one after another, one of them at a random moment and the
// others at a point, and then lets the flow come to its end.
func (m *match) killed(ctx context.Context) error {
	atRandom := m.rand.IntN(killsOfFlow)
	for kill := range killsOfFlow {
		s := m.strikeAt(kill)
		if kill == atRandom {
			s = strike{}
		}
		p, err := m.start(ctx, s)
		if err != nil {
			return err
		}
		if kill == atRandom {
			p.killAfter(time.Duration(m.rand.IntN(100)) * time.Millisecond)
		}
		if status, err := m.ended(p); err != nil || status == exitDone {
			return m.finish(ctx, err)
		}
	}
	return m.finish(ctx, nil)
}

// strikeAt takes the points in turn, over all flows, and each early and late in a flow.
func (m *match) strikeAt(kill int) strike {
	turn := int(m.seed)*killsOfFlow + kill
	point := m.points[(turn+turn/len(m.points))%len(m.points)]
	return strike{Point: point, N: 1 + m.rand.IntN(mostPasses(point))}
}

// mostPasses is how often a process may come to a point before it is struck there.
func mostPasses(point string) int {
	switch point {
	case "request told", "answer told":
		return 1 // a process tells of few
	case "method", "head read", "segment put":
		return 2
	}
	return 3
}

// woken stops a process at a point, has others bring the flow to its end, and wakes it.
func (m *match) woken(ctx context.Context) error {
	s := strike{Point: m.points[m.seed%uint64(len(m.points))], Stop: true}
	s.N = 1 + m.rand.IntN(mostPasses(s.Point))
	if s.Point == "head read" {
		s.N++ // the first one is the worker's own, to see whether there is such a flow
	}
	p, err := m.start(ctx, s)
	if err != nil {
		return err
	}
	if stopped, err := p.stops(m.ledger); err != nil || !stopped {
		_, ended := m.ended(p)
		return m.finish(ctx, errors.Join(err, ended))
	}
	m.hits[s.Point].Add(1)
	last, err := m.bringToEnd(ctx)
	if err != nil {
		return err
	}
	if err := p.wake(); err != nil {
		return err
	}
	status, err := m.ended(p)
	if err != nil {
		return err
	}
	switch {
	case status == exitLost:
	case s.Point == "checkpoint put", s.Point == "delete": // it may have had nothing left to save
	default:
		m.accusef("who slept at %q ends with status %d and must be told that others were faster", s.Point, status)
	}
	return m.judgeAll(ctx, last)
}

// bringToEnd lets process after process go on until the flow is at its end: C1.
func (m *match) bringToEnd(ctx context.Context) (outcome, error) {
	for range mostProcesses {
		p, err := m.start(ctx, strike{})
		if err != nil {
			return outcome{}, err
		}
		status, err := m.ended(p)
		if err != nil {
			return outcome{}, err
		}
		if status == exitDone {
			var out outcome
			err := json.Unmarshal(p.out.Bytes(), &out)
			return out, err
		}
		if status != exitPaused {
			return outcome{}, fmt.Errorf("a process that nothing disturbs ends with status %d", status)
		}
	}
	return outcome{}, fmt.Errorf("C1: no end after %d processes", mostProcesses)
}

// finish brings the flow to its end, if nothing went wrong before, and judges it.
func (m *match) finish(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	out, err := m.bringToEnd(ctx)
	if err != nil {
		return err
	}
	return m.judgeAll(ctx, out)
}

func (m *match) judgeAll(ctx context.Context, out outcome) error {
	lines, err := readLedger(m.ledger)
	if err != nil {
		return err
	}
	d, err := persistence.OpenDriver(ctx, m.url(m.seed))
	if err != nil {
		return err
	}
	store := openStore(d)
	m.checkOutcome(ctx, out, store, lines)
	m.checkEffects(lines)
	m.checkRevisions(lines)
	m.checkLoads(lines)
	m.swept.Add(int64(m.checkLeftovers(ctx, d, store)))
	return d.Close()
}
