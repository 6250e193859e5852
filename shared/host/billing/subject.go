package billing

import (
	"context"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

type TokenChecker interface {
	LooksLikeToken(secret string) bool
	// Check returns the subject of a token. If the token is not accepted, the error is
	// Unauthorized.
	Check(ctx context.Context, token string, r *http.Request) (Subject, error)
}

type TokenCheckerConfig struct {
	Now     func() time.Time
	Client  *outbound.Client
	Issuers func(context.Context) ([]Issuer, error)
	// Resources returns the URLs that a request calls and that aud may contain. A URL with a final
	// slash includes the URLs below it.
	Resources func(*http.Request) ([]string, error)
}

// Subject is the person or the program for which a token was issued.
type Subject struct {
	Issuer Issuer
	ID     string
	Name   string // spelled like in the token
	Scopes []Scope
}

func (s *Subject) key() Key {
	i := &s.Issuer
	return Key{ID: "sub-" + i.ID + "-" + s.ID, Account: i.Account, Tenant: i.Tenant, Prefix: "a token of " + i.URL, Scopes: s.Scopes, DailyCap: i.SubjectDailyCap, subject: s}
}

type NamedSubject struct {
	ID      string    `json:"subject"`
	Account string    `json:"account"`
	Issuer  string    `json:"issuer"`
	Name    string    `json:"name"`
	Since   time.Time `json:"since"`
}

// SubjectDocs has a separate partition, because the processes that check tokens may not write
// accounts.
var SubjectDocs = store.DocKind[NamedSubject]{
	Shape:    store.Shape{Name: "name of a subject", Partition: "subject#*", Sort: "*", Owner: store.OwnedByAccount, Verify: store.VerifySkip},
	Codec:    store.JSONCodec[NamedSubject](1),
	KeyParts: func(s NamedSubject) []string { return []string{s.Account, s.ID} },
}

func (b *Billing) recordSubject(ctx context.Context, s *Subject) error {
	key := SubjectDocs.Key(s.Issuer.Account, s.ID)
	_, err := b.storedSubjects.getOrRead(key, b.Now(), func() (stored struct{}, err error) {
		return stored, b.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			if d, err := tx.Doc(ctx, key); err != nil || d.Version > 0 {
				return err
			}
			SubjectDocs.Put(tx, store.Doc{Key: key}, NamedSubject{ID: s.ID, Account: s.Issuer.Account, Issuer: s.Issuer.URL, Name: s.Name, Since: b.currentSecond()})
			return nil
		})
	})
	return store.AsProblem(err)
}

func (b *Billing) Subjects(ctx context.Context, account string) (subjects []NamedSubject, err error) {
	for s, err := range SubjectDocs.Each(ctx, b.Store, SubjectDocs.Range(account)) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		subjects = append(subjects, s)
	}
	return subjects, nil
}

// ForgetSubject deletes the stored name of a subject. A later request stores the name again.
func (b *Billing) ForgetSubject(ctx context.Context, account, id string) (s NamedSubject, err error) {
	key := SubjectDocs.Key(account, id)
	err = b.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var d store.Doc
		if s, d, err = SubjectDocs.Get(ctx, tx, key); err != nil {
			return err
		}
		if d.Version == 0 {
			return problem.New(problem.NotFound, "the account has no stored name for the subject %.40q", id)
		}
		tx.Delete(d.Key)
		return nil
	})
	b.storedSubjects.invalidate(key)
	return s, store.AsProblem(err)
}
