package flow_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// ticket is the state of the example flows.
type ticket struct {
	ID       string   `json:"id"`
	Messages []string `json:"messages"`
}

const (
	billing   flow.Label[string] = "billing"
	technical flow.Label[string] = "technical"
)

// A support flow: receive, route, answer.
func Example() {
	b := flow.New[ticket]("support")
	receive := flow.Start(b, "receive", func(_ context.Context, run *flow.Run[ticket]) (string, error) {
		var question string
		err := run.State().View(func(t *ticket) error {
			question = t.Messages[len(t.Messages)-1]
			return nil
		})
		return question, err
	})
	flow.Router(b, "triage", func(_ context.Context, _ *flow.Run[ticket], question string) (flow.Route, error) {
		if question == "Where is my refund?" {
			return flow.To(billing, question), nil
		}
		return flow.To(technical, question), nil
	}, receive, flow.Emits(billing, technical))
	answer := func(text string) func(context.Context, *flow.Run[ticket], string) (string, error) {
		return func(_ context.Context, run *flow.Run[ticket], question string) (string, error) {
			return text, run.State().Update(func(t *ticket) error {
				t.Messages = append(t.Messages, text)
				return nil
			})
		}
	}
	flow.Listen(b, "pay", answer("It is on its way."), billing)
	flow.Listen(b, "fix", answer("Did you try turning it off and on again?"), technical)
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	res, err := def.Kickoff(context.Background(), flow.Inputs{
		"id":       "c-42",
		"messages": []string{"Where is my refund?"},
	}, flow.WithStore(coretest.New()), flow.Persist())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.State.Messages)
	fmt.Printf("%s, revision %v\n", res.Output, res.Revision)
	// Output:
	// [Where is my refund? It is on its way.]
	// "It is on its way.", revision 3
}

// A process dies in the second method. Another one goes on there; the first method does not
// run again.
func ExampleDefinition_Resume() {
	crash := true
	b := flow.New[ticket]("support")
	first := flow.Start(b, "first", func(context.Context, *flow.Run[ticket]) (int, error) {
		fmt.Println("first")
		return 42, nil
	})
	flow.Listen(b, "second", func(_ context.Context, run *flow.Run[ticket], in int) (string, error) {
		fmt.Println("second, payload", in)
		if crash {
			return "", errors.New("out of memory")
		}
		return "done", nil
	}, first)
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, store := context.Background(), coretest.New()
	_, err = def.Kickoff(ctx, flow.Inputs{"id": "c-42"}, flow.WithStore(store), flow.Persist())
	fmt.Println("error:", err)

	crash = false
	res, err := def.Resume(ctx, "c-42", flow.WithStore(store))
	fmt.Println(string(res.Output), err)

	_, err = def.Resume(ctx, "c-43", flow.WithStore(store))
	fmt.Println(errors.Is(err, core.ErrNotFound))
	// Output:
	// first
	// second, payload 42
	// error: flow "support" (id "c-42"): method "second": out of memory
	// second, payload 42
	// "done" <nil>
	// true
}

// Kickoff with the id of a stored flow begins a new run on its state; RestoreFrom does so
// under an id of its own.
func ExampleDefinition_Kickoff() {
	b := flow.New[ticket]("support")
	flow.Start(b, "reply", func(_ context.Context, run *flow.Run[ticket]) (int, error) {
		n := 0
		return n, run.State().Update(func(t *ticket) error {
			t.Messages = append(t.Messages, fmt.Sprint("reply ", len(t.Messages)+1))
			return nil
		})
	})
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, store := context.Background(), flow.WithStore(coretest.New())
	kickoff := func(in flow.Inputs, opts ...flow.RunOption) {
		res, err := def.Kickoff(ctx, in, append(opts, store, flow.Persist())...)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(res.FlowID, res.State.Messages)
	}
	kickoff(flow.Inputs{"id": "c-42"})
	kickoff(flow.Inputs{"id": "c-42"})
	kickoff(flow.Inputs{"id": "fork"}, flow.RestoreFrom("c-42"))
	kickoff(flow.Inputs{"id": "c-42", "message": "typo"})
	// Output:
	// c-42 [reply 1]
	// c-42 [reply 1 reply 2]
	// fork [reply 1 reply 2 reply 3]
	// flow "support" (id "c-42"): invalid inputs for structured state: json: unknown field "message"
}

