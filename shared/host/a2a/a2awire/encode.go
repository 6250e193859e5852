package a2awire

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type writer struct {
	b       []byte
	dialect Dialect
}

func (w *writer) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	if w.dialect == V1Snake {
		name = ToSnakeCase(name)
	}
	w.b = append(canon.AppendString(w.b, name), ':')
}

func ToSnakeCase(name string) string {
	var b strings.Builder
	for _, c := range name {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
			c = unicode.ToLower(c)
		}
		b.WriteRune(c)
	}
	return b.String()
}

func (w *writer) text(name, s string) {
	w.key(name)
	w.b = canon.AppendString(w.b, s)
}

func (w *writer) optionalText(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *writer) raw(name string, b []byte) {
	if b != nil {
		w.key(name)
		w.b = append(w.b, b...)
	}
}

func (w *writer) flag(name string, f bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, f)
}

func (w *writer) number(name string, n int) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, int64(n), 10)
}

func (w *writer) object(name string, f func()) {
	if name != "" {
		w.key(name)
	}
	w.b = append(w.b, '{')
	f()
	w.b = append(w.b, '}')
}

func (w *writer) list(name string, n int, f func(i int)) {
	if name != "" {
		w.key(name)
	}
	w.b = append(w.b, '[')
	for i := range n {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		f(i)
	}
	w.b = append(w.b, ']')
}

func (w *writer) texts(name string, values []string) {
	if len(values) > 0 {
		w.list(name, len(values), func(i int) { w.b = canon.AppendString(w.b, values[i]) })
	}
}

func FormatTime(timestamp time.Time) string {
	return timestamp.UTC().Format("2006-01-02T15:04:05.000Z")
}

func EncodeSendResult(d Dialect, t *task.Task) []byte {
	return EncodeStreamResult(d, t, task.Event{Task: t})
}

// EncodeMessageResult encodes a message as the answer to Send or as an element of a stream.
func EncodeMessageResult(d Dialect, m *task.Message) []byte {
	w := &writer{dialect: d}
	if d == V03 {
		w.message(m)
		return w.b
	}
	w.object("", func() {
		w.key("message")
		w.message(m)
	})
	return w.b
}

// EncodeTask encodes a task as the answer to GetTask and CancelTask.
func EncodeTask(d Dialect, t *task.Task) []byte {
	w := &writer{dialect: d}
	w.task(t, artifactsIfAny)
	return w.b
}

// EncodeStreamResult encodes an event of t as an element of a stream.
func EncodeStreamResult(d Dialect, t *task.Task, e task.Event) []byte {
	w := &writer{dialect: d}
	write, name := func() { w.task(e.Task, artifactsIfAny) }, "task"
	switch {
	case e.Status != nil:
		write, name = func() { w.statusUpdate(t, e.Status) }, "statusUpdate"
	case e.Artifact != nil:
		write, name = func() { w.artifactUpdate(t, e.Artifact) }, "artifactUpdate"
	}
	if d == V03 {
		write()
		return w.b
	}
	w.object("", func() {
		w.key(name)
		write()
	})
	return w.b
}

// EncodeListResult encodes the answer to ListTasks. If withArtifacts is true, each task has the
// member artifacts, even if it is empty.
func EncodeListResult(d Dialect, p *task.Page, size int, withArtifacts bool) []byte {
	w := &writer{dialect: d}
	w.object("", func() {
		mode := noArtifacts
		if withArtifacts {
			mode = alwaysArtifacts
		}
		w.list("tasks", len(p.Tasks), func(i int) { w.task(&p.Tasks[i], mode) })
		w.text("nextPageToken", p.Next)
		w.number("pageSize", size)
		if p.Total >= 0 {
			w.number("totalSize", p.Total)
		}
	})
	return w.b
}

func (w *writer) kind(kind string) {
	if w.dialect == V03 {
		w.text("kind", kind)
	}
}

type artifactsMode byte

const (
	noArtifacts    artifactsMode = iota
	artifactsIfAny               // only if the task has artifacts
	alwaysArtifacts
)

