package reviews_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

func TestAReviewOfAnAnsweredCallIsCountedOnce(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	if r := f.reputation(shop); r.Score != 0 || r.Rows != 0 || r.State() != nil {
		t.Errorf("the reputation without reviews = %+v", r)
	}
	c := f.call(f.key(), shop)
	rec := f.rate(c, 1, func(r *review.Record) { r.Claim, r.Ratings["honesty"] = "good", 0.5 })
	out := f.submit(rec)
	if out.Position != 1 || out.Class != review.ClassQuarter || out.Substrate != "echo" || out.Weights["factual"] != 0.045 || out.ScoreBefore.Score != 0 || out.ScoreAfter.Score <= 0 {
		t.Errorf("Submit() = %+v", out)
	}
	again := f.submit(rec)
	if !again.Duplicate || again.Position != 1 || again.ScoreAfter != out.ScoreAfter {
		t.Errorf("Submit() of the same = %+v, want a duplicate", again)
	}
	f.refused(f.rate(c, 0), problem.AlreadyReviewed, "another review of the call")
	g, ok, err := f.Registry.Get(t.Context(), shop)
	if err != nil || !ok || g.Reputation.EarnedScore() != out.ScoreAfter.Score || g.Reputation.Evidence() != out.ScoreAfter.Evidence {
		t.Errorf("the registration has %v, %v, want %+v", g.Reputation, err, out.ScoreAfter)
	}
	// If the review has no position, the host searches the last calls.
	other := f.call(c.by, shop)
	if out := f.submit(f.rate(other, 1, func(r *review.Record) { r.Position = 0 })); out.PartyReviewNumber != 2 {
		t.Errorf("Submit() without a position = %+v", out)
	}
	f.WantWhole()
}

func TestWhoMayNotReview(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	f.price(shop)
	key := f.key()
	answered := f.call(key, shop)
	ops := f.host("", "ops")
	parent := f.host("firm", "parent")
	child, _, err := f.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent, Path: "D2", Name: "child", Substrate: "echo"})
	f.Must(err)
	failing := f.Create(vacants.CreateSpec{Name: "failing", Capability: "fails", Substrate: "fails", Tenant: "acme"}).ID
	void := f.try(key, failing)
	if void.out.Problem == nil {
		t.Fatal("the failing vacant has answered")
	}
	asker := f.key()
	waits := f.sign(asker, shop)
	if out := f.Calls.AcceptForResume(t.Context(), identity.ID{}, waits, call.Options{}); out.Problem != nil || out.State != call.Pending {
		t.Fatalf("AcceptForResume() = %+v, want a call without an answer", out)
	}
	none := f.rate(answered, 1, func(r *review.Record) { r.CallHash = identity.Hash{} })
	f.refused(none, problem.NoMatchingCall, "without a call")
	f.refused(f.rate(called{identity.Sum([]byte("x")), answered.position, key, shop, answered.out}, 1), problem.NoMatchingCall, "another hash at the position")
	f.refused(f.rate(called{answered.hash, answered.position, f.key(), shop, answered.out}, 1), problem.NoMatchingCall, "somebody else's call")
	f.refused(f.rate(void, 0), problem.NoMatchingCall, "a void call")
	f.refused(f.rate(called{hash: waits.Hash(), position: 1, by: asker, to: shop}, 0), problem.NoMatchingCall, "an undecided call")

	forged := f.rate(answered, 1)
	forged.Reviewer = f.key().ID()
	f.refused(forged, problem.BadSignature, "somebody else's signature")
	f.refused(f.rate(called{answered.hash, 1, f.as(shop), shop, answered.out}, 1), problem.Ineligible, "the vacant itself")

	puppet := f.host("acme", "puppet")
	f.refused(f.rate(f.call(f.as(puppet), shop), 1), problem.Ineligible, "a puppet of the same tenant")
	f.refused(f.rate(f.call(f.as(f.host("", "other")), ops), 1), problem.Ineligible, "a vacant of the same operator")
	owner := f.payer("acme")
	f.refused(f.rate(f.call(owner, shop), 1), problem.Ineligible, "a key that the owner pays for")
	linked := f.as(f.host("linked", "linked"))
	a, err := f.Billing.FindAccount(t.Context(), "acme")
	f.Must(err)
	f.Link(a, linked)
	free := f.host("acme", "free")
	f.refused(f.rate(f.call(linked, free), 1), problem.Ineligible, "a hosted vacant whose calls the owner would pay for")
	f.refused(f.rate(f.call(f.as(child.ID), parent), 1), problem.Ineligible, "a child of its parent")

	for what, id := range map[string]identity.ID{"an unknown vacant": f.key().ID(), "a closed child": child.ID} {
		r := f.rate(called{hash: answered.hash, by: key, to: id}, 1)
		if _, err := f.Reviews.Submit(t.Context(), r); !problem.Is(err, problem.NotFound) {
			t.Errorf("%s: Submit() = %v, want %v", what, err, problem.NotFound)
		}
		if _, err := f.Reviews.Reputation(t.Context(), id); !problem.Is(err, problem.NotFound) {
			t.Errorf("%s: Reputation() = %v, want %v", what, err, problem.NotFound)
		}
	}
	f.submit(f.rate(answered, 1)) // all refusals left the call unreviewed
	f.WantWhole()
}

