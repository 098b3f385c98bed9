package flow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

const (
	approved flow.Label[flow.Feedback] = "approved"
	rejected flow.Label[flow.Feedback] = "rejected"
)

// later is a provider that never answers itself.
var later = flow.ProviderFunc(func(context.Context, flow.Request) (flow.Reply, error) { return flow.Reply{Later: true}, nil })

func says(text string) flow.Provider {
	return flow.ProviderFunc(func(context.Context, flow.Request) (flow.Reply, error) { return flow.Reply{Text: text}, nil })
}

// refunds is a draft that is reviewed, and something to do for each outcome.
func refunds(t testing.TB, yes func(context.Context, *tallyRun, flow.Feedback) (string, error)) *flow.Definition[tally] {
	t.Helper()
	b := flow.New[tally]("refunds")
	flow.Start(b, "draft", note("draft"), flow.Review{Message: "refund?", Outcomes: []flow.Label[flow.Feedback]{approved, rejected}})
	if yes == nil {
		yes = func(ctx context.Context, run *tallyRun, f flow.Feedback) (string, error) {
			return note("yes: "+f.Text)(ctx, run)
		}
	}
	flow.Listen(b, "yes", yes, approved)
	flow.Listen(b, "no", func(ctx context.Context, run *tallyRun, f flow.Feedback) (string, error) {
		return note("no: "+f.Text)(ctx, run)
	}, rejected)
	return mustBuild(t, b)
}

// pause kicks the flow "f" off and has it pause.
func pause(t testing.TB, def *flow.Definition[tally], store core.FlowPersistence) *flow.Result[tally] {
	t.Helper()
	res, err := def.Kickoff(t.Context(), flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist(), flow.WithProvider(later))
	if err != nil || !res.Paused || res.Finished || len(res.Pending) == 0 {
		t.Fatalf("it does not pause: %+v, %v", res, err)
	}
	return res
}

func TestARequestIsStoredBeforeAnyoneIsTold(t *testing.T) {
	store, told := coretest.New(), 0
	provider := flow.ProviderFunc(func(ctx context.Context, r flow.Request) (flow.Reply, error) {
		told++
		open, err := flow.Pending(ctx, store, "f")
		if err != nil || len(open) != 1 || open[0].ID != r.ID || string(open[0].Output) != `"draft"` {
			t.Errorf("told of %+v while %+v is stored, %v", r, open, err)
		}
		if snap, err := store.LoadState(ctx, "f"); err != nil || !strings.Contains(string(snap.State), "draft") {
			t.Errorf("the state beside it is %s, %v", snap.State, err)
		}
		return flow.Reply{Later: true}, nil
	})
	rec := &recorder{}
	res, err := refunds(t, nil).Kickoff(t.Context(), flow.Inputs{"id": "f"}, flow.WithStore(store), flow.WithProvider(provider), rec.option())
	if err != nil || !res.Paused || told != 1 {
		t.Errorf("%+v, %v, told %d times", res, err, told)
	}
	if got, want := rec.names(), "FlowStarted MethodStarted:draft StateSaved:draft RequestOpened MethodPaused FlowPaused"; got != want {
		t.Errorf("events:\n got %s\nwant %s", got, want)
	}
}

func TestAnAnswerIsClaimedOnce(t *testing.T) {
	store := coretest.New()
	id := pause(t, refunds(t, nil), store).Pending[0].ID
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wg.Go(func() {
			_, results[i] = refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(id, flow.Reply{Text: fmt.Sprint(i), Outcome: "approved"}))
		})
	}
	wg.Wait()
	won := 0
	for i, err := range results {
		if err == nil {
			won++
		} else if !errors.Is(err, flow.ErrAnswered) || !errors.Is(err, core.ErrConflict) {
			t.Errorf("resumer %d is told %v", i, err)
		}
	}
	res, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(store))
	if won != 1 || err != nil || len(res.Feedback) != 1 || len(res.State.Log) != 2 || !res.Finished {
		t.Errorf("%d resumers went on; %+v, %v", won, res, err)
	}
}

// hurried is a store that another process answers through between a load and a save.
type hurried struct {
	*coretest.Store
	between func()
}

func (s *hurried) SaveState(ctx context.Context, snap core.Snapshot, opts ...core.SaveOption) (core.Saved, error) {
	if f := s.between; f != nil {
		s.between = nil
		f()
	}
	return s.Store.SaveState(ctx, snap, opts...)
}

func TestTheSlowerOfTwoAnswersIsRefused(t *testing.T) {
	store := coretest.New()
	id := pause(t, refunds(t, nil), store).Pending[0].ID
	slow := &hurried{Store: store, between: func() {
		if _, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(id, flow.Reply{Text: "rejected"})); err != nil {
			t.Error(err)
		}
	}}
	rec := &recorder{}
	_, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(slow), flow.Answer(id, flow.Reply{Text: "approved"}), rec.option())
	if !errors.Is(err, flow.ErrAnswered) || len(rec.events) != 0 {
		t.Errorf("got %v, events %s", err, rec.names())
	}
}

