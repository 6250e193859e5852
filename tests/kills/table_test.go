//go:build unix

package kills

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// fate is the answer to the same bytes, sent to the host that replaces the dead
// one.
type fate string

const (
	fresh      fate = "accepted again"                   // the dead host left no trace
	pending    fate = "pending, and unanswered when due" // it was accepted and never decided
	doubtful   fate = "accepted again, or pending"       // depends on which of two concurrent calls was quicker
	decided    fate = "pending, or the stored reply"     // depends on what was quicker, its answer or what is written beside it
	unanswered fate = "unanswered"                       // it was accepted and is void
	stored     fate = "the stored reply"                 // it was answered
	done       fate = "done already"                     // of a reset or a command
	waits      fate = "pending, and the stored reply"    // the next process runs it
	either     fate = "the stored reply, or unanswered"  // depends on what was quicker, the answer or the turn in the background
)

// point is a place to die at, and its consequences.
type point struct {
	when when
	call string
	then fate
	in   targets
}

func (p point) place() place { return place{p.call, bool(p.when)} }

// when in a call: a read changes nothing, so one place is enough for it.
type when bool

const (
	before when = false
	after  when = true
)

// targets are the kinds of host that a scenario runs on.
type targets int

const (
	inDev targets = 1 << iota
	inFunction
	both = inDev | inFunction
)

// scenario is a request, and all calls that it makes.
type scenario struct {
	request string
	in      targets
	// empty means that the target contains nothing yet.
	empty bool
	// prepare changes the data before a process runs, warm the process before
	// the request. Both may be nil.
	prepare func(*stage)
	warm    func(*stage, process)
	// make makes the request. With nil, the host dies before it serves.
	make func(*stage) request
	// again sends it again and checks the outcome.
	again  func(*stage, process, request, *response, fate)
	points []point
	// until is the last call that is made without concurrent work in the
	// background. "" means all calls.
	until string
	// ends is the last call of the work that goes on after the answer. "" means that none does.
	ends string
}

