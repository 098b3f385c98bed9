package conformance

// The layers, from the bottom up.
const (
	driverLayer  = "driver"
	storeLayer   = "store"
	runtimeLayer = "runtime"
)

// law is one promise, and the cases that try to break it.
type law struct {
	layer string
	name  string
	text  string // the promise in one sentence, for reports
	cases []testCase
}

// testCase is one named attempt.
type testCase struct {
	name string
	run  func(c *caseRun)
}

func (l law) path() string { return l.layer + "/" + l.name }

// laws returns all laws in the order in which they run: a driver that breaks a lower layer
// makes the verdicts above it worthless.
func laws() []law {
	return []law{
		idsAreData(),
		writesAreAtomic(),
		readsSeeWrites(),
		tagsAreNeverReused(),
		expiry(),
		sizes(),
		values(),
		iterators(),
		deleteIsExact(),
		contexts(),
		outages(),
		capabilities(),
		badInputWritesNothing(),
		revisionsAreExact(),
		valuesComeBack(),
		largeStatesLeaveNothing(),
		damageIsReported(),
		deleteLeavesNothing(),
		foreignHeads(),
		historyIsExact(),
		flowsExpire(),
		sweepTakesGarbageOnly(),
		checkpointsAreKept(),
		logsAreExact(),
		cutAnywhere(),
		failuresKeepTheirMeaning(),
		pruning(),
		likeTheModel(),
		linearizable(),
		resumeIsExact(),
		oneResumerWins(),
		pausesAreClaimedOnce(),
		forksAreApart(),
	}
}

// Law describes one law of the suite.
type Law struct {
	Layer string
	Name  string
	Text  string
	Cases []string
}

// Laws lists the laws in the order in which they run.
func Laws() []Law {
	var out []Law
	for _, l := range laws() {
		d := Law{Layer: l.layer, Name: l.name, Text: l.text}
		for _, c := range l.cases {
			d.Cases = append(d.Cases, c.name)
		}
		out = append(out, d)
	}
	return out
}
