package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
)

const hoursOfMonth = 730

// report prints an estimate of what the stage has cost: the units in its log lines, and its part
// of a month's fixed costs, at list prices.
func (t *trial) report(ctx context.Context) error {
	templates, err := cloud.LoadTemplates(ctx, t.cloud, t.stage)
	if err != nil {
		return err
	}
	shape, err := cost.ParseTemplates(templates...)
	if err != nil {
		return err
	}
	groups, err := t.cloud.LogGroups(ctx, "/vacancy/"+t.stage+"/")
	if err != nil {
		return err
	}
	units := map[cost.Item]float64{}
	err = t.cloud.TailLogs(groups, t.began).Next(ctx, func(l cloud.LogLine) error {
		units[cost.LogBytes] += float64(len(l.Text)) / (1 << 30)
		var call struct{ Calls, WCU, RCU, KMS, MS float64 }
		f, ok := shape.Function(path.Base(l.Group))
		if json.Unmarshal([]byte(l.Text), &call) != nil || !ok {
			return nil
		}
		compute := cost.LambdaX86
		if f.Arm {
			compute = cost.LambdaArm
		}
		units[cost.LambdaRequests] += call.Calls
		units[compute] += call.MS / 1000 * float64(f.MemoryMB) / 1024
		units[cost.WriteUnits] += call.WCU
		units[cost.ReadUnits] += call.RCU
		units[cost.KMSRequests] += call.KMS
		return nil
	})
	if err != nil {
		return err
	}
	prices := cost.RegionPrices(t.cloud.Region())
	age, month := time.Since(t.began), cost.Sum(cost.MonthlyCosts(shape, prices))
	sum := month * age.Hours() / hoursOfMonth
	fmt.Printf("\n== cost, at list prices of %s (%s)\n", prices.Region, prices.PriceMonth)
	fmt.Printf("%-34s %12.0f min  $%.4f\n", fmt.Sprintf("keys, alarms: $%.2f a month", month), age.Minutes(), sum)
	for _, item := range []cost.Item{cost.LambdaRequests, cost.LambdaArm, cost.LambdaX86, cost.WriteUnits, cost.ReadUnits, cost.KMSRequests, cost.LogBytes} {
		p, n := prices.Prices[item], units[item]
		usd := n / p.Per * p.USD
		sum += usd
		fmt.Printf("%-34s %12.3f %-12s $%.4f\n", item, n, p.Unit, usd)
	}
	fmt.Printf("sum $%.2f, without: Lambda's start of instances and graduation steps, requests to SQS, S3 and Step Functions,\n"+
		"streams, metrics, storage, transfer, CloudFront, the requests of the tests themselves, lines that CloudWatch does not\n"+
		"show yet, free tiers. The bill says it a day later: Cost Explorer, by the tag vacancy-stage.\n", sum)
	return nil
}
