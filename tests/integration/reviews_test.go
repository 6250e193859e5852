package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A caller reviews an answer of a deployed vacant by commands, anybody recounts the score, search uses the score, and
// the reviewer erases the claim.
func TestAnAnswerOfADeployedVacantIsReviewed(t *testing.T) {
	s := shared(t)
	name, skill := "r"+word(t), word(t)
	as := " --host aws --as " + name + "-caller"
	review := "review " + name + " --factual 1 --logical 1 --relevance 1 --claim good" + as
	run := func(args, says string) {
		t.Helper()
		out, errs, exit := s.try(t, root(t), strings.Fields(args)...)
		if exit != 0 || !strings.Contains(string(out)+string(errs), says) {
			t.Fatalf("vacancy %s: exit %d, want %q\n%s%s", args, exit, says, out, errs)
		}
	}
	run("init "+name+"-caller", "")
	run("create "+name+" --capability "+skill+" --host aws", name)
	run("publish "+name+" --host aws", "")
	run("call "+name+" hello"+as, "hello")
	run(review, "a quarter, as review 1 of "+name)
	run(review, "the host has already accepted this review, as review 1")
	run("call "+name+" again"+as, "again")
	run("review "+name+" --blinded --factual 1 --logical 1 --relevance 1"+as, "now waiting: 1")
	run("reputation "+name+" --recount --host aws", "the score follows from the reviews")
	run("erase-claim "+name+" 1"+as, "is erased")
	run("erase-claim "+name+" 1 --host aws", "is erased")
	run("reputation "+name+" --recount --host aws", "the claims of 1 review are erased")
	v, err := admin.ShowVacant.Call(t.Context(), s.admin(t), admin.VacantRef{Vacant: name})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "search finds the reviewed vacant by its score", func() bool {
		page, err := s.registry(t, nil).Search(t.Context(), registryclient.Query{Words: skill, MinReputation: 0.001})
		return err == nil && slices.ContainsFunc(page.Matches, func(m registryclient.Match) bool { return m.ID == identity.ID(v.ID) })
	})
	s.whole(t)
}
