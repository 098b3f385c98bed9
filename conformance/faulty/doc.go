// Package faulty holds drivers with one bug each, for the conformance suite to find.
//
// Each is the same correct driver with one method, or one idea, wrong: the bugs are those that
// shipped stores had. A test of this package demands that the suite fails every one of them,
// by the law that is named for it, and that it fails nothing of the correct driver. A suite
// that cannot do that proves nothing about anybody.
package faulty
