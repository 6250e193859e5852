package openaiwire

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
)

// Response is an answer of the Responses API. Members that this host does not use have neutral
// values, because typed clients require most members.
type Response struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	Created            int64             `json:"created_at"`
	Status             string            `json:"status"`
	Error              *ResponseError    `json:"error"`
	Incomplete         *Incomplete       `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	Model              string            `json:"model"`
	Output             []Item            `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Store              bool              `json:"store"`
	Temperature        *float64          `json:"temperature"`
	ToolChoice         string            `json:"tool_choice"`
	Tools              []struct{}        `json:"tools"`
	TopP               *float64          `json:"top_p"`
	Usage              *ResponseUsage    `json:"usage"`
	Metadata           map[string]string `json:"metadata"`
	// Fingerprint is the hash of the envelope that signs the request.
	Fingerprint string `json:"system_fingerprint,omitempty"`
	Proof       *Proof `json:"vacancy,omitempty"`
}

const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
)

type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type Incomplete struct {
	Reason string `json:"reason"`
}

type Item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Role    string `json:"role"`
	Content []Part `json:"content"`
}

type Part struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
	Logprobs    []struct{} `json:"logprobs"`
}

// ResponseUsage is the usage in tokens that the agent reported, or zero.
type ResponseUsage struct {
	Input         uint64        `json:"input_tokens"`
	InputDetails  Details       `json:"input_tokens_details"`
	Output        uint64        `json:"output_tokens"`
	OutputDetails OutputDetails `json:"output_tokens_details"`
	Total         uint64        `json:"total_tokens"`
}

// Agents do not report reasoning tokens.
type OutputDetails struct {
	Reasoning uint64 `json:"reasoning_tokens"`
}

type streamEvent struct {
	Type         string      `json:"type"`
	Number       int         `json:"sequence_number"`
	Response     *Response   `json:"response,omitempty"`
	ItemID       string      `json:"item_id,omitempty"`
	OutputIndex  *int        `json:"output_index,omitempty"`
	ContentIndex *int        `json:"content_index,omitempty"`
	Item         *Item       `json:"item,omitempty"`
	Part         *Part       `json:"part,omitempty"`
	Delta        *string     `json:"delta,omitempty"`
	Text         *string     `json:"text,omitempty"`
	Logprobs     *[]struct{} `json:"logprobs,omitempty"`
	Error        *Error      `json:"error,omitempty"`
}

const itemPrefix = "msg_"

// TaskIDOfItem returns the id of the task whose answer is the item. ok is false if this API did not
// create the item.
func TaskIDOfItem(item string) (id string, ok bool) { return strings.CutPrefix(item, itemPrefix) }

func (a *Answer) newResponse(status string) *Response {
	r := &Response{
		ID: "resp_" + a.ID, Object: "response", Created: a.Created, Status: status, Model: a.Model, Output: []Item{}, ToolChoice: "none",
		Tools: []struct{}{}, Metadata: map[string]string{}, Fingerprint: a.RequestHash, Proof: a.Proof,
	}
	if status != completed {
		return r
	}
	if IsIncomplete(a.CutReason) {
		// Responses has only this reason for an answer that may be incomplete.
		r.Status, r.Incomplete = incomplete, &Incomplete{"max_output_tokens"}
	}
	r.Output = []Item{*a.newItem(r.Status)}
	u := call.Usage{}
	if a.Usage != nil {
		u = *a.Usage
	}
	r.Usage = &ResponseUsage{Input: u.InputTokens, InputDetails: Details{u.CachedTokens}, Output: u.OutputTokens, Total: u.InputTokens + u.OutputTokens}
	return r
}

func (a *Answer) newItem(status string) *Item {
	i := &Item{ID: itemPrefix + a.ID, Type: "message", Status: status, Role: assistant, Content: []Part{}}
	if status != inProgress {
		i.Content = []Part{textPart(a.Text)}
	}
	return i
}

func textPart(text string) Part {
	return Part{Type: "output_text", Text: text, Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

func (a *Answer) newPartEvent(kind string) streamEvent {
	return streamEvent{Type: kind, ItemID: itemPrefix + a.ID, OutputIndex: new(int), ContentIndex: new(int)}
}

func (s *Stream) appendEvent(b []byte, e streamEvent) []byte {
	e.Number = s.nextNumber
	s.nextNumber++
	return appendData(append(append(append(b, "event: "...), e.Type...), '\n'), e)
}
