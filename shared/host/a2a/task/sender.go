package task

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
)

// Sender is the party whose limits count background work: an account, the operator or a client
// address. A signing key is never the sender, because anyone can create any number of keys. A
// Sender has only letters, digits and '-', and does not reveal the address.
type Sender string

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

func SenderOfQueueMessage(queueMessage string) Sender {
	r, err := ParseRef(queueMessage)
	if err != nil {
		return ""
	}
	return SenderOf(r.Owner, "")
}

const addressPrefix = "address-"

func (s Sender) IsAccount() bool { return !strings.HasPrefix(string(s), addressPrefix) }

// sender returns the sender of a background turn. A caller who signs with their own key acts for
// the account that pays for the call.
func (t *Turn) sender(row *call.RequestRow) Sender {
	if _, ok := t.Owner.Account(); !ok && row.PaidBy == call.PaidByAccount {
		return SenderOf(call.AccountOwner(hex.EncodeToString(row.Payer[:]), ""), "")
	}
	return SenderOf(t.Owner, t.ClientAddress)
}
