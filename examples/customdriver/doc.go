// Package customdriver is a driver for Weir that one can write in one sitting: records are
// files in a directory. It is here to be read, and to be the beginning of another; it passes
// the whole conformance suite, from several processes on one directory.
//
// # How to write a driver
//
// Copy this package and go through package driver's laws. What has to be decided is always the
// same, and here it is:
//
//   - Where does a record live? In records/<partition>/<sort>. The ID of a flow may be any text,
//     so a hash of it is the name of the folder and the ID itself is kept in the record: no ID
//     ever becomes a path (law 1). All access goes through an os.Root, which leads nowhere else.
//   - What makes a write atomic? It is written beside its place and renamed (law 2). A reader
//     sees the old file or the new one, and needs no lock.
//   - What makes a condition hold? One writer a partition at a time, by a file lock that other
//     processes respect as well, from the reading of the old tag to the renaming (law 2).
//   - What is a tag? Random, so that it never comes again, whatever is deleted (law 4).
//   - Who removes what has expired? Every reader treats it as absent (law 5); the next writer
//     replaces the file.
//   - What is listed? The names are read at the beginning of a loop, so that writing inside it
//     never makes it endless, and a file that is gone when its turn comes is passed over (law 8).
//   - What do the errors of the store mean? See errorOf: "not found" only for what is not there.
//
// Then the test is one call, see conformance_test.go, and says which law is broken:
//
//	go test ./examples/customdriver
//
// A driver needs neither to compress nor to split what is too large, nor to keep a history:
// persistence.Store does all that over any driver.
//
// # What it is not
//
// Every flow costs a folder and every record a file, and listing reads one file a flow. A
// directory on a network file system must support flock and atomic renames. Use SQLite.
package customdriver
