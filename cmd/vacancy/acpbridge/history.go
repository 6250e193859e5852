package acpbridge

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

const (
	maxPages   = 64       // pages of tasks that a request reads
	maxHistory = 64 << 10 // bytes of the history that a message carries
	maxLength  = 1000     // messages in the history of each listed task
)

// messageID matches the id of a message that this package sends: the id of its session, the number of the prompt, and
// random characters. origin finds the session of a task by this id, because each dispatched task has its own context.
var messageID = regexp.MustCompile(`^(.+)\.([0-9]{1,9})\.([A-Z2-7]*)$`)

// origin returns the session of a task and the number of its first prompt. If another program began the task, it returns
// the task's context and 0.
func origin(t *task.Task) (session string, n int) {
	if i := slices.IndexFunc(t.History, func(m task.Message) bool { return m.Role == task.User }); i >= 0 {
		if id := messageID.FindStringSubmatch(t.History[i].ID); id != nil {
			n, _ = strconv.Atoi(id[2])
			return id[1], n
		}
	}
	return t.Context, 0
}

// contexts returns the contexts of a guest's session, or of all sessions if id is "".
func (b *Bridge) contexts(id string) (contexts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		s.mu.Lock()
		if s.context != "" && (id == "" || id == s.id) {
			contexts = append(contexts, s.context)
		}
		s.mu.Unlock()
	}
	return contexts
}

// tasks returns the caller's tasks of a session, or of all sessions if id is "", the oldest first.
func (b *Bridge) tasks(ctx context.Context, id string) (tasks []task.Task, err error) {
	contexts := []string{""}
	if b.Guest { // the host lists a guest's tasks only by their context
		contexts = b.contexts(id)
	}
	for _, contextID := range contexts {
		q := a2awire.ListRequest{Context: contextID, Size: a2awire.MaxPage, Artifacts: true, HistoryLength: new(maxLength)}
		for range maxPages {
			page, err := b.Agent.ListTasks(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, t := range page.Tasks {
				if session, _ := origin(&t); id == "" || id == session || id == t.Context {
					tasks = append(tasks, t)
				}
			}
			if q.Token = page.Next; q.Token == "" {
				break
			}
		}
	}
	slices.SortStableFunc(tasks, func(x, y task.Task) int {
		_, m := origin(&x)
		_, n := origin(&y)
		if id != "" && m > 0 && n > 0 {
			return cmp.Compare(m, n)
		}
		return x.Status.Time.Compare(y.Status.Time)
	})
	return tasks, nil
}

// Marks around the history that a message carries.
const (
	historyBegin = "The conversation so far:\n\n"
	historyEnd   = "(The conversation so far ends here.)\n\n"
)

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

// exchange is a message of the user or an answer of the agent. If role is empty, text is the history that the session's
// first message carries.
type exchange struct {
	role task.Role
	text string
}

// exchanges returns the messages and answers of tasks. It includes the history that the first message carries, and omits
// the history that later messages carry.
func exchanges(tasks []task.Task) (transcript []exchange) {
	for i := range tasks {
		t := &tasks[i]
		for j := range t.History {
			before, text := uncarry(textOf(t.History[j].Parts))
			if i == 0 && j == 0 {
				transcript = append(transcript, exchange{text: before})
			}
			transcript = append(transcript, exchange{t.History[j].Role, text})
		}
		transcript = append(transcript, exchange{task.Agent, answerText(t)})
	}
	return slices.DeleteFunc(transcript, func(e exchange) bool { return e.text == "" })
}

// render appends messages and answers to a history. It removes the beginning of a history longer than maxHistory.
func render(history string, additions ...exchange) string {
	for _, e := range additions {
		switch {
		case e.text == "":
		case e.role == task.Agent:
			history += "Agent: " + e.text + "\n\n"
		case e.role == task.User:
			history += "User: " + e.text + "\n\n"
		default:
			history += e.text
		}
		for len(history) > maxHistory {
			_, rest, ok := strings.Cut(history, "\n\n")
			if !ok || rest == "" {
				rest = strings.ToValidUTF8(history[len(history)-maxHistory:], "")
			}
			history = rest
		}
	}
	return history
}
