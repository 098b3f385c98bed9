package backends_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirflow/weir/conformance/internal/linear"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
)

// claimEvery is how many calls of a worker there are for each request: one of them answers
// it, one looks whether it is open.
const claimEvery = 6

// request is an open request to a person, which the workers race to answer.
type request struct{ Flow, ID string }

const claimPrefix = "claim/"

func isClaim(flowID string) bool { return strings.HasPrefix(flowID, claimPrefix) }

// asked is the state of a flow that asks one question.
type asked struct {
	ID string `json:"id"`
}

func askingFlow() (*flow.Definition[asked], error) {
	b := flow.New[asked]("asking")
	flow.Start(b, "draft", func(context.Context, *flow.Run[asked]) (string, error) { return "draft", nil }, flow.Review{Message: "well?"})
	return b.Build()
}

// openRequests has flows pause, before there is any trouble.
func openRequests(t *testing.T, url string, count int) []request {
	t.Helper()
	s := mustOpenTight(t, url)
	def, err := askingFlow()
	if err != nil {
		t.Fatal(err)
	}
	var open []request
	for n := range count {
		id := claimPrefix + strconv.Itoa(n)
		res, err := def.Kickoff(t.Context(), flow.Inputs{"id": id}, flow.WithStore(s), flow.Persist())
		if err != nil || len(res.Pending) != 1 {
			t.Fatalf("%s does not pause: %+v, %v", id, res, err)
		}
		open = append(open, request{id, res.Pending[0].ID})
	}
	return open
}

// do answers the request, or looks whether it is open. A failed answer is certain only where
// the error says that somebody else's was taken.
func (r request) do(ctx context.Context, s core.FlowPersistence, in linear.Call) (linear.Answer, error) {
	if in.Kind == linear.Look {
		open, err := flow.Pending(ctx, s, r.Flow)
		if err != nil || len(open) > 0 {
			return linear.Answer{}, err
		}
		return linear.Answer{Value: 1}, nil
	}
	def, err := askingFlow()
	if err != nil {
		return linear.Answer{}, err
	}
	taken := false
	_, err = def.Resume(ctx, r.Flow, flow.WithStore(s), flow.Answer(r.ID, flow.Reply{Text: strconv.Itoa(in.Value)}),
		flow.WithObserver(func(_ context.Context, e flow.Event) {
			_, ok := e.(flow.RequestAnswered)
			taken = taken || ok
		}))
	switch {
	case err == nil, taken: // what fails after that is another save
		return linear.Answer{}, nil
	case errors.Is(err, flow.ErrAnswered):
		return linear.Answer{Conflict: true}, nil
	case core.OutcomeUnknown(err):
		return linear.Answer{Unknown: true}, nil
	}
	return linear.Answer{}, fmt.Errorf("claim: %w", err)
}

// finishClaims adds to each history whose answer was taken in the end, and deletes the flows.
func finishClaims(t *testing.T, url string, claims []request, histories map[string][]porcupine.Operation) {
	t.Helper()
	s := mustOpenTight(t, url)
	def, err := askingFlow()
	if err != nil {
		t.Fatal(err)
	}
	won, refused := 0, 0
	for _, r := range claims {
		began := time.Now().UnixNano()
		res, err := def.Resume(t.Context(), r.Flow, flow.WithStore(s))
		if err != nil || len(res.Feedback) > 1 {
			t.Errorf("the last resume of %s: %+v, %v", r.Flow, res, err)
			continue
		}
		var out linear.Answer
		for _, f := range res.Feedback {
			if out.Value, err = strconv.Atoi(f.Text); err != nil {
				t.Error(err)
			}
		}
		for _, op := range histories[r.Flow] {
			if op.Input.(linear.Call).Kind != linear.Claim {
				continue
			}
			switch answer := op.Output.(linear.Answer); {
			case answer.Conflict:
				refused++
			case !answer.Unknown && !answer.Failed:
				won++
			}
		}
		histories[r.Flow] = append(histories[r.Flow], porcupine.Operation{
			ClientId: workers, Input: linear.Call{Kind: linear.Load}, Output: out, Call: began, Return: time.Now().UnixNano(),
		})
		if err := s.Delete(t.Context(), r.Flow); err != nil {
			t.Errorf("the last delete of %s: %v", r.Flow, err)
		}
	}
	t.Logf("%d requests: %d claims were taken, %d refused", len(claims), won, refused)
	if won == 0 || refused == 0 {
		t.Errorf("no claim was taken, or none refused; the test has shown nothing about claims")
	}
}
