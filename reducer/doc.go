/*
Package reducer keeps the message history of a chat or agent small enough for
the model's context and the store's record limit, without ever handing on a
history that a provider would refuse.

# What it does

A history is a JSON array of messages in whichever dialect the application
stores: OpenAI Chat and Responses, Anthropic, Gemini, Bedrock Converse, Vercel
AI SDK, or LangChain's three forms. The dialect is recognized from each message,
so histories may mix them and nothing has to be configured.

	r, err := reducer.New(reducer.Config{MaxMessages: 40, MinMessages: 20})
	res, err := r.ReduceJSON(ctx, messages)
	// res.Messages is what to store and send, res.Pruned what was removed.

Nothing happens until a limit is exceeded. Then the history is reduced to its
goal, which is well below the limit, so that the next messages do not trigger
it again and the provider's prompt cache stays warm.

# How it decides

Messages form units that are only valid together: an assistant's calls with all
their results, wherever the dialect puts them, and reasoning with the calls it
led to. Calls and results are paired by position first and by id second,
because ids repeat. Units form turns; a turn begins at each message of the user.

Pinned are the system messages that open the history; the live turn's user
message and last unit; and calls that are still waiting for a result. From the
rest, whole turns go, oldest first; if only the live turn is left, its steps go, oldest
first. Then it stops: Report.OverBudget says that what is left is more than
the limit. It cuts nothing inside a message.

# Laws

These hold in mode [Strict] for every input and configuration, and each is
tested on random histories and by fuzzing.

 1. If a provider accepts the input, it accepts the output (see [Validate]).
 2. Reducing twice is reducing once.
 3. Survivors keep their order, and their bytes.
 4. Nothing is invented, but summaries and, with RepairAnswer, answers; both are reported.
 5. Survivors and Result.Pruned together are the input, but for those.
 6. The user's last message survives, and the leading system messages.
 7. Calls without a result survive, unless a repair was asked for and the
    conversation went on without them.
 8. The result is within the goal, or Report.AboveGoal is set; a result over
    a limit has Report.OverBudget set.
 9. The same conversation is reduced alike in every dialect that writes it in
    as many messages.
 10. Input is never changed or kept, and no input makes it panic: what is no
    JSON array is an error that wraps [ErrInput].
 11. Time and memory are linear in the length of the history.

Mode [Compat] has none of these. It repeats what the Python package
agentstate-reducer 0.5.0 does, for applications that depend on it.

# Summaries and hooks

Config.Summarize can put a summary in the place of what was removed, and
Config.Hooks can hand it to long-term memory before it is gone. [Reduce] is the
entrance for histories that are Go values.

A [Reducer] may be used by any number of goroutines at once.
*/
package reducer
