package certificate_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var (
	from  = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	until = from.Add(30 * 24 * time.Hour)
)

func key(t testing.TB, seed byte) *identity.Key {
	t.Helper()
	k, err := identity.KeyFromSeed(bytes.Repeat([]byte{seed}, identity.Size))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func certify(t testing.TB, host *identity.Key) certificate.Certificate {
	t.Helper()
	c, err := certificate.New(t.Context(), host, key(t, 2).ID(), from, until)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestACertificateCountsForItsHostAndTime(t *testing.T) {
	host, other := key(t, 1), key(t, 3).ID()
	smallOrder := append([]byte{1}, make([]byte, 63)...) // R is the neutral point and S is 0
	for _, tt := range []struct {
		name   string
		change func(*certificate.Certificate)
		at     time.Time
		want   string // part of the error, or "" if the certificate verifies
	}{
		{"at its beginning", nil, from, ""},
		{"in its last microsecond", nil, until.Add(-time.Microsecond), ""},
		{"before its time", nil, from.Add(-time.Microsecond), "expected a time from"},
		{"at its end", nil, until, "expected a time from"},
		{"of another host", func(c *certificate.Certificate) { c.Host = other }, from, "certificate: expected a certificate of host " + host.ID().Short() + ", got a certificate of host " + other.Short()},
		{"for another key", func(c *certificate.Certificate) { c.Key = other }, from, "did not verify"},
		{"from an earlier time", func(c *certificate.Certificate) { c.ValidFrom = "2026-05-06T11:00:00+00:00" }, from, "did not verify"},
		{"until a later time", func(c *certificate.Certificate) { c.ValidUntil = "2027-05-06T11:00:00+00:00" }, until, "did not verify"},
		{"with another spelling of its time", func(c *certificate.Certificate) { c.ValidFrom = "2026-05-06T12:00:00Z" }, from, "did not verify"},
		{"without a signature", func(c *certificate.Certificate) { c.Signature = "" }, from, "did not verify"},
		{"with a signature of other letters", func(c *certificate.Certificate) { c.Signature = "no hex" }, from, "did not verify"},
		{"with a signature of small order", func(c *certificate.Certificate) { c.Signature = hex.EncodeToString(smallOrder) }, from, "did not verify"},
	} {
		c := certify(t, host)
		if tt.change != nil {
			tt.change(&c)
		}
		err := c.Verify(host.ID(), tt.at)
		if tt.want == "" && err != nil || tt.want != "" && (!problem.Is(err, problem.BadSignature) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("a certificate %s: Verify() = %v, want %q", tt.name, err, tt.want)
		}
	}
}

// If the host's key were of small order, anyone could certify a key.
func TestNobodyCertifiesForAKeyOfSmallOrder(t *testing.T) {
	c := certify(t, key(t, 1))
	c.Host = identity.ID{1}
	c.Signature = hex.EncodeToString(append(c.Host[:], make([]byte, 32)...))
	if err := c.Verify(c.Host, from); err == nil {
		t.Error("a certificate by the neutral point verifies")
	}
}

// A certificate whose times cannot be parsed covers no time, although the host signed it.
func TestACertificateWithoutTimesCoversNothing(t *testing.T) {
	c := certify(t, key(t, 1))
	for _, times := range [][2]string{{"soon", c.ValidUntil}, {c.ValidFrom, ""}} {
		c := c
		c.ValidFrom, c.ValidUntil = times[0], times[1]
		if _, _, err := c.Validity(); !problem.Is(err, problem.Malformed) || c.Covers(from) {
			t.Errorf("Times(%q) = %v, covers %t", times, err, c.Covers(from))
		}
	}
}

// PROTOCOL §19.8 defines the signed bytes.
func TestTheSignedBytesOfACertificate(t *testing.T) {
	host := key(t, 1)
	c := certify(t, host)
	signed := "vacancy:hostkey:v1\x1f" + `{"from":"2026-05-06T12:00:00+00:00","host_id":"` + host.ID().String() + `","key_id":"` + key(t, 2).ID().String() +
		`","until":"2026-06-05T12:00:00+00:00"}`
	signature, err := hex.DecodeString(c.Signature)
	if err != nil || !identity.Verify(host.ID(), []byte(signed), signature) {
		t.Errorf("the host did not sign %q", signed)
	}
}

func read(text string) (c certificate.Certificate, err error) {
	err = canon.Unmarshal([]byte(text), &c, canon.DefaultLimits())
	return c, err
}

func TestAllMembersOfACertificateAreRequired(t *testing.T) {
	b, err := json.Marshal(certify(t, key(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	all := string(b)
	for i := range reflect.TypeFor[certificate.Certificate]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[certificate.Certificate]().Field(i).Tag.Get("json"), ",")
		if _, err := read(strings.Replace(all, `"`+name+`"`, `"x"`, 1)); !problem.Is(err, problem.Malformed) {
			t.Errorf("without %s: %v, want malformed", name, err)
		}
	}
	if _, err := read(strings.Replace(all, `{`, `{"use":"checkpoints",`, 1)); !problem.Is(err, problem.Malformed) {
		t.Errorf("with another member: %v, want malformed", err)
	}
}

func FuzzCertificate(f *testing.F) {
	host := key(f, 1)
	b, err := json.Marshal(certify(f, host))
	if err != nil {
		f.Fatal(err)
	}
	good := string(b)
	f.Add(good)
	f.Add(strings.Replace(good, "+00:00", "Z", 1))
	f.Add(strings.Replace(good, `"until"`, `"until":"2099-01-01T00:00:00+00:00","until"`, 1))
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := read(text)
		if err == nil && c.Verify(host.ID(), from) == nil && (c.ValidFrom != "2026-05-06T12:00:00+00:00" || c.ValidUntil != "2026-06-05T12:00:00+00:00" || c.Key != key(t, 2).ID()) {
			t.Errorf("%q verifies, and the host never signed it", text)
		}
	})
}
