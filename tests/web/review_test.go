package web

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// A review that the browser signs is the record that Go reads and verifies.
func TestReviewsVerifyByGo(t *testing.T) {
	t.Parallel()
	type point struct {
		Seq int64 `json:"seq"`
	}
	type called struct {
		Target      identity.ID   `json:"target"`
		RequestHash identity.Hash `json:"requestHash"`
		Epoch       int64         `json:"epoch"`
		Request     point         `json:"request"`
	}
	type input struct {
		Seed       string         `json:"seed"`
		Call       called         `json:"call"`
		Dimensions review.Ratings `json:"dimensions"`
		Claim      string         `json:"claim"`
		At         int64          `json:"at"`
	}
	target := keyOf(t, 5).ID()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)
	var inputs []input
	for i, claim := range []string{"", "é 你好 \u007f\u2028\U0001F600 \"\\<", strings.Repeat("x", 1000)} {
		inputs = append(inputs, input{strings.Repeat("01", 32), called{target, identity.Hash{7}, int64(i % 2), point{9}}, review.Ratings{"factual": 1, "logical": 0.25, "relevance": 0}, claim, at.UnixMilli()})
	}
	for i, got := range ask(t, newModule(t), "review", inputs) {
		rec, err := review.Parse([]byte(got.Text))
		if err != nil {
			t.Errorf("%d: Parse() = %v", i, err)
			continue
		}
		position := int64(9 * (1 - i%2)) // only before a reset is a call's number its position
		if !rec.Verify(rec.Reviewer) || rec.Target != target || rec.CallHash != inputs[i].Call.RequestHash || rec.Claim != inputs[i].Claim || rec.IssuedAt != canon.FormatTime(at) || rec.Position != position || !maps.Equal(rec.Ratings, inputs[i].Dimensions) {
			t.Errorf("%d: the record is %+v, which verifies: %t", i, rec, rec.Verify(rec.Reviewer))
		}
	}
}

// A person reviews an answer on the page, once.
func TestAPersonReviewsAnAnswerOnThePage(t *testing.T) {
	t.Parallel()
	c := newChat(t, vacants.CreateSpec{})
	p := c.tab()
	p.say("hi")
	p.heard(1)
	press := func(claim string) string {
		p.click(".reviewed summary")
		p.until(`document.querySelector(".review button") !== null`)
		p.fill(".review input", claim)
		p.click(".review button")
		p.until(`/^[✓✗]/.test(document.querySelector(".review [role=status]").textContent)`)
		return p.text(".review [role=status]")
	}
	if got := press("a good echo"); !strings.HasPrefix(got, "✓ Counted a quarter. The score is 0.0") {
		t.Errorf("the page shows %q, want that the review is counted", got)
	}
	history, err := c.Reviews.History(t.Context(), c.id, 1, 10)
	must(t, err)
	if len(history.Reviews) != 1 || history.Reviews[0].Claim == nil || *history.Reviews[0].Claim != "a good echo" {
		t.Errorf("the history is %+v, want the review with its claim", history)
	}
	p = c.tab()
	p.heard(1)
	if got := press("again"); !strings.Contains(got, "You reviewed this answer already") {
		t.Errorf("the page shows %q, want that each answer is reviewed once", got)
	}
}
