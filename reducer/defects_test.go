package reducer_test

import (
	"testing"

	"github.com/weirflow/weir/reducer"
)

// TestDefectTable: for the best known defects of the Python package, the
// survivors are those that an analysis of each case calls right.
func TestDefectTable(t *testing.T) {
	want := map[string][]int{
		"cascade/long_agent_loop_single_user_turn":    {0, 1, 10, 11},
		"cascade/long_agent_loop_odd_min":             {0, 1, 10, 11},
		"cascade/long_agent_loop_parallel":            {0, 1, 11, 12, 13},
		"count/tail_starts_with_ai":                   {0, 7, 8},
		"mix/support_chat":                            {0, 9, 10, 11, 12, 13},
		"tokens/big_tool_result_newest":               {0, 1, 2, 3},
		"tokens/agent_loop_user_task_lost":            {0, 1, 6, 7, 8, 9},
		"tokens/reused_call_id":                       {0, 5, 6, 7, 8},
		"cascade/reused_call_id_strips_later_turn":    {0, 5, 8},
		"cascade/result_just_arrived_call_in_window":  {0, 3, 4, 5},
		"blocks/anthropic_cut_between_use_and_result": {0, 5},
	}
	for _, v := range loadVectors(t) {
		survivors, ok := want[v.Name]
		if !ok {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			cfg, ok := strictConfig(t, &v)
			if !ok {
				t.Fatal("the configuration is refused")
			}
			r, err := reducer.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			in := v.messages()
			res := reduceTwice(t, r, joinRaw(in))
			kept := make([]string, 0, len(survivors))
			for _, i := range survivors {
				kept = append(kept, string(in[i]))
			}
			if got, want := string(res.Messages), join(kept); got != want {
				t.Errorf("%+v\n got %s\nwant %s", res.Report, got, want)
			}
		})
	}
}
