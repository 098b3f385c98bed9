package flowtest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/weirflow/weir/core/flow"
)

// world is the state of a random flow.
type world struct {
	ID      string   `json:"id"`
	Acc     int      `json:"acc"`
	Counter int      `json:"counter"`
	Log     []string `json:"log"`
	Pads    []string `json:"pads"` // what makes it large
}

// kind says what the flows of a seed may do beside the rest, since not all of it goes together.
type kind int

const (
	// asks: methods ask people. A question that is waited for inside a method holds its place
	// under a limit of concurrency, and one that is answered later does not, so such flows
	// have no limit.
	asks kind = iota

	// limited: few calls at a time; reviews only.
	limited

	// unsaved: some completions are not saved. What such a method did before a pause is done
	// again after it, beside what the answer made due, so there are no questions.
	unsaved
)

func kindOf(seed uint64) kind { return []kind{asks, limited, asks, unsaved}[seed%4] }

// plan is what a method does; the same for each call but for what it draws by its identity.
type plan struct {
	asks      int  // questions inside the method
	fails     bool // the first attempt of some of its calls
	late      bool // it fails after it asked
	noPersist bool
	pad       int // bytes that each call adds to the state
}

func randomPlan(r *rand.Rand, k kind) plan {
	p := plan{fails: r.IntN(3) == 0, late: r.IntN(2) == 0}
	if k == asks && r.IntN(3) == 0 {
		p.asks = 1 + r.IntN(2)
	}
	p.noPersist = k == unsaved && r.IntN(2) == 0
	if r.IntN(3) == 0 {
		p.pad = 50 + r.IntN(200)
	}
	return p
}

func (p plan) options() []flow.MethodOption {
	var opts []flow.MethodOption
	if p.fails {
		opts = append(opts, flow.Retry{Attempts: 2})
	}
	if p.noPersist {
		opts = append(opts, flow.NoPersist())
	}
	return opts
}

// randomFlow builds the flow that the seed stands for.
func randomFlow(s *subject) (*flow.Definition[world], error) {
	r := rand.New(rand.NewPCG(s.seed, 7))
	k := kindOf(s.seed)
	b := flow.New[world]("random")
	names := make([]string, 3+r.IntN(7))
	roles := make([]int, len(names)) // 0: start, 1 and 2: router, 3: reviewed listener, 4 and 5: listener that may race
	for i := range names {
		names[i] = "m" + strconv.Itoa(i)
		if i > 0 {
			roles[i] = r.IntN(6)
		}
		s.plans[names[i]] = randomPlan(r, k)
	}
	conditions := make([]flow.Trigger[any], len(names))
	for i, name := range names {
		conditions[i] = randomCondition(r, names, name, 2)
	}
	randomRaces(r, names, roles, conditions)
	for i, name := range names {
		on := conditions[i]
		opts := s.plans[name].options()
		if roles[i] == 0 && i > 0 {
			opts = append(opts, flow.When(on))
		}
		switch {
		case k == unsaved:
		case roles[i] == 3, roles[i] == 0 && r.IntN(4) == 0:
			opts = append(opts, randomReview(r))
		case roles[i] == reviewedRacer:
			opts = append(opts, flow.Review{Message: "and that?"}) // with outcomes it would be a router
		}
		s.add(b, name, roles[i], on, opts)
	}
	return b.Build()
}

// add makes a method of the flow.
func (s *subject) add(b *flow.Builder[world], name string, role int, on flow.Trigger[any], opts []flow.MethodOption) {
	switch role {
	case 0:
		flow.Start(b, name, func(ctx context.Context, run *flow.Run[world]) (int, error) { return s.method(ctx, run, nil) }, opts...)
	case 1, 2:
		flow.Router(b, name, func(ctx context.Context, run *flow.Run[world], in any) (flow.Route, error) {
			acc, err := s.method(ctx, run, in)
			label := []flow.Label[any]{"", "x", "y", "z"}[hash(s.seed, name, acc)%4]
			return flow.To(label, any(acc)), err
		}, on, opts...)
	default:
		flow.Listen(b, name, s.method, on, opts...)
	}
}

// reviewedRacer is the role of a listener that has won its race when people are asked.
const reviewedRacer = 6

