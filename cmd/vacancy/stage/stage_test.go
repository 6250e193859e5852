package stage_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const secret = "vop_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func record(name string) stage.Record {
	return stage.Record{
		Stage: name, Region: "eu-central-1", Account: "123456789012", URL: "https://" + name + ".example",
		AdminURL: "https://admin." + name + ".example", ExportURL: "https://export." + name + ".example",
		RegistryURL: "https://registry." + name + ".example", SearchURL: "https://search." + name + ".example",
		OperatorKey: secret, Edge: true, Context: map[string]string{"email": "ops@example.org"},
	}
}

func records(t *testing.T) stage.Records {
	return stage.Records{Dir: filepath.Join(t.TempDir(), "stages")}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	r := records(t)
	if _, err := r.Read("dev"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Read() before any = %v, want NotFound", err)
	}
	for _, want := range []stage.Record{record("dev"), record("prod"), {Stage: "new"}} {
		must(t, r.Write(want))
		got, err := r.Read(want.Stage)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Read() (-want +got):\n%s", diff)
		}
		st, err := os.Stat(filepath.Join(r.Dir, want.Stage+".json"))
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("mode = %v, %v, want 0600", st.Mode(), err)
		}
	}
	again := record("dev")
	again.URL = "https://moved.example"
	must(t, r.Write(again))
	if got, err := r.Read("dev"); err != nil || got.URL != again.URL {
		t.Errorf("Read() after a second Write = %s, %v", got.URL, err)
	}
	names, err := r.Names()
	if diff := cmp.Diff([]string{"dev", "new", "prod"}, names); diff != "" || err != nil {
		t.Errorf("Names() = %v (-want +got):\n%s", err, diff)
	}
	for range 2 {
		if err := r.Remove("dev"); err != nil {
			t.Errorf("Remove() = %v", err)
		}
	}
	if _, err := r.Read("dev"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Read() after Remove() = %v, want NotFound", err)
	}
}

func TestAStageIsFoundByEachOfItsURLs(t *testing.T) {
	r := records(t)
	for _, name := range []string{"dev", "prod"} {
		must(t, r.Write(record(name)))
	}
	for _, url := range []string{"https://prod.example", "https://prod.example/", "https://admin.prod.example", "https://export.prod.example"} {
		if got, err := r.FindByURL(url); err != nil || got.Stage != "prod" {
			t.Errorf("FindByURL(%s) = %s, %v, want prod", url, got.Stage, err)
		}
	}
	if _, err := r.FindByURL("https://elsewhere.example"); !problem.Is(err, problem.NotFound) {
		t.Errorf("FindByURL() of no stage = %v, want NotFound", err)
	}
	must(t, os.WriteFile(filepath.Join(r.Dir, "bad.json"), []byte("{"), 0o600))
	if got, err := r.FindByURL("https://dev.example"); err != nil || got.Stage != "dev" {
		t.Errorf("FindByURL() beside a damaged record = %s, %v, want dev", got.Stage, err)
	}
	if _, err := r.FindByURL("https://elsewhere.example"); !problem.Is(err, problem.Damaged) {
		t.Errorf("FindByURL() that only a damaged record might have = %v, want Damaged", err)
	}
}

func TestARecordThatOthersCanReadIsRefused(t *testing.T) {
	r := records(t)
	must(t, r.Write(record("dev")))
	must(t, os.Chmod(filepath.Join(r.Dir, "dev.json"), 0o640))
	if _, err := r.Read("dev"); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Read() = %v, want Forbidden", err)
	}
}

func TestInvalidRecordIsRefusedAndNotShown(t *testing.T) {
	const whole = `{"format":"vacancy-stage/3","stage":"dev","operator_key":"` + secret + `","url":"https://x"`
	for name, text := range map[string]string{
		"empty":             "",
		"cut off":           whole,
		"no object":         "[]",
		"more after it":     whole + "}{}",
		"a foreign member":  whole + `,"x":1}`,
		"a member twice":    whole + `,"stage":"dev"}`,
		"a bad name":        strings.Replace(whole, `"dev"`, `"../dev"`, 1) + "}",
		"of another stage":  strings.Replace(whole, `"dev"`, `"prod"`, 1) + "}",
		"a number as text":  whole + `,"region":1}`,
		"a text as boolean": whole + `,"edge":"true"}`,
		"a relative URL":    whole + `,"admin_url":"/x"}`,
		"a URL with slash":  whole + `,"admin_url":"https://x/"}`,
		"a URL with user":   whole + `,"admin_url":"https://u@x"}`,
		"odd context":       whole + `,"context":{"a":1}}`,
	} {
		r := records(t)
		must(t, os.MkdirAll(r.Dir, 0o700))
		must(t, os.WriteFile(filepath.Join(r.Dir, "dev.json"), []byte(text), 0o600))
		if _, err := r.Read("dev"); !problem.Is(err, problem.Damaged) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: Read() = %v, want Damaged without the key", name, err)
		}
	}
}

