import hashlib
import hmac
import json
import threading
import time
import unittest
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import agent


class AgentTest(unittest.TestCase):
    def ask(self, message, secret=""):
        """What the agent answers to the request that a host sends."""
        server = agent.serve(0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            question = {"message": message, "caller": "c" * 64, "vacant": "d" * 64, "context_id": None}
            body, at = json.dumps(question).encode(), str(int(time.time()))
            mac = hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256)
            request = Request(
                f"http://127.0.0.1:{server.server_port}",
                body,
                {"Content-Type": "application/json", "Vacancy-Signature": f"t={at},v1={mac.hexdigest()}"},
            )
            with urlopen(request, timeout=5) as reply:
                return json.load(reply)["text"]
        finally:
            server.shutdown()
            server.server_close()

    def test_answers(self):
        said = self.ask("Grüße")
        self.assertIsInstance(said, str)
        self.assertTrue(said)  # whatever your answer says; test more of it here

    def test_refuses_unsigned_requests(self):
        agent.SECRET = "a secret of a test"
        try:
            self.assertTrue(self.ask("Hi", agent.SECRET))
            with self.assertRaises(HTTPError) as refused:
                self.ask("Hi", "another")
            refused.exception.close()
            self.assertEqual(refused.exception.code, 401)
        finally:
            agent.SECRET = ""


if __name__ == "__main__":
    unittest.main()
