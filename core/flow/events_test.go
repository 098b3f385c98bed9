package flow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/weirflow/weir/core/coretest"
	"github.com/weirflow/weir/core/flow"
)

func TestEventsAreNumberedAndComeInOrder(t *testing.T) {
	var rec, second recorder
	res, err := chain(t, "a", "b").Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(coretest.New()), flow.Persist(), rec.option(), second.option())
	if err != nil {
		t.Fatal(err)
	}
	want := "FlowStarted MethodStarted:a StateSaved:a MethodFinished:a MethodStarted:b StateSaved:b MethodFinished:b FlowFinished"
	if rec.names() != want || second.names() != want {
		t.Errorf("events %s", rec.names())
	}
	for i, e := range rec.events {
		if o := e.Origin(); o.Seq != uint64(i+1) || o.Flow != "chain" || o.FlowID != res.FlowID || o.Time.IsZero() {
			t.Errorf("event %d: %+v", i, o)
		}
	}
	started, finished := rec.events[4].(flow.MethodStarted), rec.events[6].(flow.MethodFinished)
	if started.ActivationID != finished.ActivationID || string(started.Payload) != `"a"` || string(finished.Output) != `"b"` || started.Call != 1 {
		t.Errorf("%+v\n%+v", started, finished)
	}
	if last := rec.events[7].(flow.FlowFinished); string(last.Output) != `"b"` || string(last.State) != `{"id":"x","n":2,"log":["a","b"]}` {
		t.Errorf("%+v", last)
	}
}

func TestLogEvents(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	b := flow.New[tally]("f")
	a := flow.Start(b, "a", note("secret"))
	flow.Listen(b, "b", func(context.Context, *tallyRun, string) (int, error) { return 0, errors.New("boom") }, a)
	_, _ = mustBuild(t, b).Kickoff(t.Context(), flow.Inputs{"id": "x"}, flow.WithStore(pruning{coretest.New()}), flow.Persist(), flow.WithObserver(flow.LogEvents(logger)))
	text := regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(out.String(), "RUN")
	want := `level=INFO msg="flow started" flow=f flow_id=x resumed=false restored_from=""
level=DEBUG msg="method started" flow=f flow_id=x method=a activation=RUN-1 call=1
level=DEBUG msg="state saved" flow=f flow_id=x method=a revision=1 bytes=N
level=DEBUG msg="method finished" flow=f flow_id=x method=a activation=RUN-1 label=""
level=DEBUG msg="method started" flow=f flow_id=x method=b activation=RUN-2 call=1
level=ERROR msg="method failed" flow=f flow_id=x method=b activation=RUN-2 canceled=false error=boom
level=ERROR msg="flow failed" flow=f flow_id=x error="flow \"f\" (id \"x\"): method \"b\": boom"
`
	if text = regexp.MustCompile(`bytes=\d+`).ReplaceAllString(text, "bytes=N"); text != want {
		t.Errorf("got\n%s", text)
	}
	if strings.Contains(text, "secret") {
		t.Error("the log holds state or payloads")
	}
}

func TestLogLevels(t *testing.T) {
	var out bytes.Buffer
	log := flow.LogEvents(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	for _, e := range []flow.Event{
		flow.FlowStarted{}, flow.FlowFinished{}, flow.MessagesPruned{}, flow.MethodFailed{Canceled: true},
		flow.SaveFailed{Retrying: true, Err: errors.New("later")}, flow.SaveFailed{Err: errors.New("never")},
	} {
		log(t.Context(), e)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], "level=ERROR") {
		t.Errorf("got %q", lines)
	}
}

func TestLatestGivesTheNewestOutputOfAMethod(t *testing.T) {
	b := flow.New[tally]("f")
	a := flow.Start(b, "a", func(context.Context, *tallyRun) (int, error) { return 7, nil })
	never := flow.Listen(b, "never", listenInt, nil)
	c := flow.Listen(b, "c", func(_ context.Context, run *tallyRun, _ int) (string, error) {
		n, ok, err := flow.Latest(run, a)
		_, ran, _ := flow.Latest(run, never)
		return fmt.Sprint(n, ok, err, ran), nil
	}, a, flow.Output())
	flow.Listen(b, "d", listen, flow.Any(c))
	res, err := mustBuild(t, b).Kickoff(t.Context(), nil)
	if err != nil || string(res.Output) != `"7 true <nil> false"` {
		t.Errorf("%s, %v", res.Output, err)
	}
	if text, ok, err := flow.Latest(res, c); text != "7 true <nil> false" || !ok || err != nil {
		t.Errorf("%q %t %v", text, ok, err)
	}
	if _, ok, err := flow.Latest(res, flow.Start(flow.New[tally]("other"), "a", func(context.Context, *tallyRun) (string, error) { return "", nil })); !ok || err == nil {
		t.Errorf("an output of another type: %t, %v", ok, err)
	}
}
