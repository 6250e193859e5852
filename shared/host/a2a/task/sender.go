package task

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
)

// Sender identifies the party that is charged with a host's later work: turns in the
// background, and deliveries. A task of an account has the account as its sender; any other
// task has the address that asked for it. Owners by key would not do, because anybody makes
// any number of keys. A Sender consists of letters, digits and '-', and shows no address.
type Sender string

// SenderOf returns the party that is responsible for the requests of an owner: its account, or
// address if the owner has no account.
func SenderOf(owner call.Owner, address string) Sender {
	if account, ok := owner.Account(); ok {
		return Sender(account.String())
	}
	if owner == call.OperatorOwner {
		return Sender(owner.String())
	}
	sum := sha256.Sum256([]byte("vacancy sender v1\x1f" + address))
	return Sender(addressPrefix + hex.EncodeToString(sum[:16]))
}

// SenderOfMessage returns the sender of a dispatched task by its message in the queue.
func SenderOfMessage(message string) Sender {
	r, err := ParseMessage(message)
	if err != nil {
		return ""
	}
	return SenderOf(r.Owner, "")
}

const addressPrefix = "address-"

// IsAccount reports whether s is an account, and not an address.
func (s Sender) IsAccount() bool { return !strings.HasPrefix(string(s), addressPrefix) }

// sender returns the party that is responsible for a turn in the background. A caller who signs with a
// key of their own acts for the account that pays for the call.
func (t *Turn) sender(row *call.RequestRow) Sender {
	if _, ok := t.Owner.Account(); !ok && row.PaidBy == call.PaidByAccount {
		return SenderOf(call.AccountOwner(hex.EncodeToString(row.Payer[:]), ""), "")
	}
	return SenderOf(t.Owner, t.From)
}
