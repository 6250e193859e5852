package serve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One table tells the shares of a process, and of the workers of AWS.
func TestEveryTurnHasItsShares(t *testing.T) {
	guest := backgroundTurn{vacant: "v", sender: "address-1", guest: true}
	slowGuest, slowKey, slowAccount := guest, guest, guest
	slowGuest.slow, slowGuest.tenant = true, "acme"
	slowKey.slow, slowKey.guest = true, false
	slowAccount.slow, slowAccount.account, slowAccount.sender = true, true, "acct-1"
	for _, tt := range []struct {
		what    string
		turn    backgroundTurn
		turns   int
		counted bool
		want    map[string]int
	}{
		{"a guest in a process", guest, localTurns, false, map[string]int{"turns": 64, "vacant v": 16, "sender address-1": 16, "others": 32}},
		{"a guest at a slow vacant of a tenant, in a process", slowGuest, localTurns, false, map[string]int{
			"turns": 64, "vacant v": 16, "sender address-1": 16, "others": 32, "tenant acme": 32, "slow": 32, "others at slow": 24, "guests address-1": 2}},
		{"a signer at a slow vacant, in a process", slowKey, localTurns, false, map[string]int{
			"turns": 64, "vacant v": 16, "sender address-1": 16, "others": 32, "slow": 32, "others at slow": 24}},
		{"an account at a slow vacant, in a process", slowAccount, localTurns, false, map[string]int{"turns": 64, "vacant v": 16, "sender acct-1": 16, "slow": 32}},
		{"a guest on AWS", guest, 64, true, map[string]int{"vacant v": 16}},
		{"a guest at a slow vacant of a tenant, on AWS", slowGuest, 64, true, map[string]int{"vacant v": 16, "tenant acme": 32, "slow": 32, "others at slow": 24, "guests address-1": 2}},
		{"an account at a slow vacant, on AWS", slowAccount, 64, true, map[string]int{"vacant v": 16, "slow": 32}},
		{"a guest at a slow vacant of the least stage", slowGuest, 2, true, map[string]int{"vacant v": 1, "tenant acme": 1, "slow": 1, "others at slow": 1, "guests address-1": 2}},
	} {
		got := map[string]int{}
		for _, s := range sharesOf(&tt.turn, tt.turns, tt.counted) {
			got[s.Key] = s.Max
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
	}
}
