// Package secrets stores secrets that are sent to servers, for example API keys for model
// providers. Only Use returns a value, and only for the secret's own tenant and for requests to
// hosts that the secret is bound to.
package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	MaxValueBytes = 2 << 10 // bytes
	MaxHosts      = 16
	maxNameBytes  = 64  // bytes
	maxHostBytes  = 255 // bytes
	// MaxCacheAge is how long Use may return a value after its replacement or deletion.
	MaxCacheAge = 10 * time.Second
)

type Kind struct {
	Name string
	// Prefix starts the partitions and the vault contexts.
	Prefix      string
	DefaultHost func(name string) string
	// CheckValue may be nil. Its error must not contain the value.
	CheckValue func(name string, value []byte) error
}

// Secrets is safe for concurrent use. The fmt package prints only its type, so no value is printed.
type Secrets struct {
	kind    Kind
	docs    store.DocKind[document]
	vault   custody.Vault
	now     func() time.Time
	updater store.Updater
	cache   *lru.Cache[store.Key, cachedSecret]
}

// New returns the secrets of a kind. rand must be safe for concurrent use.
func New(kind Kind, s store.Store, v custody.Vault, now func() time.Time, rand io.Reader) *Secrets {
	const cacheSize = 64
	cache, err := lru.New[store.Key, cachedSecret](cacheSize)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Secrets{kind, kind.Docs(), v, now, store.Updater{Store: s, Rand: rand}, cache}
}

func (s *Secrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "secrets.Secrets") }

type Info struct {
	Name    string    `json:"name"`
	Hosts   []string  `json:"hosts"`   // HOST or HOST:PORT; the value is sent to no other host
	Version int       `json:"version"` // starts at 1; a deletion is also a version
	Time    time.Time `json:"time"`
}

// document is the stored form. A deletion leaves a tombstone, because a late retry of an earlier
// Put could otherwise create the secret again.
type document struct {
	Info
	Box     []byte `json:"box"`
	Deleted bool   `json:"deleted,omitempty"`
}

type cachedSecret struct {
	hosts   []string
	box     []byte
	value   string
	expires time.Time
}

func (k Kind) Docs() store.DocKind[document] {
	return store.DocKind[document]{
		Shape: store.Shape{Name: k.Name, Partition: k.Prefix + "#*", Sort: "*", Owner: store.OwnedByTenant, Verify: store.VerifySkip},
		Codec: store.JSONCodec[document](1),
		CheckValue: func(d store.Doc, secret document) error {
			if secret.Name != d.Key.Sort || secret.Version < 1 || !secret.Deleted && len(secret.Hosts) == 0 {
				return errors.New("it has another name, no version or no hosts")
			}
			return nil
		},
	}
}

func (s *Secrets) docKey(tenant, name string) store.Key { return s.docs.Key(tenant, name) }

func (s *Secrets) vaultContext(tenant, name string) string {
	return s.kind.Prefix + ":" + tenant + ":" + name
}

// Set writes the next version of a secret. An empty tenant means the host itself. If hosts is nil,
// the secret keeps its hosts or gets the default host.
func (s *Secrets) Set(ctx context.Context, tenant, name string, hosts []string, value []byte) (Info, error) {
	info := Info{Name: name}
	err := checkTenantAndName(tenant, name)
	if err == nil {
		err = checkValue(value)
	}
	if err == nil && s.kind.CheckValue != nil {
		err = s.kind.CheckValue(name, value)
	}
	if err == nil {
		info.Hosts, err = normalizeHosts(hosts)
	}
	if err != nil {
		return info, err
	}
	box, err := s.vault.Seal(ctx, s.vaultContext(tenant, name), value)
	if err != nil {
		return info, err
	}
	err = s.updater.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		old, d, err := s.docs.Get(ctx, tx, s.docKey(tenant, name))
		if err != nil {
			return err
		}
		if old.isAbsent() && name[0] == '-' { // a command would parse the name as a flag
			return problem.Invalid("secret", "a name that does not begin with -, for example openai", fmt.Sprintf("%.80q", name))
		}
		next := document{Info: info, Box: box}
		if next.Hosts == nil {
			next.Hosts = old.Hosts
		}
		if host := s.kind.DefaultHost(name); next.Hosts == nil && host != "" {
			next.Hosts = []string{host}
		}
		if next.Hosts == nil {
			return problem.Invalid("hosts", "at least one host, such as api.example.com", "none")
		}
		info = s.putVersion(tx, d.Key, old.Version, next)
		return nil
	})
	s.cache.Remove(s.docKey(tenant, name))
	return info, store.AsProblem(err)
}

func (s *Secrets) putVersion(tx *store.Tx, key store.Key, oldVersion int, next document) Info {
	next.Version, next.Time = oldVersion+1, s.now().UTC().Truncate(time.Second)
	s.docs.Put(tx, store.Doc{Key: key}, next)
	return next.Info
}

func (s *Secrets) List(ctx context.Context, owner string) (infos []Info, err error) {
	if err := tenant.Check(owner); err != nil {
		return nil, err
	}
	for secret, err := range s.docs.Each(ctx, s.updater.Store, s.docs.Range(owner)) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		if !secret.Deleted {
			infos = append(infos, secret.Info)
		}
	}
	return infos, nil
}

func (s *Secrets) Delete(ctx context.Context, tenant, name string) error {
	if err := checkTenantAndName(tenant, name); err != nil {
		return err
	}
	err := s.updater.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		old, d, err := s.docs.Get(ctx, tx, s.docKey(tenant, name))
		if err == nil && old.isAbsent() {
			err = missingError(tenant, name)
		}
		if err == nil {
			s.putVersion(tx, d.Key, old.Version, document{Info: Info{Name: name}, Deleted: true})
		}
		return err
	})
	s.cache.Remove(s.docKey(tenant, name))
	return store.AsProblem(err)
}

