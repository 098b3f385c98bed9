package conformance

import (
	"math/rand/v2"
	"testing"
)

// Run judges the backend of h: each law is a subtest layer/law/case, and a case that the
// backend does not offer, or that h leaves out, is skipped with the reason. Cases run in
// parallel, as far as go test allows.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if err := h.validate(); err != nil {
		t.Fatal(err)
	}
	seed := h.seed()
	t.Logf("conformance: seed %d", seed)
	for _, layer := range []string{driverLayer, storeLayer, runtimeLayer} {
		if !h.wants(layer) {
			continue
		}
		t.Run(layer, func(t *testing.T) {
			for _, l := range laws() {
				if l.layer == layer && h.wants(l.path()) {
					t.Run(l.name, func(t *testing.T) { runLaw(t, h, seed, l) })
				}
			}
		})
	}
}

func runLaw(t *testing.T, h Harness, seed uint64, l law) {
	for _, tc := range l.cases {
		path := l.path() + "/" + tc.name
		if !within(path, h.Only) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			if reason, out := h.optedOut(path); out {
				t.Skipf("opted out: %s", reason)
			}
			t.Parallel()
			tc.run(newCase(t, h, seed, path))
		})
	}
}

// seed returns the seed of the run, which is never 0.
func (h *Harness) seed() uint64 {
	if h.Seed != 0 {
		return h.Seed
	}
	return rand.Uint64()>>1 + 1
}

// wants reports whether anything below path is selected.
func (h *Harness) wants(path string) bool {
	return within(path, h.Only) || within(h.Only, path)
}
