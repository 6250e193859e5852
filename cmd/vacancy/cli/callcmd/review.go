package callcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

func reviewCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var as string
	var erase uint64
	var d draft
	values := map[string]*float64{}
	cmd := &cobra.Command{
		Use:   "review TARGET --factual F --logical L --relevance R | review TARGET --erase-claim POSITION",
		Short: "Review an answer that you got",
		Long: `Sign a review of TARGET's answer to your last answered call, and send it to TARGET's host. The host
counts it if it finds the call and its answer. Each answer is reviewed once.

A rating is a number from 0 to 1. --claim is a sentence that everybody may read; --erase-claim
deletes that of your review at a position of TARGET's history. The review is stored before it is
sent: after a lost answer the same command sends the same bytes. A review that the host accepts
becomes an entry REVIEW_ISSUED of your logbook.

How much a review counts depends on what the host knows of you: reviews of paid calls count
in full, most others a quarter. "vacancy reputation TARGET" shows the score.

With --blinded the host publishes who wrote the review only together with at least two
others.`,
		Example: `  vacancy review clerk --factual 1 --logical 0.8 --relevance 1
  vacancy review https://agents.example.org/v/clerk --factual 0 --logical 0.5 --relevance 0.5 --claim "wrong year"
  vacancy review clerk --call 7 --factual 1 --logical 1 --relevance 1 --as alice
  vacancy review clerk --erase-claim 12`,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.ratings = review.Ratings{}
			for name, value := range values {
				if cmd.Flags().Changed(name) {
					d.ratings[name] = *value
				}
			}
			erases := cmd.Flags().Changed("erase-claim")
			if err := d.ratings.Check(); err != nil && !erases {
				p := problem.Of(err)
				flag := "--" + p.Field[strings.LastIndex(p.Field, ".")+1:]
				return &problem.Error{Kind: problem.Usage, Field: flag, Want: p.Want + ", for example 0.8", Got: p.Got}
			}
			ctx, web := cmd.Context(), a.HTTP(kit.CallTimeout)
			target, err := a.Target(ctx, web, args[0], w)
			if err != nil {
				return err
			}
			self, err := a.ExistingCaller(ctx, as)
			if err != nil {
				return err
			}
			if erases {
				return eraseClaim(a, ctx, web, self, target, erase)
			}
			r, err := d.issue(a, ctx, web, self, target)
			if err != nil {
				return err
			}
			return a.Show(r)
		},
	}
	fs := cmd.Flags()
	for _, name := range review.Dimensions()[:4] { // adoption is not an opinion
		values[name] = fs.Float64(name, 0, ratingUsage[name])
	}
	fs.StringVar(&d.claim, "claim", "", "a public sentence about the answer, at most 1,024 bytes")
	fs.StringVar(&d.call, "call", "", "the `POSITION` of the call, or the hash of its request (default the last answered call)")
	fs.BoolVar(&d.blinded, "blinded", false, "hide who wrote the review until two others have written theirs")
	fs.Uint64Var(&erase, "erase-claim", 0, "erase the claim of your review at a `POSITION`, instead of a new review")
	fs.StringVar(&as, "as", "", "the identity that called (default $VACANCY_AS, else the only one)")
	kit.HostFlags(fs, &w)
	return cmd
}

var ratingUsage = map[string]string{
	"factual": "whether the facts were right, from 0 to 1", "logical": "whether the reasoning was sound, from 0 to 1",
	"relevance": "whether it answered the message, from 0 to 1", "honesty": "whether it said what it did not know, from 0 to 1",
}

// draft is a review that is not signed yet.
type draft struct {
	ratings          review.Ratings
	substrate, claim string
	call             string // position or hash; "" for the last answered call
	blinded          bool
}

