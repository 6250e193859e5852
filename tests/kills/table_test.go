//go:build unix

package kills

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
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
	fresh      fate = "fresh"      // accepted again: the dead host left no trace
	pending    fate = "pending"    // and unanswered when due: it was accepted and never decided
	doubtful   fate = "doubtful"   // fresh or pending: depends on which of two concurrent calls was quicker
	decided    fate = "decided"    // pending or stored: depends on what was quicker, its answer or what is written beside it
	unanswered fate = "unanswered" // it was accepted and is void
	stored     fate = "stored"     // the stored reply: it was answered
	done       fate = "done"       // of a reset or a command
	waits      fate = "waits"      // pending, and the stored reply: the next process runs it
	either     fate = "either"     // stored or unanswered: depends on what was quicker, the answer or the turn in the background
)

// point is a place to die at, and its consequences.
type point struct {
	place
	then fate
	in   targets
}

// targets are the kinds of host that a scenario runs on.
type targets int

const (
	inDev targets = 1 << iota
	inFunction
	both = inDev | inFunction
)

// scenario is a request, and all calls that it makes: see points.
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
	again func(*stage, process, request, *response, fate)
	// begins is the fate of a host that dies before all calls. "" means fresh.
	begins fate
	calls  string
	// until is the last call that is made without concurrent work in the
	// background. "" means all calls.
	until string
	// ends is the last call of the work that goes on after the answer. "" means that none does.
	ends string
}

// points returns where hosts die in a scenario: before each of its calls, and also after a call
// that changes something. "Commit req > pending" changes the fate from then on. "Write = either" is
// an exception: only this call has the fate. "Doc textkey (function)" is a call of functions only.
func (sc scenario) points() (all []point) {
	now := cmp.Or(sc.begins, fresh)
	for call := range strings.SplitSeq(sc.calls, ",") {
		call, next, changes := strings.Cut(strings.TrimSpace(call), " > ")
		call, exception, isException := strings.Cut(call, " = ")
		call, inFunctionOnly := strings.CutSuffix(call, " (function)")
		then, in := now, sc.in
		if isException {
			then = fate(exception)
		}
		if inFunctionOnly {
			in = inFunction
		}
		for _, at := range places([]string{call}) {
			if at.After && changes {
				now, then = fate(next), fate(next)
			}
			all = append(all, point{at, then, in})
		}
	}
	return all
}

