package plain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/conformance"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Signed messages contain the text as a JSON string, so the limit applies to this form.
var maxTextBytes = canon.DefaultLimits().Bytes - 64

func CheckText(field, text string) error {
	if size := len(canon.AppendString(nil, text)); size > maxTextBytes {
		return problem.New(problem.TooLarge, "%s: expected at most %d bytes in JSON, which escapes quotes and control characters, got %d", field, maxTextBytes, size)
	}
	return nil
}

// CheckContext returns an error if a context (the name of a conversation) is invalid or was
// invented by a guest. source is where a guest finds valid names.
func (c *Caller) CheckContext(ctx context.Context, name, source string) error {
	const field = "context"
	if len(name) > envelope.MaxIDBytes || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return problem.Invalid(field, fmt.Sprintf("one name of at most %d visible ASCII characters", envelope.MaxIDBytes), httpapi.QuoteTruncated(name))
	}
	if name == "" || c.Owner() != call.GuestOwner {
		return nil
	}
	isHostContext, err := c.service.Guests.IsHostContextID(ctx, c.Vacant.ID, name)
	if err == nil && !isHostContext {
		err = problem.Invalid(field, source+" of an answer of this vacant; only a key of an account may choose names", httpapi.QuoteTruncated(name))
	}
	return err
}

const maxFileBytes = 256 << 10

const maxStoredBytes = store.MaxData - 6<<10 // 6 KiB remain for the task's other members

// CheckParts returns an error if the message is too large or if checkFile rejects a part. checkFile
// may be nil if all parts are text.
func CheckParts(m *task.Message, checkFile func(i int, p *task.Part) error) error {
	textBytes, contentBytes, otherBytes, hasFiles := 0, 0, len(m.Metadata), false
	for i, p := range m.Parts {
		if p.Kind == task.Text {
			textBytes += len(canon.AppendString(nil, p.Text))
		} else if err := checkFile(i, &p); err != nil {
			return err
		} else {
			hasFiles = true
		}
		if p.Kind == task.URL {
			if err := outbound.CheckLink(p.Text); err != nil {
				return problem.AtPath(fmt.Sprintf("parts[%d]", i), err)
			}
		}
		contentBytes += len(p.Text) + len(p.Content())
		otherBytes += len(p.Filename) + len(p.MediaType) + len(p.Metadata)
	}
	for _, s := range slices.Concat(m.Extensions, m.References) {
		otherBytes += len(s)
	}
	// A byte takes at most six bytes in the stored form. Only a message that may be too large is
	// encoded.
	storedBytes := 6*(contentBytes+otherBytes) + 4<<10
	if storedBytes >= maxStoredBytes {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m); err != nil {
			return err
		}
		storedBytes = b.Len()
	}
	switch {
	case storedBytes > maxStoredBytes:
		return problem.New(problem.TooLarge, "message: expected at most %d bytes in the form in which a task is stored, got %d", maxStoredBytes, storedBytes)
	case textBytes > maxTextBytes:
		return problem.New(problem.TooLarge, "parts: expected at most %d bytes of text in JSON, which escapes quotes and control characters, got %d", maxTextBytes, textBytes)
	case hasFiles && contentBytes > maxFileBytes:
		return problem.New(problem.TooLarge, "parts: expected at most %d bytes of texts and files together, got %d", maxFileBytes, contentBytes)
	}
	return nil
}

func (c *Caller) AcceptsPart(p *task.Part) bool {
	f := substrate.File{MediaType: p.NormalizedMediaType()}
	if p.Kind == task.URL {
		f.URL = p.Text
	}
	return c.Vacant.AcceptsFile(&f) || c.Options.HasJSON && (p.MediaType == "" || f.MediaType == mediaJSON)
}

const mediaJSON = "application/json"

func OutputModes(v *vacants.Record) []string {
	modes := []string{"text/plain", "text"}
	if conformance.OptionsOf(v.Substrate).HasJSON {
		modes = append(modes, mediaJSON)
	}
	return modes
}

func InputModes(v *vacants.Record) []string {
	modes := OutputModes(v)
	for _, media := range v.Input {
		if !slices.Contains(modes, media) {
			modes = append(modes, media)
		}
	}
	return modes
}

func ReadableTypes(v *vacants.Record) string {
	return strings.Join(append([]string{"text"}, InputModes(v)[2:]...), ", ")
}

func DescribePart(p *task.Part) string {
	switch {
	case p.Kind == task.URL:
		return "a URL"
	case p.MediaType == "":
		return fmt.Sprintf("%s without a media type (%s)", p.Kind, p.NormalizedMediaType())
	}
	return "a file of type " + httpapi.QuoteTruncated(p.MediaType)
}

func PartsText(parts []task.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func StatusText(s *task.Status) string {
	if s.Message == nil {
		return ""
	}
	return PartsText(s.Message.Parts)
}

func StatusError(s *task.Status) error {
	if s.FailureKind == "" {
		return nil
	}
	refusal := httpapi.Refusal{Code: s.FailureKind, Detail: StatusText(s)}
	return refusal.Problem()
}
