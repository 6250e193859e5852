package spend

import (
	"errors"

	"github.com/vacancy-host/vacancy/shared/store"
)

var (
	VacantTotalDocs = store.DocKind[vacantTotal]{
		Shape: store.Shape{Name: "total of a vacant's day", Partition: "spend#*", Sort: "*", Owner: store.OwnedByVacant, Verify: store.VerifyWithRows},
		Codec: store.JSONCodec[vacantTotal](1),
	}
	TenantTotalDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "total of a tenant's day", Partition: "spend#tenant#*", Sort: "*", Owner: store.OwnedByTenant, Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	HostTotalDocs = store.DocKind[int64]{
		Shape: store.Shape{Name: "total of the host's day", Partition: "spend#host", Sort: "*", Verify: store.VerifySkip},
		Codec: store.CountCodec(),
	}
	BudgetDocs = store.DocKind[storedBudget]{
		Shape: store.Shape{Name: "budget of a tenant", Partition: "budget", Sort: "tenant#*", Verify: store.VerifyParse},
		Codec: store.JSONCodec[storedBudget](1),
		CheckValue: func(_ store.Doc, l storedBudget) error {
			if l.Daily < 0 {
				return errors.New("the budget is below 0")
			}
			return nil
		},
	}
)
