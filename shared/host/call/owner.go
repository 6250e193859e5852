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

// Owner is the owner of a task, a context, a message id or a free call. It is an account or a
// subject of an account (in live mode or test mode), the holder of a key, or a group of callers
// without account and key. Owners are comparable with ==. The zero Owner does not own anything.
type Owner struct{ name string }

// GuestOwner and SharedOwner own the tasks and contexts of callers that have neither an account nor
// a key. A task of GuestOwner belongs to anyone who knows its id. All callers of SharedOwner share
// their tasks. OperatorOwner owns the tasks that the operator dispatches.
var (
	GuestOwner    = Owner{"guest"}
	SharedOwner   = Owner{"shared"}
	OperatorOwner = Owner{"operator"}
)

// reservedOwners are the owners that are neither accounts nor keys.
var reservedOwners = []Owner{GuestOwner, SharedOwner, OperatorOwner}

// The name of an Owner that is an account consists of the prefix for its mode and a digest. For a
// subject, a second digest follows.
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

// LegacyAccountOwner returns the owner that an earlier version gave to the tasks of an account. An
// upgrade replaces it.
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

// Owner returns the owner for a request with p's credential. All live keys of an account have the
// same owner, and so do all of its test keys.
func (p *Payer) Owner() Owner {
	o := AccountOwner(p.Account, p.Subject)
	if p.Test {
		o.name = testPrefix + o.name[len(accountPrefix):]
	}
	return o
}

// String returns the form that is used in keys of the store and in queue messages: letters, digits
// and '-', at most 73 bytes.
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

// Account returns the live owner of o's account. Limits of an account apply to its live and test
// owners together. If o is neither an account nor a subject, ok is false.
func (o Owner) Account() (account Owner, ok bool) {
	digests := o.digests()
	if digests == "" {
		return Owner{}, false
	}
	return Owner{accountPrefix + digests[:2*digestSize]}, true
}

// SignsMessages reports whether o signs its own messages. The host signs the messages of all other
// owners.
func (o Owner) SignsMessages() bool {
	_, isAccount := o.Account()
	return !o.IsZero() && !slices.Contains(reservedOwners, o) && !isAccount
}

func (o Owner) MarshalText() ([]byte, error) { return []byte(o.name), nil }

func (o *Owner) UnmarshalText(b []byte) (err error) {
	*o, err = ParseOwner(string(b))
	return err
}
