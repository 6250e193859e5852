package openai

import (
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

// Request is a request for a completion.
type Request struct {
	Model string
	// Asked is the last message, which has a text or images.
	Asked Said
	// Told are the messages before, the oldest first: all texts of the system, and as much of the
	// newest conversation as an agent's memory holds. It is not nil.
	Told []Said

	Stream bool
	// Usage: the stream has a chunk with the usage.
	Usage bool
	// Came is the hash of the body, in hex.
	Came string
}

// Said is a message with its role. Only messages of the user have images.
type Said struct {
	Role, Text string
	Images     []Image
}

// Image is an image with its bytes, or the URL of one.
type Image struct {
	MediaType string // "" with a URL
	Data      []byte
	URL       string
}

// The roles of messages.
const (
	user      = "user"
	assistant = "assistant"
	system    = "system"
	developer = "developer"
)

// Limits of what is told to the agent beside the last message, as of its memory.
const (
	maxTold = 2 * call.MaxExchanges // messages of the conversation
	maxSize = call.MaxRemembered    // bytes of all messages together
)

// Decode reads the body of a request. The error, of kind Malformed, NotJSON or TooLarge, names the
// member.
func Decode(body []byte) (*Request, error) {
	sum := sha256.Sum256(body)
	q := &Request{Came: hex.EncodeToString(sum[:]), Told: []Said{}}
	limits := canon.DefaultLimits()
	limits.Bytes, limits.Lenient = len(body), true // who read it has bounded it
	d := canon.NewDecoder(body, limits)
	table := Members()
	var all []Said
	messages, includes := false, false
	err := d.Document(func(key string) (err error) {
		if at := slices.IndexFunc(table, func(m Member) bool { return m.Name == key }); at >= 0 && table[at].Rule == Refused {
			return table[at].check(d)
		}
		if d.Kind() == canon.Null && key != "messages" {
			return d.Null()
		}
		switch key {
		case "model":
			q.Model, err = d.String()
		case "stream":
			q.Stream, err = d.Bool()
		case "stream_options":
			includes = true
			err = d.Object(func(key string) (err error) {
				if key != "include_usage" || d.Kind() == canon.Null {
					return d.Skip()
				}
				q.Usage, err = d.Bool()
				return below("stream_options", err)
			})
		case "messages":
			messages = true
			err = d.Array(func(i int) error {
				m, err := readMessage(d)
				all = append(all, m)
				return below(fmt.Sprintf("messages[%d]", i), err)
			})
		default:
			err = d.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !messages:
		return nil, problem.Invalid("messages", "at least one message", "none")
	case includes && !q.Stream:
		return nil, problem.Invalid("stream_options", "none without stream", "some")
	}
	return q, q.divide(all)
}

// divide divides the messages into the last one, which is asked, and what is told before.
func (q *Request) divide(all []Said) error {
	last := len(all) - 1
	switch {
	case last < 0:
		return problem.Invalid("messages", "at least one message", "none")
	case all[last].Role != user:
		return problem.Invalid(fmt.Sprintf("messages[%d].role", last), "user, because the last message is asked", all[last].Role)
	case all[last].Text == "" && len(all[last].Images) == 0:
		return problem.Invalid(fmt.Sprintf("messages[%d].content", last), "a text, because the last message is asked", "none")
	}
	q.Asked = all[last]
	all = all[:last]
	size := 0
	for _, m := range all {
		if m.Role == system || m.Role == developer {
			size += len(m.Text)
		}
	}
	if size > maxSize {
		return problem.New(problem.TooLarge, "messages: expected at most %d bytes of system and developer texts, got %d", maxSize, size)
	}
	// The newest messages of the conversation that fit. What is left out is the oldest part of it.
	first, n := len(all), 0
	for i := last - 1; i >= 0; i-- {
		if all[i].Role == user || all[i].Role == assistant {
			if n++; n > maxTold || size+len(all[i].Text) > maxSize {
				break
			}
			size += len(all[i].Text)
		}
		first = i
	}
	for i, m := range all {
		if (m.Text != "" || len(m.Images) > 0) && (i >= first || m.Role == system || m.Role == developer) {
			q.Told = append(q.Told, m)
		}
	}
	return nil
}

// below is an error about a member of the value at a path.
func below(path string, err error) error {
	if err == nil {
		return nil
	}
	return problem.Below(path, err)
}

const knownRoles = "one of user, assistant, system, developer"

func readMessage(d *canon.Decoder) (m Said, err error) {
	if d.Kind() != canon.Object {
		return m, problem.Invalid("", "an object with role and content", d.Kind().String())
	}
	content := false
	err = d.Object(func(key string) (err error) {
		switch key {
		case "role":
			m.Role, err = d.String()
		case "content":
			if content = d.Kind() != canon.Null; !content {
				return d.Null()
			}
			m.Text, m.Images, err = readContent(d)
		case "tool_calls", "function_call", "audio", "tool_call_id":
			err = Member{Name: key, Note: "the agent runs its own tools and reads text", Allowed: []string{"[]"}}.check(d)
		default:
			err = d.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return m, err
	case m.Role == "":
		return m, problem.Invalid("role", knownRoles, "none")
	case m.Role != user && m.Role != assistant && m.Role != system && m.Role != developer:
		return m, problem.Invalid("role", knownRoles, fmt.Sprintf("%.40q", m.Role))
	case len(m.Images) > 0 && m.Role != user:
		return m, problem.Invalid("content", "texts, because only the user's messages have images", "an image")
	case !content && m.Role != assistant:
		return m, problem.Invalid("content", "a text", "none")
	}
	return m, nil
}

// readContent reads a text, or parts of text and images.
func readContent(d *canon.Decoder) (string, []Image, error) {
	if d.Kind() != canon.Array {
		text, err := d.String()
		return text, nil, err
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

// The types of parts.
const (
	textPart  = "text"
	imagePart = "image_url"
)

// readPart reads a part of type text or image_url.
func readPart(d *canon.Decoder) (text string, image *Image, err error) {
	if d.Kind() != canon.Object {
		return "", nil, problem.Invalid("", "an object with type and text or image_url", d.Kind().String())
	}
	kind, has, url := "", false, ""
	err = d.Object(func(key string) (err error) {
		switch {
		case key == "type":
			kind, err = d.String()
		case key == textPart && d.Kind() == canon.String:
			has = true
			text, err = d.String()
		case key == imagePart && d.Kind() == canon.Object:
			err = d.Object(func(key string) (err error) {
				if key != "url" {
					return d.Skip() // the model's server decides on the detail
				}
				url, err = d.String()
				return err
			})
			err = below(imagePart, err)
		default: // of a part of another type
			err = d.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return "", nil, err
	case kind == imagePart:
		image, err = readImage(url)
		return "", image, below(imagePart, err)
	case kind != textPart:
		return "", nil, problem.Invalid("type", "text or image_url", fmt.Sprintf("%.40q", kind))
	case !has:
		return "", nil, problem.Invalid("text", "a text", "none")
	}
	return text, nil, nil
}

// readImage reads the URL of an image, which may have its bytes.
func readImage(url string) (*Image, error) {
	const want = "data:image/TYPE;base64,BYTES, or a public https URL without user and password"
	rest, isData := strings.CutPrefix(url, "data:")
	media, encoded, isBase64 := strings.Cut(rest, ";base64,")
	if !isData && outbound.CheckLink(url) == nil {
		return &Image{URL: url}, nil
	}
	if media = strings.ToLower(media); !isData || !isBase64 || !strings.HasPrefix(media, "image/") {
		return nil, problem.Invalid("url", want, fmt.Sprintf("%.80q", url))
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, problem.Invalid("url", want, "bytes that are not base64")
	}
	return &Image{MediaType: media, Data: data}, nil
}
