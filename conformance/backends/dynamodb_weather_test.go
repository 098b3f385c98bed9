package backends_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	"github.com/weirflow/weir/persistence/dynamodb"
)

func head(n int) driver.Record {
	return driver.Record{State: fmt.Appendf(nil, `{"n":%d}`, n), Method: "answer", Data: []byte("data")}
}

func (w *dynamoWeather) put(t *testing.T, k driver.Key, r driver.Record, cond driver.Condition) driver.Tag {
	t.Helper()
	tag, err := w.direct.Put(t.Context(), k, r, cond)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func (w *dynamoWeather) wantTag(t *testing.T, k driver.Key, tag driver.Tag) {
	t.Helper()
	if r, err := w.direct.Get(t.Context(), k); err != nil || r.Tag != tag {
		t.Errorf("the record has the tag %q (%v), want %q", r.Tag, err, tag)
	}
}

func (w *dynamoWeather) wantCount(t *testing.T, what, want string) {
	t.Helper()
	if got := w.wire.count(); got != want {
		t.Errorf("%s took the requests %q, want %q", what, got, want)
	}
}

// The SDK sends a request again whose reply was lost, and then meets its own write: with the
// refusal comes the item (moto), or the driver looks (dynalite).
func TestDynamoMeetsItsOwnWrite(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		w.put(t, driver.Partition("f").Head(), head(1), driver.IfAbsent())
		w.put(t, driver.Partition("f").Sibling("t"), driver.Record{}, driver.IfAbsent())
		for _, k := range []driver.Key{driver.Partition("g").Head(), driver.Partition("g").Sibling("s")} {
			cond := driver.IfAbsent()
			for _, failure := range []string{lost, "InternalServerError", lost} {
				w.wire.set(only("PutItem", 1, failure))
				tag, err := w.driver.Put(t.Context(), k, driver.Record{Data: []byte(failure)}, cond)
				if err != nil {
					t.Fatalf("Put of %q after %s: %v", k.Sort, failure, err)
				}
				w.wantTag(t, k, tag)
				cond = driver.IfTag(tag)
				if n := w.wire.counts["PutItem"]; n != 2 {
					t.Errorf("Put of %q after %s was sent %d times, want 2", k.Sort, failure, n)
				}
			}
		}
		k := driver.Partition("g").Head()
		store := persistence.New(w.driver)
		saved, err := store.SaveState(t.Context(), chatSave("swap", 1, 10))
		if err != nil {
			t.Fatal(err)
		}
		w.wire.set(only("PutItem", 1, lost))
		saved, err = store.SaveState(t.Context(), chatSave("swap", 2, 10), core.IfRevision(saved.Revision))
		if err != nil || saved.Revision.N != 2 {
			t.Errorf("a swap whose reply was lost: revision %v, %v", saved.Revision, err)
		}
		// Deleted by the attempt whose reply was lost: that is a conflict, and not a sure one.
		r, err := w.direct.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		w.wire.set(only("DeleteItem", 1, lost))
		var conflict *driver.ConflictError
		if err := w.driver.Delete(t.Context(), k, driver.IfTag(r.Tag)); !errors.As(err, &conflict) || conflict.Sure {
			t.Errorf("a Delete that met itself: %v, want a conflict that is not sure", err)
		}
	})
}

// Without a condition nothing tells a second attempt from a new write, which could undo what
// another writer did in between.
func TestDynamoUnconditionalIsSentOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		k := driver.Partition("f").Head()
		w.put(t, k, head(1), driver.IfAbsent())
		for _, failure := range []string{lost, "InternalServerError"} {
			w.wire.set(only("PutItem", 9, failure))
			_, err := w.driver.Put(t.Context(), k, head(2), driver.Condition{})
			wantSentinel(t, "Put whose reply is lost", err, core.ErrUnavailable)
			w.wantCount(t, "it", "PutItem 1")
			if !core.OutcomeUnknown(err) {
				t.Errorf("its outcome is certain: %v", err)
			}
			w.wire.set(only("DeleteItem", 9, failure))
			err = w.driver.Delete(t.Context(), k, driver.Condition{})
			w.wantCount(t, "Delete", "DeleteItem 1")
			if !errors.Is(err, core.ErrUnavailable) || !core.OutcomeUnknown(err) {
				t.Errorf("Delete whose reply is lost: %v", err)
			}
		}
		// What was refused, or not sent, was not done, and is tried again.
		for _, failure := range []string{"ThrottlingException", unsent} {
			w.wire.set(only("PutItem", 2, failure))
			if _, err := w.driver.Put(t.Context(), k, head(2), driver.Condition{}); err != nil {
				t.Errorf("Put after %s: %v", failure, err)
			}
			w.wantCount(t, "it", "PutItem 3")
		}
	})
}

func TestDynamoConflictIsSureOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		k := driver.Partition("f").Head()
		tag := w.put(t, k, head(1), driver.IfAbsent())
		for failure, sure := range map[string]bool{passOn: true, "ThrottlingException": true, unsent: true, "InternalServerError": false} {
			w.wire.set(only("PutItem", 1, failure))
			_, err := w.driver.Put(t.Context(), k, head(2), driver.IfAbsent())
			var conflict *driver.ConflictError
			if !errors.As(err, &conflict) || conflict.Sure != sure {
				t.Errorf("a conflict after %q is %+v (%v), want sure: %t", failure, conflict, err, sure)
				continue
			}
			if strings.Contains(w.server.name, "moto") && (!conflict.Known || conflict.Current == nil || conflict.Current.Tag != tag) {
				t.Errorf("a conflict after %q does not carry the record that came with it: %+v", failure, conflict)
			}
		}
	})
}

func TestDynamoThrottled(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		k := driver.Partition("f").Head()
		w.put(t, k, head(1), driver.IfAbsent())
		for _, name := range []string{
			"ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded",
			"TransactionConflictException", "ReplicatedWriteConflictException",
		} {
			w.wire.set(only("PutItem", 2, name))
			if _, err := w.driver.Put(t.Context(), k, head(2), driver.Condition{}); err != nil {
				t.Errorf("Put after two of %s: %v", name, err)
			}
			w.wire.set(only("PutItem", 1000, name))
			_, err := w.driver.Put(t.Context(), k, head(2), driver.Condition{})
			wantSentinel(t, "Put with nothing but "+name, err, core.ErrUnavailable)
			if core.OutcomeUnknown(err) {
				t.Errorf("%s was answered, and the error is not certain: %v", name, err)
			}
			if n := w.wire.counts["PutItem"]; n < 3 || n > 10 {
				t.Errorf("%d attempts at %s, want several and not many", n, name)
			}
		}
	})
}

// Each action that is refused is named, with its table.
func TestDynamoDenied(t *testing.T) {
	w := newDynamoWeather(t, dynalite(t))
	p := driver.Partition("f")
	w.put(t, p.Head(), head(1), driver.IfAbsent())
	w.put(t, p.Sibling("s"), driver.Record{}, driver.IfAbsent())
	missing, err := dynamodb.Open(t.Context(), dynamodb.Config{Client: dynamoClient(w.server.endpoint, w.wire), Table: "missing"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	calls := map[string]func() error{
		"GetItem":    func() error { _, err := w.driver.Get(ctx, p.Head()); return err },
		"PutItem":    func() error { _, err := w.driver.Put(ctx, p.Head(), head(2), driver.Condition{}); return err },
		"DeleteItem": func() error { return w.driver.Delete(ctx, p.Head(), driver.Condition{}) },
		"Query": func() (err error) {
			for _, err = range w.driver.Range(ctx, p, driver.RangeOptions{}) {
			}
			return err
		},
		"Scan": func() (err error) {
			for _, err = range w.driver.Partitions(ctx, driver.ListOptions{}) {
			}
			return err
		},
		"BatchWriteItem": func() error { return w.driver.DeleteSiblings(ctx, p, []string{"a", "b"}) },
		"CreateTable":    func() error { _, err := missing.Put(ctx, p.Head(), head(1), driver.IfAbsent()); return err },
		"DescribeTable":  func() error { return missing.Setup(ctx) },
	}
	for op, call := range calls {
		for _, name := range []string{"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"} {
			w.wire.set(only(op, 1000, name))
			err := call()
			wantSentinel(t, op+" with "+name, err, core.ErrDenied)
			if err != nil && (!strings.Contains(err.Error(), "dynamodb:"+op) || core.OutcomeUnknown(err)) {
				t.Errorf("%s with %s does not name the action, or is not certain: %v", op, name, err)
			}
			if n := w.wire.counts[op]; n != 1 {
				t.Errorf("%s with %s was tried %d times: it is of no use", op, name, n)
			}
		}
	}
}

func TestDynamoPartialBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		p := driver.Partition("f")
		var rs []driver.Record
		var sorts []string
		for i := range 60 {
			sorts = append(sorts, fmt.Sprintf("s/%02d", i))
			rs = append(rs, driver.Record{Sort: sorts[i], Data: []byte{byte(i)}})
		}
		if err := w.driver.PutSiblings(t.Context(), p, rs); err != nil {
			t.Fatal(err)
		}
		w.wire.set(only("BatchWriteItem", 1000, idle))
		err := w.driver.DeleteSiblings(t.Context(), p, sorts)
		wantSentinel(t, "a batch that is never processed", err, core.ErrUnavailable)
		if n := w.wire.counts["BatchWriteItem"]; n != 10 {
			t.Errorf("a batch that is never processed was sent %d times, want 10", n)
		}
		w.wire.set(only("BatchWriteItem", 1000, partial))
		if err := w.driver.DeleteSiblings(t.Context(), p, append(sorts[30:], sorts[20:]...)); err != nil {
			t.Errorf("a batch that is processed by halves: %v", err)
		}
		var left []string
		for r, err := range w.direct.Range(t.Context(), p, driver.RangeOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, r.Sort)
		}
		if len(left) != 20 {
			t.Errorf("%d siblings are left, want the first 20: %q", len(left), left)
		}
		// The heads of listed siblings are asked for in batches too.
		w.put(t, p.Head(), head(1), driver.IfAbsent())
		for i := range 30 {
			w.put(t, driver.Partition(fmt.Sprint("g", i)).Sibling("s"), driver.Record{}, driver.IfAbsent())
		}
		w.wire.set(only("BatchGetItem", 2, partial))
		n := 0
		for e, err := range w.driver.Partitions(t.Context(), driver.ListOptions{}) {
			if n++; err != nil || e.Headless == (e.Partition == p) {
				t.Errorf("a listing with partial batches yields %+v, %v", e, err)
			}
		}
		if n != 31 || w.wire.counts["BatchGetItem"] != 3 {
			t.Errorf("a listing with partial batches yields %d entries in %d batches, want 31 in 3", n, w.wire.counts["BatchGetItem"])
		}
	})
}

