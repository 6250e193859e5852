package onlambda

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

// Settings contains a function's settings from its environment: the settings of package setting,
// and settings that depend on the function's stack.
type Settings struct {
	setting.Host
	Stage      string
	Tables     dynamo.Tables // VACANCY_ROWS, VACANCY_DOCS
	Blobs      string        // VACANCY_BLOBS: the name of a bucket
	SealKey    string        // VACANCY_SEAL_KEY: the ARN of a KMS key, or 64 hexadecimal digits
	HostKey    string        // VACANCY_HOST_KEY: the ARN of a KMS key; "" means a software identity
	URL        string        // VACANCY_URL; "" means the URL in the store
	GatewayURL string        // VACANCY_GATEWAY_URL: the base URL of accounts and AGP; "" means URL
	// Secrets (VACANCY_EDGE_SECRET and VACANCY_EDGE_SECRET_BEFORE) contains the secrets of the edge
	// (the CloudFront distribution), the current one first. It is nil if the stage has no edge.
	Secrets []string
	// Reads (VACANCY_READS) limits the read units per second of an instance. Zero means no limit.
	Reads edge.Rate
	// PageReads (VACANCY_PAGE_READS) limits the read units per second of an instance for GET
	// requests. Zero means no limit.
	PageReads edge.Rate
	// Puts and Gets (VACANCY_PUTS, VACANCY_GETS) limit the objects in the bucket that an instance
	// writes and reads per second. Zero means no limit.
	Puts, Gets edge.Rate
	// Think (VACANCY_THINK) is the ARN of the function think, or "" if the stage has no models.
	Think         string
	Tasks, Pushes string // VACANCY_TASKS, VACANCY_PUSHES: URLs of queues
	// Turns (VACANCY_TURNS) limits the concurrent turns (runs of an agent) in all instances of
	// worker together.
	Turns      int
	RowsStream string // VACANCY_ROWS_STREAM: the stream ARN of the table of rows
	Searcher   string // VACANCY_SEARCH: the ARN of the function search
	// Handlers contains the base URLs of functions by name: VACANCY_AGENT_URL, VACANCY_MESSAGE_URL,
	// VACANCY_REGISTRY_URL and VACANCY_SEARCH_URL.
	Handlers map[string]string
	// Machine (VACANCY_GATE) is the ARN of the gate's state machine. If it is "", the status of an
	// attempt contains no current step.
	Machine string
}

type variable struct {
	name   string
	needed bool // if false, the variable may be missing or empty
	want   string
	secret bool // the value is never shown
	set    func(s *Settings, value string) bool
}

// Read parses the variables of f. It ignores variables that f does not use, because f's role may
// have no rights for the resources that they name. Its error is of kind Usage and names every
// missing or malformed variable.
func Read(f functions.Function, getenv func(string) string) (Settings, error) {
	var s Settings
	var wrong []string
	var vars []variable
	chosen := setting.Values{Host: setting.Host{Retention: textkeys.MinRetention}}
	for _, row := range setting.Table() {
		if row.ReadBy(f.Name, f.URL) {
			vars = append(vars, variable{name: row.Variable, needed: row.Needed, want: row.Expects(), set: func(_ *Settings, text string) bool { return row.Read(text, &chosen) == nil }})
		}
	}
	for _, v := range variables() {
		if f.Has(v.name) {
			v.needed = f.Requires(v.name)
			vars = append(vars, v)
		}
	}
	for _, v := range vars {
		value := getenv(v.name)
		switch {
		case value == "" && v.needed:
			wrong = append(wrong, v.name+": expected "+v.want+", got nothing")
		case value == "" || v.set(&s, value):
		case v.secret:
			wrong = append(wrong, v.name+": expected "+v.want+", got "+strconv.Itoa(len(value))+" other characters")
		default:
			wrong = append(wrong, v.name+": expected "+v.want+", got "+fmt.Sprintf("%.80q", value))
		}
	}
	if len(s.Secrets) > 0 && s.Secrets[0] == "" {
		wrong = append(wrong, "VACANCY_EDGE_SECRET: expected the secret that follows VACANCY_EDGE_SECRET_BEFORE, got nothing")
	}
	s.Stage, s.Host = chosen.Stage, chosen.Host
	if wrong != nil {
		return Settings{}, problem.New(problem.Usage, "environment: %s", strings.Join(wrong, "; "))
	}
	return s, nil
}

