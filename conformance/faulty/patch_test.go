package faulty

import (
	"context"
	"iter"
	"testing"

	"github.com/weirflow/weir/conformance"
	"github.com/weirflow/weir/conformance/internal/subject"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// TestWhatMutantsAreMadeOfIsCorrect judges the code that many mutants use, with nothing wrong
// put into it: a bug of its own would be found in place of theirs.
func TestWhatMutantsAreMadeOfIsCorrect(t *testing.T) {
	for name, m := range map[string]Mutant{
		"patch":    {Law: "driver", Break: func(d driver.Driver) driver.Driver { return fullPatch(d) }},
		"stored":   {Law: "driver", Break: stored(func(*driver.Record) {})},
		"seen":     {Law: "driver", Break: func(d driver.Driver) driver.Driver { return seen(d, func(driver.Partition, *driver.Record) {}) }},
		"retagged": {Law: "driver", Break: retagged(func(r driver.Record) driver.Tag { return r.Tag })},
		"renamed":  {Law: "driver", Break: renamed(func(k driver.Key) driver.Key { return k })},
		"batches": {
			Law: "driver", Break: func(d driver.Driver) driver.Driver { return batches{d} },
			offers: []conformance.Capability{conformance.BatchPut, conformance.BatchDelete},
		},
		"over":      {Law: "store", store: over(func(d driver.Driver) driver.Driver { return fullPatch(d) })},
		"answering": {Law: "store", store: answering(fullAnswer)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := m.Judge(t.Context(), m.Law)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.Failed() {
				t.Errorf("%s fails: %q", r.Path(), r.Messages)
			}
			passed := 0
			for _, r := range report.Results {
				if r.Status == conformance.Passed {
					passed++
				}
			}
			if passed < 50 {
				t.Errorf("only %d cases were passed", passed)
			}
		})
	}
}

// fullPatch replaces every method by the correct one, those that yield by way of whole.
func fullPatch(d driver.Driver) patch {
	return patch{
		Driver: d, get: d.Get, put: d.Put, del: d.Delete, close: d.Close,
		siblings: func(ctx context.Context, p driver.Partition, o driver.RangeOptions) iter.Seq2[driver.Record, error] {
			return whole(d.Range(ctx, p, o), same)
		},
		partitions: func(ctx context.Context, o driver.ListOptions) iter.Seq2[driver.Entry, error] {
			return whole(d.Partitions(ctx, o), same)
		},
	}
}

// fullAnswer replaces every method by the correct one.
func fullAnswer(s subject.Store, _ driver.Driver) answer {
	return answer{
		save: func(ctx context.Context, snap core.Snapshot, opts []core.SaveOption) (core.Saved, error) {
			return s.SaveState(ctx, snap, opts...)
		},
		load: s.LoadState, del: s.Delete, history: s.History, log: s.Log,
		keep: s.SaveCheckpoint, copyOf: s.LoadCheckpoint, list: s.Checkpoints, prune: s.PruneCheckpoints,
	}
}

func same[T any](all []T) []T { return all }
