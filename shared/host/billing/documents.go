package billing

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const accountPartition = KindAccount + "#*"

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
	TenantDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "account of a tenant", Partition: "tenant", Sort: "*", Verify: store.VerifySkip},
		Codec: store.TextCodec(),
	}
	BalanceDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "shard of a balance", Partition: "bal#*#*", Sort: "balance", Verify: store.VerifyWithRows},
		Codec: store.CountCodec(),
	}
	IdempotentChangeDocs = store.DocKind[Change]{
		Shape: store.Shape{Name: "idempotency key", Partition: accountPartition, Sort: "idem#*", Owner: store.OwnedByAccount, Verify: store.VerifySkip},
		Codec: store.JSONCodec[Change](1),
	}
	// SecretDocs contains keys by the hash of their secret. A secret has 190 random bits, so its
	// hash needs no salt.
	SecretDocs = store.DocKind[Key]{
		Shape: store.Shape{Name: "key", Partition: "key#*", Sort: "key", Verify: store.VerifySkip},
		Codec: store.JSONCodec[Key](1),
	}
	KeyDocs = store.DocKind[listedKey]{
		Shape: store.Shape{Name: "key of an account", Partition: accountPartition, Sort: "key#*", Owner: store.OwnedByAccount, Verify: store.VerifySkip},
		Codec: store.JSONCodec[listedKey](1),
	}
	KeyUseDocs = store.DocKind[keyUse]{
		Shape: store.Shape{Name: "use of a key", Partition: keyUsePartition, Sort: "use", Verify: store.VerifySkip},
		Codec: store.JSONCodec[keyUse](1),
	}
	// FreeUseDocs counts the AGP requests per day of all keys with tier free of an account. If each
	// key had its own count, an account could raise its quota by creating keys.
	FreeUseDocs = store.DocKind[string]{
		Shape: store.Shape{Name: "use of free keys", Partition: keyUsePartition, Sort: "free*", Verify: store.VerifySkip},
		Codec: store.TextCodec(),
	}
	// LinkDocs contains the links by caller, including ended links.
	LinkDocs = store.DocKind[storedLink]{
		Shape:    store.Shape{Name: "link of a caller", Partition: "link#*", Sort: "link", Verify: store.VerifySkip},
		Codec:    store.JSONCodec[storedLink](1),
		KeyParts: func(l storedLink) []string { return []string{l.Caller.String()} },
	}
	LinkedDocs = store.DocKind[storedLink]{
		Shape:    store.Shape{Name: "link of an account", Partition: accountPartition, Sort: "link#*", Owner: store.OwnedByAccount, Verify: store.VerifyParse},
		Codec:    store.JSONCodec[storedLink](1),
		KeyParts: func(l storedLink) []string { return []string{l.Account, l.Caller.String()} },
	}
	EndingDocs = store.DocKind[string]{
		Shape:    store.Shape{Name: "account with trees to end", Partition: "endings", Sort: "*", Verify: store.VerifySkip},
		Codec:    store.TextCodec(),
		KeyParts: func(account string) []string { return []string{account} },
	}
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
	ActiveAgentDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "agent of a minute", Partition: "active#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	// DueDocs contains the reminders of calls. The Number is the position of the request.
	DueDocs = store.DocKind[call.Pair]{
		Shape: store.Shape{Name: "reminder of a call", Partition: "due#*#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.Codec[call.Pair]{
			Encode: func(p call.Pair) ([]byte, error) { return append(p.Caller[:], p.Vacant[:]...), nil },
			Decode: func(d store.Doc) (p call.Pair, err error) {
				if len(d.Data) != 2*identity.Size || d.Number <= 0 {
					return p, problem.New(problem.Damaged, "it does not name a call")
				}
				return call.Pair{Caller: identity.ID(d.Data[:identity.Size]), Vacant: identity.ID(d.Data[identity.Size:])}, nil
			},
		},
	}
)

var changeCodec = store.JSONCodec[Change](1)
