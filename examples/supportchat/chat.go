package main

import (
	"context"
	"encoding/json"
	"syscall"
	"time"

	"github.com/weirflow/weir/core/flow"
	"github.com/weirflow/weir/reducer"
)

// chat is the state of the flow.
type chat struct {
	ID       string            `json:"id"`
	Cursor   int               `json:"cursor"` // messages of the script that have been played
	Turns    int               `json:"turns"`  // messages of the user so far
	Tools    int               `json:"tools"`  // tools called so far
	Messages []json.RawMessage `json:"messages"`
}

// Labels of the router: what the script says comes next. Each carries the cursor.
const (
	moreInput flow.Label[int] = "more_input"
	needTools flow.Label[int] = "need_tools"
	needReply flow.Label[int] = "need_reply"
	goodbye   flow.Label[int] = "goodbye"
)

// session is one process's part of a conversation.
type session struct {
	talk       conversation
	book       *ledger
	crashAfter int
	thinking   time.Duration

	begun   int // methods this process began
	cursor  int // messages of the script that the last method had played
	kept    int // messages in its history
	refused int // requests to the model that a provider would refuse though the script is sound
}

// definition is the graph: a loop that ends when the script does.
func (s *session) definition() (*flow.Definition[chat], error) {
	b := flow.New[chat]("supportchat")
	receive := flow.Start(b, "receive", s.receive, flow.When(moreInput))
	flow.Router(b, "route", s.route, flow.Or(receive, flow.On[int]("answer"), flow.On[int]("reply")),
		flow.Emits(moreInput, needTools, needReply, goodbye))
	flow.Listen(b, "answer", s.answer, needTools)
	flow.Listen(b, "reply", s.reply, needReply)
	flow.Listen(b, "close", s.close, goodbye)
	return b.Build()
}

// receive takes what the user says next, and before it the instructions of the house.
func (s *session) receive(_ context.Context, run *flow.Run[chat]) (int, error) {
	return s.play(run, func(from int) int { return s.talk.end(from, s.talk.opening) })
}

// route looks at what the model would do next.
func (s *session) route(_ context.Context, run *flow.Run[chat], _ int) (flow.Route, error) {
	at := 0
	if err := run.State().View(func(c *chat) error { at = c.Cursor; return nil }); err != nil {
		return flow.Route{}, err
	}
	if err := s.sideEffect(run); err != nil {
		return flow.Route{}, err
	}
	switch {
	case at == len(s.talk.messages):
		return flow.To(goodbye, at), nil
	case s.talk.opening(at):
		return flow.To(moreInput, at), nil
	case s.talk.messages[at].Role == "assistant" && len(s.talk.messages[at].Calls) == 0:
		return flow.To(needReply, at), nil
	}
	return flow.To(needTools, at), nil
}

// answer lets the model call tools, and calls them.
func (s *session) answer(ctx context.Context, run *flow.Run[chat], _ int) (int, error) {
	if err := s.ask(ctx, run); err != nil {
		return 0, err
	}
	return s.play(run, func(from int) int {
		return s.talk.end(from+1, func(i int) bool {
			return !s.talk.opening(i) && s.talk.messages[i].Role != "assistant"
		})
	})
}

// reply lets the model speak.
func (s *session) reply(ctx context.Context, run *flow.Run[chat], _ int) (int, error) {
	if err := s.ask(ctx, run); err != nil {
		return 0, err
	}
	return s.play(run, func(from int) int { return from + 1 })
}

// close ends the conversation.
func (s *session) close(_ context.Context, run *flow.Run[chat], at int) (int, error) {
	err := run.State().View(func(c *chat) error {
		s.cursor, s.kept = c.Cursor, len(c.Messages)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return at, s.sideEffect(run)
}

// play appends the messages of the script from the cursor to the end that to finds.
func (s *session) play(run *flow.Run[chat], to func(from int) int) (int, error) {
	at := 0
	err := run.State().Update(func(c *chat) error {
		from := c.Cursor
		c.Cursor = to(from)
		for i, m := range s.talk.messages[from:c.Cursor] {
			if m.Role == "user" {
				c.Turns++
			}
			c.Tools += len(m.Calls)
			c.Messages = append(c.Messages, s.talk.messages[from+i].raw)
		}
		at, s.cursor, s.kept = c.Cursor, c.Cursor, len(c.Messages)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return at, s.sideEffect(run)
}

// sideEffect is what a method does to the world outside: a line in the ledger, on disk before
// it returns. Then, if it is this process's turn to die, it dies: after the effect, before the
// save.
func (s *session) sideEffect(run *flow.Run[chat]) error {
	s.begun++
	if err := s.book.effect(run.Method(), run.ActivationID()); err != nil {
		return err
	}
	if s.crashAfter == 0 || s.begun < s.crashAfter {
		return nil
	}
	if err := s.book.crash(); err != nil {
		return err
	}
	return syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
}

// ask sends the history to the scripted model, which answers what the script says.
func (s *session) ask(ctx context.Context, run *flow.Run[chat]) error {
	if err := s.checkRequest(run); err != nil {
		return err
	}
	select {
	case <-time.After(s.thinking):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// checkRequest validates the history as it would now be sent to a model. A request counts as
// refused only if the script itself, unpruned, would have been accepted.
func (s *session) checkRequest(run *flow.Run[chat]) error {
	return run.State().View(func(c *chat) error {
		request, err := json.Marshal(c.Messages)
		if err != nil {
			return err
		}
		script, err := json.Marshal(s.talk.raws(0, c.Cursor))
		if err != nil {
			return err
		}
		for _, p := range providers {
			if len(reducer.Validate(script, p)) == 0 && len(reducer.Validate(request, p)) > 0 {
				s.refused++
				return s.book.refusal(run.ActivationID(), p.String())
			}
		}
		return nil
	})
}

// providers are those whose rules a request must keep.
var providers = []reducer.Provider{reducer.OpenAI, reducer.Anthropic, reducer.Gemini, reducer.Bedrock, reducer.Mistral}
