// Package checkpoint keeps copies of a run while it goes on, so that it can be taken up again
// from any of them.
//
// A flow's newest state is what core.FlowPersistence keeps, and Resume goes on from there. A
// checkpoint is a copy beside it that later saves leave alone: state and progress as they were
// at one moment, with the checkpoint it followed, the branch it is on and what it was taken
// for. A run takes them if it is given a [Config]:
//
//	def.Kickoff(ctx, in, flow.WithStore(store), flow.Persist(),
//		flow.WithCheckpoints(checkpoint.Config{Keep: 20}))
//
// and a later one begins from one of them, as the same flow or as another (a fork):
//
//	def.Kickoff(ctx, nil, flow.WithStore(store), flow.FromCheckpoint(checkpoint.Ref{FlowID: "c-42", ID: id}))
//	def.Kickoff(ctx, nil, flow.WithStore(store), flow.FromCheckpoint(checkpoint.Ref{FlowID: "c-42"}), flow.Fork("cheaper"))
//
// Checkpoints belong to the flow they were taken of, and are deleted with it. Those of a fork
// belong to the fork: it has a copy of all that it began with, so nothing that happens to the
// flow it came from can break it.
package checkpoint