// table lists where hosts die.
var table = []scenario{
	{
		request: "the first call of a day", in: both, warm: tomorrow, make: aCall, again: callAgain,
		calls: `Doc v, Doc revoked, Doc textkey, Commit textkey, Tip req, Tip rsp, Commit req > pending,
			Commit rsp > stored, Write`,
	}, {
		request: "a call by a warm host", in: inDev, warm: oneCall, make: aCall, again: callAgain,
		calls: `Doc revoked = doubtful, Commit req > pending, Commit rsp > stored, Write`,
	}, {
		request: "a message of A2A", in: inDev,
		// The task is written with the answer.
		prepare: warmed, make: aMessage, again: messageAgain,
		calls: `Doc v, Doc v 2, Doc revoked, Tip req, Tip rsp, Commit req > pending, Commit rsp > stored, Write`,
	}, {
		request: "a chat completion by a key", in: inDev,
		prepare: completing, make: aKeyedCompletion, again: completionAgain,
		calls: `Doc v, Doc key, Doc acct, Doc guest, Doc guest 2, Commit guest, Docs task, Tip rsp, Doc v 2,
			Doc host, Doc acct 2, Doc revoked, Tip req, Commit req > pending, Commit task, Doc task,
			Docs task 2, Commit rsp > stored, Rows req, Rows rsp, Write`,
	}, {
		request: "a chat completion", in: inDev, prepare: completing, make: aCompletion, again: completionAgain,
		calls: `Doc v, Doc key, Doc acct, Doc guest, Doc guest 2, Commit guest, Docs recent, Tip rsp, Doc v 2,
			Doc host, Doc acct 2, Doc revoked, Tip req, Commit req > pending, Commit task, Doc task,
			Docs task, Commit rsp > stored, Rows req, Rows rsp, Write`,
	}, {
		// The turn runs in the background. A process that dies before the turn begins leaves it to the next
		// one; a turn that has begun is void once its lease is over.
		request: "a call of a slow vacant", in: inDev,
		prepare: slowly, make: aCall, again: slowAgain, ends: "Commit queue 2",
		calls: `Tip rsp, Doc v, Doc revoked, Tip req, Commit queue, Commit req > waits, Docs queue, Docs task,
			Doc task, Commit task > pending, Rows req, Rows rsp, Doc revoked 2, Commit task 2, Doc task 2,
			Docs task 2, Commit rsp > stored, Commit queue 2, Write = either`,
	}, {
		request: "a message of A2A that does not wait, at a slow vacant", in: inDev,
		prepare: slowly, make: aMessageNotWaitedFor, again: slowAgain, ends: "Commit queue 2",
		calls: `Tip rsp, Doc v, Doc v 2, Doc revoked, Tip req, Commit queue, Commit req > waits, Docs queue,
			Docs task, Doc task, Commit task > pending, Rows req, Rows rsp, Doc revoked 2, Commit task 2,
			Doc task 2, Docs task 2, Commit rsp > stored, Commit queue 2, Write = either`,
	}, {
		request: "a dispatch of a task, and its turn", in: inDev,
		prepare: teaming, make: aDispatch, again: dispatchAgain, ends: "Commit queue 2",
		calls: `Doc key, Doc acct, Doc team, Doc name, Doc v, Docs open, Commit queue, Doc task,
			Commit task > waits, Docs queue, Docs task, Doc acct 2, Doc acct 3, Doc guest, Doc guest 2, Commit guest, Tip rsp,
			Tip req, Tip rsp 2, Doc v 2, Doc host, Doc acct 4, Doc revoked, Tip req 2, Commit req > pending,
			Rows req, Rows rsp, Doc revoked 2, Commit task 2, Doc task 2, Docs task 2, Commit rsp > stored,
			Commit queue 2, Write = either`,
	}, {
		// The task and the revoked keys are read for the answer and its notifications while the turn begins.
		request: "an answer to the question of a task", in: inDev,
		prepare: painting, warm: asks, make: anAnswer, again: answerAgain, ends: "Commit queue 2",
		calls: `Doc team, Docs task, Docs task 2, Doc task, Doc revoked = either, Docs task 3, Commit queue,
			Commit req > waits, Docs queue, Docs task 4 = either, Docs task 5 = either,
			Docs task 6 = either, Doc task 2, Commit task > pending, Rows req, Rows rsp, Rows rsp 2,
			Docs task 7 = either, Doc revoked 2, Commit task 2, Doc task 3, Docs task 8 = either,
			Commit rsp > stored, Commit queue 2, Write = either`,
	}, {
		request: "a cancel of a task that waits for an answer", in: inDev,
		prepare: painting, warm: asks, make: cancelTask, again: cancelTaskAgain("input_required"), until: "Commit task",
		calls: `Doc team, Docs task, Docs task 2, Rows req, Rows rsp, Doc task, Docs task 3,
			Commit task > done`,
	}, {
		request: "a cancel of a task at work", in: inDev,
		prepare: painting, warm: sleeps, make: cancelTask, again: cancelTaskAgain("working"), until: "Commit rsp", ends: "Commit rsp",
		calls: `Doc team, Docs task, Docs task 2, Rows req, Rows rsp, Doc task, Docs task 3,
			Commit rsp > done`,
	}, {
		// The first file of a workspace, which the write creates.
		request: "a new file", in: inDev, make: aNewFile, again: writeAgain("", "one"),
		calls: `Doc workspace, Doc workspace 2, Commit workspace, Doc workspace 3, Doc workspacefile,
			Doc workspacecount, Put blob, Doc workspacefile 2, Doc workspacecount 2,
			Commit workspacefile > done, Write`,
	}, {
		request: "a replacement of a file", in: inDev,
		warm: isWritten, make: aReplacement, again: writeAgain("one", "two"),
		calls: `Doc workspace, Doc workspacefile, Doc workspacecount, Put blob, Doc workspacefile 2,
			Doc workspacecount 2, Commit workspacefile > done, Write`,
	}, {
		request: "a removal of a workspace", in: inDev,
		warm: isWritten, make: removeWorkspace, again: removeWorkspaceAgain,
		calls: `Doc workspace, Doc workspacecount, Doc locks, Doc locknumber, Commit workspace > done, Write`,
	}, {
		// The commit of the write begins with the condition of the lock.
		request: "a dispatch of a task that writes under a lock, and its turn", in: inDev,
		prepare: filing, warm: noted, make: aTaskThatWrites, again: fileTaskAgain, ends: "Commit queue 2",
		calls: `Doc team, Doc name, Doc v, Doc v 2, Docs open, Commit queue, Doc task, Doc locks,
			Commit locks > waits, Docs queue, Docs task, Doc locks 2, Doc task 2, Doc guest, Doc guest 2,
			Commit guest, Tip rsp, Tip req, Tip rsp 2, Doc v 3, Tip req 2, Doc revoked, Commit req > pending, Rows req,
			Rows rsp, Doc revoked 2, Doc workspace, Doc workspacefile, Get blob, Doc workspace 2,
			Doc workspacefile 2, Doc workspacecount, Put blob, Doc workspacefile 3, Doc workspacecount 2,
			Doc task 3, Doc locknumber, Doc locks 3, Commit locknumber, Tip log, Commit log, Commit task,
			Commit task 2, Commit task 3, Doc task 4, Docs task 2, Commit rsp > stored, Commit queue 2, Write = either`,
	}, {
		request: "a dispatch of a task that waits for a lock", in: inDev,
		prepare: filing, warm: holds, make: aTaskThatWrites, again: waitAgain, until: "Commit locks",
		calls: `Doc team, Doc name, Doc v, Doc v 2, Docs open, Commit queue, Doc task, Doc locks,
			Doc task 2, Commit locks > waits`,
	}, {
		request: "a cancel of a task that holds a lock", in: inDev,
		prepare: filing, warm: holds, make: cancelTask, again: cancelHolderAgain, until: "Commit task",
		calls: `Doc team, Docs task, Docs task 2, Rows req, Rows rsp, Doc task, Docs task 3,
			Commit task > done`,
	}, {
		request: "a lease of a turn by a worker", in: inDev, prepare: offering, make: aLease, again: leaseAgain,
		calls: `Doc key, Doc acct, Doc workers, Commit workers, Docs work, Doc work, Doc workturn,
			Commit work > done, Doc workturn 2, Write`,
	}, {
		request: "events of a worker", in: inDev, prepare: offering, warm: leased, make: someEvents, again: workAgain,
		calls: `Doc key, Doc workturn, Commit workturn > done, Write`,
	}, {
		request: "the result of a worker", in: inDev, prepare: offering, warm: leased, make: aResult, again: workAgain,
		calls: `Doc key, Doc workturn, Commit workturn > done, Write`,
	}, {
		request: "a call that fails", in: both, prepare: warmed, make: aFailingCall, again: callAgain,
		calls: `Doc v, Doc revoked, Doc textkey (function), Tip req, Tip rsp, Commit req > pending, Rows rsp,
			Commit rsp > unanswered, Write`,
	}, {
		request: "a call of a model", in: inDev, prepare: thinking, make: aCall, again: callAgain,
		calls: `Doc v, Doc revoked, Tip req, Tip rsp, Commit req > pending, Doc v 2 = fresh, Tip log,
			Commit log, Commit rsp > stored, Write`,
	}, {
		// What is reserved stays spent, and is never less than what rows say (verify).
		request: "a call of a model that costs money", in: inDev,
		prepare: paying, make: aCall, again: callAgain,
		calls: `Doc v, Doc v 2, Doc spend, Doc spend 2, Doc revoked, Tip req, Tip rsp, Commit req > pending,
			Doc spend 3, Doc spend 4, Commit spend, Doc spend 5, Commit spend 2, Tip log, Commit log,
			Commit rsp > stored, Write`,
	}, {
		request: "a call of a composite", in: inDev, prepare: composed, make: aCall, again: callAgain,
		calls: `Tip rsp, Doc v, Doc revoked, Tip req, Commit req > pending, Doc v 2, Doc v 3, Tip log,
			Tip log 2, Commit log, Tip req 2, Tip rsp 2, Doc v 4, Doc revoked 2, Tip req 3, Commit req 2,
			Commit rsp, Doc obs, Commit obs, Tip log 3, Commit log 2, Commit rsp 2 > stored,
			Doc reg = decided, Doc obs 2 = decided, Commit obs 2 = decided, Write`,
	}, {
		request: "an answered call sent again", in: both,
		prepare: answered, make: resend, again: callAgain, begins: stored,
		calls: `Doc v, Doc revoked, Doc textkey (function), Tip req, Tip rsp, Rows req, Rows rsp, Write`,
	}, {
		request: "an undecided call sent again", in: both,
		prepare: undecided, make: resend, again: callAgain, begins: unanswered,
		calls: `Doc v, Doc revoked, Doc textkey (function), Tip req, Tip rsp, Rows req, Rows rsp, Rows rsp 2,
			Commit rsp, Write`,
	}, {
		request: "an ask for an undecided call", in: both,
		prepare: undecided, make: ask, again: askAgain, begins: unanswered,
		calls: `Doc v, Doc revoked, Doc textkey (function), Tip req, Tip rsp, Rows req, Rows rsp, Rows rsp 2,
			Commit rsp, Write`,
	}, {
		request: "a reset", in: both, prepare: answered, make: reset, again: resetAgain,
		calls: `Doc v, Doc revoked, Doc textkey (function), Tip req, Commit req > done, Write`,
	}, {
		request: "a card", in: both, make: card, again: pageAgain,
		calls: `Doc v, Write`,
	}, {
		request: "the first start", in: inDev, empty: true, again: startAgain,
		calls: `Docs name, Docs host, Docs textkey, Docs unreached, Docs queue, Docs pushes, Docs registry,
			Doc name, Doc v, Doc nameowner, Doc name 2, Tip log, Doc nameowner 2, Doc name 3, Commit log,
			Tip act, Doc reg, Rows act, Doc reg 2, Tip evt, Tip log 2, Commit evt, Doc v 2, Doc revoked,
			Doc textkey, Commit textkey, Tip req, Tip rsp, Commit req > pending, Commit rsp > stored, Write`,
	}, {
		request: "a later start", in: inDev, prepare: started, again: startAgain,
		calls: `Docs name, Docs host, Doc v, Doc reg, Tip log, Commit log, Doc v 2, Doc reg 2, Tip log 2,
			Commit log 2, Doc v 3, Doc reg 3, Tip log 3, Commit log 3, Docs textkey, Docs unreached,
			Docs queue, Docs pushes, Docs registry, Doc name, Doc v 4, Doc v 5, Doc revoked, Doc textkey,
			Tip req, Tip rsp, Commit req > pending, Commit rsp > stored, Write`,
	}, {
		request: "create", in: inDev, make: create("novel"), again: createAgain("novel"),
		calls: `Doc v, Doc nameowner, Doc name, Tip log, Doc nameowner 2, Doc name 2, Commit log > done, Write`,
	}, {
		request: "create under another spelling of the name of a deleted vacant", in: inDev,
		warm: removed, make: create("Echo"), again: createAgain("Echo"),
		calls: `Doc v, Doc nameowner, Doc name, Doc v 2, Tip log, Doc nameowner 2, Doc name 2, Doc v 3,
			Commit log > done, Write`,
	}, {
		request: "release a name that was given up by a rename", in: inDev,
		warm: givenUp, make: release, again: releaseAgain,
		calls: `Doc nameowner, Doc nameowner 2, Doc name, Commit nameowner > done, Write`,
	}, {
		request: "release the name of a deleted vacant", in: inDev,
		warm: removed, make: release, again: releaseAgain,
		calls: `Doc nameowner, Doc nameowner 2, Doc name, Doc v, Commit former > done, Write`,
	}, {
		request: "update", in: inDev, make: update, again: updateAgain,
		calls: `Doc v, Doc v 2, Doc v 3, Doc name, Doc nameowner, Doc name 2, Doc nameowner 2, Doc reg,
			Doc reg 2, Tip log, Commit name > done, Write`,
	}, {
		request: "update what is published", in: inDev, warm: published, make: update, again: updateAgain,
		calls: `Doc v, Doc v 2, Doc v 3, Doc name, Doc nameowner, Doc name 2, Doc nameowner 2, Doc reg,
			Doc reg 2, Rows act, Doc reg 3, Doc v 4, Tip evt, Tip log, Commit name > done, Write`,
	}, {
		request: "delete", in: inDev, warm: ended, make: remove, again: removeAgain,
		calls: `Doc name, Doc v, Doc v 2, Docs v, Doc v 3, Tip log, Commit log > done, Doc v 4, Write`,
	}, {
		request: "pause", in: inDev,
		make: change(admin.PauseVacant), again: changeAgain("LOCAL", "HIBERNATING"),
		calls: `Doc name, Doc v, Doc v 2, Doc reg, Tip log, Commit log > done, Write`,
	}, {
		request: "resume", in: inDev,
		warm: changed(admin.PauseVacant), make: change(admin.ResumeVacant), again: changeAgain("HIBERNATING", "ACTIVE"),
		calls: `Doc name, Doc v, Doc v 2, Doc reg, Tip log, Commit log > done, Write`,
	}, {
		request: "sink", in: inDev, make: change(admin.SinkVacant), again: changeAgain("LOCAL", "SUNK"),
		calls: `Doc name, Doc v, Doc v 2, Doc reg, Tip log, Commit log > done, Write`,
	}, {
		request: "archive", in: inDev,
		warm: changed(admin.SinkVacant), make: change(admin.ArchiveVacant), again: changeAgain("SUNK", "ARCHIVED"),
		calls: `Doc name, Doc v, Doc v 2, Doc reg, Tip log, Commit log > done, Write`,
	}, {
		request: "publish", in: inDev,
		make: publish, again: publishAgain(map[fate]uint64{fresh: 1, done: 2}, "", `"visibility":"PUBLIC"`),
		calls: `Doc name, Doc v, Doc v 2, Doc v 3, Doc reg, Rows act, Doc reg 2, Doc v 4, Tip evt, Tip log,
			Commit evt > done, Write`,
	}, {
		request: "unpublish", in: inDev,
		warm: published, make: change(admin.UnpublishVacant), again: publishAgain(map[fate]uint64{fresh: 3, done: 3}, `"visibility":"PUBLIC"`, "is NONE-visibility"),
		calls: `Doc name, Doc v, Doc v 2, Doc v 3, Doc reg, Rows act, Doc reg 2, Doc v 4, Tip evt, Tip log,
			Commit evt > done, Write`,
	}, {
		request: "revoke", in: inDev,
		warm: published, make: revoke, again: publishAgain(map[fate]uint64{fresh: 3, done: 2}, `"status":"active"`, `"status":"revoked"`),
		calls: `Doc name, Doc v, Doc v 2, Doc revoked, Doc v 3, Tip act, Rows act, Doc reg, Doc v 4, Tip log,
			Tip evt, Doc revoked 2, Commit evt > done, Doc v 5, Write`,
	}, {
		request: "a graduation", in: inDev, prepare: consented, make: graduate, again: graduateAgain,
		calls: `Doc reg, Doc v, Doc v 2, Tip grad, Doc host, Doc gradtry, Commit grad > pending, Doc reg 2,
			Doc revoked, Doc revoked 2, Doc gradwin, Doc reg 3, Docs children, Docs kin, Doc reg 4,
			Doc reg 5, Doc v 3, Doc v 4, Doc obs, Rows rsp, Doc obs 2, Doc grad, Doc gradwin 2, Doc reg 6,
			Doc revoked 3, Doc v 5, Doc v 6, Doc reg 7, Doc reg 8, Rows act, Doc reg 9, Doc v 7, Tip evt,
			Tip log, Tip log 2, Commit gradwin > done, Rows grad, Doc grad 2, Write`,
	}, {
		request: "a review", in: inDev, prepare: prepareReview, make: submitReview, again: submitReviewAgain,
		calls: `Doc v, Doc reviews, Doc reg, Doc reg 2, Doc revoked, Rows req, Rows rsp, Doc v 2, Doc link,
			Doc reviews 2, Doc reviewer, Doc reviews 3, Doc reviews 4, Doc reg 3, Commit reviewer > done, Write`,
	}, {
		request: "set a secret", in: inDev, make: setSecret, again: setSecretAgain,
		calls: `Doc secret, Commit secret > done, Write`,
	}, {
		request: "delete a secret", in: inDev, warm: secretIsSet, make: deleteSecret, again: deleteSecretAgain,
		calls: `Doc secret, Commit secret > done, Write`,
	}, {
		request: "set a tenant's budget", in: inDev, make: setBudget, again: setBudgetAgain,
		calls: `Doc budget, Commit budget > done, Doc spend, Doc budget 2, Write`,
	}, {
		request: "set the table of models", in: inDev, make: setModels, again: setModelsAgain,
		calls: `Doc models, Commit models > done, Write`,
	}, {
		request: "a call with a price", in: inDev, prepare: priced, make: aCall, again: pricedAgain,
		calls: `Tip rsp, Doc v, Doc host, Doc link, Doc acct, Doc revoked, Tip req, Commit req > pending,
			Commit rsp > stored, Write`,
	}, {
		request: "a call with a price that fails", in: inDev,
		prepare: priced, make: aFailingCall, again: pricedAgain,
		calls: `Tip rsp, Doc v, Doc host, Doc link, Doc acct, Doc revoked, Tip req, Commit req > pending,
			Rows rsp, Commit rsp > unanswered, Write`,
	}, {
		request: "an issuer is added", in: inDev, prepare: rich, make: addIssuer, again: addIssuerAgain,
		calls: `Doc tenant, Doc acct, Docs issuers, Doc acct 2, Doc issuers, Commit issuers > done, Write`,
	}, {
		request: "an issuer is removed", in: inDev,
		prepare: taken, make: removeIssuer, again: removeIssuerAgain,
		calls: `Doc issuers, Doc acct, Doc issuers 2, Commit issuers > done, Write`,
	}, {
		request: "the first message of a subject, by a token", in: inDev,
		prepare: subject, make: aSubjectsMessage, again: subjectAgain,
		calls: `Doc v, Docs issuers, Doc subject, Commit subject, Doc acct, Doc guest, Doc guest 2,
			Commit guest, Docs task, Docs task 2, Tip rsp, Doc revoked, Tip req, Doc v 2, Doc host,
			Doc acct 2, Commit req > pending, Commit task, Doc task, Docs task 3, Commit rsp > stored,
			Docs task 4, Write`,
	}, {
		request: "a credit", in: inDev, prepare: rich, make: aCredit, again: creditAgain,
		calls: `Doc tenant, Doc acct, Doc acct 2, Doc acct 3, Doc bal, Commit acct > done, Doc bal 2, Doc host,
			Rows acct, Docs use, Docs acct, Write`,
	}, {
		request: "a link", in: inDev, prepare: rich, make: aLink, again: linkAgain,
		calls: `Doc tenant, Doc acct, Doc host, Doc acct 2, Doc link, Doc acct 3, Docs acct, Commit link > done,
			Write`,
	}, {
		// With a key and a link that it made.
		request: "a revocation of a key", in: inDev, prepare: withTree, make: revokeKey, again: revokeKeyAgain,
		calls: `Doc tenant, Doc acct, Doc acct 2, Doc acct 3, Doc key, Doc endings, Commit key > done,
			Doc acct 4, Docs acct, Docs acct 2, Doc acct 5, Doc acct 6, Doc key 2, Commit key 2, Doc acct 7,
			Doc link, Doc acct 8, Commit acct, Doc acct 9, Doc endings 2, Commit endings, Docs acct 3,
			Docs acct 4, Write`,
	}, {
		request: "the webhook of a payment", in: inDev,
		prepare: rich, warm: takesPayments, make: aPayment, again: paidAgain,
		calls: `Doc paykey, Doc paykey 2, Doc acct, Doc pay, Doc bal, Commit pay > done, Doc acct 2, Doc pay 2,
			Write`,
	}, {
		request: "the webhook of a refund", in: inDev,
		prepare: rich, warm: isPaid, make: aRefund, again: refundAgain,
		calls: `Doc pay, Commit pay, Doc acct, Doc pay 2, Doc bal, Commit pay 2 > done, Write`,
	}, {
		request: "the webhook of a refund that fails", in: inDev,
		prepare: rich, warm: isRefunded, make: aFailedRefund, again: paidAgain,
		calls: `Doc pay, Commit pay, Doc acct, Doc pay 2, Doc bal, Commit pay 2 > done, Write`,
	}, {
		request: "a booking", in: inDev,
		prepare: rich, warm: hires, make: confirm, again: confirmAgain, until: "Commit queue",
		calls: `Doc key, Doc acct, Doc keyuse, Doc bookidem, Doc slug, Doc reg, Doc breaker, Doc reg 2, Doc v,
			Doc acct 2, Commit bkg, Doc bookidem 2, Doc keyuse 2, Commit keyuse > done, Commit queue`,
	}, {
		request: "a booking that is cancelled", in: inDev,
		prepare: rich, warm: isBooked, make: cancel, again: cancelAgain,
		calls: `Doc key, Doc bkg, Doc bkg 2, Commit bkg > done, Doc bkg 3, Rows bkg, Write`,
	}, {
		// The first of a host, which makes the key that signs it.
		request: "a receipt", in: inDev, prepare: priced, warm: oneCall, make: aReceipt, again: receiptAgain,
		calls: `Rows rsp, Rows req, Rows rsp 2, Doc price, Doc signkey, Doc signkey 2, Commit signkey, Write`,
	}, {
		request: "list", in: inDev,
		make: func(*stage) request { return request{control: true, path: "/v1/admin/vacants"} }, again: pageAgain,
		calls: `Docs name, Doc v, Doc v 2, Doc v 3, Doc reg, Doc reg 2, Doc reg 3, Docs use, Write`,
	}, {
		request: "a logbook", in: inDev,
		make: func(*stage) request { return request{control: true, path: "/v1/admin/vacants/echo/logbook"} }, again: pageAgain,
		calls: `Doc name, Doc v, Rows log, Write`,
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

func change[Out any](to op.Op[admin.VacantRef, Out]) func(*stage) request {
	return func(s *stage) request {
		path, err := to.PathFor(admin.VacantRef{Vacant: "echo"})
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
	count := 0
	for _, sc := range table {
		there := map[place]bool{}
		for _, p := range sc.points() {
			if there[p.place] {
				t.Errorf("%s: %v twice", sc.request, p)
			}
			if !slices.Contains([]fate{fresh, pending, doubtful, decided, unanswered, stored, done, waits, either}, p.then) {
				t.Errorf("%s: %v has the unknown fate %q", sc.request, p, p.then)
			}
			there[p.place] = true
		}
		count += len(there)
	}
	t.Logf("%d places", count)
	if count < 700 {
		t.Errorf("%d places, want at least 700", count)
	}
}
