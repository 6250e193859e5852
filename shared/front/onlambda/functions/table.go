package functions

// All lists the functions in the order in which the stack defines them. A function whose URL is
// passed to other functions comes before them.
func All() []Function {
	return []Function{
		Agent, Message, Admin, Export, Registry, Search, Graduate, Gateway, Web, Worker, Think,
		Sweeper, Meter, Prober, Tamper, Indexer, Checkpointer,
		Consent, RateLimit, Collusion, Commit, Record,
	}
}

// 256 MB of memory include a seventh of a CPU core. More memory would only make the waits for
// DynamoDB more expensive. The index of Search and Indexer takes 244 MB of disk for 100,000 cards,
// and as much again while a new index replaces it.

var (
	Agent = Function{
		Name: "agent", Description: "A2A and MCP: messages, tasks, streams, agent cards and signed calls",
		MemoryMB: 256, TimeoutSeconds: TurnSeconds, URL: true, StreamsAnswers: true,
		RequiredVars:    sealedVars + " VACANCY_TASKS VACANCY_PUSHES",
		OptionalVars:    "VACANCY_HOST_KEY VACANCY_URL VACANCY_PAGE_READS VACANCY_THINK VACANCY_SEARCH" + objectVars,
		HandlesAccounts: true, MinInstances: 1, CostShare: 9,
		Alarm: Alarm{"agent-fails", "A2A requests are answered with 5xx. Run vacancy tail --host aws --function agent and vacancy doctor --host aws.", 5, 5, false},
	}
	Message = Function{
		Name: "message", Description: "signed calls, resets, asks, cards and health",
		MemoryMB: 256, TimeoutSeconds: HandlerSeconds, URL: true,
		RequiredVars:    sealedVars + " VACANCY_TASKS",
		OptionalVars:    "VACANCY_HOST_KEY VACANCY_PAGE_READS VACANCY_THINK",
		HandlesAccounts: true, MinInstances: 1, CostShare: 21,
		Alarm: Alarm{"message-fails", "Calls are answered with 5xx. Run vacancy tail --host aws and vacancy doctor --host aws.", 5, 5, false},
	}
	Admin = Function{
		Name: "admin", Description: "the admin API, for the operator's key",
		MemoryMB: 256, TimeoutSeconds: HandlerSeconds, URL: true, EveryMinutes: 6 * 60, Rule: "canary", RuleEvent: `{"canary":true}`,
		RequiredVars:    sealedVars + " VACANCY_TASKS",
		OptionalVars:    "VACANCY_HOST_KEY VACANCY_URL VACANCY_GATE VACANCY_THINK" + objectVars,
		HandlesAccounts: true, UsesHostIdentity: true, MinInstances: 1, CostShare: 2,
		Alarm: Alarm{"admin-fails", "The admin API answers with 5xx. Run vacancy tail --host aws and vacancy doctor --host aws.", 1, 5, false},
	}
	Export = Function{
		Name: "export", Description: "the paged export that verify reads, for the operator's key",
		MemoryMB: 256, TimeoutSeconds: HandlerSeconds, URL: true,
		RequiredVars: sealedVars,
		MinInstances: 1,
	}
	Registry = Function{
		Name: "registry", Description: "publishing, revoking, cards, events and the transparency log",
		MemoryMB: 256, TimeoutSeconds: HandlerSeconds, URL: true,
		RequiredVars: tableVars, OptionalVars: "VACANCY_URL VACANCY_READS",
		MinInstances: 1, CostShare: 5,
		Alarm: Alarm{"registry-fails", "The registry answers with 5xx. Run vacancy tail --host aws and vacancy doctor --host aws.", 5, 5, false},
	}
	Search = Function{
		Name: "search", Description: "searches vacants by capability",
		MemoryMB: 512, TimeoutSeconds: HandlerSeconds, DiskMB: 2048, URL: true,
		RequiredVars: "VACANCY_DOCS VACANCY_BLOBS", OptionalVars: "VACANCY_READS",
		MinInstances: 1, CostShare: 5,
		Alarm: Alarm{"search-fails", "Searches are answered with 5xx. Run vacancy tail --host aws and vacancy doctor --host aws.", 5, 5, false},
	}
	Graduate = Function{
		Name: "graduate", Description: "accepts graduation requests and returns their outcome",
		MemoryMB: 128, TimeoutSeconds: HandlerSeconds, URL: true,
		RequiredVars: tableVars + " VACANCY_GATE", OptionalVars: "VACANCY_URL VACANCY_READS",
		MinInstances: 1,
		Alarm:        Alarm{"graduate-fails", "Requests to graduate are answered with 5xx. Run vacancy tail --host aws and vacancy doctor --host aws.", 1, 5, false},
	}
	Gateway = Function{
		Name: "gateway", Description: "accounts, payments, keys, usage, receipts and AGP",
		MemoryMB: 256, TimeoutSeconds: HandlerSeconds, URL: true,
		RequiredVars:    sealedVars + " VACANCY_TASKS VACANCY_SEARCH",
		OptionalVars:    "VACANCY_HOST_KEY VACANCY_URL VACANCY_READS",
		HandlesAccounts: true, MinInstances: 1, CostShare: 5,
		Alarm: Alarm{"gateway-fails", "Accounts and AGP are answered with 5xx. Run vacancy tail --host aws --function gateway and vacancy doctor --host aws.", 5, 5, false},
	}
)

