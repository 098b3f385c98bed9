package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

// shared is a store in which another program has left a request.
type shared struct {
	*coretest.Store
	request *core.ForeignRequest // nil: it is gone
	looked  func()               // before the next look for a request
	saved   error                // the answer to the next save, which is made all the same
}

func (s *shared) LoadForeignRequest(ctx context.Context, flowID string) (core.ForeignRequest, error) {
	if f := s.looked; f != nil {
		s.looked = nil
		f()
	}
	snap, err := s.LoadState(ctx, flowID)
	if err != nil {
		return core.ForeignRequest{}, err
	}
	if s.request == nil || len(snap.Progress) > 0 {
		return core.ForeignRequest{}, core.ErrNotFound
	}
	r := *s.request
	r.Revision = snap.Revision
	return r, nil
}

func (s *shared) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	answers := core.NewSaveSettings(opts).Answers
	if answers != "" && (s.request == nil || s.request.ID != answers) {
		return core.Saved{}, core.ErrConflict
	}
	saved, err := s.Store.SaveState(ctx, snap, opts...)
	if err == nil && answers != "" {
		s.request = nil
	}
	if err == nil && s.saved != nil {
		saved, err, s.saved = core.Saved{}, s.saved, nil
	}
	return saved, err
}

// leftBehind returns a store in which the flow "f" of another program waits in draft.
func leftBehind(t *testing.T) *shared {
	t.Helper()
	s := &shared{Store: coretest.New(), request: &core.ForeignRequest{
		ID: "row 1", FlowID: "f", Flow: "theirs.Refunds", Method: "draft", Message: "refund?", Outcomes: []string{"approved", "rejected"},
		Output: json.RawMessage(`"draft"`), At: time.Unix(1_700_000_000, 0).UTC(), State: json.RawMessage(`{"id":"f","n":1,"log":["draft"]}`),
	}}
	if _, err := s.Store.SaveState(t.Context(), core.Snapshot{FlowID: "f", Method: "draft", State: s.request.State}); err != nil {
		t.Fatal(err)
	}
	return s
}

func onlyRequest(t *testing.T, s core.FlowPersistence) flow.Request {
	t.Helper()
	open, err := flow.Pending(t.Context(), s, "f")
	if err != nil || len(open) != 1 {
		t.Fatalf("open are %+v, %v", open, err)
	}
	return open[0]
}

// The same events and log follow from the answer to a foreign request as from one of one's own.
func TestAForeignRequestIsAnsweredLikeOnesOwn(t *testing.T) {
	answer := func(s core.FlowPersistence) (string, *flow.Result[tally]) {
		rec := &recorder{}
		res, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(s), flow.KeepLog(), rec.option(),
			flow.Answer(onlyRequest(t, s).ID, flow.Reply{Text: "approved"}))
		if err != nil || !res.Finished {
			t.Fatalf("%+v, %v", res, err)
		}
		return rec.names(), res
	}
	own := coretest.New()
	pause(t, refunds(t, nil), own)
	foreign := leftBehind(t)
	want, ownRes := answer(own)
	got, res := answer(foreign)
	if got != want || fmt.Sprint(res.State) != fmt.Sprint(ownRes.State) || string(res.Output) != string(ownRes.Output) {
		t.Errorf("events %s\n  want %s\nstate %+v, want %+v", got, want, res.State, ownRes.State)
	}
	var log []string
	for entry, err := range flow.Log(t.Context(), foreign, "f") {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, string(entry.Kind)+" "+entry.Method)
	}
	if got, want := strings.Join(log, ", "), "run_started , answered draft, method_completed draft, method_completed yes, run_finished "; got != want {
		t.Errorf("log %s\n want %s", got, want)
	}
	if foreign.request != nil {
		t.Error("the request was left behind")
	}
}

