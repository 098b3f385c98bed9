// Package persistence keeps the state of flows in the store a deployment already runs. It is
// one portable type, [Store], over a narrow interface, driver.Driver; the drivers live in
// the folders beside and below this one and are chosen by an import and a URL.
//
//	import _ "github.com/weirflow/weir/persistence/sqlite"
//
//	store, err := persistence.Open(ctx, "sqlite:weir.db")
//	saved, err := store.SaveState(ctx, core.Snapshot{FlowID: "c-42", Method: "answer", State: state})
//	snap, err := store.LoadState(ctx, "c-42")
//
// # What the Store adds to a driver
//
//   - Optimistic concurrency: core.IfRevision makes a save a compare-and-swap, and a save
//     whose reply was lost is recognized as one's own instead of reported as a conflict.
//   - Large states: over the driver's inline limit a state is compressed (zstd); over the
//     record limit it moves to segments beside the head, written before the head that names
//     them, so that a reader sees the old state or the new one and never a mixture.
//   - Pruning: [WithReducer] shortens the message history inside the save.
//   - Retention: [WithTTL] lets a flow expire, [WithHistory] keeps earlier snapshots.
//   - Deletion of a flow with everything under it, and [Store.Sweep] for what a killed
//     process left behind.
//
// # How a state is stored
//
// A flow has one head record and any number of siblings. The head holds what must agree: the
// state, the runtime's progress, the revision. It has an epoch (a random name given when the
// head is created and never used again), a tag (new at every physical write, made by the
// driver) and the tokens of the last writes of the state. Siblings live under their epoch:
//
//	""                           head: state, progress, revision, tokens
//	seg/<epoch>/<id>/<number>    a segment of a payload that one record cannot hold
//	h/<epoch>/<revision>/<id>    an earlier snapshot, with WithHistory
//	ev/<epoch>/<number>/<id>     a chunk of the flow's log; its newest entries are in the head
//	cp/<epoch>/<id>              a checkpoint; a large one owns segments by the same id
//	br/<epoch>/<hash>            a branch that was forked from a checkpoint
//
// A head that another program wrote has none of this and is a state without progress.
//
// A save costs one Put when the Store knows the head from its last save or load of that flow,
// else a Get and a Put; segments cost a Put each (or a batch, where the driver offers one).
package persistence
