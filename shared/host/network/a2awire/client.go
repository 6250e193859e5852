package a2awire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// This file is the client's side: parameters that it writes, answers that it reads.

// MethodName is the JSON-RPC method of an operation in a dialect.
func MethodName(d Dialect, o Operation) string {
	names := methods1
	if d != V1 {
		names = methods03
	}
	for name, op := range names {
		if op == o && name != "tasks/subscribe" {
			return name
		}
	}
	return ""
}

// SendParams returns the parameters of Send and Stream.
func SendParams(d Dialect, q *SendRequest) []byte {
	w := &writer{d: d}
	w.object("", func() {
		w.key("message")
		w.message(&q.Message)
		w.object("configuration", func() {
			if len(q.OutputModes) > 0 {
				w.texts("acceptedOutputModes", q.OutputModes)
			}
			if q.HistoryLength != nil {
				w.number("historyLength", *q.HistoryLength)
			}
			if d == V03 {
				w.flag("blocking", !q.Immediately)
			} else if q.Immediately {
				w.flag("returnImmediately", true)
			}
		})
	})
	return w.b
}

// TaskParams returns the parameters of GetTask, CancelTask and Subscribe.
func TaskParams(d Dialect, q *TaskRequest) []byte {
	w := &writer{d: d}
	w.object("", func() {
		w.text("id", q.ID)
		if q.HistoryLength != nil {
			w.number("historyLength", *q.HistoryLength)
		}
	})
	return w.b
}

// ListParams returns the parameters of ListTasks.
func ListParams(d Dialect, q *ListRequest) []byte {
	w := &writer{d: d}
	w.object("", func() {
		w.optional("contextId", q.Context)
		if q.State != "" {
			w.text("status", d.state(q.State))
		}
		if q.Size > 0 {
			w.number("pageSize", q.Size)
		}
		w.optional("pageToken", q.Token)
		if q.HistoryLength != nil {
			w.number("historyLength", *q.HistoryLength)
		}
		if !q.Since.IsZero() {
			w.text("statusTimestampAfter", Time(q.Since))
		}
		if q.Artifacts {
			w.flag("includeArtifacts", true)
		}
	})
	return w.b
}

// Answer is what an agent sends: exactly one of the fields is set. In a stream, Task
// and Context name the task of a Status or Artifact.
type Answer struct {
	task.Event
	Message         *task.Message
	TaskID, Context string
}

func newAnswerReader(d Dialect, raw []byte) *reader {
	return &reader{canon.NewDecoder(raw, canon.AnswerLimits()), d}
}

// ReadAnswer reads the result of Send, or an element of a stream.
func ReadAnswer(d Dialect, raw []byte) (a Answer, err error) {
	r := newAnswerReader(d, raw)
	if r.Kind() != canon.Object {
		return a, r.Mismatch("an object as the result")
	}
	if d == V03 {
		return readAnswer03(raw)
	}
	err = r.object(fields{
		"task":           func() (err error) { a.Task, err = r.task(); return err },
		"message":        func() (err error) { a.Message, err = r.answerMessage(); return err },
		"statusUpdate":   func() error { return r.statusUpdate(&a) },
		"artifactUpdate": func() error { return r.artifactUpdate(&a) },
	})
	if err == nil {
		err = a.check(r)
	}
	return a, err
}

func (a *Answer) check(r *reader) error {
	n := 0
	for _, set := range []bool{a.Task != nil, a.Message != nil, a.Status != nil, a.Artifact != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		return problem.Invalid("result", "one of task, message, statusUpdate, artifactUpdate", fmt.Sprint(n))
	}
	return r.End()
}

// readAnswer03 reads a result of 0.3, whose kind may come after its members.
func readAnswer03(raw []byte) (a Answer, err error) {
	v, err := canon.Parse(raw, canon.AnswerLimits())
	if err != nil {
		return a, err
	}
	kind, _ := v.Get("kind")
	r := newAnswerReader(V03, raw)
	switch kind.Text() {
	case "task":
		a.Task, err = r.task()
	case "message":
		a.Message, err = r.answerMessage()
	case "status-update":
		err = r.statusUpdate(&a)
	case "artifact-update":
		err = r.artifactUpdate(&a)
	default:
		return a, problem.Invalid("kind", "task, message, status-update or artifact-update", clip(kind.Text()))
	}
	return a, err
}

// ReadTask reads the answer to GetTask and CancelTask.
func ReadTask(d Dialect, raw []byte) (task.Task, error) {
	r := newAnswerReader(d, raw)
	t, err := r.task()
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return task.Task{}, err
	}
	return *t, nil
}

