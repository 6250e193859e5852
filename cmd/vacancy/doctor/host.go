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

func (f Facts) logsCommand(function string) string {
	return "vacancy tail --host aws --since 1h --function " + function + " --stage " + f.Stage
}

// checkEdge checks that the functions refuse requests that bypass the protection by CloudFront.
func (f Facts) checkEdge() Check {
	answers := f.HostAnswers
	switch {
	case !answers.Edge:
		return skip("the stage has no edge: its Function URL is public")
	case len(answers.DirectAnswers) == 0:
		return fail(f.deployCommand(), "stack functions has no output with a Function URL")
	}
	for _, function := range slices.Sorted(maps.Keys(answers.DirectAnswers)) {
		switch a := answers.DirectAnswers[function]; {
		case a.Err != nil:
			return fail(f.logsCommand(function), "the Function URL of %s does not answer: %s", function, a.Err)
		case a.Status != http.StatusForbidden:
			return fail(f.deployCommand()+"    # gives both sides a new secret",
				"the Function URL of %s answers %d to requests that bypass CloudFront, expected 403", function, a.Status)
		}
	}
	return pass("%d Function URLs refuse requests that bypass CloudFront", len(answers.DirectAnswers))
}

func (f Facts) checkHealth() Check {
	answers := f.HostAnswers
	logs := f.logsCommand("message")
	switch a := answers.Health; {
	case a.Err != nil:
		return fail(logs, "the host does not answer: %s", a.Err)
	case a.Status == http.StatusOK:
		return pass("the host answers")
	case a.Status == http.StatusNotFound && a.Code != "":
		return pass("the host answers; no vacant of it shows its health without an id")
	case a.Status == http.StatusForbidden:
		return fail(f.deployCommand(), "the host refuses requests from CloudFront, because their secrets differ")
	case a.Status == http.StatusTooManyRequests:
		return warn("vacancy doctor --host aws --stage "+f.Stage+"    # in a minute", "the host answers 429: it gets more requests than it accepts")
	default:
		return fail(logs, "the host answers %d", a.Status)
	}
}

func (f Facts) checkOperatorKey() Check {
	answers := f.HostAnswers
	fix := "vacancy keys rotate-operator --stage " + f.Stage
	switch a := answers.Operator; {
	case answers.NoKey:
		return fail(fix, "there is no operator key here: neither in the stage's record nor in VACANCY_OPERATOR_KEY")
	case a.Err != nil:
		return fail(f.logsCommand("admin"), "the admin API does not answer: %s", a.Err)
	case a.Status == http.StatusOK:
		return pass("the admin API accepts it")
	case a.Status == http.StatusUnauthorized:
		return fail(fix, "the admin API rejects the operator key: it was rotated on another machine")
	default:
		return fail(f.logsCommand("admin"), "the admin API answers %d", a.Status)
	}
}

func (f Facts) checkHostIdentity() Check {
	answers := f.HostAnswers
	switch {
	case !answers.HasOperatorAccess():
		return skip("needs the operator key")
	case !answers.IdentityProved:
		return fail(f.deployCommand(), "the host did not prove that it has the key of %s", answers.Host.ID)
	case answers.Host.KeyStorage == admin.KeyStorageKMS:
		return pass("%s, kept by KMS", answers.Host.ID.Short())
	}
	return warn(f.deployCommand()+" --context hostKey=kms    # where KMS offers Ed25519; the host's id changes",
		"%s is a software key, encrypted in docs: principals that may read docs and decrypt can read the key", answers.Host.ID.Short())
}

func (f Facts) checkSealingKey() Check {
	k := f.SealingKey
	switch {
	case k.Absent:
		return skip("the stack data has no output with a sealing key")
	case k.Err != nil:
		return failUnread(k.Err)
	}
	enable := "aws kms enable-key --key-id " + k.ID
	switch k.State {
	case "Enabled":
		return pass("%s is enabled", k.ID)
	case "PendingDeletion":
		return fail(fmt.Sprintf("aws kms cancel-key-deletion --key-id %s && %s", k.ID, enable), "%s is about to be deleted, and every vacant's seed with it", k.ID)
	}
	return fail(enable, "%s is %s: no vacant can sign", k.ID, k.State)
}

// checkTamperDetector checks that the tamper detector runs. Otherwise missing reports do not show
// that the rows are intact.
func (f Facts) checkTamperDetector() Check {
	source, fix := f.TamperSource, fmt.Sprintf("aws lambda list-event-source-mappings --function-name %s    # then: %s", stage.FullName(f.Stage, "tamper"), f.deployCommand())
	switch {
	case source.Err != nil:
		return failUnread(source.Err)
	case source.Absent:
		return fail(fix, "no stream starts the tamper detector: changed rows are not seen")
	case source.State != "Enabled":
		return fail(fix, "the stream of rows does not start the tamper detector: it is %s", source.State)
	case strings.HasPrefix(source.LastResult, "PROBLEM"):
		return fail(fix, "the tamper detector got no rows the last time: %s", source.LastResult)
	}
	return pass("the stream of rows starts the tamper detector")
}

func (f Facts) checkTamperedRows() Check {
	t := f.TamperReports
	switch {
	case t.Absent:
		return skip("the tamper detector has no log")
	case t.Err != nil:
		return failUnread(t.Err)
	case t.Rows > 0:
		return fail("vacancy verify --host aws --stage "+f.Stage, "the tamper detector saw %d rows changed or removed, last at %s", t.Rows, t.LastReport.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return pass("the tamper detector saw no row changed or removed")
}
