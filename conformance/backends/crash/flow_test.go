//go:build unix

package crash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"

	"github.com/weirflow/weir/core/flow"
)

// world is the state of the random flows.
type world struct {
	ID      string   `json:"id"`
	Acc     int      `json:"acc"`
	Counter int      `json:"counter"`
	Done    []done   `json:"done"`
	Pads    []string `json:"pads"` // so that it takes several records
	Sum     string   `json:"sum"`  // of all the rest
}

// done is a call whose updates are in the state.
type done struct {
	Call string `json:"call"`
	Acc  int    `json:"acc"` // and its output
}

// checksum is what Sum has to be.
func (w world) checksum() string {
	w.Sum = ""
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // it holds text and integers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// effects is the world outside the store.
type effects interface {
	// did tells it that a call has its side effect now.
	did(call string) error
}

// player has the flow of a seed played against a world.
type player struct {
	seed uint64
	out  effects
}

// shape is what the seed decides.
type shape struct {
	steps  int
	rounds int
	asks   map[string]bool
}

func (p *player) shape() shape {
	r := rand.New(rand.NewPCG(p.seed, 1))
	s := shape{steps: 1 + r.IntN(3), rounds: 1 + r.IntN(4), asks: map[string]bool{}}
	for _, method := range []string{"step-0", "right", "publish"} {
		s.asks[method] = r.IntN(2) == 0
	}
	return s
}

// definition is a chain, a fork and its join, a loop, a draft that a person judges, and what
// follows from the verdict.
func (p *player) definition() (*flow.Definition[world], error) {
	s := p.shape()
	b := flow.New[world]("crash")
	listen := func(name string, on flow.Trigger[any], opts ...flow.MethodOption) flow.Trigger[any] {
		flow.Listen(b, name, p.method, on, opts...)
		return flow.On[any](name)
	}
	flow.Start(b, "open", func(ctx context.Context, run *flow.Run[world]) (int, error) { return p.method(ctx, run, nil) })
	last := flow.On[any]("open")
	for n := range s.steps {
		last = listen("step-"+strconv.Itoa(n), last)
	}
	joined := listen("join", flow.And(listen("left", last), listen("right", last)))
	flow.Router(b, "gate", func(ctx context.Context, run *flow.Run[world], in any) (flow.Route, error) {
		acc, err := p.method(ctx, run, in)
		label := flow.Label[any]("leave")
		if run.Call() <= s.rounds {
			label = "again"
		}
		return flow.To(label, any(acc)), err
	}, flow.Or(joined, flow.On[any]("round")))
	listen("round", flow.Label[any]("again"))
	listen("draft", flow.Label[any]("leave"), flow.Review{Message: "well?", Outcomes: []flow.Label[flow.Feedback]{"good", "bad"}})
	published := listen("publish", flow.Any(flow.Label[flow.Feedback]("good")))
	mended := listen("mend", flow.Any(flow.Label[flow.Feedback]("bad")))
	listen("close", flow.Or(published, mended))
	return b.Build()
}

// method is the body of every method: a counter, perhaps a question, a read-modify-write with
// an append, and a side effect.
func (p *player) method(ctx context.Context, run *flow.Run[world], in any) (int, error) {
	call := run.Method() + "/" + strconv.Itoa(run.Call())
	if err := run.State().Update(func(w *world) error { w.Counter++; return nil }); err != nil {
		return 0, err
	}
	answer := ""
	if p.shape().asks[run.Method()] {
		var err error
		if answer, err = run.Ask(ctx, call+"?"); err != nil {
			return 0, err
		}
	}
	acc := 0
	err := run.State().Update(func(w *world) error {
		w.Acc = (w.Acc*31 + w.Counter + int(hash(call, answer, impersonal(in))%997)) % 1_000_003
		w.Done = append(w.Done, done{call, w.Acc})
		w.Pads = append(w.Pads, p.noise(call))
		w.Sum = w.checksum()
		acc = w.Acc
		return nil
	})
	if err != nil {
		return 0, err
	}
	return acc, p.out.did(call)
}

// noise is text that cannot be compressed.
func (p *player) noise(call string) string {
	h := hash(p.seed, call)
	r := rand.New(rand.NewPCG(p.seed, h))
	b := make([]byte, h%3*90)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return hex.EncodeToString(b)
}

// opinion is what people think of a request, whenever they are asked.
func (p *player) opinion(r flow.Request) flow.Reply {
	n := hash(p.seed, r.Method, r.Message, string(r.Output))
	if len(r.Outcomes) == 0 {
		return flow.Reply{Text: strconv.FormatUint(n%100, 10)}
	}
	return flow.Reply{Text: r.Outcomes[n%uint64(len(r.Outcomes))]}
}

// impersonal takes the id and the time out of feedback, which differ from run to run.
func impersonal(v any) any {
	if m, ok := v.(map[string]any); ok {
		delete(m, "request")
		delete(m, "at")
	}
	return v
}

func hash(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return h.Sum64()
}
