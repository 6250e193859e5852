package call_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestOwnersAreToldApart(t *testing.T) {
	hex := strings.Repeat("ab", 32)
	all := map[string]call.Owner{
		"account ab":      call.AccountOwner("ab", ""),
		"c of ab":         call.AccountOwner("ab", "c"),
		"bc of a":         call.AccountOwner("a", "bc"),
		"account abc":     call.AccountOwner("abc", ""),
		"abc of none":     call.AccountOwner("", "abc"),
		"guest of ab":     call.AccountOwner("ab", "guest"),
		"account of hex":  call.AccountOwner(hex, ""),
		"# of ab":         call.AccountOwner("ab", "#"),
		"the 1 of ab":     call.AccountOwner("ab", "\x1f1"),
		"tests of ab":     (&call.Payer{Account: "ab", Test: true}).Owner(),
		"tests of c":      (&call.Payer{Account: "ab", Subject: "c", Test: true}).Owner(),
		"guests":          call.GuestOwner,
		"shared":          call.SharedOwner,
		"key of the same": call.KeyOwner(identity.ID([]byte(strings.Repeat("\xab", 32)))),
		"another key":     call.KeyOwner(identity.ID{1}),
	}
	names := map[string]string{}
	for whose, o := range all {
		name := o.String()
		if other, taken := names[name]; taken {
			t.Errorf("%s and %s are %s", whose, other, name)
		}
		names[name] = whose
		if len(name) > 73 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("%s is %q in keys", whose, name)
		}
		if parsed, err := call.ParseOwner(name); err != nil || parsed != o {
			t.Errorf("ParseOwner(%q) = %v, %v", name, parsed, err)
		}
		b, err := json.Marshal(o)
		var read call.Owner
		if err != nil || json.Unmarshal(b, &read) != nil || read != o {
			t.Errorf("%s through JSON: %s, %v, %v", whose, b, read, err)
		}
	}
	for stored, o := range map[string]call.Owner{
		"account-498e29fc78352735dd4313cda1aa5abf":                                  all["account ab"],
		"account-498e29fc78352735dd4313cda1aa5abf-9f3554a3c2e920901a4714b62a23e638": all["c of ab"],
		"test-498e29fc78352735dd4313cda1aa5abf":                                     all["tests of ab"],
		"test-498e29fc78352735dd4313cda1aa5abf-9f3554a3c2e920901a4714b62a23e638":    all["tests of c"],
	} {
		if o.String() != stored {
			t.Errorf("%v is not stored as %s any more", o, stored)
		}
	}
	account, tests := all["account ab"].String(), all["tests of ab"].String()
	for _, text := range []string{"", "nobody", "Guest", "guest ", "account-", account[:len(account)-1], account + "0", account + "-", account + "-" + account[8:39], account + account[7:] + account[7:], strings.ToUpper(account), "account-" + strings.Repeat("g", 32), "account-" + strings.ToUpper(account[8:]), hex[:62], hex + "00", strings.ToUpper(hex), " " + hex, "a#b", "test", "test-", tests[:len(tests)-1], tests + "-", "test-" + account, "account-" + tests} {
		if o, err := call.ParseOwner(text); err == nil {
			t.Errorf("ParseOwner(%q) = %v", text, o)
		}
	}
}

func TestTheKeysOfAnAccountAreAnOwnerOfTheirMode(t *testing.T) {
	one, other := call.Payer{Account: "ab", Tenant: "acme", Key: "k1", DailyCap: 1}, call.Payer{Account: "ab", Tenant: "acme", Key: "k2"}
	person, tests := call.Payer{Account: "ab", Subject: "x", Key: "k1"}, call.Payer{Account: "ab", Key: "k1", Test: true}
	testPerson := call.Payer{Account: "ab", Subject: "x", Key: "k1", Test: true}
	if one.Owner() != other.Owner() || one.Owner() == person.Owner() || one.Owner() == tests.Owner() || person.Owner() == testPerson.Owner() {
		t.Errorf("keys are %v and %v, a person is %v, and in test mode %v and %v", one.Owner(), other.Owner(), person.Owner(), tests.Owner(), testPerson.Owner())
	}
	for _, o := range []call.Owner{one.Owner(), person.Owner(), tests.Owner(), testPerson.Owner()} {
		if account, ok := o.Account(); !ok || account != call.AccountOwner("ab", "") {
			t.Errorf("the account of %v is %v, %t", o, account, ok)
		}
	}
	for _, o := range []call.Owner{{}, call.GuestOwner, call.SharedOwner, call.KeyOwner(identity.ID{1})} {
		if account, ok := o.Account(); ok {
			t.Errorf("the account of %v is %v", o, account)
		}
	}
	caller := identity.ID{1}
	for whose, tt := range map[string]struct {
		query call.QuoteRequest
		want  call.Owner
		signs bool
	}{
		"an account":             {call.QuoteRequest{Pair: call.Pair{Caller: caller}, Guest: true, Credential: call.Credential{Payer: &one}}, one.Owner(), false},
		"a person":               {call.QuoteRequest{Pair: call.Pair{Caller: caller}, Guest: true, Credential: call.Credential{Payer: &person}}, person.Owner(), false},
		"a test key":             {call.QuoteRequest{Pair: call.Pair{Caller: caller}, Guest: true, Credential: call.Credential{Payer: &tests}}, tests.Owner(), false},
		"a guest":                {call.QuoteRequest{Pair: call.Pair{Caller: caller}, Guest: true}, call.GuestOwner, false},
		"a signer":               {call.QuoteRequest{Pair: call.Pair{Caller: caller}}, call.KeyOwner(caller), true},
		"a signer of an account": {call.QuoteRequest{Pair: call.Pair{Caller: caller}, Credential: call.Credential{Payer: &one}}, one.Owner(), false},
	} {
		if got := tt.query.Owner(); got != tt.want || got.SignsMessages() != tt.signs {
			t.Errorf("%s: %v, signs %t, want %v", whose, got, got.SignsMessages(), tt.want)
		}
	}
	if (call.Owner{}).SignsMessages() || call.SharedOwner.SignsMessages() {
		t.Error("nobody signs")
	}
}
