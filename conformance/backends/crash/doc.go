// Package crash kills processes that run flows, with SIGKILL, wherever it hurts, and judges
// what became of the flows.
//
// A worker is a process of this package's test binary. It takes a random flow, made from a
// seed, as far as it comes: to the end, or to a question that another process answers. All
// it does that cannot be taken back goes to a ledger outside the store, each line on disk
// before the worker goes on. Workers are killed by the test at a random moment, kill
// themselves at a named point between two physical operations ([points]), or stop there with
// SIGSTOP until others have brought the flow to its end, and then go on as if nothing had
// happened.
//
// In the end the flow must be what it is in one process that was never killed: the same
// state, outputs, feedback and log. And the ledger must tell of no method that ran after its
// completion was acknowledged, of no revision that was skipped or made twice, and of no state
// that was loaded and never saved.
//
// WEIR_CRASH_SEEDS=from-to runs other seeds, and any number of them.
package crash