// Between a call and its review, the reviewer or the target is closed. An empty code means that the review is
// counted.
func TestAReviewAfterTheEndOfItsReviewerOrTarget(t *testing.T) {
	f := open(t)
	sink := func(id identity.ID) {
		_, err := f.Vacants.Sink(t.Context(), id)
		f.Must(err)
	}
	revoke := func(id identity.ID) {
		_, _, err := f.Vacants.Revoke(t.Context(), id, "lost")
		f.Must(err)
	}
	remove := func(id identity.ID) {
		sink(id)
		_, err := f.Vacants.Archive(t.Context(), id)
		f.Must(err)
		_, err = f.Vacants.Delete(t.Context(), id)
		f.Must(err)
	}
	for _, tt := range []struct {
		what             string
		end              func(identity.ID)
		reviewer, target string // codes
		status           [2]int
	}{
		{"sunk", sink, "ineligible", "", [2]int{403, 200}},
		{"revoked", revoke, "revoked", "revoked", [2]int{403, 403}},
		{"deleted", remove, "ineligible", "not_found", [2]int{403, 404}},
	} {
		for i, code := range []string{tt.reviewer, tt.target} {
			shop, friend := f.host("acme", fmt.Sprint(tt.what, "-shop-", i)), f.host("friends", fmt.Sprint(tt.what, "-friend-", i))
			openly, err := json.Marshal(f.rate(f.call(f.as(friend), shop), 1))
			f.Must(err)
			_, err = f.Reviews.SubmitBlinded(t.Context(), f.blind(f.call(f.as(friend), shop), 1))
			f.Must(err)
			tt.end([]identity.ID{friend, shop}[i])
			f.Clock.Advance(2 * time.Second) // records are cached for a second
			f.faults.begin(0, false)
			status, got := f.post("/v1/submit_review", string(openly))
			if is, _ := got["code"].(string); status != tt.status[i] || is != code || code != "" && f.faults.commits > 0 {
				t.Errorf("%s %d: submit = %d %v, %d commits; want %d %s", tt.what, i, status, got, f.faults.commits, tt.status[i], code)
			}
			if i > 0 {
				continue
			}
			f.blindly(shop)
			f.blindly(shop)
			if rows := f.rows(shop); len(rows) != 2 {
				t.Errorf("%s: %d of 3 blinded reviews are counted, want those of the 2 others", tt.what, len(rows))
			}
		}
	}
	f.WantWhole()
}

func TestPaidCallsAndVacantsOfOthersCountInFull(t *testing.T) {
	f := open(t)
	shop, friend := f.host("acme", "shop"), f.host("friends", "friend")
	if out := f.praise(f.as(friend), shop, 1); out.Class != review.ClassFull || out.Weights["factual"] != 0.18 {
		t.Errorf("a hosted reviewer: %+v, want 0.18", out)
	}
	if out := f.praise(f.as(shop), friend, 1); out.Class != review.ClassQuarter {
		t.Errorf("praise in return: %+v, want a quarter", out)
	}
	f.price(shop)
	buyer := f.payer("buyer")
	for i, want := range []float64{0.18, 0.18 / 1.4, 0.18 / 1.8} {
		if out := f.praise(buyer, shop, 1); out.Class != review.ClassFull || out.PartyReviewNumber != int64(i+1) || math.Abs(out.Weights["factual"]-want) > 1e-12 {
			t.Errorf("paid review %d: %+v, want %v", i+1, out, want)
		}
	}
	f.refused(f.rate(f.call(buyer, shop), 1), problem.TooManyRequests, "a fourth review in a day")
	f.Clock.Advance(24 * time.Hour)
	if out := f.praise(buyer, shop, 1); out.PartyReviewNumber != 4 {
		t.Errorf("a day later: %+v", out)
	}
	// Another key that the same account pays for is not new.
	second := f.key()
	a, err := f.Billing.FindAccount(t.Context(), "buyer")
	f.Must(err)
	f.Link(a, second)
	if out := f.praise(second, shop, 1); out.PartyReviewNumber != 5 {
		t.Errorf("another key of the account: %+v, want the fifth review", out)
	}
	f.WantWhole()
}