// table lists where hosts die.
var table = []scenario{
	{
		request: "the first call of a day", in: both,
		warm: tomorrow, make: aCall, again: callAgain,
		points: []point{
			{before, "Doc v", fresh, both},
			{before, "Doc revoked", fresh, both},
			{before, "Doc textkey", fresh, both},
			{before, "Commit textkey", fresh, both},
			{after, "Commit textkey", fresh, both},
			{before, "Tip req", fresh, both},
			{before, "Tip rsp", fresh, both},
			{before, "Commit req", fresh, both},
			{after, "Commit req", pending, both},
			{before, "Commit rsp", pending, both},
			{after, "Commit rsp", stored, both},
			{before, "Write", stored, both},
			{after, "Write", stored, both},
		},
	},
	{
		request: "a call by a warm host", in: inDev,
		warm: oneCall, make: aCall, again: callAgain,
		points: []point{
			{before, "Doc revoked", doubtful, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "a message of A2A", in: inDev,
		// The task is written with the answer.
		prepare: warmed, make: aMessage, again: messageAgain,
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Tip rsp", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "a chat completion by a key", in: inDev,
		prepare: completing, make: aKeyedCompletion, again: completionAgain,
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc key", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc guest", fresh, inDev},
			{before, "Doc guest 2", fresh, inDev},
			{before, "Commit guest", fresh, inDev},
			{after, "Commit guest", fresh, inDev},
			{before, "Docs task", fresh, inDev},
			{before, "Tip rsp", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc host", fresh, inDev},
			{before, "Doc acct 2", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Commit task", pending, inDev},
			{after, "Commit task", pending, inDev},
			{before, "Doc task", pending, inDev},
			{before, "Docs task 2", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Rows req", stored, inDev},
			{before, "Rows rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "a chat completion", in: inDev,
		prepare: completing, make: aCompletion, again: completionAgain,
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc key", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc guest", fresh, inDev},
			{before, "Doc guest 2", fresh, inDev},
			{before, "Commit guest", fresh, inDev},
			{after, "Commit guest", fresh, inDev},
			{before, "Docs recent", fresh, inDev},
			{before, "Tip rsp", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc host", fresh, inDev},
			{before, "Doc acct 2", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Commit task", pending, inDev},
			{after, "Commit task", pending, inDev},
			{before, "Doc task", pending, inDev},
			{before, "Docs task", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Rows req", stored, inDev},
			{before, "Rows rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		// The turn runs in the background. A process that dies before the turn begins leaves it to the next
		// one; a turn that has begun is void once its lease is over.
		request: "a call of a slow vacant", in: inDev,
		prepare: slowly, make: aCall, again: slowAgain, ends: "Commit queue 2",
		points: []point{
			{before, "Tip rsp", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Commit queue", fresh, inDev},
			{after, "Commit queue", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", waits, inDev},
			{before, "Docs queue", waits, inDev},
			{before, "Docs task", waits, inDev},
			{before, "Doc task", waits, inDev},
			{before, "Commit task", waits, inDev},
			{after, "Commit task", pending, inDev},
			{before, "Rows req", pending, inDev},
			{before, "Rows rsp", pending, inDev},
			{before, "Doc revoked 2", pending, inDev},
			{before, "Commit task 2", pending, inDev},
			{after, "Commit task 2", pending, inDev},
			{before, "Doc task 2", pending, inDev},
			{before, "Docs task 2", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Commit queue 2", stored, inDev},
			{after, "Commit queue 2", stored, inDev},
			{before, "Write", either, inDev},
			{after, "Write", either, inDev},
		},
	},
	{
		request: "a message of A2A that does not wait, at a slow vacant", in: inDev,
		prepare: slowly, make: aMessageNotWaitedFor, again: slowAgain, ends: "Commit queue 2",
		points: []point{
			{before, "Tip rsp", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Commit queue", fresh, inDev},
			{after, "Commit queue", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", waits, inDev},
			{before, "Docs queue", waits, inDev},
			{before, "Docs task", waits, inDev},
			{before, "Doc task", waits, inDev},
			{before, "Commit task", waits, inDev},
			{after, "Commit task", pending, inDev},
			{before, "Rows req", pending, inDev},
			{before, "Rows rsp", pending, inDev},
			{before, "Doc revoked 2", pending, inDev},
			{before, "Commit task 2", pending, inDev},
			{after, "Commit task 2", pending, inDev},
			{before, "Doc task 2", pending, inDev},
			{before, "Docs task 2", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Commit queue 2", stored, inDev},
			{after, "Commit queue 2", stored, inDev},
			{before, "Write", either, inDev},
			{after, "Write", either, inDev},
		},
	},
	{
		request: "a call that fails", in: both,
		prepare: warmed, make: aFailingCall, again: callAgain,
		points: []point{
			{before, "Doc v", fresh, both},
			{before, "Doc revoked", fresh, both},
			{before, "Doc textkey", fresh, inFunction},
			{before, "Tip req", fresh, both},
			{before, "Tip rsp", fresh, both},
			{before, "Commit req", fresh, both},
			{after, "Commit req", pending, both},
			{before, "Rows rsp", pending, both},
			{before, "Commit rsp", pending, both},
			{after, "Commit rsp", unanswered, both},
			{before, "Write", unanswered, both},
			{after, "Write", unanswered, both},
		},
	},
	{
		request: "a call of a model", in: inDev,
		prepare: thinking, make: aCall, again: callAgain,
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Tip rsp", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Tip log", pending, inDev},
			{before, "Commit log", pending, inDev},
			{after, "Commit log", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		// What is reserved stays spent, and is never less than what rows say (verify).
		request: "a call of a model that costs money", in: inDev,
		prepare: paying, make: aCall, again: callAgain,
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc spend", fresh, inDev},
			{before, "Doc spend 2", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Tip rsp", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Doc spend 3", pending, inDev},
			{before, "Doc spend 4", pending, inDev},
			{before, "Commit spend", pending, inDev},
			{after, "Commit spend", pending, inDev},
			{before, "Doc spend 5", pending, inDev},
			{before, "Commit spend 2", pending, inDev},
			{after, "Commit spend 2", pending, inDev},
			{before, "Tip log", pending, inDev},
			{before, "Commit log", pending, inDev},
			{after, "Commit log", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "a call of a composite", in: inDev,
		prepare: composed, make: aCall, again: callAgain,
		points: []point{
			{before, "Tip rsp", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Doc v 2", pending, inDev},
			{before, "Doc v 3", pending, inDev},
			{before, "Tip log", pending, inDev},
			{before, "Tip log 2", pending, inDev},
			{before, "Commit log", pending, inDev},
			{after, "Commit log", pending, inDev},
			{before, "Tip req 2", pending, inDev},
			{before, "Tip rsp 2", pending, inDev},
			{before, "Doc v 4", pending, inDev},
			{before, "Doc revoked 2", pending, inDev},
			{before, "Tip req 3", pending, inDev},
			{before, "Commit req 2", pending, inDev},
			{after, "Commit req 2", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", pending, inDev},
			{before, "Doc obs", pending, inDev},
			{before, "Commit obs", pending, inDev},
			{after, "Commit obs", pending, inDev},
			{before, "Tip log 3", pending, inDev},
			{before, "Commit log 2", pending, inDev},
			{after, "Commit log 2", pending, inDev},
			{before, "Commit rsp 2", pending, inDev},
			{after, "Commit rsp 2", stored, inDev},
			{before, "Doc reg", decided, inDev},
			{before, "Doc obs 2", decided, inDev},
			{before, "Commit obs 2", decided, inDev},
			{after, "Commit obs 2", decided, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "an answered call sent again", in: both,
		prepare: answered, make: resend, again: callAgain,
		points: []point{
			{before, "Doc v", stored, both},
			{before, "Doc revoked", stored, both},
			{before, "Doc textkey", stored, inFunction},
			{before, "Tip req", stored, both},
			{before, "Tip rsp", stored, both},
			{before, "Rows req", stored, both},
			{before, "Rows rsp", stored, both},
			{before, "Write", stored, both},
			{after, "Write", stored, both},
		},
	},
	{
		request: "an undecided call sent again", in: both,
		prepare: undecided, make: resend, again: callAgain,
		points: []point{
			{before, "Doc v", unanswered, both},
			{before, "Doc revoked", unanswered, both},
			{before, "Doc textkey", unanswered, inFunction},
			{before, "Tip req", unanswered, both},
			{before, "Tip rsp", unanswered, both},
			{before, "Rows req", unanswered, both},
			{before, "Rows rsp", unanswered, both},
			{before, "Rows rsp 2", unanswered, both},
			{before, "Commit rsp", unanswered, both},
			{after, "Commit rsp", unanswered, both},
			{before, "Write", unanswered, both},
			{after, "Write", unanswered, both},
		},
	},
	{
		request: "an ask for an undecided call", in: both,
		prepare: undecided, make: ask, again: askAgain,
		points: []point{
			{before, "Doc v", unanswered, both},
			{before, "Doc revoked", unanswered, both},
			{before, "Doc textkey", unanswered, inFunction},
			{before, "Tip req", unanswered, both},
			{before, "Tip rsp", unanswered, both},
			{before, "Rows req", unanswered, both},
			{before, "Rows rsp", unanswered, both},
			{before, "Rows rsp 2", unanswered, both},
			{before, "Commit rsp", unanswered, both},
			{after, "Commit rsp", unanswered, both},
			{before, "Write", unanswered, both},
			{after, "Write", unanswered, both},
		},
	},
	{
		request: "a reset", in: both,
		prepare: answered, make: reset, again: resetAgain,
		points: []point{
			{before, "Doc v", fresh, both},
			{before, "Doc revoked", fresh, both},
			{before, "Doc textkey", fresh, inFunction},
			{before, "Tip req", fresh, both},
			{before, "Commit req", fresh, both},
			{after, "Commit req", done, both},
			{before, "Write", done, both},
			{after, "Write", done, both},
		},
	},
	{
		request: "a card", in: both,
		make: card, again: pageAgain,
		points: []point{
			{before, "Doc v", fresh, both},
			{before, "Write", fresh, both},
			{after, "Write", fresh, both},
		},
	},
	{
		request: "the first start", in: inDev, empty: true,
		again: startAgain,
		points: []point{
			{before, "Docs name", fresh, inDev},
			{before, "Docs host", fresh, inDev},
			{before, "Docs textkey", fresh, inDev},
			{before, "Docs unreached", fresh, inDev},
			{before, "Docs queue", fresh, inDev},
			{before, "Docs pushes", fresh, inDev},
			{before, "Docs registry", fresh, inDev},
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc nameowner", fresh, inDev},
			{before, "Doc name 2", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Doc nameowner 2", fresh, inDev},
			{before, "Doc name 3", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", fresh, inDev},
			{before, "Tip act", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Rows act", fresh, inDev},
			{before, "Doc reg 2", fresh, inDev},
			{before, "Tip evt", fresh, inDev},
			{before, "Tip log 2", fresh, inDev},
			{before, "Commit evt", fresh, inDev},
			{after, "Commit evt", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Doc textkey", fresh, inDev},
			{before, "Commit textkey", fresh, inDev},
			{after, "Commit textkey", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Tip rsp", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "a later start", in: inDev,
		prepare: started, again: startAgain,
		points: []point{
			{before, "Docs name", fresh, inDev},
			{before, "Docs host", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc reg 2", fresh, inDev},
			{before, "Tip log 2", fresh, inDev},
			{before, "Commit log 2", fresh, inDev},
			{after, "Commit log 2", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Doc reg 3", fresh, inDev},
			{before, "Tip log 3", fresh, inDev},
			{before, "Commit log 3", fresh, inDev},
			{after, "Commit log 3", fresh, inDev},
			{before, "Docs textkey", fresh, inDev},
			{before, "Docs unreached", fresh, inDev},
			{before, "Docs queue", fresh, inDev},
			{before, "Docs pushes", fresh, inDev},
			{before, "Docs registry", fresh, inDev},
			{before, "Doc name", fresh, inDev},
			{before, "Doc v 4", fresh, inDev},
			{before, "Doc v 5", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Doc textkey", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Tip rsp", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "create", in: inDev,
		make: create("novel"), again: createAgain("novel"),
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc nameowner", fresh, inDev},
			{before, "Doc name", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Doc nameowner 2", fresh, inDev},
			{before, "Doc name 2", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "create under another spelling of the name of a deleted vacant", in: inDev,
		warm: removed, make: create("Echo"), again: createAgain("Echo"),
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc nameowner", fresh, inDev},
			{before, "Doc name", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Doc nameowner 2", fresh, inDev},
			{before, "Doc name 2", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "release a name that was given up by a rename", in: inDev,
		warm: givenUp, make: release, again: releaseAgain,
		points: []point{
			{before, "Doc nameowner", fresh, inDev},
			{before, "Doc nameowner 2", fresh, inDev},
			{before, "Doc name", fresh, inDev},
			{before, "Commit nameowner", fresh, inDev},
			{after, "Commit nameowner", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "release the name of a deleted vacant", in: inDev,
		warm: removed, make: release, again: releaseAgain,
		points: []point{
			{before, "Doc nameowner", fresh, inDev},
			{before, "Doc nameowner 2", fresh, inDev},
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Commit former", fresh, inDev},
			{after, "Commit former", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "update", in: inDev,
		make: update, again: updateAgain,
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Doc name", fresh, inDev},
			{before, "Doc nameowner", fresh, inDev},
			{before, "Doc name 2", fresh, inDev},
			{before, "Doc nameowner 2", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Doc reg 2", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit name", fresh, inDev},
			{after, "Commit name", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "update what is published", in: inDev,
		warm: published, make: update, again: updateAgain,
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Doc name", fresh, inDev},
			{before, "Doc nameowner", fresh, inDev},
			{before, "Doc name 2", fresh, inDev},
			{before, "Doc nameowner 2", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Doc reg 2", fresh, inDev},
			{before, "Rows act", fresh, inDev},
			{before, "Doc reg 3", fresh, inDev},
			{before, "Doc v 4", fresh, inDev},
			{before, "Tip evt", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit name", fresh, inDev},
			{after, "Commit name", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "delete", in: inDev,
		warm: ended, make: remove, again: removeAgain,
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Docs v", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", done, inDev},
			{before, "Doc v 4", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "pause", in: inDev,
		make: change(admin.PauseVacant), again: changeAgain("LOCAL", "HIBERNATING"),
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "resume", in: inDev,
		warm: changed(admin.PauseVacant), make: change(admin.ResumeVacant), again: changeAgain("HIBERNATING", "ACTIVE"),
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "sink", in: inDev,
		make: change(admin.SinkVacant), again: changeAgain("LOCAL", "SUNK"),
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "archive", in: inDev,
		warm: changed(admin.SinkVacant), make: change(admin.ArchiveVacant), again: changeAgain("SUNK", "ARCHIVED"),
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit log", fresh, inDev},
			{after, "Commit log", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "publish", in: inDev,
		make: publish, again: publishAgain(map[fate]uint64{fresh: 1, done: 2}, "", `"visibility":"PUBLIC"`),
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Rows act", fresh, inDev},
			{before, "Doc reg 2", fresh, inDev},
			{before, "Doc v 4", fresh, inDev},
			{before, "Tip evt", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit evt", fresh, inDev},
			{after, "Commit evt", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "unpublish", in: inDev,
		warm: published, make: change(admin.UnpublishVacant), again: publishAgain(map[fate]uint64{fresh: 3, done: 3}, `"visibility":"PUBLIC"`, "is NONE-visibility"),
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Rows act", fresh, inDev},
			{before, "Doc reg 2", fresh, inDev},
			{before, "Doc v 4", fresh, inDev},
			{before, "Tip evt", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Commit evt", fresh, inDev},
			{after, "Commit evt", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "revoke", in: inDev,
		warm: published, make: revoke, again: publishAgain(map[fate]uint64{fresh: 3, done: 2}, `"status":"active"`, `"status":"revoked"`),
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Tip act", fresh, inDev},
			{before, "Rows act", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Doc v 4", fresh, inDev},
			{before, "Tip log", fresh, inDev},
			{before, "Tip evt", fresh, inDev},
			{before, "Doc revoked 2", fresh, inDev},
			{before, "Commit evt", fresh, inDev},
			{after, "Commit evt", done, inDev},
			{before, "Doc v 5", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "a graduation", in: inDev,
		prepare: consented, make: graduate, again: graduateAgain,
		points: []point{
			{before, "Doc reg", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Tip grad", fresh, inDev},
			{before, "Doc host", fresh, inDev},
			{before, "Doc gradtry", fresh, inDev},
			{before, "Commit grad", fresh, inDev},
			{after, "Commit grad", pending, inDev},
			{before, "Doc reg 2", pending, inDev},
			{before, "Doc revoked", pending, inDev},
			{before, "Doc revoked 2", pending, inDev},
			{before, "Doc gradwin", pending, inDev},
			{before, "Doc reg 3", pending, inDev},
			{before, "Docs children", pending, inDev},
			{before, "Docs kin", pending, inDev},
			{before, "Doc reg 4", pending, inDev},
			{before, "Doc reg 5", pending, inDev},
			{before, "Doc v 3", pending, inDev},
			{before, "Doc v 4", pending, inDev},
			{before, "Doc obs", pending, inDev},
			{before, "Rows rsp", pending, inDev},
			{before, "Doc obs 2", pending, inDev},
			{before, "Doc grad", pending, inDev},
			{before, "Doc gradwin 2", pending, inDev},
			{before, "Doc reg 6", pending, inDev},
			{before, "Doc revoked 3", pending, inDev},
			{before, "Doc v 5", pending, inDev},
			{before, "Doc v 6", pending, inDev},
			{before, "Doc reg 7", pending, inDev},
			{before, "Doc reg 8", pending, inDev},
			{before, "Rows act", pending, inDev},
			{before, "Doc reg 9", pending, inDev},
			{before, "Doc v 7", pending, inDev},
			{before, "Tip evt", pending, inDev},
			{before, "Tip log", pending, inDev},
			{before, "Tip log 2", pending, inDev},
			{before, "Commit gradwin", pending, inDev},
			{after, "Commit gradwin", done, inDev},
			{before, "Rows grad", done, inDev},
			{before, "Doc grad 2", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "set a secret", in: inDev,
		make: setSecret, again: setSecretAgain,
		points: []point{
			{before, "Doc secret", fresh, inDev},
			{before, "Commit secret", fresh, inDev},
			{after, "Commit secret", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "delete a secret", in: inDev,
		warm: secretIsSet, make: deleteSecret, again: deleteSecretAgain,
		points: []point{
			{before, "Doc secret", fresh, inDev},
			{before, "Commit secret", fresh, inDev},
			{after, "Commit secret", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "set a tenant's budget", in: inDev,
		make: setBudget, again: setBudgetAgain,
		points: []point{
			{before, "Doc budget", fresh, inDev},
			{before, "Commit budget", fresh, inDev},
			{after, "Commit budget", done, inDev},
			{before, "Doc spend", done, inDev},
			{before, "Doc budget 2", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "set the table of models", in: inDev,
		make: setModels, again: setModelsAgain,
		points: []point{
			{before, "Doc models", fresh, inDev},
			{before, "Commit models", fresh, inDev},
			{after, "Commit models", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "a call with a price", in: inDev,
		prepare: priced, make: aCall, again: pricedAgain,
		points: []point{
			{before, "Tip rsp", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc host", fresh, inDev},
			{before, "Doc link", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "a call with a price that fails", in: inDev,
		prepare: priced, make: aFailingCall, again: pricedAgain,
		points: []point{
			{before, "Tip rsp", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc host", fresh, inDev},
			{before, "Doc link", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Rows rsp", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", unanswered, inDev},
			{before, "Write", unanswered, inDev},
			{after, "Write", unanswered, inDev},
		},
	},
	{
		request: "an issuer is added", in: inDev,
		prepare: rich, make: addIssuer, again: addIssuerAgain,
		points: []point{
			{before, "Doc tenant", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Docs issuers", fresh, inDev},
			{before, "Doc acct 2", fresh, inDev},
			{before, "Doc issuers", fresh, inDev},
			{before, "Commit issuers", fresh, inDev},
			{after, "Commit issuers", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "an issuer is removed", in: inDev,
		prepare: taken, make: removeIssuer, again: removeIssuerAgain,
		points: []point{
			{before, "Doc issuers", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc issuers 2", fresh, inDev},
			{before, "Commit issuers", fresh, inDev},
			{after, "Commit issuers", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "the first message of a subject, by a token", in: inDev,
		prepare: subject, make: aSubjectsMessage, again: subjectAgain,
		points: []point{
			{before, "Doc v", fresh, inDev},
			{before, "Docs issuers", fresh, inDev},
			{before, "Doc subject", fresh, inDev},
			{before, "Commit subject", fresh, inDev},
			{after, "Commit subject", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc guest", fresh, inDev},
			{before, "Doc guest 2", fresh, inDev},
			{before, "Commit guest", fresh, inDev},
			{after, "Commit guest", fresh, inDev},
			{before, "Docs task", fresh, inDev},
			{before, "Docs task 2", fresh, inDev},
			{before, "Tip rsp", fresh, inDev},
			{before, "Doc revoked", fresh, inDev},
			{before, "Tip req", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc host", fresh, inDev},
			{before, "Doc acct 2", fresh, inDev},
			{before, "Commit req", fresh, inDev},
			{after, "Commit req", pending, inDev},
			{before, "Commit task", pending, inDev},
			{after, "Commit task", pending, inDev},
			{before, "Doc task", pending, inDev},
			{before, "Docs task 3", pending, inDev},
			{before, "Commit rsp", pending, inDev},
			{after, "Commit rsp", stored, inDev},
			{before, "Docs task 4", stored, inDev},
			{before, "Write", stored, inDev},
			{after, "Write", stored, inDev},
		},
	},
	{
		request: "a credit", in: inDev,
		prepare: rich, make: aCredit, again: creditAgain,
		points: []point{
			{before, "Doc tenant", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc acct 2", fresh, inDev},
			{before, "Doc acct 3", fresh, inDev},
			{before, "Doc bal", fresh, inDev},
			{before, "Commit acct", fresh, inDev},
			{after, "Commit acct", done, inDev},
			{before, "Doc bal 2", done, inDev},
			{before, "Doc host", done, inDev},
			{before, "Rows acct", done, inDev},
			{before, "Docs use", done, inDev},
			{before, "Docs acct", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "a link", in: inDev,
		prepare: rich, make: aLink, again: linkAgain,
		points: []point{
			{before, "Doc tenant", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc host", fresh, inDev},
			{before, "Doc acct 2", fresh, inDev},
			{before, "Doc link", fresh, inDev},
			{before, "Doc acct 3", fresh, inDev},
			{before, "Docs acct", fresh, inDev},
			{before, "Commit link", fresh, inDev},
			{after, "Commit link", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		// With a key and a link that it made.
		request: "a revocation of a key", in: inDev,
		prepare: withTree, make: revokeKey, again: revokeKeyAgain,
		points: []point{
			{before, "Doc tenant", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc acct 2", fresh, inDev},
			{before, "Doc acct 3", fresh, inDev},
			{before, "Doc key", fresh, inDev},
			{before, "Doc endings", fresh, inDev},
			{before, "Commit key", fresh, inDev},
			{after, "Commit key", done, inDev},
			{before, "Doc acct 4", done, inDev},
			{before, "Docs acct", done, inDev},
			{before, "Docs acct 2", done, inDev},
			{before, "Doc acct 5", done, inDev},
			{before, "Doc acct 6", done, inDev},
			{before, "Doc key 2", done, inDev},
			{before, "Commit key 2", done, inDev},
			{after, "Commit key 2", done, inDev},
			{before, "Doc acct 7", done, inDev},
			{before, "Doc link", done, inDev},
			{before, "Doc acct 8", done, inDev},
			{before, "Commit acct", done, inDev},
			{after, "Commit acct", done, inDev},
			{before, "Doc acct 9", done, inDev},
			{before, "Doc endings 2", done, inDev},
			{before, "Commit endings", done, inDev},
			{after, "Commit endings", done, inDev},
			{before, "Docs acct 3", done, inDev},
			{before, "Docs acct 4", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "the webhook of a payment", in: inDev,
		prepare: rich, warm: takesPayments, make: aPayment, again: paidAgain,
		points: []point{
			{before, "Doc paykey", fresh, inDev},
			{before, "Doc paykey 2", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc pay", fresh, inDev},
			{before, "Doc bal", fresh, inDev},
			{before, "Commit pay", fresh, inDev},
			{after, "Commit pay", done, inDev},
			{before, "Doc acct 2", done, inDev},
			{before, "Doc pay 2", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "the webhook of a refund", in: inDev,
		prepare: rich, warm: isPaid, make: aRefund, again: refundAgain,
		points: []point{
			{before, "Doc pay", fresh, inDev},
			{before, "Commit pay", fresh, inDev},
			{after, "Commit pay", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc pay 2", fresh, inDev},
			{before, "Doc bal", fresh, inDev},
			{before, "Commit pay 2", fresh, inDev},
			{after, "Commit pay 2", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "the webhook of a refund that fails", in: inDev,
		prepare: rich, warm: isRefunded, make: aFailedRefund, again: paidAgain,
		points: []point{
			{before, "Doc pay", fresh, inDev},
			{before, "Commit pay", fresh, inDev},
			{after, "Commit pay", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc pay 2", fresh, inDev},
			{before, "Doc bal", fresh, inDev},
			{before, "Commit pay 2", fresh, inDev},
			{after, "Commit pay 2", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		request: "a booking", in: inDev,
		prepare: rich, warm: hires, make: confirm, again: confirmAgain, until: "Commit queue",
		points: []point{
			{before, "Doc key", fresh, inDev},
			{before, "Doc acct", fresh, inDev},
			{before, "Doc keyuse", fresh, inDev},
			{before, "Doc bookidem", fresh, inDev},
			{before, "Doc slug", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Doc breaker", fresh, inDev},
			{before, "Doc reg 2", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc acct 2", fresh, inDev},
			{before, "Commit bkg", fresh, inDev},
			{after, "Commit bkg", fresh, inDev},
			{before, "Doc bookidem 2", fresh, inDev},
			{before, "Doc keyuse 2", fresh, inDev},
			{before, "Commit keyuse", fresh, inDev},
			{after, "Commit keyuse", done, inDev},
			{before, "Commit queue", done, inDev},
			{after, "Commit queue", done, inDev},
		},
	},
	{
		request: "a booking that is cancelled", in: inDev,
		prepare: rich, warm: isBooked, make: cancel, again: cancelAgain,
		points: []point{
			{before, "Doc key", fresh, inDev},
			{before, "Doc bkg", fresh, inDev},
			{before, "Doc bkg 2", fresh, inDev},
			{before, "Commit bkg", fresh, inDev},
			{after, "Commit bkg", done, inDev},
			{before, "Doc bkg 3", done, inDev},
			{before, "Rows bkg", done, inDev},
			{before, "Write", done, inDev},
			{after, "Write", done, inDev},
		},
	},
	{
		// The first of a host, which makes the key that signs it.
		request: "a receipt", in: inDev,
		prepare: priced, warm: oneCall, make: aReceipt, again: receiptAgain,
		points: []point{
			{before, "Rows rsp", fresh, inDev},
			{before, "Rows req", fresh, inDev},
			{before, "Rows rsp 2", fresh, inDev},
			{before, "Doc price", fresh, inDev},
			{before, "Doc signkey", fresh, inDev},
			{before, "Doc signkey 2", fresh, inDev},
			{before, "Commit signkey", fresh, inDev},
			{after, "Commit signkey", fresh, inDev},
			{before, "Write", fresh, inDev},
			{after, "Write", fresh, inDev},
		},
	},
	{
		request: "list", in: inDev,
		make: func(*stage) request { return request{control: true, path: "/v1/admin/vacants"} }, again: pageAgain,
		points: []point{
			{before, "Docs name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Doc v 2", fresh, inDev},
			{before, "Doc v 3", fresh, inDev},
			{before, "Doc reg", fresh, inDev},
			{before, "Doc reg 2", fresh, inDev},
			{before, "Doc reg 3", fresh, inDev},
			{before, "Docs use", fresh, inDev},
			{before, "Write", fresh, inDev},
			{after, "Write", fresh, inDev},
		},
	},
	{
		request: "a logbook", in: inDev,
		make: func(*stage) request { return request{control: true, path: "/v1/admin/vacants/echo/logbook"} }, again: pageAgain,
		points: []point{
			{before, "Doc name", fresh, inDev},
			{before, "Doc v", fresh, inDev},
			{before, "Rows log", fresh, inDev},
			{before, "Write", fresh, inDev},
			{after, "Write", fresh, inDev},
		},
	},
}

func aCall(s *stage) request {
	return message(caller.SendPath, s.caller.Call("hi", s.target.now()))
}

func aFailingCall(s *stage) request {
	s.caller.To = s.target.vacant(s.t, "failing")
	return aCall(s)
}

func resend(s *stage) request { return message(caller.SendPath, s.before) }

func ask(s *stage) request { return message(caller.AskPath, s.before) }

func reset(s *stage) request {
	return message(caller.ResetPath, s.caller.Reset(s.target.now().Add(time.Millisecond)))
}

func card(s *stage) request {
	return request{path: "/v/" + s.caller.To.String() + "/card"}
}

func create(name string) func(*stage) request {
	return func(s *stage) request {
		body, err := json.Marshal(admin.Creation{Name: name, Capability: "echoes", Substrate: "echo"})
		s.must(err)
		return request{control: true, path: "/v1/admin/vacants", body: body}
	}
}

func release(*stage) request {
	return request{control: true, method: http.MethodDelete, path: "/v1/admin/names/echo"}
}

func change[Out any](to op.Op[admin.One, Out]) func(*stage) request {
	return func(s *stage) request {
		path, err := to.At(admin.One{Vacant: "echo"})
		if err != nil {
			s.t.Fatal(err)
		}
		return request{control: true, method: to.Method, path: path}
	}
}

func update(s *stage) request {
	return request{
		control: true, method: http.MethodPatch, path: "/v1/admin/vacants/" + s.target.vacant(s.t, "echo").String(),
		body: []byte(`{"name":"repeater","capability":"repeats"}`),
	}
}

func remove(*stage) request {
	return request{control: true, method: http.MethodDelete, path: "/v1/admin/vacants/echo"}
}

func publish(*stage) request {
	return request{control: true, path: "/v1/admin/vacants/echo/publish", body: []byte(`{}`)}
}

func revoke(*stage) request {
	return request{control: true, path: "/v1/admin/vacants/echo/revoke", body: []byte(`{"reason":"leaked"}`)}
}

func graduate(s *stage) request { return request{path: "/v1/graduations", body: s.body} }

func TestTableNamesEachPlaceOnce(t *testing.T) {
	places := 0
	for _, sc := range table {
		there := map[place]bool{}
		for _, p := range sc.points {
			if there[p.place()] {
				t.Errorf("%s: %v twice", sc.request, p.place())
			}
			there[p.place()] = true
		}
		places += len(there)
	}
	t.Logf("%d places", places)
	if places < 12 {
		t.Errorf("%d places, want at least 12", places)
	}
}
