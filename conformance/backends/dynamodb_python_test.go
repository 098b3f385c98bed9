package backends_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

type dynamoItem = map[string]types.AttributeValue

func s(text string) types.AttributeValue { return &types.AttributeValueMemberS{Value: text} }

// pythonItem is what the Python package puts, in any of its versions; the JSON has ASCII
// escapes, and the time the microseconds that isoformat writes.
func pythonItem(id, data string, at time.Time) dynamoItem {
	return dynamoItem{
		"flow_uuid": s(id), "data": s(data), "method_name": s("classify"),
		"saved_at": s(at.UTC().Format("2006-01-02T15:04:05.000000+00:00")),
	}
}

var pythonTime = time.Date(2026, 9, 1, 10, 20, 30, 123456000, time.UTC)

// pythonSaves is save_state: an unconditional PutItem of the whole item.
func (w *dynamoWeather) pythonSaves(t testing.TB, it dynamoItem) {
	t.Helper()
	if _, err := w.raw.PutItem(t.Context(), &awsdynamodb.PutItemInput{TableName: &w.table, Item: it}); err != nil {
		t.Fatal(err)
	}
}

// pythonLoads is load_state: a consistent GetItem, and data decoded; ok is false for KeyError.
func (w *dynamoWeather) pythonLoads(t testing.TB, id string) (state map[string]any, ok bool) {
	t.Helper()
	data, ok := w.rawItem(t, id)["data"].(*types.AttributeValueMemberS)
	if !ok {
		return nil, false
	}
	if err := json.Unmarshal([]byte(data.Value), &state); err != nil {
		t.Errorf("Python cannot decode %.80s: %v", data.Value, err)
	}
	return state, true
}

func (w *dynamoWeather) rawItem(t testing.TB, id string) dynamoItem {
	t.Helper()
	out, err := w.raw.GetItem(t.Context(), &awsdynamodb.GetItemInput{
		TableName: &w.table, Key: dynamoItem{"flow_uuid": s(id)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func (w *dynamoWeather) setup(t testing.TB) *persistence.Store {
	t.Helper()
	if err := w.direct.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return persistence.New(w.direct)
}

func TestDynamoReadsWhatPythonWrote(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		store := w.setup(t)
		for name, data := range map[string]string{
			"0.1.0 user@example.com": `{"id": "user@example.com", "messages": [{"role": "human", "content": "\u4f60\u597d \ud83d\ude00"}], "n": 9007199254740993}`,
			"0.2.0":                  `{"id": "0.2.0", "total": 12.5, "tags": ["a", "b"], "none": null, "nested": {"a": [[1], []]}}`,
			"0.2.1 dates as text":    `{"id": "x", "at": "2026-09-01T10:20:30Z", "price": "12.50", "bytes": "abc"}`,
			"a/b#c %_*?[]{}|'\"\\":   `{"id": "odd"}`,
		} {
			w.pythonSaves(t, pythonItem(name, data, pythonTime))
			got, err := store.LoadState(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.State) != data || got.Method != "classify" || !got.SavedAt.Equal(pythonTime) || got.Progress != nil || got.Revision.N != 1 {
				t.Errorf("%s is read as %+v", name, got)
			}
			next := chatSave(name, 2, 20)
			saved, err := store.SaveState(t.Context(), next, core.IfRevision(got.Revision))
			if err != nil || saved.Revision.N != 2 {
				t.Errorf("%s: a swap on top of Python's: %v, %v", name, saved.Revision, err)
			}
			if state, ok := w.pythonLoads(t, name); !ok || state["n"] != 2.0 {
				t.Errorf("Python reads %v", state)
			}
			w.wantAttributes(t, name)
		}
	})
}

// wantAttributes demands Python's attributes with Python's types, and Weir's beside them.
func (w *dynamoWeather) wantAttributes(t *testing.T, id string) {
	t.Helper()
	var got []string
	for name, v := range w.rawItem(t, id) {
		got = append(got, name+strings.TrimPrefix(fmt.Sprintf("%T", v), "*types.AttributeValueMember"))
	}
	slices.Sort(got)
	want := []string{"dataS", "flow_uuidS", "method_nameS", "saved_atS", "weir_dataB", "weir_tagS"}
	if !slices.Equal(got, want) {
		t.Errorf("the item has the attributes %q, want %q", got, want)
	}
}

func TestDynamoPythonWritesOverOurs(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		store := w.setup(t)
		ours := chatSave("f", 1, 10)
		ours.Progress = json.RawMessage(`{"v":1}`)
		saved, err := store.SaveState(t.Context(), ours)
		if err != nil {
			t.Fatal(err)
		}
		tag := w.get(t, "f").Tag
		w.pythonSaves(t, pythonItem("f", `{"theirs": 1}`, pythonTime))
		got, err := persistence.New(w.direct).LoadState(t.Context(), "f")
		if err != nil || string(got.State) != `{"theirs": 1}` || got.Progress != nil {
			t.Errorf("after Python's write the state is %s, the progress %s (%v)", got.State, got.Progress, err)
		}
		_, err = store.SaveState(t.Context(), chatSave("f", 2, 10), core.IfRevision(saved.Revision))
		wantSentinel(t, "a swap on a revision that Python wrote over", err, core.ErrConflict)
		_, err = w.direct.Put(t.Context(), driver.Partition("f").Head(), head(3), driver.IfTag(tag))
		wantSentinel(t, "Put on a tag that Python wrote over", err, core.ErrConflict)
	})
}

