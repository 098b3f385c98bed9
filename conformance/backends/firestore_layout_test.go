package backends_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/firestore"
)

// firestoreProjects counts the fresh databases of this run.
var firestoreProjects atomic.Int64

// firestoreLab is a fresh database with its driver, and the client to look behind it.
type firestoreLab struct {
	*firestore.Driver
	client  *gcp.Client
	flows   *gcp.CollectionRef
	commits atomic.Int64 // requests that write
	reads   atomic.Int64 // requests that read documents
	fault   atomic.Pointer[firestoreFault]
}

func newFirestoreLab(t testing.TB, addr string, cfg firestore.Config) *firestoreLab {
	t.Helper()
	lab := &firestoreLab{}
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(emulatorOwner{}),
		grpc.WithUnaryInterceptor(lab.unary), grpc.WithStreamInterceptor(lab.stream))
	if err != nil {
		t.Fatal(err)
	}
	project := fmt.Sprintf("lab-%d", firestoreProjects.Add(1))
	lab.client, err = gcp.NewClient(context.Background(), project, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.client.Close() })
	cfg.Client = lab.client
	if cfg.Timeout == 0 {
		cfg.Timeout = firestorePatience
	}
	if lab.Driver, err = firestore.Open(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	lab.flows = lab.client.Collection("flow_states")
	return lab
}

// raw returns a document as another program decodes it.
func (lab *firestoreLab) raw(t testing.TB, id string) map[string]any {
	t.Helper()
	snap, err := lab.flows.Doc(id).Get(t.Context())
	if err != nil {
		t.Fatalf("document %q: %v", id, err)
	}
	return snap.Data()
}

// pythonLoads does what load_state of the Python package does: all fields but the metadata. Its
// client refuses to decode a reference into another database.
func (lab *firestoreLab) pythonLoads(t testing.TB, id string) (state map[string]any, err error) {
	t.Helper()
	fields := lab.raw(t, id)
	own, _, _ := strings.Cut(lab.flows.Path, "/documents/")
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case *gcp.DocumentRef:
			if !strings.HasPrefix(v.Path, own+"/") {
				err = fmt.Errorf("%s does not correspond to the same database (%s)", v.Path, own)
			}
		case map[string]any:
			for _, x := range v {
				look(x)
			}
		case []any:
			for _, x := range v {
				look(x)
			}
		}
	}
	look(fields)
	delete(fields, "_persistence_meta")
	return fields, err
}

func (lab *firestoreLab) pythonSaves(t testing.TB, id string, fields map[string]any) {
	t.Helper()
	if _, err := lab.flows.Doc(id).Set(t.Context(), fields); err != nil {
		t.Fatal(err)
	}
}