func TestAReviewerWritesTwentyReviewsADay(t *testing.T) {
	f := open(t)
	key := f.key()
	var last called
	for i := range reviews.MaxPerReviewer + 1 {
		last = f.call(key, f.host("acme", "shop-"+string(rune('a'+i))))
		if i < reviews.MaxPerReviewer {
			f.submit(f.rate(last, 1))
		}
	}
	f.refused(f.rate(last, 1), problem.TooManyRequests, "one more")
	f.Clock.Advance(24 * time.Hour)
	f.submit(f.rate(last, 1))
}

func TestReviewsAtOnceAreNeitherLostNorDoubled(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	var all []review.Record
	for range 64 {
		all = append(all, f.rate(f.call(f.key(), shop), 1))
	}
	same := f.call(f.key(), shop)
	all = append(all, f.rate(same, 1), f.rate(same, 1), f.rate(same, 0))
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() {
			if _, err := f.Reviews.Submit(context.WithoutCancel(t.Context()), r); err != nil && !problem.Is(err, problem.AlreadyReviewed) {
				t.Errorf("review %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if r := f.reputation(shop); r.Rows != 65 {
		t.Errorf("%d reviews were counted, want 65", r.Rows)
	}
	f.WantWhole()
}

func TestAFloodOfReviewsWithoutCallsWritesNothing(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	key := f.key()
	f.faults.begin(0, false)
	for i := range 100 {
		r := f.rate(called{hash: identity.Sum([]byte{byte(i)}), by: key, to: shop}, 1)
		if _, err := f.Reviews.Submit(t.Context(), r); !problem.Is(err, problem.NoMatchingCall) {
			t.Fatal(err)
		}
		b := f.blind(called{hash: identity.Sum([]byte{byte(i)}), by: key, to: shop}, 1)
		if _, err := f.Reviews.SubmitBlinded(t.Context(), b); !problem.Is(err, problem.NoMatchingCall) {
			t.Fatal(err)
		}
	}
	if f.faults.commits != 0 {
		t.Errorf("%d commits, want none", f.faults.commits)
	}
}

func TestACrashAtEachCommitLeavesTheReviewOrNothing(t *testing.T) {
	for _, applied := range []bool{false, true} {
		f := open(t)
		shop := f.host("acme", "shop")
		rec := f.rate(f.call(f.key(), shop), 1, func(r *review.Record) { r.Claim = "a claim" })
		f.faults.begin(1, applied)
		out, err := f.Reviews.Submit(t.Context(), rec)
		if err != nil || out.Position != 1 {
			t.Errorf("applied %t: Submit() = %+v, %v", applied, out, err)
		}
		if f.faults.units > 24 || f.faults.reads > 16 {
			t.Errorf("a review takes %d write and %d read units, want at most 24 and 16", f.faults.units, f.faults.reads)
		}
		t.Logf("%d write and %d read units", f.faults.units, f.faults.reads)
		if again := f.submit(rec); !again.Duplicate {
			t.Errorf("applied %t: Submit() again = %+v, want a duplicate", applied, again)
		}
		if r := f.reputation(shop); r.Rows != 1 {
			t.Errorf("applied %t: %d reviews", applied, r.Rows)
		}
		f.WantWhole()
	}
}

func TestTheSubstrateThatAnsweredIsReviewed(t *testing.T) {
	f := open(t)
	agent := definition.Agent{Provider: "mock", System: "```mock\ntext: so be it\nusage: 3 2\n```"}
	shop := f.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "shop", Capability: "answers", Agent: &agent, Tenant: "acme"}).ID
	_, _, err := f.Vacants.Publish(t.Context(), shop, vacants.PublishOptions{})
	f.Must(err)
	before, late := f.call(f.key(), shop), f.call(f.key(), shop)
	echo := "echo"
	_, err = f.Vacants.Update(t.Context(), shop, vacants.Changes{Asker: vacants.OperatorAsker(), Substrate: &echo})
	f.Must(err)
	f.Clock.Advance(2 * time.Second) // records are cached for a second
	for i, one := range []struct {
		of            called
		want, current string
	}{{before, "mock", "mock"}, {f.call(f.key(), shop), "echo", "echo"}, {late, "mock", "echo"}} {
		out := f.submit(f.rate(one.of, 1))
		r := f.reputation(shop)
		if out.Substrate != one.want || r.CurrentSubstrate != one.current {
			t.Errorf("review %d is of %s, and the reputation of %s, want %s and %s", i, out.Substrate, r.CurrentSubstrate, one.want, one.current)
		}
		g, _, err := f.Registry.Get(t.Context(), shop)
		if err != nil || *g.Reputation != *r.State() {
			t.Errorf("review %d: the registration has another reputation, %v", i, err)
		}
	}
	f.WantWhole()
}

// client asks the registry's handler of a host.
type client struct{ f *fixture }

