package doctor

import (
	"fmt"
	"strings"
)

// Issuers are the issuers whose tokens count at a host, with what their keys answered from here.
type Issuers struct {
	All []Issuer
	Err error // why the list cannot be read
}

// Issuer is an issuer of tokens. Failure says why its keys cannot be fetched from here.
type Issuer struct{ ID, URL, Tenant, Failure string }

// check judges the issuers. more are the flags that name the host in commands, and logs is the
// command that shows why the list cannot be read.
func (i Issuers) check(more, logs string) Check {
	if i.Err != nil {
		return fail(logs, "the issuers of tokens cannot be read: %s", i.Err)
	}
	if len(i.All) == 0 {
		return ok("tokens of no issuer count")
	}
	var silent []string
	for _, one := range i.All {
		if one.Failure != "" {
			silent = append(silent, fmt.Sprintf("%s of tenant %s: %s", one.URL, one.Tenant, one.Failure))
		}
	}
	if len(silent) > 0 {
		fix := "vacancy issuer show " + i.first() + more + "    # then the provider's own status"
		return warn(fix, "the keys of %d of %d issuers cannot be fetched from here, so their tokens may be refused: %s", len(silent), len(i.All), strings.Join(silent, "; "))
	}
	return ok("%d of %d publish keys", len(i.All), len(i.All))
}

// first is the id of the first issuer that failed.
func (i Issuers) first() string {
	for _, one := range i.All {
		if one.Failure != "" {
			return one.ID
		}
	}
	return ""
}

// issuers checks that the issuers of a stage publish keys.
func (f Facts) issuers() Check {
	if !f.Visit.Operated() {
		return none("needs the operator key")
	}
	return f.Issuers.check(" --host aws --stage "+f.Stage, f.logs("admin"))
}

func (l Local) issuers() Check { return l.Issuers.check(l.Flag, "vacancy logs"+l.Flag) }
