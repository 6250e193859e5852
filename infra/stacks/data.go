package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	ddb "github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

type dataStack struct {
	stack      awscdk.Stack
	rows, docs ddb.TableV2
	blobs      awss3.Bucket
	atRestKey  awskms.Key // encrypts tables, bucket, logs and alarms
	sealKey    awskms.Key // seals the host's secrets
	hostKey    awskms.Key // signs as the host; nil if the host has a software key, sealed in docs
}

func newDataStack(app constructs.Construct, in Input) dataStack {
	d := dataStack{stack: newStack(app, in, "data", "Vacancy "+in.Settings.Stage+": tables, bucket and keys")}
	d.atRestKey = newAtRestKey(d.stack, in)
	d.sealKey = newSealKey(d.stack, in)
	d.rows = newRowsTable(d.stack, in, d.atRestKey)
	d.docs = newDocsTable(d.stack, in, d.atRestKey)
	d.blobs = newBlobBucket(d.stack, in, d.atRestKey)
	addOutput(d.stack, "Rows", d.rows.TableName(), "table of immutable rows")
	addOutput(d.stack, "Docs", d.docs.TableName(), "table of documents")
	addOutput(d.stack, "RowsStream", d.rows.TableStreamArn(), "stream of changes to rows")
	addOutput(d.stack, "DocsStream", d.docs.TableStreamArn(), "stream of changes to documents")
	addOutput(d.stack, "Blobs", d.blobs.BucketName(), "bucket of large bodies and of the search index")
	addOutput(d.stack, "SealKey", d.sealKey.KeyArn(), "KMS key that seals seeds and text keys")
	if in.Settings.HostKey == "kms" {
		d.hostKey = newHostKey(d.stack, in)
		addOutput(d.stack, "HostKey", d.hostKey.KeyArn(), "KMS key that is the host's identity")
	}
	// If a first deployment fails, only this stack exists. It therefore stores the settings too,
	// without the values that each deployment changes.
	addOutput(d.stack, setting.StoredOutput, str(setting.FormatStored(setting.OmitDeployContexts(in.Settings.StoredContext))), storedOutputDescription)
	return d
}

func (d dataStack) streamARN(table string) *string {
	if table == functions.DocsTable {
		return d.docs.TableStreamArn()
	}
	return d.rows.TableStreamArn()
}

// newRowsTable sets no expiry, because rows are never deleted.
func newRowsTable(s awscdk.Stack, in Input, key awskms.IKey) ddb.TableV2 {
	props := tableProps(in, key, cost.RowsReads, cost.RowsWrites)
	props.PartitionKey = &ddb.Attribute{Name: str("pk"), Type: ddb.AttributeType_BINARY}
	props.SortKey = &ddb.Attribute{Name: str("sk"), Type: ddb.AttributeType_NUMBER}
	props.DynamoStream = ddb.StreamViewType_NEW_AND_OLD_IMAGES
	t := ddb.NewTableV2(s, str("Rows"), props)
	setLogicalID(t, "Rows")
	return t
}

const docsIndexName = "listed"

// newDocsTable creates the table of documents. The stream carries keys only, because some documents
// contain secrets.
func newDocsTable(s awscdk.Stack, in Input, key awskms.IKey) ddb.TableV2 {
	props := tableProps(in, key, cost.DocsReads, cost.DocsWrites)
	props.PartitionKey = &ddb.Attribute{Name: str("pk"), Type: ddb.AttributeType_STRING}
	props.SortKey = &ddb.Attribute{Name: str("sk"), Type: ddb.AttributeType_STRING}
	props.GlobalSecondaryIndexes = &[]*ddb.GlobalSecondaryIndexPropsV2{{
		IndexName:            str(docsIndexName),
		PartitionKey:         &ddb.Attribute{Name: str("xp"), Type: ddb.AttributeType_STRING},
		SortKey:              &ddb.Attribute{Name: str("xs"), Type: ddb.AttributeType_STRING},
		ProjectionType:       ddb.ProjectionType_ALL,
		MaxReadRequestUnits:  num(in.Settings.Limits[cost.IndexReads]),
		MaxWriteRequestUnits: num(in.Settings.Limits[cost.IndexWrites]),
	}}
	props.DynamoStream = ddb.StreamViewType_KEYS_ONLY
	props.TimeToLiveAttribute = str("t")
	t := ddb.NewTableV2(s, str("Docs"), props)
	setLogicalID(t, "Docs")
	return t
}

// tableProps sets no table name, because a fixed name could already belong to a restored or
// retained table.
func tableProps(in Input, key awskms.IKey, reads, writes string) *ddb.TablePropsV2 {
	return &ddb.TablePropsV2{
		Billing: ddb.Billing_OnDemand(&ddb.MaxThroughputProps{
			MaxReadRequestUnits:  num(in.Settings.Limits[reads]),
			MaxWriteRequestUnits: num(in.Settings.Limits[writes]),
		}),
		Encryption:                       ddb.TableEncryptionV2_CustomerManagedKey(key, nil),
		PointInTimeRecoverySpecification: &ddb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: yes()},
		DeletionProtection:               flag(in.Settings.RetainData),
		RemovalPolicy:                    removalPolicy(in.Settings),
	}
}

const snapshotPrefix = "search/"

// newBlobBucket creates a bucket that `vacancy destroy` empties, because a stack could do that only
// by a custom resource.
func newBlobBucket(s awscdk.Stack, in Input, key awskms.IKey) awss3.Bucket {
	b := awss3.NewBucket(s, str("Blobs"), &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		Encryption:        awss3.BucketEncryption_KMS, EncryptionKey: key, BucketKeyEnabled: yes(),
		EnforceSSL: yes(), MinimumTLSVersion: jsii.Number(1.2),
		Versioned: yes(),
		LifecycleRules: &[]*awss3.LifecycleRule{{
			Id:                                  str("DropWhatWasReplaced"),
			AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(num(1)),
			NoncurrentVersionExpiration:         awscdk.Duration_Days(num(30)),
		}, {
			Id: str("DropOldIndexes"), Prefix: str(snapshotPrefix), NoncurrentVersionExpiration: awscdk.Duration_Days(num(1)), ExpiredObjectDeleteMarker: yes(),
		}},
		RemovalPolicy: emptyRemovalPolicy(in.Settings),
	})
	setLogicalID(b, "Blobs")
	suppressRule(b, "AwsSolutions-S1", "Only the host's own functions may read or write it, and each of their calls is a log line; access logs would need a second bucket, which would need logs in turn.")
	return b
}