// ReadList reads the answer to ListTasks.
func ReadList(d Dialect, raw []byte) (p task.Page, err error) {
	r := newAnswerReader(d, raw)
	err = r.object(fields{
		"tasks": func() error {
			return r.Array(func(int) error {
				t, err := r.task()
				if err == nil {
					p.Tasks = append(p.Tasks, *t)
				}
				return err
			})
		},
		"nextPageToken": r.text(&p.Next),
		"totalSize": func() error {
			n, err := r.Int64()
			p.Total = int(n)
			return err
		},
	})
	return p, err
}

func (r *reader) statusUpdate(a *Answer) error {
	a.Status = &task.Status{}
	return r.object(fields{
		"taskId": r.text(&a.TaskID), "contextId": r.text(&a.Context), "status": func() error { return r.status(a.Status) },
	})
}

func (r *reader) artifactUpdate(a *Answer) error {
	a.Artifact = &task.Chunk{}
	return r.object(fields{
		"taskId": r.text(&a.TaskID), "contextId": r.text(&a.Context), "append": r.flag(&a.Artifact.Append), "lastChunk": r.flag(&a.Artifact.Last),
		"artifact": func() (err error) { a.Artifact.Artifact, err = r.artifact(); return err },
	})
}

// task reads a task of an agent.
func (r *reader) task() (*task.Task, error) {
	t := &task.Task{}
	if r.Kind() != canon.Object {
		return t, r.Mismatch("an object for task")
	}
	err := r.object(fields{
		"id": r.text(&t.ID), "contextId": r.text(&t.Context), "status": func() error { return r.status(&t.Status) },
		"artifacts": func() error {
			return r.Array(func(int) error {
				a, err := r.artifact()
				t.Artifacts = append(t.Artifacts, a)
				return err
			})
		},
		"history": func() error {
			return r.Array(func(int) error {
				m, err := r.message()
				t.History = append(t.History, m)
				return err
			})
		},
		"metadata": r.raw("metadata", (*[]byte)(&t.Metadata)),
	})
	switch {
	case err != nil:
	case t.ID == "":
		err = problem.Invalid("task.id", "an id", "none")
	case t.Status.State == "":
		err = problem.Invalid("task.status.state", "a state", "none")
	}
	return t, err
}

func (r *reader) status(s *task.Status) error {
	return r.object(fields{
		"state": func() error {
			text, err := r.String()
			if err != nil {
				return err
			}
			state, ok := r.d.parseState(text)
			if !ok {
				return problem.Invalid("status.state", "a state of a task", clip(text))
			}
			s.State = state
			return nil
		},
		"message": func() (err error) { s.Message, err = r.answerMessage(); return err },
		"timestamp": func() error {
			text, err := r.String()
			if err != nil {
				return err
			}
			if s.Time, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return problem.Invalid("status.timestamp", "a time", clip(text))
			}
			return nil
		},
	})
}

func (r *reader) answerMessage() (*task.Message, error) {
	m, err := r.message()
	return &m, err
}

func (r *reader) artifact() (a task.Artifact, err error) {
	if r.Kind() != canon.Object {
		return a, r.Mismatch("an object for artifact")
	}
	err = r.object(fields{
		"artifactId": r.text(&a.ID), "name": r.text(&a.Name), "description": r.text(&a.Description),
		"metadata": r.raw("artifact.metadata", (*[]byte)(&a.Metadata)), "extensions": r.texts("extensions", &a.Extensions),
		"parts": func() error {
			return r.Array(func(i int) error {
				p, err := r.part(fmt.Sprintf("parts[%d]", i))
				a.Parts = append(a.Parts, p)
				return err
			})
		},
	})
	return a, err
}

// RPCError is an error that an agent answers with.
type RPCError struct {
	Code    int64
	Message string
	Data    json.RawMessage
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("the agent answered error %d: %.200q", e.Code, e.Message)
}

// ReadResponse reads a JSON-RPC response with an id. The error is a *RPCError if the
// agent answered with one.
func ReadResponse(raw []byte, id string) (result []byte, err error) {
	d := canon.NewDecoder(raw, canon.AnswerLimits())
	var fault *RPCError
	got := ""
	err = d.Document(func(key string) error {
		switch key {
		case "id":
			b, err := d.Raw()
			got = string(b)
			return err
		case "result":
			b, err := d.Raw()
			result = b
			return err
		case "error":
			if d.Kind() == canon.Null {
				return d.Null()
			}
			fault = &RPCError{}
			return d.Object(func(key string) (err error) {
				switch key {
				case "code":
					fault.Code, err = d.Int64()
				case "message":
					fault.Message, err = d.String()
				case "data":
					fault.Data, err = d.Raw()
				default:
					err = d.Skip()
				}
				return err
			})
		}
		return d.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case fault != nil:
		return nil, fault
	case got != id:
		return nil, problem.Invalid("id", id, clip(got))
	case result == nil:
		return nil, problem.Invalid("result", "a result or an error", "neither")
	}
	return result, nil
}
