// Package servers gives tests real servers.
//
// Each is a child process that works in a folder of its own below the system's temporary one
// and listens on free ports of the loopback address. It ends with [Process.Close], at the
// latest (on Linux) with the test binary that started it, and what a killed run has left is
// removed when the next server is started. A program that is not installed is an error that
// says what to do.
//
// [Redis] starts one server, [StartCluster] three primaries with a replica each,
// [StartSentinel] a primary and a replica that three sentinels watch, and [Listen] a proxy that
// loses, delays and cuts what goes through it. [Dynalite] and [Moto] are emulators of DynamoDB
// and [Firestore] is Google's of Firestore, all of them in memory. [Endpoints] reads the servers that somebody
// runs already from the environment.
package servers