func (w *dynamoWeather) get(t testing.TB, id string) driver.Record {
	t.Helper()
	r, err := w.direct.Get(t.Context(), driver.Partition(id).Head())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The tag of Python's item stands for what it holds: any other write, of whatever attribute,
// takes it away, also in the moment between the driver's look and its write.
func TestDynamoTagsOfPython(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		w.setup(t)
		k := driver.Partition("f").Head()
		first := pythonItem("f", `{"a": 1}`, pythonTime)
		w.pythonSaves(t, first)
		tag := w.get(t, "f").Tag
		if tag != w.get(t, "f").Tag || tag == "" {
			t.Errorf("the tag of one item changes between reads")
		}
		others := map[string]dynamoItem{
			"another state":   pythonItem("f", `{"a": 2}`, pythonTime),
			"a later time":    pythonItem("f", `{"a": 1}`, pythonTime.Add(time.Microsecond)),
			"another method":  with(first, "method_name", s("answer")),
			"an expiry":       with(first, "ttl", &types.AttributeValueMemberN{Value: "4102444800"}),
			"no time":         with(first, "saved_at", nil),
			"no state":        with(first, "data", nil),
			"a tag of Weir's": with(first, "weir_tag", s("w-something")),
		}
		for name, other := range others {
			w.pythonSaves(t, other)
			if got := w.get(t, "f").Tag; got == tag {
				t.Errorf("%s: the tag is the same", name)
			}
			for _, when := range []string{"before", "in between"} {
				w.wire.set(nil)
				if when == "in between" {
					w.pythonSaves(t, first)
					w.wire.set(func(op string, n int) string {
						if (op == "PutItem" || op == "DeleteItem") && n == 0 {
							w.pythonSaves(t, other)
						}
						return passOn
					})
				}
				_, err := w.driver.Put(t.Context(), k, head(1), driver.IfTag(tag))
				wantSentinel(t, name+" "+when+" Put", err, core.ErrConflict)
				if when == "in between" {
					w.pythonSaves(t, first)
				}
				wantSentinel(t, name+" "+when+" Delete", w.driver.Delete(t.Context(), k, driver.IfTag(tag)), core.ErrConflict)
				if got := w.rawItem(t, "f"); len(got) != len(other) {
					t.Errorf("%s: after refused writes the item is %v", name, got)
				}
			}
		}
		w.pythonSaves(t, first)
		w.wire.set(nil)
		if _, err := w.driver.Put(t.Context(), k, head(1), driver.IfTag(tag)); err != nil {
			t.Errorf("Put on the tag of Python's item: %v", err)
		}
		w.wantCount(t, "it", "GetItem 1, PutItem 1")
		w.pythonSaves(t, first)
		if err := w.driver.Delete(t.Context(), k, driver.IfTag(tag)); err != nil {
			t.Errorf("Delete on the tag of Python's item: %v", err)
		}
	})
}

