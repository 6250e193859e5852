package policy

import "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"

// InLambda lists grants that the tests on LocalStack do not use, as "FUNCTION SID" and "FUNCTION SID ACTION". A whole run of
// tests/lambda uses each of them, or fails.
var InLambda = []string{
	"admin FileNames", "admin FileNames s3:ListBucket", "agent FileNames", "agent FileNames s3:ListBucket",
	"agent Seal", "agent Seal kms:Encrypt",
	"checkpointer Seal", "checkpointer Seal kms:Encrypt",
	"commit Rows dynamodb:GetItem",
	"indexer Snapshots s3:DeleteObject",
	"message Seal", "message Seal kms:Encrypt",
	"meter Exports", "meter Exports s3:GetObject", "meter Exports s3:PutObject",
	"prober DocsUpdateItem", "prober DocsUpdateItem dynamodb:UpdateItem",
	"registry DocsDeleteItem", "registry DocsDeleteItem dynamodb:DeleteItem",
	"search SnapshotNames", "search SnapshotNames s3:ListBucket",
	"sweeper FileNames", "sweeper FileNames s3:ListBucket", "sweeper Files", "sweeper Files s3:DeleteObject",
	"sweeper Rows dynamodb:GetItem", "sweeper Sends", "sweeper Sends sqs:SendMessage",
	"worker FileNames", "worker FileNames s3:ListBucket",
	"worker HostGetPublicKey", "worker HostGetPublicKey kms:GetPublicKey",
	"worker Rows dynamodb:GetItem", "worker Seal", "worker Seal kms:Encrypt", "worker Sends",
}

// OfService returns the grants of a function's role that only Lambda uses, in the form of InLambda. No program here makes
// these calls, and LocalStack makes none of them: Lambda lists the streams of a table when it connects one, sends what
// tamper failed ten times to a queue, and writes the log of web, which has no pages without an edge.
func OfService(f functions.Function) (all []string) {
	if f.SourceTable != "" {
		all = append(all, f.Name+" Streams", f.Name+" Streams dynamodb:ListStreams")
	}
	switch f {
	case functions.Tamper:
		all = append(all, f.Name+" Lost", f.Name+" Lost sqs:SendMessage")
	case functions.Web:
		all = append(all, f.Name+" OwnLog", f.Name+" OwnLog logs:CreateLogStream", f.Name+" OwnLog logs:PutLogEvents")
	}
	return all
}
