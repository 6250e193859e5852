// Package history verifies the history of a pair (one caller and one vacant), as printed by vacancy
// chain --json. An entry of a history is a call or a reset. A reset begins a new epoch, in which calls
// are numbered from 1. A decision ends a call: the vacant answers it, or the host declares it void.
//
// A history is valid if every readable message is signed by its sender and every hash, number and
// decision follows from the previous one. Unreadable messages are counted. Findings use the words
// of the page /web/chains.
package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/host/fsck/transcript"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Result is the result of checking a history.
type Result struct {
	Parts []datadir.Finding
	// Unread is the number of messages that can no longer be read. Check verifies their links to other
	// messages, but not their hashes and signatures.
	Unread int
}

const (
	// maxLineBytes limits a line, which contains a call and its answer, each with its text twice.
	maxLineBytes = 8 << 20
	maxFindings  = 100

	kindAnswer = "answer"
)

// IsHistory reports whether a file that starts with head is a history printed by vacancy chain --json.
func IsHistory(head []byte) bool { return bytes.HasPrefix(head, []byte(`{"position":`)) }

// Check verifies the entries of a history, one per line. It checks positions, epochs, numbers,
// times, links, signatures, the binding of answers to calls, and that each decision belongs to one
// call. Memory grows only with the number of decisions. Check returns an error only if r fails.
func Check(r io.Reader) (Result, error) {
	c := checker{startEpoch: -1}
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return c.finish(), nil
		case errors.Is(err, errLineTooLong):
			c.reportFault("entry", "line %d: the line is too long", c.entryCount+1)
			return c.finish(), nil
		case errors.Is(err, io.EOF):
			c.reportFault("entry", "line %d: the file ends before the end of the line", c.entryCount+1)
			return c.finish(), nil
		case err != nil:
			return Result{}, err
		}
		c.checkLine(line)
	}
}

var errLineTooLong = errors.New("too long")

func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLineBytes:
			return nil, errLineTooLong
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

type checker struct {
	entryCount, faultCount, signedCount, unreadCount int // numbers of lines, faults, readable and unreadable messages

	findings   []datadir.Finding
	lastEntry  *export.Entry
	latestTime string      // latest signed time so far
	startEpoch int64       // epoch of the first entry if the file begins in the middle of an epoch, otherwise -1
	pair       export.Pair // caller and vacant of the first signed message
	decisions  []decision
}

// decision is the decision of a call. position is its position in the stream of decisions, and
// entryPosition is the position of the call. If the call has no answer, answerSeq is 0.
type decision struct {
	position, epoch, entryPosition uint64
	answerSeq                      int64
	answerHash, answerPrev         identity.Hash
}

func (c *checker) reportFault(part, format string, args ...any) {
	c.faultCount++
	if len(c.findings) < maxFindings {
		c.findings = append(c.findings, datadir.Finding{Part: part, Detail: fmt.Sprintf(format, args...)})
	}
}

func (c *checker) checkLine(line []byte) {
	c.entryCount++
	e, err := readEntry(line)
	if err == nil {
		err = c.checkEntry(e)
	}
	if err == nil {
		c.lastEntry = e
		return
	}
	location := fmt.Sprintf("line %d", c.entryCount)
	if e != nil && e.Position > 0 {
		location = fmt.Sprintf("entry %d", e.Position)
	}
	c.reportFault("entry", "%s: %s", location, problem.AsError(err).Text())
}

// readEntry parses a line. It ignores unknown members, which newer programs may have written.
func readEntry(line []byte) (*export.Entry, error) {
	d := canon.NewDecoder(line, canon.Limits{Bytes: maxLineBytes, Depth: 32, Keys: 1024})
	if err := errors.Join(d.Skip(), d.End()); err != nil {
		return nil, err
	}
	var e export.Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return &e, problem.Wrap(problem.Malformed, err, "it is not an entry of a history: %v", err)
	}
	switch {
	case e.Position == 0 || e.Kind != "call" && e.Kind != "reset" || (e.Kind == "call") != (e.Seq > 0):
		return &e, problem.New(problem.Malformed, "expected a call or a reset with its position and number, got %.80q %d", e.Kind, e.Seq)
	case e.Hash.IsZero():
		return &e, problem.New(problem.Malformed, "hash: expected the hash of an envelope")
	}
	return &e, checkTime("time", e.Time)
}

func checkTime(member, text string) error {
	t, err := canon.ParseTime(text)
	if err != nil || canon.FormatTime(t) != text {
		return problem.New(problem.Malformed, "%s: expected its canonical form", member)
	}
	return nil
}

