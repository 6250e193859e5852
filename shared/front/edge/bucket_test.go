package edge

import "testing"

func FuzzParseRate(f *testing.F) {
	f.Add("20:40")
	f.Add("1e-3:1")
	f.Add("Inf:1")
	f.Fuzz(func(t *testing.T, s string) {
		r, ok := ParseRate(s)
		if ok && !(r.PerSecond >= 0.001 && r.PerSecond <= 1e6 && r.Burst >= 1 && r.Burst <= 1e6) {
			t.Errorf("ParseRate(%q) = %+v", s, r)
		}
		if again, same := ParseRate(r.String()); ok && (!same || again != r) {
			t.Errorf("ParseRate(%q) = %+v, %t, want %+v", r.String(), again, same, r)
		}
	})
}
