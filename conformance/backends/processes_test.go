package backends_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirflow/weir/conformance/internal/linear"
	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
)

// workerJob is the environment variable that makes a process of this binary a worker.
const workerJob = "WEIR_TEST_WORKER"

// job is what a worker has to do: calls on flows at random, written down in a log.
type job struct {
	Client int
	URL    string
	Log    string
	Flows  []string
	Claims []request // open when the workers begin
	Calls  int       // on each flow
	Slowly bool
	Seed   uint64
}

// note is a line of a log: the first of a call when it begins, and one more when it ends.
// Times are of the clock that all processes of a machine share.
type note struct {
	Flow   string
	Call   linear.Call
	Began  int64
	Ended  int64 // 0: it only began
	Answer linear.Answer
}

// How many processes there are, on how many flows. Each flow has a history of its own.
const (
	workers     = 4
	workerFlows = 4
)

// TestProcessesAreLinearizable has processes save, swap, load and delete the same flows in one
// SQLite file. One of them is killed on the way: what it had begun may have happened or not.
func TestProcessesAreLinearizable(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "flows.db") + "?synchronous=off&busy_timeout=20s"
	judgeProcesses(t, url, url, 14, func(_ context.Context, killOne func() error) error { return killOne() })
}

// judgeProcesses starts the workers at once, makes trouble until they are done, and judges
// what they wrote down. The URL direct leads to the same store past the trouble.
func judgeProcesses(t *testing.T, url, direct string, calls int, trouble func(ctx context.Context, killOne func() error) error) {
	t.Helper()
	dir, seed := t.TempDir(), rand.Uint64()
	var flows []string
	for n := range workerFlows {
		flows = append(flows, fmt.Sprintf("flow/%d", n))
	}
	claims := openRequests(t, direct, calls*workerFlows/claimEvery+1)
	var running []*worker
	for n := range workers {
		running = append(running, startWorker(t, job{
			Client: n, URL: url, Log: filepath.Join(dir, fmt.Sprint(n)), Flows: flows, Claims: claims, Calls: calls, Slowly: calls > 20, Seed: seed,
		}))
	}
	for _, w := range running {
		w.ready(t)
	}
	for _, w := range running {
		w.begin(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- trouble(ctx, running[0].killLater) }()
	for n, w := range running {
		if err := w.cmd.Wait(); err != nil && n > 0 {
			t.Errorf("worker %d: %v\n%s", n, err, w.messages.String())
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	histories, troubles := map[string][]porcupine.Operation{}, 0
	for _, w := range running {
		troubles += w.history(t, histories)
	}
	finishClaims(t, direct, claims, histories)
	finish(t, direct, histories)
	t.Logf("seed %d: %d calls met trouble", seed, troubles)
	if troubles == 0 {
		t.Errorf("no call met trouble; the test has shown nothing about it")
	}
	for flow, h := range histories {
		if undecided, err := linear.Check(h, time.Minute); err != nil {
			t.Errorf("seed %d: %s: %v", seed, flow, err)
		} else if undecided {
			t.Logf("%s: not decided in a minute", flow)
		}
	}
}

// finish adds a last load of each flow, then deletes all, and demands that nothing is left.
func finish(t *testing.T, url string, histories map[string][]porcupine.Operation) {
	t.Helper()
	s := mustOpenTight(t, url)
	for flow, h := range histories {
		if isClaim(flow) {
			continue
		}
		c := client(s, flow)
		call := linear.Call{Kind: linear.Load}
		began := time.Now().UnixNano()
		out, err := c.Do(t.Context(), call)
		if err != nil {
			t.Errorf("the last load of %s: %v", flow, err)
			continue
		}
		histories[flow] = append(h, porcupine.Operation{ClientId: workers, Input: call, Output: out, Call: began, Return: time.Now().UnixNano()})
		if err := s.Delete(t.Context(), flow); err != nil {
			t.Errorf("the last delete of %s: %v", flow, err)
		}
		if _, err := s.Sweep(t.Context(), flow); err != nil {
			t.Errorf("the last sweep of %s: %v", flow, err)
		}
	}
	for info, err := range s.Flows(t.Context(), driver.ListOptions{}) {
		t.Errorf("after all was deleted Flows lists %+v (%v)", info, err)
	}
}

// openTight opens a store in which larger states take several records.
func openTight(ctx context.Context, url string) (*persistence.Store, error) {
	return persistence.Open(ctx, url, persistence.WithLimits(driver.Limits{Record: 1024, Inline: 512}))
}

// mustOpenTight opens it for a test, which closes it in the end.
func mustOpenTight(t *testing.T, url string) *persistence.Store {
	t.Helper()
	s, err := openTight(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// client makes snapshots of which state and progress tell the same value.
func client(s linear.Store, flow string) *linear.Client {
	return &linear.Client{
		Store: s, Flow: flow,
		Snapshot: func(value int) core.Snapshot {
			r := rand.New(rand.NewPCG(uint64(value), 0))
			pad := make([]byte, value%2*1200)
			for i := range pad {
				pad[i] = 'a' + byte(r.IntN(26))
			}
			text := fmt.Appendf(nil, `{"n":%d,"pad":%q}`, value, pad)
			return core.Snapshot{FlowID: flow, State: text, Progress: text}
		},
		Value: func(s core.Snapshot) (int, error) {
			if !bytes.Equal(bytes.TrimSpace(s.State), bytes.TrimSpace(s.Progress)) {
				return 0, errors.New("state and progress are of two saves")
			}
			var v struct{ N int }
			err := json.Unmarshal(s.State, &v)
			return v.N, err
		},
	}
}

// worker is a process with a job.
type worker struct {
	job      job
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	stdout   *bufio.Reader
	messages *bytes.Buffer
}

func startWorker(t *testing.T, j job) *worker {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{job: j, cmd: exec.Command(os.Args[0], "-test.run=^TestWorkerProcess$"), messages: &bytes.Buffer{}}
	w.cmd.Env = append(os.Environ(), workerJob+"="+string(text))
	w.cmd.Stderr = w.messages
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.stdout = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}

// ready waits until the worker has opened its store.
func (w *worker) ready(t *testing.T) {
	t.Helper()
	if line, err := w.stdout.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("a worker says %q (%v): %s", line, err, w.messages.String())
	}
}

func (w *worker) begin(t *testing.T) {
	t.Helper()
	if err := w.stdin.Close(); err != nil {
		t.Fatal(err)
	}
}

// killLater kills the worker when it is half done.
func (w *worker) killLater() error {
	half := workerFlows * w.job.Calls // each call has two lines
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(w.job.Log)
		if err != nil {
			return err
		}
		if bytes.Count(text, []byte{'\n'}) >= half {
			break
		}
	}
	if err := w.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// troubled is how long a call takes that had to be repeated: no healthy one does.
const troubled = 30 * time.Millisecond

// history adds what the worker wrote down to the histories of the flows, and returns how many
// of its calls met trouble: they failed, have an open outcome, took long, or were never made.
func (w *worker) history(t *testing.T, histories map[string][]porcupine.Operation) (troubles int) {
	t.Helper()
	text, err := os.ReadFile(w.job.Log)
	if err != nil {
		t.Fatal(err)
	}
	var begun *note
	add := func(n note) {
		if n.Answer.Unknown || n.Answer.Failed || n.Ended-n.Began > int64(troubled) {
			troubles++
		}
		if n.Answer.Unknown {
			if n.Call.Kind == linear.Load || n.Call.Kind == linear.Look {
				return // it has told nobody anything
			}
			n.Ended = math.MaxInt64
		}
		histories[n.Flow] = append(histories[n.Flow], porcupine.Operation{
			ClientId: w.job.Client, Input: n.Call, Output: n.Answer, Call: n.Began, Return: n.Ended,
		})
	}
	for line := range strings.Lines(string(text)) {
		var n note
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			break // it was killed while it wrote; the call before is open
		}
		if begun = nil; n.Ended == 0 {
			begun = &n
			continue
		}
		add(n)
	}
	if calls := strings.Count(string(text), "\n") / 2; calls < w.job.Calls*len(w.job.Flows) {
		troubles++ // it was killed
	}
	if begun != nil {
		begun.Answer.Unknown = true
		add(*begun)
	}
	return troubles
}

// TestWorkerProcess is what the processes of the tests above run. In this one it does nothing.
func TestWorkerProcess(t *testing.T) {
	text, ok := os.LookupEnv(workerJob)
	if !ok {
		return
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	quietClient()
	s, err := openTight(t.Context(), j.URL)
	if err != nil {
		fail(err)
	}
	log, err := os.OpenFile(j.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		fail(err)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := j.work(t.Context(), s, log); err != nil {
		fail(err)
	}
	if err := errors.Join(s.Close(), log.Close()); err != nil {
		fail(err)
	}
}

// fail ends a worker; its standard output is a protocol, so the reason goes elsewhere.
func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (j job) work(ctx context.Context, s *persistence.Store, log io.Writer) error {
	r := rand.New(rand.NewPCG(j.Seed, uint64(j.Client)))
	clients := map[string]*linear.Client{}
	for _, f := range j.Flows {
		clients[f] = client(s, f)
	}
	kinds := []string{linear.Save, linear.Swap, linear.Swap, linear.Swap, linear.Load, linear.Load, linear.Delete}
	for n := range j.Calls * len(j.Flows) {
		flow := j.Flows[r.IntN(len(j.Flows))]
		c := clients[flow]
		line, do := note{Flow: flow, Call: linear.Call{Kind: kinds[r.IntN(len(kinds))], Value: (j.Client+1)*1000 + n, Expect: c.Expect()}}, c.Do
		if n%claimEvery < 2 { // the same requests for all workers at about the same time
			q := j.Claims[n/claimEvery]
			line.Flow, line.Call.Kind, line.Call.Expect = q.Flow, []string{linear.Claim, linear.Look}[n%claimEvery], 0
			do = func(ctx context.Context, in linear.Call) (linear.Answer, error) { return q.do(ctx, s, in) }
		}
		if j.Slowly {
			time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond) // time for trouble
		}
		line.Began = time.Now().UnixNano()
		if err := json.NewEncoder(log).Encode(line); err != nil {
			return err
		}
		out, err := do(ctx, line.Call)
		switch {
		case err == nil:
		case !errors.Is(err, core.ErrUnavailable):
			return err // no trouble that a client may meet
		case line.Call.Kind != linear.Save && line.Call.Kind != linear.Swap:
			out.Unknown = true // of a delete: the head may be gone, and the siblings were out of reach
		default:
			out.Failed = true
		}
		line.Answer, line.Ended = out, time.Now().UnixNano()
		if err := json.NewEncoder(log).Encode(line); err != nil {
			return err
		}
	}
	return nil
}