func (w *writer) task(t *task.Task, mode artifactsMode) {
	w.object("", func() {
		w.kind("task")
		w.text("id", t.ID)
		w.text("contextId", t.Context)
		w.key("status")
		w.status(&t.Status)
		if mode == alwaysArtifacts || mode == artifactsIfAny && len(t.Artifacts) > 0 {
			w.list("artifacts", len(t.Artifacts), func(i int) { w.artifact(&t.Artifacts[i]) })
		}
		if len(t.History) > 0 {
			w.list("history", len(t.History), func(i int) { w.message(&t.History[i]) })
		}
		w.raw("metadata", t.Metadata)
	})
}

func (w *writer) status(s *task.Status) {
	w.object("", func() {
		w.text("state", w.dialect.stateName(s.State))
		if s.Message != nil {
			w.key("message")
			w.message(s.Message)
		}
		w.text("timestamp", FormatTime(s.Time))
	})
}

func (w *writer) message(m *task.Message) {
	w.object("", func() {
		w.kind("message")
		w.text("messageId", m.ID)
		w.optionalText("contextId", m.Context)
		w.optionalText("taskId", m.Task)
		w.text("role", w.dialect.roleName(m.Role))
		w.list("parts", len(m.Parts), func(i int) { w.part(&m.Parts[i]) })
		w.raw("metadata", m.Metadata)
		w.texts("extensions", m.Extensions)
		w.texts("referenceTaskIds", m.References)
	})
}

func (w *writer) part(p *task.Part) {
	if w.dialect == V03 {
		w.part03(p)
		return
	}
	w.object("", func() {
		switch p.Kind {
		case task.Text:
			w.text("text", p.Text)
		case task.URL:
			w.text("url", p.Text)
		case task.Raw:
			w.text("raw", base64.StdEncoding.EncodeToString(p.Raw))
		case task.Data:
			w.raw("data", p.Data)
		}
		w.optionalText("filename", p.Filename)
		w.optionalText("mediaType", p.MediaType)
		w.raw("metadata", p.Metadata)
	})
}

// part03 encodes a part in version 0.3, which allows only objects as data. Other data becomes the
// member "value" of an object.
func (w *writer) part03(p *task.Part) {
	w.object("", func() {
		switch p.Kind {
		case task.Text:
			w.kind("text")
			w.text("text", p.Text)
		case task.Data:
			w.kind("data")
			if p.Data[0] == '{' {
				w.raw("data", p.Data)
			} else {
				w.object("data", func() { w.raw("value", p.Data) })
			}
		default:
			w.kind("file")
			w.object("file", func() {
				w.optionalText("name", p.Filename)
				w.optionalText("mimeType", p.MediaType)
				if p.Kind == task.URL {
					w.text("uri", p.Text)
				} else {
					w.text("bytes", base64.StdEncoding.EncodeToString(p.Raw))
				}
			})
		}
		w.raw("metadata", p.Metadata)
	})
}

func (w *writer) artifact(a *task.Artifact) {
	w.object("", func() {
		w.text("artifactId", a.ID)
		w.optionalText("name", a.Name)
		w.optionalText("description", a.Description)
		w.list("parts", len(a.Parts), func(i int) { w.part(&a.Parts[i]) })
		w.raw("metadata", a.Metadata)
		w.texts("extensions", a.Extensions)
	})
}

func (w *writer) statusUpdate(t *task.Task, s *task.Status) {
	w.object("", func() {
		w.kind("status-update")
		w.text("taskId", t.ID)
		w.text("contextId", t.Context)
		w.key("status")
		w.status(s)
		if w.dialect == V03 {
			w.flag("final", s.State.IsTerminal() || s.State.AwaitsMessage())
		}
	})
}

func (w *writer) artifactUpdate(t *task.Task, c *task.Chunk) {
	w.object("", func() {
		w.kind("artifact-update")
		w.text("taskId", t.ID)
		w.text("contextId", t.Context)
		w.key("artifact")
		w.artifact(&c.Artifact)
		w.flag("append", c.Append)
		w.flag("lastChunk", c.Last)
	})
}
