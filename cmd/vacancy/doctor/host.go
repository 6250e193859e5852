package doctor

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

func (f Facts) logs(function string) string {
	return "vacancy tail --host aws --since 1h --function " + function + " --stage " + f.Stage
}

// edge checks that the Function URLs refuse direct requests, because otherwise CloudFront does not
// protect the host.
func (f Facts) edge() Check {
	v := f.Visit
	switch {
	case !v.Edge:
		return skip("the stage has no edge: its Function URL is public")
	case len(v.Raw) == 0:
		return fail(f.deploy(), "stack functions has no output with a Function URL")
	}
	for _, function := range slices.Sorted(maps.Keys(v.Raw)) {
		switch a := v.Raw[function]; {
		case a.Err != nil:
			return fail(f.logs(function), "the Function URL of %s does not answer: %s", function, a.Err)
		case a.Status != http.StatusForbidden:
			return fail(f.deploy()+"    # gives both sides a new secret",
				"the Function URL of %s answers %d to requests that bypass CloudFront, expected 403", function, a.Status)
		}
	}
	return ok("%d Function URLs refuse requests that bypass CloudFront", len(v.Raw))
}

func (f Facts) health() Check {
	v := f.Visit
	logs := f.logs("message")
	switch a := v.Health; {
	case a.Err != nil:
		return fail(logs, "the host does not answer: %s", a.Err)
	case a.Status == http.StatusOK:
		return ok("the host answers")
	case a.Status == http.StatusNotFound && a.Code != "":
		return ok("the host answers; no vacant of it shows its health without an id")
	case a.Status == http.StatusForbidden:
		return fail(f.deploy(), "the host refuses CloudFront: their secrets differ")
	case a.Status == http.StatusTooManyRequests:
		return warn("vacancy doctor --host aws --stage "+f.Stage+"    # in a minute", "the host answers 429: it gets more requests than it accepts")
	default:
		return fail(logs, "the host answers %d", a.Status)
	}
}

func (f Facts) operator() Check {
	v := f.Visit
	fix := "vacancy keys rotate-operator --stage " + f.Stage
	switch a := v.Operator; {
	case v.NoKey:
		return fail(fix, "there is no operator key here: neither in the stage's record nor in VACANCY_OPERATOR_KEY")
	case a.Err != nil:
		return fail(f.logs("admin"), "the admin API does not answer: %s", a.Err)
	case a.Status == http.StatusOK:
		return ok("the admin API accepts it")
	case a.Status == http.StatusUnauthorized:
		return fail(fix, "the admin API rejects the operator key: it was rotated on another machine")
	default:
		return fail(f.logs("admin"), "the admin API answers %d", a.Status)
	}
}

func (f Facts) identity() Check {
	v := f.Visit
	switch {
	case !v.HasOperatorAccess():
		return skip("needs the operator key")
	case !v.Proved:
		return fail(f.deploy(), "the host did not prove that it has the key of %s", v.Host.ID)
	case v.Host.Key == admin.KeyService:
		return ok("%s, kept by KMS", v.Host.ID.Short())
	}
	return warn(f.deploy()+" --context hostKey=kms    # where KMS offers Ed25519; the host's id changes",
		"%s is a software key, encrypted in docs: principals that may read docs and decrypt can read the key", v.Host.ID.Short())
}

func (f Facts) seal() Check {
	k := f.Seal
	switch {
	case k.Absent:
		return skip("the stack data has no output with a sealing key")
	case k.Err != nil:
		return unreadFailure(k.Err)
	}
	enable := "aws kms enable-key --key-id " + k.ID
	switch k.State {
	case "Enabled":
		return ok("%s is enabled", k.ID)
	case "PendingDeletion":
		return fail(fmt.Sprintf("aws kms cancel-key-deletion --key-id %s && %s", k.ID, enable), "%s is about to be deleted, and every vacant's seed with it", k.ID)
	}
	return fail(enable, "%s is %s: no vacant can sign", k.ID, k.State)
}

// tamperWatch checks that the tamper detector runs, because otherwise the absence of reports would not
// mean that no row was tampered with.
func (f Facts) tamperWatch() Check {
	w, fix := f.Watch, fmt.Sprintf("aws lambda list-event-source-mappings --function-name %s    # then: %s", stage.FullName(f.Stage, "tamper"), f.deploy())
	switch {
	case w.Err != nil:
		return unreadFailure(w.Err)
	case w.Absent:
		return fail(fix, "no stream starts the tamper detector: changed rows are not seen")
	case w.State != "Enabled":
		return fail(fix, "the stream of rows does not start the tamper detector: it is %s", w.State)
	case strings.HasPrefix(w.Result, "PROBLEM"):
		return fail(fix, "the tamper detector got no rows the last time: %s", w.Result)
	}
	return ok("the stream of rows starts the tamper detector")
}

func (f Facts) tamperedRows() Check {
	t := f.Tampered
	switch {
	case t.Absent:
		return skip("the tamper detector has no log")
	case t.Err != nil:
		return unreadFailure(t.Err)
	case t.Rows > 0:
		return fail("vacancy verify --host aws --stage "+f.Stage, "the tamper detector saw %d rows changed or removed, last at %s", t.Rows, t.Last.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return ok("the tamper detector saw no row changed or removed")
}
