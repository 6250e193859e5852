"""{{.Name}}: an agent that is a graph of LangGraph.
Run it: {{.Language.Start}}
Test it: .venv/bin/python -m unittest
"""

import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph

from server import run


class State(TypedDict):
    message: str
    heard: Annotated[list[str], operator.add]  # all messages of the thread


def hear(state):
    return {"heard": [state["message"]]}


def reply(state):
    write = get_stream_writer()  # callers that stream see each piece at once
    write("You wrote: " + state["message"])
    if len(state["heard"]) > 1:
        write(f" (and before: {state['heard'][-2]})")
    return {}


# A thread is remembered until the program ends. Other checkpointers of LangGraph keep it in a database.
graph = StateGraph(State).add_node(hear).add_node(reply).add_edge(START, "hear").add_edge("hear", "reply").compile(InMemorySaver())


def answer(question):
    """Yield what the graph writes about question["message"]."""
    thread = question["caller"] + " " + (question["context_id"] or question["id"])
    config = {"configurable": {"thread_id": thread}}
    yield from graph.stream({"message": question["message"]}, config, stream_mode="custom")


if __name__ == "__main__":
    run(answer, {{.Port}})