func TestAnUnclearAnswerLeavesTheRequestOpen(t *testing.T) {
	store := coretest.New()
	def := refunds(t, nil)
	id := pause(t, def, store).Pending[0].ID
	for _, reply := range []flow.Reply{{Text: "maybe"}, {Text: "  "}, {Text: "approved", Outcome: "draft"}} {
		_, err := def.Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(id, reply))
		var unclear *flow.OutcomeError
		if !errors.As(err, &unclear) || unclear.Request != id {
			t.Errorf("%+v: %v", reply, err)
		}
	}
	if open, err := flow.Pending(t.Context(), store, "f"); err != nil || len(open) != 1 {
		t.Fatalf("open are %v, %v", open, err)
	}
	res, err := def.Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(id, flow.Reply{Text: " Rejected "}))
	if err != nil || strings.Join(res.State.Log, ", ") != "draft, no:  Rejected " {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err = def.Resume(t.Context(), "f", flow.WithStore(store), flow.Answer("nonsense", flow.Reply{})); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("an unknown request: %v", err)
	}
}

func TestAClassifierMayNotInventAnOutcome(t *testing.T) {
	broken := errors.New("the model is down")
	for text, want := range map[string]string{"fine": "yes", "odd": "", "broken": "", "": "no"} {
		b := flow.New[tally]("classify")
		flow.Start(b, "draft", note("draft"), flow.Review{
			Outcomes: []flow.Label[flow.Feedback]{approved, rejected}, Default: rejected,
			Classify: func(_ context.Context, text string, outcomes []string) (string, error) {
				return map[string]string{"fine": outcomes[0], "odd": "perhaps"}[text], map[string]error{"broken": broken}[text]
			},
		})
		flow.Listen(b, "yes", func(context.Context, *tallyRun, flow.Feedback) (string, error) { return "yes", nil }, approved)
		flow.Listen(b, "no", func(context.Context, *tallyRun, flow.Feedback) (string, error) { return "no", nil }, rejected)
		res, err := mustBuild(t, b).Kickoff(t.Context(), nil, flow.WithProvider(says(text)))
		var unclear *flow.OutcomeError
		switch {
		case want != "" && (err != nil || string(res.Output) != `"`+want+`"`):
			t.Errorf("%q leads to %s, %v", text, res.Output, err)
		case text == "odd" && (!errors.As(err, &unclear) || unclear.Outcome != "perhaps"), text == "broken" && !errors.Is(err, broken):
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Several requests can be open; each is answered by itself, in any order, and what was there
// before the pause, such as half a join, is there after it.
func TestSeveralRequestsAreAnsweredOneByOne(t *testing.T) {
	build := func() *flow.Definition[tally] {
		b := flow.New[tally]("several")
		s := flow.Start(b, "s", note("s"))
		x := flow.Listen(b, "x", noteAny("x"), flow.Any(s), flow.Review{Message: "x?"})
		y := flow.Listen(b, "y", noteAny("y"), flow.Any(s), flow.Review{Message: "y?"})
		flow.Listen(b, "xx", func(ctx context.Context, run *tallyRun, f flow.Feedback) (string, error) {
			return note("xx "+f.Text+string(f.Output))(ctx, run)
		}, flow.Reviewed(x))
		flow.Listen(b, "join", noteAny("join"), flow.And(x, y))
		return mustBuild(t, b)
	}
	store := coretest.New()
	open := pause(t, build(), store).Pending
	if len(open) != 2 {
		t.Fatalf("open are %+v", open)
	}
	texts := map[string]string{"x?": "one", "y?": "two"}
	for i, r := range []flow.Request{open[1], open[0]} {
		res, err := build().Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(r.ID, flow.Reply{Text: texts[r.Message]}))
		if err != nil || res.Paused != (i == 0) || len(res.Pending) != 1-i {
			t.Fatalf("answer %d: %+v, %v", i, res, err)
		}
		if i == 1 && (!strings.Contains(strings.Join(res.State.Log, ","), `xx one"x"`) || res.Completed["join"] != 1 || len(res.Feedback) != 2) {
			t.Errorf("at the end: %+v", res)
		}
	}
}

// A process that dies while someone is asked leaves the request; the next one asks again,
// under the same id, and does not repeat the method.
func TestARequestOutlivesTheProcessThatAsked(t *testing.T) {
	store, asked := coretest.New(), []string{}
	ctx, die := context.WithCancel(t.Context())
	_, err := refunds(t, nil).Kickoff(ctx, flow.Inputs{"id": "f"}, flow.WithStore(store), flow.Persist(),
		flow.WithProvider(flow.ProviderFunc(func(ctx context.Context, r flow.Request) (flow.Reply, error) {
			asked = append(asked, r.ID)
			die()
			return flow.Reply{}, ctx.Err()
		})))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the death is %v", err)
	}
	res, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(store), flow.WithProvider(flow.ProviderFunc(func(_ context.Context, r flow.Request) (flow.Reply, error) {
		asked = append(asked, r.ID)
		return flow.Reply{Text: "approved"}, nil
	})))
	if err != nil || !res.Finished || len(asked) != 2 || asked[0] != asked[1] || strings.Join(res.State.Log, ", ") != "draft, yes: approved" {
		t.Errorf("asked %v; %+v, %v", asked, res, err)
	}
}

