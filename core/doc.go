// Package core holds Weir's contracts: what a flow runtime asks of a store and what a
// store promises in return. It imports the standard library only and names no backend.
//
// # The model
//
// A flow is a set of methods. Each time a method completes, the runtime hands the store a
// [Snapshot]: the flow's state (a JSON object that belongs to the application) together
// with the runtime's own progress (which methods are done, which joins are half full).
// Both travel in one write, so that a reader sees both or neither; that is what makes it
// possible to go on exactly where a killed process stopped.
//
//	flow "c-42" ── SaveState ──▶  State     {"id":"c-42","messages":[…]}   revision 7
//	                              Progress  joins, labels, counters         (same write)
//
// Every write makes a new [Revision]. A save with [IfRevision] succeeds only while that
// revision is still the newest one (compare and swap), so of two workers that resume one
// flow exactly one goes on and the other is told [ErrConflict]. A save without it is blind:
// the last writer wins.
//
// # Errors
//
// Failures are sentinels for [errors.Is], wrapped in one [*Error] that says what was being
// done to which flow. The distinctions that matter to a caller are kept apart: a flow that
// does not exist ([ErrNotFound]) is never confused with a store that cannot be reached
// ([ErrUnavailable]) or that refuses the credentials ([ErrDenied]), and a damaged record
// ([ErrCorrupt]) is never returned in part. [OutcomeUnknown] tells of the one case in which
// a failed write may have happened all the same.
//
// # Who implements what
//
// Applications use a contract through package persistence, whose Store implements it once
// for every backend. Package coretest holds a small reference model of the same contracts,
// the judge that the conformance suite compares each backend with.
package core