func variables() []variable {
	return []variable{
		rows, docs, blobs, sealKey, hostKey, publicURL, gatewayURL, edgeSecret, edgeSecretBefore, reads, pageReads, puts, gets,
		tasks, pushes, turns, machine, thinkARN, rowsStream, searcher,
		handlerURL(functions.Agent), handlerURL(functions.Message), handlerURL(functions.Registry), handlerURL(functions.Search),
	}
}

func handlerURL(f functions.Function) variable {
	return variable{name: "VACANCY_" + strings.ToUpper(f.Name) + "_URL", want: "the URL of the function " + f.Name,
		set: func(s *Settings, v string) bool {
			if s.Handlers == nil {
				s.Handlers = map[string]string{}
			}
			s.Handlers[f.Name] = strings.TrimRight(v, "/")
			return isBase(v)
		}}
}

// leastSecret is the minimum length of the edge's secret, which makes it infeasible to guess.
const leastSecret = 32

var (
	rows = variable{name: "VACANCY_ROWS", want: "the name of a table",
		set: func(s *Settings, v string) bool { s.Tables.Rows = v; return isTable(v) }}
	docs = variable{name: "VACANCY_DOCS", want: "the name of a table",
		set: func(s *Settings, v string) bool { s.Tables.Docs = v; return isTable(v) }}
	blobs = variable{name: "VACANCY_BLOBS", want: "the name of a bucket",
		set: func(s *Settings, v string) bool { s.Blobs = v; return consistsOf(v, 3, 63, small+digits+".-") }}
	sealKey = variable{name: "VACANCY_SEAL_KEY", want: "the ARN of a KMS key, or 64 hex digits", secret: true,
		set: func(s *Settings, v string) bool { s.SealKey = v; return isKMS(v) || isHexKey(v) }}
	hostKey = variable{name: "VACANCY_HOST_KEY", want: "the ARN of a KMS key, or nothing for a software identity",
		set: func(s *Settings, v string) bool { s.HostKey = v; return isKMS(v) }}
	publicURL = variable{name: "VACANCY_URL", want: "http://HOST or https://HOST with an optional path, or nothing to use the URL in the store",
		set: func(s *Settings, v string) bool { s.URL = v; return isBase(v) }}
	gatewayURL = variable{name: "VACANCY_GATEWAY_URL", want: "as VACANCY_URL, or nothing if VACANCY_URL is also the URL of accounts and AGP",
		set: func(s *Settings, v string) bool { s.GatewayURL = v; return isBase(v) }}
	edgeSecret = variable{name: "VACANCY_EDGE_SECRET", want: "at least 32 printable characters without comma and blank, or nothing where there is no edge", secret: true,
		set: func(s *Settings, v string) bool { s.Secrets = []string{v}; return isSecret(v) }}
	edgeSecretBefore = variable{name: "VACANCY_EDGE_SECRET_BEFORE", want: "as VACANCY_EDGE_SECRET", secret: true,
		set: func(s *Settings, v string) bool {
			if s.Secrets == nil {
				s.Secrets = []string{""}
			}
			s.Secrets = append(s.Secrets, v)
			return isSecret(v)
		}}
	reads = variable{name: "VACANCY_READS", want: "units-per-second:burst such as 12.5:50, or nothing for no limit",
		set: func(s *Settings, v string) (ok bool) { s.Reads, ok = edge.ParseRate(v); return ok }}
	pageReads = variable{name: "VACANCY_PAGE_READS", want: "units-per-second:burst such as 4.4:17, or nothing for no limit",
		set: func(s *Settings, v string) (ok bool) { s.PageReads, ok = edge.ParseRate(v); return ok }}
	puts = variable{name: "VACANCY_PUTS", want: "objects-per-second:burst such as 0.5:60, or nothing for no limit",
		set: func(s *Settings, v string) (ok bool) { s.Puts, ok = edge.ParseRate(v); return ok }}
	gets = variable{name: "VACANCY_GETS", want: "objects-per-second:burst such as 4:480, or nothing for no limit",
		set: func(s *Settings, v string) (ok bool) { s.Gets, ok = edge.ParseRate(v); return ok }}
	tasks = variable{name: "VACANCY_TASKS", want: "the URL of a queue",
		set: func(s *Settings, v string) bool { s.Tasks = v; return isBase(v) && QueueName(v) != "" }}
	pushes = variable{name: "VACANCY_PUSHES", want: "the URL of a queue",
		set: func(s *Settings, v string) bool { s.Pushes = v; return isBase(v) && QueueName(v) != "" }}
	turns = variable{name: "VACANCY_TURNS", want: "a number of turns from 1 to 1000",
		set: func(s *Settings, v string) (ok bool) {
			n, err := strconv.Atoi(v)
			s.Turns = n
			return err == nil && n >= 1 && n <= 1000
		}}
	machine = variable{name: "VACANCY_GATE", want: "the ARN of a state machine",
		set: func(s *Settings, v string) bool { s.Machine = v; return isMachine(v) }}
	thinkARN = variable{name: "VACANCY_THINK", want: "the ARN of a Lambda function, or nothing where there are no models",
		set: func(s *Settings, v string) bool { s.Think = v; return substrate.CheckFunction(v) == nil }}
	rowsStream = variable{name: "VACANCY_ROWS_STREAM", want: "the ARN of a table's stream",
		set: func(s *Settings, v string) bool { s.RowsStream = v; return isStream(v) }}
	searcher = variable{name: "VACANCY_SEARCH", want: "the ARN of a Lambda function",
		set: func(s *Settings, v string) bool { s.Searcher = v; return substrate.CheckFunction(v) == nil }}
)

