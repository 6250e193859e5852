"""What this project adds to LocalStack: Lambda functions as plain processes, a
record of every AWS call they make, faults on demand, and the gaps of version
4.14.0 that its stacks fall into.

Settings are read from the environment, by this file alone.
"""

import os
from pathlib import Path

# The folder of this run, which holds everything that is written. Absent in a
# container, where there is nothing to record and functions run elsewhere.
RUN = Path(os.environ["VACANCY_RUN"]) if os.environ.get("VACANCY_RUN") else None

# DynamoDB Local's install (lib, classes), and the java that runs it.
DYNAMODB = os.environ.get("VACANCY_DYNAMODB", "")
JAVA = os.environ.get("VACANCY_JAVA", "java")

# Stop function processes between invocations, as AWS does.
FREEZE = os.environ.get("VACANCY_FREEZE") == "1"

# The server ends when its standard input does: with the process that holds the
# other end of the pipe, however that died.
OWNED = os.environ.get("VACANCY_OWNED") == "1"
