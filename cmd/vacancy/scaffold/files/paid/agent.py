"""{{.Name}}: an agent with a price a call.
Run it: {{.Language.Start}} (PORT chooses another port). Test it: {{.Language.Test}}
"""

from server import run


def answer(question):
    """Yield the text for question["message"].

    The host charges the caller once for an answer. A call for which answer raises an error is
    free.
    """
    words = question["message"].split()
    if not words:
        raise ValueError("nothing to answer")
    yield f"For your money: {len(words)} words, of which the longest is {max(words, key=len)}"


if __name__ == "__main__":
    run(answer, {{.Port}})
