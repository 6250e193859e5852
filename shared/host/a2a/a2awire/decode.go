package a2awire

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

type SendRequest struct {
	Message task.Message
	// If HistoryLength is nil, the server chooses the limit.
	HistoryLength *int
	// ReturnImmediately requests the task as soon as it exists.
	ReturnImmediately bool
	Push              *task.PushConfig
	// If OutputModes is empty, the client accepts all media types.
	OutputModes []string
}

type TaskRequest struct {
	ID            string
	HistoryLength *int
}

type ListRequest struct {
	Context          string
	State            task.State
	PageSize         int // DefaultPage if the request has no pageSize
	PageToken        string
	HistoryLength    *int
	UpdatedAfter     time.Time
	IncludeArtifacts bool
}

const (
	DefaultPage = 50
	MaxPage     = 100
)

// memberReaders maps the camelCase names of members to the functions that read their values.
type memberReaders map[string]func() error

type reader struct {
	*canon.Decoder
	dialect Dialect
	// lenient readers skip optional members whose value has an unexpected type.
	lenient bool
}

func newReader(d Dialect, params []byte) *reader {
	return &reader{Decoder: canon.NewDecoder(params, Limits()), dialect: d}
}

// object reads an object. It treats a null value as absent, except for members in nullable.
func (r *reader) object(members memberReaders, nullable ...string) error {
	seen := make(map[string]bool, len(members))
	return r.Object(func(key string) error {
		name := toCamelCase(key)
		read, ok := members[name]
		if !ok {
			return r.Skip()
		}
		if seen[name] && r.lenient {
			return r.Skip()
		}
		if seen[name] {
			return problem.Invalid(name, "one spelling of the member", "both")
		}
		seen[name] = true
		if r.Kind() == canon.Null && !slices.Contains(nullable, name) {
			return r.Null()
		}
		return read()
	})
}

func toCamelCase(key string) string {
	if !strings.Contains(key, "_") {
		return key
	}
	var b strings.Builder
	upperNext := false
	for _, c := range key {
		switch {
		case c == '_':
			upperNext = true
			continue
		case upperNext:
			c = unicode.ToUpper(c)
		}
		upperNext = false
		b.WriteRune(c)
	}
	return b.String()
}

func (r *reader) mustSkip(k canon.Kind) bool { return r.lenient && r.Kind() != k }

func (r *reader) text(dst *string) func() error {
	return func() (err error) {
		if r.mustSkip(canon.String) {
			return r.Skip()
		}
		*dst, err = r.String()
		return err
	}
}

func (r *reader) id(field string, dst *string) func() error {
	if r.lenient {
		return r.text(dst)
	}
	return func() (err error) {
		if *dst, err = r.String(); err == nil && len(*dst) > envelope.MaxIDBytes {
			err = problem.Invalid(field, fmt.Sprintf("at most %d bytes", envelope.MaxIDBytes), fmt.Sprint(len(*dst)))
		}
		return err
	}
}

func (r *reader) flag(dst *bool) func() error {
	return func() (err error) {
		if r.mustSkip(canon.Bool) {
			return r.Skip()
		}
		*dst, err = r.Bool()
		return err
	}
}

func (r *reader) historyLength(dst **int) func() error {
	return func() error {
		n, err := r.Int64()
		switch {
		case err != nil:
			return err
		case n < 0:
			return problem.Invalid("historyLength", "at least 0", fmt.Sprint(n))
		}
		limit := int(min(n, 1<<30))
		*dst = &limit
		return nil
	}
}

func (r *reader) rawObject(field string, dst *[]byte) func() error {
	return func() (err error) {
		if r.mustSkip(canon.Object) {
			return r.Skip()
		}
		if r.Kind() != canon.Object {
			return r.MismatchError("an object for " + field)
		}
		*dst, err = r.rawValue()
		return err
	}
}

func (r *reader) rawValue() ([]byte, error) {
	if r.lenient {
		return r.SkipRaw()
	}
	return r.Raw()
}

func (r *reader) texts(field string, dst *[]string) func() error {
	return func() error {
		if r.mustSkip(canon.Array) {
			return r.Skip()
		}
		return r.Array(func(i int) error {
			if r.mustSkip(canon.String) {
				return r.Skip()
			}
			if i == envelope.MaxParts && !r.lenient {
				return problem.Invalid(field, fmt.Sprintf("at most %d", envelope.MaxParts), "more")
			}
			s, err := r.String()
			*dst = append(*dst, s)
			return err
		})
	}
}

