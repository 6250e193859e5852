package awscmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// pausable is a stage dev of an earlier program at an AWS server. It has the
// reservations of its functions.
type pausable struct {
	*cloudtest.AWS
	template string
	reserved map[string]string // reservations by function
	upgrades []int             // versions that the invocations of admin reach
	keyless  bool              // the host has no operator key
}

func newPausable(t *testing.T, upgrades ...int) *pausable {
	t.Helper()
	p := &pausable{AWS: cloudtest.NewWithEnv(t), reserved: map[string]string{}, upgrades: upgrades,
		template: `{"Resources":{"M":{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"vacancy-dev-message","ReservedConcurrentExecutions":20}}}}`}
	p.SetStacks(cloudtest.Stack{Name: "vacancy-dev-data", Status: "UPDATE_COMPLETE", Outputs: map[string]string{"Rows": "r", "Docs": "d", "SealKey": "k"}},
		cloudtest.Stack{Name: "vacancy-dev-functions", Status: "UPDATE_COMPLETE"})
	p.SetResponder("GetItem", func(r cloudtest.Request) cloudtest.Reply {
		if !strings.Contains(string(r.Body), operator.DocKey().Sort) || p.keyless {
			return cloudtest.Reply{Body: `{}`} // an earlier program stored no version
		}
		return cloudtest.Reply{Body: `{"Item":{"pk":{"S":"` + operator.DocKey().Partition + `"},"sk":{"S":"` + operator.DocKey().Sort + `"},"v":{"N":"1"},"a":{"B":"AAAAAAAAAAAAAAAAAAAAAA=="},"d":{"B":"e30="}}}`}
	})
	p.SetResponder("GetTemplate", func(cloudtest.Request) cloudtest.Reply {
		return cloudtest.Reply{Body: "<GetTemplateResponse><GetTemplateResult><TemplateBody>" + html.EscapeString(p.template) + "</TemplateBody></GetTemplateResult></GetTemplateResponse>"}
	})
	function := func(r cloudtest.Request) string {
		return strings.TrimPrefix(path.Base(path.Dir(r.Path)), "vacancy-dev-")
	}
	p.SetResponder("GET concurrency", func(r cloudtest.Request) cloudtest.Reply {
		if n, ok := p.reserved[function(r)]; ok {
			return cloudtest.Reply{Body: n}
		}
		return cloudtest.Reply{Body: `{}`}
	})
	p.SetResponder("PUT concurrency", func(r cloudtest.Request) cloudtest.Reply {
		p.reserved[function(r)] = string(r.Body)
		return cloudtest.Reply{Body: `{}`}
	})
	p.SetResponder("DELETE concurrency", func(r cloudtest.Request) cloudtest.Reply {
		delete(p.reserved, function(r))
		return cloudtest.Reply{}
	})
	p.SetResponder("Invoke", func(r cloudtest.Request) cloudtest.Reply {
		if function(r) != "admin" || string(r.Body) != functions.UpgradeEvent || len(p.upgrades) == 0 {
			t.Errorf("%s was invoked with %s", function(r), r.Body)
		}
		if n := len(p.reserved); n != len(functions.All())-1 || p.reserved["admin"] != "" {
			t.Errorf("during the upgrade %d functions are paused: %v", n, p.reserved)
		}
		v := p.upgrades[0]
		p.upgrades = p.upgrades[1:]
		return cloudtest.Reply{Body: fmt.Sprintf(`{"version":%d,"current":%d}`, v, upgrade.CurrentVersion)}
	})
	return p
}

// plan plans the upgrade of the stage. waited gets the time that the deploy waits.
func (p *pausable) plan(t *testing.T, waited *time.Duration) (*documentUpgrade, *bytes.Buffer) {
	t.Helper()
	d, errs := deploying(t, "", deployFlags{})
	u, err := d.planUpgrade(t.Context())
	must(t, err)
	u.sleep = func(_ context.Context, wait time.Duration) error {
		if len(p.reserved) != len(functions.All()) {
			t.Errorf("%d functions are paused, expected all", len(p.reserved))
		}
		*waited += wait
		return nil
	}
	return &u, errs
}

// A deploy over documents of an earlier program pauses all functions until those that run have ended,
// upgrades by repeated events, and gives the functions the concurrency of their template.
func TestADeployPausesAStageToUpgradeItsDocuments(t *testing.T) {
	p := newPausable(t, 1, 3, upgrade.CurrentVersion)
	var waited time.Duration
	u, errs := p.plan(t, &waited)
	u.announcePause()
	if want := "pauses the stage for about 15 minutes"; !strings.Contains(errs.String(), want) {
		t.Errorf("the plan says %q, expected %q", errs, want)
	}
	must(t, u.pauseStage(t.Context()))
	if waited != functions.TurnSeconds*time.Second {
		t.Errorf("the deploy waited %s, expected the longest time-out of a function", waited)
	}
	must(t, u.upgradeDocuments(t.Context()))
	if len(p.upgrades) != 0 || len(p.reserved) != 1 || !strings.Contains(p.reserved["message"], "20") {
		t.Errorf("after the deploy %d invocations are left and the reservations are %v, expected message's of the template", len(p.upgrades), p.reserved)
	}
}

// CloudFormation sets the concurrency of a function whose template has changed, and leaves the others paused.
func TestADeployThatChangesAReservationEndsThePauseOfAllFunctions(t *testing.T) {
	p := newPausable(t, upgrade.CurrentVersion)
	u, _ := p.plan(t, new(time.Duration))
	must(t, u.pauseStage(t.Context()))
	p.reserved["agent"] = `{"ReservedConcurrentExecutions":9}`
	must(t, u.upgradeDocuments(t.Context()))
	if len(p.reserved) != 1 || !strings.Contains(p.reserved["message"], "20") {
		t.Errorf("the reservations are %v, expected message's of the template", p.reserved)
	}
}

// A failed deploy ends the pause unless it has changed the functions.
func TestAFailedDeployEndsThePauseOfUnchangedFunctions(t *testing.T) {
	for name, tc := range map[string]struct {
		change, interrupt bool
		paused            int
	}{
		"functions of before": {false, false, 1},
		"functions of today":  {true, false, len(functions.All())},
		"interrupted":         {false, true, len(functions.All())},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPausable(t)
			var waited time.Duration
			u, errs := p.plan(t, &waited)
			must(t, u.pauseStage(t.Context()))
			if tc.change {
				p.template = `{"Resources":{}}`
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.interrupt {
				cancel()
			}
			failure := problem.New(problem.Internal, "deploy failed")
			if err := u.undoPause(ctx, failure); !errors.Is(err, failure) {
				t.Errorf("undo() = %v", err)
			}
			if len(p.reserved) != tc.paused || strings.Contains(errs.String(), "stays paused") != (tc.paused > 1) {
				t.Errorf("the reservations are %v, after %q", p.reserved, errs)
			}
		})
	}
}

// After a first deploy that failed there are tables without the version of documents, and nobody can
// have used the stage.
func TestAStageWhoseFirstDeployFailedIsNotPaused(t *testing.T) {
	p := newPausable(t)
	p.keyless = true
	var waited time.Duration
	u, errs := p.plan(t, &waited)
	u.announcePause()
	if err := u.pauseStage(t.Context()); err != nil || waited != 0 || errs.Len() > 0 || len(p.reserved) > 0 {
		t.Errorf("pause() = %v after %s, with reservations %v; the plan says %q, want no pause", err, waited, p.reserved, errs)
	}
}
