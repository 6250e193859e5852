// Package secrets keeps what vacants' owners are known by at the servers of their
// agents, such as the keys of models' providers.
//
// The invariants: a secret is shown by Use alone, to whoever sends the request, and
// only for a URL whose host it is bound to, of its own tenant. It is sealed at rest
// and bound to its tenant and name. One that was replaced or deleted is used no more
// after Fresh.
package secrets

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Limits.
const (
	MaxValue = 2 << 10 // bytes
	MaxHosts = 16
	maxName  = 64 // bytes
	maxHost  = 255
	maxList  = 1000 // secrets of a tenant
	// Fresh is how long a secret may be used without looking whether it is still
	// the same.
	Fresh = 10 * time.Second
)

// Secrets are those of a host. It is safe for concurrent use.
type Secrets struct {
	vault custody.Vault
	now   func() time.Time
	store store.Updater
	used  *lru.Cache[store.Key, opened]
}

// New returns the secrets in s, sealed by v. rand must be safe for concurrent use.
func New(s store.Store, v custody.Vault, now func() time.Time, rand io.Reader) *Secrets {
	const cached = 64
	used, err := lru.New[store.Key, opened](cached)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Secrets{v, now, store.Updater{Store: s, Rand: rand}, used}
}

// Format shows only what s is, whatever the verb.
func (s *Secrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "secrets.Secrets") }

// Info is what is shown of a secret.
type Info struct {
	Name    string    `json:"name"`
	Hosts   []string  `json:"hosts"`   // it may be sent to: HOST, or HOST:PORT
	Version int       `json:"version"` // counted from 1
	Time    time.Time `json:"time"`    // of the version
}

// document is a secret as it is kept.
type document struct {
	Format int `json:"format"`
	Info
	Box []byte `json:"box"`
}

const format = 1

// opened is a secret in memory.
type opened struct {
	hosts []string
	value string
	until time.Time
}

func keyOf(tenant, name string) store.Key {
	return store.Key{Partition: partition(tenant), Sort: name}
}

func partition(tenant string) string { return "secret#" + tenant }

// bound is what a box is sealed for.
func bound(tenant, name string) string { return "secret:" + tenant + ":" + name }

// Set keeps a secret of a tenant ("": of no tenant), or its next version. Without
// hosts it keeps those that it has; the first version of a provider's name is then
// bound to its server. The error names tenant, secret, hosts or value.
func (s *Secrets) Set(ctx context.Context, tenant, name string, hosts []string, value []byte) (Info, error) {
	info := Info{Name: name}
	err := check(tenant, name)
	if err == nil {
		err = checkValue(value)
	}
	if err == nil {
		info.Hosts, err = normalHosts(hosts)
	}
	if err != nil {
		return info, err
	}
	box, err := s.vault.Seal(ctx, bound(tenant, name), value)
	if err != nil {
		return info, err
	}
	err = s.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, keyOf(tenant, name))
		if err != nil {
			return err
		}
		var before document
		if d.Version > 0 {
			if before, err = decode(d); err != nil {
				return err
			}
		}
		next := document{format, info, box}
		if next.Hosts == nil {
			next.Hosts = before.Hosts
		}
		if host := substrate.ProviderHost(name); next.Hosts == nil && host != "" {
			next.Hosts = []string{host}
		}
		if next.Hosts == nil {
			return problem.Invalid("hosts", "one host at least that it may be sent to, as api.example.com", "none")
		}
		next.Version, next.Time = before.Version+1, s.now().UTC().Truncate(time.Second)
		data, err := json.Marshal(next)
		if err != nil {
			return problem.Wrap(problem.Internal, err, "secret %s", name)
		}
		tx.Put(store.Doc{Key: d.Key, Data: data})
		info = next.Info
		return nil
	})
	s.used.Remove(keyOf(tenant, name))
	return info, store.Problem(err)
}

// List lists the secrets of a tenant by name.
func (s *Secrets) List(ctx context.Context, owner string) (all []Info, err error) {
	if err := tenant.Check(owner); err != nil {
		return nil, err
	}
	for cursor, more := "", true; more && len(all) < maxList; more = cursor != "" {
		var docs []store.Doc
		if docs, cursor, err = s.store.Store.Docs(ctx, store.Range{Partition: partition(owner)}, 100, cursor); err != nil {
			return nil, store.Problem(err)
		}
		for _, d := range docs {
			one, err := decode(d)
			if err != nil {
				return nil, err
			}
			all = append(all, one.Info)
		}
	}
	return all, nil
}

// Delete deletes a secret. NotFound is one that is not there.
func (s *Secrets) Delete(ctx context.Context, tenant, name string) error {
	if err := check(tenant, name); err != nil {
		return err
	}
	err := s.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, keyOf(tenant, name))
		if err == nil && d.Version == 0 {
			err = absent(tenant, name)
		}
		if err == nil {
			tx.Delete(d.Key)
		}
		return err
	})
	s.used.Remove(keyOf(tenant, name))
	return store.Problem(err)
}

