// Timetravel goes back to an earlier checkpoint of a flow, and tries another way beside it.
//
//	go run ./examples/timetravel plan Lisbon            # a trip, with a checkpoint after each step
//	go run ./examples/timetravel list                   # its checkpoints, the newest first
//	go run ./examples/timetravel restore CHECKPOINT 80  # back there, on with another budget
//	go run ./examples/timetravel fork CHECKPOINT cheap 40
//	go run ./examples/timetravel -id FLOW lineage       # where it came from
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/checkpoint"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	_ "github.com/weirflow/weir/persistence/sqlite"
)

// trip is the state.
type trip struct {
	ID     string   `json:"id"`
	City   string   `json:"city"`
	Budget int      `json:"budget"`
	Plan   []string `json:"plan"`
}

func definition() (*flow.Definition[trip], error) {
	b := flow.New[trip]("trip")
	step := func(what func(t *trip) string) func(context.Context, *flow.Run[trip], any) (string, error) {
		return func(_ context.Context, run *flow.Run[trip], _ any) (done string, err error) {
			err = run.State().Update(func(t *trip) error {
				done = what(t)
				t.Plan = append(t.Plan, done)
				return nil
			})
			return done, err
		}
	}
	train := step(func(t *trip) string { return "train to " + t.City })
	travel := flow.Start(b, "travel", func(ctx context.Context, run *flow.Run[trip]) (string, error) { return train(ctx, run, nil) })
	sleep := flow.Listen(b, "sleep", step(func(t *trip) string {
		if t.Budget < 50 {
			return "hostel"
		}
		return fmt.Sprintf("hotel for %d", t.Budget)
	}), flow.Any(travel))
	flow.Listen(b, "eat", step(func(*trip) string { return "dinner" }), flow.Any(sleep))
	return b.Build()
}

func main() {
	url := flag.String("store", "sqlite:timetravel.db", "`URL` of the store")
	id := flag.String("id", "t-1", "`id` of the trip")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *url, *id, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "timetravel:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("the commands are plan CITY, list, restore CHECKPOINT BUDGET, fork CHECKPOINT BRANCH BUDGET and lineage")

// run carries one command out.
func run(ctx context.Context, w io.Writer, url, id string, args []string) error {
	store, err := persistence.Open(ctx, url)
	if err != nil {
		return err
	}
	defer store.Close()
	def, err := definition()
	if err != nil {
		return err
	}
	p := &planner{def: def, store: store, w: w}
	command := make([]string, max(4, len(args)))
	copy(command, args)
	switch command[0] {
	case "plan":
		return p.kickoff(ctx, flow.Inputs{"id": id, "city": command[1], "budget": 120}, flow.Persist())
	case "list":
		for c, err := range store.Checkpoints(ctx, id) {
			if err != nil {
				return err
			}
			p.print(c)
		}
		return nil
	case "restore":
		return p.goBack(ctx, checkpoint.Ref{FlowID: id, ID: command[1]}, command[2])
	case "fork":
		return p.goBack(ctx, checkpoint.Ref{FlowID: id, ID: command[1]}, command[3], flow.Fork(command[2]))
	case "lineage":
		for c, err := range checkpoint.Lineage(ctx, store, checkpoint.Ref{FlowID: id}) {
			if err != nil {
				return err
			}
			p.print(c)
		}
		return nil
	}
	return errUsage
}

type planner struct {
	def   *flow.Definition[trip]
	store *persistence.Store
	w     io.Writer
}

// goBack begins from a checkpoint with another budget. The run persists as the one before did.
func (p *planner) goBack(ctx context.Context, ref checkpoint.Ref, budget string, opts ...flow.RunOption) error {
	n, err := strconv.Atoi(budget)
	if err != nil {
		return fmt.Errorf("%w: the budget: %w", errUsage, err)
	}
	return p.kickoff(ctx, flow.Inputs{"budget": n}, append(opts, flow.FromCheckpoint(ref))...)
}

func (p *planner) kickoff(ctx context.Context, in flow.Inputs, opts ...flow.RunOption) error {
	res, err := p.def.Kickoff(ctx, in, append(opts, flow.WithStore(p.store), flow.WithCheckpoints(checkpoint.Config{}))...)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.w, res.FlowID, res.State.Plan)
	return nil
}

func (p *planner) print(c core.CheckpointInfo) {
	fmt.Fprintf(p.w, "%s after %-6s on %s of %s\n", c.ID, c.Method, c.Branch, c.FlowID)
}