func (c *checker) checkEntry(e *export.Entry) error {
	if c.lastEntry == nil && e.Position != 1 && e.Kind == "call" {
		c.startEpoch = int64(e.Epoch)
	}
	c.checkPosition(e)
	expectedPrev := e.Prev
	switch {
	case e.Kind == "reset":
	case e.Seq == 1:
		expectedPrev = identity.Hash{}
	case c.lastEntry != nil:
		expectedPrev = c.lastEntry.Hash
	}
	if e.Prev != expectedPrev {
		c.reportFault("links", "entry %d: it names %s as the call before, expected %s", e.Position, e.Prev, expectedPrev)
	}
	facts := messageFacts{kind: e.Kind, seq: e.Seq, time: e.Time, hash: e.Hash}
	if err := c.checkMessage(e, facts, &e.RecordedText, &e.Proof); err != nil {
		return err
	}
	if e.Kind == "call" {
		if err := c.addDecision(e); err != nil {
			return err
		}
	}
	c.latestTime = max(c.latestTime, e.Time)
	return nil
}

func (c *checker) checkPosition(e *export.Entry) {
	epoch, seq := e.Epoch, e.Seq
	switch last := c.lastEntry; {
	case last != nil && e.Kind == "reset":
		epoch, seq = last.Epoch+1, 0
	case last != nil:
		epoch, seq = last.Epoch, last.Seq+1
	case e.Kind != "reset" && e.Position == 1:
		seq = 1
	}
	if c.lastEntry != nil && e.Position != c.lastEntry.Position+1 {
		c.reportFault("numbers", "entry %d: expected position %d, so entries are missing or moved", e.Position, c.lastEntry.Position+1)
	}
	switch {
	case e.Epoch != epoch:
		c.reportFault("epochs", "entry %d: expected epoch %d, got %d", e.Position, epoch, e.Epoch)
	case e.Seq != seq:
		c.reportFault("numbers", "entry %d: expected call %d.%d, got %d.%d", e.Position, e.Epoch, seq, e.Epoch, e.Seq)
	}
	if e.Kind == "reset" && e.Time <= c.latestTime {
		c.reportFault("epochs", "entry %d: a reset is signed later than everything before it, %s", e.Position, c.latestTime)
	}
}

// messageFacts contains an entry's data about a message. Only an answer has a key, which binds it
// to its call.
type messageFacts struct {
	kind string // call, reset or answer
	seq  int64
	time string
	hash identity.Hash
	key  string
}

func (c *checker) checkMessage(e *export.Entry, facts messageFacts, recorded *export.RecordedText, proof *export.Proof) error {
	switch {
	case recorded.Damaged:
		c.reportFault("texts", "entry %d: its text is damaged", e.Position)
		return nil
	case recorded.Sealed:
		c.unreadCount++
		return nil
	case recorded.Text == nil:
		return problem.New(problem.Malformed, "text: expected a string")
	case len(proof.Message) == 0:
		return problem.New(problem.Malformed, "message: expected an object")
	}
	m, err := envelope.DecodeMessage(proof.Message)
	if err != nil {
		return err
	}
	c.signedCount++
	subject, wantRole, pair := "the message", "a "+facts.kind, export.Pair{From: m.From, To: m.To}
	if facts.kind == kindAnswer {
		subject, wantRole, pair = "the answer", "an answer", export.Pair{From: m.To, To: m.From}
	}
	if c.pair == (export.Pair{}) {
		c.pair = pair
	}
	if pair != c.pair {
		c.reportFault("bindings", "entry %d: %s is of another pair", e.Position, subject)
	}
	// A signature is valid for one purpose: a message signed as an answer must not be accepted as a
	// call, and a message signed as a call must not be accepted as a reset.
	isAnswer := m.Payload.Role == envelope.RoleAgent
	if isAnswer != (facts.kind == kindAnswer) || facts.kind != kindAnswer && envelope.IsReplyKey(m.IdempotencyKey) || facts.kind == "reset" && !m.IsReset() {
		c.reportFault("bindings", "entry %d: %s is not signed as %s", e.Position, subject, wantRole)
	}
	if facts.key != "" && m.IdempotencyKey != facts.key {
		c.reportFault("bindings", "entry %d: the answer is not bound to the call", e.Position)
	}
	hash, valid := m.Verify()
	if hash != facts.hash || m.Prev != proof.Prev || canon.FormatTime(m.Time) != facts.time || facts.kind != "reset" && m.Seq != facts.seq || m.Payload.Text() != *recorded.Text {
		c.reportFault("links", "entry %d: %s is not the one that the entry tells of", e.Position, subject)
	}
	if !valid {
		c.reportFault("signatures", "entry %d: the signature of %s does not verify", e.Position, subject)
	}
	return nil
}

