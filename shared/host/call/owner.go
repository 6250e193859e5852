package call

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Owner is an account, a subject of an account, the holder of a key, or a group of callers.
type Owner struct{ name string }

// GuestOwner and SharedOwner own the tasks of callers without an account and a key. A task of
// GuestOwner belongs to anyone who knows its id.
var (
	GuestOwner    = Owner{"guest"}
	SharedOwner   = Owner{"shared"}
	OperatorOwner = Owner{"operator"}
)

var reservedOwners = []Owner{GuestOwner, SharedOwner, OperatorOwner}

const (
	accountPrefix = "account-"
	testPrefix    = "test-"
	digestSize    = 16
)

func AccountOwner(account, subject string) Owner {
	o := Owner{accountPrefix + digest("account", account)}
	if subject != "" {
		o.name += "-" + digest("subject", account, subject)
	}
	return o
}

// LegacyAccountOwner returns the owner that an earlier version gave to the tasks of an account.
func LegacyAccountOwner(account string) Owner {
	sum := sha256.Sum256([]byte("vacancy account v1\x1f" + account))
	return Owner{accountPrefix + hex.EncodeToString(sum[:digestSize])}
}

func digest(kind string, parts ...string) string {
	b := []byte("vacancy owner v1\x1f" + kind)
	for _, s := range parts {
		b = append(strconv.AppendInt(append(b, '\x1f'), int64(len(s)), 10), "\x1f"+s...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:digestSize])
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == digestSize && hex.EncodeToString(b) == s
}

func KeyOwner(id identity.ID) Owner { return Owner{id.String()} }

func (p *Payer) Owner() Owner {
	o := AccountOwner(p.Account, p.Subject)
	if p.Test {
		o.name = testPrefix + o.name[len(accountPrefix):]
	}
	return o
}

// String returns the form in store keys and queue messages.
func (o Owner) String() string { return o.name }

func ParseOwner(s string) (Owner, error) {
	o := Owner{s}
	if slices.Contains(reservedOwners, o) {
		return o, nil
	}
	if id, err := identity.ParseID(s); err == nil && id.String() == s {
		return o, nil
	}
	account, subject, hasSubject := strings.Cut(o.digests(), "-")
	if !isDigest(account) || hasSubject && !isDigest(subject) {
		return Owner{}, problem.New(problem.Damaged, "expected an owner, got %.80q", s)
	}
	return o, nil
}

func (o Owner) digests() string {
	for _, prefix := range []string{accountPrefix, testPrefix} {
		if digests, ok := strings.CutPrefix(o.name, prefix); ok {
			return digests
		}
	}
	return ""
}

func (o Owner) IsZero() bool { return o == Owner{} }

// Account returns the live owner of o's account. Limits apply to its live and test owners together.
func (o Owner) Account() (account Owner, ok bool) {
	digests := o.digests()
	if digests == "" {
		return Owner{}, false
	}
	return Owner{accountPrefix + digests[:2*digestSize]}, true
}

// SignsMessages returns false if the host signs for o.
func (o Owner) SignsMessages() bool {
	_, isAccount := o.Account()
	return !o.IsZero() && !slices.Contains(reservedOwners, o) && !isAccount
}

func (o Owner) MarshalText() ([]byte, error) { return []byte(o.name), nil }

func (o *Owner) UnmarshalText(b []byte) (err error) {
	*o, err = ParseOwner(string(b))
	return err
}