func TestAForeignRequestGoesToTheProviderOfAResume(t *testing.T) {
	s := leftBehind(t)
	before, _ := s.LoadState(t.Context(), "f")
	var asked []string
	provider := func(reply flow.Reply) flow.RunOption {
		return flow.WithProvider(flow.ProviderFunc(func(_ context.Context, r flow.Request) (flow.Reply, error) {
			asked = append(asked, r.ID)
			return reply, nil
		}))
	}
	res, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(s), provider(flow.Reply{Later: true}))
	if after, _ := s.LoadState(t.Context(), "f"); err != nil || !res.Paused || after.Revision != before.Revision || s.request == nil {
		t.Errorf("later: %+v, %v", res, err)
	}
	id := onlyRequest(t, s).ID
	res, err = refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(s), provider(flow.Reply{Outcome: "rejected"}))
	if err != nil || !res.Finished || strings.Join(res.State.Log, ", ") != "draft, no: " || s.request != nil {
		t.Errorf("at once: %+v, %v", res, err)
	}
	if len(asked) != 2 || asked[0] != id || asked[1] != id {
		t.Errorf("asked %q, listed %q", asked, id)
	}
}

// Somebody answers after the state was read and before the request is looked for.
func TestAForeignRequestThatIsAnsweredMeanwhile(t *testing.T) {
	s := leftBehind(t)
	id := onlyRequest(t, s).ID
	answer := func() error {
		_, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(s), flow.Answer(id, flow.Reply{Text: "rejected"}))
		return err
	}
	var first error
	s.looked = func() { first = answer() }
	if second := answer(); first != nil || !errors.Is(second, flow.ErrAnswered) || !errors.Is(second, core.ErrConflict) {
		t.Errorf("the first is told %v, the second %v", first, second)
	}

	// Listed is what is open then, here the next request.
	s = leftBehind(t)
	b := flow.New[tally]("two")
	draft := flow.Start(b, "draft", note("draft"), flow.Review{Message: "refund?"})
	flow.Listen(b, "again", func(ctx context.Context, run *tallyRun, f flow.Feedback) (string, error) {
		return note(f.Text)(ctx, run)
	},
		flow.Reviewed(draft), flow.Review{Message: "really?"})
	two := mustBuild(t, b)
	id = onlyRequest(t, s).ID
	s.looked = func() {
		_, first = two.Resume(t.Context(), "f", flow.WithStore(s), flow.Answer(id, flow.Reply{Text: "ok"}))
	}
	if r := onlyRequest(t, s); r.Method != "again" || first != nil {
		t.Errorf("listed is %+v, %v", r, first)
	}
}

// A save whose reply was lost is recognized, although the request is gone.
func TestAForeignRequestWhoseAnswerHadNoReply(t *testing.T) {
	s := leftBehind(t)
	s.saved = core.WithOutcomeUnknown(core.ErrUnavailable)
	res, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(s), flow.Answer(onlyRequest(t, s).ID, flow.Reply{Text: "approved"}))
	if err != nil || !res.Finished || len(res.Feedback) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAStateOfAnotherProgramIsPrepared(t *testing.T) {
	s := leftBehind(t)
	b := flow.New[tally]("prepared")
	b.Initial(func() tally { return tally{N: 7, Log: []string{"initial"}} })
	b.Prepare(func(s *tally) error {
		if s.Log = append(s.Log, "prepared"); s.N == 0 {
			return errors.New("no n")
		}
		return nil
	})
	flow.Start(b, "draft", note("draft"), flow.Review{Message: "refund?"})
	def := mustBuild(t, b)
	id := onlyRequest(t, s).ID
	s.request.State = json.RawMessage(`{"id":"f","n":0}`)
	if _, err := def.Resume(t.Context(), "f", flow.WithStore(s), flow.Answer(id, flow.Reply{})); err == nil || !strings.Contains(err.Error(), "no n") || s.request == nil {
		t.Errorf("got %v", err)
	}
	s.request.State = json.RawMessage(`{}`)
	res, err := def.Resume(t.Context(), "f", flow.WithStore(s), flow.Answer(id, flow.Reply{}))
	if err != nil || res.State.ID != "f" || res.State.N != 7 || strings.Join(res.State.Log, ", ") != "initial, prepared" {
		t.Errorf("%+v, %v", res, err)
	}
}
