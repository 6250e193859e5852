package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/vacancy-host/vacancy/localstack/server"
)

func (l laptop) status(ctx context.Context) error {
	s, err := l.running(ctx)
	if err != nil {
		return err
	}
	stacks, err := stacksOf(ctx, s)
	if err != nil {
		return err
	}
	functions, err := functionsOf(ctx, s)
	if err != nil {
		return err
	}
	instances, err := s.Instances(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(l.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "server\t%s\thealthy, process %d\n", s.URL, s.PID)
	fmt.Fprintf(w, "log\t%s\n", s.Log)
	for _, stack := range stacks {
		fmt.Fprintf(w, "stack\t%s\t%s\n", stack.name, stack.status)
	}
	for _, function := range functions {
		fmt.Fprintf(w, "function\t%s\n", function)
	}
	for _, i := range instances {
		state := "idle"
		switch {
		case i.PID == 0:
			state = "ended"
		case i.Busy:
			state = "at work"
		}
		fmt.Fprintf(w, "process\t%s\t%d\t%s\tinvocations: %d\n", i.Function, i.PID, state, i.Invocations)
	}
	skipped, err := s.ReadSkipped()
	if err != nil {
		return err
	}
	for _, line := range skipped {
		fmt.Fprintf(w, "skipped\t%s\n", line)
	}
	return w.Flush()
}

func config(s *server.Server) aws.Config {
	return aws.Config{
		Region: server.Region, BaseEndpoint: aws.String(s.URL),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}

type stack struct{ name, status string }

func stacksOf(ctx context.Context, s *server.Server) (stacks []stack, err error) {
	pages := cloudformation.NewDescribeStacksPaginator(cloudformation.NewFromConfig(config(s)), &cloudformation.DescribeStacksInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Stacks {
			if item.StackStatus == types.StackStatusDeleteComplete {
				continue // LocalStack lists deleted stacks, but AWS does not
			}
			stacks = append(stacks, stack{*item.StackName, string(item.StackStatus)})
		}
	}
	return stacks, nil
}

func functionsOf(ctx context.Context, s *server.Server) (names []string, err error) {
	pages := lambda.NewListFunctionsPaginator(lambda.NewFromConfig(config(s)), &lambda.ListFunctionsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, function := range page.Functions {
			names = append(names, *function.FunctionName)
		}
	}
	return names, nil
}
