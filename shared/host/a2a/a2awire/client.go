package a2awire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// This file encodes the parameters of requests and parses answers of agents.

func MethodName(d Dialect, o Operation) string {
	names := methodsV1
	if d != V1 {
		names = methodsV03
	}
	for name, op := range names {
		if op == o && name != "tasks/subscribe" {
			return name
		}
	}
	return ""
}

func EncodeSendParams(d Dialect, q *SendRequest) []byte {
	w := &writer{dialect: d}
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
			push := "taskPushNotificationConfig"
			if d == V03 {
				push = "pushNotificationConfig"
				w.flag("blocking", !q.ReturnImmediately)
			} else if q.ReturnImmediately {
				w.flag("returnImmediately", true)
			}
			if q.Push != nil {
				w.pushObject(push, "", q.Push)
			}
		})
	})
	return w.b
}

func EncodeTaskParams(d Dialect, q *TaskRequest) []byte {
	w := &writer{dialect: d}
	w.object("", func() {
		w.text("id", q.ID)
		if q.HistoryLength != nil {
			w.number("historyLength", *q.HistoryLength)
		}
	})
	return w.b
}

func EncodeListParams(d Dialect, q *ListRequest) []byte {
	w := &writer{dialect: d}
	w.object("", func() {
		w.optionalText("contextId", q.Context)
		if q.State != "" {
			w.text("status", d.stateName(q.State))
		}
		if q.PageSize > 0 {
			w.number("pageSize", q.PageSize)
		}
		w.optionalText("pageToken", q.PageToken)
		if q.HistoryLength != nil {
			w.number("historyLength", *q.HistoryLength)
		}
		if !q.UpdatedAfter.IsZero() {
			w.text("statusTimestampAfter", FormatTime(q.UpdatedAfter))
		}
		if q.IncludeArtifacts {
			w.flag("includeArtifacts", true)
		}
	})
	return w.b
}

// Answer is an answer of an agent or an element of its stream. Exactly one of Task, Status,
// Artifact and Message is set.
type Answer struct {
	task.Event
	Message         *task.Message
	TaskID, Context string
}

var ErrUnknownAnswer = errors.New("an answer of an unknown kind")

func newAnswerReader(d Dialect, raw []byte) *reader {
	// Metadata may be deep and have many members, so in practice only the size limits answers.
	l := canon.AnswerLimits()
	l.Depth, l.Keys, l.Lenient = 256, l.Bytes, true
	return &reader{canon.NewDecoder(raw, l), d, true}
}