// Web forwards the reader's address, so that the rate limits of other functions apply to the
// reader.
var Web = Function{
	Name: "web", Description: "pages for browsers, built from the public API; only behind an edge",
	MemoryMB: 128, TimeoutSeconds: HandlerSeconds, URL: true,
	RequiredVars: "VACANCY_AGENT_URL VACANCY_MESSAGE_URL VACANCY_REGISTRY_URL VACANCY_SEARCH_URL",
	MinInstances: 1, ClientsRetry: true,
	Alarm: Alarm{"web-fails", "Pages are answered with 5xx. Run vacancy tail --host aws --function web and vacancy doctor --host aws.", 5, 5, false},
}

var (
	// The limit of concurrent turns applies to all instances of Worker together.
	Worker = Function{
		Name: "worker", Description: "runs turns in the background, and pushes the events of tasks",
		MemoryMB: 256, TimeoutSeconds: TurnSeconds, Queues: TaskQueue + " " + PushQueue,
		RequiredVars:    sealedVars + " VACANCY_TASKS VACANCY_PUSHES VACANCY_TURNS",
		OptionalVars:    "VACANCY_HOST_KEY VACANCY_URL VACANCY_GATEWAY_URL VACANCY_THINK" + objectVars,
		HandlesAccounts: true, MinInstances: 4, CostShare: 4,
		Alarm: Alarm{"worker-fails", "The function of the queues crashes or runs out of time. Run vacancy tail --host aws --function worker.", 3, 5, false},
		Check: Check{"background turns", "turns in the background and notifications come late, or are lost (alarm tasks-lost)"},
	}
	Think = Function{
		Name: "think", Description: "sends single requests to models, functions and MCP servers for the functions that run turns",
		MemoryMB: 256, TimeoutSeconds: ThinkSeconds,
		RequiredVars: "VACANCY_DOCS VACANCY_SEAL_KEY",
		MinInstances: 1, CostShare: 8,
		Alarm: Alarm{"think-fails", "The function that asks models crashes or runs out of time. Run vacancy tail --host aws --function think.", 3, 5, false},
	}
)