// issue signs the review, sends it to the target's host, and logs it.
func (d *draft) issue(a *kit.App, ctx context.Context, web *dispatch.HTTP, self kit.Signer, t dispatch.Target) (r reviewResult, err error) {
	call, position, err := d.findCall(ctx, self, t)
	if err != nil {
		return r, err
	}
	rec := review.Record{Target: t.ID, Ratings: d.ratings, Substrate: cmp.Or(d.substrate, "default"), Call: call, Position: position, Claim: d.claim, IssuedAt: a.Now()}
	var signed any = &rec
	if d.blinded {
		reveal, err := rec.Blind(ctx, self.Key, a.Rand)
		if err != nil {
			return r, problem.Within(problem.Usage, "the review", err)
		}
		signed = blindedReview{&rec, &reveal}
	} else if err := rec.Sign(ctx, self.Key); err != nil {
		return r, problem.Within(problem.Usage, "the review", err)
	}
	fresh, err := json.Marshal(signed)
	if err != nil {
		return r, err
	}
	kept, err := self.KeepReview(ctx, call, fresh)
	if err != nil {
		return r, err
	}
	if rec, d.blinded, err = parseKept(kept); err != nil {
		return r, problem.Wrap(problem.Damaged, err, "the stored review of the call %s", call)
	}
	if !maps.Equal(rec.Ratings, d.ratings) || rec.Claim != d.claim {
		return r, problem.New(problem.Conflict, "you signed a review of this answer before: %s%s; each answer is reviewed once", formatRatings(rec.Ratings), kit.FormatIf(rec.Claim != "", ", claim %q", rec.Claim))
	}
	r = reviewResult{As: self.Name, Target: t.ID, Record: rec, name: t.Name}
	if err = r.send(a, ctx, web, t, &rec, kept); err != nil {
		var status *registryclient.StatusError
		var refused *refusedReview
		if errors.As(err, &refused) || errors.As(err, &status) && status.Status < 500 && !problem.Is(err, problem.TooMany) {
			err = errors.Join(err, self.DropReview(call))
		}
		return r, err
	}
	entry, err := logbook.ReviewIssued(&rec)
	if err != nil {
		return r, err
	}
	return r, self.AppendLog(ctx, logbook.KindReviewIssued, entry, a.Now())
}

// blindedReview is a blinded review as it is posted.
type blindedReview struct {
	Record *review.Record `json:"record"`
	Reveal *review.Reveal `json:"reveal"`
}

func parseKept(kept []byte) (rec review.Record, blinded bool, err error) {
	var b struct {
		Record json.RawMessage `json:"record"`
	}
	if err := json.Unmarshal(kept, &b); err != nil {
		return rec, false, err
	}
	blinded = b.Record != nil
	if blinded {
		kept = b.Record
	}
	rec, err = review.Parse(kept)
	return rec, blinded, err
}

// findCall returns the hash of the call that the review is about, and its position if the person gave it.
// The host finds its pair's last calls without a position.
func (d *draft) findCall(ctx context.Context, self kit.Signer, t dispatch.Target) (hash identity.Hash, position uint64, err error) {
	if hash, err = identity.ParseHash(d.call); err == nil {
		return hash, 0, nil
	}
	if d.call != "" {
		if position, err = strconv.ParseUint(d.call, 10, 63); err != nil || position == 0 {
			return hash, 0, problem.New(problem.Usage, "--call: expected the position of a call, for example 7, or the hash of its request, got %.80q", d.call)
		}
	}
	s, err := self.Book().Open(ctx, self.ID(), t.ID)
	if err != nil {
		return hash, 0, err
	}
	st, err := s.Load()
	if err := errors.Join(err, s.Close()); err != nil {
		return hash, 0, err
	}
	call, ok := st.LastAnswered(int64(position))
	switch name := kit.Printable(t.Name); {
	case ok:
		return call.Hash, position, nil
	case position > 0:
		return hash, 0, kit.WithHint(problem.New(problem.NotFound, "%s knows no answered call %d of %s", self.Name, position, name), "--call HASH, with the request_hash that vacancy call --json printed")
	default:
		return hash, 0, kit.WithHint(problem.New(problem.NotFound, "%s has no answer of %s to review", self.Name, name), "vacancy call %s TEXT, or --as NAME if another identity called", kit.ShellWord(t.Name))
	}
}