// Check reports whether a secret may be sent to URLs. NotFound is one that is not
// there, Forbidden a URL that it may not be sent to.
func (s *Secrets) Check(ctx context.Context, tenant, name string, urls ...string) error {
	one, err := s.read(ctx, tenant, name)
	if err != nil {
		return err
	}
	return permitted(name, one.Hosts, urls)
}

// Use is the value of a secret, for requests to URLs. Its errors are those of Check.
func (s *Secrets) Use(ctx context.Context, tenant, name string, urls ...string) (string, error) {
	key := keyOf(tenant, name)
	o, ok := s.used.Get(key)
	if !ok || !s.now().Before(o.until) {
		var err error
		if o, err = s.open(ctx, tenant, name); err != nil {
			s.used.Remove(key)
			return "", err
		}
		s.used.Add(key, o)
	}
	if err := permitted(name, o.hosts, urls); err != nil {
		return "", err
	}
	return o.value, nil
}

func permitted(name string, hosts, urls []string) error {
	for _, one := range urls {
		if err := permits(name, hosts, one); err != nil {
			return err
		}
	}
	return nil
}

func (s *Secrets) open(ctx context.Context, tenant, name string) (o opened, err error) {
	o.until = s.now().Add(Fresh) // of a time before it is read
	one, err := s.read(ctx, tenant, name)
	if err != nil {
		return o, err
	}
	value, err := s.vault.Open(ctx, bound(tenant, name), one.Box)
	if err != nil {
		return o, err
	}
	o.hosts, o.value = one.Hosts, string(value)
	clear(value)
	return o, nil
}

func (s *Secrets) read(ctx context.Context, tenant, name string) (document, error) {
	d, err := s.store.Store.Doc(ctx, keyOf(tenant, name))
	if err != nil {
		return document{}, store.Problem(err)
	}
	if d.Version == 0 {
		return document{}, absent(tenant, name)
	}
	return decode(d)
}

func absent(tenant, name string) error {
	of := "the host"
	if tenant != "" {
		of = "tenant " + tenant
	}
	return problem.New(problem.NotFound, "%s has no secret %.80q", of, name)
}

func decode(d store.Doc) (one document, err error) {
	err = json.Unmarshal(d.Data, &one)
	if err == nil && (one.Format != format || one.Name != d.Key.Sort || len(one.Hosts) == 0) {
		err = fmt.Errorf("format %d", one.Format)
	}
	if err != nil {
		return one, problem.Wrap(problem.Damaged, err, "the secret %s cannot be read", d.Key.Sort)
	}
	return one, nil
}

func check(owner, name string) error {
	if err := tenant.Check(owner); err != nil {
		return err
	}
	return CheckName(name)
}

// CheckName checks the name of a secret. The error names the field secret.
func CheckName(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if name == "" || len(name) > maxName || strings.Trim(name, letters) != "" {
		return problem.Invalid("secret", fmt.Sprintf("a name of 1 to %d of a-z A-Z 0-9 . _ -", maxName), fmt.Sprintf("%.80q", name))
	}
	return nil
}

// checkValue checks a value, which the error does not show. It must fit into a header
// of HTTP.
func checkValue(value []byte) error {
	switch {
	case len(value) == 0 || len(value) > MaxValue:
		return problem.Invalid("value", fmt.Sprintf("1 to %d bytes", MaxValue), strconv.Itoa(len(value)))
	case slices.ContainsFunc(value, func(c byte) bool { return c <= ' ' || c >= 0x7f }):
		return problem.Invalid("value", "printable ASCII without blanks", "another character")
	}
	return nil
}

// normalHosts are hosts in one spelling, in order.
func normalHosts(hosts []string) (all []string, err error) {
	if len(hosts) > MaxHosts {
		return nil, problem.Invalid("hosts", fmt.Sprintf("at most %d", MaxHosts), strconv.Itoa(len(hosts)))
	}
	for i, h := range hosts {
		u, err := url.Parse("https://" + h)
		if err != nil || u.Host != h || u.Hostname() == "" || len(h) > maxHost || strings.ContainsFunc(h, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '*' }) {
			return nil, problem.Invalid(fmt.Sprintf("hosts[%d]", i), "HOST or HOST:PORT, as api.example.com", fmt.Sprintf("%.80q", h))
		}
		all = append(all, hostOf(u))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// hostOf is the host of a URL in one spelling: with a port unless that is its
// scheme's.
func hostOf(u *url.URL) string {
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	port := u.Port()
	if port != "" && port != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		return net.JoinHostPort(name, port)
	}
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	return name
}

// permits reports whether the secret of a name, which is bound to hosts, may be sent
// to a URL: over TLS, or on this machine.
func permits(name string, hosts []string, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return problem.Invalid("secret", "the URL that it is sent to", "another text")
	}
	host := hostOf(u)
	switch {
	case !slices.Contains(hosts, host) && (u.Scheme != "http" || !slices.Contains(hosts, host+":80")):
		return problem.New(problem.Forbidden, "the secret %s is bound to %s, not to %s", name, strings.Join(hosts, ", "), host)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return problem.New(problem.Forbidden, "the secret %s is sent over https alone, not to %s", name, text)
	}
	return nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || strings.EqualFold(host, "localhost")
}
