package doctor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
)

func TestEachTroubleOfALocalHostHasItsFix(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	sound := func() doctor.Local {
		return doctor.Local{
			DataDir: "/srv/v", DataFlag: " --data /srv/v", StartCommand: "vacancy dev --data /srv/v", QuotedDir: "/srv/v", HasData: true, FreeBytes: 5 << 30, StoredFormat: "format 4, documents 6", Running: true, URL: "https://v.example", Version: "v1", CommandVersion: "v1",
			StartedAt: now, Calls: 9, Ready: doctor.Answer{Status: 200}, CertificateEnd: now.Add(60 * 24 * time.Hour),
			Agents: []doctor.Agent{{Name: "demo"}}, Now: now,
		}
	}
	for _, c := range doctor.ExamineLocal(sound()).Checks {
		if c.Verdict != doctor.OK || c.Fix != "" || c.Detail == "" {
			t.Errorf("of a sound host: %+v", c)
		}
	}
	for _, tt := range []struct {
		check   string
		verdict doctor.Verdict
		detail  string
		fix     string
		change  func(*doctor.Local)
	}{
		{"data directory", doctor.Fail, "no host", "vacancy dev --data /srv/v", func(l *doctor.Local) { l.HasData = false }},
		{"disk", doctor.NotApplicable, "needs a host's data", "", func(l *doctor.Local) { l.HasData = false }},
		{"file modes", doctor.Fail, "seal.key", "chmod -R go= /srv/v", func(l *doctor.Local) { l.ExposedFiles = []string{"seal.key"} }},
		{"disk", doctor.Fail, "50 MB", "make room", func(l *doctor.Local) { l.FreeBytes = 50 << 20 }},
		{"disk", doctor.Warn, "500 MB", "make room", func(l *doctor.Local) { l.FreeBytes = 500 << 20 }},
		{"disk", doctor.Warn, "if less than 800 MB are free, vacancy serve refuses", "make room", func(l *doctor.Local) { l.FreeBytes, l.MinFreeBytes = 500<<20, 800<<20 }},
		{"disk", doctor.NotApplicable, "not known", "", func(l *doctor.Local) { l.FreeBytes = -1 }},
		{"data", doctor.NotApplicable, "does not report the format", "", func(l *doctor.Local) { l.StoredFormat = "" }},
		{"data", doctor.Warn, "format 2: the next start", "vacancy dev --data /srv/v", func(l *doctor.Local) { l.UpgradeOutlook = "its data have format 2: the next start upgrades them" }},
		{"data", doctor.Fail, "format 9", "install the vacancy that wrote the data", func(l *doctor.Local) { l.WrittenByNewer, l.UpgradeOutlook = true, "its data have format 9" }},
		{"data", doctor.Fail, "cut short", "vacancy restore FILE", func(l *doctor.Local) { l.FormatErr = errors.New("the file was cut short") }},
		{"names", doctor.Warn, "Shop, shop", "vacancy update Shop name=OTHER --data /srv/v", func(l *doctor.Local) { l.CaseCollisions = []string{"Shop", "shop"} }},
		{"host", doctor.Warn, "the host is not running", "vacancy dev --data /srv/v", func(l *doctor.Local) { l.Running = false }},
		{"agents", doctor.NotApplicable, "needs a running host", "", func(l *doctor.Local) { l.Running = false }},
		{"host", doctor.Fail, "broken pipe", "vacancy dev", func(l *doctor.Local) { l.Err = errors.New("broken pipe") }},
		{"version", doctor.Warn, "v0", "end the host", func(l *doctor.Local) { l.Version = "v0" }},
		{"public URL", doctor.Fail, "no route", "curl -i https://v.example/ready", func(l *doctor.Local) { l.Ready = doctor.Answer{Err: errors.New("no route")} }},
		{"public URL", doctor.Fail, "503", "curl -i", func(l *doctor.Local) { l.Ready.Status = 503 }},
		{"certificate", doctor.Fail, "expired", "renew", func(l *doctor.Local) { l.CertificateEnd = now.Add(-time.Hour) }},
		{"certificate", doctor.Warn, "in 3 days", "renew", func(l *doctor.Local) { l.CertificateEnd = now.Add(80 * time.Hour) }},
		{"certificate", doctor.NotApplicable, "no TLS", "", func(l *doctor.Local) { l.CertificateEnd = time.Time{} }},
		{"agents", doctor.Fail, "demo: connection refused", "vacancy logs --failed --data /srv/v", func(l *doctor.Local) { l.Agents[0].Failure = "connection refused" }},
		{"agents", doctor.Fail, "demo: no server listens", "start the program of demo, such as with vacancy watch DIR", func(l *doctor.Local) {
			l.Agents = []doctor.Agent{{Name: "other", Failure: "status 500"}, {Name: "demo", Failure: "no server listens at 127.0.0.1:9001"}}
		}},
		{"agents", doctor.Fail, "demo: no server listens", "vacancy logs --failed --data /srv/v", func(l *doctor.Local) {
			l.Agents[0].Failure = "no server listens at 192.0.2.1:443; try later"
		}},
		{"agents", doctor.NotApplicable, "no vacant", "", func(l *doctor.Local) { l.Agents = nil }},
		{"issuers", doctor.OK, "no issuer is configured", "", func(*doctor.Local) {}},
		{"issuers", doctor.Warn, "of 1 issuers cannot be fetched from here", "vacancy issuer show 0a --data /srv/v", func(l *doctor.Local) {
			l.Issuers.All = []doctor.Issuer{{ID: "0a", URL: "https://away.example", Tenant: "acme", Failure: "nobody answers"}}
		}},
		{"calls", doctor.Warn, "2 of 9", "vacancy logs --failed", func(l *doctor.Local) { l.Failed = 2 }},
	} {
		l := sound()
		tt.change(&l)
		r := doctor.ExamineLocal(l)
		c := r.Find(tt.check)
		if c.Verdict != tt.verdict || !strings.Contains(c.Detail, tt.detail) || !strings.Contains(c.Fix, tt.fix) || (c.Fix == "") != (tt.fix == "") {
			t.Errorf("%s = %+v, want %s of %q with a fix of %q", tt.check, c, tt.verdict, tt.detail, tt.fix)
		}
		if r.OK != (r.Count(doctor.Fail) == 0) || r.Data != "/srv/v" {
			t.Errorf("%s: the report is %+v", tt.check, r)
		}
	}
}
