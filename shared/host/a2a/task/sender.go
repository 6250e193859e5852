package task

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/vacancy-host/vacancy/shared/host/call"
)

// Sender is who answers for what a host does later: for a turn in the background, and for
// deliveries. It is the account whose task it is, or else the address that asked for it. Keys
// cost nothing: a sender may have any number of them. It is letters, digits and '-', and
// shows no address.
type Sender string

// SenderOf returns who answers for what is done for an owner: its account, or address if it
// has none.
func SenderOf(owner call.Owner, address string) Sender {
	if account, ok := owner.Account(); ok {
		return Sender(account.String())
	}
	sum := sha256.Sum256([]byte("vacancy sender v1\x1f" + address))
	return Sender("address-" + hex.EncodeToString(sum[:16]))
}
