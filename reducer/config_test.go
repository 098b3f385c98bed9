package reducer_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirflow/weir/reducer"
)

func TestConfigErrorsSayWhatToChange(t *testing.T) {
	summary := func(context.Context, []reducer.Message) (string, error) { return "", nil }
	five := 5
	for _, c := range []struct {
		cfg  reducer.Config
		says []string
	}{
		{reducer.Config{}, []string{"set MaxMessages, MaxTokens or Repair"}},
		{reducer.Config{MaxMessages: -1}, []string{"MaxMessages is -1", "0 for no limit"}},
		{reducer.Config{MaxMessages: 5, MinMessages: -1}, []string{"MinMessages is -1"}},
		{reducer.Config{MaxMessages: 5, MinMessages: 10}, []string{"MinMessages 10 is above MaxMessages 5"}},
		{reducer.Config{MinMessages: 10}, []string{"set MaxMessages too"}},
		{reducer.Config{MaxTokens: math.MinInt}, []string{"MaxTokens"}},
		{reducer.Config{MaxTokens: 5, TargetTokens: 6}, []string{"TargetTokens 6 is above MaxTokens 5"}},
		{reducer.Config{MaxMessages: 5, TargetTokens: 6}, []string{"set MaxTokens too"}},
		{reducer.Config{MaxMessages: 5, Mode: 9}, []string{"Mode 9", "Strict or Compat"}},
		{reducer.Config{MaxMessages: 5, Repair: 9}, []string{"Repair 9"}},
		{reducer.Config{MaxMessages: 5, OnSummaryError: 9}, []string{"OnSummaryError 9"}},
		{reducer.Config{MaxMessages: 5, Hooks: []reducer.Hook{nil}}, []string{"Hooks[0] is nil"}},
		{reducer.Config{MaxMessages: 5, SummaryTokens: 100}, []string{"without Summarize"}},
		{reducer.Config{MaxMessages: 5, Summarize: summary, SummaryTokens: -1}, []string{"SummaryTokens is -1"}},
		{reducer.Config{MaxMessages: 5, Summarize: summary, SummaryTokens: 3}, []string{"set at least"}},
		{reducer.Config{MaxTokens: 60, Summarize: summary}, []string{"no room for a summary"}},
		{reducer.Config{MaxMessages: 5, Compat: &reducer.CompatConfig{}}, []string{"set Mode to Compat"}},
		{reducer.Config{Mode: reducer.Compat}, []string{"set MaxMessages, MaxTokens or Compat"}},
		{reducer.Config{Mode: reducer.Compat, MaxMessages: 5, Repair: reducer.RepairDrop}, []string{"no Repair"}},
		{reducer.Config{Mode: reducer.Compat, MaxMessages: 5, Compat: &reducer.CompatConfig{MaxMessages: &five}}, []string{"set twice"}},
	} {
		_, err := reducer.New(c.cfg)
		if !errors.Is(err, reducer.ErrConfig) {
			t.Errorf("%+v: error %v", c.cfg, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %q does not say %q", c.cfg, err, s)
			}
		}
	}
}

func TestZeroReducerReducesNothing(t *testing.T) {
	var r reducer.Reducer
	in := joinRaw(short(t, "S U A U A U A"))
	res, err := r.ReduceJSON(t.Context(), in)
	if err != nil || res.Changed || string(res.Messages) != string(in) || !r.Idle(1000) {
		t.Errorf("%v, %+v", err, res)
	}
	if _, err := r.ReduceJSON(t.Context(), []byte("{}")); !errors.Is(err, reducer.ErrInput) {
		t.Errorf("error %v", err)
	}
}

func TestIdleNeverMissesWork(t *testing.T) {
	five := 5
	for _, c := range []struct {
		cfg  reducer.Config
		n    int
		want bool
	}{
		{reducer.Config{MaxMessages: 5}, 5, true},
		{reducer.Config{MaxMessages: 5}, 6, false},
		{reducer.Config{MaxTokens: 5}, 0, false},
		{reducer.Config{MaxMessages: 5, MaxTokens: 5}, 1, false},
		{reducer.Config{MaxMessages: 5, Repair: reducer.RepairDrop}, 1, false},
		{reducer.Config{Mode: reducer.Compat, MaxMessages: 5}, 5, true},
		{reducer.Config{Mode: reducer.Compat, MaxMessages: 5}, 6, false},
		{reducer.Config{Mode: reducer.Compat, MaxTokens: 5}, 1, false},
		{reducer.Config{Mode: reducer.Compat, Compat: &reducer.CompatConfig{MaxMessages: &five}}, 5, true},
	} {
		if got := mustNew(t, c.cfg).Idle(c.n); got != c.want {
			t.Errorf("%+v: Idle(%d) is %v", c.cfg, c.n, got)
		}
	}
}

func TestBadInputIsRefusedUntouched(t *testing.T) {
	r := mustNew(t, reducer.Config{MaxMessages: 1, Repair: reducer.RepairAnswer})
	compat := mustNew(t, reducer.Config{Mode: reducer.Compat, MaxMessages: 1})
	for _, in := range []string{
		"", " ", "null", "{}", `"x"`, "7", "[", "[1,]", "[1 2]", "[{]", `[{"a"}]`, `[{"a":}]`, `[{"a":1,}]`, "[\"\n\"]", `["\x"]`, `["\u12"]`,
		"[01]", "[1.]", "[-]", "[1e]", "[tru]", "[] x", "[[]", strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
	} {
		for _, r := range []*reducer.Reducer{r, compat} {
			b := []byte(in)
			res, err := r.ReduceJSON(t.Context(), b)
			if !errors.Is(err, reducer.ErrInput) || res.Messages != nil || string(b) != in {
				t.Errorf("%.40q: %v, %+v", in, err, res)
			}
		}
		if v := reducer.Validate([]byte(in), reducer.OpenAI); len(v) != 1 || v[0].Rule != reducer.NotJSON {
			t.Errorf("%.40q: %v", in, v)
		}
	}
}

func TestEndedContextDoesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := mustNew(t, reducer.Config{MaxMessages: 1})
	if _, err := r.ReduceJSON(ctx, []byte(`[]`)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := reducer.Reduce(ctx, r, []chatMessage{}, chatAccess); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
