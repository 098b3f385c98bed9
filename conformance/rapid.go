package conformance

import (
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"
)

// rapidTB lends a T the methods that rapid asks for.
type rapidTB struct{ T }

func (t rapidTB) Log(args ...any)   { t.Logf("%s", fmt.Sprint(args...)) }
func (t rapidTB) Skip(args ...any)  { t.Skipf("%s", fmt.Sprint(args...)) }
func (t rapidTB) SkipNow()          { t.Skipf("skipped") }
func (t rapidTB) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }
func (t rapidTB) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }
func (t rapidTB) FailNow()          { t.Fatalf("failed") }
func (t rapidTB) Fail()             { t.Errorf("failed") }

// rapidOutside makes rapid work in a program that is no test: it asks whether testing is
// short, and would write what failed into a folder of the program.
var rapidOutside = sync.OnceFunc(func() {
	testing.Init()
	if !flag.Parsed() {
		// The program's own flags keep their values, and it may still parse them.
		_ = flag.CommandLine.Parse(nil)
	}
	_ = flag.Set("rapid.nofailfile", "true")
})

var rapidSeed sync.Mutex

// seedRapid gives the next rapid.Check a seed, unless -rapid.seed has given one. rapid takes it
// from a flag only, so the flag belongs to the caller until the returned function is called:
// once the check has begun. Further calls do nothing.
func seedRapid(seed uint64) (begun func()) {
	if !testing.Testing() {
		rapidOutside()
	}
	rapidSeed.Lock()
	set := flag.Lookup("rapid.seed")
	before := set.Value.String()
	if before == set.DefValue {
		_ = set.Value.Set(strconv.FormatUint(seed, 10)) // a number is a number
	}
	return sync.OnceFunc(func() {
		_ = set.Value.Set(before)
		rapidSeed.Unlock()
	})
}
