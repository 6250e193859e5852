package doctor

import (
	"fmt"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"strconv"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

type checkRow struct {
	name string
	// skipReason returns the reason why the check does not apply, or "". It may be nil.
	skipReason func(Facts) string
	check      func(Facts) Check
}

func checkRows() []checkRow {
	rows := []checkRow{
		{"go", nil, toolCheck("go", minGoVersion, "it builds the functions", "the functions need", "install Go "+minGoVersion+" or newer (https://go.dev/dl/); then: go version")},
		{"node", nil, toolCheck("node", strconv.Itoa(cdk.MinNodeMajor), "the CDK runs on it", "the CDK needs", fmt.Sprintf("install Node.js %d (https://nodejs.org); then: node --version", cdk.RecommendedNodeMajor))},
		{"npm", nil, toolCheck("npm", "", "it installs the CDK, once", "", "install npm, which comes with Node.js (https://nodejs.org); then: npm --version")},
		{"credentials", nil, Facts.checkCredentials},
		{"region", nil, Facts.checkRegion},
		{"clock", nil, Facts.checkClock},
	}
	rows = append(rows, accountCheckRows()...)
	for _, short := range stage.StackNames() {
		rows = append(rows, checkRow{"stack " + short, Facts.awsSkipReason, func(f Facts) Check { return f.checkStack(short) }})
	}
	rows = append(rows, checkRow{"version", Facts.awsSkipReason, Facts.checkVersions}, checkRow{"alarm mail", Facts.awsSkipReason, Facts.checkAlarmMail}, checkRow{"roles", Facts.simulationSkipReason, Facts.checkRoles})
	rows = append(rows, tableCheckRows(RowsTable, func(f Facts) Table { return f.Rows })...)
	rows = append(rows, tableCheckRows(DocsTable, func(f Facts) Table { return f.Docs })...)
	rows = append(rows,
		checkRow{"edge", Facts.stageSkipReason, Facts.checkEdge},
		checkRow{"health", Facts.stageSkipReason, Facts.checkHealth},
		checkRow{"a2a", Facts.stageSkipReason, Facts.checkAgentCard},
		checkRow{"operator key", Facts.stageSkipReason, Facts.checkOperatorKey},
		checkRow{"host identity", nil, Facts.checkHostIdentity},
		checkRow{"models", Facts.stageSkipReason, Facts.checkModels},
		checkRow{"issuers", Facts.stageSkipReason, Facts.checkIssuers},
		checkRow{"sealing key", Facts.awsSkipReason, Facts.checkSealingKey},
		checkRow{"rows watched", Facts.functionsSkipReason, Facts.checkTamperDetector},
		checkRow{"rows untouched", Facts.awsSkipReason, Facts.checkTamperedRows},
		checkRow{"registry", Facts.registrySkipReason, func(f Facts) Check { return f.checkEndpoint("registry", f.HostAnswers.Registry) }},
		checkRow{"search", Facts.registrySkipReason, func(f Facts) Check { return f.checkEndpoint("search", f.HostAnswers.Search) }},
		checkRow{"log", Facts.registrySkipReason, Facts.checkLog},
		checkRow{"accounts and AGP", Facts.stageSkipReason, Facts.checkGateway},
		checkRow{"graduations", Facts.stageSkipReason, Facts.checkGraduations},
		checkRow{"gate", Facts.awsSkipReason, Facts.checkGate},
	)
	for _, function := range functions.All() {
		if function.Check.Name != "" {
			rows = append(rows, checkRow{function.Check.Name, Facts.awsSkipReason, func(f Facts) Check { return f.checkJob(function) }})
		}
	}
	return rows
}

// tableCheckRows returns the checks of one table. The checks of its settings apply only if the
// table exists.
func tableCheckRows(short string, tableOf func(Facts) Table) []checkRow {
	checkExists := func(f Facts) Check { return f.checkTableExists(tableOf(f)) }
	rows := []checkRow{{"table " + short, Facts.awsSkipReason, checkExists}}
	for _, setting := range []struct {
		name  string
		judge func(Facts, string, Table) Check
	}{
		{"keys", Facts.checkTableKeys}, {"backups", Facts.checkTableBackups}, {"deletion protection", Facts.checkTableProtection},
		{"encryption", Facts.checkTableEncryption}, {"ceilings", Facts.checkTableThroughput}, {"stream", Facts.checkTableStream},
	} {
		skipReason := func(f Facts) string {
			if f.awsSkipReason() != "" || checkExists(f).Verdict != OK {
				return "needs the table"
			}
			return ""
		}
		rows = append(rows, checkRow{short + ": " + setting.name, skipReason, func(f Facts) Check { return setting.judge(f, short, tableOf(f)) }})
	}
	return rows
}

// awsSkipReason returns the reason why AWS cannot be queried, or "".
func (f Facts) awsSkipReason() string {
	if f.Account.CredentialProblem != CredentialsOK {
		return "needs AWS credentials and a Region"
	}
	return ""
}

func (f Facts) simulationSkipReason() string {
	if reason := f.awsSkipReason(); reason != "" {
		return reason
	}
	if f.Roles == nil {
		return "needs --simulate"
	}
	return ""
}

func (f Facts) functionsSkipReason() string {
	if reason := f.awsSkipReason(); reason != "" {
		return reason
	}
	if f.Stacks["functions"].Missing {
		return "needs the stack functions"
	}
	return ""
}

func (f Facts) stageSkipReason() string {
	if f.HostAnswers.Absent {
		return "needs a deployed stage"
	}
	return ""
}

func (f Facts) registrySkipReason() string {
	if f.HostAnswers.NoRegistry && !f.HostAnswers.Absent {
		return "the stage was deployed without a registry"
	}
	return f.stageSkipReason()
}
