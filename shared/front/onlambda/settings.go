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

// Settings contains a function's settings from its environment.
type Settings struct {
	setting.Host
	Stage      string
	Tables     dynamo.TableNames // VACANCY_ROWS, VACANCY_DOCS
	Bucket     string            // VACANCY_BLOBS
	SealKey    string            // VACANCY_SEAL_KEY: the ARN of a KMS key, or 64 hexadecimal digits
	HostKey    string            // VACANCY_HOST_KEY; "" means a software identity
	URL        string            // VACANCY_URL; "" means the URL in the store
	GatewayURL string            // VACANCY_GATEWAY_URL; "" means URL
	// EdgeSecrets (VACANCY_EDGE_SECRET and VACANCY_EDGE_SECRET_BEFORE) contains the secrets of the
	// CloudFront distribution, the current one first.
	EdgeSecrets []string
	// ReadRate (VACANCY_READS) limits the read units of an instance. Zero means no limit.
	ReadRate edge.Rate
	// PageReadRate (VACANCY_PAGE_READS) limits the read units of GET requests.
	PageReadRate edge.Rate
	// PutRate and GetRate (VACANCY_PUTS, VACANCY_GETS) limit the object writes and reads of an
	// instance.
	PutRate, GetRate edge.Rate
	// ThinkARN (VACANCY_THINK) is "" if the stage has no models.
	ThinkARN                   string
	TaskQueueURL, PushQueueURL string // VACANCY_TASKS, VACANCY_PUSHES
	// MaxTurns (VACANCY_TURNS) limits the concurrent turns (runs of an agent) of all workers
	// together.
	MaxTurns      int
	RowsStreamARN string // VACANCY_ROWS_STREAM
	SearchARN     string // VACANCY_SEARCH
	// FunctionURLs contains the base URLs of functions by name, for example VACANCY_AGENT_URL.
	FunctionURLs map[string]string
	// StateMachineARN (VACANCY_GATE) is the ARN of the gate's state machine.
	StateMachineARN string
}

type variable struct {
	name          string
	required      bool
	expectedValue string
	hidden        bool // the value is never shown
	setValue      func(s *Settings, value string) bool
}

// ReadSettings ignores variables that f does not use, because f's role may have no rights for their
// resources. Its error names every missing or malformed variable.
func ReadSettings(f functions.Function, getenv func(string) string) (Settings, error) {
	var s Settings
	var problems []string
	var vars []variable
	values := setting.Values{Host: setting.Host{Retention: textkeys.MinRetention}}
	for _, row := range setting.Table() {
		if row.IsReadBy(f.Name, f.URL) {
			vars = append(vars, variable{name: row.Variable, required: row.Required, expectedValue: row.ExpectedValue(), setValue: func(_ *Settings, text string) bool { return row.Read(text, &values) == nil }})
		}
	}
	for _, v := range variables() {
		if f.HasVariable(v.name) {
			v.required = f.RequiresVariable(v.name)
			vars = append(vars, v)
		}
	}
	for _, v := range vars {
		value := getenv(v.name)
		switch {
		case value == "" && v.required:
			problems = append(problems, v.name+": expected "+v.expectedValue+", got nothing")
		case value == "" || v.setValue(&s, value):
		case v.hidden:
			problems = append(problems, v.name+": expected "+v.expectedValue+", got "+strconv.Itoa(len(value))+" other characters")
		default:
			problems = append(problems, v.name+": expected "+v.expectedValue+", got "+fmt.Sprintf("%.80q", value))
		}
	}
	if len(s.EdgeSecrets) > 0 && s.EdgeSecrets[0] == "" {
		problems = append(problems, "VACANCY_EDGE_SECRET: expected the secret that follows VACANCY_EDGE_SECRET_BEFORE, got nothing")
	}
	s.Stage, s.Host = values.Stage, values.Host
	if problems != nil {
		return Settings{}, problem.New(problem.Usage, "environment: %s", strings.Join(problems, "; "))
	}
	return s, nil
}

