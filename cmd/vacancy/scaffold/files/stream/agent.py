"""{{.Name}}: an agent whose answers come in pieces.
Run it: {{.Language.Start}} (PORT chooses another port). Test it: {{.Language.Test}}
"""

import time

from server import run

PAUSE = 0.05  # seconds before each piece, in which your program works


def answer(question):
    """Yield the text for question["message"] in pieces, from question["caller"].

    question["context_id"] is the caller's thread, or None. Callers that stream see each
    piece at once; others get the whole text.
    """
    text = "You wrote: " + question["message"]
    size = max(8, len(text) // 20)
    for start in range(0, len(text), size):
        time.sleep(PAUSE)
        yield text[start : start + size]


if __name__ == "__main__":
    run(answer, {{.Port}})
