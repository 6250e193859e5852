import unittest

import agent


class AgentTest(unittest.TestCase):
    def test_answers_in_pieces(self):
        pieces = list(agent.answer({"message": "a letter of some length"}))
        self.assertEqual("".join(pieces), "You wrote: a letter of some length")
        self.assertGreater(len(pieces), 2)


if __name__ == "__main__":
    unittest.main()