func variables() []variable {
	return []variable{
		rows, docs, blobs, sealKey, hostKey, publicURL, gatewayURL, edgeSecret, edgeSecretBefore, reads, pageReads, puts, gets,
		tasks, pushes, turns, gateMachineARN, thinkARN, rowsStream, searchFunctionARN,
		functionURLVariable(functions.Agent), functionURLVariable(functions.Message), functionURLVariable(functions.Registry), functionURLVariable(functions.Search),
	}
}

func functionURLVariable(f functions.Function) variable {
	return variable{name: "VACANCY_" + strings.ToUpper(f.Name) + "_URL", expectedValue: "the URL of the function " + f.Name,
		setValue: func(s *Settings, v string) bool {
			if s.FunctionURLs == nil {
				s.FunctionURLs = map[string]string{}
			}
			s.FunctionURLs[f.Name] = strings.TrimRight(v, "/")
			return isBaseURL(v)
		}}
}

const minSecretLength = 32

var (
	rows = variable{name: "VACANCY_ROWS", expectedValue: "the name of a table",
		setValue: func(s *Settings, v string) bool { s.Tables.Rows = v; return isTableName(v) }}
	docs = variable{name: "VACANCY_DOCS", expectedValue: "the name of a table",
		setValue: func(s *Settings, v string) bool { s.Tables.Docs = v; return isTableName(v) }}
	blobs = variable{name: "VACANCY_BLOBS", expectedValue: "the name of a bucket",
		setValue: func(s *Settings, v string) bool { s.Bucket = v; return consistsOf(v, 3, 63, lowerCase+digits+".-") }}
	sealKey = variable{name: "VACANCY_SEAL_KEY", expectedValue: "the ARN of a KMS key, or 64 hex digits", hidden: true,
		setValue: func(s *Settings, v string) bool { s.SealKey = v; return isKMSKeyARN(v) || isHexKey(v) }}
	hostKey = variable{name: "VACANCY_HOST_KEY", expectedValue: "the ARN of a KMS key, or nothing for a software identity",
		setValue: func(s *Settings, v string) bool { s.HostKey = v; return isKMSKeyARN(v) }}
	publicURL = variable{name: "VACANCY_URL", expectedValue: "http://HOST or https://HOST with an optional path, or nothing to use the URL in the store",
		setValue: func(s *Settings, v string) bool { s.URL = v; return isBaseURL(v) }}
	gatewayURL = variable{name: "VACANCY_GATEWAY_URL", expectedValue: "as VACANCY_URL, or nothing if VACANCY_URL is also the URL of accounts and AGP",
		setValue: func(s *Settings, v string) bool { s.GatewayURL = v; return isBaseURL(v) }}
	edgeSecret = variable{name: "VACANCY_EDGE_SECRET", expectedValue: "at least 32 printable characters without comma and blank, or nothing if the stage has no edge", hidden: true,
		setValue: func(s *Settings, v string) bool { s.EdgeSecrets = []string{v}; return isSecret(v) }}
	edgeSecretBefore = variable{name: "VACANCY_EDGE_SECRET_BEFORE", expectedValue: "as VACANCY_EDGE_SECRET", hidden: true,
		setValue: func(s *Settings, v string) bool {
			if s.EdgeSecrets == nil {
				s.EdgeSecrets = []string{""}
			}
			s.EdgeSecrets = append(s.EdgeSecrets, v)
			return isSecret(v)
		}}
	reads = variable{name: "VACANCY_READS", expectedValue: "units-per-second:burst such as 12.5:50, or nothing for no limit",
		setValue: func(s *Settings, v string) (ok bool) { s.ReadRate, ok = edge.ParseRate(v); return ok }}
	pageReads = variable{name: "VACANCY_PAGE_READS", expectedValue: "units-per-second:burst such as 4.4:17, or nothing for no limit",
		setValue: func(s *Settings, v string) (ok bool) { s.PageReadRate, ok = edge.ParseRate(v); return ok }}
	puts = variable{name: "VACANCY_PUTS", expectedValue: "objects-per-second:burst such as 0.5:60, or nothing for no limit",
		setValue: func(s *Settings, v string) (ok bool) { s.PutRate, ok = edge.ParseRate(v); return ok }}
	gets = variable{name: "VACANCY_GETS", expectedValue: "objects-per-second:burst such as 4:480, or nothing for no limit",
		setValue: func(s *Settings, v string) (ok bool) { s.GetRate, ok = edge.ParseRate(v); return ok }}
	tasks = variable{name: "VACANCY_TASKS", expectedValue: "the URL of a queue",
		setValue: func(s *Settings, v string) bool { s.TaskQueueURL = v; return isBaseURL(v) && QueueName(v) != "" }}
	pushes = variable{name: "VACANCY_PUSHES", expectedValue: "the URL of a queue",
		setValue: func(s *Settings, v string) bool { s.PushQueueURL = v; return isBaseURL(v) && QueueName(v) != "" }}
	turns = variable{name: "VACANCY_TURNS", expectedValue: "a number of turns from 1 to 1000",
		setValue: func(s *Settings, v string) (ok bool) {
			n, err := strconv.Atoi(v)
			s.MaxTurns = n
			return err == nil && n >= 1 && n <= 1000
		}}
	gateMachineARN = variable{name: "VACANCY_GATE", expectedValue: "the ARN of a state machine",
		setValue: func(s *Settings, v string) bool { s.StateMachineARN = v; return isStateMachineARN(v) }}
	thinkARN = variable{name: "VACANCY_THINK", expectedValue: "the ARN of a Lambda function, or nothing where there are no models",
		setValue: func(s *Settings, v string) bool { s.ThinkARN = v; return substrate.CheckFunction(v) == nil }}
	rowsStream = variable{name: "VACANCY_ROWS_STREAM", expectedValue: "the ARN of a table's stream",
		setValue: func(s *Settings, v string) bool { s.RowsStreamARN = v; return isStreamARN(v) }}
	searchFunctionARN = variable{name: "VACANCY_SEARCH", expectedValue: "the ARN of a Lambda function",
		setValue: func(s *Settings, v string) bool { s.SearchARN = v; return substrate.CheckFunction(v) == nil }}
)

