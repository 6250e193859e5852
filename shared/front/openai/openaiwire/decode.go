package openaiwire

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Request is a decoded request of one of the APIs.
type Request struct {
	API   API
	Model string
	// Question is the last message. It has a text or images.
	Question InputMessage
	// Earlier contains all system texts, and as many of the newest earlier messages as fit into an
	// agent's memory, in chronological order. It is never nil.
	Earlier []InputMessage
	// OmittedCount is the number of older messages that Earlier omits.
	OmittedCount int

	WantsStream bool
	// WantsUsage is true if the stream of a completion must contain a chunk with the usage.
	WantsUsage bool
	HasStop    bool
	// BodyHash is the SHA-256 of the body as received, in hexadecimal.
	BodyHash string
}

// InputMessage is a message with its role. Only user messages can have images.
type InputMessage struct {
	Role, Text string
	Images     []Image
	// AnswerID refers to an earlier answer of this API, or is "". Resolve replaces it with the
	// answer's text.
	AnswerID string
}

type Image struct {
	MediaType string // empty if the image is a URL
	Data      []byte
	URL       string
}

// Messages of functions get the role of tools.
const (
	user      = "user"
	assistant = "assistant"
	system    = "system"
	developer = "developer"
	tool      = "tool"
	function  = "function"
)

// Limits of Request.Earlier, which are the limits of an agent's memory.
const (
	maxEarlierMessages = 2 * call.MaxExchanges // messages of the conversation
	maxEarlierBytes    = call.MaxThreadBytes
)

// Decode decodes the body of a request. Its error is Malformed, NotJSON or TooLarge, and names the
// member.
func Decode(api API, body []byte) (*Request, error) {
	sum := sha256.Sum256(body)
	r := decoder{Request: &Request{API: api, BodyHash: hex.EncodeToString(sum[:]), Earlier: []InputMessage{}}}
	limits := canon.DefaultLimits()
	limits.Bytes, limits.Lenient = len(body), true // the caller has already limited the body
	r.d = canon.NewDecoder(body, limits)
	table, messages := api.Members(), api.messagesMember()
	err := r.d.Document(func(key string) error {
		index := slices.IndexFunc(table, func(m Member) bool { return m.Name == key })
		switch {
		case index >= 0 && table[index].Rule == Refused:
			return table[index].checkRefused(r.d)
		case r.d.Kind() == canon.Null && key != messages:
			return r.d.Null()
		case index >= 0 && table[index].Rule == Used || key == "stop":
			return r.readMember(key)
		}
		return r.d.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case !r.hasMessages:
		return nil, problem.Invalid(messages, "at least one message", "none")
	case r.hasStreamOptions && !r.WantsStream:
		return nil, problem.Invalid("stream_options", "none without stream", "some")
	}
	return r.Request, r.splitConversation(r.conversation, r.instructions)
}

type decoder struct {
	*Request
	d                             *canon.Decoder
	conversation                  []InputMessage
	instructions                  string
	hasMessages, hasStreamOptions bool
}

func (r *decoder) readMember(key string) (err error) {
	d := r.d
	switch key {
	case "model":
		r.Model, err = d.String()
	case "stream":
		r.WantsStream, err = d.Bool()
	case "stop":
		raw, err := d.Raw()
		r.HasStop = string(raw) != "[]"
		return err
	case "instructions":
		r.instructions, err = d.String()
	case "text":
		err = d.Object(func(key string) error {
			if key != "format" {
				return d.Skip()
			}
			return atPath("text", Member{Name: key, Note: ownerSetsFormat, Allowed: []string{textFormat}}.checkRefused(d))
		})
	case "stream_options":
		r.hasStreamOptions = true
		err = d.Object(func(key string) (err error) {
			if key != "include_usage" || d.Kind() == canon.Null {
				return d.Skip()
			}
			r.WantsUsage, err = d.Bool()
			return atPath("stream_options", err)
		})
	default: // messages or input
		r.hasMessages = true
		if r.API == Responses && d.Kind() == canon.String {
			r.conversation = []InputMessage{{Role: user}}
			r.conversation[0].Text, err = d.String()
			return err
		}
		err = d.Array(func(i int) error {
			m, err := r.API.readMessage(d)
			r.conversation = append(r.conversation, m)
			return atPath(fmt.Sprintf("%s[%d]", key, i), err)
		})
	}
	return err
}

// Resolve replaces the references to earlier answers with the texts that find returns.
func (q *Request) Resolve(find func(id string) (string, error)) error {
	textByID := map[string]string{}
	for i := range q.Earlier {
		m := &q.Earlier[i]
		if m.AnswerID == "" {
			continue
		}
		text, isFound := textByID[m.AnswerID]
		if !isFound {
			var err error
			if text, err = find(m.AnswerID); err != nil {
				return problem.AtPath(q.API.messagesMember(), err)
			}
			textByID[m.AnswerID] = text
		}
		m.Text, m.AnswerID = text, ""
	}
	if len(textByID) == 0 {
		return nil
	}
	conversation := append(q.Earlier, q.Question)
	q.Earlier = []InputMessage{}
	return q.splitConversation(conversation, "")
}

// splitConversation sets Question and Earlier. If the earlier messages exceed the limits, it omits
// the oldest ones except system texts.
func (q *Request) splitConversation(conversation []InputMessage, instructions string) error {
	lastIndex, messages := len(conversation)-1, q.API.messagesMember()
	switch {
	case lastIndex < 0:
		return problem.Invalid(messages, "at least one message", "none")
	case conversation[lastIndex].Role != user:
		return problem.Invalid(fmt.Sprintf("%s[%d].role", messages, lastIndex), "user, because the last message is the question", cmp.Or(conversation[lastIndex].Role, "none"))
	case conversation[lastIndex].Text == "" && len(conversation[lastIndex].Images) == 0:
		return problem.Invalid(fmt.Sprintf("%s[%d].content", messages, lastIndex), "a text, because the last message is the question", "none")
	}
	q.Question = conversation[lastIndex]
	conversation = conversation[:lastIndex]
	size := len(instructions)
	for _, m := range conversation {
		if m.isSystem() {
			size += len(m.Text)
		}
	}
	if size > maxEarlierBytes {
		return problem.New(problem.TooLarge, "%s: expected at most %d bytes of system and developer texts, got %d", messages, maxEarlierBytes, size)
	}
	if instructions != "" {
		q.Earlier = append(q.Earlier, InputMessage{Role: system, Text: instructions})
	}
	// Earlier gets conversation[first] and the later messages.
	first, n := len(conversation), 0
	for i := lastIndex - 1; i >= 0; i-- {
		if !conversation[i].isSystem() && !conversation[i].isEmpty() {
			if n++; n > maxEarlierMessages || size+len(conversation[i].Text) > maxEarlierBytes {
				break
			}
			size += len(conversation[i].Text)
		}
		first = i
	}
	for i, m := range conversation {
		switch {
		case m.isEmpty():
		case i >= first || m.isSystem():
			q.Earlier = append(q.Earlier, m)
		default:
			q.OmittedCount++
		}
	}
	return nil
}

func (m *InputMessage) isSystem() bool { return m.Role == system || m.Role == developer }

func (m *InputMessage) isEmpty() bool { return m.Text == "" && len(m.Images) == 0 && m.AnswerID == "" }

// Warnings returns messages for the client about requested features that were ignored.
func (q *Request) Warnings() (warnings []string) {
	if q.OmittedCount > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: the %d oldest messages were omitted, because the agent gets at most %d messages and %d bytes", q.API.messagesMember(), q.OmittedCount, maxEarlierMessages, maxEarlierBytes))
	}
	if q.HasStop {
		warnings = append(warnings, "stop: ignored, because "+agentSetsEnd)
	}
	return warnings
}

