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

// Request is a request of one of the APIs.
type Request struct {
	API   API
	Model string
	// Asked is the last message, which has a text or images.
	Asked Said
	// Told are the messages before, the oldest first: all texts of the system, and as much of the
	// newest conversation as an agent's memory holds. It is not nil.
	Told []Said
	// Left is the number of older messages that are not in Told.
	Left int

	Stream bool
	// Usage: the stream of a completion has a chunk with the usage.
	Usage bool
	// Stops: the request has a text at which its answer shall stop.
	Stops bool
	// Came is the hash of the body, in hex.
	Came string
}

// Said is a message with its role. Only messages of the user have images.
type Said struct {
	Role, Text string
	Images     []Image
	// Answer is the id of an earlier answer of this API that is the message. Resolve replaces it
	// with the text of the answer.
	Answer string
}

// Image is an image with its bytes, or the URL of one.
type Image struct {
	MediaType string // "" with a URL
	Data      []byte
	URL       string
}

// The roles of messages. Messages of functions have the role of tools.
const (
	user      = "user"
	assistant = "assistant"
	system    = "system"
	developer = "developer"
	tool      = "tool"
	function  = "function"
)

// Limits of what is told to the agent beside the last message, as of its memory.
const (
	maxTold = 2 * call.MaxExchanges // messages of the conversation
	maxSize = call.MaxRemembered    // bytes of all messages together
)

