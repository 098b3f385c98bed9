// Approval is a refund that waits for a manager, across processes.
//
//	go run ./examples/approval -id r-1 request 120      # pauses, and the process ends
//	go run ./examples/approval -id r-1 pending          # what is open
//	go run ./examples/approval -id r-1 answer approved  # goes on, in this process
//
// Of two managers who answer at the same time one decides; the other is told.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	_ "github.com/weirflow/weir/persistence/sqlite"
)

// refund is the state.
type refund struct {
	ID     string `json:"id"`
	Amount string `json:"amount"`
	Result string `json:"result"`
}

const (
	approved flow.Label[flow.Feedback] = "approved"
	rejected flow.Label[flow.Feedback] = "rejected"
)

func definition() (*flow.Definition[refund], error) {
	b := flow.New[refund]("refund")
	flow.Start(b, "propose", func(_ context.Context, run *flow.Run[refund]) (string, error) {
		amount := ""
		err := run.State().View(func(r *refund) error { amount = r.Amount; return nil })
		return "refund " + amount, err
	}, flow.Review{Message: "Pay this refund?", Outcomes: []flow.Label[flow.Feedback]{approved, rejected}})
	finish := func(result string) func(context.Context, *flow.Run[refund], flow.Feedback) (string, error) {
		return func(_ context.Context, run *flow.Run[refund], _ flow.Feedback) (string, error) {
			return result, run.State().Update(func(r *refund) error { r.Result = result; return nil })
		}
	}
	flow.Listen(b, "pay", finish("paid"), approved)
	flow.Listen(b, "refuse", finish("refused"), rejected)
	return b.Build()
}

func main() {
	url := flag.String("store", "sqlite:approval.db", "`URL` of the store")
	id := flag.String("id", "r-1", "`id` of the refund")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *url, *id, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

// run carries one command out: request AMOUNT, pending, or answer OUTCOME.
func run(ctx context.Context, w io.Writer, url, id, command, arg string) error {
	store, err := persistence.Open(ctx, url)
	if err != nil {
		return err
	}
	defer store.Close()
	def, err := definition()
	if err != nil {
		return err
	}
	switch command {
	case "request":
		// A real provider would send a mail; this one leaves it to "pending".
		later := flow.ProviderFunc(func(context.Context, flow.Request) (flow.Reply, error) { return flow.Reply{Later: true}, nil })
		res, err := def.Kickoff(ctx, flow.Inputs{"id": id, "amount": arg}, flow.WithStore(store), flow.Persist(), flow.WithProvider(later))
		if err != nil {
			return err
		}
		fmt.Fprintln(w, "waiting for a manager:", res.Paused)
		return nil
	case "pending":
		open, err := flow.Pending(ctx, store, id)
		for _, r := range open {
			fmt.Fprintln(w, r.Message, string(r.Output), r.Outcomes)
		}
		return err
	case "answer":
		return answer(ctx, w, def, store, id, arg)
	}
	return fmt.Errorf("unknown command %q; there are request AMOUNT, pending and answer OUTCOME", command)
}

func answer(ctx context.Context, w io.Writer, def *flow.Definition[refund], store *persistence.Store, id, outcome string) error {
	open, err := flow.Pending(ctx, store, id)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return fmt.Errorf("nothing is open for %q: %w", id, flow.ErrAnswered)
	}
	res, err := def.Resume(ctx, id, flow.WithStore(store), flow.Persist(), flow.Answer(open[0].ID, flow.Reply{Outcome: outcome}))
	if errors.Is(err, flow.ErrAnswered) {
		return fmt.Errorf("another manager was faster: %w", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(w, res.State.Result)
	return nil
}