func TestARecordOfAnotherFormatIsRefusedNamingBothAndNotChanged(t *testing.T) {
	for format, text := range map[string]string{
		`"vacancy-stage/1"`: `{"format":"vacancy-stage/1","stage":"dev","account_url":"https://x","operator_key":"` + secret + `"}`,
		`"vacancy-stage/5"`: `{"format":"vacancy-stage/5","stage":"dev","operator_key":"` + secret + `","new":[1]}`,
		`""`:                `{"stage":"dev","operator_key":"` + secret + `"}`,
	} {
		r := records(t)
		file := filepath.Join(r.Dir, "dev.json")
		must(t, errors.Join(os.MkdirAll(r.Dir, 0o700), os.WriteFile(file, []byte(text), 0o600)))
		_, err := r.Read("dev")
		if !problem.Is(err, problem.Conflict) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "it has format "+format+", this vacancy reads vacancy-stage/4: use ") {
			t.Errorf("Read() of format %s = %v, want one line with the file and both formats", format, err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != text {
			t.Errorf("after Read() the file is %q, %v, want it unchanged", after, err)
		}
	}
}

func TestARecordOfAFormerFormatIsWrittenInTheFormatOfToday(t *testing.T) {
	for format, swapped := range map[string]string{"vacancy-stage/2": `,"swapped":true`, "vacancy-stage/3": ""} {
		t.Run(format, func(t *testing.T) {
			r := records(t)
			file := filepath.Join(r.Dir, "dev.json")
			text := `{"format":"` + format + `","stage":"dev","url":"https://x","operator_key":"` + secret + `","edge":true` + swapped + `,"context":{"keep":"false"}}`
			must(t, errors.Join(os.MkdirAll(r.Dir, 0o700), os.WriteFile(file, []byte(text), 0o600)))
			rec, err := r.Read("dev")
			if err != nil || rec.URL != "https://x" || !rec.Edge || rec.Context["keep"] != "false" || string(rec.OperatorKey) != secret {
				t.Fatalf("Read() = %+v, %v", rec, err)
			}
			if after, err := os.ReadFile(file); err != nil || string(after) != text {
				t.Errorf("Read() changed the file to %q, %v", after, err)
			}
			must(t, r.Write(rec))
			if after, err := os.ReadFile(file); err != nil || !strings.Contains(string(after), `"vacancy-stage/4"`) || strings.Contains(string(after), "swapped") {
				t.Errorf("Write() wrote %q, %v", after, err)
			}
			if again, err := r.Read("dev"); err != nil || again.URL != rec.URL || again.Context["keep"] != "false" {
				t.Errorf("Read() = %+v, %v", again, err)
			}
		})
	}
}

// A deploy tells a record with all defaults from one without settings.
func TestARecordKeepsThatItHasNoOtherSettingsThanTheDefaults(t *testing.T) {
	r := records(t)
	for _, context := range []map[string]string{nil, {}} {
		must(t, r.Write(stage.Record{Stage: "dev", Context: context}))
		if rec, err := r.Read("dev"); err != nil || (rec.Context == nil) != (context == nil) {
			t.Errorf("Read() = %#v, %v, want %#v", rec.Context, err, context)
		}
	}
}

func TestNamesOfStages(t *testing.T) {
	for name, ok := range map[string]bool{
		"dev": true, "a": true, "prod-2": true, strings.Repeat("a", 20): true,
		"": false, "Dev": false, "2dev": false, "-a": false, "a_b": false, "a/b": false, "..": false, "a.b": false,
		strings.Repeat("a", 21): false, "dév": false, "a\x00": false,
	} {
		if err := stage.CheckName(name); (err == nil) != ok || err != nil && !problem.Is(err, problem.Usage) {
			t.Errorf("CheckName(%q) = %v, want ok: %t", name, err, ok)
		}
	}
	r := records(t)
	for _, err := range []error{r.Write(stage.Record{Stage: "../x"}), r.Remove("../x"), func() error { _, err := r.Read("../x"); return err }()} {
		if !problem.Is(err, problem.Usage) {
			t.Errorf("a name with a path = %v, want Usage", err)
		}
	}
}

func TestPrintedRecordHidesItsKey(t *testing.T) {
	rec := record("dev")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{rec, &rec, rec.OperatorKey, []stage.Record{rec}, map[string]any{"r": rec}} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, "AAAAAAA") || strings.Contains(got, "414141") || strings.Contains(got, "65 65") {
				t.Errorf("%s of a %T = %s, which shows the key", verb, v, got)
			}
		}
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
		slog.New(h).Info("x", "record", rec, "key", rec.OperatorKey)
	}
	if strings.Contains(log.String(), "AAAAAAA") {
		t.Errorf("the log shows the key: %s", log.String())
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
