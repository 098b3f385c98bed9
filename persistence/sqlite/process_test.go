package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence/driver"
)

// runChild is what another process of a test does.
func runChild(job string) error {
	parts := strings.SplitN(job, "|", 3)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, err := Open(ctx, Config{Path: parts[1], Synchronous: Normal, BusyTimeout: 30 * time.Second})
	if err != nil {
		return err
	}
	switch parts[0] {
	case "open":
		_, err = d.Put(ctx, driver.Partition(parts[2]).Head(), head(`{}`), driver.IfAbsent())
	case "churn":
		err = churn(ctx, d)
	case "count":
		err = count(ctx, d, parts[2])
	default:
		err = fmt.Errorf("unknown job %q", parts[0])
	}
	return errors.Join(err, d.Close())
}

// count adds 1 to a shared number by compare-and-swap, as often as it is told.
func count(ctx context.Context, d *Driver, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	k := driver.Partition("counter").Head()
	for done := 0; done < n; {
		r, err := d.Get(ctx, k)
		if err != nil {
			return err
		}
		now, err := strconv.Atoi(string(r.Data))
		if err != nil {
			return err
		}
		_, err = d.Put(ctx, k, driver.Record{State: []byte(`{}`), SavedAt: time.Now(), Data: []byte(strconv.Itoa(now + 1))}, driver.IfTag(r.Tag))
		switch {
		case err == nil:
			done++
		case !errors.Is(err, core.ErrConflict):
			return err
		}
	}
	return nil
}

// churn saves one flow again and again, and prints the number of each save that is done.
func churn(ctx context.Context, d *Driver) error {
	for n := 1; ; n++ {
		if _, err := d.Put(ctx, driver.Partition("p").Head(), churned(n), driver.Condition{}); err != nil {
			return err
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
}

// churned is the n-th save of churn: of many pages, each of which tells n.
func churned(n int) driver.Record {
	part := []byte(strconv.Itoa(n) + ",")
	return driver.Record{
		State: fmt.Appendf(nil, `{"n":[%s0]}`, bytes.Repeat(part, 10_000)), Data: bytes.Repeat(part, 5_000),
		SavedAt: time.Unix(int64(n), 0).UTC(),
	}
}

func TestAProcessThatIsKilledLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	seen := 0
	for round := range 5 {
		cmd := child(t, "churn", path, "")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for i := 0; i < 10+round*7 && lines.Scan(); i++ {
			seen, err = strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed

		d := openTest(t, Config{Path: path})
		r := mustGet(t, d, driver.Partition("p").Head())
		n := int(r.SavedAt.Unix())
		if want := churned(n); n < seen || !bytes.Equal(r.State, want.State) || !bytes.Equal(r.Data, want.Data) {
			t.Errorf("round %d: save %d is there, %d was acknowledged; whole: %v", round, n, seen, bytes.Equal(r.State, want.State))
		}
		db := openSQL(t, path)
		if rows := queryInt(t, db, `SELECT count(*) FROM flow_states`); rows != 1 {
			t.Errorf("round %d: %d rows", round, rows)
		}
		if bad := queryInt(t, db, `SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'`); bad != 0 {
			t.Errorf("round %d: the file is damaged", round)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func runAll(t *testing.T, cmds []*exec.Cmd) {
	t.Helper()
	var wg sync.WaitGroup
	for _, cmd := range cmds {
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		wg.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Errorf("child: %v\n%s", err, out.String())
			}
		})
	}
	wg.Wait()
}

func TestProcessesCreateOneFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "er", "new.db")
	testProcessesOpen(t, path)
}

func TestGoroutinesCreateOneFileAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "new.db")
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				<-start
				d, err := Open(t.Context(), Config{Path: path, Synchronous: Off})
				if err != nil {
					t.Error(err)
					return
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
	}
}

func TestProcessesMigrateOneFileAtOnce(t *testing.T) {
	path, db := newCrewFile(t)
	mustExec(t, db, crewSave, "u1", "theirs", crewTime, `{"n": 1}`)
	testProcessesOpen(t, path)
	if r := mustGet(t, openTest(t, Config{Path: path}), driver.Partition("u1").Head()); string(r.State) != `{"n": 1}` {
		t.Errorf("the row of CrewAI is %+v", r)
	}
}

// Two processes can find the same file incomplete; the second to get the lock has nothing to do.
func TestMigrationHasNothingToDoTheSecondTime(t *testing.T) {
	d := openTest(t, Config{Path: Memory})
	c, err := d.writer.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.writer.put(c, nil)
	if err := addMissing(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func testProcessesOpen(t *testing.T, path string) {
	const n = 6
	cmds := make([]*exec.Cmd, n)
	for i := range n {
		cmds[i] = child(t, "open", path, "flow-"+strconv.Itoa(i))
	}
	runAll(t, cmds)
	d := openTest(t, Config{Path: path})
	for i := range n {
		mustGet(t, d, driver.Partition("flow-"+strconv.Itoa(i)).Head())
	}
}

func TestLaw2CompareAndSwapAcrossProcesses(t *testing.T) {
	d := openTest(t, Config{})
	k := driver.Partition("counter").Head()
	mustPut(t, d, k, driver.Record{State: []byte(`{}`), SavedAt: time.Now(), Data: []byte("0")}, driver.IfAbsent())
	const processes, times = 4, 50
	cmds := make([]*exec.Cmd, processes)
	for i := range cmds {
		cmds[i] = child(t, "count", d.cfg.Path, strconv.Itoa(times))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := count(t.Context(), d, strconv.Itoa(times)); err != nil {
			t.Error(err)
		}
	})
	runAll(t, cmds)
	wg.Wait()
	if got := string(mustGet(t, d, k).Data); got != strconv.Itoa((processes+1)*times) {
		t.Errorf("counted to %s, want %d: an update was lost", got, (processes+1)*times)
	}
}
