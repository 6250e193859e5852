package awscloud

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/export/remote"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

// kept is a host's tables with a history, and a client that changes them
// without the store.
type kept struct {
	*hosttest.Caller
	client *dynamodb.Client
	names  dynamo.TableNames
	tables *cloud.Tables
}

func keep(t *testing.T) *kept {
	endpoint := dynamolocal.Start(t)
	names := dynamolocal.Tables(t, endpoint)
	client := dynamolocal.Client(endpoint, dynamo.WithReadRate(1e6, time.Now, cloud.Sleep))
	a := hosttest.Story(t, dynamo.New(client, names))
	return &kept{a, client, names, &cloud.Tables{TableStore: problemStore{dynamo.New(client, names)}, Vault: a.Vault}}
}

func (k *kept) key(s store.Stream, position string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberB{Value: []byte(s)}, "sk": &types.AttributeValueMemberN{Value: position},
	}
}

// overwrite changes a row as only the account's owner can.
func (k *kept) overwrite(s store.Stream, position string, change func(item map[string]types.AttributeValue)) {
	k.Helper()
	out, err := k.client.GetItem(k.Ctx, &dynamodb.GetItemInput{TableName: &k.names.Rows, Key: k.key(s, position)})
	k.Must(err)
	change(out.Item)
	_, err = k.client.PutItem(k.Ctx, &dynamodb.PutItemInput{TableName: &k.names.Rows, Item: out.Item})
	k.Must(err)
}

func (k *kept) remove(s store.Stream, position string) {
	_, err := k.client.DeleteItem(k.Ctx, &dynamodb.DeleteItemInput{TableName: &k.names.Rows, Key: k.key(s, position)})
	k.Must(err)
}

func flip(at int) func(map[string]types.AttributeValue) {
	return func(item map[string]types.AttributeValue) {
		item["d"].(*types.AttributeValueMemberB).Value[at] ^= 0x10
	}
}

// check runs fsck over a host's data and lists the findings as kind of stream,
// position and check.
func (k *kept) check(c fsck.Config) (fsck.Result, []string) {
	k.Helper()
	names := strings.NewReplacer(k.Pair().Requests().String(), "req", k.Pair().Responses().String(), "rsp", vacants.RecordKey(k.Demo.ID).String(), "record")
	var found []string
	c.ReportFinding = func(f fsck.Finding) error {
		at, _, _ := strings.Cut(f.String(), ": expected")
		found = append(found, names.Replace(at))
		return nil
	}
	c.Now = k.Now
	res, err := fsck.Run(k.Ctx, c)
	if err != nil {
		k.Fatalf("Run() = %v", err)
	}
	slices.Sort(found)
	return res, found
}

// checkBoth checks the tables, and the same data over the pages of an export
// function.
func (k *kept) checkBoth() (fsck.Result, []string) {
	k.Helper()
	res, found := k.check(fsck.Config{Source: k.tables, Vault: k.tables.Vault, Retention: hosttest.Retention})
	web, url := serve.InProcessClient(export.PagesHandler(export.Config{Source: dynamo.New(k.client, k.names), Vault: k.Vault, Now: k.Now, Retention: hosttest.Retention}))
	host, err := remote.Connect(k.Ctx, remote.Config{HTTP: web, URL: url})
	k.Must(err)
	paged, foundPaged := k.check(fsck.Config{Source: host, Vault: host.Vault(), Retention: host.Retention()})
	if diff := cmp.Diff(found, foundPaged); diff != "" || paged.Rows != res.Rows || paged.Streams != res.Streams {
		k.Errorf("over pages %+v, in the tables %+v (-tables +pages):\n%s", paged, res, diff)
	}
	return res, found
}

func TestARowOverwrittenInTheTableIsFoundAndNamed(t *testing.T) {
	k := keep(t)
	res, found := k.checkBoth()
	if want := (fsck.Result{Streams: 6, Rows: 37, SealedRows: 12, Vacants: 2}); res != want || found != nil {
		t.Fatalf("Run() = %+v, %v, want %+v and nothing found", res, found, want)
	}
	req, rsp := k.Pair().Requests(), k.Pair().Responses()
	k.overwrite(req, "8", flip(66))
	k.overwrite(rsp, "6", flip(210))
	if _, found := k.checkBoth(); !cmp.Equal(found, []string{"req row 8: signature", "rsp row 6: text"}) {
		t.Errorf("Run() after two rows were overwritten = %v", found)
	}
	k.overwrite(req, "8", flip(66))
	k.overwrite(rsp, "6", flip(210))

	k.remove(req, "4")
	if _, found := k.checkBoth(); !cmp.Equal(found, []string{"req row 4: position"}) {
		t.Errorf("Run() after a row was removed = %v", found)
	}
	k.overwrite(rsp, "9", func(item map[string]types.AttributeValue) {
		item["d"] = &types.AttributeValueMemberS{Value: "not bytes"}
	})
	if _, found := k.checkBoth(); !slices.Contains(found, "rsp row 9: row") {
		t.Errorf("Run() after a row of another type = %v", found)
	}
}

func TestARowFarBehindOrOfAForeignNameIsFound(t *testing.T) {
	k := keep(t)
	req := k.Pair().Requests()
	out, err := k.client.GetItem(k.Ctx, &dynamodb.GetItemInput{TableName: &k.names.Rows, Key: k.key(req, "16")})
	k.Must(err)
	for _, at := range []struct{ pk, sk string }{{string(req), "99999999999999999999"}, {string(k.Pair().Responses()), "-3"}, {"odd", "1"}} {
		item := k.key(store.Stream(at.pk), at.sk)
		item["a"], item["d"] = out.Item["a"], out.Item["d"]
		_, err := k.client.PutItem(k.Ctx, &dynamodb.PutItemInput{TableName: &k.names.Rows, Item: item})
		k.Must(err)
	}
	_, found := k.checkBoth()
	if want := []string{`"odd": stream`, "req row 17: row", "rsp row 1: row"}; !cmp.Equal(found, want) {
		t.Errorf("Run() = %v, want the foreign stream and the items at positions of no row: %v", found, want)
	}
}

func TestAWSErrorsKeepTheirText(t *testing.T) {
	client := dynamolocal.Client(dynamolocal.Start(t))
	gone := problemStore{dynamo.New(client, dynamo.TableNames{Rows: "gone-rows", Docs: "gone-docs"})}
	_, err := gone.Doc(t.Context(), store.Key{Partition: "p", Sort: "s"})
	if !problem.Is(err, problem.NotFound) {
		t.Errorf("Doc() without a table = %v, want NotFound", err)
	}
	err = gone.Walk(t.Context(), func(v store.View) error {
		_, _, err := v.Streams(t.Context(), "", 1, "")
		return err
	})
	if !problem.Is(err, problem.NotFound) {
		t.Errorf("Walk() without a table = %v, want NotFound", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gone.Doc(ctx, store.Key{Partition: "p", Sort: "s"}); !problem.Is(err, problem.Canceled) {
		t.Errorf("Doc() cancelled = %v, want Canceled", err)
	}
}