// randomRaces has pairs of listeners begin by the same condition, and another method wait for
// whichever is first.
func randomRaces(r *rand.Rand, names []string, roles []int, conditions []flow.Trigger[any]) {
	partner := 0 // a listener that is in no race yet
	for i := range names {
		j := partner
		if roles[i] > 3 {
			partner = i
		}
		if roles[i] < 4 || j == 0 || r.IntN(3) == 0 {
			continue
		}
		partner = 0
		others := slices.Concat(names[:j], names[j+1:i], names[i+1:])
		on := flow.On[any](others[0])
		if r.IntN(2) == 0 {
			on = randomCondition(r, others, "", 1)
		}
		conditions[i], conditions[j] = on, on
		if r.IntN(3) == 0 {
			roles[j] = reviewedRacer
		}
		handler := slices.Index(names, others[r.IntN(len(others))])
		first := flow.FirstOf(flow.On[any](names[i]), flow.On[any](names[j]))
		conditions[handler] = flow.Or[any](first, conditions[handler])
	}
}

// randomReview has outcomes or none.
func randomReview(r *rand.Rand) flow.Review {
	if r.IntN(2) == 0 {
		return flow.Review{Message: "what of it?"}
	}
	return flow.Review{Message: "which one?", Outcomes: []flow.Label[flow.Feedback]{"u", "v"}}
}

func randomCondition(r *rand.Rand, names []string, self string, depth int) flow.Trigger[any] {
	if depth > 0 && r.IntN(2) == 0 {
		x, y := randomCondition(r, names, self, depth-1), randomCondition(r, names, self, depth-1)
		if r.IntN(2) == 0 {
			return flow.And(x, y)
		}
		return flow.Or(x, y)
	}
	if r.IntN(6) == 0 {
		return flow.Any(flow.Label[flow.Feedback]([]string{"u", "v"}[r.IntN(2)]))
	}
	if r.IntN(3) == 0 {
		return flow.Label[any]([]string{"x", "y", "z"}[r.IntN(3)])
	}
	if i := slices.Index(names, self); i > 0 && r.IntN(2) == 0 {
		return flow.On[any](names[r.IntN(i)]) // so that more of the flow runs
	}
	others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == self })
	return flow.On[any](others[r.IntN(len(others))])
}

// errFirst is what a first attempt fails with.
var errFirst = errors.New("the first attempt fails")

// method is the body of every method: an append, a wait, questions with a counter and a wait
// after each, a read-modify-write.
func (s *subject) method(ctx context.Context, run *flow.Run[world], in any) (int, error) {
	p, call := s.plans[run.Method()], fmt.Sprintf("%s/%d", run.Method(), run.Call())
	fails := p.fails && s.attempt(run.ActivationID()) == 1 && hash(s.seed, call)%2 == 0
	err := run.State().Update(func(w *world) error {
		w.Log = append(w.Log, call)
		if p.pad > 0 {
			w.Pads = append(w.Pads, noise(s.seed, call, p.pad))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := s.wait(ctx, run.ActivationID()); err != nil {
		return 0, err
	}
	if fails && !p.late {
		return 0, errFirst
	}
	var answers string
	for n := range p.asks {
		answer, err := run.Ask(ctx, fmt.Sprintf("%s: question %d after %q?", call, n, answers))
		if err != nil {
			return 0, err
		}
		answers += answer + ";"
		if err := run.State().Update(func(w *world) error { w.Counter++; return nil }); err != nil {
			return 0, err
		}
		if err := s.wait(ctx, run.ActivationID()); err != nil {
			return 0, err
		}
	}
	if fails {
		return 0, errFirst
	}
	acc := 0
	err = run.State().Update(func(w *world) error {
		w.Acc = (w.Acc*31 + w.Counter + int(hash(call, answers, impersonal(in))%997)) % 1_000_003
		acc = w.Acc
		return nil
	})
	return acc, err
}

// noise is text that cannot be compressed.
func noise(seed uint64, call string, size int) string {
	r := rand.New(rand.NewPCG(seed, hash(call)))
	b := make([]byte, size/2)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return hex.EncodeToString(b)
}

func hash(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return h.Sum64()
}
