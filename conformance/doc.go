// Package conformance judges whether a store keeps the promises of Weir.
//
// The author of a driver calls it once, from an ordinary test:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			New: func(t conformance.T, o conformance.Options) (driver.Driver, error) {
//				return mydriver.Open(t.Context(), t.TempDir())
//			},
//		})
//	}
//
// # Layers
//
// The suite has three layers, each over the driver that the harness opens:
//
//   - driver: the ten laws of package driver, one named test a law;
//   - store: persistence.Store over that driver, by named laws, against the reference model
//     of package coretest with random operations, and for linearizability;
//   - runtime: flows of package core/flow over that store, cut off after every write.
//
// A test is named layer/law/case, for example driver/law05_expiry/gone_at_the_millisecond, and
// Harness.Only selects by that path. Every run has a seed; Harness.Seed repeats it.
//
// # Honest results
//
// A driver that offers less says so ([Harness.Capabilities], a nil Reopen) and the cases that
// need it are reported as unsupported, which is not the same as passed. Leaving a law out needs
// a reason ([Harness.OptOut]), and the reason is printed. A driver that implements nothing
// passes nothing. Package faulty holds drivers and Stores with one bug each, and a test that
// this suite finds every one of them.
//
// COVERAGE.md maps the known failures of other stores to the cases that try them.
//
// # Outside of go test
//
// [Check] returns a [Report] instead of failing a test. The command conform, in
// conformance/backends/cmd, is made of it and judges a store by its URL. In a program that is
// no test, Check registers the flags of package testing, which the random cases need, and
// parses the command line as empty if nobody has parsed it.
//
// # Isolation
//
// Every case works in a namespace of its own ([Options.Namespace]) and on partitions with a
// random prefix, so that one server can serve all cases, and several suites, at the same time.
package conformance
