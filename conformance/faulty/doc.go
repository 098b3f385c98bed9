// Package faulty holds drivers and Stores with one bug each, for the conformance suite to find.
//
// Each is the same correct code with one method, or one idea, wrong: the bugs are those that
// shipped stores had. A test of this package demands that the suite fails every one of them,
// by the law that is named for it, and that it fails nothing of the correct driver. A suite
// that cannot do that proves nothing about anybody. Another test holds a mutant to fifteen lines,
// beside code that many of them use and that passes the laws by itself.
//
//	go test ./conformance/faulty -run TestSuiteCatchesEveryBug -v
//
// lists which law caught which bug. Each mutant meets its own law and three others; with
// -matrix it meets all, which takes many minutes, since some of the bugs are that a call does
// not end.
package faulty
