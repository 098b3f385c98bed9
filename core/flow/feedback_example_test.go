package flow_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// A refund waits for a manager. The run pauses; another process goes on with the answer, and
// whoever answers after that is told.
func ExampleReview() {
	b := flow.New[ticket]("refund")
	flow.Start(b, "propose", func(context.Context, *flow.Run[ticket]) (string, error) {
		return "120 EUR for c-42", nil
	}, flow.Review{Message: "Pay this refund?", Outcomes: []flow.Label[flow.Feedback]{approved, rejected}})
	flow.Listen(b, "pay", func(_ context.Context, _ *flow.Run[ticket], f flow.Feedback) (string, error) {
		return "paid: " + f.Text, nil
	}, approved)
	flow.Listen(b, "refuse", func(_ context.Context, _ *flow.Run[ticket], f flow.Feedback) (string, error) {
		return "refused: " + f.Text, nil
	}, rejected)
	def, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, store := context.Background(), coretest.New()
	mail := flow.ProviderFunc(func(_ context.Context, r flow.Request) (flow.Reply, error) {
		fmt.Println("mail to the manager:", r.Message, string(r.Output), r.Outcomes)
		return flow.Reply{Later: true}, nil
	})
	res, err := def.Kickoff(ctx, flow.Inputs{"id": "r-1"}, flow.WithStore(store), flow.Persist(), flow.WithProvider(mail))
	fmt.Println("paused:", res.Paused, err)

	open, _ := flow.Pending(ctx, store, "r-1")
	yes := flow.Answer(open[0].ID, flow.Reply{Outcome: "approved", Text: "fair enough"})
	res, err = def.Resume(ctx, "r-1", flow.WithStore(store), yes)
	fmt.Println(string(res.Output), err)

	_, err = def.Resume(ctx, "r-1", flow.WithStore(store), yes)
	fmt.Println("answered already:", errors.Is(err, flow.ErrAnswered))
	// Output:
	// mail to the manager: Pay this refund? "120 EUR for c-42" [approved rejected]
	// paused: true <nil>
	// "paid: fair enough" <nil>
	// answered already: true
}
