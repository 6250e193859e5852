package setting_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/setting"
)

func TestEveryRowIsWhole(t *testing.T) {
	directories, err := os.ReadDir(filepath.Join("..", "..", "..", "functions"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{setting.EveryFunction, setting.WithURL}
	for _, d := range directories {
		names = append(names, d.Name())
	}
	seen := map[string]bool{}
	for _, s := range setting.Table() {
		for _, one := range []struct {
			name    string
			pattern string
		}{{s.Context, `[a-z][A-Za-z]*`}, {s.Variable, `VACANCY_[A-Z_]+`}, {s.Flag, `[a-z][a-z-]*`}} {
			if one.name == "" {
				continue
			}
			if seen[one.name] && one.name != s.Context {
				t.Errorf("%s is in two rows", one.name)
			}
			if seen[one.name] = true; !regexp.MustCompile(`^` + one.pattern + `$`).MatchString(one.name) {
				t.Errorf("%q does not match %s", one.name, one.pattern)
			}
		}
		if s.Context == "" && s.Variable == "" && s.Flag == "" {
			t.Errorf("nobody sets %+v", s)
		}
		if s.Help == "" || strings.HasSuffix(s.Help, ".") {
			t.Errorf("%s %s: Help = %q, want a sentence without a full stop", s.Context, s.Flag, s.Help)
		}
		if (s.Flag == "") != (s.Commands == "") || (s.Variable == "") != (s.Functions == "") {
			t.Errorf("%s %s: a flag goes with commands, and a variable with functions", s.Context, s.Flag)
		}
		for _, f := range strings.Fields(s.Functions) {
			if !slices.Contains(names, f) {
				t.Errorf("%s is read by %s, which is not a function", s.Variable, f)
			}
		}
		var v setting.Values
		if s.Flag != "" && s.ReadFlag(s.Default, &v) != nil {
			t.Errorf("--%s refuses its default %q", s.Flag, s.Default)
		}
		if s.Default != "" && s.Read(s.Default, &v) != nil {
			t.Errorf("%s %s refuses its default %q", s.Context, s.Variable, s.Default)
		}
	}
}

func TestARefusedTextChangesNothing(t *testing.T) {
	for _, s := range setting.Table() {
		before := setting.Defaults()
		v := before
		if s.Read("\x00", &v) == nil && s.Context != "limits" { // which package cost checks
			t.Errorf("%s %s accepts a text of one zero", s.Context, s.Flag)
		}
		if diff := cmp.Diff(before, v); s.Context != "limits" && diff != "" {
			t.Errorf("%s %s (-before +after):\n%s", s.Context, s.Flag, diff)
		}
	}
}

// A field without a row could be set by nobody.
func TestEveryFieldHasARow(t *testing.T) {
	var set setting.Values
	for _, s := range setting.Table() {
		for _, text := range []string{
			s.Default, "true", "1", "ops@example.org", "vacants.example.org", "https://vacants.example.org", "message:3", "arn:aws:acm:us-east-1:123456789012:certificate/0a1b",
			"arn:aws:lambda:us-east-1:123456789012:function:answers", "amazon.nova-lite-v1:0", "0a1b2c3d-0000-0000-0000-000000000000",
		} {
			s.Read(text, &set)
		}
	}
	if unset := zeroes(set); unset != nil {
		t.Errorf("no row sets %v", unset)
	}
}

func TestOffIsAWordOfFlags(t *testing.T) {
	rate := row(t, "rate")
	var v setting.Values
	if refused := rate.ReadFlag(setting.OffValue, &v); refused != nil || v.Rate.PerSecond != 0 {
		t.Errorf("ReadFlag(off) = %v, %v; want no limit", refused, v.Rate)
	}
	if refused := rate.Read(setting.OffValue, &v); refused == nil {
		t.Error("Read(off) = nil, want it refused")
	}
	if got, want := rate.ExpectedValue()+"; "+rate.ExpectedFlagValue(), "tokens-per-second:burst such as 20:40, or nothing for no limit; tokens-per-second:burst such as 20:40, or off"; got != want {
		t.Errorf("ExpectedValue() = %s, want %s", got, want)
	}
	if fee := row(t, "fee"); fee.ReadFlag(setting.OffValue, &v) == nil {
		t.Error("--fee=off is accepted")
	}
}

func TestWhoReadsASetting(t *testing.T) {
	for _, tt := range []struct {
		function, variable string
		url, want          bool
	}{
		{"gateway", "VACANCY_BOOKING_PRICE", true, true},
		{"gateway", "VACANCY_RATE", true, true},
		{"gateway", "VACANCY_RATE", false, false},
		{"gateway", "VACANCY_MODEL_BUDGET", true, false},
		{"tamper", "VACANCY_STAGE", false, true},
		{"tamper", "VACANCY_BOOKING_PRICE", false, false},
		{"tamper", "", false, false},
	} {
		if got := slices.Contains(setting.Variables(tt.function, tt.url), tt.variable); got != tt.want {
			t.Errorf("Variables(%s, %v) has %q: %v, want %v", tt.function, tt.url, tt.variable, got, tt.want)
		}
	}
	for command, want := range map[string]bool{"serve": true, "dev": true, "a2a serve": true, "a2a": false, "": false} {
		if got := row(t, "modelBudget").HasFlag(command); got != want {
			t.Errorf("HasFlag(%q) = %v, want %v", command, got, want)
		}
	}
}

func row(t *testing.T, context string) setting.Setting {
	t.Helper()
	all := setting.Table()
	i := slices.IndexFunc(all, func(s setting.Setting) bool { return s.Context == context })
	if i < 0 {
		t.Fatalf("no row has the context value %s", context)
	}
	return all[i]
}

// zeroes lists the fields of v with their zero value.
func zeroes(v setting.Values) (names []string) {
	for _, of := range []reflect.Value{reflect.ValueOf(v), reflect.ValueOf(v.Host)} {
		for i := range of.NumField() {
			if of.Field(i).IsZero() {
				names = append(names, of.Type().Field(i).Name)
			}
		}
	}
	return names
}