func (c *checker) addDecision(e *export.Entry) error {
	isDecided := e.Outcome == transcript.Answered || e.Outcome == transcript.Void
	switch d := e.Decision; {
	case !isDecided && e.Outcome != transcript.Closed && e.Outcome != transcript.Pending:
		return problem.New(problem.Malformed, "fate: expected answered, void, closed, pending")
	case isDecided != (d != nil):
		return problem.New(problem.Malformed, "decision: expected one for an answered or void call, and for no other; the call is %s", e.Outcome)
	case d == nil:
		return nil
	case d.Position == 0:
		return problem.New(problem.Malformed, "decision.position: expected an integer of at least 1")
	case (e.Outcome == transcript.Answered) != (d.Answer != nil):
		return problem.New(problem.Malformed, "answer: expected one for an answered call, and for no other; the call is %s", e.Outcome)
	}
	record := decision{position: e.Decision.Position, epoch: e.Epoch, entryPosition: e.Position}
	if a := e.Decision.Answer; a != nil {
		if a.Seq < 1 {
			return problem.New(problem.Malformed, "answer.seq: expected an integer of at least 1")
		}
		if err := checkTime("answer.time", a.Time); err != nil {
			return err
		}
		facts := messageFacts{kindAnswer, a.Seq, a.Time, a.Hash, envelope.ReplyKey(e.Hash)}
		if err := c.checkMessage(e, facts, &a.RecordedText, &a.Proof); err != nil {
			return err
		}
		record.answerSeq, record.answerHash, record.answerPrev = a.Seq, a.Hash, a.Prev
	}
	c.decisions = append(c.decisions, record)
	return nil
}

func (c *checker) finish() Result {
	c.checkAnswers()
	if c.faultCount > len(c.findings) {
		c.findings = append(c.findings, datadir.Finding{Part: "more", Detail: fmt.Sprintf("%d more are broken", c.faultCount-maxFindings)})
	}
	if c.entryCount == 0 {
		c.findings = append(c.findings, datadir.Finding{Part: "entries", Detail: "the file has none"})
	}
	if len(c.findings) == 0 {
		c.findings = append(c.findings, datadir.Finding{Part: "entries", OK: true, Detail: c.summary()})
	}
	isSignature := func(f datadir.Finding) bool { return f.Part == "signatures" }
	if c.signedCount > 0 && !slices.ContainsFunc(c.findings, isSignature) {
		c.findings = append(c.findings, datadir.Finding{Part: "signatures", OK: true, Detail: fmt.Sprintf("messages: %d, each signed by its sender, from %s to %s and back", c.signedCount, c.pair.From.Short(), c.pair.To.Short())})
	}
	return Result{c.findings, c.unreadCount}
}

func (c *checker) summary() string {
	first, suffix := c.lastEntry.Position-uint64(c.entryCount)+1, ""
	if first > 1 {
		suffix = "; those before are not in the file"
	}
	return fmt.Sprintf("entries: %d, from %d to %d, in order and linked, each decided at most once%s", c.entryCount, first, c.lastEntry.Position, suffix)
}

func (c *checker) checkAnswers() {
	slices.SortStableFunc(c.decisions, func(a, b decision) int { return cmp.Compare(a.position, b.position) })
	lastPosition, epoch, seq, tip := uint64(0), int64(-1), int64(0), identity.Hash{}
	for _, d := range c.decisions {
		if d.position == lastPosition {
			c.reportFault("bindings", "entry %d: decision %d is the decision of another call, too", d.entryPosition, d.position)
		}
		decisionEpoch := int64(d.epoch)
		// The file omits earlier calls of the epoch in which it begins, so answers of this epoch
		// may be missing.
		hasGap := decisionEpoch == c.startEpoch && (decisionEpoch != epoch || d.position != lastPosition+1)
		lastPosition = d.position
		if d.answerSeq == 0 {
			continue
		}
		if decisionEpoch != epoch {
			epoch, seq, tip = decisionEpoch, 0, identity.Hash{}
		}
		switch isNext := d.answerSeq == seq+1; {
		case isNext && d.answerPrev != tip:
			c.reportFault("links", "entry %d: its answer names %s as the answer before, expected %s", d.entryPosition, d.answerPrev, tip)
		case !isNext && (!hasGap || d.answerSeq <= seq):
			c.reportFault("bindings", "entry %d: expected answer %d.%d, got %d.%d", d.entryPosition, d.epoch, seq+1, d.epoch, d.answerSeq)
		}
		seq, tip = d.answerSeq, d.answerHash
	}
}