func atPath(path string, err error) error {
	if err == nil {
		return nil
	}
	return problem.AtPath(path, err)
}

const knownRoles = "one of user, assistant, system, developer, tool"

// readMessage turns tool calls and their results into texts, because the agent has other tools. An
// item of another kind becomes an empty message, which the agent does not get.
func (api API) readMessage(d *canon.Decoder) (m InputMessage, err error) {
	if d.Kind() != canon.Object {
		return m, problem.Invalid("", "an object with role and content", d.Kind().String())
	}
	var content []byte
	var calls []canon.Value
	var item struct{ kind, id, name, input, output string }
	err = d.Object(func(key string) (err error) {
		if d.Kind() == canon.Null {
			return d.Null()
		}
		switch key {
		case "role":
			m.Role, err = d.String()
		case "content":
			content, err = d.Raw()
		case "tool_calls", "function_call":
			v, err := d.Value()
			calls = append(append(calls, v), v.Items()...)
			return err
		case "type":
			item.kind, err = readText(d)
		case "id":
			item.id, err = readText(d)
		case "name":
			item.name, err = readText(d)
		case "arguments", "input":
			item.input, err = readText(d)
		case "output":
			item.output, err = readText(d)
		default:
			err = d.Skip()
		}
		return err
	})
	if err != nil {
		return m, err
	}
	if api == Responses && item.kind != "" && item.kind != "message" {
		switch item.kind {
		case "function_call", "custom_tool_call":
			m = InputMessage{Role: assistant, Text: formatToolCall(item.name, item.input)}
		case "function_call_output", "custom_tool_call_output":
			m = InputMessage{Role: tool, Text: item.output}
		case "item_reference":
			m = InputMessage{Role: assistant, AnswerID: item.id}
		}
		return m, nil
	}
	switch m.Role {
	case user, assistant, system, developer, tool:
	case function:
		m.Role = tool
	case "":
		return m, problem.Invalid("role", knownRoles, "none")
	default:
		return m, problem.Invalid("role", knownRoles, fmt.Sprintf("%.40q", m.Role))
	}
	if content != nil {
		limits := canon.DefaultLimits()
		limits.Bytes, limits.Lenient = len(content), true
		m.Text, m.Images, err = readContent(canon.NewDecoder(content, limits))
	}
	for _, c := range calls {
		if text := toolCallText(c); text != "" {
			m.Text = strings.TrimPrefix(m.Text+"\n"+text, "\n")
		}
	}
	switch {
	case err != nil:
		return m, err
	case len(m.Images) > 0 && m.Role != user:
		return m, problem.Invalid("content", "texts, because only the user's messages have images", "an image")
	case content == nil && m.Role != assistant:
		return m, problem.Invalid("content", "a text", "none")
	}
	return m, nil
}

