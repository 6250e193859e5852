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
	if got, want := string(v.AppendCJA(nil)), `{"from":{},"n":-3,"to":"\u00e9\n"}`; got != want {
		t.Errorf("AppendCJA() = %s, want %s", got, want)
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
