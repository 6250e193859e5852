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
	// maxLine limits the bytes of a line. A line contains a call and its answer, each with its text
	// twice: as text, and in the signed message.
	maxLine = 8 << 20
	// maxNamed limits the findings that are described individually.
	maxNamed = 100

	// kindAnswer is the kind of an answer. The other kinds of messages are the kinds of entries.
	kindAnswer = "answer"
)

// IsHistory reports whether a file that starts with head is a history printed by vacancy chain --json.
func IsHistory(head []byte) bool { return bytes.HasPrefix(head, []byte(`{"position":`)) }

// Check verifies the entries of a history, one per line: positions, epochs, numbers, times, links,
// signatures, the binding of answers to calls, and that each decision belongs to one call. The page
// /web/chains returns the same findings. Memory grows only with the number of answers. The error is
// the reader's.
func Check(r io.Reader) (Result, error) {
	c := checker{startEpoch: -1}
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return c.finish(), nil
		case errors.Is(err, errLong):
			c.fail("entry", "line %d: the line is too long", c.entries+1)
			return c.finish(), nil
		case errors.Is(err, io.EOF):
			c.fail("entry", "line %d: the file ends before the end of the line", c.entries+1)
			return c.finish(), nil
		case err != nil:
			return Result{}, err
		}
		c.add(line)
	}
}

var errLong = errors.New("too long")

func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, errLong
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// checker is the state of a running check.
type checker struct {
	entries, broken, signed, unread int // numbers of lines, faults, verified and unreadable messages

	findings   []datadir.Finding
	last       *export.Entry // previous entry
	latest     string        // latest signed time so far
	startEpoch int64         // epoch of the first entry if the file begins in the middle of an epoch, otherwise -1
	pair       export.Pair   // caller and vacant of the first signed message
	decisions  []decision    // decisions of all entries
}

// decision is the decision of a call. position is its position in the stream of decisions, and
// entryPosition is the position of the call. answerSeq, answerHash and answerPrev are members of the
// answer. If the call has no answer, answerSeq is 0.
type decision struct {
	at, epoch, entry uint64
	seq              int64
	hash, prev       identity.Hash
}

func (c *checker) fail(part, format string, args ...any) {
	c.broken++
	if len(c.findings) < maxNamed {
		c.findings = append(c.findings, datadir.Finding{Part: part, Detail: fmt.Sprintf(format, args...)})
	}
}

func (c *checker) add(line []byte) {
	c.entries++
	e, err := readEntry(line)
	if err == nil {
		err = c.check(e)
	}
	if err == nil {
		c.last = e
		return
	}
	location := fmt.Sprintf("line %d", c.entries)
	if e != nil && e.Position > 0 {
		location = fmt.Sprintf("entry %d", e.Position)
	}
	c.fail("entry", "%s: %s", location, problem.AsError(err).Text())
}