func (c client) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	in := httptest.NewRequest(r.Method, r.URL, strings.NewReader(string(r.Body)))
	for name, values := range r.Header {
		in.Header[name] = values
	}
	w := httptest.NewRecorder()
	c.f.handler().ServeHTTP(w, in.WithContext(ctx))
	return outbound.Reply{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, nil
}

func TestAnybodyRecountsAReputation(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	f.price(shop)
	c := registryclient.Client{Transport: client{f}, URL: "http://127.0.0.1:1"}
	if r, _, err := c.Recount(t.Context(), shop); err != nil || r.Rows != 0 || r.Score != 0 {
		t.Errorf("Recount() without reviews = %+v, %v", r, err)
	}
	for i := range 120 { // more than a page
		by := f.key()
		if i%40 == 0 {
			by = f.payer("buyer-" + string(rune('a'+i/40)))
		}
		rec := f.rate(f.call(by, shop), float64(i%5)/4, func(r *review.Record) { r.Claim = strings.Repeat("é<", i%3) })
		if _, err := c.SubmitReview(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(time.Hour)
	}
	r, erased, err := c.Recount(t.Context(), shop)
	if err != nil || r.Rows != 120 || r.Score <= 0 || erased != 0 {
		t.Fatalf("Recount() = %+v, %v", r, err)
	}
	f.Must(f.Reviews.EraseClaim(t.Context(), shop, 2, nil))
	f.Must(f.Reviews.EraseClaim(t.Context(), shop, 2, nil))
	if again, erased, err := c.Recount(t.Context(), shop); err != nil || erased != 1 || again.Score != r.Score {
		t.Errorf("Recount() without a claim = %+v, %v", again, err)
	}
	stranger := f.key().ID()
	if err := f.Reviews.EraseClaim(t.Context(), shop, 3, &stranger); !problem.Is(err, problem.NotFound) {
		t.Errorf("EraseClaim() by a stranger = %v, want %v", err, problem.NotFound)
	}
	page, err := c.ReputationHistory(t.Context(), shop, "110", 5)
	if err != nil || len(page.Reviews) != 5 || page.Reviews[0].Position != 110 || page.Next != "115" {
		t.Errorf("ReputationHistory() = %+v, %v", page, err)
	}
	f.WantWhole()

	// A host that changes a review, or its sum, is found out.
	row := page.Reviews[0].Row
	d, err := f.Store.Doc(t.Context(), reviews.BookKey(shop))
	f.Must(err)
	var members map[string]any
	f.Must(json.Unmarshal(d.Data, &members))
	members["rows"] = 119
	b, err := json.Marshal(members)
	f.Must(err)
	f.Must(f.Store.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{9}, Data: b}))
	if _, _, err := c.Recount(t.Context(), shop); !problem.Is(err, problem.Untrusted) {
		t.Errorf("Recount() of a changed sum = %v, want %v", err, problem.Untrusted)
	}
	if found := f.Findings(); len(found) != 1 || !strings.Contains(found[0], "reputation") {
		t.Errorf("verify: %q, want the changed reputation", found)
	}
	spoiled, err := review.DecodeRow([]byte(strings.Replace(string(row), `"factual":`, `"factual":0.1,"logical":`, 1)))
	if err == nil && spoiled.Verify(shop, nil) == nil && strings.Contains(string(row), `"claimed"`) {
		t.Error("a changed rating verifies")
	}
}

// A review of a hosted vacant and the entry of its logbook are one commit.
func TestAHostedReviewerLogsItsReviewOnce(t *testing.T) {
	f := open(t)
	shop, friend := f.host("acme", "shop"), f.host("friends", "friend")
	f.call(f.as(friend), shop)
	issue := func(signal float64) (registryclient.ReviewReceipt, error) {
		f.Clock.Advance(time.Second)
		r := review.Record{Members: review.Members{Target: shop, Ratings: review.Ratings{"factual": signal, "logical": 1, "relevance": 1}, Substrate: "default", Claim: "good"}}
		return f.Reviews.Issue(t.Context(), friend, &r)
	}
	logged := func() (n int) {
		entries, err := f.Vacants.Logbook(t.Context(), friend, 1, 100)
		f.Must(err)
		for _, e := range entries {
			if e.Entry.Kind == logbook.KindReviewIssued {
				n++
			}
		}
		return n
	}
	for _, applied := range []bool{false, true} {
		f.faults.begin(1, applied)
		if out, err := issue(1); err != nil || out.Position != 1 || out.Duplicate != applied {
			t.Errorf("applied %t: Issue() = %+v, %v", applied, out, err)
		}
		t.Logf("applied %t: %d write units", applied, f.faults.units)
		if logged() != 1 {
			t.Errorf("%d entries, want 1", logged())
		}
	}
	if _, err := issue(0); !problem.Is(err, problem.AlreadyReviewed) {
		t.Errorf("Issue() of another review = %v, want %v", err, problem.AlreadyReviewed)
	}
	f.WantWhole()
}