// Decode reads the body of a request. The error, of kind Malformed, NotJSON or TooLarge, names the
// member.
func Decode(api API, body []byte) (*Request, error) {
	sum := sha256.Sum256(body)
	r := reading{Request: &Request{API: api, Came: hex.EncodeToString(sum[:]), Told: []Said{}}}
	limits := canon.DefaultLimits()
	limits.Bytes, limits.Lenient = len(body), true // who read it has bounded it
	r.d = canon.NewDecoder(body, limits)
	table, messages := api.Members(), api.messages()
	err := r.d.Document(func(key string) error {
		at := slices.IndexFunc(table, func(m Member) bool { return m.Name == key })
		switch {
		case at >= 0 && table[at].Rule == Refused:
			return table[at].check(r.d)
		case r.d.Kind() == canon.Null && key != messages:
			return r.d.Null()
		case at >= 0 && table[at].Rule == Counts || key == "stop":
			return r.read(key)
		}
		return r.d.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case !r.came:
		return nil, problem.Invalid(messages, "at least one message", "none")
	case r.options && !r.Stream:
		return nil, problem.Invalid("stream_options", "none without stream", "some")
	}
	return r.Request, r.divide(r.all, r.instructions)
}

// reading is a request that is being read.
type reading struct {
	*Request
	d             *canon.Decoder
	all           []Said
	instructions  string
	came, options bool // the messages and the options of the stream were read
}

// read reads a member that counts.
func (r *reading) read(key string) (err error) {
	d := r.d
	switch key {
	case "model":
		r.Model, err = d.String()
	case "stream":
		r.Stream, err = d.Bool()
	case "stop":
		raw, err := d.Raw()
		r.Stops = string(raw) != "[]"
		return err
	case "instructions":
		r.instructions, err = d.String()
	case "text":
		err = d.Object(func(key string) error {
			if key != "format" {
				return d.Skip()
			}
			return below("text", Member{Name: key, Note: formIsOwners, Allowed: []string{textFormat}}.check(d))
		})
	case "stream_options":
		r.options = true
		err = d.Object(func(key string) (err error) {
			if key != "include_usage" || d.Kind() == canon.Null {
				return d.Skip()
			}
			r.Usage, err = d.Bool()
			return below("stream_options", err)
		})
	default: // messages or input
		r.came = true
		if r.API == Responses && d.Kind() == canon.String {
			r.all = []Said{{Role: user}}
			r.all[0].Text, err = d.String()
			return err
		}
		err = d.Array(func(i int) error {
			m, err := r.API.readMessage(d)
			r.all = append(r.all, m)
			return below(fmt.Sprintf("%s[%d]", key, i), err)
		})
	}
	return err
}

// Resolve replaces the earlier answers among the messages with their texts, which find returns by the
// ids of the answers.
func (q *Request) Resolve(find func(id string) (string, error)) error {
	found := map[string]string{}
	for i := range q.Told {
		m := &q.Told[i]
		if m.Answer == "" {
			continue
		}
		text, known := found[m.Answer]
		if !known {
			var err error
			if text, err = find(m.Answer); err != nil {
				return problem.Below(q.API.messages(), err)
			}
			found[m.Answer] = text
		}
		m.Text, m.Answer = text, ""
	}
	if len(found) == 0 {
		return nil
	}
	all := append(q.Told, q.Asked)
	q.Told = []Said{}
	return q.divide(all, "")
}

// divide divides the messages into the last one, which is asked, and what is told before. The
// instructions of a request are told first.
func (q *Request) divide(all []Said, instructions string) error {
	last, messages := len(all)-1, q.API.messages()
	switch {
	case last < 0:
		return problem.Invalid(messages, "at least one message", "none")
	case all[last].Role != user:
		return problem.Invalid(fmt.Sprintf("%s[%d].role", messages, last), "user, because the last message is asked", cmp.Or(all[last].Role, "none"))
	case all[last].Text == "" && len(all[last].Images) == 0:
		return problem.Invalid(fmt.Sprintf("%s[%d].content", messages, last), "a text, because the last message is asked", "none")
	}
	q.Asked = all[last]
	all = all[:last]
	size := len(instructions)
	for _, m := range all {
		if m.isSystem() {
			size += len(m.Text)
		}
	}
	if size > maxSize {
		return problem.New(problem.TooLarge, "%s: expected at most %d bytes of system and developer texts, got %d", messages, maxSize, size)
	}
	if instructions != "" {
		q.Told = append(q.Told, Said{Role: system, Text: instructions})
	}
	// The newest messages of the conversation that fit. What is left out is the oldest part of it.
	first, n := len(all), 0
	for i := last - 1; i >= 0; i-- {
		if !all[i].isSystem() && !all[i].isEmpty() {
			if n++; n > maxTold || size+len(all[i].Text) > maxSize {
				break
			}
			size += len(all[i].Text)
		}
		first = i
	}
	for i, m := range all {
		switch {
		case m.isEmpty():
		case i >= first || m.isSystem():
			q.Told = append(q.Told, m)
		default:
			q.Left++
		}
	}
	return nil
}

func (m *Said) isSystem() bool { return m.Role == system || m.Role == developer }

func (m *Said) isEmpty() bool { return m.Text == "" && len(m.Images) == 0 && m.Answer == "" }

// Warnings tells the client what its request asked for in vain.
func (q *Request) Warnings() (all []string) {
	if q.Left > 0 {
		all = append(all, fmt.Sprintf("%s: the agent was not told the %d oldest messages, because it is told at most %d messages and %d bytes", q.API.messages(), q.Left, maxTold, maxSize))
	}
	if q.Stops {
		all = append(all, "stop: ignored, because "+endIsAgents)
	}
	return all
}

// below is an error about a member of the value at a path.
func below(path string, err error) error {
	if err == nil {
		return nil
	}
	return problem.Below(path, err)
}

const knownRoles = "one of user, assistant, system, developer, tool"

// readMessage reads a message, or an item of the input of Responses. A call of a tool and its result become
// texts, because the agent told of them has other tools. An item of a kind that has no text is empty.
func (api API) readMessage(d *canon.Decoder) (m Said, err error) {
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
			item.kind, err = textOf(d)
		case "id":
			item.id, err = textOf(d)
		case "name":
			item.name, err = textOf(d)
		case "arguments", "input":
			item.input, err = textOf(d)
		case "output":
			item.output, err = textOf(d)
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
			m = Said{Role: assistant, Text: callText(item.name, item.input)}
		case "function_call_output", "custom_tool_call_output":
			m = Said{Role: tool, Text: item.output}
		case "item_reference":
			m = Said{Role: assistant, Answer: item.id}
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
		if text := callOf(c); text != "" {
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

// textOf reads a text, or another value as JSON.
func textOf(d *canon.Decoder) (string, error) {
	if d.Kind() == canon.String {
		return d.String()
	}
	raw, err := d.Raw()
	return string(raw), err
}

// callOf returns the text of a call of a tool, or "" if v is none.
func callOf(v canon.Value) string {
	for _, key := range []string{"function", "custom"} {
		if of, ok := v.Get(key); ok {
			v = of
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
	return callText(name.Text(), input.Text())
}

func callText(name, input string) string {
	return fmt.Sprintf("[called the tool %s with %s]", name, cmp.Or(input, "nothing"))
}

// readContent reads a text, or parts of text and images.
func readContent(d *canon.Decoder) (string, []Image, error) {
	if d.Kind() != canon.Array {
		text, err := d.String()
		return text, nil, below("content", err)
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
		return below(fmt.Sprintf("content[%d]", i), err)
	})
	return strings.Join(texts, "\n"), images, err
}

// readPart reads a part with a text or an image.
func readPart(d *canon.Decoder) (text string, image *Image, err error) {
	if d.Kind() != canon.Object {
		return "", nil, problem.Invalid("", "an object with type and text or image_url", d.Kind().String())
	}
	const imageURL = "image_url"
	kind, has, url := "", false, ""
	err = d.Object(func(key string) (err error) {
		switch {
		case key == "type":
			kind, err = d.String()
		case (key == "text" || key == "refusal") && d.Kind() == canon.String:
			has = true
			text, err = d.String()
		case key == imageURL && d.Kind() == canon.String:
			url, err = d.String()
		case key == imageURL && d.Kind() == canon.Object:
			err = d.Object(func(key string) (err error) {
				if key != "url" {
					return d.Skip() // the model's server decides on the detail
				}
				url, err = d.String()
				return err
			})
			err = below(imageURL, err)
		default: // of a part of another type
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
		return "", image, below(imageURL, err)
	case "text", "input_text", "output_text", "refusal":
		if !has {
			err = problem.Invalid("text", "a text", "none")
		}
		return text, nil, err
	}
	return "", nil, problem.Invalid("type", "text or image_url, or in Responses input_text or input_image", fmt.Sprintf("%.40q", kind))
}

// readImage reads the URL of an image, which may have its bytes in base64 of either alphabet. Clients spell data
// URLs differently.
func readImage(url string) (*Image, error) {
	const want = "data:image/TYPE;base64,BYTES, or a public https URL without user and password"
	head, rest, _ := strings.Cut(url, ",")
	head, isData := strings.CutPrefix(strings.ToLower(head), "data:")
	isData = isData && strings.HasPrefix(head, "image/") && strings.HasSuffix(head, ";base64")
	switch {
	case !isData && outbound.CheckLink(url) == nil:
		return &Image{URL: url}, nil
	case !isData:
		return nil, problem.Invalid("url", want, fmt.Sprintf("%.80q", url))
	}
	encoded := strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(rest)
	data, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, problem.Invalid("url", want, "bytes that are not base64")
	}
	media, _, _ := strings.Cut(head, ";")
	return &Image{MediaType: media, Data: data}, nil
}