// An answer is taken before what follows from it runs, so a failure there loses nothing.
func TestAnAnswerSurvivesTheFailureOfWhatFollows(t *testing.T) {
	store, boom := coretest.New(), errors.New("boom")
	failing := refunds(t, func(context.Context, *tallyRun, flow.Feedback) (string, error) { return "", boom })
	id := pause(t, failing, store).Pending[0].ID
	if _, err := failing.Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(id, flow.Reply{Text: "approved"})); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	res, err := refunds(t, nil).Resume(t.Context(), "f", flow.WithStore(store))
	if err != nil || strings.Join(res.State.Log, ", ") != "draft, yes: approved" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAPauseNeedsAStore(t *testing.T) {
	res, err := refunds(t, nil).Kickoff(t.Context(), nil, flow.WithProvider(later))
	if err == nil || res.Paused || !strings.Contains(err.Error(), "WithStore") {
		t.Errorf("%+v, %v", res, err)
	}
	down := errors.New("the chat is down")
	_, err = refunds(t, nil).Kickoff(t.Context(), nil, flow.WithProvider(flow.ProviderFunc(func(context.Context, flow.Request) (flow.Reply, error) { return flow.Reply{}, down })))
	var m *flow.MethodError
	if !errors.As(err, &m) || m.Method != "draft" || !errors.Is(err, down) {
		t.Errorf("the provider's error is %v", err)
	}
}

// A member of a race that asks has done its work: it has won, and the pause reaches the run.
func TestAPauseEndsARace(t *testing.T) {
	b := flow.New[tally]("race")
	s := flow.Start(b, "s", note("s"))
	x := flow.Listen(b, "x", noteAny("x"), flow.Any(s), flow.Review{})
	y := flow.Listen(b, "y", func(ctx context.Context, _ *tallyRun, _ any) (string, error) { <-ctx.Done(); return "", ctx.Err() }, flow.Any(s))
	flow.Listen(b, "h", noteAny("h"), flow.Any(flow.FirstOf(x, y)))
	store, def := coretest.New(), mustBuild(t, b)
	id := pause(t, def, store).Pending[0].ID
	res, err := def.Resume(t.Context(), "f", flow.WithStore(store), flow.Answer(id, flow.Reply{}))
	if err != nil || strings.Join(res.State.Log, " ") != "s x h" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestTheConsoleAsksOneLineAtATime(t *testing.T) {
	var out bytes.Buffer
	res, err := refunds(t, nil).Kickoff(t.Context(), nil, flow.WithProvider(flow.Console(strings.NewReader("approved\nmore"), &out)))
	if err != nil || out.String() != "draft: \"draft\"\nrefund? (approved, rejected) " || res.Feedback[0].Outcome != "approved" {
		t.Errorf("it writes %q; %+v, %v", out.String(), res, err)
	}
	if _, err = refunds(t, nil).Kickoff(t.Context(), nil, flow.WithProvider(flow.Console(strings.NewReader(""), &out))); err == nil {
		t.Error("the end of the input is an answer")
	}
}

func TestBuildRefusesAMisplacedReview(t *testing.T) {
	b := flow.New[tally]("misplaced")
	s := flow.Start(b, "s", note("s"), flow.Review{Default: approved})
	flow.Router(b, "r", func(context.Context, *tallyRun, any) (flow.Route, error) { return flow.Route{}, nil }, flow.Any(s), flow.Review{})
	flow.Listen(b, "l", func(_ context.Context, _ *tallyRun, in string) (string, error) { return in, nil }, s)
	var bad *flow.BuildError
	if _, err := b.Build(); !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var got []string
	for _, d := range bad.Diagnostics {
		if d.Severity == flow.Error {
			got = append(got, d.Method+": "+string(d.Code))
		}
	}
	if s := strings.Join(got, ", "); s != "s: misplaced option, r: misplaced option, l: payload type" {
		t.Errorf("found %s", s)
	}
}