func DecodeSend(d Dialect, params []byte) (q SendRequest, err error) {
	r := newReader(d, params)
	hasMessage, isBlocking := false, true
	config := memberReaders{
		"historyLength": r.historyLength(&q.HistoryLength), "acceptedOutputModes": r.texts("acceptedOutputModes", &q.OutputModes),
		"taskPushNotificationConfig": func() error {
			q.Push = &task.PushConfig{}
			return r.object(r.pushConfig(q.Push, new(string)))
		},
	}
	if d == V03 {
		config["blocking"] = r.flag(&isBlocking)
		config["pushNotificationConfig"] = config["taskPushNotificationConfig"]
		delete(config, "taskPushNotificationConfig")
	} else {
		config["returnImmediately"] = r.flag(&q.ReturnImmediately)
	}
	err = r.readDocument(memberReaders{
		"message": func() (err error) {
			hasMessage = true
			q.Message, err = r.message()
			return err
		},
		"configuration": func() error { return r.object(config) },
		"metadata":      r.rawObject("metadata", new([]byte)),
	})
	if err == nil && !hasMessage {
		err = problem.Invalid("message", "a message", "none")
	}
	if d == V03 {
		q.ReturnImmediately = !isBlocking
	}
	return q, err
}

func (r *reader) readDocument(members memberReaders) error {
	if r.Kind() != canon.Object {
		return r.MismatchError("an object of parameters")
	}
	if err := r.object(members); err != nil {
		return err
	}
	return r.End()
}

func DecodeTask(d Dialect, params []byte) (q TaskRequest, err error) {
	r := newReader(d, params)
	err = r.readDocument(memberReaders{"id": r.id("id", &q.ID), "historyLength": r.historyLength(&q.HistoryLength)})
	if err == nil && q.ID == "" {
		err = problem.Invalid("id", "the id of a task", "none")
	}
	return q, err
}

func DecodeList(d Dialect, params []byte) (q ListRequest, err error) {
	r := newReader(d, params)
	q.PageSize = DefaultPage
	err = r.readDocument(memberReaders{
		"contextId": r.id("contextId", &q.Context), "pageToken": r.text(&q.PageToken),
		"historyLength": r.historyLength(&q.HistoryLength), "includeArtifacts": r.flag(&q.IncludeArtifacts),
		"status": func() error {
			text, err := r.String()
			if err != nil {
				return err
			}
			s, ok := d.parseState(text)
			if !ok && text != "" && text != "TASK_STATE_UNSPECIFIED" {
				return problem.Invalid("status", "a state of a task, such as "+d.stateName(task.Working), quoteTruncated(text))
			}
			q.State = s
			return nil
		},
		"pageSize": func() error {
			n, err := r.Int64()
			if err != nil {
				return err
			}
			if n < 1 || n > MaxPage {
				return problem.Invalid("pageSize", fmt.Sprintf("1 to %d", MaxPage), fmt.Sprint(n))
			}
			q.PageSize = int(n)
			return nil
		},
		"statusTimestampAfter": func() error {
			text, err := r.String()
			if err != nil {
				return err
			}
			since, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				return problem.Invalid("statusTimestampAfter", "a time such as 2026-01-02T03:04:05.678Z", quoteTruncated(text))
			}
			q.UpdatedAfter = since
			return nil
		},
		"lastUpdatedAfter": func() error { return r.Skip() }, // member of earlier drafts
	})
	return q, err
}

func quoteTruncated(s string) string { return fmt.Sprintf("%.80q", s) }

