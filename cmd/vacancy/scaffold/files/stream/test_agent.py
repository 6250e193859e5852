import unittest

import agent


class AgentTest(unittest.TestCase):
    def test_answers_in_pieces(self):
        pieces = list(agent.answer({"message": "a letter of some length"}))
        self.assertTrue("".join(pieces))  # whatever your answer says; test more of it here


if __name__ == "__main__":
    unittest.main()