// ReadAnswer parses the result of Send or an element of a stream.
func ReadAnswer(d Dialect, raw []byte) (a Answer, err error) {
	r := newAnswerReader(d, raw)
	if r.Kind() != canon.Object {
		return a, r.MismatchError("an object as the result")
	}
	if d == V03 {
		return readAnswer03(raw)
	}
	err = r.object(memberReaders{
		"task":           func() (err error) { a.Task, err = r.task(); return err },
		"message":        func() error { m, err := r.message(); a.Message = &m; return err },
		"statusUpdate":   func() error { return r.statusUpdate(&a) },
		"artifactUpdate": func() error { return r.artifactUpdate(&a) },
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return a, err
	}
	n := 0
	for _, set := range []bool{a.Task != nil, a.Message != nil, a.Status != nil, a.Artifact != nil} {
		if set {
			n++
		}
	}
	switch n {
	case 0:
		return a, problem.Wrap(problem.Malformed, ErrUnknownAnswer, "result: expected one of task, message, statusUpdate, artifactUpdate, got none")
	case 1:
		return a, nil
	}
	return a, problem.Invalid("result", "one of task, message, statusUpdate, artifactUpdate", fmt.Sprint(n))
}

// readAnswer03 parses a result of version 0.3. The member kind may be missing or follow the other
// members.
func readAnswer03(raw []byte) (a Answer, err error) {
	kind, hasMember := "", map[string]bool{}
	r := newAnswerReader(V03, raw)
	err = r.Object(func(key string) error {
		hasMember[toCamelCase(key)] = true
		if key == "kind" {
			return r.text(&kind)()
		}
		return r.Skip()
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return a, err
	}
	if kind == "" {
		switch {
		case hasMember["artifact"]:
			kind = "artifact-update"
		case hasMember["status"] && hasMember["taskId"]:
			kind = "status-update"
		case hasMember["status"]:
			kind = "task"
		case hasMember["parts"]:
			kind = "message"
		}
	}
	r = newAnswerReader(V03, raw)
	switch kind {
	case "task":
		a.Task, err = r.task()
	case "message":
		var m task.Message
		m, err = r.message()
		a.Message = &m
	case "status-update":
		err = r.statusUpdate(&a)
	case "artifact-update":
		err = r.artifactUpdate(&a)
	default:
		err = problem.Wrap(problem.Malformed, ErrUnknownAnswer, "kind: expected task, message, status-update or artifact-update, got %s", quoteTruncated(kind))
	}
	return a, err
}

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

func ReadList(d Dialect, raw []byte) (p task.Page, err error) {
	r := newAnswerReader(d, raw)
	p.Total = -1
	err = r.object(memberReaders{
		"tasks": func() error {
			return r.Array(func(int) error {
				t, err := r.task()
				if err == nil {
					p.Tasks = append(p.Tasks, *t)
				}
				return err
			})
		},
		"nextPageToken": func() (err error) { p.Next, err = r.String(); return err },
		"totalSize": func() error {
			if r.mustSkip(canon.Int) {
				return r.Skip()
			}
			n, err := r.Int64()
			p.Total = int(n)
			return err
		},
	})
	return p, err
}

func (r *reader) statusUpdate(a *Answer) error {
	a.Status = &task.Status{}
	err := r.object(memberReaders{
		"taskId": r.text(&a.TaskID), "contextId": r.text(&a.Context), "status": func() error { return r.status(a.Status) },
	})
	return checkState(err, a.Status)
}

func checkState(err error, s *task.Status) error {
	if err == nil && s.State == "" {
		err = problem.Invalid("status.state", "a state", "none")
	}
	return err
}

func (r *reader) artifactUpdate(a *Answer) error {
	a.Artifact = &task.Chunk{}
	hasArtifact := false
	err := r.object(memberReaders{
		"taskId": r.text(&a.TaskID), "contextId": r.text(&a.Context), "lastChunk": r.flag(&a.Artifact.Last),
		"append":   func() (err error) { a.Artifact.Append, err = r.Bool(); return err },
		"artifact": func() (err error) { hasArtifact = true; a.Artifact.Artifact, err = r.artifact(); return err },
	})
	if err == nil && !hasArtifact {
		err = problem.Invalid("artifact", "an artifact", "none")
	}
	return err
}

// task parses a task of an agent. Only a task in a terminal state may have no id.
func (r *reader) task() (*task.Task, error) {
	t := &task.Task{}
	if r.Kind() != canon.Object {
		return t, r.MismatchError("an object for task")
	}
	err := r.object(memberReaders{
		"id": r.text(&t.ID), "contextId": r.text(&t.Context), "status": func() error { return r.status(&t.Status) },
		"artifacts": func() error {
			return r.Array(func(int) error {
				a, err := r.artifact()
				t.Artifacts = append(t.Artifacts, a)
				return err
			})
		},
		"history": func() error {
			if r.mustSkip(canon.Array) {
				return r.Skip()
			}
			return r.Array(func(int) error {
				m, err := r.optionalMessage()
				if m != nil {
					t.History = append(t.History, *m)
				}
				return err
			})
		},
		"metadata": r.rawObject("metadata", (*[]byte)(&t.Metadata)),
	})
	if err = checkState(err, &t.Status); err == nil && t.ID == "" && !t.Status.State.IsTerminal() {
		err = problem.Invalid("task.id", "the id of a task that has not ended", "none")
	}
	return t, err
}

// optionalMessage returns nil if the message cannot be parsed.
func (r *reader) optionalMessage() (*task.Message, error) {
	raw, err := r.SkipRaw()
	if err != nil {
		return nil, err
	}
	m, parseErr := newAnswerReader(r.dialect, raw).message()
	if parseErr != nil {
		return nil, nil
	}
	return &m, nil
}

func (r *reader) status(s *task.Status) error {
	timestamp := ""
	err := r.object(memberReaders{
		"state": func() error {
			if k := r.Kind(); k == canon.Int || k == canon.Float {
				n, err := r.Int64()
				if err == nil && n > 0 && n < int64(len(statesByNumber)) {
					s.State = statesByNumber[n]
				}
				return err
			}
			text, err := r.String()
			s.State = task.State(text) // an unknown state is not a terminal state
			for _, d := range []Dialect{V1, V03} {
				if state, ok := d.parseState(text); ok {
					s.State = state
					break
				}
			}
			return err
		},
		"message":   func() (err error) { s.Message, err = r.optionalMessage(); return err },
		"timestamp": r.text(&timestamp),
	})
	// A time without a zone is read as UTC.
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05"} {
		if statusTime, err := time.Parse(layout, timestamp); err == nil {
			s.Time = statusTime
		}
	}
	return err
}

// statesByNumber lists the states by their number in version 1.0, because ProtoJSON allows names
// and numbers.
var statesByNumber = [...]task.State{"", task.Submitted, task.Working, task.Completed, task.Failed, task.Canceled, task.InputRequired, task.Rejected, task.AuthRequired}

func (r *reader) artifact() (a task.Artifact, err error) {
	if r.Kind() != canon.Object {
		return a, r.MismatchError("an object for artifact")
	}
	err = r.object(memberReaders{
		"artifactId": r.text(&a.ID), "name": r.text(&a.Name), "description": r.text(&a.Description),
		"metadata": r.rawObject("artifact.metadata", (*[]byte)(&a.Metadata)), "extensions": r.texts("extensions", &a.Extensions),
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

// answerPart parses a part of an answer. It reads an invalid part as text or data, so that the
// other parts remain usable.
func (r *reader) answerPart(field string) (p task.Part, err error) {
	raw, err := r.SkipRaw()
	if err != nil {
		return p, err
	}
	strict := newAnswerReader(r.dialect, raw)
	strict.lenient = false
	if p, err = strict.part(field); err == nil {
		return p, nil
	}
	text := ""
	lenient := newAnswerReader(r.dialect, raw)
	var textErr error // for example an incomplete surrogate pair
	err = lenient.object(memberReaders{"text": func() error { textErr = lenient.text(&text)(); return textErr }})
	switch {
	case textErr != nil:
		return p, textErr
	case err == nil && text != "":
		return task.Part{Kind: task.Text, Text: text}, nil
	}
	return task.Part{Kind: task.Data, Data: raw}, nil
}

// RPCError is an error response of an agent.
type RPCError struct {
	Code    int64
	Message string
	Data    json.RawMessage
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("the agent answered error %d: %.200q", e.Code, e.Message)
}

// reasonCodes maps the reasons of A2A errors to JSON-RPC codes. HTTP+JSON responses contain only
// reasons.
var reasonCodes = map[string]int64{
	"TASK_NOT_FOUND": -32001, "TASK_NOT_CANCELABLE": -32002, "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003, "UNSUPPORTED_OPERATION": -32004,
	"CONTENT_TYPE_NOT_SUPPORTED": -32005, "EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007, "EXTENSION_SUPPORT_REQUIRED": -32008, "VERSION_NOT_SUPPORTED": -32009,
	"METHOD_NOT_FOUND": -32601, "INVALID_PARAMS": -32602, "INTERNAL_ERROR": -32603,
}

// ReadRESTError parses the error of an HTTP+JSON response, or returns nil.
func ReadRESTError(body []byte) error {
	var reply struct {
		Error struct {
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &reply) != nil || reply.Error.Message == "" {
		return nil
	}
	rpcErr := &RPCError{Code: -32000, Message: reply.Error.Message, Data: reply.Error.Details}
	reason, _ := rpcErr.Info()
	if code, ok := reasonCodes[reason]; ok {
		rpcErr.Code = code
	}
	return rpcErr
}

func (e *RPCError) Info() (reason string, metadata map[string]string) {
	var details []struct {
		Reason   string            `json:"reason"`
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(e.Data, &details) != nil || len(details) == 0 {
		return "", nil
	}
	return details[0].Reason, details[0].Metadata
}

// ReadResponse parses the JSON-RPC response to the request with the numeric id. An error of the
// agent is an *RPCError.
func ReadResponse(raw []byte, id string) (result []byte, err error) {
	r := newAnswerReader(V1, canon.TrimByteOrderMark(raw))
	var rpcErr *RPCError
	responseID := ""
	err = r.Document(func(key string) (err error) {
		switch key {
		case "id":
			b, err := r.SkipRaw()
			responseID = string(b)
			return err
		case "result":
			result, err = r.SkipRaw()
			return err
		case "error":
			rpcErr, err = r.rpcError()
			return err
		}
		return r.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case rpcErr != nil:
		return nil, rpcErr
	case !matchesID(responseID, id):
		return nil, problem.Invalid("id", id, quoteTruncated(responseID))
	case result == nil:
		return nil, problem.Invalid("result", "a result or an error", "neither")
	}
	return result, nil
}

// matchesID also accepts "7", 7.0 and a missing id for the request 7, because some agents send
// them. This is safe, because an HTTP response belongs to its request.
func matchesID(responseID, id string) bool {
	responseID = strings.Trim(responseID, `"`)
	n, err := strconv.ParseFloat(responseID, 64)
	return responseID == "" || responseID == "null" || err == nil && strconv.FormatFloat(n, 'f', -1, 64) == id
}

func (r *reader) rpcError() (*RPCError, error) {
	raw, err := r.SkipRaw()
	if err != nil || string(raw) == "null" {
		return nil, err
	}
	rpcErr := &RPCError{}
	errorReader := newAnswerReader(r.dialect, raw)
	err = errorReader.object(memberReaders{
		"code": func() error {
			if k := errorReader.Kind(); k != canon.Int && k != canon.Float {
				return errorReader.Skip()
			}
			code, err := errorReader.Float64()
			rpcErr.Code = int64(code)
			return err
		},
		"message": errorReader.text(&rpcErr.Message), "data": errorReader.rawAny((*[]byte)(&rpcErr.Data)),
	})
	if err != nil || rpcErr.Message == "" {
		rpcErr.Message = string(raw)
	}
	return rpcErr, nil
}
