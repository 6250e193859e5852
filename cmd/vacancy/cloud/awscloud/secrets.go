package awscloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// CloudFront sends the value with the label AWSCURRENT. A new value has pendingLabel until
// CloudFront sends it, so AWSCURRENT stays correct if a rotation is interrupted.
const (
	currentLabel = "AWSCURRENT"
	pendingLabel = "VACANCY_COMING"
)

func (c *Cloud) CurrentSecretVersion(ctx context.Context, secret string) (string, error) {
	labels, err := c.fetchLabels(ctx, secret)
	if err != nil {
		return "", err
	}
	if labels[currentLabel] == "" {
		return "", problem.New(problem.Damaged, "the secret %s has no current version", secret)
	}
	return labels[currentLabel], nil
}

// fetchLabels returns the ids of a secret's versions, keyed by label.
func (c *Cloud) fetchLabels(ctx context.Context, secret string) (map[string]string, error) {
	out, err := c.secrets.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &secret})
	if err != nil {
		return nil, ToProblem(err)
	}
	labels := map[string]string{}
	for version, names := range out.VersionIdsToStages {
		for _, name := range names {
			labels[name] = version
		}
	}
	return labels, nil
}

func (c *Cloud) PutSecretVersion(ctx context.Context, secret, version string) error {
	password, err := c.secrets.GetRandomPassword(ctx, &secretsmanager.GetRandomPasswordInput{
		PasswordLength: aws.Int64(43), ExcludePunctuation: aws.Bool(true),
	})
	if err != nil {
		return ToProblem(err)
	}
	_, err = c.secrets.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{
		SecretId: &secret, ClientRequestToken: &version, SecretString: password.RandomPassword, VersionStages: []string{pendingLabel},
	})
	return ToProblem(err)
}

func (c *Cloud) PromoteSecretVersion(ctx context.Context, secret, version string) error {
	labels, err := c.fetchLabels(ctx, secret)
	if err != nil {
		return err
	}
	if labels[currentLabel] == version {
		return nil
	}
	in := &secretsmanager.UpdateSecretVersionStageInput{SecretId: &secret, VersionStage: aws.String(currentLabel), MoveToVersionId: &version}
	if previous := labels[currentLabel]; previous != "" {
		in.RemoveFromVersionId = &previous
	}
	_, err = c.secrets.UpdateSecretVersionStage(ctx, in)
	return ToProblem(err)
}
