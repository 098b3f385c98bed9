// Package backends holds what no published module may: the tests that join modules. Each
// driver meets the conformance suite here, so that nobody who depends on Weir ever has a test
// server, or a database they do not use, in their module graph.
package backends
