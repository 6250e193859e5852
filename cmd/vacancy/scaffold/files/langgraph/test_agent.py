import unittest

import agent


class AgentTest(unittest.TestCase):
    def ask(self, message, caller="ann", thread="letters"):
        return "".join(agent.answer({"message": message, "caller": caller, "context_id": thread, "id": "1"}))

    def test_remembers_a_thread_of_a_caller(self):
        for said in self.ask("one"), self.ask("two"), self.ask("three", caller="eve"), self.ask("four", thread=None):
            self.assertTrue(said)  # whatever your answer says; test more of it here
        for thread, heard in {"ann letters": ["one", "two"], "eve letters": ["three"], "ann 1": ["four"]}.items():
            state = agent.graph.get_state({"configurable": {"thread_id": thread}})
            self.assertEqual(state.values["heard"], heard)


if __name__ == "__main__":
    unittest.main()
