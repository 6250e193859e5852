package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

const (
	RowsTable = "rows"
	DocsTable = "docs"
)

func keySchema(short string) []string {
	if short == RowsTable {
		return []string{"pk B HASH", "sk N RANGE"}
	}
	return []string{"pk S HASH", "sk S RANGE"}
}

// streamView returns the view type of a table's stream. The tamper detector needs a row before and
// after its change.
func streamView(short string) string {
	if short == RowsTable {
		return "NEW_AND_OLD_IMAGES"
	}
	return "KEYS_ONLY"
}

// encryptionKeyID is the logical id of the key in the stack data.
const encryptionKeyID = "AtRestKey"

const docsIndex = "listed"

func (f Facts) checkTableExists(t Table) Check {
	switch {
	case t.NameUnknown:
		return skip("the name of the table is unknown, because there is no stack data")
	case t.Err != nil:
		return failUnread(t.Err)
	case t.Missing:
		return fail("aws dynamodb list-backups    # restore it under its name; if the stage is new: "+f.deployCommand(), "there is no table %s, though the stack data names it", t.Name)
	case t.Status != "ACTIVE":
		return fail("vacancy doctor --host aws --stage "+f.Stage+"    # when the table is active", "%s is %s", t.Name, t.Status)
	}
	return pass("%s", t.Name)
}

func (f Facts) checkTableKeys(short string, t Table) Check {
	want := keySchema(short)
	if !slices.Equal(want, t.Keys) {
		return fail("vacancy deploy --stage OTHER    # a key schema cannot be changed; vacancy did not create this table",
			"the keys of %s are %s, expected %s", t.Name, strings.Join(t.Keys, ", "), strings.Join(want, ", "))
	}
	if short == DocsTable && !slices.ContainsFunc(t.Indexes, func(i Index) bool { return i.Name == docsIndex }) {
		return fail("vacancy deploy --stage OTHER    # vacancy did not create this table", "%s has no index %q", t.Name, docsIndex)
	}
	return pass("%s", strings.Join(t.Keys, ", "))
}

func (f Facts) checkTableBackups(short string, t Table) Check {
	if t.PITR {
		return pass("point-in-time recovery is on")
	}
	fix := fmt.Sprintf("aws dynamodb update-continuous-backups --table-name %s --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true", t.Name)
	return fail(fix, "point-in-time recovery of %s is off: deleted or overwritten data cannot be restored", t.Name)
}

func (f Facts) checkTableProtection(short string, t Table) Check {
	switch {
	case t.DeletionProtection:
		return pass("on")
	case !f.Settings.RetainData:
		return skip("the stage was deployed with keep=false: its data is deleted with it")
	}
	return fail(fmt.Sprintf("aws dynamodb update-table --table-name %s --deletion-protection-enabled", t.Name), "%s can be deleted by one request", t.Name)
}

func (f Facts) checkTableStream(short string, t Table) Check {
	view, consequence := streamView(short), "a row changed by hand is not noticed"
	if short == DocsTable {
		consequence = "no search index is published"
	}
	fix := fmt.Sprintf("aws dynamodb update-table --table-name %s --stream-specification StreamEnabled=true,StreamViewType=%s && %s", t.Name, view, f.deployCommand())
	switch t.StreamView {
	case view:
		return pass("%s", view)
	case "":
		return fail(fix, "the stream of %s is off: %s", t.Name, consequence)
	}
	return fail(fix, "the stream of %s shows %s, expected %s", t.Name, t.StreamView, view)
}

func (f Facts) checkTableEncryption(short string, t Table) Check {
	if t.KeyARN != "" {
		return pass("%s", t.KeyARN)
	}
	key := fmt.Sprintf("$(aws cloudformation describe-stack-resource --stack-name %s --logical-resource-id %s --query StackResourceDetail.PhysicalResourceId --output text)",
		stage.FullName(f.Stage, "data"), encryptionKeyID)
	fix := fmt.Sprintf("aws dynamodb update-table --table-name %s --sse-specification Enabled=true,SSEType=KMS,KMSMasterKeyId=%s", t.Name, key)
	return fail(fix, "%s is encrypted with a key of AWS, not with the stage's key", t.Name)
}

func (f Facts) wantedThroughput(short string) (read, write int) {
	if short == RowsTable {
		return f.Limits[cost.RowsReads], f.Limits[cost.RowsWrites]
	}
	return f.Limits[cost.DocsReads], f.Limits[cost.DocsWrites]
}

func (f Facts) checkTableThroughput(short string, t Table) Check {
	read, write := f.wantedThroughput(short)
	fix := fmt.Sprintf("aws dynamodb update-table --table-name %s --on-demand-throughput MaxReadRequestUnits=%d,MaxWriteRequestUnits=%d", t.Name, read, write)
	if t.ReadLimit == 0 || t.WriteLimit == 0 {
		return fail(fix, "%s has no ceiling for %s: its daily cost is not bounded", t.Name, missingLimits(t.ReadLimit, t.WriteLimit))
	}
	for _, i := range t.Indexes {
		if i.ReadLimit == 0 || i.WriteLimit == 0 {
			fix := fmt.Sprintf(`aws dynamodb update-table --table-name %s --global-secondary-index-updates '[{"Update":{"IndexName":%q,"OnDemandThroughput":{"MaxReadRequestUnits":%d,"MaxWriteRequestUnits":%d}}}]'`, t.Name, i.Name, f.Limits[cost.IndexReads], f.Limits[cost.IndexWrites])
			return fail(fix, "index %s of %s has no ceiling for %s: its daily cost is not bounded", i.Name, t.Name, missingLimits(i.ReadLimit, i.WriteLimit))
		}
	}
	return pass("%d reads and %d writes a second", t.ReadLimit, t.WriteLimit)
}

func missingLimits(read, write int) string {
	switch {
	case read == 0 && write == 0:
		return "reads and writes"
	case read == 0:
		return "reads"
	}
	return "writes"
}
