import json
import threading
import unittest
from urllib.request import Request, urlopen

import agent


class AgentTest(unittest.TestCase):
    def ask(self, message):
        """What the agent answers to the request that a host sends."""
        server = agent.serve(0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            question = {"message": message, "caller": "c" * 64, "vacant": "d" * 64, "context_id": None}
            request = Request(
                f"http://127.0.0.1:{server.server_port}",
                json.dumps(question).encode(),
                {"Content-Type": "application/json"},
            )
            with urlopen(request, timeout=5) as reply:
                return json.load(reply)["text"]
        finally:
            server.shutdown()
            server.server_close()

    def test_answers(self):
        self.assertEqual(self.ask("Grüße"), "You wrote: Grüße")


if __name__ == "__main__":
    unittest.main()