func eraseClaim(a *kit.App, ctx context.Context, web *dispatch.HTTP, self kit.Signer, t dispatch.Target, position uint64) error {
	base, _, ok := strings.Cut(t.URL, "/v/")
	if !ok {
		return problem.New(problem.Usage, "the endpoint of %s, %.200q, does not say where its host is", kit.Printable(t.Name), t.URL)
	}
	if _, err := a.SendSigned(ctx, web, self, http.MethodDelete, fmt.Sprintf("%s/v1/reputation_history/%s/%d/claim", a.RegistryAt(base), t.ID, position)); err != nil {
		return err
	}
	erased := struct {
		Target   identity.ID `json:"target"`
		Position uint64      `json:"position"`
	}{t.ID, position}
	return a.Print(erased, func(w io.Writer) {
		fmt.Fprintf(w, "the claim of review %d of %s is erased\n", position, kit.Printable(t.Name))
	})
}

// send posts a signed review to the host of its target. A vacant of the reference has only the
// reference's routes.
func (r *reviewResult) send(a *kit.App, ctx context.Context, web *dispatch.HTTP, t dispatch.Target, rec *review.Record, signed []byte) error {
	c := registryclient.Client{Transport: web, URL: strings.TrimSuffix(t.URL, "/a2a/message/send")}
	if base, _, ok := strings.Cut(t.URL, "/v/"); ok {
		c.URL = a.RegistryAt(base)
		if rec.Commitment.IsZero() {
			receipt, err := c.SubmitReview(ctx, *rec)
			r.Receipt = &receipt
			return err
		}
		c.URL += "/v/" + t.ID.String()
	}
	path := "/reviews/ingest"
	if !rec.Commitment.IsZero() {
		path = "/reviews/blinded_ingest"
	}
	r.Answer = &ingested{}
	err := c.Post(ctx, path, json.RawMessage(signed), r.Answer)
	var refused *registryclient.StatusError
	switch counted := r.Answer.Counted; {
	case errors.As(err, &refused) && refused.Status == http.StatusConflict && !rec.Commitment.IsZero():
		return nil // the commitment is spent by these bytes, whose answer was lost
	case err == nil && counted != nil && !*counted:
		return &refusedReview{problem.New(problem.Conflict, "the host of %s does not count the review: %s", kit.Printable(t.Name), kit.Printable(r.Answer.Reason))}
	}
	return err
}

// ingested is the answer of a route of the reference. Hosts of the reference tell only some members.
type ingested struct {
	Counted   *bool  `json:"counted,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Waiting   int    `json:"buffered"`
	Threshold int    `json:"threshold"`
	Flushed   int    `json:"flushed_count"`
}

// refusedReview is the error of a review that its host has read and does not count.
type refusedReview struct{ error }

func (r *refusedReview) Unwrap() error { return r.error }

func formatRatings(r review.Ratings) string {
	var all []string
	for _, name := range review.Dimensions() {
		if value, ok := r[name]; ok {
			all = append(all, fmt.Sprintf("%s %.4g", name, value))
		}
	}
	return strings.Join(all, ", ")
}

// reviewResult is a review that a host has accepted.
type reviewResult struct {
	As      string                        `json:"as"`
	Target  identity.ID                   `json:"target"`
	Record  review.Record                 `json:"record"`
	Receipt *registryclient.ReviewReceipt `json:"receipt,omitempty"`
	Answer  *ingested                     `json:"answer,omitempty"` // of the reference's routes

	name string
}

func (r reviewResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s reviewed %s: %s\n", r.As, kit.Printable(r.name), formatRatings(r.Record.Ratings))
	c := r.Receipt
	switch {
	case c == nil && r.Answer.Waiting > 0:
		fmt.Fprintf(w, "it waits: the host counts it once %d callers have reviewed %s; waiting now: %d\n", r.Answer.Threshold, kit.Printable(r.name), r.Answer.Waiting)
	case c == nil:
		fmt.Fprintln(w, "the host has it")
	case c.Duplicate:
		fmt.Fprintf(w, "it was counted before, as review %d: score %.3f, evidence %.2f\n", c.Position, c.After.Score, c.After.Evidence)
	default:
		class := "in full"
		if c.Class == review.Quarter {
			class = "a quarter"
		}
		kit.Members(w, "counted", fmt.Sprintf("%s, as review %d of %s; weights: %s", class, c.Position, kit.Printable(r.name), formatRatings(c.Weights)),
			"score", fmt.Sprintf("%.3f, before %.3f", c.After.Score, c.Before.Score), "evidence", fmt.Sprintf("%.2f, before %.2f", c.After.Evidence, c.Before.Evidence))
	}
}
