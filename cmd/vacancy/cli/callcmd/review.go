package callcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

func reviewCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var identityName, claim string
	var position int64
	var blinded bool
	ratingFlags := map[string]*float64{}
	cmd := &cobra.Command{
		Use:   "review TARGET --factual F --logical L --relevance R",
		Short: "Review an answer that you received",
		Long: `Sign a review of TARGET's answer to your last answered call, and send it to TARGET's host. The
host counts the review if it finds the call and its answer. Each answer can be reviewed once.

A rating is a number from 0 to 1. --claim is a public sentence. "vacancy erase-claim" deletes
it. The review is stored before it is sent. If the host's answer is lost, run the same command
again: it sends the same bytes. A review that the host accepts becomes an entry REVIEW_ISSUED
of your logbook.

A review of a paid call counts in full. Most other reviews count a quarter. "vacancy
reputation TARGET" shows the score.

With --blinded the host hides who wrote the review until it can publish at least two other
reviews together with it.`,
		Example: `  vacancy review clerk --factual 1 --logical 0.8 --relevance 1
  vacancy review https://agents.example.org/v/clerk --factual 0 --logical 0.5 --relevance 0.5 --claim "wrong year"
  vacancy review clerk --call 7 --factual 1 --logical 1 --relevance 1 --as alice`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ratings := review.Ratings{}
			for name, value := range ratingFlags {
				if cmd.Flags().Changed(name) {
					ratings[name] = *value
				}
			}
			if err := ratings.Check(); err != nil {
				p := problem.AsError(err)
				return &problem.Error{Kind: problem.Usage, Field: "--" + strings.TrimPrefix(p.Field, "dimensions."), Want: p.Want + ", for example 0.8", Got: p.Got}
			}
			ctx, httpClient := cmd.Context(), a.HTTPTransport(kit.CallTimeout)
			target, host, err := a.FindTargetAndRegistry(ctx, httpClient, args[0], where)
			if err != nil {
				return err
			}
			self, err := a.ChooseExistingSigner(ctx, identityName)
			if err != nil {
				return err
			}
			callHash, err := findAnsweredCall(ctx, self, target, position)
			if err != nil {
				return err
			}
			rec := review.Record{Members: review.Members{Target: target.ID, Ratings: ratings, Substrate: "default", CallHash: callHash, Position: position, Claim: claim, IssuedAt: canon.FormatTime(a.Now())}}
			signed := signedReview{Record: rec}
			if blinded {
				var b review.Blinded
				b, err = rec.Blind(ctx, self.Key, a.Rand)
				signed = signedReview{b.Record, &b.Reveal}
			} else {
				err = signed.Record.Sign(ctx, self.Key)
			}
			if err != nil {
				return problem.WithPlace(problem.Usage, "the review", err)
			}
			if err := signed.store(self, callHash); err != nil {
				return err
			}
			if rec = signed.Record; !maps.Equal(rec.Ratings, ratings) || rec.Claim != claim || blinded != (signed.Reveal != nil) {
				return problem.New(problem.Conflict, "you have already signed a review of this answer: %s%s; each answer can be reviewed once", formatRatings(rec.Ratings), kit.FormatIf(rec.Claim != "", ", claim %q", rec.Claim))
			}
			r := reviewResult{IdentityName: self.Name, Target: target.ID, Record: rec, targetName: target.Name}
			if blinded {
				r.Blinded = &registryapi.IngestedBlinded{}
				err = host.Post(ctx, "/v/"+target.ID.String()+"/reviews/blinded_ingest", signed, r.Blinded)
				var statusErr *registryclient.StatusError
				if errors.As(err, &statusErr) && statusErr.Status == http.StatusConflict {
					r.Blinded.Counted, err = true, nil // an earlier try has sent these bytes, and its answer was lost
				}
				if err == nil && !r.Blinded.Counted {
					err = problem.New(problem.Conflict, "the host of %s does not accept the review: %s", kit.EscapeLine(target.Name), kit.EscapeLine(r.Blinded.Reason))
				}
			} else {
				r.Receipt, err = host.SubmitReview(ctx, rec)
			}
			if err != nil {
				return err
			}
			if err := self.AppendLog(ctx, logbook.KindReviewIssued, rec.WithoutClaim(), a.Now()); err != nil {
				return err
			}
			return a.PrintResult(r)
		},
	}
	fs := cmd.Flags()
	for name, usage := range map[string]string{
		"factual": "whether the facts were right, from 0 to 1", "logical": "whether the reasoning was sound, from 0 to 1",
		"relevance": "whether the answer was about the message, from 0 to 1", "honesty": "whether the vacant said what it did not know, from 0 to 1",
	} {
		ratingFlags[name] = fs.Float64(name, 0, usage)
	}
	fs.StringVar(&claim, "claim", "", "a public sentence about the answer, at most 1,024 bytes")
	fs.Int64Var(&position, "call", 0, "the `POSITION` of one of your last 16 answered calls (default the last one)")
	fs.BoolVar(&blinded, "blinded", false, "hide who wrote the review until two others have written theirs")
	fs.StringVar(&identityName, "as", "", "the identity that called (default $VACANCY_AS, else the only one)")
	kit.AddHostFlags(fs, &where)
	return cmd
}

