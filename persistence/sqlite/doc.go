// Package sqlite keeps flows in one SQLite file, in the layout of CrewAI's own flow
// persistence, so that files of existing deployments are read and what Weir writes stays
// readable to them. It needs no server and no cgo (the engine is modernc.org/sqlite).
//
// # Set-up
//
// Either by URL, with the package imported for its side effect:
//
//	import _ "github.com/weirflow/weir/persistence/sqlite"
//
//	store, err := persistence.Open(ctx, "sqlite:weir.db")
//
// or with [Open] and a [Config]. There is nothing to install or to create first: the file,
// missing directories (for the owner only), tables and columns are made when it is opened.
//
//	sqlite:weir.db              relative to the working directory at Open
//	sqlite:///var/lib/weir.db   absolute; %3F, %23 and %25 stand for ? # and %
//	sqlite::memory:             in this process, gone with Close; for tests
//
// Options of the URL, each at most once: synchronous=full|normal|off|extra, mode=ro|rw,
// busy_timeout=10s (or milliseconds), history=1, readers=4. Any other is refused by its name.
//
// # Durability
//
// A save that returned is never lost when the process dies, by whatever signal. What a power
// failure or a crash of the system can take is a choice, [Config].Synchronous:
//
//	FULL (default)  nothing; each save waits for the disk once
//	NORMAL          the newest saves; the database stays consistent
//	OFF             possibly everything; for tests
//
// EXTRA is FULL for a database with a write-ahead log. A disk or virtual machine that confirms
// a sync it did not make voids all of it.
//
// # Several processes
//
// Any number of processes on one machine may have the file open, Python's included. One
// writes at a time; readers never wait for it, and see the last finished save. A writer waits
// for its turn up to the busy timeout (10 s) or the end of its context, then fails with
// core.ErrUnavailable and has written nothing. Within a process one connection writes and
// [Config].Readers read.
//
// Beside weir.db there are weir.db-wal (the write-ahead log, which holds saves) and
// weir.db-shm while the file is open, and after a crash until the next open. They belong to
// the database: copy, move or delete all three or none, best with VACUUM INTO or the .backup
// command of the sqlite3 program while in use. The file must be on a local disk. On network
// file systems (NFS, SMB, most shared volumes of containers) locks and shared memory do not
// work between machines, and the file gets corrupted.
//
// A file or mount that cannot be written, or mode=ro, serves reads; writes are
// core.ErrDenied. A full disk is core.ErrUnavailable, and the old state stays. A file that is
// no SQLite database, or has other tables under these names, is core.ErrCorrupt at Open and
// is left as it was.
//
// # Sizes
//
// A record holds up to 64 MiB; up to 8 MiB of it stay as they are. Above that the Store
// compresses a state, and then another program can no longer read that flow. Both are
// [Config].Limits. The space of deleted rows is used again; the file shrinks only by VACUUM.
//
// # Layout
//
// The tables of CrewAI with their indexes, and in them:
//
//	flow_states       one row a save; the head of a flow is its row with the highest id
//	  flow_uuid       the flow's ID as it is, compared byte by byte
//	  method_name
//	  timestamp       ISO 8601 in UTC with offset, as Python's isoformat writes it
//	  state_json      the state; a text that is no JSON where the state is not in the row
//	  weir_tag        the tag of this write; NULL: the row was written by another program
//	  weir_expire_at  milliseconds since 1970, or NULL
//	  weir_data       what Weir adds to a state
//	pending_feedback  rows of CrewAI, read; deleted when they are answered, or with their flow
//	weir_records      flow_uuid, sort, tag, expire_at, data: all records but the heads
//
// The weir_ columns and the index weir_flow_states_own are added to an old file when it is
// first opened for writing; older programs neither see nor need them. A save inserts a row, as
// CrewAI does, and removes Weir's rows of that flow beyond [Config].History (default 1: only
// the head) in the same transaction. Rows of other programs go only when the flow is deleted.
// A row that another program inserts becomes the head, without anything of Weir's. To change
// a state by hand, insert a row too: an UPDATE of state_json would keep the progress that
// belonged to the old state.
//
// # Flows that wait for a person
//
// A flow that CrewAI paused for feedback can be answered by Weir. While the head of the flow
// is CrewAI's own, flow.Pending lists its row of pending_feedback, and Resume with a
// flow.Answer goes on from it in a flow that has a method of that name with a flow.Review.
// As in CrewAI, the state that counts is the one in that row: rows that CrewAI added to
// flow_states after the pause stay, under the new head. The save of the answer deletes the row
// in its own transaction and demands that it is still the one that was read, so that of several
// processes of Weir one goes on, and none after CrewAI has taken an answer. CrewAI makes no
// such demand: one of its processes that has loaded the row goes on in any case, so stop those
// first.
//
// Of a row are read flow_id and method_name, which must be there, flow_class, method_output,
// message, emit, default_outcome and metadata; a row that does not read is core.ErrCorrupt.
// What the outcomes are, which of them is the default and who decides what a text means is up
// to the flow's definition. CrewAI stores nothing of other branches that were under way and of
// joins: they do not go on. Pauses of Weir are in its heads, not in pending_feedback.
//
// # Cost
//
// A save is one transaction of five statements; for a state of 1 KiB it writes four pages of
// 4 KiB to the log (the row, two indexes, a counter), and for larger ones the pages of the
// state as well. Beside an UPSERT and SELECT of the same bytes in a bare table with the same
// settings (BenchmarkSaveLoad), a save and load takes 1.1 to 1.5 times as long with FULL, where
// the wait for the disk dominates. With NORMAL it is 2.3 to 3.5 times at 1 KiB, which is the
// price of CrewAI's layout, and 0.8 to 1.5 times at 64 KiB. A load is one search in an index.
// Memory does not grow with the number of flows or records.
package sqlite