// readEntry parses a line. It ignores unknown members, which newer programs may have written.
func readEntry(line []byte) (*export.Entry, error) {
	d := canon.NewDecoder(line, canon.Limits{Bytes: maxLine, Depth: 32, Keys: 1024})
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

func (c *checker) check(e *export.Entry) error {
	if c.last == nil && e.Position != 1 && e.Kind == "call" {
		c.startEpoch = int64(e.Epoch)
	}
	c.checkPlace(e)
	before := e.Prev
	switch {
	case e.Kind == "reset":
	case e.Seq == 1:
		before = identity.Hash{}
	case c.last != nil:
		before = c.last.Hash
	}
	if e.Prev != before {
		c.fail("links", "entry %d: it names %s as the call before, expected %s", e.Position, e.Prev, before)
	}
	told := messageFacts{kind: e.Kind, seq: e.Seq, time: e.Time, hash: e.Hash}
	if err := c.checkMessage(e, told, &e.RecordedText, &e.Proof); err != nil {
		return err
	}
	if e.Kind == "call" {
		if err := c.addDecision(e); err != nil {
			return err
		}
	}
	c.latest = max(c.latest, e.Time)
	return nil
}

func (c *checker) checkPlace(e *export.Entry) {
	epoch, seq := e.Epoch, e.Seq
	switch l := c.last; {
	case l != nil && e.Kind == "reset":
		epoch, seq = l.Epoch+1, 0
	case l != nil:
		epoch, seq = l.Epoch, l.Seq+1
	case e.Kind != "reset" && e.Position == 1:
		seq = 1
	}
	if c.last != nil && e.Position != c.last.Position+1 {
		c.fail("numbers", "entry %d: expected position %d, so entries are missing or moved", e.Position, c.last.Position+1)
	}
	switch {
	case e.Epoch != epoch:
		c.fail("epochs", "entry %d: expected epoch %d, got %d", e.Position, epoch, e.Epoch)
	case e.Seq != seq:
		c.fail("numbers", "entry %d: expected call %d.%d, got %d.%d", e.Position, e.Epoch, seq, e.Epoch, e.Seq)
	}
	if e.Kind == "reset" && e.Time <= c.latest {
		c.fail("epochs", "entry %d: a reset is signed later than everything before it, %s", e.Position, c.latest)
	}
}

// messageFacts contains an entry's data about a message. Only an answer has a key, and a reset has
// no number.
type messageFacts struct {
	kind string // call, reset or answer
	seq  int64
	time string
	hash identity.Hash
	key  string
}

// checkMessage verifies a signed message and compares it with its entry.
func (c *checker) checkMessage(e *export.Entry, told messageFacts, s *export.RecordedText, p *export.Proof) error {
	switch {
	case s.Damaged:
		c.fail("texts", "entry %d: its text is damaged", e.Position)
		return nil
	case s.Sealed:
		c.unread++
		return nil
	case s.Text == nil:
		return problem.New(problem.Malformed, "text: expected a string")
	case len(p.Message) == 0:
		return problem.New(problem.Malformed, "message: expected an object")
	}
	m, err := envelope.DecodeMessage(p.Message)
	if err != nil {
		return err
	}
	c.signed++
	what, as, pair := "the message", "a "+told.kind, export.Pair{From: m.From, To: m.To}
	if told.kind == kindAnswer {
		what, as, pair = "the answer", "an answer", export.Pair{From: m.To, To: m.From}
	}
	if c.pair == (export.Pair{}) {
		c.pair = pair
	}
	if pair != c.pair {
		c.fail("bindings", "entry %d: %s is of another pair", e.Position, what)
	}
	// A signature is valid for one purpose: a message signed as an answer must not be accepted as a
	// call, and a message signed as a call must not be accepted as a reset.
	isAnswer := m.Payload.Role == envelope.RoleAgent
	if isAnswer != (told.kind == kindAnswer) || told.kind != kindAnswer && envelope.IsReplyKey(m.IdempotencyKey) || told.kind == "reset" && !m.IsReset() {
		c.fail("bindings", "entry %d: %s is not signed as %s", e.Position, what, as)
	}
	if told.key != "" && m.IdempotencyKey != told.key {
		c.fail("bindings", "entry %d: the answer is not bound to the call", e.Position)
	}
	hash, valid := m.Verify()
	if hash != told.hash || m.Prev != p.Prev || canon.FormatTime(m.Time) != told.time || told.kind != "reset" && m.Seq != told.seq || m.Payload.Text() != *s.Text {
		c.fail("links", "entry %d: %s is not the one that the entry tells of", e.Position, what)
	}
	if !valid {
		c.fail("signatures", "entry %d: the signature of %s does not verify", e.Position, what)
	}
	return nil
}

func (c *checker) addDecision(e *export.Entry) error {
	decided := e.Fate == transcript.Answered || e.Fate == transcript.Void
	switch d := e.Decision; {
	case !decided && e.Fate != transcript.Closed && e.Fate != transcript.Pending:
		return problem.New(problem.Malformed, "fate: expected answered, void, closed, pending")
	case decided != (d != nil):
		return problem.New(problem.Malformed, "decision: expected one for an answered or void call, and for no other; the call is %s", e.Fate)
	case d == nil:
		return nil
	case d.Position == 0:
		return problem.New(problem.Malformed, "decision.position: expected an integer of at least 1")
	case (e.Fate == transcript.Answered) != (d.Answer != nil):
		return problem.New(problem.Malformed, "answer: expected one for an answered call, and for no other; the call is %s", e.Fate)
	}
	record := decision{at: e.Decision.Position, epoch: e.Epoch, entry: e.Position}
	if a := e.Decision.Answer; a != nil {
		if a.Seq < 1 {
			return problem.New(problem.Malformed, "answer.seq: expected an integer of at least 1")
		}
		if err := checkTime("answer.time", a.Time); err != nil {
			return err
		}
		told := messageFacts{kindAnswer, a.Seq, a.Time, a.Hash, envelope.ReplyKey(e.Hash)}
		if err := c.checkMessage(e, told, &a.RecordedText, &a.Proof); err != nil {
			return err
		}
		record.seq, record.hash, record.prev = a.Seq, a.Hash, a.Prev
	}
	c.decisions = append(c.decisions, record)
	return nil
}

func (c *checker) finish() Result {
	c.checkAnswers()
	if c.broken > len(c.findings) {
		c.findings = append(c.findings, datadir.Finding{Part: "more", Detail: fmt.Sprintf("%d more are broken", c.broken-maxNamed)})
	}
	if c.entries == 0 {
		c.findings = append(c.findings, datadir.Finding{Part: "entries", Detail: "the file has none"})
	}
	if len(c.findings) == 0 {
		c.findings = append(c.findings, datadir.Finding{Part: "entries", OK: true, Detail: c.summary()})
	}
	isSignature := func(f datadir.Finding) bool { return f.Part == "signatures" }
	if c.signed > 0 && !slices.ContainsFunc(c.findings, isSignature) {
		c.findings = append(c.findings, datadir.Finding{Part: "signatures", OK: true, Detail: fmt.Sprintf("messages: %d, each signed by its sender, from %s to %s and back", c.signed, c.pair.From.Short(), c.pair.To.Short())})
	}
	return Result{c.findings, c.unread}
}

func (c *checker) summary() string {
	first, before := c.last.Position-uint64(c.entries)+1, ""
	if first > 1 {
		before = "; those before are not in the file"
	}
	return fmt.Sprintf("entries: %d, from %d to %d, in order and linked, each decided at most once%s", c.entries, first, c.last.Position, before)
}

func (c *checker) checkAnswers() {
	slices.SortStableFunc(c.decisions, func(a, b decision) int { return cmp.Compare(a.at, b.at) })
	before, epoch, seq, tip := uint64(0), int64(-1), int64(0), identity.Hash{}
	for _, d := range c.decisions {
		if d.at == before {
			c.fail("bindings", "entry %d: decision %d is the decision of another call, too", d.entry, d.at)
		}
		in := int64(d.epoch)
		// In the epoch in which the file begins, answers may be missing before and between the
		// decisions, because the file omits the earlier calls of that epoch.
		gap := in == c.startEpoch && (in != epoch || d.at != before+1)
		before = d.at
		if d.seq == 0 {
			continue
		}
		if in != epoch {
			epoch, seq, tip = in, 0, identity.Hash{}
		}
		switch follows := d.seq == seq+1; {
		case follows && d.prev != tip:
			c.fail("links", "entry %d: its answer names %s as the answer before, expected %s", d.entry, d.prev, tip)
		case !follows && (!gap || d.seq <= seq):
			c.fail("bindings", "entry %d: expected answer %d.%d, got %d.%d", d.entry, d.epoch, seq+1, d.epoch, d.seq)
		}
		seq, tip = d.seq, d.hash
	}
}
