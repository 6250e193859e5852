package setting_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/setting"
)

func TestAStageStoresTheSettingsOtherThanTheDefaults(t *testing.T) {
	got := setting.OmitDefaults(map[string]string{
		"stage": "prod", "changes": "all", "edge": "true", "keep": "false", "rate": "", "email": "", "domain": "a.example.org",
		"edgeSecretVersion": "0a1b2c3d-0000-0000-0000-000000000000", "unknown": "1", "": "2",
	})
	want := map[string]string{"keep": "false", "rate": "", "domain": "a.example.org", "edgeSecretVersion": "0a1b2c3d-0000-0000-0000-000000000000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("OmitDefaults() (-want +got):\n%s", diff)
	}
	if missing := setting.Compare(got, map[string]string{}); len(missing) != len(want) {
		t.Errorf("Compare() to the defaults = %v, want each of %v", missing, want)
	}
}

func TestAMissingSettingHasItsDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to map[string]string
		want     []string
	}{
		"equal":              {map[string]string{"worstDay": "50"}, map[string]string{"worstDay": "50"}, nil},
		"a default, said":    {map[string]string{}, map[string]string{"worstDay": "20", "email": ""}, nil},
		"nothing at all":     {nil, nil, nil},
		"reset":              {map[string]string{"worstDay": "50"}, nil, []string{"worstDay: from 50 to 20"}},
		"several, sorted":    {nil, map[string]string{"waf": "true", "rate": "", "email": "a@b.org"}, []string{"email: from nothing to a@b.org", "rate: from 20:40 to nothing", "waf: from false to true"}},
		"of a later release": {map[string]string{"new": "1"}, nil, []string{"new: from 1 to nothing"}},
	} {
		var got []string
		for _, c := range setting.Compare(tc.from, tc.to) {
			got = append(got, c.String())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: Compare() = %q, want %q", name, got, tc.want)
		}
	}
}

func FuzzParseStored(f *testing.F) {
	for _, text := range []string{`{}`, `{"worstDay":"50","rate":""}`, `null`, `[]`, `{"worstDay":50}`, ``, `{"a":"\u2028<&"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		stored, err := setting.ParseStored(text)
		if (stored == nil) != (err != nil) {
			t.Fatalf("ParseStored(%q) = %v, %v; want settings or an error", text, stored, err)
		}
		if err != nil {
			return
		}
		if again, err := setting.ParseStored(setting.FormatStored(stored)); err != nil || !cmp.Equal(stored, again) {
			t.Errorf("ParseStored() of the formatted %v = %v, %v", stored, again, err)
		}
	})
}
