//go:build race

package crash

// With the race detector, which makes it slow to start a process, few flows are enough to see
// that neither the test nor a worker has a race.
const (
	killSeeds   = 5
	zombieSeeds = 8
	leastHits   = 0
	leastStops  = 0
)
