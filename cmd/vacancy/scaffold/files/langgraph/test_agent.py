import unittest

import agent


class AgentTest(unittest.TestCase):
    def ask(self, message, caller="ann", thread="letters"):
        return "".join(agent.answer({"message": message, "caller": caller, "context_id": thread, "id": "1"}))

    def test_remembers_a_thread_of_a_caller(self):
        self.assertEqual(self.ask("one"), "You wrote: one")
        self.assertEqual(self.ask("two"), "You wrote: two (and before: one)")
        self.assertEqual(self.ask("three", caller="eve"), "You wrote: three")
        self.assertEqual(self.ask("four", thread=None), "You wrote: four")


if __name__ == "__main__":
    unittest.main()
