package receipt_test

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

// at is the time of signing in these tests, months after the answer.
var at = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func newKey(t testing.TB) *identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certified returns a key that host has certified for one day from at.
func certified(t testing.TB, host *identity.Key) certificate.Signer {
	t.Helper()
	key := newKey(t)
	c, err := certificate.New(t.Context(), host, key.ID(), at, at.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Signer{Signer: key, Certificate: c}
}

func signed(t testing.TB) receipt.Receipt {
	t.Helper()
	r := receipt.Receipt{
		Caller: identity.ID{1}, Vacant: identity.ID{2}, Position: 3, RequestHash: identity.Hash{4}, ReplyHash: identity.Hash{5}, Time: "2026-05-06T12:00:00+00:00",
		PriceVersion: 1, Price: "$0.002 a call", Hold: 2000, Charge: 2000, TokensIn: 6, TokensOut: 7, Payment: "account",
	}
	if err := r.Sign(t.Context(), certified(t, newKey(t)), at); err != nil {
		t.Fatal(err)
	}
	return r
}

// A receipt with any changed member must not verify.
func TestAReceiptVerifiesAsItWasSigned(t *testing.T) {
	r := signed(t)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := receipt.Parse(b)
	if err != nil || back != r || back.Verify() != nil || back.AnsweredAt().Year() != 2026 {
		t.Fatalf("Parse() = %+v, %v; Verify() = %v", back, err, back.Verify())
	}
	if strings.Contains(string(b), "cut") {
		t.Errorf("the receipt of a whole answer is %s", b)
	}
	var changeEach func(name string, of func(*receipt.Receipt) reflect.Value)
	changeEach = func(name string, of func(*receipt.Receipt) reflect.Value) {
		changed := r
		switch f := of(&changed); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "0")
		case reflect.Int64:
			f.SetInt(f.Int() + 1)
		case reflect.Struct:
			for i := range f.NumField() {
				changeEach(name+"."+f.Type().Field(i).Name, func(r *receipt.Receipt) reflect.Value { return of(r).Field(i) })
			}
			return
		default:
			f.Index(0).SetUint(f.Index(0).Uint() ^ 1)
		}
		if err := changed.Verify(); !problem.Is(err, problem.BadSignature) {
			t.Errorf("a receipt with another %s: Verify() = %v, want a bad signature", name, err)
		}
	}
	changeEach("", func(r *receipt.Receipt) reflect.Value { return reflect.ValueOf(r).Elem() })
}

// A receipt must not verify if its cut is removed.
func TestAReceiptOfACutAnswerSaysSo(t *testing.T) {
	r := signed(t)
	r.CutReason = "canceled"
	if r.Verify() == nil {
		t.Error("a receipt verifies with a cut that was added")
	}
	if err := r.Sign(t.Context(), certified(t, newKey(t)), at); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := receipt.Parse(b); err != nil || back.Verify() != nil || back.CutReason != "canceled" {
		t.Errorf("Parse() = %+v, %v", back, err)
	}
	if back, err := receipt.Parse([]byte(strings.Replace(string(b), `"cut":"canceled",`, "", 1))); err != nil || back.CutReason != "" || back.Verify() == nil {
		t.Errorf("without its cut, Parse() = %+v, %v", back, err)
	}
}

// PROTOCOL §19.6 defines the signed bytes.
func TestTheSignedBytesOfAReceipt(t *testing.T) {
	by := certified(t, newKey(t))
	var r receipt.Receipt
	r.Time, r.Price, r.Payment = "2026-05-06T12:00:00+00:00", "$1 a call", "free"
	if err := r.Sign(t.Context(), by, at); err != nil {
		t.Fatal(err)
	}
	zero := strings.Repeat("0", 64)
	signed := "vacancy:receipt:v2\x1f" + `{"caller_id":"` + zero + `","charge":0,"hold":0,"host_id":"` + by.Certificate.Host.String() + `","key_id":"` + by.ID().String() +
		`","payment":"free","position":0,"price":"$1 a call","price_version":0,"reply_hash":"` + zero + `","request_hash":"` + zero +
		`","signed_at":"2026-11-24T12:00:00+00:00","time":"2026-05-06T12:00:00+00:00","tokens_in":0,"tokens_out":0,"vacant_id":"` + zero + `"}`
	signature, err := hex.DecodeString(r.Signature)
	if err != nil || !identity.Verify(by.ID(), []byte(signed), signature) {
		t.Errorf("the key did not sign %q", signed)
	}
}

// Only a key that the receipt's own host certified may sign it, and only while the certificate is
// valid.
func TestWhoCannotSignAReceipt(t *testing.T) {
	host, other := newKey(t), newKey(t)
	foreign := certified(t, other)
	renamed := foreign // claims to be of host
	renamed.Certificate.Host = host.ID()
	borrowed := certified(t, host) // has the certificate of another key
	borrowed.Signer = newKey(t)
	uncertified := certificate.Signer{Signer: host}
	uncertified.Certificate.Host, uncertified.Certificate.Key = host.ID(), host.ID()
	for _, tt := range []struct {
		name string
		by   certificate.Signer
		at   time.Time
		want string
	}{
		{"a certified key", certified(t, host), at, ""},
		{"a key that another host certified", renamed, at, "certificate: signature did not verify for host " + host.ID().Short()},
		{"a key with another's certificate", borrowed, at, "signature did not verify for key " + borrowed.Certificate.Key.Short()},
		{"the host itself, without a certificate", uncertified, at, "certificate: signature did not verify"},
		{"a key before its time", certified(t, host), at.Add(-time.Second), "certificate: expected a time from"},
		{"a key after its time", certified(t, host), at.Add(24 * time.Hour), "certificate: expected a time from"},
	} {
		r := receipt.Receipt{Time: "2026-05-06T12:00:00+00:00"}
		if err := r.Sign(t.Context(), tt.by, tt.at); err != nil {
			t.Fatal(err)
		}
		err := r.Verify()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("a receipt by %s: Verify() = %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestReceiptsAreReadStrictly(t *testing.T) {
	b, err := json.Marshal(signed(t))
	if err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{`"charge":2000`, `"charge":2000,"charge":1`}:           "charge",
		{`"payment"`, `"extra":1,"payment"`}:                    "extra",
		{`"key_id"`, `"use":"all","key_id"`}:                    "certificate.use",
		{`"signed_at"`, `"signed"`}:                             "signed",
		{`"time":"2026-05-06T12:00:00+00:00"`, `"time":"noon"`}: "time",
		{`"hold":2000`, `"hold":"2000"`}:                        "hold",
	} {
		_, err := receipt.Parse([]byte(strings.Replace(string(b), change[0], change[1], 1)))
		if !problem.Is(err, problem.Malformed) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "receipt: ") {
			t.Errorf("%s: Parse() = %v, want an error that names %s", change[1], err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	b, err := json.Marshal(signed(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Add(strings.Replace(string(b), `"charge":2000`, `"charge":2000,"charge":1`, 1))
	f.Add(strings.Replace(string(b), `"payment"`, `"extra":1,"payment"`, 1))
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := receipt.Parse([]byte(text))
		if err == nil && r.Verify() == nil && !strings.Contains(text, r.Signature) {
			t.Errorf("%q verifies by a signature that it does not have", text)
		}
	})
}
