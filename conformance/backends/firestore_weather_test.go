package backends_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/firestore"
)

// firestoreFault is an error that the emulator does not produce by itself.
type firestoreFault struct {
	method string // end of the method's name
	code   codes.Code
	times  int  // how often; -1 is always
	after  bool // the server has done the work, and only the answer is lost
}

// take reports whether the fault strikes a request.
func (lab *firestoreLab) take(method string) (firestoreFault, bool) {
	for {
		f := lab.fault.Load()
		if f == nil || !strings.HasSuffix(method, f.method) || f.times == 0 {
			return firestoreFault{}, false
		}
		next := *f
		next.times--
		if lab.fault.CompareAndSwap(f, &next) {
			return *f, true
		}
	}
}

func (lab *firestoreLab) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if strings.HasSuffix(method, "/Commit") {
		lab.commits.Add(1)
	}
	f, strikes := lab.take(method)
	if strikes && !f.after {
		return status.Error(f.code, "injected")
	}
	err := call(ctx, method, req, reply, conn, opts...)
	if strikes && err == nil {
		err = status.Error(f.code, "injected, after the work was done")
	}
	return err
}

func (lab *firestoreLab) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	lab.reads.Add(1)
	if f, strikes := lab.take(method); strikes {
		return nil, status.Error(f.code, "injected")
	}
	return open(ctx, desc, conn, method, opts...)
}

// do runs fn while a fault strikes.
func (lab *firestoreLab) do(f firestoreFault, fn func()) {
	lab.fault.Store(&f)
	defer lab.fault.Store(nil)
	fn()
}

func TestFirestoreWeather(t *testing.T) {
	addr := startFirestore(t).Addr
	for name, test := range map[string]func(*testing.T, *firestoreLab){
		"a few refusals are no failure":  firestoreFewRefusals,
		"without end it is unavailable":  firestoreNoEnd,
		"lost answers":                   firestoreLostAnswers,
		"denied":                         firestoreDenied,
		"the fields are refused":         firestoreFieldsRefused,
		"the caller's deadline":          firestoreDeadline,
		"a wrong database is no absence": firestoreNoDatabase,
	} {
		t.Run(name, func(t *testing.T) {
			lab := newFirestoreLab(t, addr, firestore.Config{Timeout: 2 * time.Second})
			warmUpFirestore(t, lab)
			test(t, lab)
		})
	}
}

// warmUpFirestore waits until a new database has answered its first request.
func warmUpFirestore(t testing.TB, lab *firestoreLab) {
	t.Helper()
	warm := driver.Partition("warm").Head()
	for err := core.ErrUnavailable; err != nil; {
		if _, err = lab.Put(t.Context(), warm, driver.Record{}, driver.Condition{}); err != nil && !errors.Is(err, core.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if err := lab.Delete(t.Context(), warm, driver.Condition{}); err != nil {
		t.Fatal(err)
	}
}

var (
	weatherKey    = driver.Partition("f").Head()
	weatherRecord = driver.Record{State: []byte(`{"a":1}`), Data: []byte("d")}
)

func firestoreFewRefusals(t *testing.T, lab *firestoreLab) {
	for _, code := range []codes.Code{codes.Aborted, codes.Unavailable, codes.ResourceExhausted} {
		lab.do(firestoreFault{"/Commit", code, 2, false}, func() {
			tag, err := lab.Put(t.Context(), weatherKey, weatherRecord, driver.Condition{})
			if err == nil {
				_, err = lab.Put(t.Context(), weatherKey, weatherRecord, driver.IfTag(tag))
			}
			if err != nil {
				t.Errorf("%v: %v", code, err)
			}
		})
		lab.do(firestoreFault{"/BatchGetDocuments", code, 1, false}, func() {
			if _, err := lab.Get(t.Context(), weatherKey); err != nil {
				t.Errorf("%v: %v", code, err)
			}
		})
		lab.do(firestoreFault{"/Commit", code, 1, false}, func() {
			if err := lab.PutSiblings(t.Context(), driver.Partition(code.String()), []driver.Record{{Sort: "a"}, {Sort: "b"}}); err != nil {
				t.Errorf("%v: %v", code, err)
			}
		})
	}
}

func firestoreNoEnd(t *testing.T, lab *firestoreLab) {
	tag, err := lab.Put(t.Context(), weatherKey, weatherRecord, driver.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []codes.Code{codes.Aborted, codes.Unavailable, codes.ResourceExhausted, codes.Internal} {
		lab.do(firestoreFault{"", code, -1, false}, func() {
			start := time.Now()
			_, getErr := lab.Get(t.Context(), weatherKey)
			_, putErr := lab.Put(t.Context(), weatherKey, weatherRecord, driver.IfTag(tag))
			delErr := lab.Delete(t.Context(), weatherKey, driver.Condition{})
			for what, err := range map[string]error{"Get": getErr, "Put": putErr, "Delete": delErr} {
				if !errors.Is(err, core.ErrUnavailable) || core.OutcomeUnknown(err) != (what != "Get") {
					t.Errorf("%v: %s: %v", code, what, err)
				}
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%v: it took %v to fail", code, took)
			}
		})
	}
	if r, err := lab.Get(t.Context(), weatherKey); err != nil || r.Tag != tag {
		t.Errorf("afterwards: %v, %v", r.Tag, err)
	}
}

// firestoreLostAnswers has the server do the work and the client repeat it.
func firestoreLostAnswers(t *testing.T, lab *firestoreLab) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Aborted} {
		p := driver.Partition(code.String())
		lost := firestoreFault{"/Commit", code, 1, true}
		var tag driver.Tag
		var err error
		lab.do(lost, func() { tag, err = lab.Put(t.Context(), p.Head(), weatherRecord, driver.IfAbsent()) })
		if err != nil {
			t.Errorf("%v: the own document is taken for another's: %v", code, err)
		}
		lab.do(lost, func() { tag, err = lab.Put(t.Context(), p.Head(), weatherRecord, driver.IfTag(tag)) })
		if err != nil {
			t.Errorf("%v: the own update is taken for another's: %v", code, err)
		}
		if r, err := lab.Get(t.Context(), p.Head()); err != nil || r.Tag != tag {
			t.Errorf("%v: the document has tag %v, the write returned %v (%v)", code, r.Tag, tag, err)
		}
		lab.do(lost, func() { err = lab.PutSiblings(t.Context(), p, []driver.Record{{Sort: "a"}, {Sort: "b"}}) })
		if err != nil {
			t.Errorf("%v: the own siblings are taken for another's: %v", code, err)
		}
		lab.do(lost, func() { err = lab.DeleteSiblings(t.Context(), p, []string{"a", "b"}) })
		if err != nil {
			t.Errorf("%v: DeleteSiblings: %v", code, err)
		}
		lab.do(lost, func() { err = lab.Delete(t.Context(), p.Head(), driver.IfTag(tag)) })
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) || conflict.Sure || conflict.Current != nil {
			t.Errorf("%v: a delete that was repeated: %v, want a conflict that is not sure", code, err)
		}
	}
	// An answer that never comes leaves the outcome open, and here it has happened.
	lab.do(firestoreFault{"/Commit", codes.DeadlineExceeded, -1, true}, func() {
		_, err := lab.Put(t.Context(), weatherKey, weatherRecord, driver.IfAbsent())
		if !errors.Is(err, core.ErrUnavailable) || !core.OutcomeUnknown(err) {
			t.Errorf("no answer: %v", err)
		}
	})
	if _, err := lab.Get(t.Context(), weatherKey); err != nil {
		t.Errorf("the write without an answer: %v", err)
	}
}

