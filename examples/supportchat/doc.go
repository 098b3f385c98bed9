// Supportchat is a support chat flow that survives kill -9.
//
// It replays a conversation with a scripted model, so that it needs no key: receive → route →
// answer with tool calls → reply. Each method's completion is saved through a Store that
// prunes the message history. With -crash-after N the process kills itself inside its N-th
// method, after the method's side effects and before its save; started again, it goes on at
// exactly that method.
//
//	go run ./examples/supportchat -crash-after 7    # again and again, until it is done
//
// When the conversation is done it prints the equality line: the hash of the final state, and
// that of a run in another process that never crashed.
package main