// findAnsweredCall returns the hash of self's answered request at a position, or of the last
// answered request if position is 0.
func findAnsweredCall(ctx context.Context, self kit.Signer, t dispatch.Target, position int64) (hash identity.Hash, err error) {
	s, err := self.Book().Open(ctx, self.ID(), t.ID)
	if err != nil {
		return hash, err
	}
	st, err := s.Load()
	if err := errors.Join(err, s.Close()); err != nil {
		return hash, err
	}
	switch call, ok := st.LastAnswered(position); {
	case ok:
		return call.Hash, nil
	case position != 0:
		return hash, problem.New(problem.NotFound, "--call: expected the position of one of the last 16 answered calls of %s to %s, got %d", self.Name, kit.EscapeLine(t.Name), position)
	}
	return hash, kit.WithHint(problem.New(problem.NotFound, "%s has no answer of %s to review", self.Name, kit.EscapeLine(t.Name)), "vacancy call %s TEXT, or --as NAME if another identity called", kit.ShellWord(t.Name))
}

// signedReview is the stored form of a review, and the posted form of a blinded review.
type signedReview struct {
	Record review.Record  `json:"record"`
	Reveal *review.Reveal `json:"reveal,omitempty"`
}

// store stores s as the review of a call. If the call already has a stored review, store copies it
// to s.
func (s *signedReview) store(self kit.Signer, callHash identity.Hash) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if b, err = self.StoreReview(callHash, b); err != nil {
		return err
	}
	var stored signedReview
	if err := json.Unmarshal(b, &stored); err != nil {
		return problem.Wrap(problem.Damaged, err, "the stored review of the call %s", callHash)
	}
	*s = stored
	return nil
}

func formatRatings(r review.Ratings) string {
	var parts []string
	for _, name := range review.Dimensions() {
		if value, ok := r[name]; ok {
			parts = append(parts, fmt.Sprintf("%s %.4g", name, value))
		}
	}
	return strings.Join(parts, ", ")
}

type reviewResult struct {
	IdentityName string                       `json:"as"`
	Target       identity.ID                  `json:"target"`
	Record       review.Record                `json:"record"`
	Receipt      registryclient.ReviewReceipt `json:"receipt,omitzero"`
	Blinded      *registryapi.IngestedBlinded `json:"blinded,omitempty"`

	targetName string
}

func (r reviewResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s reviewed %s: %s\n", r.IdentityName, kit.EscapeLine(r.targetName), formatRatings(r.Record.Ratings))
	receipt := r.Receipt
	switch {
	case r.Blinded != nil && r.Blinded.Buffered > 0:
		fmt.Fprintf(w, "the review waits until 3 callers have reviewed %s; now waiting: %d\n", kit.EscapeLine(r.targetName), r.Blinded.Buffered)
	case r.Blinded != nil:
		fmt.Fprintln(w, "the host has accepted the review")
	case receipt.Duplicate:
		fmt.Fprintf(w, "the host has already accepted this review, as review %d: score %.3f, evidence %.2f\n", receipt.Position, receipt.ScoreAfter.Score, receipt.ScoreAfter.Evidence)
	default:
		weight := map[review.Class]string{review.ClassFull: "in full", review.ClassQuarter: "a quarter"}[receipt.Class]
		kit.PrintFields(w, "counted", fmt.Sprintf("%s, as review %d of %s; weights: %s", weight, receipt.Position, kit.EscapeLine(r.targetName), formatRatings(receipt.Weights)),
			"score", fmt.Sprintf("%.3f, before %.3f", receipt.ScoreAfter.Score, receipt.ScoreBefore.Score), "evidence", fmt.Sprintf("%.2f, before %.2f", receipt.ScoreAfter.Evidence, receipt.ScoreBefore.Evidence))
	}
}
