package canon_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

func TestValuesAreReadByKind(t *testing.T) {
	v, err := canon.Parse([]byte(`{"b":[1,"x",2.50],"a":null,"big":99999999999999999999,"":-0}`), small)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, m := range v.Members() {
		keys = append(keys, m.Key)
	}
	if diff := cmp.Diff([]string{"", "a", "b", "big"}, keys); diff != "" {
		t.Errorf("Members() mismatch (-want +got):\n%s", diff)
	}
	b, ok := v.Get("b")
	if !ok || b.Kind() != canon.Array || len(b.Items()) != 3 || b.Items()[1].Text() != "x" || b.Items()[0].Text() != "" {
		t.Errorf("Get(b) = %s, %t", b.AppendCJ(nil), ok)
	}
	if n, ok := b.Items()[0].Int64(); n != 1 || !ok {
		t.Errorf("Int64() of 1 = %d, %t", n, ok)
	}
	for _, other := range []string{"big", "a"} {
		m, _ := v.Get(other)
		if _, ok := m.Int64(); ok {
			t.Errorf("Int64() of %s = true, want false", other)
		}
	}
	if _, ok := b.Items()[2].Int64(); ok {
		t.Error("Int64() of 2.50 = true, want false: it is a float")
	}
	if _, ok := v.Get("c"); ok {
		t.Error("Get(c) = true, want false")
	}
	if got, want := string(v.AppendCJ(nil)), `{"":0,"a":null,"b":[1,"x",2.5],"big":99999999999999999999}`; got != want {
		t.Errorf("AppendCJ() = %s, want %s", got, want)
	}
}

func TestTheZeroValueIsNull(t *testing.T) {
	var v canon.Value
	if v.Kind() != canon.Null || string(v.AppendCJ(nil)) != "null" || v.Text() != "" {
		t.Errorf("the zero Value is %s: %s", v.Kind(), v.AppendCJ(nil))
	}
}

func TestValuesAreMade(t *testing.T) {
	in := []canon.Member{{"to", canon.NewString("é\n")}, {"from", canon.NewObject()}, {"n", canon.NewInt(-3)}}
	v := canon.NewObject(in...)
	if got, want := string(v.AppendASCII(nil)), `{"from":{},"n":-3,"to":"\u00e9\n"}`; got != want {
		t.Errorf("AppendASCII() = %s, want %s", got, want)
	}
	if in[0].Key != "to" {
		t.Error("NewObject() sorted its arguments in place")
	}
}

func TestKindsAreNamed(t *testing.T) {
	want := []string{"no value", "null", "a boolean", "an integer", "a number", "a string", "an array", "an object", "an object"}
	var got []string
	for k := canon.Invalid; k <= canon.Object+1; k++ {
		got = append(got, k.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("String() mismatch (-want +got):\n%s", diff)
	}
}

// The numbers come from RFC 8785, appendix B, and the keys from its section 3.2.3.
func TestTheFormOfRFC8785(t *testing.T) {
	for given, want := range map[string]string{
		"7.0": "7", "-0.0": "0", "0": "0", "-0": "0", "5e-324": "5e-324", "-1.7976931348623157e308": "-1.7976931348623157e+308",
		"9007199254740992": "9007199254740992", "295147905179352830000": "295147905179352830000", "9.999999999999997e22": "9.999999999999997e+22",
		"1e23": "1e+23", "1.0000000000000001e23": "1.0000000000000001e+23", "999999999999999700000": "999999999999999700000", "1e21": "1e+21",
		"9.999999999999997e-7": "9.999999999999997e-7", "0.000001": "0.000001", "333333333.3333332": "333333333.3333332", "-0.0000033333333333333333": "-0.0000033333333333333333",
		"1424953923781206.2": "1424953923781206.2", "1e-10": "1e-10", "1e+2": "100", "12345678901234567891": "12345678901234567000",
		`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`: "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}",
		`[ 1.50, null, true, "\u000f\u2028<\/\"" ]`:                                   "[1.5,null,true,\"\\u000f\u2028</\\\"\"]",
	} {
		v, err := canon.Parse([]byte(given), canon.DefaultLimits())
		if got := string(v.AppendJCS(nil)); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", given, got, err, want)
		}
	}
}