func with(it dynamoItem, name string, v types.AttributeValue) dynamoItem {
	it = maps.Clone(it)
	if it[name] = v; v == nil {
		delete(it, name)
	}
	return it
}

// DynamoDB deletes expired items days late, and Python reads them until then.
func TestDynamoPythonsExpiry(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		store := w.setup(t)
		ttl := func(at time.Time) types.AttributeValue {
			return &types.AttributeValueMemberN{Value: fmt.Sprint(at.Unix())}
		}
		w.pythonSaves(t, with(pythonItem("past", `{}`, pythonTime), "ttl", ttl(time.Now().Add(-time.Second))))
		w.pythonSaves(t, with(pythonItem("future", `{}`, pythonTime), "ttl", ttl(time.Now().Add(time.Hour))))
		_, err := store.LoadState(t.Context(), "past")
		wantSentinel(t, "load of an expired item", err, core.ErrNotFound)
		if _, err := w.direct.Put(t.Context(), driver.Partition("past").Head(), head(1), driver.IfAbsent()); err != nil {
			t.Errorf("Put on \"must not exist\" over an expired item: %v", err)
		}
		_, err = w.direct.Put(t.Context(), driver.Partition("future").Head(), head(1), driver.IfAbsent())
		wantSentinel(t, "Put on \"must not exist\" over a living item", err, core.ErrConflict)
		if r := w.get(t, "future"); time.Until(r.ExpireAt) < time.Minute {
			t.Errorf("Python's item expires at %v", r.ExpireAt)
		}
	})
}

// A state that is not in the item has no data there: load_state fails with a KeyError, and
// does not find an empty state.
func TestDynamoPythonFailsOnOverflow(t *testing.T) {
	onBoth(t, func(t *testing.T, w *dynamoWeather) {
		store := w.setup(t)
		big := core.Snapshot{FlowID: "f", Method: "m", State: noise(500_000), SavedAt: time.Now()}
		if _, err := store.SaveState(t.Context(), big); err != nil {
			t.Fatal(err)
		}
		if _, ok := w.pythonLoads(t, "f"); ok {
			t.Error("Python finds a state where there is none")
		}
		if _, err := store.SaveState(t.Context(), chatSave("f", 2, 10)); err != nil {
			t.Fatal(err)
		}
		if state, ok := w.pythonLoads(t, "f"); !ok || state["n"] != 2.0 {
			t.Errorf("a state that fits again is read by Python as %v", state)
		}
		// Nor does Weir find one where Python left none.
		w.pythonSaves(t, with(pythonItem("g", "", pythonTime), "data", nil))
		_, err := store.LoadState(t.Context(), "g")
		wantSentinel(t, "load of an item without data", err, core.ErrCorrupt)
		w.pythonSaves(t, with(pythonItem("g", "", pythonTime), "data", &types.AttributeValueMemberM{Value: dynamoItem{}}))
		_, err = store.LoadState(t.Context(), "g")
		wantSentinel(t, "load of an item with other data", err, core.ErrCorrupt)
		// The driver gives NaN and lone surrogates as they are; the Store judges them.
		odd := `{"x": NaN, "y": "\ud800"}`
		w.pythonSaves(t, pythonItem("h", odd, pythonTime))
		if got := w.get(t, "h"); string(got.State) != odd {
			t.Errorf("the state is %s, want it as Python wrote it", got.State)
		}
	})
}

// noise is a JSON object that does not get smaller.
func noise(size int) json.RawMessage {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	b := make([]byte, size)
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range b {
		b[i] = letters[rng.IntN(len(letters))]
	}
	return fmt.Appendf(nil, `{"x":%q}`, b)
}
