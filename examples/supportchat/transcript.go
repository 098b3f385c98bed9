package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// conversation is the script: what the user says, and what the scripted model and its tools
// answer.
type conversation struct {
	flowID   string
	messages []message
}

// message is one message of the transcript; raw is it as it was written.
type message struct {
	raw   json.RawMessage
	Role  string            `json:"role"`
	Calls []json.RawMessage `json:"tool_calls"`
}

//go:embed testdata/transcript.jsonl
var ownTranscript []byte

// readConversation returns one line of a transcript; an empty path is the program's own.
func readConversation(path string, index int) (conversation, error) {
	var from io.Reader = bytes.NewReader(ownTranscript)
	if path != "" {
		f, err := os.Open(path)
		if err != nil {
			return conversation{}, err
		}
		defer f.Close()
		from = f
	}
	lines := bufio.NewReader(from)
	for at := 0; ; {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if at == index {
				return parseConversation(line, index)
			}
			at++
		}
		if errors.Is(err, io.EOF) {
			return conversation{}, fmt.Errorf("the transcript has %d conversations, there is no number %d (they count from 0)", at, index)
		}
		if err != nil {
			return conversation{}, err
		}
	}
}

func parseConversation(line []byte, index int) (conversation, error) {
	var file struct {
		ID       string            `json:"id"`
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(line, &file); err != nil {
		return conversation{}, fmt.Errorf("conversation %d: %w", index, err)
	}
	c := conversation{flowID: fmt.Sprintf("%s#%d", file.ID, index)}
	for i, raw := range file.Messages {
		m := message{raw: raw}
		if err := json.Unmarshal(raw, &m); err != nil {
			return conversation{}, fmt.Errorf("conversation %d, message %d: %w", index, i, err)
		}
		c.messages = append(c.messages, m)
	}
	return c, nil
}

// raws returns the messages in a range as they were written.
func (c conversation) raws(from, to int) []json.RawMessage {
	var raws []json.RawMessage
	for _, m := range c.messages[from:to] {
		raws = append(raws, m.raw)
	}
	return raws
}

// opening reports whether message i comes from outside: the user's side, not the model's.
func (c conversation) opening(i int) bool {
	switch c.messages[i].Role {
	case "user", "system", "developer":
		return true
	}
	return false
}

// end returns the first index from i on at which keep is false.
func (c conversation) end(i int, keep func(i int) bool) int {
	for i < len(c.messages) && keep(i) {
		i++
	}
	return i
}
