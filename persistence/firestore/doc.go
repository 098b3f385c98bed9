// Package firestore keeps flows in Google Cloud Firestore (Native mode), in the documents of
// the Python package crewai-persistence-firestore, so that existing deployments are read and
// what Weir writes stays readable to them.
//
// # Set-up
//
// Either by URL, with the package imported for its side effect:
//
//	import _ "github.com/weirflow/weir/persistence/firestore"
//
//	store, err := persistence.Open(ctx, "firestore://my-project/flow_states")
//
// or with [Open] and the SDK's own client, which keeps its credentials, tracing and options.
// There is nothing to create: a collection is there with its first document. Options of the
// URL, each at most once; any other is refused by its name:
//
//	database=orders            another database than (default)
//	emulator=localhost:8080    an emulator, without TLS and credentials
//	tenant=acme:               Config.TenantPrefix
//	timeout=30s                Config.Timeout
//
// Without the option emulator, the SDK's environment variable FIRESTORE_EMULATOR_HOST counts.
// The Python package ignores the collection it is given in the argument "collection" and
// writes to flow_states, whatever its users believe.
//
// Set these once a database, for cost and for the limits of indexes; the first two keep
// Firestore from indexing what nobody queries, the others let it delete what has expired
// (optional: to Weir an expired record is absent at once):
//
//	gcloud firestore indexes fields update _persistence_meta --collection-group=flow_states --disable-indexes
//	gcloud firestore indexes fields update data --collection-group=weir_records --disable-indexes
//	gcloud firestore fields ttls update _persistence_meta.weir_expire_at --collection-group=flow_states --enable-ttl
//	gcloud firestore fields ttls update expire_at --collection-group=weir_records --enable-ttl
//
// Do the first for the fields of the state as well, above all the message list: each field
// costs two index entries, each element of a list one, at every save.
//
// # Permissions
//
// The role roles/datastore.user. In single permissions: datastore.entities.get, list, create,
// update and delete (a save is a create or an update; the listing of flows needs list).
// What is missing is core.ErrDenied.
//
// # Cost
//
// A save is one request and one document write: an update on condition of the document's last
// change. The first save of a flow that the process has not loaded costs a read before. A save
// that finds another writer's document costs a read after. A load is one read. Siblings (the
// segments of large states, history) are written in transactions of up to 500 documents and
// 3.75 MiB: two requests, one write a document. Partitions reads each document's metadata once,
// and those without a head twice. A reverse Range reads each sibling twice, since Firestore
// goes back only over an index that somebody has to create.
//
// Beside a bare Set and Get of the same fields, on the emulator, a save and load by condition
// makes the same two requests and takes about 1.2 times as long at 64 and 512 KiB
// (BenchmarkFirestoreSaveAndLoad in conformance/backends), which a network makes less of.
//
// # Limits
//
// A document holds 1 MiB; a state up to that is one document, a larger one moves to siblings.
// [Driver.Size] counts as Firestore does and refuses before anything is sent. Firestore
// sustains about one write a second to one document; bursts pass, and more is answered with
// ABORTED, which is tried again up to six times with growing pauses. UNAVAILABLE and
// RESOURCE_EXHAUSTED are treated alike, and the SDK repeats those by itself too. All of it ends
// with [Config].Timeout or the context, as core.ErrUnavailable. A write that got no answer is
// marked (core.OutcomeUnknown). Where the answer was lost and the repetition is refused, the
// driver recognizes its own write and reports success. A Put or Delete without a condition is
// repeated blindly, and can then write over what came in between; the Store uses conditions.
//
// # Durability
//
// A write that was acknowledged is on several disks, in several zones or regions as the
// database's location says; there is nothing to choose. Reads are strongly consistent. The
// emulator keeps everything in memory.
//
// # Layout
//
//	flow_states/{flow ID}                 the head
//	  …                                   the fields of the state, native, at the top level
//	  _persistence_meta                   a map, as the Python package writes it:
//	    method_name, saved_at             text; the time in ISO 8601, UTC
//	    weir_write                        random, new at every write
//	    weir_data                         bytes: what Weir adds to a state
//	    weir_expire_at                    timestamp
//	    weir_state                        bytes: the state as JSON, if fields cannot hold it
//	    weir_elsewhere                    a reference, if the fields are not the state
//	    weir_id                           the flow ID, if the document's ID is a hash
//	flow_states/{flow ID}/weir_records/…  siblings: data, write, expire_at, flow_id
//
// A flow ID is the document's ID as it is, if Firestore allows. One with a "/", of the form
// __x__, or equal to "." or ".." is ~weir~ and the ID with ~ as ~0 and / as ~1; what is over 1500
// bytes then is ~weir# and its SHA-256. IDs that begin so themselves are escaped.
//
// A state that fields could not give back exactly is kept as bytes: arrays in arrays, names
// like __x__, empty or over 1500 bytes, the name _persistence_meta, nesting over 19 levels,
// integers beyond 64 bits, decimals that a double does not hold digit by digit, negative zero,
// and states that would take more index entries than Firestore allows (39,900, or nearly 8
// MiB of them), or a document over 1 MiB where bytes fit. Such a flow, and one with a state in
// siblings, cannot be read by Python: its client fails to decode weir_elsewhere, a reference
// into another database. It would otherwise find an empty state. The same goes for every other
// client that reads whole documents, which is the purpose.
//
// Documents of other programs are read as they are: timestamps and bytes (version 0.2.0 of the
// Python package) become RFC 3339 and base64 text, references their path, points an object;
// metadata in _method_name and _saved_at counts where there is no _persistence_meta. When Python
// writes over a document of Weir's, everything of Weir's in it is gone, and the flow is one
// without progress. To change a state by hand, write the whole document without the weir_
// fields: an update of single fields would keep the progress that belonged to the old state.
package firestore