var (
	Sweeper = Function{
		Name: "sweeper", Description: "every minute, decides overdue calls, checks overdue bookings and destroys expired text keys; every hour, deletes bytes without a file",
		MemoryMB: 128, TimeoutSeconds: 30, EveryMinutes: 1, Jobs: "calls keys bookings texts files",
		RequiredVars:    tableVars + " VACANCY_TASKS VACANCY_BLOBS",
		HandlesAccounts: true, MinInstances: 1, Idle: Idle{ReadUnits: 68, Milliseconds: 500, Listings: 24},
		Alarm: Alarm{"sweeper-fails", "Overdue calls are not decided, overdue bookings are not checked, or expired text keys are not destroyed. Run vacancy tail --host aws --function sweeper.", 10, 60, true},
		Check: Check{"sweeps", "overdue calls are not decided, and overdue bookings are not checked (alarm sweeper-fails)"},
	}
	Meter = Function{
		Name: "meter", Description: "folds rows into usage, every minute, and exports the usage of past days",
		MemoryMB: 128, TimeoutSeconds: 30, EveryMinutes: 1, Jobs: "exports",
		RequiredVars:    tableVars + " VACANCY_ROWS_STREAM VACANCY_BLOBS",
		HandlesAccounts: true, MinInstances: 1, Idle: Idle{ReadUnits: 3, Milliseconds: 200, StreamRequests: 7},
		Alarm: Alarm{"usage-late", "Usage lags ten minutes: the meter fails. After 24 hours rows would be missing. Run vacancy tail --host aws --function meter.", 10, 60, true},
		Check: Check{"usage", "calls are not in usage; after 24 hours their rows are gone from the stream (alarms usage-late, usage-lost)"},
	}
	Prober = Function{
		Name: "prober", Description: "probes endpoints on other hosts every minute, and lists those that answer",
		MemoryMB: 128, TimeoutSeconds: 6, EveryMinutes: 1, Jobs: "endpoints",
		RequiredVars: "VACANCY_DOCS",
		MinInstances: 1,
		Alarm:        Alarm{"prober-fails", "Vacants on other hosts are not listed.", 10, 60, false},
	}
	Tamper = Function{
		Name: "tamper", Description: "reports rows that were changed or removed",
		MemoryMB: 128, TimeoutSeconds: 30, SourceTable: RowsTable,
		MinInstances: 1,
	}
	Indexer = Function{
		Name: "indexer", Description: "publishes the search index when registrations have changed",
		MemoryMB: 512, TimeoutSeconds: 300, DiskMB: 4096, SourceTable: DocsTable,
		RequiredVars: "VACANCY_DOCS VACANCY_BLOBS",
		MinInstances: 1,
		Alarm:        Alarm{"indexer-fails", "No new search index is published: each search must read more and more changes. Run vacancy tail --host aws.", 3, 60, false},
		Check:        Check{"search index", "no new index is published, and each search must read more and more changes"},
	}
	Checkpointer = Function{
		Name: "checkpointer", Description: "seals the transparency log and certifies the keys that sign receipts, every five minutes",
		MemoryMB: 128, TimeoutSeconds: 120, EveryMinutes: 5, Jobs: "signing log",
		RequiredVars: sealedVars, OptionalVars: "VACANCY_HOST_KEY",
		UsesHostIdentity: true, MinInstances: 1,
		Alarm: Alarm{"checkpointer-fails", "Publications and revocations are not sealed in the log.", 2, 60, true},
		Check: Check{"sealing", "publications and revocations are not sealed"},
	}
)

// The number of attempts is limited, so these functions have no reserved concurrency.
var (
	Consent = Function{
		Name: "consent", Description: "first step of the gate: both signatures, and the child's manifest",
		MemoryMB: 128, TimeoutSeconds: StepSeconds, IsGateStep: true,
		RequiredVars: tableVars,
	}
	RateLimit = Function{
		Name: "ratelimit", Description: "second step of the gate: the graduations of the parent in 24 hours",
		MemoryMB: 128, TimeoutSeconds: StepSeconds, IsGateStep: true,
		RequiredVars: tableVars,
	}
	Collusion = Function{
		Name: "collusion", Description: "third step of the gate: the similarity of the child to its parent and siblings",
		MemoryMB: 128, TimeoutSeconds: StepSeconds, IsGateStep: true,
		RequiredVars: sealedVars,
	}
	Commit = Function{
		Name: "commit", Description: "last step of the gate: opens the child, in one transaction",
		MemoryMB: 128, TimeoutSeconds: StepSeconds, IsGateStep: true,
		RequiredVars: sealedVars, OptionalVars: "VACANCY_URL",
	}
	Record = Function{
		Name: "record", Description: "records the outcome of a graduation attempt",
		MemoryMB: 128, TimeoutSeconds: StepSeconds, IsGateStep: true,
		RequiredVars: tableVars,
	}
)
