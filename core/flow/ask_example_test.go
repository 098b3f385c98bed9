package flow_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// A method asks in the middle of its work. The answer comes later, so the run pauses; when it
// is there, the method runs again from its start, and its updates count once.
func ExampleRun_Ask() {
	b := flow.New[ticket]("order")
	flow.Start(b, "take", func(ctx context.Context, run *flow.Run[ticket]) (string, error) {
		size, err := run.Ask(ctx, "Which size?")
		if errors.Is(err, flow.ErrPaused) {
			fmt.Println("nobody has answered yet")
		}
		if err != nil {
			return "", err
		}
		return "ordered size " + size, run.State().Update(func(t *ticket) error {
			t.Messages = append(t.Messages, "size "+size)
			return nil
		})
	})
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, store := context.Background(), coretest.New()
	res, err := def.Kickoff(ctx, flow.Inputs{"id": "o-1"}, flow.WithStore(store), flow.Persist())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("paused:", res.Paused, res.Pending[0].Message)

	answer := flow.Answer(res.Pending[0].ID, flow.Reply{Text: "L"})
	res, err = def.Resume(ctx, "o-1", flow.WithStore(store), answer)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(res.Output), res.State.Messages)
	// Output:
	// nobody has answered yet
	// paused: true Which size?
	// "ordered size L" [size L]
}

// Two sources are asked for the same; the first to answer wins, and the other is canceled.
func ExampleFirstOf() {
	b := flow.New[ticket]("lookup")
	question := flow.Start(b, "question", func(context.Context, *flow.Run[ticket]) (string, error) {
		return "opening hours", nil
	})
	cache := flow.Listen(b, "cache", func(_ context.Context, _ *flow.Run[ticket], q string) (string, error) {
		return q + ": nine to five", nil
	}, question)
	web := flow.Listen(b, "web", func(ctx context.Context, _ *flow.Run[ticket], _ string) (string, error) {
		<-ctx.Done() // the slow one
		fmt.Println("web:", context.Cause(ctx))
		return "", ctx.Err()
	}, question)
	flow.Listen(b, "answer", func(_ context.Context, _ *flow.Run[ticket], found string) (string, error) {
		return found, nil
	}, flow.FirstOf(cache, web))
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	res, err := def.Kickoff(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(res.Output), "web completed:", res.Completed["web"])
	// Output:
	// web: another method of the race was first
	// "opening hours: nine to five" web completed: 0
}
