import unittest

import agent


class AgentTest(unittest.TestCase):
    def test_answers(self):
        said = "".join(agent.answer({"message": "a long letter"}))
        self.assertTrue(said)  # whatever your answer says; test more of it here

    # Delete this test if your agent answers every message.
    def test_takes_no_money_for_nothing(self):
        with self.assertRaises(ValueError):
            list(agent.answer({"message": " "}))


if __name__ == "__main__":
    unittest.main()
