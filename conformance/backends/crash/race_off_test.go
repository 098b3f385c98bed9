//go:build !race

package crash

// How many flows each test plays unless WEIR_CRASH_SEEDS says otherwise, and how often each
// point must have struck in the end.
const (
	killSeeds   = 90
	zombieSeeds = 64
	leastHits   = 10
	leastStops  = 5
)
