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
	maxTaskPages    = 64
	maxHistoryBytes = 64 << 10
	maxTaskMessages = 1000
)

// messageIDPattern matches SESSION.PROMPT.RANDOM, the id of a message that this package sends.
var messageIDPattern = regexp.MustCompile(`^(.+)\.([0-9]{1,9})\.([A-Z2-7]*)$`)

// parseOrigin returns the session and the prompt number in the id of the task's first user message.
// If another program began the task, it returns the task's context and 0.
func parseOrigin(t *task.Task) (session string, promptNumber int) {
	if i := slices.IndexFunc(t.History, func(m task.Message) bool { return m.Role == task.User }); i >= 0 {
		if id := messageIDPattern.FindStringSubmatch(t.History[i].ID); id != nil {
			promptNumber, _ = strconv.Atoi(id[2])
			return id[1], promptNumber
		}
	}
	return t.Context, 0
}

func (b *Bridge) guestContexts(sessionID string) (contexts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		s.mu.Lock()
		if s.contextID != "" && (sessionID == "" || sessionID == s.id) {
			contexts = append(contexts, s.contextID)
		}
		s.mu.Unlock()
	}
	return contexts
}

// listTasks returns the tasks of a session, or of all sessions if sessionID is "", the oldest
// first.
func (b *Bridge) listTasks(ctx context.Context, sessionID string) (tasks []task.Task, err error) {
	contexts := []string{""}
	if b.IsGuest { // the host lists a guest's tasks only by their context
		contexts = b.guestContexts(sessionID)
	}
	for _, contextID := range contexts {
		q := a2awire.ListRequest{Context: contextID, PageSize: a2awire.MaxPage, IncludeArtifacts: true, HistoryLength: new(maxTaskMessages)}
		for range maxTaskPages {
			page, err := b.Agent.ListTasks(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, t := range page.Tasks {
				if session, _ := parseOrigin(&t); sessionID == "" || sessionID == session || sessionID == t.Context {
					tasks = append(tasks, t)
				}
			}
			if q.PageToken = page.Next; q.PageToken == "" {
				break
			}
		}
	}
	slices.SortStableFunc(tasks, func(x, y task.Task) int {
		_, m := parseOrigin(&x)
		_, n := parseOrigin(&y)
		if sessionID != "" && m > 0 && n > 0 {
			return cmp.Compare(m, n)
		}
		return x.Status.Time.Compare(y.Status.Time)
	})
	return tasks, nil
}

const (
	historyBegin = "The conversation so far:\n\n"
	historyEnd   = "(The conversation so far ends here.)\n\n"
)

func prependHistory(history, text string) string {
	if history == "" {
		return text
	}
	return historyBegin + history + historyEnd + text
}

func splitHistory(message string) (history, text string) {
	if rest, ok := strings.CutPrefix(message, historyBegin); ok {
		if history, text, ok = strings.Cut(rest, historyEnd); ok {
			return history, text
		}
	}
	return "", message
}

// transcriptEntry is a message of the user or an answer of the agent. If role is empty, text is the
// history that the first message carries.
type transcriptEntry struct {
	role task.Role
	text string
}

func buildTranscript(tasks []task.Task) (transcript []transcriptEntry) {
	for i := range tasks {
		t := &tasks[i]
		for j := range t.History {
			history, text := splitHistory(joinText(t.History[j].Parts))
			if i == 0 && j == 0 {
				transcript = append(transcript, transcriptEntry{text: history})
			}
			transcript = append(transcript, transcriptEntry{t.History[j].Role, text})
		}
		transcript = append(transcript, transcriptEntry{task.Agent, answerText(t)})
	}
	return slices.DeleteFunc(transcript, func(e transcriptEntry) bool { return e.text == "" })
}

// appendHistory appends entries to a history, and drops the oldest text beyond maxHistoryBytes.
func appendHistory(history string, entries ...transcriptEntry) string {
	for _, e := range entries {
		switch {
		case e.text == "":
		case e.role == task.Agent:
			history += "Agent: " + e.text + "\n\n"
		case e.role == task.User:
			history += "User: " + e.text + "\n\n"
		default:
			history += e.text
		}
		for len(history) > maxHistoryBytes {
			_, rest, ok := strings.Cut(history, "\n\n")
			if !ok || rest == "" {
				rest = strings.ToValidUTF8(history[len(history)-maxHistoryBytes:], "")
			}
			history = rest
		}
	}
	return history
}