// A table that is there needs nothing but GetItem and PutItem for plain flow state.
func TestDynamoLeastPermissions(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		if err := w.direct.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wire.set(func(op string, _ int) string {
			if op == "GetItem" || op == "PutItem" {
				return passOn
			}
			return "AccessDeniedException"
		})
		for _, store := range []*persistence.Store{persistence.New(w.driver), persistence.New(w.driver, persistence.WithTTL(time.Hour))} {
			for n := range 3 {
				if _, err := store.SaveState(t.Context(), chatSave("f", n, 1000)); err != nil {
					t.Fatal(err)
				}
				if _, err := store.LoadState(t.Context(), "f"); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.wantCount(t, "six saves and loads", "DescribeTimeToLive 1, GetItem 8, PutItem 6")
		if got := w.log.String(); strings.Count(got, "TTL") != 1 || !strings.Contains(got, "dynamodb:DescribeTimeToLive") {
			t.Errorf("the log is %q, want one warning that names the action", got)
		}
		_, err := persistence.New(w.driver).LoadState(t.Context(), "nobody")
		wantSentinel(t, "load of nothing", err, core.ErrNotFound)
	})
}

func TestDynamoFrozen(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	s := dynaliteProcess(ctx, t)
	w := newDynamoWeather(t, dynamoServer{endpoint: "http://" + s.Addr})
	k := driver.Partition("f").Head()
	tag := w.put(t, k, head(1), driver.IfAbsent())
	impatient := w.open(t, dynamodb.Config{Client: w.raw, Timeout: 150 * time.Millisecond})
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer stop()
	_, err := w.direct.Put(short, k, head(2), driver.IfTag(tag))
	if !errors.Is(err, context.DeadlineExceeded) || !core.OutcomeUnknown(err) {
		t.Errorf("Put to a frozen server, until the caller's deadline: %v", err)
	}
	_, err = impatient.Put(t.Context(), k, head(2), driver.IfTag(tag))
	wantSentinel(t, "Put to a frozen server, until the driver's time limit", err, core.ErrUnavailable)
	if errors.Is(err, context.DeadlineExceeded) || !core.OutcomeUnknown(err) {
		t.Errorf("the caller's context has not ended, and the outcome is unknown: %v", err)
	}
	if err := s.Unpause(); err != nil {
		t.Fatal(err)
	}
	if _, err := impatient.Get(t.Context(), k); err != nil {
		t.Errorf("Get after the thaw: %v", err)
	}
}

// Many processes find no table at once.
func TestDynamoCreatedByMany(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		p := driver.Partition("f")
		if _, err := w.driver.Get(t.Context(), p.Head()); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("Get without a table: %v", err)
		}
		if _, err := w.driver.Put(t.Context(), p.Head(), head(1), driver.IfTag("w-x")); !errors.Is(err, core.ErrConflict) {
			t.Errorf("Put on a tag without a table: %v", err)
		}
		if err := w.driver.DeleteSiblings(t.Context(), p, []string{"s"}); err != nil {
			t.Errorf("DeleteSiblings without a table: %v", err)
		}
		w.wantCount(t, "all that", "BatchWriteItem 1, GetItem 1, PutItem 1")
		var all sync.WaitGroup
		for i := range 8 {
			d := w.open(t, dynamodb.Config{Client: w.raw})
			all.Go(func() {
				if i%2 == 0 {
					if err := d.Setup(t.Context()); err != nil {
						t.Errorf("Setup: %v", err)
					}
				}
				p := driver.Partition(fmt.Sprint("f", i))
				for _, k := range []driver.Key{p.Head(), p.Sibling("s")} {
					if _, err := d.Put(t.Context(), k, driver.Record{Data: []byte("x")}, driver.IfAbsent()); err != nil {
						t.Errorf("Put: %v", err)
					}
				}
			})
		}
		all.Wait()
	})
}
