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

// keyUsePartition contains the AGP request counters of a key, or of all free-tier keys in an
// account.
const keyUsePartition = "keyuse#*"

var (
	AccountDocs = store.DocKind[Account]{
		Shape:    store.Shape{Name: "account", Partition: accountPartition, Sort: "account", Owner: store.OwnedByAccount, Verify: store.VerifyWithRows},
		Codec:    store.JSONCodec[Account](1),
		KeyParts: func(a Account) []string { return []string{a.ID} },
		CheckValue: func(_ store.Doc, a Account) error {
			if !isValidShardCount(a.Shards) {
				return fmt.Errorf("it has %d shards", a.Shards)
			}
			return nil
		},
	}
	// TenantDocs maps tenants to the ids of their accounts.
	TenantDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "account of a tenant", Partition: "tenant", Sort: "*", Verify: store.VerifySkip},
		Codec: store.TextCodec(),
	}
	// BalanceDocs contains the shards of accounts' balances. A key is the account and the shard.
	BalanceDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "shard of a balance", Partition: "bal#*#*", Sort: "balance", Verify: store.VerifyWithRows},
		Codec: store.CountCodec(),
	}
	// IdempotentChangeDocs contains the changes that requests with an Idempotency-Key made. A key is
	// the hash of the idempotency key.
	IdempotentChangeDocs = store.DocKind[Change]{
		Shape: store.Shape{Name: "idempotency key", Partition: accountPartition, Sort: "idem#*", Owner: store.OwnedByAccount, Verify: store.VerifySkip},
		Codec: store.JSONCodec[Change](1),
	}
	// SecretDocs maps the hash of a key's secret to the key. A secret has 190 random bits, so it
	// cannot be found from its unsalted hash.
	SecretDocs = store.DocKind[Key]{
		Shape: store.Shape{Name: "key", Partition: "key#*", Sort: "key", Verify: store.VerifySkip},
		Codec: store.JSONCodec[Key](1),
	}
	// KeyDocs contains the keys of an account by their ids.
	KeyDocs = store.DocKind[listedKey]{
		Shape: store.Shape{Name: "key of an account", Partition: accountPartition, Sort: "key#*", Owner: store.OwnedByAccount, Verify: store.VerifySkip},
		Codec: store.JSONCodec[listedKey](1),
	}
	KeyUseDocs = store.DocKind[keyUse]{
		Shape: store.Shape{Name: "use of a key", Partition: keyUsePartition, Sort: "use", Verify: store.VerifySkip},
		Codec: store.JSONCodec[keyUse](1),
	}
	// FreeUseDocs counts the AGP requests that all keys with tier free of an account send in a UTC
	// day. If each key were counted separately, an account could raise its quota by creating keys.
	// The value of a document is the day, and its Number is the count. Test keys have their own
	// document.
	FreeUseDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "use of free keys", Partition: keyUsePartition, Sort: "free*", Verify: store.VerifySkip},
		Codec: store.TextCodec(),
	}
	// LinkDocs contains the links by caller. A link contains the account that pays for the caller.
	LinkDocs = store.DocKind[storedLink]{
		Shape:    store.Shape{Name: "link of a caller", Partition: "link#*", Sort: "link", Verify: store.VerifySkip},
		Codec:    store.JSONCodec[storedLink](1),
		KeyParts: func(l storedLink) []string { return []string{l.Caller.String()} },
	}
	// LinkedDocs contains the links of an account by caller.
	LinkedDocs = store.DocKind[storedLink]{
		Shape:    store.Shape{Name: "link of an account", Partition: accountPartition, Sort: "link#*", Owner: store.OwnedByAccount, Verify: store.VerifyParse},
		Codec:    store.JSONCodec[storedLink](1),
		KeyParts: func(l storedLink) []string { return []string{l.Account, l.Caller.String()} },
	}
	// EndingDocs lists, for the sweeper, the accounts whose Account.EndingTrees is not empty. A key is
	// the account's id.
	EndingDocs = store.DocKind[string]{
		Shape:    store.Shape{Name: "account with trees to end", Partition: "endings", Sort: "*", Verify: store.VerifySkip},
		Codec:    store.TextCodec(),
		KeyParts: func(account string) []string { return []string{account} },
	}
	// IssuerDocs contains the issuers whose tokens the host accepts. A key is the id of an
	// account's issuer.
	IssuerDocs = store.DocKind[Issuer]{
		Shape:    store.Shape{Name: "issuer of tokens", Partition: "issuers", Sort: "*", Verify: store.VerifySkip},
		Codec:    store.JSONCodec[Issuer](1),
		KeyParts: func(i Issuer) []string { return []string{i.ID} },
	}
	PaymentDocs = store.DocKind[Payment]{
		Shape: store.Shape{Name: "payment", Partition: "pay#*", Sort: "payment", Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[Payment](1),
	}
	// QuotaDocs counts the free calls of a UTC day and the spending under caps.
	QuotaDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "counter of a day", Partition: "quota#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	// ActiveAgentDocs contains the agents that were seen in a minute.
	ActiveAgentDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "agent of a minute", Partition: "active#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	// DueDocs contains the reminders of calls. The Number of a document is the position of the
	// request.
	DueDocs = store.DocKind[call.Pair]{
		Shape: store.Shape{Name: "reminder of a call", Partition: "due#*#*", Sort: "*", Verify: store.VerifySkip},
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

// changeCodec is the codec of an account's rows.
var changeCodec = store.JSONCodec[Change](1)
