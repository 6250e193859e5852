package doctor

import (
	"fmt"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"strconv"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// row is an entry in the table of checks.
type row struct {
	name string
	// needs returns the reason why the check does not apply, or "". A check without this function
	// always applies.
	needs func(Facts) string
	judge func(Facts) Check
}

func table() []row {
	rows := []row{
		{"go", nil, tool("go", leastGo, "it builds the functions", "the functions need", "install Go "+leastGo+" or newer (https://go.dev/dl/); then: go version")},
		{"node", nil, tool("node", strconv.Itoa(cdk.LeastNode), "the CDK runs on it", "the CDK needs", fmt.Sprintf("install Node.js %d (https://nodejs.org); then: node --version", cdk.SuggestedNode))},
		{"npm", nil, tool("npm", "", "it installs the CDK, once", "", "install npm, which comes with Node.js (https://nodejs.org); then: npm --version")},
		{"credentials", nil, Facts.credentials},
		{"region", nil, Facts.region},
		{"clock", nil, Facts.clock},
	}
	rows = append(rows, accountRows()...)
	for _, short := range stage.Stacks() {
		rows = append(rows, row{"stack " + short, Facts.needsAWS, func(f Facts) Check { return f.stack(short) }})
	}
	rows = append(rows, row{"version", Facts.needsAWS, Facts.versions}, row{"alarm mail", Facts.needsAWS, Facts.alarmMail}, row{"roles", Facts.needsSimulation, Facts.roles})
	rows = append(rows, tableRows(RowsTable, func(f Facts) Table { return f.Rows })...)
	rows = append(rows, tableRows(DocsTable, func(f Facts) Table { return f.Docs })...)
	rows = append(rows,
		row{"edge", Facts.needsStage, Facts.edge},
		row{"health", Facts.needsStage, Facts.health},
		row{"a2a", Facts.needsStage, Facts.agent},
		row{"operator key", Facts.needsStage, Facts.operator},
		row{"host identity", nil, Facts.identity},
		row{"models", Facts.needsStage, Facts.models},
		row{"issuers", Facts.needsStage, Facts.issuers},
		row{"sealing key", Facts.needsAWS, Facts.seal},
		row{"rows watched", Facts.needsFunctions, Facts.tamperWatch},
		row{"rows untouched", Facts.needsAWS, Facts.tamperedRows},
		row{"registry", Facts.needsRegistry, func(f Facts) Check { return f.endpoint("registry", f.Visit.Registry) }},
		row{"search", Facts.needsRegistry, func(f Facts) Check { return f.endpoint("search", f.Visit.Search) }},
		row{"log", Facts.needsRegistry, Facts.log},
		row{"accounts and AGP", Facts.needsStage, Facts.gateway},
		row{"graduations", Facts.needsStage, Facts.graduate},
		row{"gate", Facts.needsAWS, Facts.statemachine},
	)
	for _, function := range functions.All() {
		if function.Check.Name != "" {
			rows = append(rows, row{function.Check.Name, Facts.needsAWS, func(f Facts) Check { return f.job(function) }})
		}
	}
	return rows
}

// tableRows returns the checks of one table. The checks of the table's settings apply only if the
// first check finds the table.
func tableRows(short string, tableOf func(Facts) Table) []row {
	there := func(f Facts) Check { return f.tableThere(tableOf(f)) }
	rows := []row{{"table " + short, Facts.needsAWS, there}}
	for _, setting := range []struct {
		name  string
		judge func(Facts, string, Table) Check
	}{
		{"keys", Facts.tableKeys}, {"backups", Facts.tableBackups}, {"deletion protection", Facts.tableProtection},
		{"encryption", Facts.tableKey}, {"ceilings", Facts.tableCeilings}, {"stream", Facts.tableStream},
	} {
		needs := func(f Facts) string {
			if f.needsAWS() != "" || there(f).Verdict != OK {
				return "needs the table"
			}
			return ""
		}
		rows = append(rows, row{short + ": " + setting.name, needs, func(f Facts) Check { return setting.judge(f, short, tableOf(f)) }})
	}
	return rows
}

// needsAWS returns the reason why AWS cannot be queried, or "". The functions below return similar
// reasons for other facts.
func (f Facts) needsAWS() string {
	if f.Account.Trouble != NoTrouble {
		return "needs AWS credentials and a Region"
	}
	return ""
}

func (f Facts) needsSimulation() string {
	if why := f.needsAWS(); why != "" {
		return why
	}
	if f.Roles == nil {
		return "needs --simulate"
	}
	return ""
}

func (f Facts) needsFunctions() string {
	if why := f.needsAWS(); why != "" {
		return why
	}
	if f.Stacks["functions"].Missing {
		return "needs the stack functions"
	}
	return ""
}

func (f Facts) needsStage() string {
	if f.Visit.Absent {
		return "needs a deployed stage"
	}
	return ""
}

func (f Facts) needsRegistry() string {
	if f.Visit.Unregistered && !f.Visit.Absent {
		return "the stage was deployed without a registry"
	}
	return f.needsStage()
}
