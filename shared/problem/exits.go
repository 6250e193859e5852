package problem

type ExitCode struct {
	Code    int
	Meaning string
}

func ExitCodes() []ExitCode {
	return []ExitCode{
		{ExitOK, "done"},
		{ExitFailed, "the operation failed, or verify found damage"},
		{ExitUsage, "wrong flags, arguments or names"},
		{ExitNotFound, "no such identity, vacant, target or file"},
		{ExitConflict, "the chain or the state does not allow it; the message names the command to run"},
		{ExitRefused, "the other side refused: closed, asleep, not paid, not allowed"},
		{ExitUntrusted, "an answer or a file did not verify"},
		{ExitUnavailable, "the host, the network or the store cannot be reached now; try again"},
		{ExitPending, "accepted, not yet answered; run the same command again"},
		{ExitCanceled, "interrupted"},
	}
}