// dump returns the paths of all documents below the collection, with the size of each.
func (lab *firestoreLab) dump(t testing.TB, coll *gcp.CollectionRef) map[string]int {
	t.Helper()
	out := map[string]int{}
	it := coll.DocumentRefs(t.Context())
	for {
		ref, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if snap, err := ref.Get(t.Context()); err == nil {
			out[ref.ID] = len(snap.Data())
		}
		below, err := ref.Collections(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range below {
			for name, n := range lab.dump(t, c) {
				out[ref.ID+"/"+c.ID+"/"+name] = n
			}
		}
	}
}

const pyTime = "2026-01-02T03:04:05.000678+00:00"

func TestFirestoreLayout(t *testing.T) {
	addr := startFirestore(t).Addr
	for name, test := range map[string]func(*testing.T, *firestoreLab){
		"what Python wrote is read":         firestoreReadsPython,
		"what Weir wrote Python reads":      firestorePythonReads,
		"Python over a document of Weir":    firestorePythonOver,
		"no field is left behind":           firestoreLeavesNoField,
		"one request a save":                firestoreOneRequest,
		"a large state, then a small one":   firestoreDumpIsClean,
		"headless flows are listed":         firestoreHeadless,
		"states in many scripts":            firestoreScripts,
		"expired, and written by two":       firestoreExpiredRace,
		"nothing of one tenant for another": firestoreTenants,
	} {
		t.Run(name, func(t *testing.T) { test(t, newFirestoreLab(t, addr, firestore.Config{})) })
	}
	t.Run("by URL", func(t *testing.T) { firestoreByURL(t, addr) })
	t.Run("sizes around 1 MiB", func(t *testing.T) { firestoreSizes(t, addr) })
}

func firestoreReadsPython(t *testing.T, lab *firestoreLab) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
	for id, fixture := range map[string]struct {
		fields map[string]any
		state  string
	}{
		// 0.1.0, as its documentation has it.
		"old": {
			map[string]any{"user_id": "kamal", "messages": []any{"..."}, "_method_name": "m", "_saved_at": pyTime},
			`{"user_id":"kamal","messages":["..."]}`,
		},
		// 0.2.0: native timestamps and bytes, int and float apart.
		"user@example.com": {
			map[string]any{"n": 1, "f": 1.0, "at": at, "raw": []byte("\x00\xff"), "deep": map[string]any{"at": []any{at}}, "_persistence_meta": pyMeta("m", pyTime)},
			`{"n":1,"f":1.0,"at":"2026-01-02T03:04:05.000678Z","raw":"AP8=","deep":{"at":["2026-01-02T03:04:05.000678Z"]}}`,
		},
		// 0.2.1: text only.
		"4f3c1a52-0b6e-4a5e-9d0e-000000000001": {
			map[string]any{"id": "x", "at": "2026-01-02T03:04:05Z", "none": nil, "empty": map[string]any{}, "l": []any{}, "big": int64(1) << 60, "_persistence_meta": pyMeta("m", pyTime)},
			`{"id":"x","at":"2026-01-02T03:04:05Z","none":null,"empty":{},"l":[],"big":1152921504606846976}`,
		},
		"other types": {
			map[string]any{"p": &latlng.LatLng{Latitude: 1.5, Longitude: 2}, "v": gcp.Vector64{1, 2.5}, "r": lab.flows.Doc("d"), "_method_name": "theirs", "_persistence_meta": pyMeta("m", pyTime)},
			`{"p":{"latitude":1.5,"longitude":2.0},"v":[1.0,2.5],"r":"` + lab.flows.Doc("d").Path + `","_method_name":"theirs"}`,
		},
		"forged": {
			map[string]any{"n": 1, "_persistence_meta": map[string]any{"method_name": "m", "saved_at": at, "weir_state": []byte(`{"n":2}`), "weir_expire_at": at, "weir_elsewhere": nil, "weir_data": []byte("x")}},
			`{"n":1}`,
		},
	} {
		lab.pythonSaves(t, id, fixture.fields)
		r, err := lab.Get(t.Context(), driver.Partition(id).Head())
		if err != nil || r.Method != "m" || !r.SavedAt.Equal(at) || !r.ExpireAt.IsZero() || (r.Data != nil) != (id == "forged") && r.Data != nil || !sameJSON(t, string(r.State), fixture.state) {
			t.Errorf("%s: %+v, state %s, %v\nwant %s", id, r, r.State, err, fixture.state)
		}
		if _, err := lab.Put(t.Context(), driver.Partition(id).Head(), driver.Record{State: []byte(`{"new":1}`), Data: []byte("d")}, driver.IfTag(r.Tag)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if got, err := lab.pythonLoads(t, id); err != nil || !reflect.DeepEqual(got, map[string]any{"new": int64(1)}) {
			t.Errorf("%s: Python loads %v (%v) after a save of Weir", id, got, err)
		}
	}
}

func firestorePythonReads(t *testing.T, lab *firestoreLab) {
	k := driver.Partition("u1").Head()
	r := driver.Record{
		State: []byte(`{"n":9007199254740993,"f":1.0,"s":"é😀","l":[{"a":null}],"_method_name":"mine"}`), Method: "answer",
		SavedAt: time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC), Data: []byte("progress"),
	}
	if _, err := lab.Put(t.Context(), k, r, driver.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"n": int64(9007199254740993), "f": 1.0, "s": "é😀", "l": []any{map[string]any{"a": nil}}, "_method_name": "mine"}
	if got, err := lab.pythonLoads(t, "u1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Python loads %v (%v)", got, err)
	}
	meta, _ := lab.raw(t, "u1")["_persistence_meta"].(map[string]any)
	if meta["method_name"] != "answer" || meta["saved_at"] != pyTime {
		t.Errorf("the metadata is %v", meta)
	}
	// What is not in the fields must not be read as an empty state.
	for _, state := range []string{"", `{"l":[[1]]}`, `{"_persistence_meta":{}}`, `{"n":1e400}`} {
		r.State = []byte(state)
		if _, err := lab.Put(t.Context(), k, r, driver.Condition{}); err != nil {
			t.Fatal(err)
		}
		if got, err := lab.pythonLoads(t, "u1"); err == nil {
			t.Errorf("Python loads %v where the state is %q", got, state)
		}
	}
}

