package awscloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
)

func (c *Cloud) MailSubscriptions(ctx context.Context, topic string) doctor.Mail {
	m := doctor.Mail{Topic: topic, Subscribers: map[string]bool{}}
	pages := sns.NewListSubscriptionsByTopicPaginator(sns.NewFromConfig(c.cfg), &sns.ListSubscriptionsByTopicInput{TopicArn: &topic})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return doctor.Mail{Topic: topic, Err: ToProblem(err)}
		}
		for _, s := range page.Subscriptions {
			if aws.ToString(s.Protocol) == "email" {
				address, arn := aws.ToString(s.Endpoint), aws.ToString(s.SubscriptionArn)
				// An address with several subscriptions counts as confirmed if one of them is
				// confirmed.
				m.Subscribers[address] = m.Subscribers[address] || arn != "PendingConfirmation" && arn != "Deleted"
			}
		}
	}
	return m
}