// Check returns NotFound if the secret does not exist, and Forbidden if it is not bound to the host
// of a URL.
func (s *Secrets) Check(ctx context.Context, tenant, name string, urls ...string) error {
	secret, err := s.load(ctx, tenant, name)
	if err != nil {
		return err
	}
	return checkURLs(name, secret.Hosts, urls)
}

func (s *Secrets) Use(ctx context.Context, tenant, name string, urls ...string) (string, error) {
	key := s.docKey(tenant, name)
	cached, ok := s.cache.Get(key)
	if !ok || !s.now().Before(cached.expires) {
		var err error
		if cached, err = s.refresh(ctx, tenant, name, cached); err != nil {
			s.cache.Remove(key)
			return "", err
		}
		s.cache.Add(key, cached)
	}
	if err := checkURLs(name, cached.hosts, urls); err != nil {
		return "", err
	}
	return cached.value, nil
}

func checkURLs(name string, hosts, urls []string) error {
	// Plain HTTP is permitted only to this machine.
	for _, target := range urls {
		u, err := url.Parse(target)
		if err != nil {
			return problem.Invalid("url", "a URL", "another text")
		}
		host := hostPort(u)
		switch {
		case !slices.Contains(hosts, host) && (u.Scheme != "http" || !slices.Contains(hosts, host+":80")):
			return problem.New(problem.Forbidden, "secret %s is bound to %s, not to %s", name, strings.Join(hosts, ", "), host)
		case u.Scheme != "https" && (u.Scheme != "http" || !outbound.IsThisMachine(u.Hostname())):
			return problem.New(problem.Forbidden, "secret %s is sent over https only, not to %s", name, target)
		}
	}
	return nil
}

func (s *Secrets) refresh(ctx context.Context, tenant, name string, old cachedSecret) (cached cachedSecret, err error) {
	// The vault is called only if the box has changed, because each request costs money and time.
	cached.expires = s.now().Add(MaxCacheAge) // starts before the read, so that a slow read does not extend it
	secret, err := s.load(ctx, tenant, name)
	if err != nil {
		return cached, err
	}
	cached.hosts, cached.box = secret.Hosts, secret.Box
	if old.value != "" && bytes.Equal(old.box, secret.Box) {
		cached.value = old.value
		return cached, nil
	}
	value, err := s.vault.Open(ctx, s.vaultContext(tenant, name), secret.Box)
	if err != nil {
		return cached, err
	}
	cached.value = string(value)
	clear(value)
	return cached, nil
}

func (s *Secrets) Info(ctx context.Context, tenant, name string) (Info, error) {
	secret, err := s.load(ctx, tenant, name)
	return secret.Info, err
}

func (s *Secrets) load(ctx context.Context, tenant, name string) (document, error) {
	secret, _, err := s.docs.Get(ctx, s.updater.Store, s.docKey(tenant, name))
	if err == nil && secret.isAbsent() {
		err = missingError(tenant, name)
	}
	return secret, store.AsProblem(err)
}

func (d *document) isAbsent() bool { return d.Version == 0 || d.Deleted }

func missingError(tenant, name string) error {
	owner := "the host"
	if tenant != "" {
		owner = "tenant " + tenant
	}
	return problem.New(problem.NotFound, "%s has no secret %.80q", owner, name)
}

func checkTenantAndName(owner, name string) error {
	if err := tenant.Check(owner); err != nil {
		return err
	}
	return CheckName(name)
}

func CheckName(name string) error {
	const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if name == "" || len(name) > maxNameBytes || strings.Trim(name, nameLetters) != "" {
		return problem.Invalid("secret", fmt.Sprintf("a name of 1 to %d of a-z A-Z 0-9 . _ -", maxNameBytes), fmt.Sprintf("%.80q", name))
	}
	return nil
}

// checkValue must not return an error that contains value.
func checkValue(value []byte) error {
	switch {
	case len(value) == 0 || len(value) > MaxValueBytes:
		return problem.Invalid("value", fmt.Sprintf("1 to %d bytes", MaxValueBytes), strconv.Itoa(len(value)))
	case slices.ContainsFunc(value, func(c byte) bool { return c <= ' ' || c >= 0x7f }):
		return problem.Invalid("value", "printable ASCII without blanks", "another character")
	}
	return nil
}

func normalizeHosts(hosts []string) (hostPorts []string, err error) {
	if len(hosts) > MaxHosts {
		return nil, problem.Invalid("hosts", fmt.Sprintf("at most %d", MaxHosts), strconv.Itoa(len(hosts)))
	}
	for i, h := range hosts {
		u, err := url.Parse("https://" + h)
		if err != nil || u.Host != h || u.Hostname() == "" || len(h) > maxHostBytes || strings.ContainsFunc(h, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '*' }) {
			return nil, problem.Invalid(fmt.Sprintf("hosts[%d]", i), "HOST or HOST:PORT, for example api.example.com", fmt.Sprintf("%.80q", h))
		}
		hostPorts = append(hostPorts, hostPort(u))
	}
	slices.Sort(hostPorts)
	return slices.Compact(hostPorts), nil
}

func hostPort(u *url.URL) string {
	name, port := outbound.NormalizeHost(u.Hostname()), u.Port()
	if port != "" && port != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		return net.JoinHostPort(name, port)
	}
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	return name
}