// The formats are checked without regular expressions, which would be compiled at every start.

const (
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	upperCase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits    = "0123456789"
)

func consistsOf(s string, minLen, maxLen int, charset string) bool {
	return len(s) >= minLen && len(s) <= maxLen && strings.Trim(s, charset) == ""
}

func isTableName(s string) bool { return consistsOf(s, 3, 255, lowerCase+upperCase+digits+"_.-") }

func arnResource(s, service string) string {
	arnFields := strings.SplitN(s, ":", 6)
	if len(arnFields) < 6 || arnFields[0] != "arn" || !strings.HasPrefix(arnFields[1], "aws") || !consistsOf(arnFields[1], 3, 20, lowerCase+"-") || arnFields[2] != service ||
		// The format is arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE.
		!consistsOf(arnFields[3], 1, 40, lowerCase+digits+"-") || !consistsOf(arnFields[4], 12, 12, digits) {
		return ""
	}
	return arnFields[5]
}

func isStateMachineARN(s string) bool {
	// The format is arn:PARTITION:states:REGION:ACCOUNT:stateMachine:NAME.
	name, ok := strings.CutPrefix(arnResource(s, "states"), "stateMachine:")
	return ok && consistsOf(name, 1, 80, lowerCase+upperCase+digits+"-_")
}

func isStreamARN(s string) bool {
	// The format is arn:PARTITION:dynamodb:REGION:ACCOUNT:table/TABLE/stream/LABEL.
	table, label, _ := strings.Cut(arnResource(s, "dynamodb"), "/stream/")
	table, ok := strings.CutPrefix(table, "table/")
	return ok && isTableName(table) && consistsOf(label, 1, 40, upperCase+digits+":.-")
}

func isKMSKeyARN(s string) bool {
	// The format is arn:PARTITION:kms:REGION:ACCOUNT:key/ID.
	id, ok := strings.CutPrefix(arnResource(s, "kms"), "key/")
	return ok && consistsOf(id, 1, 80, lowerCase+upperCase+digits+"-")
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
	return len(s) >= minSecretLength
}

func isBaseURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}
