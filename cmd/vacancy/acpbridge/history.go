package acpbridge

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

const (
	maxPages   = 64       // pages of tasks that a request reads
	maxHistory = 64 << 10 // bytes of the history that a message carries
	maxLength  = 1000     // messages of a task
)

// messageID matches the id of a message of this package: the id of its session, the number of the prompt, and random
// letters. The tasks of an account may have contexts of their own, so the id says to which session they belong.
var messageID = regexp.MustCompile(`^(.+)\.([0-9]{1,9})\.([A-Z2-7]*)$`)

// firstAsked returns the user's first message of a task, or nil.
func firstAsked(t *task.Task) *task.Message {
	for i := range t.History {
		if t.History[i].Role == task.User {
			return &t.History[i]
		}
	}
	return nil
}

// sessionOf returns the id of the session of a task.
func sessionOf(t *task.Task) string {
	if m := firstAsked(t); m != nil {
		if id := messageID.FindStringSubmatch(m.ID); id != nil {
			return id[1]
		}
	}
	return t.Context
}

// turnOf returns the number of the prompt that began a task, or 0 if it is not known.
func turnOf(t *task.Task) (n int) {
	if m := firstAsked(t); m != nil {
		if id := messageID.FindStringSubmatch(m.ID); id != nil {
			n, _ = strconv.Atoi(id[2])
		}
	}
	return n
}

// tasks returns the caller's tasks of a session, or of all sessions if id is "", the oldest first. A guest names the
// context of the session.
func (b *Bridge) tasks(ctx context.Context, id, of string) (all []task.Task, err error) {
	length := maxLength
	q := a2awire.ListRequest{Size: a2awire.MaxPage, Artifacts: true, HistoryLength: &length}
	if b.Guest {
		if q.Context = of; of == "" {
			return nil, nil
		}
	}
	for range maxPages {
		page, err := b.Agent.ListTasks(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Tasks {
			if t := &page.Tasks[i]; id == "" || sessionOf(t) == id || t.Context == id {
				all = append(all, *t)
			}
		}
		if q.Token = page.Next; q.Token == "" {
			break
		}
	}
	slices.SortStableFunc(all, func(x, y task.Task) int {
		if m, n := turnOf(&x), turnOf(&y); id != "" && m > 0 && n > 0 {
			return cmp.Compare(m, n)
		}
		return x.Status.Time.Compare(y.Status.Time)
	})
	return all, nil
}

// Marks around the history that a message carries.
const (
	historyBegin = "The conversation so far:\n\n"
	historyEnd   = "(The conversation so far ends here.)\n\n"
)

// carry returns a message with the history of its session.
func carry(history, text string) string {
	if history == "" {
		return text
	}
	return historyBegin + history + historyEnd + text
}

// uncarry splits a message into the history that it carries, and its text.
func uncarry(message string) (history, text string) {
	if rest, ok := strings.CutPrefix(message, historyBegin); ok {
		if history, text, ok = strings.Cut(rest, historyEnd); ok {
			return history, text
		}
	}
	return "", message
}

// asked returns the text of the user's first message of a task, and the history that the message carries.
func asked(t *task.Task) (text, history string) {
	if m := firstAsked(t); m != nil {
		history, text = uncarry(textOf(m.Parts))
	}
	return text, history
}

// exchange is a message, or an answer if byAgent is true.
type exchange struct {
	byAgent bool
	text    string
}

// exchanges returns the messages and answers of a task, without the history that they carry.
func exchanges(t *task.Task) (all []exchange) {
	add := func(byAgent bool, text string) {
		if text != "" {
			all = append(all, exchange{byAgent, text})
		}
	}
	for i := range t.History {
		m := &t.History[i]
		_, text := uncarry(textOf(m.Parts))
		add(m.Role == task.Agent, text)
	}
	add(true, answerText(t))
	return all
}

// history renders the messages and answers of tasks.
func history(tasks []task.Task) (all string) {
	for i := range tasks {
		if _, before := asked(&tasks[i]); i == 0 {
			all = before
		}
		for _, e := range exchanges(&tasks[i]) {
			all = e.appendTo(all)
		}
	}
	return all
}

// appendTo appends e to a history, whose beginning is removed if the history becomes too long.
func (e exchange) appendTo(history string) string {
	who := "User: "
	if e.byAgent {
		who = "Agent: "
	}
	history += who + e.text + "\n\n"
	for len(history) > maxHistory {
		_, rest, ok := strings.Cut(history, "\n\n")
		if !ok || rest == "" {
			return strings.ToValidUTF8(history[len(history)-maxHistory:], "")
		}
		history = rest
	}
	return history
}

// replay sends the messages and answers of a session's tasks to the client. The caller holds s.mu.
func (b *Bridge) replay(ctx context.Context, s *session, tasks []task.Task) error {
	var updates []acp.SessionUpdate
	if len(tasks) == 0 && s.turns > 0 || len(tasks) > 0 && turnOf(&tasks[0]) > 1 {
		updates = append(updates, acp.UpdateAgentMessageText("(The earlier texts of this session have expired.)\n"))
	}
	for i := range tasks {
		if _, before := asked(&tasks[i]); i == 0 && before != "" {
			updates = append(updates, acp.UpdateUserMessageText(before))
		}
		for _, e := range exchanges(&tasks[i]) {
			if e.byAgent {
				updates = append(updates, acp.UpdateAgentMessageText(e.text))
			} else {
				updates = append(updates, acp.UpdateUserMessageText(e.text))
			}
		}
	}
	for _, u := range updates {
		if err := b.notify(ctx, s, u); err != nil {
			return err
		}
	}
	return nil
}
