package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/weirflow/weir/core"
	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/persistence"
	"github.com/weirflow/weir/persistence/driver"
	_ "github.com/weirflow/weir/persistence/dynamodb"
	_ "github.com/weirflow/weir/persistence/firestore"
	_ "github.com/weirflow/weir/persistence/inmem"
	_ "github.com/weirflow/weir/persistence/redis"
	_ "github.com/weirflow/weir/persistence/sqlite"
	"github.com/weirflow/weir/reducer"
)

// config is what the flags say.
type config struct {
	transcript   string
	conversation int
	store        string
	ledger       string
	crashAfter   int
	keep         int
	limit        int
	think        time.Duration
	reference    bool
}

func main() {
	var c config
	flag.StringVar(&c.transcript, "transcript", "", "`file` of conversations, one JSON object a line with OpenAI-format messages (default: a small one of its own)")
	flag.IntVar(&c.conversation, "conversation", 0, "which `line` of the transcript to replay, from 0")
	flag.StringVar(&c.store, "store", "sqlite:weir-demo.db", "`URL` of the store")
	flag.StringVar(&c.ledger, "ledger", "weir-demo.ledger", "`file` outside the store that records side effects")
	flag.IntVar(&c.crashAfter, "crash-after", 0, "kill this process inside its `N`-th method, N at least 2; 0 never")
	flag.IntVar(&c.keep, "keep", 16, "prune the history when it has more than this many `messages`")
	flag.IntVar(&c.limit, "limit", 0, "let no record of the store be larger than this many `bytes`; 0 takes the store's own limit")
	flag.DurationVar(&c.think, "think", 0, "`time` that the scripted model takes for an answer")
	flag.BoolVar(&c.reference, "reference", false, "run without crash on the store given and print the verdict as JSON (used by the program itself)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "supportchat:", err)
		stop()
		os.Exit(status(err)) //nolint:gocritic // stop was called
	}
}

// status is the exit status: a store that is away for now is told apart, as in sysexits.h, so
// that a supervisor starts the program again.
func status(err error) int {
	const temporary = 75
	if errors.Is(err, core.ErrUnavailable) {
		return temporary
	}
	return 1
}

func run(ctx context.Context, c config) error {
	if c.crashAfter == 1 || c.crashAfter < 0 {
		return errors.New("-crash-after needs 0 or at least 2: a process killed in its first method makes no progress")
	}
	talk, err := readConversation(c.transcript, c.conversation)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	if c.reference {
		return runReference(ctx, talk, store)
	}
	return replay(ctx, c, talk, store)
}

// openStore opens the store with the reducer that keeps the history short.
func openStore(ctx context.Context, c config) (*persistence.Store, error) {
	r, err := reducer.New(reducer.Config{MaxMessages: c.keep, MinMessages: c.keep / 2})
	if err != nil {
		return nil, err
	}
	opts := []persistence.Option{persistence.WithReducer(r, persistence.MessagesKey("messages"))}
	if c.limit > 0 {
		opts = append(opts, persistence.WithLimits(driver.Limits{Record: c.limit, Inline: c.limit}))
	}
	return persistence.Open(ctx, c.store, opts...)
}

// replay goes on with the conversation wherever it stopped, or begins it.
func replay(ctx context.Context, c config, talk conversation, store *persistence.Store) error {
	book, err := openLedger(c.ledger, talk.flowID)
	if err != nil {
		return err
	}
	defer book.close()
	s := &session{talk: talk, book: book, crashAfter: c.crashAfter, thinking: c.think}
	if err := s.resumeOrBegin(ctx, store); err != nil {
		return err
	}
	return printEquality(ctx, c, talk, store, book)
}

// resumeOrBegin runs the flow to its end.
func (s *session) resumeOrBegin(ctx context.Context, store core.FlowPersistence) error {
	def, err := s.definition()
	if err != nil {
		return err
	}
	screen := newScreen(os.Stdout, s)
	opts := []flow.RunOption{flow.WithStore(store), flow.Persist(), flow.SaveRetry{Attempts: 4, Wait: 50 * time.Millisecond},
		flow.MethodBudget(1_000_000), flow.RunBudget(1_000_000),
		flow.WithObserver(s.book.observe), flow.WithObserver(screen.observe)}
	if err := s.book.started(); err != nil {
		return err
	}
	_, err = def.Resume(ctx, s.talk.flowID, opts...)
	if errors.Is(err, core.ErrNotFound) {
		if err := s.book.begin(); err != nil {
			return err
		}
		_, err = def.Kickoff(ctx, flow.Inputs{"id": s.talk.flowID}, opts...)
	}
	screen.clear()
	return errors.Join(err, s.book.err)
}

// runReference runs the conversation in one go and prints what a run that crashed must equal.
func runReference(ctx context.Context, talk conversation, store *persistence.Store) error {
	s := &session{talk: talk, book: &ledger{}}
	def, err := s.definition()
	if err != nil {
		return err
	}
	saves := 0
	_, err = def.Kickoff(ctx, flow.Inputs{"id": talk.flowID}, flow.WithStore(store), flow.Persist(),
		flow.MethodBudget(1_000_000), flow.RunBudget(1_000_000),
		flow.WithObserver(func(_ context.Context, e flow.Event) {
			if _, ok := e.(flow.StateSaved); ok {
				saves++
			}
		}))
	if err != nil {
		return err
	}
	hash, err := stateHash(ctx, store, talk.flowID)
	if err != nil {
		return err
	}
	return printVerdict(os.Stdout, verdict{Hash: hash, Methods: saves, Refused: s.refused})
}
