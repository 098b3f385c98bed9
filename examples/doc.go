// Package examples holds small programs that show Weir at work, each in a folder of its own
// with its test.
package examples
