// Package flow runs agent and chat flows whose state survives the process.
//
// A flow is a set of methods connected by events. A method announces its own name when it
// completes; a router also announces the label it chose. Other methods wait for those names:
//
//	b := flow.New[ChatState]("support")
//	receive := flow.Start(b, "receive", receive)                        // Handle[Order]
//	flow.Router(b, "triage", triage, receive, flow.Emits(billing, technical))
//	flow.Listen(b, "answer", answer, flow.Or(billing, technical))
//	def, err := b.Build()
//
// Build checks the whole graph and returns a [Definition]: immutable, and shared by any
// number of runs at the same time. [Definition.Kickoff] performs one run and returns when
// nothing of it is running any more.
//
// # A method
//
// A method is an ordinary function. It gets a context that ends when the run is cut short, a
// [Run], and the payload of the event that triggered it:
//
//	func answer(ctx context.Context, run *flow.Run[ChatState], in Order) (Reply, error)
//
// Payloads and outputs travel as JSON, so that no two methods ever share memory and a method
// that runs again after a crash sees what it saw before.
//
// # State
//
// Methods run at the same time, and still each has the state to itself: [Run.State] gives a
// call its own view. Its updates become visible to others, and part of what is stored,
// together with the completion of the method, all or none. A method that fails leaves none.
//
// # Persistence and resume
//
// With [WithStore] and [Persist] each completion is saved, state and progress in one write,
// before anything that waits for it starts. [Definition.Resume] goes on from there: methods
// that completed never run again, joins, labels, outputs and counters are as they were, and a
// method that was in flight runs again with the same [Run.ActivationID], which is what makes
// its side effects idempotent. Every save is a compare-and-swap: if two processes run the
// same flow, the one that saves second gets core.ErrConflict, is stopped, and has stored
// nothing.
//
// # People and races
//
// A [Review] makes a person's feedback part of a method, and [Run.Ask] is a question in the
// middle of one. The request is stored with state and progress before a [Provider] is told;
// if the answer comes later the run pauses, which is a result and no error. [Pending] lists
// what is open, and Resume with an [Answer] goes on, in whichever process, exactly once. Both
// hold for a flow that another program paused, too, where the store is core.ForeignRequests.
//
// [FirstOf] lets methods race: the first completion wins, the others are canceled and waited
// for. [Or] cancels nobody.
//
// # Order
//
// One event triggers methods in the order of their definition. First the routers it triggers
// run, one after another, then the listeners of the event, together, and when all their work
// is done, including everything that followed from it, the listeners of each label in turn.
// The scheduler that decides this is a pure state machine; its serialized form is the
// progress that is stored.
//
// A loop costs no memory unless each of its rounds leaves something to do: an event that must
// wait until the loop ends is work, and is kept.
package flow
