package doctor

import (
	"fmt"
	"strings"
)

// Issuers lists the issuers whose tokens a host accepts.
type Issuers struct {
	All []Issuer
	Err error
}

// Issuer is an issuer of tokens. Failure is the reason why this machine cannot fetch its keys.
type Issuer struct{ ID, URL, Tenant, Failure string }

// check returns a failed check if the list of issuers cannot be read. flags select the host in
// suggested commands.
func (i Issuers) check(flags, logsCommand string) Check {
	if i.Err != nil {
		return fail(logsCommand, "the issuers of tokens cannot be read: %s", i.Err)
	}
	if len(i.All) == 0 {
		return pass("no issuer is configured")
	}
	var failing []string
	for _, issuer := range i.All {
		if issuer.Failure != "" {
			failing = append(failing, fmt.Sprintf("%s of tenant %s: %s", issuer.URL, issuer.Tenant, issuer.Failure))
		}
	}
	if len(failing) > 0 {
		fix := "vacancy issuer show " + i.firstFailing() + flags + "    # then the provider's own status"
		return warn(fix, "the keys of %d of %d issuers cannot be fetched from here, so their tokens may be refused: %s", len(failing), len(i.All), strings.Join(failing, "; "))
	}
	return pass("%d of %d publish keys", len(i.All), len(i.All))
}

func (i Issuers) firstFailing() string {
	for _, issuer := range i.All {
		if issuer.Failure != "" {
			return issuer.ID
		}
	}
	return ""
}

func (f Facts) checkIssuers() Check {
	if !f.HostAnswers.HasOperatorAccess() {
		return skip("needs the operator key")
	}
	return f.Issuers.check(" --host aws --stage "+f.Stage, f.logsCommand("admin"))
}

func (l Local) checkIssuers() Check { return l.Issuers.check(l.DataFlag, "vacancy logs"+l.DataFlag) }