// The formats are checked without regular expressions, which would be compiled at every start.

const (
	small  = "abcdefghijklmnopqrstuvwxyz"
	large  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

func consistsOf(s string, least, maxLen int, set string) bool {
	return len(s) >= least && len(s) <= maxLen && strings.Trim(s, set) == ""
}

func isTable(s string) bool { return consistsOf(s, 3, 255, small+large+digits+"_.-") }

func resourceIn(s, service string) string {
	p := strings.SplitN(s, ":", 6)
	if len(p) < 6 || p[0] != "arn" || !strings.HasPrefix(p[1], "aws") || !consistsOf(p[1], 3, 20, small+"-") || p[2] != service ||
		// The format is arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE.
		!consistsOf(p[3], 1, 40, small+digits+"-") || !consistsOf(p[4], 12, 12, digits) {
		return ""
	}
	return p[5]
}

func isMachine(s string) bool {
	// The format is arn:PARTITION:states:REGION:ACCOUNT:stateMachine:NAME.
	name, ok := strings.CutPrefix(resourceIn(s, "states"), "stateMachine:")
	return ok && consistsOf(name, 1, 80, small+large+digits+"-_")
}

func isStream(s string) bool {
	// The format is arn:PARTITION:dynamodb:REGION:ACCOUNT:table/TABLE/stream/LABEL.
	table, label, _ := strings.Cut(resourceIn(s, "dynamodb"), "/stream/")
	table, ok := strings.CutPrefix(table, "table/")
	return ok && isTable(table) && consistsOf(label, 1, 40, large+digits+":.-")
}

func isKMS(s string) bool {
	// The format is arn:PARTITION:kms:REGION:ACCOUNT:key/ID.
	id, ok := strings.CutPrefix(resourceIn(s, "kms"), "key/")
	return ok && consistsOf(id, 1, 80, small+large+digits+"-")
}

func isHexKey(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32
}

func isSecret(s string) bool {
	// A secret may contain only characters that a header transports unchanged.
	for _, r := range s {
		if r <= ' ' || r > '~' || r == ',' {
			return false
		}
	}
	return len(s) >= leastSecret
}

func isBase(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}