func firestorePythonOver(t *testing.T, lab *firestoreLab) {
	k := driver.Partition("u1").Head()
	for _, state := range []string{`{"a":1,"b":2}`, `{"l":[[1]]}`} {
		r := driver.Record{State: []byte(state), Data: []byte("progress"), ExpireAt: time.Now().Add(time.Hour)}
		tag, err := lab.Put(t.Context(), k, r, driver.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		lab.pythonSaves(t, "u1", map[string]any{"n": 2, "_persistence_meta": pyMeta("theirs", pyTime)})
		got, err := lab.Get(t.Context(), k)
		if err != nil || got.Data != nil || !got.ExpireAt.IsZero() || got.Method != "theirs" || string(got.State) != `{"n":2}` {
			t.Errorf("%+v, %v; want only what Python wrote", got, err)
		}
		_, err = lab.Put(t.Context(), k, r, driver.IfTag(tag))
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) || conflict.Current == nil || conflict.Current.Tag != got.Tag {
			t.Errorf("Put on the tag of the document written over: %v", err)
		}
		if err := lab.Delete(t.Context(), k, driver.IfTag(tag)); !errors.Is(err, core.ErrConflict) {
			t.Errorf("Delete on the tag of the document written over: %v", err)
		}
	}
}

func firestoreLeavesNoField(t *testing.T, lab *firestoreLab) {
	k := driver.Partition("u1").Head()
	tag, err := lab.Put(t.Context(), k, driver.Record{State: []byte("{\"a\":1,\"b\":2,\"a.b\":3,\"`\":4,\" \":5,\"\\\\\":6,\"é/~*[]\":7}")}, driver.IfAbsent())
	for _, state := range []string{`{"b":1}`, `{"c":{"d":1,"e":2}}`, `{"c":{"d":1}}`, `{"x":[[1]]}`, `{}`, `{"b":1}`} {
		if err == nil {
			tag, err = lab.Put(t.Context(), k, driver.Record{State: []byte(state)}, driver.IfTag(tag))
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := lab.Get(t.Context(), k)
		if err != nil || !sameJSON(t, string(r.State), state) {
			t.Errorf("%s is read as %s (%v)", state, r.State, err)
		}
	}
	if names := slices.Sorted(maps.Keys(lab.raw(t, "u1"))); !slices.Equal(names, []string{"_persistence_meta", "b"}) {
		t.Errorf("the document has the fields %q", names)
	}
	// Another process has not seen the fields, and must not leave them either.
	other, err := firestore.Open(t.Context(), firestore.Config{Client: lab.client})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Put(t.Context(), k, driver.Record{State: []byte(`{"z":1}`)}, driver.IfTag(tag)); err != nil {
		t.Fatal(err)
	}
	if got, err := lab.pythonLoads(t, "u1"); err != nil || !reflect.DeepEqual(got, map[string]any{"z": int64(1)}) {
		t.Errorf("another process leaves %v (%v)", got, err)
	}
}

func firestoreOneRequest(t *testing.T, lab *firestoreLab) {
	s := persistence.New(lab.Driver)
	save := func() {
		t.Helper()
		if _, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "f", Method: "m", State: []byte(`{"n":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	save()
	lab.commits.Store(0)
	lab.reads.Store(0)
	for range 5 {
		save()
	}
	if c, r := lab.commits.Load(), lab.reads.Load(); c != 5 || r != 0 {
		t.Errorf("5 saves took %d requests to write and %d to read, want 5 and 0", c, r)
	}
	if _, err := s.LoadState(t.Context(), "f"); err != nil || lab.reads.Load() != 1 {
		t.Errorf("a load took %d requests (%v)", lab.reads.Load(), err)
	}
}

func firestoreDumpIsClean(t *testing.T, lab *firestoreLab) {
	s := persistence.New(lab.Driver)
	noise := make([]byte, 3<<20)
	x := uint64(88172645463325252)
	for i := range noise {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		noise[i] = 'a' + byte(x>>32)%26
	}
	for _, state := range []string{`{"n":1}`, `{"noise":"` + string(noise) + `"}`, `{"n":2}`} {
		if _, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "f", Method: "m", State: []byte(state)}); err != nil {
			t.Fatal(err)
		}
		got, err := s.LoadState(t.Context(), "f")
		if err != nil || !sameJSON(t, string(got.State), state) {
			t.Fatalf("a state of %d bytes comes back with %d (%v)", len(state), len(got.State), err)
		}
		if n := len(lab.dump(t, lab.flows)); len(state) < 100 && n != 1 || len(state) > 100 && n < 3 {
			t.Errorf("%d documents hold a state of %d bytes", n, len(state))
		}
	}
	if err := s.Delete(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	if left := lab.dump(t, lab.flows); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func firestoreHeadless(t *testing.T, lab *firestoreLab) {
	ids := []string{"plain", "a/b", strings.Repeat("/", 1000), "..", "__x__"}
	for _, id := range ids {
		p := driver.Partition(id)
		if err := lab.PutSiblings(t.Context(), p, []driver.Record{{Sort: "a/1"}, {Sort: "a/2"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lab.flows.Doc("stranger").Collection("notes").Doc("1").Set(t.Context(), map[string]any{"a": 1}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range lab.Partitions(t.Context(), driver.ListOptions{PageSize: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		if !e.Headless {
			t.Errorf("%.20q is listed with a head", e.Partition)
		}
		got = append(got, string(e.Partition))
	}
	slices.Sort(ids)
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		t.Errorf("listed are %.60q", got)
	}
}

// firestoreExpiredRace lets many create a flow whose document has expired.
func firestoreExpiredRace(t *testing.T, lab *firestoreLab) {
	k := driver.Partition("f").Head()
	dead := driver.Record{State: []byte(`{"dead":1,"x":2}`), ExpireAt: time.Now().Add(-time.Second)}
	for round := range 5 {
		if _, err := lab.Put(t.Context(), k, dead, driver.Condition{}); err != nil {
			t.Fatal(err)
		}
		const writers = 8
		errs := make(chan error, writers)
		for i := range writers {
			go func() {
				_, err := lab.Put(context.Background(), k, driver.Record{State: fmt.Appendf(nil, `{"writer":%d}`, i)}, driver.IfAbsent())
				errs <- err
			}()
		}
		won := 0
		for range writers {
			switch err := <-errs; {
			case err == nil:
				won++
			case !errors.Is(err, core.ErrConflict):
				t.Error(err)
			}
		}
		if names := lab.raw(t, "f"); won != 1 || len(names) != 2 {
			t.Errorf("round %d: %d writers created the flow, which has %v", round, won, names)
		}
	}
}

func firestoreTenants(t *testing.T, lab *firestoreLab) {
	open := func(prefix string) *firestore.Driver {
		d, err := firestore.Open(t.Context(), firestore.Config{Client: lab.client, TenantPrefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b := open("a:"), open("b:")
	ids := []string{"f", "b:f", "x/y", "."}
	for _, id := range ids {
		for i, d := range []*firestore.Driver{a, b} {
			r := driver.Record{State: fmt.Appendf(nil, `{"tenant":%d}`, i)}
			if _, err := d.Put(t.Context(), driver.Partition(id).Head(), r, driver.IfAbsent()); err != nil {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	var got []string
	for e, err := range a.Partitions(t.Context(), driver.ListOptions{PageSize: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Partition))
	}
	slices.Sort(ids)
	slices.Sort(got)
	if !slices.Equal(ids, got) {
		t.Errorf("a tenant's flows are %q", got)
	}
	if _, ok := lab.raw(t, "a:f")["tenant"]; !ok {
		t.Error("the document is not called a:f")
	}
}

// firestoreByURL opens by the option emulator, and by the environment variable of the SDK.
func firestoreByURL(t *testing.T, addr string) {
	save := func(url, state string) {
		t.Helper()
		s, err := persistence.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SaveState(t.Context(), core.Snapshot{FlowID: "f", State: []byte(state)}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		for info, err := range s.Flows(t.Context(), driver.ListOptions{}) {
			if err != nil || info.FlowID != "f" {
				t.Errorf("%s: %+v, %v", url, info, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	load := func(url, want string) {
		t.Helper()
		s, err := persistence.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := s.LoadState(t.Context(), "f")
		if err != nil || string(snap.State) != want {
			t.Errorf("%s: %s, %v; want %s", url, snap.State, err, want)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	urls := []string{"firestore://by-url/flows", "firestore://by-url/tenants/a/flows", "firestore://by-url/flows?database=second", "firestore://by-url/flows?tenant=a:", "firestore://by-url"}
	for i, url := range urls {
		option := "?emulator="
		if strings.Contains(url, "?") {
			option = "&emulator="
		}
		save(url+option+addr, fmt.Sprintf(`{"n":%d}`, i))
	}
	t.Setenv("FIRESTORE_EMULATOR_HOST", addr)
	for i, url := range urls {
		load(url, fmt.Sprintf(`{"n":%d}`, i))
	}
}