func readText(d *canon.Decoder) (string, error) {
	if d.Kind() == canon.String {
		return d.String()
	}
	raw, err := d.Raw()
	return string(raw), err
}

func toolCallText(v canon.Value) string {
	for _, key := range []string{"function", "custom"} {
		if member, ok := v.Get(key); ok {
			v = member
		}
	}
	name, _ := v.Get("name")
	input, ok := v.Get("arguments")
	if !ok {
		input, _ = v.Get("input")
	}
	if name.Kind() != canon.String {
		return ""
	}
	return formatToolCall(name.Text(), input.Text())
}

func formatToolCall(name, input string) string {
	return fmt.Sprintf("[called the tool %s with %s]", name, cmp.Or(input, "nothing"))
}

func readContent(d *canon.Decoder) (string, []Image, error) {
	if d.Kind() != canon.Array {
		text, err := d.String()
		return text, nil, atPath("content", err)
	}
	var texts []string
	var images []Image
	err := d.Array(func(i int) error {
		text, image, err := readPart(d)
		if image != nil {
			images = append(images, *image)
		} else {
			texts = append(texts, text)
		}
		return atPath(fmt.Sprintf("content[%d]", i), err)
	})
	return strings.Join(texts, "\n"), images, err
}

func readPart(d *canon.Decoder) (text string, image *Image, err error) {
	if d.Kind() != canon.Object {
		return "", nil, problem.Invalid("", "an object with type and text or image_url", d.Kind().String())
	}
	const imageURL = "image_url"
	kind, hasText, url := "", false, ""
	err = d.Object(func(key string) (err error) {
		switch {
		case key == "type":
			kind, err = d.String()
		case (key == "text" || key == "refusal") && d.Kind() == canon.String:
			hasText = true
			text, err = d.String()
		case key == imageURL && d.Kind() == canon.String:
			url, err = d.String()
		case key == imageURL && d.Kind() == canon.Object:
			err = d.Object(func(key string) (err error) {
				if key != "url" {
					return d.Skip() // the model's provider chooses the level of detail
				}
				url, err = d.String()
				return err
			})
			err = atPath(imageURL, err)
		default: // a member of a part of another type
			err = d.Skip()
		}
		return err
	})
	if err != nil {
		return "", nil, err
	}
	switch kind {
	case imageURL, "input_image":
		image, err = readImage(url)
		return "", image, atPath(imageURL, err)
	case "text", "input_text", "output_text", "refusal":
		if !hasText {
			err = problem.Invalid("text", "a text", "none")
		}
		return text, nil, err
	}
	return "", nil, problem.Invalid("type", "text or image_url, or in Responses input_text or input_image", fmt.Sprintf("%.40q", kind))
}

// readImage accepts both base64 alphabets in data URLs, because clients encode data URLs
// differently.
func readImage(url string) (*Image, error) {
	const want = "data:image/TYPE;base64,BYTES, or a public https URL without user and password"
	mediaPart, dataPart, _ := strings.Cut(url, ",")
	mediaPart, isData := strings.CutPrefix(strings.ToLower(mediaPart), "data:")
	isData = isData && strings.HasPrefix(mediaPart, "image/") && strings.HasSuffix(mediaPart, ";base64")
	switch {
	case !isData && outbound.CheckLink(url) == nil:
		return &Image{URL: url}, nil
	case !isData:
		return nil, problem.Invalid("url", want, fmt.Sprintf("%.80q", url))
	}
	encoded := strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(dataPart)
	data, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, problem.Invalid("url", want, "bytes that are not base64")
	}
	media, _, _ := strings.Cut(mediaPart, ";")
	return &Image{MediaType: media, Data: data}, nil
}
