package receipt_test

import (
	"crypto/rand"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

func signed(t testing.TB) receipt.Receipt {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := receipt.Receipt{
		Caller: identity.ID{1}, Vacant: identity.ID{2}, Position: 3, Request: identity.Hash{4}, Reply: identity.Hash{5}, Time: "2026-05-06T12:00:00+00:00",
		Version: 1, Price: "$0.002 a call", Hold: 2000, Charge: 2000, In: 6, Out: 7, Payment: "account",
	}
	if err := r.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return r
}

// Every member is signed: a receipt with one of them changed does not verify.
func TestAReceiptVerifiesAsItWasSigned(t *testing.T) {
	r := signed(t)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := receipt.Parse(b)
	if err != nil || back != r || !back.Verify() || back.At().Year() != 2026 {
		t.Fatalf("Parse() = %+v, %v; verifies %t", back, err, back.Verify())
	}
	if strings.Contains(string(b), "cut") {
		t.Errorf("the receipt of a whole answer is %s", b)
	}
	of := reflect.TypeFor[receipt.Receipt]()
	for i := range of.NumField() {
		changed := r
		switch f := reflect.ValueOf(&changed).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "0")
		case reflect.Int64:
			f.SetInt(f.Int() + 1)
		default:
			f.Index(0).SetUint(f.Index(0).Uint() ^ 1)
		}
		if changed.Verify() {
			t.Errorf("a receipt with another %s verifies", of.Field(i).Name)
		}
	}
}

// The receipt of a cut answer says so: taken away, it does not verify.
func TestAReceiptOfACutAnswerSaysSo(t *testing.T) {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := signed(t)
	r.Cut = "canceled"
	if r.Verify() {
		t.Error("a receipt verifies with a cut that was added")
	}
	if err := r.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := receipt.Parse(b); err != nil || !back.Verify() || back.Cut != "canceled" {
		t.Errorf("Parse() = %+v, %v", back, err)
	}
	if back, err := receipt.Parse([]byte(strings.Replace(string(b), `"cut":"canceled",`, "", 1))); err != nil || back.Cut != "" || back.Verify() {
		t.Errorf("without its cut, Parse() = %+v, %v", back, err)
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
		if err == nil && r.Verify() && !strings.Contains(text, r.Signature) {
			t.Errorf("%q verifies by a signature that it does not have", text)
		}
	})
}
