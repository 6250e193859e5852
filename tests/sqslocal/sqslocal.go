// Package sqslocal is an in-process SQS for tests. Its queues hide a received message until it is
// deleted or its visibility timeout expires. All other features of SQS need LocalStack.
package sqslocal

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Message is a message of a queue.
type Message struct {
	ID, Body string
	Sent     time.Time
	First    time.Time // time of the first receive
	Count    int       // how often it was received
	Group    string    // of the sender; "" without a group
	Trace    string    // X-Ray's header of the request that sent it; "" without one

	visible time.Time
}

// Server has queues, each made by its first message.
type Server struct {
	URL string // of the server; a queue's is URL/NAME

	mu     sync.Mutex
	queues map[string][]*Message
	last   int
	watch  func(operation, queue string, carriedOut bool) bool
}

// Start runs a server that ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{queues: map[string][]*Message{}}
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// prefix begins the names of the queues of stage dev, for which the sample
// events are.
const prefix = "vacancy-dev-"

// Queue is the URL of a queue.
func (s *Server) Queue(name string) string { return s.URL + "/" + prefix + name }

// Watch calls fn before and after each operation. If fn returns false, the operation is
// not carried out, or not answered.
func (s *Server) Watch(fn func(operation, queue string, carriedOut bool) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = fn
}

// Waiting returns the bodies of a queue's messages, hidden ones included.
func (s *Server) Waiting(queue string) (bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.queues[queue] {
		bodies = append(bodies, m.Body)
	}
	return bodies
}

// Groups returns the groups of a queue's messages.
func (s *Server) Groups(queue string) (groups []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.queues[queue] {
		groups = append(groups, m.Group)
	}
	return groups
}

// Receive hides the visible messages of a queue, at most n, and returns copies.
func (s *Server) Receive(queue string, n int, hidden time.Duration) (all []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, m := range s.queues[queue] {
		if len(all) < n && !m.visible.After(now) {
			m.visible, m.First = now.Add(hidden), cmp.Or(m.First, now)
			m.Count++
			all = append(all, *m)
		}
	}
	return all
}

// Show ends the time for which messages are hidden, as it ends after their receiver died.
func (s *Server) Show(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.queues[queue] {
		m.visible = time.Time{}
	}
}

// Hidden returns the time for which a message is still hidden.
func (s *Server) Hidden(queue, id string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.queues[queue] {
		if m.ID == id {
			return time.Until(m.visible)
		}
	}
	return 0
}

// Delete removes a message.
func (s *Server) Delete(queue, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.queues[queue][:0]
	for _, m := range s.queues[queue] {
		if m.ID != id {
			kept = append(kept, m)
		}
	}
	s.queues[queue] = kept
}

// request has the members of all operations.
type request struct {
	QueueUrl            string
	MessageBody         string
	DelaySeconds        int
	MessageGroupId      string
	ReceiptHandle       string
	VisibilityTimeout   int
	MaxNumberOfMessages int
}

// ServeHTTP serves SQS's JSON protocol. A receipt is a message's id.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q request
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	queue := strings.TrimPrefix(path.Base(q.QueueUrl), prefix)
	s.mu.Lock()
	watch := s.watch
	s.mu.Unlock()
	if watch != nil && !watch(operation, queue, false) {
		panic(http.ErrAbortHandler)
	}
	answer, err := s.do(operation, queue, &q, r.Header.Get("X-Amzn-Trace-Id"))
	if watch != nil && !watch(operation, queue, true) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		answer = map[string]string{"__type": "InvalidParameterValue", "message": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// group matches a valid MessageGroupId.
var group = regexp.MustCompile(`^[!-~]{0,128}$`)

func (s *Server) do(operation, queue string, q *request, trace string) (any, error) {
	switch operation {
	case "SendMessage":
		if !group.MatchString(q.MessageGroupId) {
			return nil, fmt.Errorf("MessageGroupId: expected at most 128 letters, digits and punctuation, got %q", q.MessageGroupId)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last++
		now := time.Now()
		m := &Message{ID: fmt.Sprint("message-", s.last), Body: q.MessageBody, Sent: now, Group: q.MessageGroupId, Trace: trace, visible: now.Add(time.Duration(q.DelaySeconds) * time.Second)}
		s.queues[queue] = append(s.queues[queue], m)
		return map[string]string{"MessageId": m.ID, "MD5OfMessageBody": sum(m.Body)}, nil
	case "ChangeMessageVisibility":
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range s.queues[queue] {
			if m.ID == q.ReceiptHandle {
				m.visible = time.Now().Add(time.Duration(q.VisibilityTimeout) * time.Second)
			}
		}
		return struct{}{}, nil
	}
	return nil, fmt.Errorf("%q is no operation of this server", operation)
}

func sum(body string) string {
	b := md5.Sum([]byte(body))
	return hex.EncodeToString(b[:])
}

// Record is a message as Lambda gives it to a function.
func Record(queue string, m Message) map[string]any {
	record := map[string]any{
		"messageId": m.ID, "receiptHandle": m.ID, "body": m.Body, "md5OfBody": sum(m.Body), "eventSource": "aws:sqs",
		"eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:" + prefix + queue, "awsRegion": "us-east-1", "messageAttributes": map[string]any{},
		"attributes": map[string]any{
			"ApproximateReceiveCount": strconv.Itoa(m.Count), "SentTimestamp": strconv.FormatInt(m.Sent.UnixMilli(), 10),
			"SenderId": "AROAEXAMPLE:vacancy", "ApproximateFirstReceiveTimestamp": strconv.FormatInt(cmp.Or(m.First, m.Sent).UnixMilli(), 10),
		},
	}
	if m.Trace != "" {
		record["attributes"].(map[string]any)["AWSTraceHeader"] = m.Trace
	}
	return record
}