func firestoreDenied(t *testing.T, lab *firestoreLab) {
	for _, code := range []codes.Code{codes.PermissionDenied, codes.Unauthenticated} {
		lab.do(firestoreFault{"", code, -1, false}, func() {
			_, getErr := lab.Get(t.Context(), weatherKey)
			_, putErr := lab.Put(t.Context(), weatherKey, weatherRecord, driver.Condition{})
			errs := []error{getErr, putErr, lab.Delete(t.Context(), weatherKey, driver.Condition{}), lab.PutSiblings(t.Context(), "f", []driver.Record{{Sort: "a"}, {Sort: "b"}})}
			for _, err := range lab.Range(t.Context(), "f", driver.RangeOptions{}) {
				errs = append(errs, err)
			}
			for _, err := range lab.Partitions(t.Context(), driver.ListOptions{}) {
				errs = append(errs, err)
			}
			for i, err := range errs {
				if !errors.Is(err, core.ErrDenied) || core.OutcomeUnknown(err) {
					t.Errorf("%v: call %d: %v", code, i, err)
				}
			}
			if len(errs) != 6 {
				t.Errorf("%d errors, want 6", len(errs))
			}
		})
	}
}

// firestoreFieldsRefused is what an index of the user's own can lead to.
func firestoreFieldsRefused(t *testing.T, lab *firestoreLab) {
	lab.do(firestoreFault{"/Commit", codes.InvalidArgument, 1, false}, func() {
		tag, err := lab.Put(t.Context(), weatherKey, weatherRecord, driver.IfAbsent())
		if err != nil {
			t.Fatal(err)
		}
		if r, err := lab.Get(t.Context(), weatherKey); err != nil || r.Tag != tag || string(r.State) != `{"a":1}` {
			t.Errorf("%+v, %v", r, err)
		}
	})
	if _, err := lab.pythonLoads(t, "f"); err == nil {
		t.Error("the state is in the fields that were refused")
	}
	lab.do(firestoreFault{"/Commit", codes.InvalidArgument, -1, false}, func() {
		if _, err := lab.Put(t.Context(), weatherKey, weatherRecord, driver.Condition{}); !errors.Is(err, core.ErrUnsupported) || core.OutcomeUnknown(err) {
			t.Errorf("always refused: %v", err)
		}
	})
}

func firestoreDeadline(t *testing.T, lab *firestoreLab) {
	lab.do(firestoreFault{"", codes.Unavailable, -1, false}, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := lab.Put(ctx, weatherKey, weatherRecord, driver.Condition{}); !errors.Is(err, context.DeadlineExceeded) || !core.OutcomeUnknown(err) {
			t.Errorf("Put: %v", err)
		}
		if _, err := lab.Get(ctx, weatherKey); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get: %v", err)
		}
	})
}

// firestoreNoDatabase is how Firestore says that there is no such project or database.
func firestoreNoDatabase(t *testing.T, lab *firestoreLab) {
	lab.do(firestoreFault{"", codes.NotFound, -1, false}, func() {
		if _, err := lab.Get(t.Context(), weatherKey); !errors.Is(err, core.ErrUnsupported) || errors.Is(err, core.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		for _, cond := range []driver.Condition{{}, driver.IfAbsent(), driver.IfTag("1700000000000000000")} {
			if _, err := lab.Put(t.Context(), weatherKey, weatherRecord, cond); !errors.Is(err, core.ErrUnsupported) {
				t.Errorf("Put: %v", err)
			}
		}
	})
}