// A loop: the router decides after each round whether there is another one. Its budget stops
// a loop that never would.
func ExampleRouter() {
	const again flow.Label[int] = "again"
	b := flow.New[struct{}]("loop")
	start := flow.Start(b, "start", func(context.Context, *flow.Run[struct{}]) (int, error) { return 3, nil })
	flow.Router(b, "check", func(_ context.Context, _ *flow.Run[struct{}], left int) (flow.Route, error) {
		if left == 0 {
			return flow.Route{}, nil // no label: the loop ends
		}
		return flow.To(again, left), nil
	}, flow.Or(start, flow.On[int]("work")), flow.Emits(again), flow.Budget(10))
	flow.Listen(b, "work", func(_ context.Context, run *flow.Run[struct{}], left int) (int, error) {
		fmt.Println("round", run.Call(), "left", left)
		return left - 1, nil
	}, again)
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := def.Kickoff(context.Background(), nil); err != nil {
		fmt.Println(err)
	}
	// Output:
	// round 1 left 3
	// round 2 left 2
	// round 3 left 1
}

// A join waits for all its branches, which run at the same time. Latest gives the output of
// each.
func ExampleAnd() {
	b := flow.New[struct{}]("join")
	start := flow.Start(b, "start", func(context.Context, *flow.Run[struct{}]) (int, error) { return 20, nil })
	half := flow.Listen(b, "half", func(_ context.Context, _ *flow.Run[struct{}], n int) (int, error) { return n / 2, nil }, start)
	word := flow.Listen(b, "word", func(_ context.Context, _ *flow.Run[struct{}], _ int) (string, error) { return "twenty", nil }, start)
	flow.Listen(b, "both", func(_ context.Context, run *flow.Run[struct{}], _ any) (string, error) {
		n, _, err := flow.Latest(run, half)
		if err != nil {
			return "", err
		}
		w, _, err := flow.Latest(run, word)
		return fmt.Sprint(w, ", halved: ", n), err
	}, flow.And(half, word), flow.Output())
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := def.Kickoff(context.Background(), nil)
	fmt.Println(string(res.Output), err)
	// Output:
	// "twenty, halved: 10" <nil>
}

// Build finds mistakes before anything runs; Lint shows what is legal and probably not meant.
func ExampleBuilder_Build() {
	noop := func(context.Context, *flow.Run[struct{}], any) (int, error) { return 0, nil }
	b := flow.New[struct{}]("mistakes")
	flow.Start(b, "begin", func(context.Context, *flow.Run[struct{}]) (int, error) { return 0, nil })
	flow.Listen(b, "handle", noop, flow.On[any]("begni"))
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range def.Lint() {
		fmt.Println(d)
	}

	flow.Listen(b, "echo", noop, flow.On[any]("echo"))
	_, err = b.Build()
	fmt.Println(err)
	// Output:
	// warning: method "handle": unknown trigger: nothing announces "begni"
	// warning: method "handle": unreachable: no run can come to it
	// flow "mistakes" cannot be built: error: method "echo": self-listen: its condition references the handler name itself; loop through a label or another method
}

// The graph as a picture, for a README or a review.
func ExampleDefinition_Mermaid() {
	b := flow.New[ticket]("support")
	receive := flow.Start(b, "receive", func(context.Context, *flow.Run[ticket]) (string, error) { return "", nil })
	flow.Router(b, "triage", func(context.Context, *flow.Run[ticket], string) (flow.Route, error) { return flow.Route{}, nil },
		receive, flow.Emits(billing, technical))
	flow.Listen(b, "answer", func(context.Context, *flow.Run[ticket], string) (int, error) { return 0, nil }, flow.Or(billing, technical))
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(def.Mermaid())
	// Output:
	// flowchart TD
	//     m0(["receive"])
	//     m1{"triage"}
	//     m2["answer"]
	//     m0 --> m1
	//     m1 -.->|"billing"| m2
	//     m1 -.->|"technical"| m2
}

// Observers see every event of a run, in order.
func ExampleWithObserver() {
	b := flow.New[struct{}]("events")
	flow.Start(b, "only", func(context.Context, *flow.Run[struct{}]) (int, error) { return 7, nil })
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = def.Kickoff(context.Background(), nil, flow.WithObserver(func(_ context.Context, e flow.Event) {
		switch e := e.(type) {
		case flow.MethodFinished:
			fmt.Printf("%d: %s finished: %s\n", e.Seq, e.Method, e.Output)
		default:
			fmt.Printf("%d: %T\n", e.Origin().Seq, e)
		}
	}))
	fmt.Println(err)
	// Output:
	// 1: flow.FlowStarted
	// 2: flow.MethodStarted
	// 3: only finished: 7
	// 4: flow.FlowFinished
	// <nil>
}
