package stacks

import "github.com/vacancy-host/vacancy/infra/settings"

// function is a folder of functions/ and how it is run.
type function struct {
	name, description string
	memory            int // MB
	timeout           int // seconds
	concurrency       int // reserved, unless nothing is reserved at all
	url               bool
	environment       []string // beside VACANCY_STAGE
	grants            grants
}

// grants are what a function's role may do beside writing its own log.
type grants struct {
	rows, docs []string // operations on the tables
	seals      bool     // Encrypt under the sealing key
	opens      bool     // Decrypt of what is sealed under it
	textsOnly  bool     // and Decrypt of the keys of texts only
	textKeys   bool     // PutItem on docs, and Encrypt, for the keys of texts only
	host       []string // operations on the host's key
	stream     bool     // read the stream of rows
}

// The timeout of what callers wait for is below the 30 seconds that CloudFront
// waits, so that they get our answer and not CloudFront's.
const urlTimeout = 28

// The keys of texts: a pattern of what they are sealed for, and the partition of
// docs that they lie in.
const (
	textKeys         = "textkey:*"
	textKeyPartition = "textkey"
)

// table lists the functions.
//
// Memory buys a share of a core: 256 MB are a seventh. A call needs about two
// milliseconds of it between its waits for DynamoDB, and the programs take less
// than 64 MB, so more would be paid for in waiting. audit holds pages of a
// megabyte, several times over, and takes 512. What nobody waits for has the
// least that Lambda offers.
//
// Of documents message makes the keys of texts and no other: whoever takes it
// over reaches neither the operator's key nor a vacant's record. A software
// identity it would have to make as well, if strangers come before the operator.
func table(s settings.Settings) []function {
	tables := []string{"VACANCY_ROWS", "VACANCY_DOCS"}
	edge := []string{"VACANCY_EDGE_SECRET", "VACANCY_EDGE_SECRET_BEFORE", "VACANCY_RATE", "VACANCY_PAIR_RATE"}
	with := func(names ...string) []string { return append(append(names, tables...), edge...) }
	appends := []string{"PutItem", "Query", "GetItem"} // all that rows ever allow
	return []function{{
		name: "message", description: "signed calls, resets, asks, cards and health",
		memory: 256, timeout: urlTimeout, concurrency: s.Concurrency, url: true,
		environment: with("VACANCY_SEAL_KEY", "VACANCY_HOST_KEY"),
		grants: grants{rows: appends, docs: []string{"GetItem", "PutItem", "Query"}, seals: true, opens: true,
			textKeys: s.HostKey == "kms", host: []string{"GetPublicKey"}},
	}, {
		name: "account", description: "the control plane, for the operator's key",
		memory: 256, timeout: urlTimeout, concurrency: 2, url: true,
		environment: with("VACANCY_SEAL_KEY", "VACANCY_HOST_KEY", "VACANCY_URL"),
		grants: grants{rows: appends, docs: []string{"GetItem", "PutItem", "Query", "DeleteItem"}, seals: true, opens: true,
			host: []string{"GetPublicKey", "Sign"}},
	}, {
		name: "audit", description: "the paged export that verify reads, for the operator's key",
		memory: 512, timeout: urlTimeout, concurrency: 1, url: true,
		environment: with("VACANCY_SEAL_KEY"),
		grants: grants{rows: []string{"Scan", "Query", "GetItem"}, docs: []string{"GetItem", "Query"},
			opens: true, textsOnly: true},
	}, {
		name: "sweeper", description: "destroys the keys of texts whose time is over, every hour",
		memory: 128, timeout: 60, concurrency: 1,
		environment: []string{"VACANCY_DOCS"},
		grants:      grants{docs: []string{"Query", "PutItem"}, textKeys: true},
	}, {
		name: "sentinel", description: "tells of rows that were changed or removed",
		memory: 128, timeout: 30, concurrency: 1,
		grants: grants{stream: true},
	}}
}

// Names lists the functions.
func Names() (names []string) {
	for _, f := range table(settings.Settings{}) {
		names = append(names, f.name)
	}
	return names
}
