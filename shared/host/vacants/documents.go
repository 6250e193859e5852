package vacants

import (
	"bytes"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	// The vacant's id replaces the star.
	vacantPartition = "v#*"
	hostPartition   = "host"
	tenantIndex     = "vacants#*"
)

var (
	// RecordDocs contains the records and tombstones of vacants.
	RecordDocs = store.DocKind[Record]{
		Shape:    store.Shape{Name: "record of a vacant", Partition: vacantPartition, Sort: "record", Index: "open", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec:    store.Codec[Record]{Decode: decodeRecord, Encode: encodeRecord},
		KeyParts: func(r Record) []string { return []string{r.ID.String()} },
	}
	// AgentDocs contains the versions of a vacant's agent.
	AgentDocs = store.DocKind[definition.Agent]{
		Shape: store.Shape{Name: "version of an agent", Partition: vacantPartition, Sort: "agent#*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.Codec[definition.Agent]{
			Decode: func(d store.Doc) (definition.Agent, error) { return definition.Parse(d.Data) },
			Encode: func(a definition.Agent) ([]byte, error) { return a.Blob(), nil },
		},
		CheckValue: func(d store.Doc, a definition.Agent) error { return checkCanonical(d, a.Blob()) },
	}
	PlanDocs = store.DocKind[plan.Plan]{
		Shape: store.Shape{Name: "plan of a composite", Partition: vacantPartition, Sort: "plan", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.Codec[plan.Plan]{
			Decode: func(d store.Doc) (plan.Plan, error) { return plan.Parse(d.Data) },
			Encode: func(p plan.Plan) ([]byte, error) { return p.Blob(), nil },
		},
		CheckValue: func(d store.Doc, p plan.Plan) error {
			if err := checkCanonical(d, p.Blob()); err != nil {
				return err
			}
			_, err := p.Children()
			return err
		},
	}
	// ChainDocs contains the states of an imported vacant's calls to other vacants (bundle.Chain).
	ChainDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "chain of an imported vacant", Partition: vacantPartition, Sort: "chain#*", Owner: store.OwnedByVacant, Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	// ForgetMarkDocs contains the marks that ForgetAnswers sets.
	ForgetMarkDocs = store.DocKind[forgetMark]{
		Shape: store.Shape{Name: "mark of what is forgotten", Partition: vacantPartition, Sort: "forget#*#*", Owner: store.OwnedByVacant, Verify: store.VerifyParse},
		Codec: store.JSONCodec[forgetMark](1),
	}
	// NameDocs maps names to vacants.
	NameDocs = store.DocKind[identity.ID]{
		Shape: store.Shape{Name: "name", Partition: "name", Sort: "*", Index: tenantIndex, Verify: store.VerifyWithRows},
		Codec: idCodec,
	}
	// NameOwnerDocs maps names in lower case to their tenants.
	NameOwnerDocs = store.DocKind[nameOwner]{
		Shape:    store.Shape{Name: "owner of a name", Partition: "nameowner", Sort: "*", Index: tenantIndex, Verify: store.VerifyParse},
		Codec:    store.JSONCodec[nameOwner](1),
		KeyParts: func(o nameOwner) []string { return []string{strings.ToLower(o.Name)} },
	}
	// NamelessTombstoneDocs lists the deleted vacants whose names were released or reused.
	NamelessTombstoneDocs = store.DocKind[identity.ID]{
		Shape: store.Shape{Name: "tombstone without a name", Partition: "former", Sort: "*", Index: tenantIndex, Verify: store.VerifyWithRows},
		Codec: idCodec,
	}
	HostIdentityDocs = store.DocKind[hostIdentity]{
		Shape: store.Shape{Name: "identity of the host", Partition: hostPartition, Sort: "identity", Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[hostIdentity](1),
	}
	URLDocs = store.DocKind[hostURL]{
		Shape: store.Shape{Name: "URL of the host", Partition: hostPartition, Sort: "url", Verify: store.VerifyParse},
		Codec: store.JSONCodec[hostURL](1),
		CheckValue: func(_ store.Doc, u hostURL) error {
			_, err := normalizeURL(u.URL)
			return err
		},
	}
	ReadyDocs = store.DocKind[time.Time]{
		Shape: store.Shape{Name: "mark of a host that can write", Partition: hostPartition, Sort: "ready", Verify: store.VerifySkip},
		Codec: store.Codec[time.Time]{
			Decode: func(d store.Doc) (time.Time, error) { return time.Parse(time.RFC3339, string(d.Data)) },
			Encode: func(t time.Time) ([]byte, error) { return t.AppendFormat(nil, time.RFC3339), nil },
		},
	}
	RootDocs = store.DocKind[rootVacant]{
		Shape: store.Shape{Name: "vacant at the address of the host", Partition: hostPartition, Sort: "root", Verify: store.VerifyParse},
		Codec: store.JSONCodec[rootVacant](1),
	}
)

func checkCanonical(d store.Doc, blob []byte) error {
	if !bytes.Equal(blob, d.Data) {
		return problem.New(problem.Damaged, "it is not in its canonical form")
	}
	return nil
}

var idCodec = store.Codec[identity.ID]{
	Decode: func(d store.Doc) (id identity.ID, err error) {
		if len(d.Data) != 1+identity.Size {
			return id, problem.New(problem.Damaged, "expected %d bytes, got %d", 1+identity.Size, len(d.Data))
		}
		return identity.ID(d.Data[1:]), store.CheckFormat(1, int(d.Data[0]))
	},
	Encode: func(id identity.ID) ([]byte, error) { return append([]byte{1}, id[:]...), nil },
}
