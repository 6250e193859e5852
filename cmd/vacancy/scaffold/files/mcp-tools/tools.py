"""{{.Name}}'s tools: a server of the Model Context Protocol. agent.md names its URL, and the model that uses them.
Run it: {{.Language.Start}} (PORT chooses another port). Test it: {{.Language.Test}}
"""

from mcp_server import run

NOTES = {"fox": "Foxes are red.", "owl": "Owls hunt at night."}


def find(subject: str) -> str:
    """Find the note about a subject."""
    return NOTES[subject]


def note(subject: str, text: str) -> str:
    """Keep a note about a subject."""
    NOTES[subject] = text
    return "kept"


# Agents in mode read-only are offered only tools of the first list.
READS, WRITES = [find], [note]

if __name__ == "__main__":
    run(READS, WRITES, {{.Port}})
