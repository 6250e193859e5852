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
	s, err := l.runningServer(ctx)
	if err != nil {
		return err
	}
	stacks, err := listStacks(ctx, s)
	if err != nil {
		return err
	}
	functions, err := listFunctions(ctx, s)
	if err != nil {
		return err
	}
	instances, err := s.Instances(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(l.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "server\t%s\thealthy, process %d\n", s.URL, s.PID)
	fmt.Fprintf(w, "log\t%s\n", s.LogPath)
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
			state = "busy"
		}
		fmt.Fprintf(w, "process\t%s\t%d\t%s\tinvocations: %d\n", i.Function, i.PID, state, i.Invocations)
	}
	skipped, err := s.ReadSkippedResources()
	if err != nil {
		return err
	}
	for _, line := range skipped {
		fmt.Fprintf(w, "skipped\t%s\n", line)
	}
	return w.Flush()
}

func awsConfig(s *server.Server) aws.Config {
	return aws.Config{
		Region: server.Region, BaseEndpoint: aws.String(s.URL),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}

type stack struct{ name, status string }

func listStacks(ctx context.Context, s *server.Server) (stacks []stack, err error) {
	paginator := cloudformation.NewDescribeStacksPaginator(cloudformation.NewFromConfig(awsConfig(s)), &cloudformation.DescribeStacksInput{})
	for paginator.HasMorePages() {
		page, err := paginator.NextPage(ctx)
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

func listFunctions(ctx context.Context, s *server.Server) (names []string, err error) {
	paginator := lambda.NewListFunctionsPaginator(lambda.NewFromConfig(awsConfig(s)), &lambda.ListFunctionsInput{})
	for paginator.HasMorePages() {
		page, err := paginator.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, function := range page.Functions {
			names = append(names, *function.FunctionName)
		}
	}
	return names, nil
}
