package reducer_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirflow/weir/reducer"
)

const support = `[
 {"role":"system","content":"You are the help desk of a library."},
 {"role":"user","content":"Is the atlas on the shelf?"},
 {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{}"}}]},
 {"role":"tool","tool_call_id":"c1","content":"2 copies"},
 {"role":"assistant","content":"Yes, two copies."},
 {"role":"user","content":"Reserve one."}]`

func Example() {
	r, err := reducer.New(reducer.Config{MaxMessages: 5, MinMessages: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := r.ReduceJSON(context.Background(), []byte(support))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n%d pruned\n", res.Messages, len(res.Pruned))
	// Output:
	// [{"role":"system","content":"You are the help desk of a library."},{"role":"user","content":"Reserve one."}]
	// 4 pruned
}

func ExampleNew() {
	_, err := reducer.New(reducer.Config{MaxMessages: 10, MinMessages: 20})
	fmt.Println(err)
	// Output:
	// reducer: configuration: MinMessages 20 is above MaxMessages 10: lower the one or raise the other
}

func ExampleValidate() {
	cut := `[{"role":"tool","tool_call_id":"c1","content":"2 copies"},{"role":"user","content":"Reserve one."}]`
	for _, v := range reducer.Validate([]byte(cut), reducer.OpenAI) {
		fmt.Println(v.Index, v.Rule)
	}
	// Output:
	// 0 orphan-result
}

func ExampleConfig_summarize() {
	r, err := reducer.New(reducer.Config{
		MaxMessages: 5, MinMessages: 4,
		Summarize: func(_ context.Context, removed []reducer.Message) (string, error) {
			var said []string
			for _, m := range removed { // an application asks its model here
				if m.Role == reducer.User {
					said = append(said, m.Text)
				}
			}
			return "The user asked: " + strings.Join(said, " "), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := r.ReduceJSON(context.Background(), []byte(support))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Summary)
	fmt.Println(res.MessagesBefore, "messages became", res.MessagesAfter)
	// Output:
	// The user asked: Is the atlas on the shelf?
	// 6 messages became 4
}

func ExampleHook() {
	archive := func(_ context.Context, d *reducer.Delivery) error {
		for _, m := range d.Messages { // an application stores them under m.Key here
			fmt.Printf("%s %v %q\n", d.Namespace, m.Role, m.Text)
		}
		return nil
	}
	r, err := reducer.New(reducer.Config{MaxMessages: 5, MinMessages: 3, Hooks: []reducer.Hook{archive}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := r.Scoped("flow-7").ReduceJSON(context.Background(), []byte(support)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// flow-7 user "Is the atlas on the shelf?"
	// flow-7 assistant ""
	// flow-7 tool "2 copies"
	// flow-7 assistant "Yes, two copies."
}

func ExampleReduce() {
	type message struct{ from, text string }
	roles := map[string]reducer.Role{"me": reducer.User, "bot": reducer.Assistant}
	access := reducer.Accessor[message]{
		Describe: func(m message) reducer.Message { return reducer.Message{Role: roles[m.from], Text: m.text} },
	}
	r, err := reducer.New(reducer.Config{MaxMessages: 3, MinMessages: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	chat := []message{{"me", "Hello"}, {"bot", "Hi!"}, {"me", "When do you open?"}, {"bot", "At nine."}}
	res, err := reducer.Reduce(context.Background(), r, chat, access)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Messages)
	// Output:
	// [{me When do you open?} {bot At nine.}]
}
