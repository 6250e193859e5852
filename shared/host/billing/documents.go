package billing

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// accountPartition contains the documents of an account, whose id replaces the star.
const accountPartition = KindAccount + "#*"

// keyUsePartition contains the counters for the AGP requests of a key, or of all keys with tier free
// of an account.
const keyUsePartition = "keyuse#*"

var (
	AccountDocs = store.Kind[Account]{
		Shape:    store.Shape{Name: "account", Partition: accountPartition, Sort: "account", Owner: store.OfAccount, Verify: store.VerifyWithRows},
		Codec:    store.JSONCodec[Account](1),
		KeyParts: func(a Account) []string { return []string{a.ID} },
		CheckValue: func(_ store.Doc, a Account) error {
			if !validShards(a.Shards) {
				return fmt.Errorf("it has %d shards", a.Shards)
			}
			return nil
		},
	}
	// TenantDocs maps tenants to the ids of their accounts.
	TenantDocs = store.Kind[string]{
		Shape: store.Shape{Name: "account of a tenant", Partition: "tenant", Sort: "*", Verify: store.VerifyNot},
		Codec: store.Text(),
	}
	// BalanceDocs contains the shards of accounts' balances. A key is the account and the shard.
	BalanceDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "shard of a balance", Partition: "bal#*#*", Sort: "balance", Verify: store.VerifyWithRows},
		Codec: store.Count(),
	}
	// MoveDocs contains the changes that requests with an Idempotency-Key made. A key is the hash
	// of the idempotency key.
	MoveDocs = store.Kind[Change]{
		Shape: store.Shape{Name: "idempotency key", Partition: accountPartition, Sort: "idem#*", Owner: store.OfAccount, Verify: store.VerifyNot},
		Codec: store.JSONCodec[Change](1),
	}
	// SecretDocs maps the hash of a key's secret to the key. A secret has 190 random bits, so it
	// cannot be found from its unsalted hash.
	SecretDocs = store.Kind[Key]{
		Shape: store.Shape{Name: "key", Partition: "key#*", Sort: "key", Verify: store.VerifyNot},
		Codec: store.JSONCodec[Key](1),
	}
	// KeyDocs contains the keys of an account by their ids.
	KeyDocs = store.Kind[listedKey]{
		Shape: store.Shape{Name: "key of an account", Partition: accountPartition, Sort: "key#*", Owner: store.OfAccount, Verify: store.VerifyNot},
		Codec: store.JSONCodec[listedKey](1),
	}
	UseDocs = store.Kind[use]{
		Shape: store.Shape{Name: "use of a key", Partition: keyUsePartition, Sort: "use", Verify: store.VerifyNot},
		Codec: store.JSONCodec[use](1),
	}
	// FreeUseDocs counts the AGP requests that all keys with tier free of an account send in a UTC
	// day. If each key were counted separately, an account could raise its quota by creating keys.
	// The value of a document is the day, and its Number is the count. Test keys have their own
	// document.
	FreeUseDocs = store.Kind[string]{
		Shape: store.Shape{Name: "use of free keys", Partition: keyUsePartition, Sort: "free*", Verify: store.VerifyNot},
		Codec: store.Text(),
	}
	// LinkDocs contains the links by caller. A link contains the account that pays for the caller.
	LinkDocs = store.Kind[link]{
		Shape:    store.Shape{Name: "link of a caller", Partition: "link#*", Sort: "link", Verify: store.VerifyNot},
		Codec:    store.JSONCodec[link](1),
		KeyParts: func(l link) []string { return []string{l.Caller.String()} },
	}
	// LinkedDocs contains the links of an account by caller.
	LinkedDocs = store.Kind[link]{
		Shape:    store.Shape{Name: "link of an account", Partition: accountPartition, Sort: "link#*", Owner: store.OfAccount, Verify: store.VerifyParse},
		Codec:    store.JSONCodec[link](1),
		KeyParts: func(l link) []string { return []string{l.Account, l.Caller.String()} },
	}
	// EndingDocs lists, for the sweeper, the accounts whose Account.Ending is not empty. A key is
	// the account's id.
	EndingDocs = store.Kind[string]{
		Shape:    store.Shape{Name: "account with trees to end", Partition: "endings", Sort: "*", Verify: store.VerifyNot},
		Codec:    store.Text(),
		KeyParts: func(account string) []string { return []string{account} },
	}
	// IssuerDocs contains the issuers whose tokens the host accepts. A key is the id of an
	// account's issuer.
	IssuerDocs = store.Kind[Issuer]{
		Shape:    store.Shape{Name: "issuer of tokens", Partition: "issuers", Sort: "*", Verify: store.VerifyNot},
		Codec:    store.JSONCodec[Issuer](1),
		KeyParts: func(i Issuer) []string { return []string{i.ID} },
	}
	PaymentDocs = store.Kind[Payment]{
		Shape: store.Shape{Name: "payment", Partition: "pay#*", Sort: "payment", Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[Payment](1),
	}
	// QuotaDocs counts the free calls of a UTC day and the spending under caps.
	QuotaDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "counter of a day", Partition: "quota#*", Sort: "*", Verify: store.VerifyNot},
		Codec: store.Count(),
	}
	// ActiveDocs contains the agents that were seen in a minute.
	ActiveDocs = store.Kind[int64]{
		Shape: store.Shape{Name: "agent of a minute", Partition: "active#*", Sort: "*", Verify: store.VerifyNot},
		Codec: store.Count(),
	}
	// DueDocs contains the reminders of calls. The Number of a document is the position of the
	// request.
	DueDocs = store.Kind[call.Pair]{
		Shape: store.Shape{Name: "reminder of a call", Partition: "due#*#*", Sort: "*", Verify: store.VerifyNot},
		Codec: store.Codec[call.Pair]{
			Encode: func(p call.Pair) ([]byte, error) { return append(p.Caller[:], p.Vacant[:]...), nil },
			Decode: func(d store.Doc) (p call.Pair, err error) {
				if len(d.Data) != 2*identity.Size || d.Number <= 0 {
					return p, problem.New(problem.Damaged, "it leads to no call")
				}
				return call.Pair{Caller: identity.ID(d.Data[:identity.Size]), Vacant: identity.ID(d.Data[identity.Size:])}, nil
			},
		},
	}
)

// changes is the codec of an account's rows.
var changes = store.JSONCodec[Change](1)