func (r *reader) message() (m task.Message, err error) {
	role, kind := "", ""
	members := memberReaders{
		"messageId": r.id("messageId", &m.ID), "contextId": r.id("contextId", &m.Context), "taskId": r.id("taskId", &m.Task),
		"role": r.text(&role), "metadata": r.rawObject("message.metadata", (*[]byte)(&m.Metadata)),
		"extensions": r.texts("extensions", &m.Extensions), "referenceTaskIds": r.texts("referenceTaskIds", &m.References),
		"parts": func() error {
			return r.Array(func(i int) error {
				if i == envelope.MaxParts && !r.lenient {
					return problem.Invalid("parts", fmt.Sprintf("at most %d", envelope.MaxParts), "more")
				}
				p, err := r.part(fmt.Sprintf("parts[%d]", i))
				m.Parts = append(m.Parts, p)
				return err
			})
		},
	}
	if r.dialect == V03 {
		members["kind"] = r.text(&kind)
	}
	if r.Kind() != canon.Object {
		return m, r.MismatchError("an object for message")
	}
	if err := r.object(members); err != nil {
		return m, err
	}
	for _, candidate := range []task.Role{task.User, task.Agent} {
		if r.dialect.roleName(candidate) == role {
			m.Role = candidate
		}
	}
	if r.lenient && m.Role == "" {
		m.Role = task.Agent // agents may use other role names
	}
	switch {
	case m.Role == "":
		return m, problem.Invalid("role", r.dialect.roleName(task.User)+" or "+r.dialect.roleName(task.Agent), quoteTruncated(role))
	case len(m.Parts) == 0:
		return m, problem.Invalid("parts", "at least one part", "none")
	case kind != "" && kind != "message" && !r.lenient:
		return m, problem.Invalid("kind", "message", quoteTruncated(kind))
	}
	return m, nil
}

func (r *reader) part(field string) (p task.Part, err error) {
	if r.lenient {
		return r.answerPart(field)
	}
	if r.Kind() != canon.Object {
		return p, r.MismatchError("an object for " + field)
	}
	if r.dialect == V03 {
		return r.part03(field)
	}
	contentCount := 0
	content := func(kind task.PartKind, read func() error) func() error {
		return func() error {
			p.Kind = kind
			contentCount++
			return read()
		}
	}
	err = r.object(memberReaders{
		"text": content(task.Text, r.text(&p.Text)), "url": content(task.URL, r.text(&p.Text)),
		"raw":      content(task.Raw, r.bytes(field+".raw", &p.Raw)),
		"data":     content(task.Data, r.rawAny((*[]byte)(&p.Data))),
		"filename": r.text(&p.Filename), "mediaType": r.text(&p.MediaType), "metadata": r.rawObject(field+".metadata", (*[]byte)(&p.Metadata)),
	}, "data")
	if err == nil && contentCount != 1 {
		err = problem.Invalid(field, "exactly one of text, raw, url, data", fmt.Sprint(contentCount))
	}
	return p, err
}

func (r *reader) part03(field string) (p task.Part, err error) {
	kind, textContent, uri, hasText, hasFile, hasBytes := "", "", "", false, false, false
	var fileBytes, data []byte
	name, media := "", ""
	err = r.object(memberReaders{
		"kind": r.text(&kind), "metadata": r.rawObject(field+".metadata", (*[]byte)(&p.Metadata)),
		"text": func() error { hasText = true; return r.text(&textContent)() },
		"data": r.rawObject(field+".data", &data),
		"file": func() error {
			hasFile = true
			return r.object(memberReaders{
				"name": r.text(&name), "mimeType": r.text(&media), "uri": r.text(&uri),
				"bytes": func() error { hasBytes = true; return r.bytes(field+".file.bytes", &fileBytes)() },
			})
		},
	})
	if err != nil {
		return p, err
	}
	switch {
	case kind == "text" && hasText:
		p.Kind, p.Text = task.Text, textContent
	case kind == "data" && data != nil:
		p.Kind, p.Data = task.Data, data
	case kind == "file" && hasFile && hasBytes != (uri != ""):
		p.Filename, p.MediaType = name, media
		if p.Kind, p.Raw = task.Raw, fileBytes; uri != "" {
			p.Kind, p.Raw, p.Text = task.URL, nil, uri
		}
	default:
		return p, problem.Invalid(field, `kind "text", "file" or "data" with the content of its kind`, quoteTruncated(kind))
	}
	return p, nil
}

// bytes reads base64 in the standard or the URL alphabet, with or without padding.
func (r *reader) bytes(field string, dst *[]byte) func() error {
	return func() error {
		s, err := r.String()
		if err != nil {
			return err
		}
		unpadded := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
		b, err := base64.RawStdEncoding.DecodeString(unpadded)
		if err != nil {
			return problem.Invalid(field, "base64", quoteTruncated(s))
		}
		*dst = append([]byte{}, b...)
		return nil
	}
}

func (r *reader) rawAny(dst *[]byte) func() error {
	return func() (err error) {
		*dst, err = r.rawValue()
		return err
	}
}
